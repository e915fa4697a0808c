//! The archive of a release: packed by the script that the release workflow calls, and tried from an empty directory.

use crate::support::{KVBENCH, RunToEnd};
use std::{fs, path::Path, process::Command};

fn tool(name: &str) -> Command {
    Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("tools").join(name))
}

#[test]
fn archive_of_a_release_serves_and_measures_from_an_empty_directory() {
    let dir = tempfile::tempdir().unwrap();
    let packed = tool("archive").args([KVBENCH, "test-target"]).arg(dir.path()).run_to_end();
    assert!(packed.status.success(), "{}", String::from_utf8_lossy(&packed.stderr));
    let name = concat!("kvbench-", env!("CARGO_PKG_VERSION"), "-test-target.tar.gz");
    let archive = dir.path().join(name);
    let tried = tool("try-archive").arg(&archive).run_to_end();
    assert!(tried.status.success(), "{}", String::from_utf8_lossy(&tried.stderr));

    // A changed archive does not match its checksum.
    let mut bytes = fs::read(&archive).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&archive, bytes).unwrap();
    assert!(!tool("try-archive").arg(&archive).run_to_end().status.success());
}

//! The archive of a release: packed by the script that the release workflow calls, and tried from an empty directory.

use crate::support::{KVBENCH, RunToEnd};
use std::{env, fs, os::unix::fs::PermissionsExt, path::Path, process::Command};

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

/// A container runtime for one container, which is a process of this machine. It notes how it is called.
const RUNTIME: &str = r#"#!/bin/sh
cd "$STATE" || exit 1
echo "$*" >>calls
case $1 in
run)
    shift 7 # run -d -p PORT -v VOLUME IMAGE
    mkdir -p data && cd data
    (
        "$PROGRAM" --port 0 "$@" &
        echo $! >../pid
        code=0
        wait $! || code=$?
        echo $code >../code
    ) </dev/null >../log 2>&1 &
    until grep -q ' address=' ../log || [ -e ../code ]; do sleep 0.05; done
    echo container
    ;;
port) sed -n 's/.* address=\([^ ]*\).*/\1/p' log ;;
logs) cat log ;;
stop)
    kill -TERM "$(cat pid)"
    until [ -e code ]; do sleep 0.05; done
    ;;
inspect) cat code ;;
rm)
    [ ! -e pid ] || [ -e code ] || kill -KILL "$(cat pid)"
    rm -f pid code log
    ;;
esac
"#;

#[test]
fn image_and_volume_of_a_trial_are_removed_after_it() {
    let dir = tempfile::tempdir().unwrap();
    let docker = dir.path().join("docker");
    fs::write(&docker, RUNTIME).unwrap();
    fs::set_permissions(&docker, fs::Permissions::from_mode(0o755)).unwrap();
    let path = env::var_os("PATH").unwrap();
    let path = [dir.path().to_owned()].into_iter().chain(env::split_paths(&path));
    let mut trial = tool("try-image");
    trial.env("PATH", env::join_paths(path).unwrap()).env("STATE", dir.path()).env("PROGRAM", KVBENCH);
    let tried = trial.run_to_end();
    assert!(tried.status.success(), "{}", String::from_utf8_lossy(&tried.stderr));

    let calls = fs::read_to_string(dir.path().join("calls")).unwrap();
    for call in ["volume rm -f kvbench-try-", "rmi -f kvbench-try-"] {
        assert!(calls.lines().any(|line| line.starts_with(call)), "no {call} in {calls}");
    }
}

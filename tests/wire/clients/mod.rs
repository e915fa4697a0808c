//! Programs and libraries as people use them, with the handshakes they make by default.

mod exporter;
mod libraries;
mod programs;
mod skipping;
mod versions;

pub use libraries::python;
#[cfg(feature = "tls")]
pub use libraries::session_py;

use crate::every_store::Running;
use kvbench::testing::skip_test::skip;
use std::{
    env, fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients");

/// A file of `tests/clients`.
pub fn source(file: &str) -> String {
    format!("{SOURCES}/{file}")
}

/// Runs `command` to its end and returns what it printed.
pub fn output(command: &mut Command, input: &[u8]) -> String {
    let mut process = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("cannot run {command:?} ({error}); run `make setup`"));
    process.stdin.take().unwrap().write_all(input).unwrap();
    let output = process.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    let (printed, complaint) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{printed}{complaint}", output.status);
    printed
}

/// A directory that outlives the test run, in which `install` has worked for these files of `tests/clients/FOLDER`.
fn installed(folder: &str, files: &[&str], install: impl FnOnce(&Path)) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("clients-{folder}"));
    let sources = Path::new(SOURCES).join(folder);
    let wanted: Vec<u8> = files.iter().flat_map(|file| fs::read(sources.join(file)).unwrap()).collect();
    let stamp = dir.join("installed");
    if fs::read(&stamp).ok().as_ref() != Some(&wanted) {
        let _ = fs::remove_dir_all(&dir);
        for file in files {
            let copy = dir.join(file);
            fs::create_dir_all(copy.parent().unwrap()).unwrap();
            fs::copy(sources.join(file), copy).unwrap();
        }
        install(&dir);
        fs::write(&stamp, wanted).unwrap();
    }
    dir
}

/// Returns `true` if a program is on this machine; otherwise a test is skipped.
fn has(program: &str, test: &str) -> bool {
    let paths = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&paths).any(|dir| dir.join(program).is_file());
    if !found {
        skip(test, &format!("no {program} on this machine"));
    }
    found
}

/// Returns `true` if there is a Go of version 1.`least` or later; otherwise a test is skipped.
fn has_go(least: u32, test: &str) -> bool {
    if !has("go", test) {
        return false;
    }
    let version = output(Command::new("go").args(["env", "GOVERSION"]), b"");
    let mut numbers =
        version.trim().trim_start_matches("go").split('.').map(|number| number.parse().unwrap_or(0));
    let is_new = (numbers.next(), numbers.next()) >= (Some(1), Some(least));
    if !is_new {
        skip(test, &format!("{} is older than go1.{least}", version.trim()));
    }
    is_new
}

fn port(running: &Running) -> String {
    running.server.address.port().to_string()
}

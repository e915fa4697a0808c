//! Running the program with exactly the arguments of a test.

use crate::support::{self, Client, KVBENCH, PATIENCE, Server};
use redis_protocol::resp2::types::OwnedFrame;
use std::{
    collections::BTreeMap,
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

/// A program that has ended.
pub struct Ended {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

/// Runs `kvbench` in `dir` until it ends by itself.
pub fn run(dir: &Path, args: &[&str]) -> Ended {
    // Outside `dir`, which tests look at.
    let output = tempfile::tempdir().unwrap();
    let [stdout, stderr] = ["stdout", "stderr"].map(|name| output.path().join(name));
    let mut process = Command::new(KVBENCH)
        .current_dir(dir)
        .args(args)
        .stdin(Stdio::null())
        .stdout(File::create(&stdout).unwrap())
        .stderr(File::create(&stderr).unwrap())
        .spawn()
        .unwrap();
    let status = wait(&mut process);
    let [stdout, stderr] = [stdout, stderr].map(|path| fs::read_to_string(path).unwrap());
    match status {
        Some(status) => Ended { status, stdout, stderr },
        None => panic!("{args:?} does not end: {stdout:?} {stderr:?}"),
    }
}

/// How the process ended, or `None` when it had to be killed.
fn wait(process: &mut Child) -> Option<ExitStatus> {
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        if let Some(status) = process.try_wait().unwrap() {
            return Some(status);
        }
        thread::sleep(Duration::from_millis(2));
    }
    let _ = process.kill();
    let _ = process.wait();
    None
}

/// Returns the path and bytes of every file below `path`, or of `path` itself.
pub fn contents(path: &Path) -> BTreeMap<String, Vec<u8>> {
    if !path.is_dir() {
        return BTreeMap::from([(path.display().to_string(), fs::read(path).unwrap())]);
    }
    fs::read_dir(path).unwrap().flat_map(|entry| contents(&entry.unwrap().path())).collect()
}

/// The one line with which `kvbench args` fails to start.
pub fn failure(dir: &Path, args: &[&str]) -> String {
    let ended = run(dir, args);
    assert_eq!(ended.status.code(), Some(1), "{args:?}: {}{}", ended.stdout, ended.stderr);
    assert_eq!(ended.stdout, "", "{args:?}");
    assert_eq!(ended.stderr.lines().count(), 1, "{args:?}: {}", ended.stderr);
    assert!(ended.stderr.starts_with("kvbench: "), "{args:?}: {}", ended.stderr);
    assert!(ended.stderr.matches("os error").count() <= 1, "says it twice: {}", ended.stderr);
    ended.stderr
}

/// What `kvbench args` says about arguments that make no sense.
pub fn misuse(args: &[&str]) -> String {
    let dir = tempfile::tempdir().unwrap();
    let said = misuse_in(dir.path(), args);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "{args:?} left something behind");
    said
}

/// The same in a directory of the test's.
pub fn misuse_in(dir: &Path, args: &[&str]) -> String {
    let ended = run(dir, args);
    assert_eq!(ended.status.code(), Some(2), "{args:?}: {}{}", ended.stdout, ended.stderr);
    assert_eq!(ended.stdout, "", "{args:?}");
    ended.stderr
}

/// Starts a server with `--port 0` and `args`.
pub fn serve(dir: &Path, args: &[&str]) -> Server {
    Server::start(dir, args)
}

/// Starts a server with no arguments but `args`; its standard error goes to the file that is returned.
pub fn serve_exactly(dir: &Path, args: &[&str]) -> (Server, PathBuf) {
    try_serve_exactly(dir, args).unwrap_or_else(|error| panic!("{error}"))
}

/// The same, or how the program ended before it served.
pub fn try_serve_exactly(dir: &Path, args: &[&str]) -> Result<(Server, PathBuf), String> {
    let log = dir.join("stderr");
    let mut process = Command::new(KVBENCH)
        .current_dir(dir)
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(File::create(&log).unwrap())
        .spawn()
        .unwrap();
    let start_line = support::start_line(&mut process);
    let Some(address) = field(&start_line, "address") else {
        return Err(format!("{args:?}: {:?} {:?}", process.wait(), fs::read_to_string(&log)));
    };
    let address = address.parse().unwrap();
    Ok((Server { process, address, start_line }, log))
}

/// A field of the start-up line.
pub fn field<'a>(start_line: &'a str, name: &str) -> Option<&'a str> {
    start_line.split_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
}

/// What CONFIG GET says.
pub fn setting(client: &mut Client, name: &str) -> String {
    match client.call(&["CONFIG", "GET", name]) {
        OwnedFrame::Array(pair) => match pair.as_slice() {
            [_, OwnedFrame::BulkString(value)] => String::from_utf8(value.clone()).unwrap(),
            other => panic!("CONFIG GET {name}: {other:?}"),
        },
        other => panic!("CONFIG GET {name}: {other:?}"),
    }
}

/// A field of INFO.
pub fn info(client: &mut Client, section: &str, name: &str) -> String {
    let OwnedFrame::BulkString(text) = client.call(&["INFO", section]) else { panic!("no INFO {section}") };
    let text = String::from_utf8(text).unwrap();
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    value.unwrap_or_else(|| panic!("INFO {section} has no {name}: {text}")).into()
}

//! The script `tools/cluster`, with the files of a cluster whose processes have ended, and with programs that fail.

use crate::support::{Program, RunToEnd};
use std::{
    env, fs,
    os::unix::{fs::PermissionsExt, process::ExitStatusExt},
    path::{Path, PathBuf},
    process::{Command, Output},
};

const SIGKILL: i32 = 9;

fn tool(kind: &str, home: &Path) -> Command {
    let mut tool = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tools/cluster"));
    tool.arg(kind).env("KVBENCH_CLUSTER", home);
    tool
}

fn script(home: &Path, words: &[&str]) -> Output {
    tool("redis", home).args(words).run_to_end()
}

/// Returns `tools/cluster` with programs in its `PATH` that fail. The program `go` prints that it has version `go`, and
/// fails in all other calls.
fn tool_without_programs(kind: &str, home: &Path, go: &str) -> Command {
    let bin = home.join("failing programs");
    fs::create_dir_all(&bin).unwrap();
    let go = format!("[ \"$1\" = env ] && echo {go}");
    let failing = ["unshare", "nsenter", "setsid", "ip", "curl", "python3", "redis-server", "redis-cli"];
    let failing = failing.map(|program| (program, "exit 1"));
    for (program, text) in failing.into_iter().chain([("go", go.as_str())]) {
        let file = bin.join(program);
        fs::write(&file, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let path = env::var_os("PATH").unwrap();
    let path = env::join_paths([bin].into_iter().chain(env::split_paths(&path))).unwrap();
    let mut tool = tool(kind, home);
    tool.env("PATH", path).env("TMPDIR", home);
    tool
}

/// Returns the directory with the data of a Redis Cluster below `home`, as the script makes it.
fn made(home: &Path) -> PathBuf {
    let data = home.join("redis");
    fs::create_dir(&data).unwrap();
    fs::write(data.join("made-by-tools-cluster"), "").unwrap();
    data
}

/// Writes the number and the start time of a process to a file, as the script does.
fn note(file: &Path, program: &Program) {
    /// Position of the start time in the fields after the name of the program.
    const START_TIME: usize = 19;

    let pid = program.process.id();
    let fields = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let start = fields.rsplit_once(") ").unwrap().1.split(' ').nth(START_TIME).unwrap();
    fs::write(file, format!("{pid} {start}\n")).unwrap();
}

/// After a restart of the machine, another process can have the number of one of the cluster.
#[test]
fn a_process_that_is_not_of_the_cluster_is_not_killed() {
    let home = tempfile::tempdir().unwrap();
    let data = made(home.path());
    let mut foreign = Program::start(Command::new("sleep").arg("600"));
    let pid = foreign.process.id();
    for (file, text) in [
        ("namespace", format!("{pid} 1\n")),
        ("node1.pid", format!("{pid} 1\n")),
        ("node2.pid", format!("{pid}\n")),
    ] {
        fs::write(data.join(file), text).unwrap();
    }
    for (words, message) in [
        (&["exec", "true"][..], "redis is not up"),
        (&["kill", "1"][..], "node 1 does not run"),
        (&["kill", "2"][..], "node 2 does not run"),
    ] {
        let output = script(home.path(), words);
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{words:?}: {text}");
        assert!(text.contains(message), "{words:?}: {text}");
    }
    assert!(script(home.path(), &["down"]).status.success());
    assert!(!data.exists());
    assert_eq!(foreign.process.try_wait().unwrap(), None);
}

#[test]
fn a_node_is_killed_by_its_number_and_start_time() {
    let home = tempfile::tempdir().unwrap();
    let data = made(home.path());
    let mut node = Program::start(Command::new("sleep").arg("600"));
    note(&data.join("node1.pid"), &node);
    let output = script(home.path(), &["kill", "1"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(node.process.wait().unwrap().signal(), Some(SIGKILL));
}

/// An `up` that failed or was interrupted leaves the process that keeps the network namespace.
#[test]
fn a_cluster_that_was_never_ready_is_started_anew() {
    let home = tempfile::tempdir().unwrap();
    let data = made(home.path());
    let mut keeper = Program::start(Command::new("sleep").arg("600"));
    note(&data.join("namespace"), &keeper);
    let up = || tool_without_programs("redis", home.path(), "go1.23.0").arg("up").run_to_end();

    fs::write(data.join("ready"), "").unwrap();
    let output = up();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(keeper.process.try_wait().unwrap(), None);

    fs::remove_file(data.join("ready")).unwrap();
    let output = up();
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("no network namespace"), "{text}");
    assert_eq!(keeper.process.wait().unwrap().signal(), Some(SIGKILL));
    assert!(!data.join("ready").exists());
}

#[test]
fn a_directory_of_the_user_is_not_removed() {
    let home = tempfile::tempdir().unwrap();
    let data = home.path().join("redis");
    fs::create_dir(&data).unwrap();
    assert!(script(home.path(), &["down"]).status.success(), "it is empty");
    fs::create_dir(&data).unwrap();
    fs::write(data.join("source.c"), "of the user").unwrap();
    for words in ["down", "up"] {
        let output = tool_without_programs("redis", home.path(), "go1.23.0").arg(words).run_to_end();
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{words}: {text}");
        assert!(text.contains("was not made by this script"), "{words}: {text}");
        assert_eq!(fs::read(data.join("source.c")).unwrap(), b"of the user", "{words}");
    }
}

#[test]
fn a_build_that_fails_starts_no_cluster() {
    let home = tempfile::tempdir().unwrap();
    let output = tool_without_programs("tikv", home.path(), "go1.23.0").arg("up").run_to_end();
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("building TiKV's placement driver"), "{text}");
    assert!(!home.path().join("tikv").exists(), "{text}");
}

#[test]
fn a_go_that_is_too_old_is_refused_by_its_version() {
    let home = tempfile::tempdir().unwrap();
    for (go, message) in [
        ("go1.19.8", "go1.19.8 is older than go1.23"),
        ("go1.22.5", "go1.22.5 is older than go1.23"),
        ("go1.23.0", "no network namespace"),
        ("go1.26.1-X:nocoverageredesign", "no network namespace"),
    ] {
        let output = tool_without_programs("tikv", home.path(), go).arg("can-run").run_to_end();
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{go}: {text}");
        assert!(text.contains(message), "{go}: {text}");
    }
}

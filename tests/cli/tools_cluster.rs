//! The script `tools/cluster`, with the files of a cluster whose processes have ended.

use crate::support::{Program, RunToEnd};
use std::{
    fs,
    os::unix::process::ExitStatusExt,
    path::Path,
    process::{Command, Output},
};

fn script(home: &Path, words: &[&str]) -> Output {
    let mut script = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tools/cluster"));
    script.arg("redis").args(words).env("KVBENCH_CLUSTER", home).run_to_end()
}

/// After a restart of the machine, another process can have the number of one of the cluster.
#[test]
fn a_process_that_is_not_of_the_cluster_is_not_killed() {
    let home = tempfile::tempdir().unwrap();
    let data = home.path().join("redis");
    fs::create_dir(&data).unwrap();
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
    const SIGKILL: i32 = 9;
    /// Position of the start time in the fields after the name of the program.
    const START_TIME: usize = 19;

    let home = tempfile::tempdir().unwrap();
    let data = home.path().join("redis");
    fs::create_dir(&data).unwrap();
    let mut node = Program::start(Command::new("sleep").arg("600"));
    let pid = node.process.id();
    let fields = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let start = fields.rsplit_once(") ").unwrap().1.split(' ').nth(START_TIME).unwrap();
    fs::write(data.join("node1.pid"), format!("{pid} {start}\n")).unwrap();
    let output = script(home.path(), &["kill", "1"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(node.process.wait().unwrap().signal(), Some(SIGKILL));
}

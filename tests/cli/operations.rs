//! What those need who run a server: its log, its readiness, a look at it, completions and a manual.

use crate::{program::run, support::Server};
use std::{
    fs::File,
    io::Read,
    os::unix::net::UnixDatagram,
    process::{Command, Stdio},
};

#[test]
fn the_log_may_be_json() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    let mut command = Command::new(crate::support::KVBENCH);
    let words = ["--path", ":memory:", "--bind", "0.0.0.0", "--log-format", "json"];
    command.args(words).current_dir(dir.path()).stderr(File::create(&log).unwrap());
    let server = Server::start_command(&mut command);
    drop(server);
    let mut text = String::new();
    File::open(&log).unwrap().read_to_string(&mut text).unwrap();
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"))).collect();
    let warning = lines.iter().find(|line| line["level"] == "WARN").expect("protected mode warns");
    assert!(warning["message"].as_str().unwrap().contains("--protected-mode"), "{warning}");
    assert!(warning["time"].as_str().unwrap().ends_with('Z'), "{warning}");
}

#[test]
fn the_service_manager_is_told_when_the_server_is_ready() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    let mut command = Command::new(crate::support::KVBENCH);
    command.args(["--path", ":memory:"]).current_dir(dir.path()).env("NOTIFY_SOCKET", &path);
    let _server = Server::start_command(command.stderr(Stdio::null()));
    let mut told = [0; 100];
    let len = socket.recv(&mut told).unwrap();
    assert_eq!(&told[..len], b"READY=1\n");
}

#[test]
fn top_shows_a_server_at_work() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("password"), "secret\n").unwrap();
    let server = Server::start(dir.path(), &["--path", "data", "--requirepass", "secret"]);
    let mut client = server.connect();
    client.call(&["AUTH", "secret"]);
    client.call(&["SET", "k", "v"]);
    let address = server.address.to_string();
    let ended = run(dir.path(), &["top", &address, "-n", "1", "--password-file", "password"]);
    assert!(ended.status.success(), "{}", ended.stderr);
    for part in [&*address, "map, fsync always", "clients 2", "keys 1", "commits/s", "set ", "calls/s"] {
        assert!(ended.stdout.contains(part), "no {part:?} in {}", ended.stdout);
    }
    let refused = run(dir.path(), &["top", &address, "-n", "1"]);
    assert!(refused.stderr.contains("--password-file"), "{}", refused.stderr);
    drop(server);
    let gone = run(dir.path(), &["top", &address, "-n", "1"]);
    assert!(!gone.status.success() && gone.stderr.contains(&address), "{}", gone.stderr);
}

#[test]
fn completions_and_the_manual_know_every_flag() {
    let dir = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish"] {
        let script = run(dir.path(), &["completions", shell]).stdout;
        for word in ["tcp-keepalive", "client-output-buffer-limit", "torture", "top"] {
            assert!(script.contains(word), "{shell}: no {word}");
        }
    }
    let page = run(dir.path(), &["man"]).stdout.replace("\\-", "-");
    for word in [".TH kvbench", "--client-output-buffer-limit", "KVBENCH BENCH", "--fail-above"] {
        assert!(page.contains(word), "no {word}");
    }
    let page = run(dir.path(), &["completions", "nosuch"]);
    assert!(!page.status.success() && page.stderr.contains("nosuch"));
}

//! Client libraries, each with a session of its own in `tests/clients`.

use super::{SOURCES, has, has_go, installed, output, port, source};
use crate::every_store::{Running, on_every_store, with_every_store};
use std::{
    cell::RefCell,
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::Mutex,
};

/// A Python that has redis-py; `None` if `test` is skipped. Several tests use it, one of which installs it.
pub fn python(test: &str) -> Option<PathBuf> {
    if !has("python3", test) {
        return None;
    }
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap();
    let dir = installed("python", &["requirements.txt"], |dir| {
        output(Command::new("python3").args(["-m", "venv", "."]).current_dir(dir), b"");
        let install = ["-m", "pip", "install", "--quiet", "-r", "requirements.txt"];
        output(Command::new(dir.join("bin/python")).args(install).current_dir(dir), b"");
    });
    Some(dir.join("bin/python"))
}

/// The session of redis-py.
pub fn session_py() -> String {
    source("python/session.py")
}

/// Runs a session to its end, which it tells.
fn run(session: &mut Command) {
    session.env("COMPLETE", "1");
    assert_eq!(output(session, b""), "done\n");
}

/// Runs one session that goes through the servers of all stores, for programs that are slow to start.
fn run_on_all(session: &mut Command) {
    let servers: RefCell<Vec<Running>> = RefCell::default();
    with_every_store(|running| servers.borrow_mut().push(running));
    run(session.args(servers.borrow().iter().map(port)));
}

#[test]
fn redis_py_runs_its_session_in_both_protocols() {
    let Some(python) = python("redis-py") else { return };
    on_every_store(|running| {
        for protocol in ["2", "3"] {
            println!("protocol {protocol}");
            run(Command::new(&python).args([&*session_py(), &port(running), protocol]));
        }
    });
}

#[test]
fn node_redis_and_ioredis_run_their_sessions_in_both_protocols() {
    if !["node", "npm"].iter().all(|program| has(program, "node-redis and ioredis")) {
        return;
    }
    let dir = installed("node", &["package.json"], |dir| {
        output(Command::new("npm").args(["install", "--no-audit", "--no-fund"]).current_dir(dir), b"");
    });
    // Node looks for the libraries beside the script.
    fs::copy(Path::new(SOURCES).join("node/session.mjs"), dir.join("session.mjs")).unwrap();
    on_every_store(|running| run(Command::new("node").arg(dir.join("session.mjs")).arg(port(running))));
}

#[test]
fn go_redis_and_redigo_run_their_sessions() {
    if !has_go(22, "go-redis and redigo") {
        return;
    }
    let dir = installed("go", &["go.mod", "go.sum", "main.go"], |dir| {
        output(Command::new("go").args(["build", "-o", "session", "."]).current_dir(dir), b"");
    });
    run_on_all(&mut Command::new(dir.join("session")));
}

#[test]
fn jedis_and_lettuce_run_their_sessions_in_both_protocols() {
    const NAME: &str = "Jedis and Lettuce";
    // Java runs a source only where its compiler is.
    if !["javac", "java", "mvn"].iter().all(|program| has(program, NAME)) {
        return;
    }
    let dir = installed("java", &["pom.xml"], |dir| {
        let copy = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies";
        let install = ["--quiet", "--batch-mode", copy, "-DoutputDirectory=lib"];
        output(Command::new("mvn").args(install).current_dir(dir), b"");
    });
    let mut session = Command::new("java");
    session.args(["-cp", "lib/*", &source("java/Session.java")]).current_dir(dir);
    run_on_all(&mut session);
}

#[test]
fn redis_rs_and_fred_run_their_sessions_in_both_protocols() {
    if !has("cargo", "redis-rs and fred") {
        return;
    }
    let files = ["Cargo.toml", "Cargo.lock", "src/main.rs", "src/redis_rs.rs", "src/fred_client.rs"];
    let dir = installed("rust", &files, |dir| {
        // What the run of the tests has set is meant for this crate.
        let build = ["build", "--quiet", "--locked", "--target-dir", "target"];
        output(Command::new("cargo").args(build).env_remove("RUSTFLAGS").current_dir(dir), b"");
    });
    run_on_all(&mut Command::new(dir.join("target/debug/kvbench-clients")));
}

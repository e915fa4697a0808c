//! Programs and libraries as people use them, with the handshakes they make by default.

use crate::{
    every_store::{Running, in_memory, on_every_store},
    support::request,
};
use std::{
    env, fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Mutex,
};

const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients");

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

/// A directory that outlives the test run, in which `install` has worked for this `manifest`.
fn installed(name: &str, manifest: &str, install: impl FnOnce(&Path)) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let (wanted, stamp) = (fs::read(Path::new(SOURCES).join(manifest)).unwrap(), dir.join("installed"));
    if fs::read(&stamp).ok() != Some(wanted.clone()) {
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join(manifest), &wanted).unwrap();
        install(&dir);
        fs::write(&stamp, wanted).unwrap();
    }
    dir
}

fn port(running: &Running) -> String {
    running.server.address.port().to_string()
}

/// A Python that has redis-py. Several tests use it, one of which installs it.
pub fn python() -> PathBuf {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap();
    let dir = installed("clients-python", "requirements.txt", |dir| {
        output(Command::new("python3").args(["-m", "venv", "."]).current_dir(dir), b"");
        let install = ["-m", "pip", "install", "--quiet", "-r", "requirements.txt"];
        output(Command::new(dir.join("bin/python")).args(install).current_dir(dir), b"");
    });
    dir.join("bin/python")
}

/// The session of redis-py.
pub fn session_py() -> String {
    format!("{SOURCES}/session.py")
}

#[test]
fn redis_py_runs_its_session_in_both_protocols() {
    let python = python();
    on_every_store(|running| {
        for protocol in ["2", "3"] {
            println!("protocol {protocol}");
            let mut session = Command::new(&python);
            session.args([&*session_py(), &port(running), protocol]);
            assert_eq!(output(&mut session, b""), "done\n");
        }
    });
}

#[test]
fn node_redis_and_ioredis_run_their_sessions_in_both_protocols() {
    let dir = installed("clients-node", "package.json", |dir| {
        output(Command::new("npm").args(["install", "--no-audit", "--no-fund"]).current_dir(dir), b"");
    });
    // Node looks for the libraries beside the script.
    fs::copy(Path::new(SOURCES).join("session.mjs"), dir.join("session.mjs")).unwrap();
    on_every_store(|running| {
        let mut session = Command::new("node");
        session.arg(dir.join("session.mjs")).arg(port(running));
        assert_eq!(output(&mut session, b""), "done\n");
    });
}

#[test]
fn redis_cli_runs_a_session_in_both_protocols() {
    const SESSION: &str = "PING\nset k \"a b\\x00\"\nGET k\nget none\nmget k none\nincr n\nincr k\nnosuch x\n\
        config get databases\nkeys n*\ndbsize\nclient getname\ndel k n\nflushdb\n";
    const START: &str = "PONG\nOK\n\"a b\\x00\"\n(nil)\n1) \"a b\\x00\"\n2) (nil)\n(integer) 1\n\
        (error) ERR value is not an integer or out of range\n\
        (error) ERR unknown command 'nosuch', with args beginning with: 'x' \n";
    const END: &str = "1) \"n\"\n(integer) 2\n(nil)\n(integer) 2\nOK\n";
    on_every_store(|running| {
        for (flag, settings) in
            [("-2", "1) \"databases\"\n2) \"1\"\n"), ("-3", "1# \"databases\" => \"1\"\n")]
        {
            let mut cli = Command::new("redis-cli");
            cli.args([flag, "--no-raw", "-p", &port(running)]);
            // It ends an error with an empty line.
            let printed = output(&mut cli, SESSION.as_bytes()).replace("\n\n", "\n");
            assert_eq!(printed, [START, settings, END].concat(), "redis-cli {flag}");
        }
    });
}

#[test]
fn redis_cli_runs_a_session_with_a_password() {
    let running = in_memory(&["--requirepass", "a long secret"]);
    let session = |flags: &[&str]| {
        let mut cli = Command::new("redis-cli");
        cli.args(["--no-raw", "--no-auth-warning", "-p", &port(&running)]).args(flags);
        output(&mut cli, b"set k v\nget k\ndel k\n").replace("\n\n", "\n")
    };
    let served = "OK\n\"v\"\n(integer) 1\n";
    assert_eq!(session(&["-a", "a long secret"]), served);
    assert_eq!(session(&["-3", "-a", "a long secret"]), served);
    assert_eq!(session(&["--user", "default", "--pass", "a long secret"]), served);
    let refused = "(error) NOAUTH Authentication required.\n";
    assert_eq!(session(&[]), refused.repeat(3));
    let wrong = session(&["-a", "a long secre"]);
    assert!(wrong.ends_with(&refused.repeat(3)), "{wrong}");
}

#[test]
fn redis_cli_loads_a_file_of_requests() {
    on_every_store(|running| {
        let requests: Vec<u8> = (0..5000).flat_map(|n| request(&["SET", &format!("k{n}"), "v"])).collect();
        let printed = output(Command::new("redis-cli").args(["--pipe", "-p", &port(running)]), &requests);
        assert!(printed.ends_with("errors: 0, replies: 5000\n"), "{printed}");
        running.connect().call(&["FLUSHDB"]);
    });
}

#[test]
fn redis_benchmark_gets_no_error() {
    on_every_store(|running| {
        let mut benchmark = Command::new("redis-benchmark");
        // -q prints one line a test; an error reply ends it.
        benchmark.args(["-q", "-n", "2000", "-P", "16", "-r", "100", "-t", "ping,set,get,incr,mset"]);
        let printed = output(benchmark.args(["-p", &port(running)]), b"");
        let results = printed.matches("requests per second").count();
        assert_eq!(results, 6, "{printed}");
    });
}

//! The start-up line and the exit code.

use crate::{
    program::{field, serve, serve_exactly},
    support::{KVBENCH, Server, stores},
};
use redis_protocol::resp2::types::OwnedFrame;
use rustix::process::{Pid, Signal, kill_process};
use std::{
    fs,
    path::Path,
    process::{Command, ExitStatus},
};

#[test]
fn the_start_up_line_says_what_runs_and_where() {
    for store in stores() {
        let dir = tempfile::tempdir().unwrap();
        let server = serve(dir.path(), &["--store", store, "--path", "d", "--fsync", "everysec"]);
        let line = &server.start_line;
        let version = concat!("kvbench ", env!("CARGO_PKG_VERSION"), " ");
        assert!(line.starts_with(version) && line.ends_with('\n'), "{line:?}");
        assert_eq!(field(line, "store"), Some(store));
        assert_eq!(field(line, "path"), Some("d"));
        assert_eq!(field(line, "fsync"), Some("everysec"));
        assert_eq!(field(line, "address"), Some(&*server.address.to_string()));
        assert_eq!(field(line, "pid"), Some(&*server.process.id().to_string()));
    }
}

#[test]
fn serve_is_what_runs_without_a_subcommand() {
    let dir = tempfile::tempdir().unwrap();
    let options = ["--path", ":memory:", "--port", "0", "--fsync", "no", "--threads", "2"];
    let [bare, served] = [&[][..], &["serve"][..]].map(|first| {
        let (server, _) = serve_exactly(dir.path(), &[first, &options].concat());
        let settings = server.connect().call(&["CONFIG", "GET", "[^p]*"]);
        (server.start_line.split(" address=").next().unwrap().to_owned(), settings)
    });
    assert_eq!(bare, served);
}

#[test]
fn sigterm_sigint_and_shutdown_end_a_server_well_and_keep_its_data() {
    for store in stores() {
        let dir = tempfile::tempdir().unwrap();
        let ends: [fn(Server) -> ExitStatus; 3] = [Server::terminate, interrupt, shutdown];
        for (written, end) in (0..).zip(ends) {
            // `no`, so that only an orderly end is a reason for anything to be on disk.
            let server = start(dir.path(), store);
            let mut client = server.connect();
            assert_eq!(client.call(&["DBSIZE"]), OwnedFrame::Integer(written), "{store}");
            client.call(&["SET", &format!("key-{written}"), "value"]);
            assert_eq!(end(server).code(), Some(0), "{store}");
        }
        assert_eq!(start(dir.path(), store).connect().call(&["DBSIZE"]), OwnedFrame::Integer(3));
    }
}

#[test]
#[cfg(target_os = "linux")]
fn sighup_ends_a_server_well_unless_it_is_ignored() {
    for store in stores() {
        let dir = tempfile::tempdir().unwrap();
        let start = |sighup: &str| {
            let mut command = Command::new("env");
            command.args([sighup, KVBENCH, "--store", store, "--path", "data", "--fsync", "no"]);
            Server::start_command(command.current_dir(dir.path()))
        };
        let mut server = start("--default-signal=HUP");
        server.connect().call(&["SET", "key", "value"]);
        kill_process(Pid::from_child(&server.process), Signal::HUP).unwrap();
        assert_eq!(server.wait().code(), Some(0), "{store}");
        let server = start("--ignore-signal=HUP");
        assert_eq!(server.connect().call(&["DBSIZE"]), OwnedFrame::Integer(1), "{store}");
        let status = fs::read_to_string(format!("/proc/{}/status", server.process.id())).unwrap();
        let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
        let bit = 1 << (Signal::HUP.as_raw() - 1);
        assert_eq!(u64::from_str_radix(ignored.trim(), 16).unwrap() & bit, bit, "{store}: {ignored}");
    }
}

/// The kernel discards SIGINT and SIGTERM to process 1, as of a container, while it has no handler for them.
#[test]
#[cfg(target_os = "linux")]
fn a_server_that_is_process_1_ends_at_a_signal_before_its_store_is_open_too() {
    use crate::support::{PATIENCE, Program, wait_at_most, wait_until};
    use kvbench::testing::skip_test::skip;
    use std::{fs::File, os::unix::fs::OpenOptionsExt, process::Child};
    let unshare = || {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--pid", "--kill-child"]);
        command
    };
    if !unshare().arg("true").output().is_ok_and(|output| output.status.success()) {
        let test = "a_server_that_is_process_1_ends_at_a_signal_before_its_store_is_open_too";
        return skip(test, "unshare cannot create a user and process namespace");
    }
    let send = |signal, unshare: &Child| {
        let id = unshare.id();
        let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap();
        kill_process(Pid::from_raw(children.trim().parse().unwrap()).unwrap(), signal).unwrap();
    };
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let dir = tempfile::tempdir().unwrap();
        // The server waits for the content of a pipe.
        let pipe = dir.path().join("password");
        assert!(Command::new("mkfifo").args(["-m", "600"]).arg(&pipe).status().unwrap().success());
        let options = [KVBENCH, "--path", ":memory:", "--port", "0", "--password-file"];
        let mut starting = Program::start(unshare().args(options).arg(&pipe));
        let mut writer = None;
        wait_until("the server does not read the pipe", || {
            // Fails until the pipe has a reader.
            writer = File::options().write(true).custom_flags(libc::O_NONBLOCK).open(&pipe).ok();
            writer.is_some()
        });
        send(signal, &starting.process);
        let status = wait_at_most(&mut starting.process, PATIENCE).expect("the server ends");
        assert_eq!(status.code(), Some(code));
        let mut server = Server::start_command(unshare().args([KVBENCH, "--path", ":memory:"]));
        assert_eq!(field(&server.start_line, "pid"), Some("1"));
        send(signal, &server.process);
        assert_eq!(server.wait().code(), Some(0));
    }
}

/// Clients that are connected, also in the middle of a request, do not hold up the end.
#[test]
fn idle_clients_do_not_keep_the_server() {
    let dir = tempfile::tempdir().unwrap();
    let server = serve(dir.path(), &["--path", ":memory:"]);
    let mut clients: Vec<_> = (0..8).map(|_| server.connect()).collect();
    clients.iter_mut().for_each(|client| client.send("*2\r\n$3\r\nGET\r\n$5\r\nhal"));
    assert!(server.terminate().success());
}

fn start(dir: &Path, store: &str) -> Server {
    serve(dir, &["--store", store, "--path", "data", "--fsync", "no"])
}

fn interrupt(mut server: Server) -> ExitStatus {
    kill_process(Pid::from_child(&server.process), Signal::INT).unwrap();
    server.wait()
}

fn shutdown(mut server: Server) -> ExitStatus {
    server.connect().send("SHUTDOWN\r\n");
    server.wait()
}

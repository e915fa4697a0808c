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

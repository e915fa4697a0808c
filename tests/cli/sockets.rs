//! What the sockets of a server are set to, seen from outside.

use crate::{
    program::{misuse, serve, serve_exactly, setting},
    support::{Client, Server, wait_until},
};
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, prlimit};
use std::{
    fs,
    net::{SocketAddr, TcpStream},
    os::unix::fs::PermissionsExt,
    time::Duration,
};

const MEMORY: [&str; 2] = ["--path", ":memory:"];

#[test]
fn the_unix_socket_has_the_permissions_that_were_asked_for() {
    for mode in [0o700, 0o770, 0o777, 0o600] {
        let dir = tempfile::tempdir().unwrap();
        let text = format!("{mode:o}");
        let flags = ["--unixsocket", "s", "--unixsocket-perm", &text];
        let server = serve(dir.path(), &[&MEMORY[..], &flags].concat());
        let permissions = fs::metadata(dir.path().join("s")).unwrap().permissions();
        assert_eq!(permissions.mode() & 0o777, mode);
        assert_eq!(setting(&mut server.connect(), "unixsocketperm"), text);
    }
}

/// While the server does not run, the system takes as many connections as the backlog, and one more.
#[test]
#[cfg(target_os = "linux")]
fn so_many_connections_wait_as_were_asked_for() {
    for (flag, backlog) in [("--tcp-backlog", 4), ("--backlog", 9)] {
        let dir = tempfile::tempdir().unwrap();
        let server = serve(dir.path(), &[&MEMORY[..], &[flag, &backlog.to_string()]].concat());
        assert_eq!(setting(&mut server.connect(), "tcp-backlog"), backlog.to_string());
        let pid = Pid::from_child(&server.process);
        kill_process(pid, Signal::STOP).unwrap();
        let waiting: Vec<_> = (0..backlog + 8).map_while(|_| try_connect(server.address)).collect();
        kill_process(pid, Signal::CONT).unwrap();
        assert_eq!(waiting.len(), backlog + 1);
        for stream in waiting {
            let mut client = Client { stream, buffer: Vec::new() };
            client.send("PING\r\n");
            client.expect("+PONG\r\n");
        }
    }
}

/// As with Redis.
#[test]
fn five_hundred_connections_wait_unless_others_were_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let server = serve(dir.path(), &MEMORY);
    assert_eq!(setting(&mut server.connect(), "tcp-backlog"), "511");
}

/// A connection that is refused a place never comes about, however long one waits.
fn try_connect(address: SocketAddr) -> Option<TcpStream> {
    TcpStream::connect_timeout(&address, Duration::from_millis(500)).ok()
}

/// Seconds until the system asks whether the client is still there, if it will.
#[cfg(target_os = "linux")]
fn keepalive(server: &Server, client: &Client) -> Option<u64> {
    let port = |address: SocketAddr| format!(":{:04X}", address.port());
    let (local, peer) = (port(server.address), port(client.stream.local_addr().unwrap()));
    let table = fs::read_to_string("/proc/net/tcp").unwrap();
    let row = table.lines().find_map(|line| {
        let columns: Vec<_> = line.split_whitespace().collect();
        (columns.len() > 5 && columns[1].ends_with(&local) && columns[2].ends_with(&peer))
            .then(|| columns[5].to_owned())
    });
    let row = row.expect("the connection is in the table");
    let (kind, ticks) = row.split_once(':').unwrap();
    // A hundredth of a second each.
    (kind == "02").then(|| u64::from_str_radix(ticks, 16).unwrap() / 100)
}

#[test]
#[cfg(target_os = "linux")]
fn silent_clients_are_asked_whether_they_are_there() {
    for (flags, expected) in [
        (&[][..], Some(240..=300)),
        (&["--tcp-keepalive", "2000"], Some(1940..=2000)),
        (&["--tcp-keepalive", "32767"], Some(32_700..=32_767)),
        (&["--tcp-keepalive", "0"], None),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let server = serve(dir.path(), &[&MEMORY[..], flags].concat());
        let mut client = server.connect();
        client.send("PING\r\n");
        client.expect("+PONG\r\n");
        let seconds = keepalive(&server, &client);
        let fits = match (&expected, seconds) {
            (Some(range), Some(seconds)) => range.contains(&seconds),
            (expected, seconds) => expected.is_none() && seconds.is_none(),
        };
        assert!(fits, "{flags:?}: {seconds:?}, not {expected:?}");
    }
    // Linux refuses a longer time at each connection.
    let said = misuse(&["--tcp-keepalive", "12h"]);
    assert!(said.contains("--tcp-keepalive") && said.contains("32767"), "{said}");
}

/// Out of descriptors, the server serves those that it has, says it once, and takes the others up later.
#[test]
#[cfg(target_os = "linux")]
fn without_descriptors_connected_clients_are_served_and_others_wait() {
    let dir = tempfile::tempdir().unwrap();
    let args = ["--path", ":memory:", "--port", "0", "--log-level", "warn"];
    let (server, log) = serve_exactly(dir.path(), &args);
    let mut client = server.connect();
    client.send("PING\r\n");
    client.expect("+PONG\r\n");
    let pid = Pid::from_child(&server.process);
    let before = prlimit(Some(pid), Resource::Nofile, getrlimit(Resource::Nofile)).unwrap();
    let none = Rlimit { current: Some(1), maximum: before.maximum };
    prlimit(Some(pid), Resource::Nofile, none).unwrap();
    let mut waiting = server.connect();
    waiting.send("PING\r\n");
    wait_until("the log does not name the connection that waits", || {
        client.send("PING\r\n");
        client.expect("+PONG\r\n");
        fs::read_to_string(&log).unwrap().contains("cannot accept a connection")
    });
    prlimit(Some(pid), Resource::Nofile, before).unwrap();
    waiting.expect("+PONG\r\n");
    let log = fs::read_to_string(log).unwrap();
    assert_eq!(log.matches("cannot accept a connection").count(), 1, "{log}");
}

//! The end of a server whose disk is slow.

use crate::{
    injected::Injected,
    support::{Client, Server, wait_until},
};
use rustix::process::Signal;
use std::{net::TcpStream, thread, time::Duration};

/// The first sync of each thread takes longer than clients that do nothing are waited for.
const SLOW: &str = "-e trace=fsync,fdatasync -e inject=fsync,fdatasync:delay_enter=6s:when=1";

/// The first sync of each thread takes an hour.
const HANGING: &str = "-e trace=fsync,fdatasync -e inject=fsync,fdatasync:delay_enter=3600s:when=1";

/// Starts a server whose syncs take as long as `which` says, and a client whose write waits for one.
fn writing(dir: &std::path::Path, more: &[&str], which: &str) -> (Injected, Client) {
    let args = ["--store", "map", "--path", "data", "--fsync", "always", "--threads", "1"];
    let slow = Injected::start(dir, &[&args[..], more].concat());
    let mut client = slow.server.connect();
    client.send("PING\r\n");
    client.expect("+PONG\r\n");
    slow.begin(which);
    client.send("SET k v\r\n");
    (slow, client)
}

#[test]
fn a_slow_sync_at_the_end_drops_no_reply() {
    let dir = tempfile::tempdir().unwrap();
    let (mut slow, mut client) = writing(dir.path(), &[], SLOW);
    slow.signal(Signal::TERM);
    client.expect("+OK\r\n");
    client.expect_closed();
    slow.server.wait();
    let again = Server::start(dir.path(), &["--store", "map", "--path", "data"]);
    let mut client = again.connect();
    client.send("GET k\r\n");
    client.expect("$1\r\nv\r\n");
}

#[test]
fn a_sync_that_is_too_slow_is_given_up_and_said() {
    let dir = tempfile::tempdir().unwrap();
    let (mut slow, mut client) = writing(dir.path(), &["--shutdown-timeout", "1"], SLOW);
    slow.signal(Signal::TERM);
    client.expect_closed();
    slow.server.wait();
    let log = slow.log();
    assert!(log.contains("1 clients get no reply") && log.contains("--shutdown-timeout"), "{log}");
    // What nobody was told is there all the same.
    let again = Server::start(dir.path(), &["--store", "map", "--path", "data"]);
    let mut client = again.connect();
    client.send("GET k\r\n");
    client.expect("$1\r\nv\r\n");
}

#[test]
fn a_second_sigint_ends_a_server_whose_disk_hangs() {
    let dir = tempfile::tempdir().unwrap();
    let (mut hanging, _client) = writing(dir.path(), &["--shutdown-timeout", "3600"], HANGING);
    hanging.signal(Signal::TERM);
    wait_until("the server stops", || TcpStream::connect(hanging.server.address).is_err());
    // A service manager may send it twice, and would lose what is not yet durable.
    hanging.signal(Signal::TERM);
    thread::sleep(Duration::from_millis(300));
    assert!(!hanging.has_exited(), "{}", hanging.log());
    hanging.signal(Signal::INT);
    wait_until("the server ends", || hanging.has_exited());
}

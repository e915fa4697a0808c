//! `--port`, `--bind`, `--unixsocket` and `--maxclients`.

use crate::{
    program::{failure, field, info, misuse, serve, setting, try_serve_exactly},
    support::{Client, PATIENCE, Server, on_free_port},
};
use redis_protocol::resp2::types::OwnedFrame;
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    thread,
    time::{Duration, Instant},
};

#[test]
fn the_port_that_was_asked_for_is_listened_on() {
    for flag in ["-p", "--port"] {
        let dir = tempfile::tempdir().unwrap();
        let start =
            |port: u16| try_serve_exactly(dir.path(), &["--path", ":memory:", flag, &port.to_string()]);
        let ((server, _), port) = on_free_port(start);
        assert_eq!(field(&server.start_line, "address"), Some(&*format!("127.0.0.1:{port}")));
        let mut client = Client::connect(format!("127.0.0.1:{port}").parse().unwrap());
        assert_eq!(setting(&mut client, "port"), port.to_string());
    }
}

#[test]
fn port_0_picks_a_free_port_and_prints_it() {
    let dir = tempfile::tempdir().unwrap();
    let start = || serve(dir.path(), &["--path", ":memory:"]);
    let (one, other) = (start(), start());
    assert_ne!(one.address.port(), 0);
    assert_ne!(one.address.port(), other.address.port());
    for server in [one, other] {
        assert_eq!(setting(&mut server.connect(), "port"), server.address.port().to_string());
    }
}

#[test]
fn a_taken_port_is_named_in_one_line() {
    let dir = tempfile::tempdir().unwrap();
    let server = serve(dir.path(), &["--path", ":memory:"]);
    let port = server.address.port().to_string();
    let line = failure(dir.path(), &["--path", ":memory:", "--port", &port]);
    assert!(line.contains(&port) && line.contains("--port"), "{line}");
}

#[test]
fn a_port_that_is_none_is_refused() {
    assert!(misuse(&["--port", "70000"]).contains("--port"));
}

#[test]
#[cfg(target_os = "linux")]
fn only_the_address_of_bind_is_listened_on() {
    let dir = tempfile::tempdir().unwrap();
    let server = serve(dir.path(), &["--path", ":memory:", "--bind", "127.0.0.2"]);
    assert_eq!(server.address.ip().to_string(), "127.0.0.2");
    assert_eq!(setting(&mut server.connect(), "bind"), "127.0.0.2");
    let other = SocketAddr::new("127.0.0.1".parse().unwrap(), server.address.port());
    let id = server.process.id().to_string();
    assert_eq!(info(&mut server.connect(), "server", "process_id"), id);
    // What answers there may be a server of another test.
    if let Ok(mut stream) = TcpStream::connect(other) {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut told = Vec::new();
        let _ = stream.write_all(b"INFO server\r\nQUIT\r\n").and_then(|()| stream.read_to_end(&mut told));
        let told = String::from_utf8_lossy(&told);
        assert!(!told.contains(&format!("process_id:{id}\r\n")), "also listens on 127.0.0.1: {told}");
    }
}

#[test]
fn an_address_that_is_none_or_of_another_machine_names_bind() {
    assert!(misuse(&["--bind", "localhost:6380"]).contains("--bind"));
    let dir = tempfile::tempdir().unwrap();
    // An address of documentation, which no machine has.
    let line = failure(dir.path(), &["--path", ":memory:", "--port", "0", "--bind", "192.0.2.1"]);
    assert!(line.contains("192.0.2.1") && line.contains("--bind"), "{line}");
    let line = failure(dir.path(), &["--path", ":memory:", "--port", "0", "--metrics", "192.0.2.1:9380"]);
    assert!(
        line.contains("192.0.2.1") && line.contains("for --metrics") && !line.contains("--bind"),
        "{line}"
    );
}

#[test]
fn a_client_too_many_is_told_so_and_a_place_that_gets_free_is_given_away() {
    let dir = tempfile::tempdir().unwrap();
    let server = serve(dir.path(), &["--path", ":memory:", "--maxclients", "2"]);
    let mut first = server.connect();
    assert_eq!(setting(&mut first, "maxclients"), "2");
    let mut second = server.connect();
    second.send("PING\r\n");
    second.expect("+PONG\r\n");
    let mut third = server.connect();
    third.expect("-ERR max number of clients reached\r\n");
    third.expect_closed();
    drop(second);
    let deadline = Instant::now() + PATIENCE;
    while !is_served(&server) {
        assert!(Instant::now() < deadline, "the place of a client that left stays taken");
        thread::sleep(Duration::from_millis(5));
    }
    assert!(misuse(&["--maxclients", "0"]).contains("--maxclients"));
}

fn is_served(server: &Server) -> bool {
    let mut client = server.connect();
    // A client that is turned away may not be able to send any more.
    let sent = client.stream.write_all(b"PING\r\n");
    sent.is_ok() && client.try_reply().is_ok_and(|reply| reply == OwnedFrame::SimpleString(b"PONG".to_vec()))
}

#[cfg(unix)]
mod unix_socket {
    use super::*;
    use std::{fs, os::unix::net::UnixStream, path::Path};

    fn start(dir: &Path) -> Server {
        serve(dir, &["--path", ":memory:", "--unixsocket", "s.sock"])
    }

    fn ping(dir: &Path) {
        let mut stream = UnixStream::connect(dir.join("s.sock")).unwrap();
        stream.write_all(b"PING\r\n").unwrap();
        let mut reply = [0; 7];
        stream.read_exact(&mut reply).unwrap();
        assert_eq!(&reply, b"+PONG\r\n");
    }

    #[test]
    fn the_unix_socket_is_served_beside_the_port_and_removed_at_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let server = start(dir.path());
        assert!(server.start_line.contains("s.sock"), "{}", server.start_line);
        assert_eq!(setting(&mut server.connect(), "unixsocket"), "s.sock");
        ping(dir.path());
        assert!(server.terminate().success());
        assert!(!dir.path().join("s.sock").exists());
    }

    #[test]
    fn a_socket_that_a_kill_left_behind_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        start(dir.path()).kill();
        assert!(dir.path().join("s.sock").exists());
        let _server = start(dir.path());
        ping(dir.path());
    }

    #[test]
    fn a_socket_in_use_or_another_file_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let args = ["--path", ":memory:", "--port", "0", "--unixsocket", "s.sock"];
        let server = start(dir.path());
        let line = failure(dir.path(), &args);
        assert!(line.contains("s.sock"), "{line}");
        ping(dir.path());
        assert!(server.terminate().success());
        fs::write(dir.path().join("s.sock"), "a letter").unwrap();
        let line = failure(dir.path(), &args);
        assert!(line.contains("s.sock") && line.contains("--unixsocket"), "{line}");
        assert_eq!(fs::read(dir.path().join("s.sock")).unwrap(), b"a letter");
    }
}

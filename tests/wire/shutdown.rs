//! The end of a server, and what keeps one from starting.

use crate::{
    every_store::{Running, in_memory, with_every_store},
    frames::{ask, replies},
    support::{Client, KVBENCH, RunToEnd, Server, request},
};
use rustix::process::{Pid, Signal, kill_process};
use std::{
    fs,
    io::{Read, Write},
    os::unix::net::UnixStream,
    path::Path,
    process::{Command, Output},
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

/// How a server is told to stop.
#[derive(Clone, Copy, Debug)]
enum End {
    Terminate,
    Interrupt,
    Shutdown,
}

const ENDS: [End; 3] = [End::Terminate, End::Interrupt, End::Shutdown];

impl End {
    fn request(self, server: &Server) {
        let signal = |signal| kill_process(Pid::from_child(&server.process), signal).unwrap();
        match self {
            Self::Terminate => signal(Signal::TERM),
            Self::Interrupt => signal(Signal::INT),
            Self::Shutdown => {
                let mut client = server.connect();
                client.send("SHUTDOWN\r\n");
                client.expect_closed();
            }
        }
    }
}

/// Every end for every store.
fn with_every_end(check: impl Fn(Running, End)) {
    for end in ENDS {
        println!("{end:?}");
        with_every_store(|running| check(running, end));
    }
}

#[test]
fn every_received_request_is_answered_before_the_end() {
    const GETS: usize = 300;
    with_every_end(|mut running, end| {
        let value = "v".repeat(64 << 10);
        let mut client = running.connect();
        ask(&mut client, &["SET", "big", &value]);
        client.send(request(&["GET", "big"]).repeat(GETS));
        let expected = format!("$65536\r\n{value}\r\n").into_bytes();
        assert!(replies(&mut client, 1)[0] == expected);
        // More replies than the sockets hold, so most GETs are still to be run, and what follows them
        // waits unread, when the server is told to stop.
        client.send("SET last w\r\n");
        end.request(&running.server);
        for _ in 1..GETS {
            assert!(replies(&mut client, 1)[0] == expected);
        }
        client.expect("+OK\r\n");
        client.expect_closed();
        assert!(running.server.wait().success());
        if !running.is_in_memory() {
            let running = running.restart();
            assert_eq!(ask(&mut running.connect(), &["GET", "last"]), b"$1\r\nw\r\n");
            assert_eq!(ask(&mut running.connect(), &["DBSIZE"]), b":2\r\n");
        }
    });
}

#[test]
fn what_was_acknowledged_under_load_is_there_after_a_restart() {
    const CLIENTS: usize = 4;
    const WARM: usize = 100;
    with_every_end(|mut running, end| {
        let total = AtomicUsize::new(0);
        let acknowledged: Vec<usize> = thread::scope(|scope| {
            let load = |index: usize| {
                let (mut client, total) = (running.connect(), &total);
                scope.spawn(move || count_up(&mut client, &format!("n{index}"), total))
            };
            let clients: Vec<_> = (0..CLIENTS).map(load).collect();
            while total.load(Ordering::Relaxed) < WARM {
                thread::yield_now();
            }
            end.request(&running.server);
            clients.into_iter().map(|client| client.join().unwrap()).collect()
        });
        assert!(running.server.wait().success());
        if running.is_in_memory() {
            return;
        }
        let running = running.restart();
        for (index, acknowledged) in acknowledged.into_iter().enumerate() {
            let reply = running.connect().call(&["INCRBY", &format!("n{index}"), "0"]);
            let redis_protocol::resp2::types::OwnedFrame::Integer(kept) = reply else { panic!("{reply:?}") };
            // Neither less, nor more: what ran was answered.
            assert_eq!(kept as usize, acknowledged, "n{index}");
        }
    });
}

/// Increments until the server closes. Returns the last number it was told.
fn count_up(client: &mut Client, key: &str, total: &AtomicUsize) -> usize {
    let mut last = 0;
    // A request that meets the closed socket resets it.
    while client.stream.write_all(&request(&["INCR", key])).is_ok() {
        let Ok(redis_protocol::resp2::types::OwnedFrame::Integer(number)) = client.try_reply() else { break };
        last = number as usize;
        total.fetch_add(1, Ordering::Relaxed);
    }
    last
}

#[test]
fn shutdown_runs_what_came_before_it_and_nothing_after() {
    with_every_store(|mut running| {
        let mut client = running.connect();
        client.send("SET k v\r\nSHUTDOWN NOSAVE\r\nSET k w\r\n");
        client.expect("+OK\r\n");
        client.expect_closed();
        assert!(running.server.wait().success());
        if !running.is_in_memory() {
            let running = running.restart();
            assert_eq!(ask(&mut running.connect(), &["GET", "k"]), b"$1\r\nv\r\n");
        }
    });
}

#[test]
fn idle_and_half_finished_and_unread_clients_do_not_hold_up_the_end() {
    let running = in_memory(&[]);
    let (mut idle, mut half, mut unread) = (running.connect(), running.connect(), running.connect());
    ask(&mut idle, &["SET", "big", &"v".repeat(1 << 20)]);
    half.send("PING\r\n*2\r\n$3\r\nGET\r\n$5\r\nab");
    half.expect("+PONG\r\n");
    unread.send(request(&["GET", "big"]).repeat(100));
    // One reply is here, so the server is busy with this client.
    replies(&mut unread, 1);
    assert!(running.server.terminate().success());
    idle.expect_closed();
    half.expect_closed();
}

fn start(dir: &Path, args: &[&str]) -> Output {
    Command::new(KVBENCH).current_dir(dir).args(["--path", ":memory:"]).args(args).run_to_end()
}

/// It failed with one line that says all of `words`.
fn expect_refusal(output: &Output, words: &[&str]) {
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{output:?}");
    assert_eq!(complaint.lines().count(), 1, "{complaint}");
    for word in words {
        assert!(complaint.contains(word), "{word} in {complaint}");
    }
    assert!(output.stdout.is_empty());
}

#[test]
fn a_port_that_is_taken_is_one_clear_line() {
    let running = in_memory(&[]);
    let dir = tempfile::tempdir().unwrap();
    let address = running.server.address;
    let output = start(dir.path(), &["--port", &address.port().to_string()]);
    expect_refusal(&output, &["kvbench: cannot listen on", &address.to_string(), "--port"]);
}

fn expect_served_at(path: &Path) {
    let mut stream = UnixStream::connect(path).unwrap();
    stream.write_all(b"SET k v\r\nGET k\r\nQUIT\r\n").unwrap();
    let mut bytes = String::new();
    stream.read_to_string(&mut bytes).unwrap();
    assert_eq!(bytes, "+OK\r\n$1\r\nv\r\n+OK\r\n");
}

#[test]
fn a_unix_socket_is_served_beside_tcp_and_goes_with_the_server() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    let args = ["--path", ":memory:", "--unixsocket", "socket"];
    let server = Server::start(dir.path(), &args);
    expect_served_at(&path);
    assert_eq!(ask(&mut server.connect(), &["GET", "k"]), b"$1\r\nv\r\n");
    assert!(server.terminate().success());
    assert!(!path.exists());
}

#[test]
fn a_unix_socket_left_by_a_killed_server_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    let args = ["--path", ":memory:", "--unixsocket", "socket"];
    Server::start(dir.path(), &args).kill();
    assert!(path.exists());
    let _server = Server::start(dir.path(), &args);
    expect_served_at(&path);
}

#[test]
fn a_unix_socket_in_use_and_a_file_at_its_path_are_errors() {
    let dir = tempfile::tempdir().unwrap();
    let args = ["--path", ":memory:", "--unixsocket", "socket"];
    let _server = Server::start(dir.path(), &args);
    let output = start(dir.path(), &["--port", "0", "--unixsocket", "socket"]);
    expect_refusal(&output, &["cannot listen on socket", "in use"]);
    expect_served_at(&dir.path().join("socket"));

    fs::write(dir.path().join("file"), "precious").unwrap();
    let output = start(dir.path(), &["--port", "0", "--unixsocket", "file"]);
    expect_refusal(&output, &["file is not a socket", "--unixsocket"]);
    assert_eq!(fs::read_to_string(dir.path().join("file")).unwrap(), "precious");
}

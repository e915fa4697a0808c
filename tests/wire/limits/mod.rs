//! Clients that are broken, hostile, slow or many: what they get, and what they may cost.

mod memory;

use crate::{
    every_store::{Running, in_memory},
    frames::{exchange, replies},
    support::{Client, PATIENCE, Server, request},
};
use rand::{Rng, SeedableRng, rngs::StdRng};
use std::{fs, io::Write, iter, time::Instant};

/// A new client is served.
fn expect_served(server: &Server) {
    let mut client = server.connect();
    client.send("PING\r\n");
    client.expect("+PONG\r\n");
}

#[test]
fn garbage_hurts_nobody_else() {
    let running = in_memory(&[]);
    let mut random = StdRng::seed_from_u64(1);
    let alphabet = b"*$\r\n0123456789 \"'\\xGETSET-+:\0\xff";
    let mut clients: Vec<Client> = (0..300).map(|_| running.connect()).collect();
    for round in 0..5 {
        for (index, client) in clients.iter_mut().enumerate() {
            let len = random.random_range(1..2000);
            let mut bytes = vec![0; len];
            random.fill(&mut bytes[..]);
            if index % 2 == 0 {
                bytes.iter_mut().for_each(|byte| *byte = alphabet[*byte as usize % alphabet.len()]);
            }
            // Those that were closed for the round before take no more.
            let _ = client.stream.write_all(&bytes);
        }
        println!("round {round}");
        expect_served(&running.server);
    }
}

/// What breaks the protocol, and Redis' words for it.
pub fn violations() -> Vec<(Vec<u8>, &'static str)> {
    let digits = "1".repeat(65_537);
    let mut violations: Vec<(Vec<u8>, _)> = [
        ("*x\r\n", "invalid multibulk length"),
        ("*1 \r\n", "invalid multibulk length"),
        ("*\r\n", "invalid multibulk length"),
        ("*01\r\n", "invalid multibulk length"),
        ("*2147483648\r\n", "invalid multibulk length"),
        ("*99999999999999999999\r\n", "invalid multibulk length"),
        ("*1\r\n+PING\r\n", "expected '$', got '+'"),
        ("*1\r\nPING\r\n", "expected '$', got 'P'"),
        ("*2\r\n$4\r\nECHO\r\n:1\r\n", "expected '$', got ':'"),
        ("*1\r\n$x\r\n", "invalid bulk length"),
        ("*1\r\n$\r\n", "invalid bulk length"),
        ("*1\r\n$-1\r\n", "invalid bulk length"),
        ("*1\r\n$04\r\n", "invalid bulk length"),
        // At the length line, not after 512 MiB.
        ("*2\r\n$3\r\nGET\r\n$536870913\r\n", "invalid bulk length"),
        ("*2\r\n$3\r\nGET\r\n$9223372036854775808\r\n", "invalid bulk length"),
        ("SET k \"v\r\n", "unbalanced quotes in request"),
        ("SET k 'v\r\n", "unbalanced quotes in request"),
        ("SET k \"v\"w\r\n", "unbalanced quotes in request"),
    ]
    .map(|(bytes, text)| (bytes.into(), text))
    .into();
    violations.push((format!("x{}", &digits[1..]).into(), "too big inline request"));
    violations.push((format!("*{digits}").into(), "too big mbulk count string"));
    violations.push((format!("*1\r\n${digits}").into(), "too big bulk count string"));
    violations
}

/// No character of UTF-8 in its place, which is two bytes.
#[test]
fn a_quoted_byte_is_the_one_that_came() {
    let running = in_memory(&[]);
    let mut client = running.connect();
    client.send(b"*1\r\n\xff\r\n");
    client.expect(b"-ERR Protocol error: expected '$', got '\xff'\r\n");
    client.expect_closed();
}

#[test]
fn a_broken_request_is_answered_after_those_before_it_and_closes() {
    let running = in_memory(&[]);
    for (bytes, text) in violations() {
        let mut client = running.connect();
        println!("{}", bytes[..bytes.len().min(60)].escape_ascii());
        client.send("SET k v\r\nGET k\r\n");
        client.expect("+OK\r\n$1\r\nv\r\n");
        client.send([b"GET k\r\nGET none\r\n", &bytes[..]].concat());
        client.expect(format!("$1\r\nv\r\n$-1\r\n-ERR Protocol error: {text}\r\n"));
        client.expect_closed();
    }
    expect_served(&running.server);
}

/// Redis skips the two bytes after an argument unseen.
#[test]
fn an_argument_that_does_not_end_where_it_said_closes() {
    let running = in_memory(&[]);
    let mut client = running.connect();
    client.send("PING\r\n*1\r\n$4\r\nPINGxx");
    client.expect("+PONG\r\n-ERR Protocol error: expected CRLF after an argument\r\n");
    client.expect_closed();
}

#[test]
fn the_longest_inline_request_is_taken() {
    let running = in_memory(&[]);
    let mut client = running.connect();
    let value = "v".repeat(65_000);
    client.send(format!("SET k {value}\r\nGET k\r\n"));
    client.expect(format!("+OK\r\n$65000\r\n{value}\r\n"));
}

#[test]
fn a_request_that_announces_much_waits_for_it() {
    let running = in_memory(&[]);
    let mut client = running.connect();
    // Neither is refused for its number, and neither costs what it announces.
    client.send("PING\r\n*2147483647\r\n$3\r\nGET\r\n");
    client.expect("+PONG\r\n");
    let mut client = running.connect();
    client.send("PING\r\n*2\r\n$3\r\nGET\r\n$536870912\r\n");
    client.expect("+PONG\r\n");
    expect_served(&running.server);
}

/// Number of threads of the server, started so far, for what would hold up a worker.
fn blocking_threads(server: &Server) -> usize {
    let tasks = fs::read_dir(format!("/proc/{}/task", server.process.id())).unwrap();
    let names = tasks.map(|task| fs::read_to_string(task.unwrap().path().join("comm")).unwrap());
    names.filter(|name| name.starts_with("tokio-rt")).count()
}

/// A request of very many words takes long, so a worker leaves it to another thread, in a transaction too.
#[test]
fn long_questions_about_commands_hold_no_worker_up() {
    for (before, after, count) in [("", "", 1), ("MULTI\r\n", "EXEC\r\n", 3)] {
        for question in ["INFO", "DOCS"] {
            let running = Running::start("map", "data", &["--threads", "1"]);
            expect_served(&running.server);
            assert_eq!(blocking_threads(&running.server), 0);
            let words = ["COMMAND", question].into_iter().chain(iter::repeat_n("none", 60_000));
            let long = request(&words.collect::<Vec<_>>());
            let told = exchange(
                &mut running.connect(),
                &[before.as_bytes(), &long, after.as_bytes()].concat(),
                count,
            );
            assert!(!told.iter().any(|reply| reply.starts_with(b"-")), "{question}");
            assert_eq!(blocking_threads(&running.server), 1, "{before}{question}");
        }
    }
}

#[test]
fn a_client_too_many_is_told_so_until_one_leaves() {
    let running = in_memory(&["--maxclients", "5"]);
    let mut clients: Vec<Client> = (0..5).map(|_| running.connect()).collect();
    for client in &mut clients {
        client.send("PING\r\n");
        client.expect("+PONG\r\n");
    }
    for _ in 0..3 {
        let mut client = running.connect();
        client.expect("-ERR max number of clients reached\r\n");
        client.expect_closed();
    }
    drop(clients.pop());
    // The server needs a moment to see that one has left.
    let deadline = Instant::now() + PATIENCE;
    loop {
        let mut client = running.connect();
        // A refused client may find its connection reset.
        let _ = client.stream.write_all(b"PING\r\n");
        if client.receive().is_ok() && client.buffer.starts_with(b"+PONG") {
            break;
        }
        assert!(Instant::now() < deadline, "the place of the client that left stays taken");
    }
    for client in &mut clients {
        client.send("ECHO still\r\n");
        assert_eq!(replies(client, 1), [b"$5\r\nstill\r\n"]);
    }
}

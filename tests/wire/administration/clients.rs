//! CLIENT LIST, KILL and REPLY, and MONITOR.

use super::text;
use crate::{
    differential::Redis,
    every_store::{Running, in_memory, on_every_store},
    frames::{ask, replies},
    support::{Client, PATIENCE, request, wait_until},
};
use std::{
    io::{BufRead, BufReader, Read, Write},
    os::unix::net::UnixStream,
    path::Path,
    thread,
    time::{Duration, Instant},
};

fn id(client: &mut Client) -> String {
    text(client, &["CLIENT", "ID"])[1..].trim_end().to_owned()
}

#[test]
fn client_list_has_a_line_for_each_connection() {
    let running = in_memory(&[]);
    let mut clients = [running.connect(), running.connect(), running.connect()];
    ask(&mut clients[0], &["CLIENT", "SETNAME", "first"]);
    ask(&mut clients[0], &["GET", "k"]);
    ask(&mut clients[1], &["HELLO", "3"]);
    let ids = clients.each_mut().map(id);
    let list = text(&mut clients[2], &["CLIENT", "LIST"]);
    let lines: Vec<_> = list.lines().filter(|line| line.starts_with("id=")).collect();
    assert_eq!(lines.len(), 3, "{list}");
    for (line, id) in lines.iter().zip(&ids) {
        assert!(line.starts_with(&format!("id={id} addr=127.0.0.1:")), "{line}");
    }
    assert!(lines[0].contains(" name=first ") && lines[0].contains(" cmd=client|id "), "{}", lines[0]);
    assert!(lines[2].contains(" cmd=client|list "), "{}", lines[2]);
    let one = text(&mut clients[2], &["CLIENT", "LIST", "ID", &ids[1]]);
    assert_eq!(one.matches("id=").count(), 1, "{one}");
    drop(clients);
    let mut last = running.connect();
    // Those that are gone leave the list when their worker has seen it.
    await_lines(&mut last, 1, "id=");
}

#[test]
fn client_list_has_a_line_for_each_id_as_by_redis() {
    let (running, redis) = (in_memory(&[]), Redis::start());
    for [mut one, mut other] in [[running.connect(), running.connect()], [redis.connect(), redis.connect()]] {
        let [first, second] = [id(&mut one), id(&mut other)];
        let list = text(&mut one, &["CLIENT", "LIST", "ID", &second, &first, "99999", &second]);
        let ids: Vec<_> =
            list.lines().filter_map(|line| line.strip_prefix("id=")?.split(' ').next()).collect();
        assert_eq!(ids, [&second, &first, &second], "{list}");
    }
}

/// A connection to a Unix socket, which a server may be about to open.
fn connect_to(socket: &Path) -> UnixStream {
    let begin = Instant::now();
    loop {
        match UnixStream::connect(socket) {
            Ok(stream) => return stream,
            Err(error) => assert!(begin.elapsed() < PATIENCE, "{error}"),
        }
    }
}

/// The flags that a client over a Unix socket is told, and what a monitor sees of it.
fn seen_over(socket: &Path, mut monitor: Client) -> [String; 2] {
    assert_eq!(ask(&mut monitor, &["MONITOR"]), b"+OK\r\n");
    let mut stream = connect_to(socket);
    stream.write_all(b"CLIENT NO-EVICT ON\r\nCLIENT INFO\r\nQUIT\r\n").unwrap();
    let mut told = String::new();
    stream.read_to_string(&mut told).unwrap();
    let flags = told.split(' ').find(|field| field.starts_with("flags=")).unwrap();
    let line = String::from_utf8(replies(&mut monitor, 1).remove(0)).unwrap();
    let (_, line) = line.split_once(' ').unwrap();
    [flags.to_owned(), line.replace(socket.to_str().unwrap(), "the socket")]
}

#[test]
fn a_client_over_a_unix_socket_is_marked_as_by_redis() {
    let dir = tempfile::tempdir().unwrap();
    let [ours, theirs] = ["ours", "theirs"].map(|name| dir.path().join(name));
    let running = in_memory(&["--unixsocket", ours.to_str().unwrap()]);
    let redis = Redis::start_with(&["--unixsocket", theirs.to_str().unwrap()]);
    let seen = seen_over(&ours, running.connect());
    assert_eq!(seen, seen_over(&theirs, redis.connect()));
    assert!(seen[0].contains('U') && seen[1].contains("unix:the socket]"), "{seen:?}");
}

#[test]
fn a_killed_client_is_gone_whatever_it_waits_for() {
    on_every_store(|running| {
        let mut killer = running.connect();
        // One waits for a request, one for replicas, one does not read its replies.
        let [mut idle, mut waiting, mut lazy] = [running.connect(), running.connect(), running.connect()];
        let ids = [&mut idle, &mut waiting, &mut lazy].map(id);
        ask(&mut killer, &["SET", "big", &"x".repeat(4 << 20)]);
        waiting.send("WAIT 1 60000\r\nSET k v\r\n");
        lazy.send(request(&["GET", "big"]).repeat(20));
        for id in ids {
            assert_eq!(text(&mut killer, &["CLIENT", "KILL", "ID", &id]), ":1\r\n");
        }
        idle.expect_closed();
        waiting.expect_closed();
        while lazy.receive().is_ok() {}
        assert_eq!(ask(&mut killer, &["EXISTS", "k"]), b":0\r\n");
        ask(&mut killer, &["FLUSHDB"]);
    });
}

/// When the reply to CLIENT KILL comes, at most one commit of the killed client has begun and not ended.
#[test]
fn a_killed_client_begins_no_further_commit() {
    let running = Running::start("map", "data", &["--fsync", "always"]);
    let [mut killer, mut killed] = [running.connect(), running.connect()];
    let id = id(&mut killed);
    killed.send("CLIENT REPLY OFF\r\n");
    // Without replies the client need not read. A PING between two writes makes each of them a commit of its own.
    let pipeline = "INCR n\r\nPING\r\n".repeat(1000);
    let writer = thread::spawn(move || while killed.stream.write_all(pipeline.as_bytes()).is_ok() {});
    let count =
        |killer: &mut Client| -> u64 { text(killer, &["INCRBY", "n", "0"])[1..].trim_end().parse().unwrap() };
    wait_until("the server does not execute the pipeline", || count(&mut killer) > 0);
    assert_eq!(text(&mut killer, &["CLIENT", "KILL", "ID", &id]), ":1\r\n");
    let at_kill = count(&mut killer);
    // The writer ends when the server has closed the connection.
    writer.join().unwrap();
    let more = count(&mut killer) - at_kill;
    assert!(more <= 1, "{more} writes after CLIENT KILL");
}

/// The worker executes the three requests before it closes the killed connection.
#[test]
fn a_killed_client_is_not_listed_and_not_killed_again_as_by_redis() {
    let (running, redis) = (in_memory(&["--threads", "1"]), Redis::start());
    for (mut killer, mut killed) in
        [(running.connect(), running.connect()), (redis.connect(), redis.connect())]
    {
        let id = id(&mut killed);
        killer.send(format!("CLIENT KILL ID {id}\r\nCLIENT LIST ID {id}\r\nCLIENT KILL ID {id}\r\n"));
        killer.expect(":1\r\n$0\r\n\r\n:0\r\n");
        killed.expect_closed();
    }
}

#[test]
fn a_client_that_kills_itself_gets_its_reply() {
    let running = in_memory(&[]);
    let mut client = running.connect();
    let address = client.stream.local_addr().unwrap().to_string();
    client.send(request(&["CLIENT", "KILL", &address]));
    client.expect("+OK\r\n");
    client.expect_closed();
    let mut client = running.connect();
    let id = id(&mut client);
    assert_eq!(text(&mut client, &["CLIENT", "KILL", "ID", &id]), ":0\r\n", "SKIPME is yes");
    client.send(request(&["CLIENT", "KILL", "ID", &id, "SKIPME", "no"]));
    client.expect(":1\r\n");
    client.expect_closed();
}

#[test]
fn monitor_shows_what_others_ask_and_no_password() {
    let running = in_memory(&[]);
    let [mut monitor, mut client] = [running.connect(), running.connect()];
    assert_eq!(ask(&mut monitor, &["MONITOR"]), b"+OK\r\n");
    let address = client.stream.local_addr().unwrap();
    client.send(
        "SET k \"a\\\"\\n\\x00\"\r\nget k\r\nAUTH default secret\r\nCONFIG SET requirepass \"\"\r\nPING\r\n",
    );
    replies(&mut client, 5);
    let shown: Vec<String> = replies(&mut monitor, 4)
        .iter()
        .map(|line| String::from_utf8_lossy(line).split_once(' ').unwrap().1.trim_end().to_owned())
        .collect();
    let expected =
        [r#""SET" "k" "a\"\n\x00""#, r#""get" "k""#, r#""AUTH" "(redacted)" "(redacted)""#, r#""PING""#];
    assert_eq!(shown, expected.map(|words| format!("[0 {address}] {words}")));
    // It still may ask, and reset itself.
    monitor.send("RESET\r\n");
    let mut last = Vec::new();
    while last != b"+RESET\r\n" {
        last = replies(&mut monitor, 1).remove(0);
    }
    ask(&mut client, &["GET", "k"]);
    assert_eq!(ask(&mut monitor, &["PING"]), b"+PONG\r\n");
}

#[test]
fn replies_before_wait_are_sent_first_as_by_redis() {
    let (running, redis) = (in_memory(&[]), Redis::start());
    for mut client in [running.connect(), redis.connect()] {
        // For much longer than this client waits.
        client.send("SET k v\r\nGET k\r\nWAIT 1 600000\r\nDEL k\r\n");
        client.expect("+OK\r\n$1\r\nv\r\n");
    }
}

/// Blocking threads answer DBSIZE, and there are 32 for each worker.
#[test]
fn sleeping_and_waiting_clients_hold_up_nobody_and_end_with_their_connection() {
    let running = in_memory(&["--threads", "1"]);
    let mut other = running.connect();
    let words = [&["DEBUG", "SLEEP", "100000"][..], &["WAIT", "1", "100000000"]];
    let sleepers: Vec<Client> = (0..80)
        .map(|number| {
            let mut client = running.connect();
            client.send(request(words[number % 2]));
            client
        })
        .collect();
    await_lines(&mut other, 40, "cmd=wait");
    assert_eq!(ask(&mut other, &["DBSIZE"]), b":0\r\n");
    drop(sleepers);
    await_lines(&mut other, 1, "id=");
    // A stop does not wait for them either: this one would last for longer than the test.
    let mut last = running.connect();
    last.send(request(words[1]));
    await_lines(&mut other, 1, "cmd=wait");
    assert!(running.server.terminate().success());
}

/// Returns when as many lines of CLIENT LIST as expected contain `words`.
fn await_lines(client: &mut Client, expected: usize, words: &str) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let list = text(client, &["CLIENT", "LIST"]);
        if list.lines().filter(|line| line.contains(words)).count() == expected {
            return;
        }
        assert!(Instant::now() < deadline, "{list}");
    }
}

#[test]
fn requests_that_arrive_during_wait_are_answered_afterwards() {
    let running = in_memory(&[]);
    let [mut client, mut other] = [running.connect(), running.connect()];
    client.send(request(&["WAIT", "1", "300"]));
    await_lines(&mut other, 1, "cmd=wait");
    client.send("PING\r\nECHO a");
    client.expect(":0\r\n+PONG\r\n");
    client.send("b\r\n");
    client.expect("$2\r\nab\r\n");
}

/// A long line for MONITOR is no reply of another client, whose buffer is the next of the worker.
#[test]
fn monitor_is_closed_alone_if_its_lines_exceed_the_limit() {
    let running = in_memory(&["--threads", "1", "--client-output-buffer-limit", "1mb"]);
    let [mut monitor, mut large, mut half] = [running.connect(), running.connect(), running.connect()];
    let [mut one, mut other] = [running.connect(), running.connect()];
    // The worker's pool holds two buffers that were used: those of a half request, and of the request beside it.
    let request_of = |length: usize| request(&["SET", "k", &"x".repeat(length)]);
    let halves = request_of(100_000);
    half.send(&halves[..50_000]);
    await_lines(&mut one, 5, "id=");
    half.send(&halves[50_000..]);
    half.expect("+OK\r\n");
    assert_eq!(ask(&mut monitor, &["MONITOR"]), b"+OK\r\n");
    for client in [&mut one, &mut other] {
        assert_eq!(ask(client, &["PING"]), b"+PONG\r\n");
    }
    large.send(request_of(2 << 20));
    large.expect("+OK\r\n");
    for _ in 0..20 {
        for client in [&mut one, &mut other, &mut large] {
            assert_eq!(ask(client, &["SET", "k", "v"]), b"+OK\r\n");
        }
    }
    let mut rest = Vec::new();
    monitor.stream.read_to_end(&mut rest).unwrap();
    assert!(rest.len() < 1 << 20);
}

/// While the server sends a line, the next ones are queued: a Unix socket takes much less than a line of what its
/// client does not read.
#[test]
fn a_monitor_for_which_lines_are_always_queued_can_end_it() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("socket");
    let running = in_memory(&["--unixsocket", socket.to_str().unwrap()]);
    let mut monitor = BufReader::new(connect_to(&socket));
    monitor.get_ref().set_read_timeout(Some(PATIENCE)).unwrap();
    let next_line = |monitor: &mut BufReader<UnixStream>| {
        let mut line = Vec::new();
        monitor.read_until(b'\n', &mut line).unwrap();
        line
    };
    monitor.get_mut().write_all(b"MONITOR\r\n").unwrap();
    assert_eq!(next_line(&mut monitor), b"+OK\r\n");
    let (mut client, value) = (running.connect(), "x".repeat(1 << 20));
    let mut set = || assert_eq!(ask(&mut client, &["SET", "k", &value]), b"+OK\r\n");
    set();
    set();
    monitor.get_mut().write_all(b"RESET\r\n").unwrap();
    let is_reset = (0..20).any(|_| {
        set();
        next_line(&mut monitor) == b"+RESET\r\n"
    });
    assert!(is_reset, "the server does not read what the monitor sends");
}

#[test]
fn monitor_is_not_closed_for_silence() {
    let running = in_memory(&["--timeout", "1"]);
    let [mut monitor, mut silent] = [running.connect(), running.connect()];
    assert_eq!(ask(&mut monitor, &["MONITOR"]), b"+OK\r\n");
    ask(&mut silent, &["SELECT", "0"]);
    silent.expect_closed();
    replies(&mut monitor, 1);
    ask(&mut running.connect(), &["GET", "later"]);
    assert!(String::from_utf8_lossy(&replies(&mut monitor, 1)[0]).ends_with("\"GET\" \"later\"\r\n"));
}

#[test]
fn client_list_shows_the_protocol_and_the_queued_command_of_others_as_by_redis() {
    let (running, redis) = (in_memory(&[]), Redis::start());
    for [mut one, mut other] in [[running.connect(), running.connect()], [redis.connect(), redis.connect()]] {
        for words in [&["HELLO", "3"][..], &["MULTI"], &["GET", "k"]] {
            one.send(request(words));
            replies(&mut one, 1);
        }
        let list = text(&mut other, &["CLIENT", "LIST"]);
        let line = list.lines().find(|line| line.contains(" multi=1 ")).unwrap();
        assert!(line.contains(" cmd=get ") && line.contains(" resp=3"), "{line}");
    }
}

/// Redis asks for a password only while it has one.
#[test]
fn removal_of_the_password_admits_earlier_connections() {
    let (running, redis) = (in_memory(&["--requirepass", "secret"]), Redis::start());
    ask(&mut redis.connect(), &["CONFIG", "SET", "requirepass", "secret"]);
    for connect in [&(|| running.connect()) as &dyn Fn() -> Client, &|| redis.connect()] {
        let [mut admin, mut early] = [connect(), connect()];
        assert!(ask(&mut early, &["GET", "k"]).starts_with(b"-NOAUTH "));
        assert_eq!(ask(&mut admin, &["AUTH", "secret"]), b"+OK\r\n");
        assert_eq!(ask(&mut admin, &["CONFIG", "SET", "requirepass", ""]), b"+OK\r\n");
        assert_eq!(ask(&mut early, &["GET", "k"]), b"$-1\r\n");
        // No password admits a client, but does not authenticate it.
        assert_eq!(ask(&mut admin, &["CONFIG", "SET", "requirepass", "another"]), b"+OK\r\n");
        assert!(ask(&mut early, &["GET", "k"]).starts_with(b"-NOAUTH "));
        assert_eq!(ask(&mut admin, &["GET", "k"]), b"$-1\r\n");
        assert_eq!(ask(&mut admin, &["CONFIG", "SET", "requirepass", "secret"]), b"+OK\r\n");
    }
}

/// EXEC would otherwise write only a part of the transaction.
#[test]
fn a_password_that_is_set_within_a_transaction_ends_it() {
    let (running, redis) = (in_memory(&["--requirepass", "secret"]), Redis::start());
    ask(&mut redis.connect(), &["CONFIG", "SET", "requirepass", "secret"]);
    for connect in [&(|| running.connect()) as &dyn Fn() -> Client, &|| redis.connect()] {
        for ends_with_auth in [false, true] {
            let [mut admin, mut early] = [connect(), connect()];
            // It was accepted while there was a password.
            assert!(ask(&mut early, &["GET", "a"]).starts_with(b"-NOAUTH "));
            assert_eq!(ask(&mut admin, &["AUTH", "secret"]), b"+OK\r\n");
            assert_eq!(ask(&mut admin, &["CONFIG", "SET", "requirepass", ""]), b"+OK\r\n");
            assert_eq!(ask(&mut early, &["MULTI"]), b"+OK\r\n");
            assert_eq!(ask(&mut early, &["SET", "a", "1"]), b"+QUEUED\r\n");
            assert_eq!(ask(&mut admin, &["CONFIG", "SET", "requirepass", "secret"]), b"+OK\r\n");
            assert!(ask(&mut early, &["SET", "b", "2"]).starts_with(b"-NOAUTH "));
            if ends_with_auth {
                assert_eq!(ask(&mut early, &["AUTH", "secret"]), b"+QUEUED\r\n");
            }
            let cause = b"-EXECABORT Transaction discarded because of: NOAUTH Authentication required.\r\n";
            assert_eq!(ask(&mut early, &["EXEC"]), cause);
            assert_eq!(ask(&mut early, &["AUTH", "secret"]), b"+OK\r\n", "the transaction is over");
            assert_eq!(ask(&mut early, &["GET", "a"]), b"$-1\r\n");
        }
    }
}

#[test]
fn wait_and_debug_sleep_hold_up_their_own_connection_only() {
    let running = in_memory(&["--threads", "1"]);
    let [mut one, mut other] = [running.connect(), running.connect()];
    for words in [&["WAIT", "1", "300"][..], &["DEBUG", "SLEEP", "0.3"]] {
        let begin = Instant::now();
        one.send(request(words));
        assert_eq!(ask(&mut other, &["PING"]), b"+PONG\r\n");
        assert!(replies(&mut one, 1)[0].starts_with(if words[0] == "WAIT" { b":0" } else { b"+OK" }));
        assert!(begin.elapsed() >= Duration::from_millis(295));
    }
}

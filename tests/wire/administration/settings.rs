//! CONFIG SET: settings that change while clients are connected.

use super::text;
use crate::{
    every_store::in_memory,
    frames::ask,
    idle::{expect_too_large, large_request},
    support::{Client, request},
};

fn set(client: &mut Client, name: &str, value: &str) {
    assert_eq!(text(client, &["CONFIG", "SET", name, value]), "+OK\r\n", "{name} {value}");
}

#[test]
fn a_password_may_be_set_and_taken_away() {
    let running = in_memory(&[]);
    let mut client = running.connect();
    set(&mut client, "requirepass", "secret");
    assert_eq!(ask(&mut client, &["PING"]), b"+PONG\r\n", "who is in stays in");
    let mut other = running.connect();
    assert_eq!(ask(&mut other, &["PING"]), b"-NOAUTH Authentication required.\r\n");
    assert_eq!(ask(&mut other, &["AUTH", "secret"]), b"+OK\r\n");
    let shown = text(&mut other, &["CONFIG", "GET", "requirepass"]);
    assert!(!shown.contains("secret"), "{shown}");
    set(&mut other, "requirepass", "");
    assert_eq!(ask(&mut running.connect(), &["PING"]), b"+PONG\r\n");
}

#[test]
fn maxclients_holds_for_the_next_connection() {
    let running = in_memory(&["--maxclients", "100"]);
    let mut client = running.connect();
    set(&mut client, "maxclients", "1");
    let mut other = running.connect();
    other.expect("-ERR max number of clients reached\r\n");
    other.expect_closed();
    let refusal = text(&mut client, &["CONFIG", "SET", "maxclients", "101"]);
    assert!(refusal.ends_with("try with 100\r\n"), "{refusal}");
    set(&mut client, "maxclients", "2");
    assert_eq!(ask(&mut running.connect(), &["PING"]), b"+PONG\r\n");
    assert!(text(&mut client, &["INFO", "stats"]).contains("\r\nrejected_connections:1\r\n"));
}

#[test]
fn a_timeout_ends_connections_that_are_idle_already() {
    let running = in_memory(&[]);
    let [mut client, mut idle] = [running.connect(), running.connect()];
    ask(&mut idle, &["PING"]);
    set(&mut client, "timeout", "1");
    idle.expect_closed();
    let mut other = running.connect();
    set(&mut other, "timeout", "0");
}

#[test]
fn the_limit_of_replies_holds_for_the_next_batch() {
    let running = in_memory(&[]);
    let mut client = running.connect();
    ask(&mut client, &["SET", "big", &"x".repeat(1 << 20)]);
    set(&mut client, "client-output-buffer-limit", "normal 100kb 0 0");
    assert_eq!(
        text(&mut client, &["CONFIG", "GET", "client-output-buffer-limit"]).lines().last(),
        Some("normal 102400 0 0")
    );
    client.send(request(&["GET", "big"]));
    client.expect_closed();
}

/// As in Redis, for connections that are open, too, and for requests of which a part has come.
#[test]
fn the_limit_of_requests_holds_from_the_next_read_on() {
    let running = in_memory(&[]);
    let [mut client, mut open, mut midway, mut raised] = [(); 4].map(|()| running.connect());
    ask(&mut open, &["PING"]);
    midway.send([&b"PING\r\n"[..], &large_request()].concat());
    midway.expect("+PONG\r\n");
    ask(&mut raised, &["PING"]);
    set(&mut client, "client-query-buffer-limit", "1mb");
    expect_too_large(&mut open, &large_request());
    expect_too_large(&mut midway, b"x");
    set(&mut client, "client-query-buffer-limit", "2mb");
    let value = "x".repeat(1_500_000);
    assert_eq!(ask(&mut raised, &["ECHO", &value]).len(), value.len() + 12);
}

#[test]
fn there_is_no_soft_limit_of_replies() {
    let running = in_memory(&[]);
    let mut client = running.connect();
    let limit = |client: &mut Client| text(client, &["CONFIG", "GET", "client-output-buffer-limit"]);
    let before = limit(&mut client);
    for value in ["normal 2mb 1mb 60", "normal 2mb 1 0 pubsub 1 0 0"] {
        let refusal = text(&mut client, &["CONFIG", "SET", "client-output-buffer-limit", value]);
        assert!(refusal.contains("no soft limit"), "{refusal}");
    }
    // There are no such clients.
    set(&mut client, "client-output-buffer-limit", "pubsub 32mb 8mb 60");
    assert_eq!(limit(&mut client), before);
}

#[test]
fn what_is_fixed_may_be_set_to_what_it_is() {
    let running = in_memory(&[]);
    let mut client = running.connect();
    for (name, value) in
        [("save", ""), ("maxmemory", "0"), ("appendonly", "NO"), ("maxmemory-policy", "noeviction")]
    {
        set(&mut client, name, value);
    }
    for (name, value) in [("save", "60 1"), ("maxmemory", "1mb"), ("appendonly", "yes"), ("store", "map")] {
        let refusal = text(&mut client, &["CONFIG", "SET", name, value]);
        let expected = format!("related to argument '{name}') - can't set immutable config\r\n");
        assert!(refusal.ends_with(&expected), "{refusal}");
    }
}

#[test]
fn nothing_is_set_when_one_value_is_wrong() {
    let running = in_memory(&["--maxclients", "100"]);
    let mut client = running.connect();
    let refusal = text(&mut client, &["CONFIG", "SET", "maxclients", "50", "timeout", "x"]);
    assert!(refusal.starts_with("-ERR CONFIG SET failed"), "{refusal}");
    assert!(text(&mut client, &["CONFIG", "GET", "maxclients"]).ends_with("\r\n100\r\n"));
}

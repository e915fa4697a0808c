//! Keys that expire: gone to every command at once, removed soon, and not forgotten over a restart.

use crate::{
    commands::expect,
    every_store::{on_every_store, with_every_store},
    frames::ask,
    support::{Client, PATIENCE},
};
use std::{
    thread,
    time::{Duration, Instant},
};

/// Asks until the reply is this one.
fn wait_for(client: &mut Client, words: &[&str], reply: &[u8]) {
    let deadline = Instant::now() + PATIENCE;
    while ask(client, words) != reply {
        assert!(Instant::now() < deadline, "{words:?} never answers {}", reply.escape_ascii());
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn what_has_expired_is_gone_and_is_removed_by_itself() {
    on_every_store(|running| {
        let mut client = running.connect();
        expect(&mut client, &["SET", "stays", "v"], "+OK");
        for number in 0..50 {
            expect(&mut client, &["SET", &format!("goes {number}"), "v", "PX", "100"], "+OK");
        }
        wait_for(&mut client, &["EXISTS", "goes 49"], b":0\r\n");
        // Nobody has looked at most of them, and nobody has written.
        wait_for(&mut client, &["DBSIZE"], b":1\r\n");
        expect(&mut client, &["KEYS", "*"], "*1\n$5\nstays");
        expect(&mut client, &["SET", "goes 1", "again", "NX"], "+OK");
        expect(&mut client, &["TTL", "goes 1"], ":-1");
    });
}

#[test]
fn deadlines_outlive_the_server() {
    with_every_store(|running| {
        if running.is_in_memory() {
            return;
        }
        let mut client = running.connect();
        expect(&mut client, &["SET", "later", "v", "PXAT", "4000000000001"], "+OK");
        expect(&mut client, &["SET", "soon", "v", "PX", "300"], "+OK");
        expect(&mut client, &["SET", "never", "v"], "+OK");
        client.send("SHUTDOWN\r\n");
        let mut running = running;
        assert!(running.server.wait().success());
        let running = running.restart();
        let mut client = running.connect();
        expect(&mut client, &["PEXPIRETIME", "later"], ":4000000000001");
        expect(&mut client, &["PEXPIRETIME", "never"], ":-1");
        // It is found, though nobody tells of it.
        wait_for(&mut client, &["DBSIZE"], b":2\r\n");
        expect(&mut client, &["MGET", "later", "soon", "never"], "*3\n$1\nv\n$-1\n$1\nv");
    });
}

#[test]
fn a_value_keeps_its_deadline_where_redis_keeps_it() {
    on_every_store(|running| {
        let mut client = running.connect();
        let date = ":4000000000";
        for (words, kept) in [
            (&["APPEND", "k", "1"][..], date),
            (&["INCR", "k"], date),
            (&["INCRBYFLOAT", "k", "1"], date),
            (&["SETRANGE", "k", "0", "9"], date),
            (&["SETBIT", "k", "7", "1"], date),
            (&["BITFIELD", "k", "SET", "u8", "0", "50"], date),
            (&["SET", "k", "1", "KEEPTTL"], date),
            (&["GETEX", "k"], date),
            (&["RENAME", "k", "k"], date),
            (&["SET", "k", "1"], ":-1"),
            (&["GETSET", "k", "1"], ":-1"),
            (&["MSET", "k", "1"], ":-1"),
            (&["BITOP", "NOT", "k", "k"], ":-1"),
            (&["GETEX", "k", "PERSIST"], ":-1"),
        ] {
            expect(&mut client, &["SET", "k", "1", "EXAT", "4000000000"], "+OK");
            ask(&mut client, words);
            println!("{words:?}");
            expect(&mut client, &["EXPIRETIME", "k"], kept);
        }
        expect(&mut client, &["SET", "k", "1", "EXAT", "4000000000"], "+OK");
        expect(&mut client, &["RENAME", "k", "other"], "+OK");
        expect(&mut client, &["COPY", "other", "k"], ":1");
        expect(&mut client, &["EXPIRETIME", "k"], date);
        expect(&mut client, &["EXPIRETIME", "other"], date);
    });
}

//! MULTI, EXEC and WATCH with several clients.

use crate::{
    commands::expect,
    every_store::{in_memory, on_every_store, with_every_store},
    frames::{ask, exchange},
};

#[test]
fn a_key_that_others_change_ends_a_transaction() {
    on_every_store(|running| {
        let [mut client, mut other] = [running.connect(), running.connect()];
        for (words, changes) in [
            (&["SET", "k", "1"][..], true),
            (&["INCR", "k"], true),
            (&["DEL", "k"], true),
            (&["EXPIRE", "k", "1000"], true),
            (&["RENAME", "k", "away"], true),
            (&["FLUSHALL"], true),
            (&["FLUSHDB"], true),
            (&["SWAPDB", "0", "1"], true),
            (&["GET", "k"], false),
            (&["SET", "other", "1"], false),
            (&["DEL", "none"], false),
            (&["SETNX", "k", "2"], false),
            (&["SELECT", "0"], false),
        ] {
            expect(&mut client, &["MSET", "k", "0", "w", "0"], "+OK");
            expect(&mut client, &["WATCH", "none", "k"], "+OK");
            ask(&mut other, words);
            expect(&mut client, &["MULTI"], "+OK");
            expect(&mut client, &["INCR", "n"], "+QUEUED");
            println!("{words:?}");
            let done = ask(&mut client, &["EXEC"]);
            assert_eq!(done.starts_with(b"*-1"), changes, "{}", done.escape_ascii());
            // What is watched is forgotten in any case.
            ask(&mut other, &["SET", "k", "3"]);
            expect(&mut client, &["MULTI"], "+OK");
            assert_eq!(ask(&mut client, &["EXEC"]), b"*0\r\n");
        }
    });
}

#[test]
fn a_flush_changes_only_what_is_there() {
    on_every_store(|running| {
        let [mut client, mut other] = [running.connect(), running.connect()];
        expect(&mut client, &["WATCH", "none"], "+OK");
        expect(&mut other, &["FLUSHALL"], "+OK");
        expect(&mut client, &["MULTI"], "+OK");
        expect(&mut client, &["PING"], "+QUEUED");
        expect(&mut client, &["EXEC"], "*1\n+PONG");
    });
}

#[test]
fn a_watched_key_that_expires_has_changed() {
    on_every_store(|running| {
        let mut client = running.connect();
        expect(&mut client, &["SET", "k", "v", "PX", "30"], "+OK");
        expect(&mut client, &["WATCH", "k"], "+OK");
        while ask(&mut client, &["EXISTS", "k"]) != b":0\r\n" {}
        expect(&mut client, &["MULTI"], "+OK");
        expect(&mut client, &["PING"], "+QUEUED");
        expect(&mut client, &["EXEC"], "*-1");
    });
}

#[test]
fn a_transaction_sees_its_own_writes_in_every_way() {
    on_every_store(|running| {
        let mut client = running.connect();
        expect(&mut client, &["MSET", "old", "1", "gone", "2", "kept", "3"], "+OK");
        client.send("MULTI\r\nSET new 4\r\nDEL gone\r\nSET old 5\r\nDBSIZE\r\nKEYS ne*\r\nSCAN 0 MATCH gone COUNT 100\r\n");
        client.send("MGET old gone kept new\r\nFLUSHDB\r\nDBSIZE\r\nSET only 1\r\nRANDOMKEY\r\nEXEC\r\n");
        let replies = exchange(&mut client, b"PING\r\n", 14);
        let expected = "*11\r\n+OK\r\n:1\r\n+OK\r\n:3\r\n*1\r\n$3\r\nnew\r\n*2\r\n$1\r\n0\r\n*0\r\n\
                        *4\r\n$1\r\n5\r\n$-1\r\n$1\r\n3\r\n$1\r\n4\r\n+OK\r\n:0\r\n+OK\r\n$4\r\nonly\r\n";
        assert_eq!(replies[12].escape_ascii().to_string(), expected.as_bytes().escape_ascii().to_string());
        expect(&mut client, &["DBSIZE"], ":1");
    });
}

#[test]
fn an_error_inside_undoes_nothing_and_a_refused_request_everything() {
    let running = in_memory(&[]);
    let mut client = running.connect();
    client.send(
        "MULTI\r\nSET k x\r\nINCR k\r\nSET k y\r\nEXEC\r\nMULTI\r\nSET k z\r\nGET\r\nEXEC\r\nGET k\r\n",
    );
    let replies = exchange(&mut client, b"PING\r\n", 11);
    let error = "-ERR value is not an integer or out of range";
    assert_eq!(replies[4], format!("*3\r\n+OK\r\n{error}\r\n+OK\r\n").into_bytes());
    assert_eq!(replies[8], b"-EXECABORT Transaction discarded because of previous errors.\r\n");
    assert_eq!(replies[9], b"$1\r\ny\r\n");
}

/// Two clients add one, each in its own way, and none of it is lost.
#[test]
fn transactions_of_many_clients_lose_nothing() {
    const ROUNDS: usize = 200;
    on_every_store(|running| {
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let mut client = running.connect();
                    for _ in 0..ROUNDS {
                        loop {
                            ask(&mut client, &["WATCH", "n"]);
                            let value = ask(&mut client, &["GET", "n"]);
                            let number = str::from_utf8(&value).unwrap().lines().nth(1).unwrap_or("0");
                            let next = (number.parse::<u64>().unwrap() + 1).to_string();
                            ask(&mut client, &["MULTI"]);
                            ask(&mut client, &["SET", "n", &next]);
                            if ask(&mut client, &["EXEC"]) == b"*1\r\n+OK\r\n" {
                                break;
                            }
                        }
                    }
                });
            }
        });
        let total = (4 * ROUNDS).to_string();
        expect(&mut running.connect(), &["GET", "n"], &format!("${}\n{total}", total.len()));
    });
}

#[test]
fn a_large_transaction_is_there_as_a_whole_after_a_restart() {
    const KEYS: usize = 20_000;
    with_every_store(|mut running| {
        let mut client = running.connect();
        let mut requests = b"MULTI\r\n".to_vec();
        (0..KEYS).for_each(|n| requests.extend(format!("SET key:{n} {n}\r\n").bytes()));
        requests.extend(b"EXEC\r\n");
        let replies = exchange(&mut client, &requests, KEYS + 2);
        assert!(replies[KEYS + 1].starts_with(format!("*{KEYS}\r\n+OK\r\n").as_bytes()));
        expect(&mut client, &["DBSIZE"], &format!(":{KEYS}"));
        if !running.is_in_memory() {
            client.send("SHUTDOWN\r\n");
            assert!(running.server.wait().success());
            let running = running.restart();
            expect(&mut running.connect(), &["DBSIZE"], &format!(":{KEYS}"));
        }
    });
}

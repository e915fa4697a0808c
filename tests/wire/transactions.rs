//! MULTI, EXEC and WATCH with several clients.

use crate::{
    commands::expect,
    every_store::{Running, in_memory, on_every_store, with_every_store},
    frames::{ask, exchange, info, replies},
    support::{request, stores_that, wait_until},
};
use std::sync::atomic::{AtomicBool, Ordering};

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
        // On a busy machine the key may expire before it is watched.
        wait_until("the key is never there when it is watched", || {
            client.send("UNWATCH\r\nSET k v PX 200\r\nWATCH k\r\nEXISTS k\r\n");
            client.expect("+OK\r\n+OK\r\n+OK\r\n");
            replies(&mut client, 1)[0] == b":1\r\n"
        });
        wait_until("the key does not expire", || ask(&mut client, &["EXISTS", "k"]) == b":0\r\n");
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

#[test]
fn every_request_of_a_large_transaction_is_answered_in_its_place() {
    const PARTS: usize = 20_000;
    let (running, value) = (in_memory(&[]), "v".repeat(20));
    let mut client = running.connect();
    for counts in [false, true] {
        let mut asked = request(&["MULTI"]);
        let mut expected = format!("*{}\r\n", 2 * PARTS);
        for number in 1..=PARTS {
            asked.extend(request(&["SET", &format!("key:{number}"), &value]));
            asked.extend(if counts { request(&["INCR", "n"]) } else { request(&["MSET", "a", "1"]) });
            expected += "+OK\r\n";
            expected += &if counts { format!(":{number}\r\n") } else { "+OK\r\n".into() };
        }
        asked.extend(request(&["EXEC"]));
        let replies = exchange(&mut client, &asked, 2 * PARTS + 2);
        assert!(replies[2 * PARTS + 1] == expected.as_bytes(), "counts: {counts}");
        expect(&mut client, &["DBSIZE"], &format!(":{}", PARTS + 1 + usize::from(counts)));
    }
}

/// Outside of EXEC, DEL removes 1,024 keys in a commit.
#[test]
fn exec_deletes_many_keys_in_one_commit() {
    const KEYS: usize = 3000;
    on_every_store(|running| {
        let mut client = running.connect();
        let keys: Vec<String> = (0..KEYS).map(|n| format!("key:{n}")).collect();
        let set: Vec<&str> =
            ["MSET"].into_iter().chain(keys.iter().flat_map(|key| [key.as_str(), "v"])).collect();
        let del: Vec<&str> = ["DEL"].into_iter().chain(keys.iter().map(String::as_str)).collect();
        for (is_exec, commits) in [(false, 3), (true, 1)] {
            expect(&mut client, &set, "+OK");
            let before = info(&mut client, "commits");
            if is_exec {
                client.send([request(&["MULTI"]), request(&del), request(&["EXEC"])].concat());
                client.expect(format!("+OK\r\n+QUEUED\r\n*1\r\n:{KEYS}\r\n"));
            } else {
                expect(&mut client, &del, &format!(":{KEYS}"));
            }
            let commits = if running.is_in_memory() { 0 } else { commits };
            assert_eq!(info(&mut client, "commits") - before, commits);
            expect(&mut client, &["DBSIZE"], ":0");
        }
    });
}

#[test]
fn replies_of_exec_are_in_order_and_in_their_protocols() {
    let running = in_memory(&[]);
    let mut client = running.connect();
    expect(&mut client, &["SET", "k", "v"], "+OK");
    client.send("MULTI\r\nGET none\r\nCONFIG GET port\r\nHELLO 3\r\nCONFIG GET port\r\nGET none\r\nGET k\r\nEXEC\r\nGET none\r\n");
    let all = replies(&mut client, 9);
    let exec = String::from_utf8(all[7].clone()).unwrap();
    assert!(exec.starts_with("*6\r\n$-1\r\n*2\r\n$4\r\nport\r\n"), "{exec}");
    let (_, after) = exec.split_once("%7\r\n").unwrap();
    let (_, after) = after.split_once("%1\r\n$4\r\nport\r\n").unwrap();
    assert!(after.ends_with("\r\n_\r\n$1\r\nv\r\n"), "{exec}");
    assert_eq!(all[8], b"_\r\n");
}

/// A DEL of more than 1,024 keys takes several steps, and is one request nevertheless.
#[test]
fn reply_skip_suppresses_one_reply_of_a_request_of_several_steps() {
    on_every_store(|running| {
        let mut client = running.connect();
        let del: Vec<String> =
            ["DEL".into()].into_iter().chain((0..3000).map(|n| format!("key:{n}"))).collect();
        expect(&mut client, &["SET", "key:2999", "v"], "+OK");
        client.send([request(&["CLIENT", "REPLY", "SKIP"]), request(&del), request(&["PING"])].concat());
        client.expect("+PONG\r\n");
        expect(&mut client, &["DBSIZE"], ":0");
    });
}

#[test]
fn a_look_at_all_keys_and_a_large_write_wait_for_each_other_in_one_order() {
    const LOOKS: usize = 20;
    let looks = ["MULTI\r\n", &"KEYS none*\r\n".repeat(LOOKS), "EXEC\r\n"].concat();
    for store in stores_that(|info| info.capabilities.memory_resident) {
        let running = Running::start(store, ":memory:", &[]);
        let fill: Vec<u8> = (0..100_000).flat_map(|n| request(&["SET", &format!("key:{n}"), "v"])).collect();
        exchange(&mut running.connect(), &fill, 100_000);
        let large = request(&[&b"SET"[..], b"large", &vec![b'x'; 5 << 20]]);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut client = running.connect();
                for _ in 0..60 {
                    client.send(&large);
                    client.expect("+OK\r\n");
                }
            });
            let mut client = running.connect();
            for _ in 0..30 {
                client.send(&looks);
                assert!(replies(&mut client, LOOKS + 2).last().unwrap().starts_with(b"*20\r\n"));
            }
        });
    }
}

/// A server whose value `large` is longer than a reply may be.
fn with_a_value_beyond_the_limit() -> Running {
    let running = Running::start("map", ":memory:", &["--client-output-buffer-limit", "1MiB"]);
    let mut client = running.connect();
    client.send(request(&[&b"SET"[..], b"large", &vec![b'x'; 2 << 20]]));
    client.expect("+OK\r\n");
    running
}

#[test]
fn a_reply_that_grows_too_long_ends_the_connection_and_is_no_ok() {
    let running = with_a_value_beyond_the_limit();
    let mut client = running.connect();
    client.send("MULTI\r\nGET large\r\n");
    client.expect("+OK\r\n+QUEUED\r\n");
    client.send("EXEC\r\n");
    client.expect_closed();
}

/// Many short replies are as long as a large value.
#[test]
fn many_short_replies_of_one_request_are_limited_too() {
    let running = Running::start("map", ":memory:", &["--client-output-buffer-limit", "1MiB"]);
    const MANY: usize = 300_000;
    const PART: usize = 10_000;
    let missing = [vec!["MGET"], vec!["missing"; MANY]].concat();
    let fields = [vec!["BITFIELD", "missing"], ["GET", "u8", "0"].repeat(MANY)].concat();
    for words in [missing, fields] {
        let mut client = running.connect();
        client.send(request(&words));
        client.expect_closed();
    }
    let mut client = running.connect();
    client.send("MULTI\r\n");
    client.expect("+OK\r\n");
    for _ in 0..MANY / PART {
        client.send("PING\r\n".repeat(PART));
        client.expect("+QUEUED\r\n".repeat(PART));
    }
    client.send("EXEC\r\n");
    client.expect_closed();
    // A client that reads its replies gets as many as it wants.
    let mut client = running.connect();
    for _ in 0..MANY / PART {
        client.send("PING\r\n".repeat(PART));
        client.expect("+PONG\r\n".repeat(PART));
    }
}

/// The client does not get the reply, so its length does not matter.
#[test]
fn a_suppressed_reply_that_grows_too_long_ends_nothing() {
    let running = with_a_value_beyond_the_limit();
    let mut client = running.connect();
    client.send("CLIENT REPLY OFF\r\nGET large\r\nSET one 1\r\nCLIENT REPLY ON\r\n");
    client.expect("+OK\r\n");
    client.send("CLIENT REPLY OFF\r\nMULTI\r\nGET large\r\nSET two 2\r\nEXEC\r\nCLIENT REPLY ON\r\n");
    client.expect("+OK\r\n");
    client.send("SET three 3\r\nCLIENT REPLY SKIP\r\nGET large\r\nMGET one two three\r\n");
    client.expect("+OK\r\n*3\r\n$1\r\n1\r\n$1\r\n2\r\n$1\r\n3\r\n");
    // In the midst of a request, which is not begun again.
    client.send("CLIENT REPLY OFF\r\nMGET large large large\r\nSET four 4\r\nCLIENT REPLY ON\r\n");
    client.expect("+OK\r\n");
    client.send("CLIENT REPLY SKIP\r\nMGET large large large\r\nGET four\r\n");
    client.expect("$1\r\n4\r\n");
}

/// The replies to the requests before EXEC are discarded with its own, and must not be missing.
#[test]
fn a_reply_to_exec_that_grows_too_long_loses_no_earlier_reply() {
    let running = with_a_value_beyond_the_limit();
    let mut client = running.connect();
    client.send("PING\r\nMULTI\r\nCLIENT REPLY OFF\r\nGET large\r\nEXEC\r\nCLIENT REPLY ON\r\n");
    client.expect_closed();
}

/// After a reply that grows too long, EXEC executes only the writes among the remaining requests.
#[test]
fn after_too_long_a_reply_a_transaction_only_writes() {
    let running = with_a_value_beyond_the_limit();
    let (mut client, mut other) = (running.connect(), running.connect());
    let (reads, others) = ("GET large\r\n".repeat(100), "COMMAND\r\n".repeat(3000));
    client.send(format!("MULTI\r\n{reads}{others}SET after 1\r\n"));
    client.expect(format!("+OK\r\n{}", "+QUEUED\r\n".repeat(3101)));
    client.send("EXEC\r\n");
    client.expect_closed();
    let stats = String::from_utf8(ask(&mut other, &["INFO", "commandstats"])).unwrap();
    assert!(!stats.contains("cmdstat_command:"), "{stats}");
    assert_eq!(info(&mut other, "keyspace_hits"), 1);
    assert_eq!(ask(&mut other, &["GET", "after"]), b"$1\r\n1\r\n");
}

#[test]
fn a_shutdown_is_not_queued() {
    let running = in_memory(&[]);
    let mut client = running.connect();
    client.send("MULTI\r\nSHUTDOWN NOSAVE\r\nEXEC\r\nPING\r\n");
    let [_, shutdown, exec, ping] = replies(&mut client, 4).try_into().unwrap();
    assert_eq!(shutdown, b"-ERR Command not allowed inside a transaction\r\n");
    assert_eq!(exec, b"-EXECABORT Transaction discarded because of previous errors.\r\n");
    assert_eq!(ping, b"+PONG\r\n");
}

/// LCS reads two keys, which others change together.
#[test]
fn the_keys_of_one_command_are_read_at_one_moment() {
    with_every_store(|running| {
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut client = running.connect();
                while !done.load(Ordering::Relaxed) {
                    client.send("MSET a xx b xx\r\nMSET a yyy b yyy\r\n");
                    client.expect("+OK\r\n+OK\r\n");
                }
            });
            let mut client = running.connect();
            while ask(&mut client, &["EXISTS", "a"]) != b":1\r\n" {}
            let lengths: Vec<_> = (0..500).map(|_| ask(&mut client, &["LCS", "a", "b", "LEN"])).collect();
            done.store(true, Ordering::Relaxed);
            assert!(!lengths.contains(&b":0\r\n".to_vec()), "the keys differ");
        });
    });
}

#[test]
fn a_transaction_counts_keys_as_its_writes_leave_them() {
    on_every_store(|running| {
        let mut client = running.connect();
        expect(&mut client, &["MSET", "old", "1", "gone", "2"], "+OK");
        expect(&mut client, &["SELECT", "3"], "+OK");
        expect(&mut client, &["SET", "other", "1"], "+OK");
        expect(&mut client, &["SELECT", "0"], "+OK");
        client.send("MULTI\r\nDBSIZE\r\nSET old 2\r\nSET new 1\r\nDEL gone\r\nDEL none\r\nDBSIZE\r\n");
        client.send("SET short 1 PX 1\r\nDBSIZE\r\nSELECT 3\r\nDBSIZE\r\nFLUSHALL\r\nDBSIZE\r\nSET z 1\r\nDBSIZE\r\nEXEC\r\n");
        let done = replies(&mut client, 16).remove(15);
        let done = String::from_utf8(done).unwrap().replace("\r\n", " ");
        assert_eq!(done, "*14 :2 +OK +OK :1 :0 :2 +OK :3 +OK :1 +OK :0 +OK :1 ");
    });
}

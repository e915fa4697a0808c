//! SCAN: whatever is there all the time is found, on every store.

use crate::{
    commands::expect,
    every_store::on_every_store,
    frames::ask,
    support::{Client, request, wait_until},
};
use std::collections::HashSet;

/// One call: the next cursor, and the keys.
fn step(client: &mut Client, cursor: &str, count: &str) -> (String, Vec<String>) {
    let reply = ask(client, &["SCAN", cursor, "COUNT", count]);
    let words: Vec<String> = String::from_utf8(reply).unwrap().split("\r\n").map(String::from).collect();
    // *2 $n cursor *n then pairs of lines
    let keys = words[4..].chunks(2).filter(|pair| pair.len() == 2).map(|pair| pair[1].clone());
    (words[2].clone(), keys.collect())
}

/// Stores these keys, all in one pipeline.
fn store(client: &mut Client, keys: &HashSet<String>) {
    for key in keys {
        client.send(request(&["SET", key, "v"]));
    }
    for _ in keys {
        client.expect("+OK\r\n");
    }
}

#[test]
fn an_incremental_scan_finds_all_that_stays_while_others_come_and_go() {
    on_every_store(|running| {
        let mut client = running.connect();
        // Across the size at which a hash table is divided.
        let stays: HashSet<String> = (0..6000).map(|n| format!("stays {n}")).collect();
        store(&mut client, &stays);
        for count in ["10", "1000"] {
            let (mut cursor, mut found, mut steps) = ("0".to_owned(), HashSet::new(), 0);
            loop {
                let (next, keys) = step(&mut client, &cursor, count);
                assert!(keys.len() < 3000, "{} keys for COUNT {count}", keys.len());
                found.extend(keys);
                for n in 0..5 {
                    let (come, go) = (format!("comes {steps} {n}"), format!("comes {} {n}", steps / 2));
                    expect(&mut client, &["SET", &come, "v"], "+OK");
                    ask(&mut client, &["DEL", &go]);
                }
                steps += 1;
                if next == "0" {
                    break;
                }
                cursor = next;
            }
            let missing: Vec<_> = stays.difference(&found).take(3).collect();
            assert!(missing.is_empty(), "{}: {missing:?} and more are missing", running.store);
        }
    });
}

#[test]
fn interleaved_scans_return_every_key() {
    on_every_store(|running| {
        let mut client = running.connect();
        let keys: HashSet<String> = (0..500).map(|n| format!("key {n}")).collect();
        store(&mut client, &keys);
        // By scan: cursor (`None` at the end) and keys so far. Each scan has another COUNT.
        let mut scans = vec![(Some("0".to_owned()), HashSet::new()); 10];
        while scans.iter().any(|(cursor, _)| cursor.is_some()) {
            for (number, (cursor, found)) in scans.iter_mut().enumerate() {
                if let Some(now) = cursor.take() {
                    let (next, keys) = step(&mut client, &now, &(7 + 10 * number).to_string());
                    found.extend(keys);
                    *cursor = Some(next).filter(|next| next != "0");
                    // A scan that another client begins and does not end.
                    step(&mut client, "0", "1");
                }
            }
        }
        assert!(scans.iter().all(|(_, found)| *found == keys), "{}", running.store);
    });
}

#[test]
fn a_scan_goes_on_in_a_transaction_that_has_written_its_keys() {
    on_every_store(|running| {
        let mut client = running.connect();
        let keys: HashSet<String> = (0..200).map(|n| format!("key {n}")).collect();
        store(&mut client, &keys);
        let (cursor, found) = step(&mut client, "0", "10");
        assert_ne!(cursor, "0", "{}", running.store);
        expect(&mut client, &["MULTI"], "+OK");
        for key in &keys {
            expect(&mut client, &["SET", key, "w"], "+QUEUED");
        }
        expect(&mut client, &["SCAN", &cursor, "COUNT", "1000"], "+QUEUED");
        let reply = String::from_utf8(ask(&mut client, &["EXEC"])).unwrap();
        let told: HashSet<&str> = reply.split("\r\n").collect();
        let missing: Vec<_> =
            keys.iter().filter(|key| !found.contains(*key) && !told.contains(key.as_str())).collect();
        assert!(missing.is_empty(), "{}: {missing:?}", running.store);
    });
}

#[test]
fn a_lost_reply_can_be_asked_for_again() {
    on_every_store(|running| {
        let mut client = running.connect();
        for n in 0..100 {
            expect(&mut client, &["SET", &format!("{n}"), "v"], "+OK");
        }
        let (cursor, _) = step(&mut client, "0", "10");
        let (first, second) = (step(&mut client, &cursor, "10").1, step(&mut client, &cursor, "10").1);
        assert_eq!(first, second, "{}", running.store);
    });
}

#[test]
fn every_key_is_chosen_at_random_now_and_then() {
    on_every_store(|running| {
        let mut client = running.connect();
        expect(&mut client, &["MSET", "foo", "1", "bar", "2", "baz", "3"], "+OK");
        let mut missing: HashSet<_> = ["foo", "bar", "baz"].map(|key| format!("$3\r\n{key}\r\n")).into();
        wait_until("a key is never chosen", || {
            missing.remove(&String::from_utf8(ask(&mut client, &["RANDOMKEY"])).unwrap());
            missing.is_empty()
        });
    });
}

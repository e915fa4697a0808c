//! Databases: what goes wrong in one leaves the others as they are.

use crate::{
    commands::expect,
    every_store::on_every_store,
    frames::{ask, replies},
    support::Client,
};

/// The longest key of database 0, where there is a limit that a client can meet.
fn longest_key(client: &mut Client) -> Option<usize> {
    let answer = ask(client, &["SET", &"k".repeat(100_000), "v"]);
    let text = String::from_utf8(answer).unwrap();
    if text.starts_with('+') {
        return None;
    }
    let number = text.rsplit(|c: char| !c.is_ascii_digit()).find(|word| !word.is_empty());
    Some(number.unwrap().parse().unwrap())
}

/// A key can be too long for any other database than 0.
#[test]
fn a_swap_that_fails_changes_nothing() {
    on_every_store(|running| {
        let mut client = running.connect();
        let Some(longest) = longest_key(&mut client) else { return };
        expect(&mut client, &["MSET", "a", "1", "b", "2"], "+OK");
        expect(&mut client, &["SET", &"k".repeat(longest), "long"], "+OK");
        expect(&mut client, &["SELECT", "1"], "+OK");
        expect(&mut client, &["SET", "c", "3"], "+OK");
        for swap in ["SWAPDB 0 1", "SWAPDB 1 0"] {
            expect(&mut client, &["SELECT", "5"], "+OK");
            // What follows in the same commit is still of database 5.
            client.send(format!("{swap}\r\nSET mine 1\r\nDBSIZE\r\n"));
            let [swapped, set, size] = replies(&mut client, 3).try_into().unwrap();
            assert!(swapped.starts_with(b"-ERR the key has "), "{}", swapped.escape_ascii());
            assert_eq!((set.as_slice(), size.as_slice()), (&b"+OK\r\n"[..], &b":1\r\n"[..]), "{swap}");
            for (number, keys) in [("0", ":3"), ("1", ":1")] {
                expect(&mut client, &["SELECT", number], "+OK");
                expect(&mut client, &["DBSIZE"], keys);
            }
        }
    });
}

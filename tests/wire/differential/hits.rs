//! INFO counts the keys that reads found and missed as Redis does.

use super::redis::Redis;
use crate::{
    every_store::on_every_store,
    frames::{ask, exchange},
    support::{Client, request},
};

/// `keyspace_hits` and `keyspace_misses`.
fn counted(client: &mut Client) -> [u64; 2] {
    let info = String::from_utf8(ask(client, &["INFO", "stats"])).unwrap();
    ["keyspace_hits:", "keyspace_misses:"].map(|name| {
        let line = info.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_else(|| panic!("no {name} in {info}")).trim().parse().unwrap()
    })
}

/// Every command that only reads, with keys that are there, that are not, and that have expired.
const READS: [&str; 24] = [
    "GET there",
    "GET absent",
    "GET expired",
    "STRLEN there",
    "STRLEN absent",
    "GETRANGE there 0 1",
    "SUBSTR absent 0 1",
    "MGET there absent there expired",
    "EXISTS there absent there",
    "TOUCH there absent",
    "TYPE there",
    "TYPE absent",
    "TTL there",
    "PTTL absent",
    "EXPIRETIME there",
    "PEXPIRETIME absent",
    "GETBIT there 3",
    "GETBIT absent 3",
    "BITCOUNT there",
    "BITPOS absent 1",
    "BITFIELD_RO there GET u8 0",
    "SET other value",
    "INCR counter",
    "GET other",
];

#[test]
fn keys_that_reads_find_and_miss_are_counted_as_in_redis() {
    let redis = Redis::start();
    on_every_store(|running| {
        let mut clients = [running.connect(), redis.connect()];
        let word = |text: &str| request(&text.split(' ').collect::<Vec<_>>());
        for client in &mut clients {
            let prepare = ["FLUSHALL", "SET there value", "SET expired value PXAT 1", "CONFIG RESETSTAT"];
            exchange(client, &prepare.map(word).concat(), prepare.len());
            assert_eq!(counted(client), [0, 0]);
        }
        // Each alone; then all in one pipeline, where they join each other and the writes; then in a transaction.
        for read in READS {
            let [ours, theirs] = clients.each_mut().map(|client| {
                exchange(client, &word(read), 1);
                counted(client)
            });
            assert_eq!(ours, theirs, "{read}");
        }
        let all = READS.map(word).concat();
        let transaction = [word("MULTI"), all.clone(), word("EXEC")].concat();
        for (bytes, replies) in [(all, READS.len()), (transaction, READS.len() + 2)] {
            let [ours, theirs] = clients.each_mut().map(|client| {
                exchange(client, &bytes, replies);
                counted(client)
            });
            assert_eq!(ours, theirs);
        }
    });
}

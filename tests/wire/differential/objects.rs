//! What OBJECT tells of values that were set as a whole.

use super::Redis;
use crate::{every_store::on_every_store, frames::ask};

const VALUES: &[&str] = &[
    "",
    "0",
    "-1",
    "9999",
    "10000",
    "01",
    "+1",
    " 1",
    "-0",
    "1.5",
    "x",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "00000000000000000000",
    // 44 and 45 bytes.
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
];

/// Ways to set a value, `%` in its place.
const WAYS: &[&str] = &[
    "SET k %",
    "SET k % PX 100000000",
    "SETNX k %",
    "SETEX k 100000 %",
    "GETSET k %",
    "MSET k %",
    "MSETNX k %",
    "APPEND k %",
];

#[test]
fn encodings_are_those_of_redis_for_values_that_were_set_as_a_whole() {
    let redis = Redis::start();
    on_every_store(|running| {
        let mut clients = [running.connect(), redis.connect()];
        for (way, value) in WAYS.iter().flat_map(|way| VALUES.iter().map(move |value| (way, value))) {
            let [ours, theirs] = clients.each_mut().map(|client| {
                ask(client, &["DEL", "k", "copy", "name"]);
                let words: Vec<_> =
                    way.split(' ').map(|word| if word == "%" { *value } else { word }).collect();
                ask(client, &words);
                ask(client, &["COPY", "k", "copy"]);
                ask(client, &["RENAME", "k", "name"]);
                // Redis does not share the number of a copy.
                let asked = [["ENCODING", "copy"], ["ENCODING", "name"], ["REFCOUNT", "name"]];
                asked.map(|[what, key]| ask(client, &["OBJECT", what, key]).escape_ascii().to_string())
            });
            assert_eq!(ours, theirs, "{way}, {value:?}");
        }
        for counting in ["INCR", "DECR"] {
            let [ours, theirs] = clients.each_mut().map(|client| {
                ask(client, &["SET", "k", "7"]);
                ask(client, &[counting, "k"]);
                ask(client, &["OBJECT", "ENCODING", "k"])
            });
            assert_eq!(ours, theirs, "{counting}");
        }
    });
}

//! MEMORY: what the server tells of itself.

use super::text;
use crate::{differential::Redis, every_store::in_memory, frames::ask};
use redis_protocol::resp2::types::OwnedFrame;

/// Names and numbers of MEMORY STATS.
fn stats(mut client: crate::support::Client) -> Vec<(String, f64)> {
    let OwnedFrame::Array(fields) = client.call(&["MEMORY", "STATS"]) else { panic!("no fields") };
    let word = |frame: &OwnedFrame| match frame {
        OwnedFrame::BulkString(bytes) => String::from_utf8(bytes.clone()).unwrap(),
        OwnedFrame::Integer(number) => number.to_string(),
        other => panic!("{other:?}"),
    };
    fields.chunks(2).map(|pair| (word(&pair[0]), word(&pair[1]).parse().unwrap())).collect()
}

#[test]
fn memory_stats_are_fields_of_redis() {
    let (redis, running) = (Redis::start(), in_memory(&[]));
    running.connect().call(&["SET", "k", &"v".repeat(10 << 20)]);
    let (ours, theirs) = (stats(running.connect()), stats(redis.connect()));
    for (name, number) in &ours {
        assert!(theirs.iter().any(|(other, _)| other == name), "{name}");
        assert!(number.is_finite() && *number >= 0.0, "{name}: {number}");
    }
    let field = |name: &str| ours.iter().find(|(other, _)| other == name).unwrap().1;
    assert!(
        field("total.allocated") > 10e6 && field("peak.allocated") >= field("total.allocated"),
        "{ours:?}"
    );
    let mut client = running.connect();
    ask(&mut client, &["HELLO", "3"]);
    let reply = text(&mut client, &["MEMORY", "STATS"]);
    assert!(reply.starts_with(&format!("%{}\r\n", ours.len())) && reply.contains("\r\n,"), "{reply}");
}

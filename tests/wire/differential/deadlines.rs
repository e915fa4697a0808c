//! What both servers keep, and until when.
//!
//! A deadline that a request tells as a date is the same in both. One that counts from now is as far apart as the two
//! servers were asked.

use super::stream::Request;
use crate::support::Client;
use redis_protocol::resp2::types::OwnedFrame;

/// Milliseconds that may lie between the same request to one server and to the other.
const APART: i64 = 120_000;

/// The dates of [`stream`](super::stream) are multiples of so many seconds, and what counts from now is hardly ever.
const ROUND: i64 = 1_000_000;

/// A key of a database, its value, and its PEXPIRETIME.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pair {
    pub database: u8,
    pub key: Vec<u8>,
    pub value: String,
    pub deadline: i64,
}

/// All pairs of all databases, in order.
pub fn contents(client: &mut Client) -> Vec<Pair> {
    let mut pairs = Vec::new();
    for database in 0..16 {
        client.call(&["SELECT", &database.to_string()]);
        let keys = client.call(&["KEYS", "*"]);
        let OwnedFrame::Array(keys) = keys else { panic!("{keys:?}") };
        for key in keys {
            let OwnedFrame::BulkString(key) = key else { panic!("{key:?}") };
            let value = format!("{:?}", client.call(&[b"GET", &key[..]]));
            let deadline = client.call(&[b"PEXPIRETIME", &key[..]]);
            let OwnedFrame::Integer(deadline) = deadline else { panic!("{deadline:?}") };
            pairs.push(Pair { database, key, value, deadline });
        }
    }
    pairs.sort();
    pairs
}

/// Compares all that two servers keep, and returns how many keys have a deadline.
pub fn compare_contents(clients: &mut [Client; 2]) -> usize {
    let [ours, theirs] = clients.each_mut().map(contents);
    let keys =
        |pairs: &[Pair]| pairs.iter().map(|pair| (pair.database, pair.key.clone())).collect::<Vec<_>>();
    assert_eq!(keys(&ours), keys(&theirs));
    for (ours, theirs) in ours.iter().zip(&theirs) {
        assert_eq!(ours.value, theirs.value, "{ours:?}, Redis: {theirs:?}");
        assert!(is_same(ours.deadline, theirs.deadline, APART, ROUND * 1000), "{ours:?}, Redis: {theirs:?}");
    }
    ours.iter().filter(|pair| pair.deadline >= 0).count()
}

/// Whether replies to TTL, PTTL, EXPIRETIME or PEXPIRETIME tell of the same deadline; `None` for other requests and
/// replies, which are to be equal.
pub fn tell_the_same(request: &Request, ours: &[u8], theirs: &[u8]) -> Option<bool> {
    let (apart, round) = match request.command.as_slice() {
        b"pexpiretime" => (APART, ROUND * 1000),
        b"expiretime" => (APART / 1000, ROUND),
        // How long is left is never the same.
        b"pttl" => (APART, i64::MAX),
        b"ttl" => (APART / 1000, i64::MAX),
        _ => return None,
    };
    Some(is_same(number(ours)?, number(theirs)?, apart, round))
}

fn number(reply: &[u8]) -> Option<i64> {
    str::from_utf8(reply).ok()?.strip_prefix(':')?.trim_end().parse().ok()
}

fn is_same(ours: i64, theirs: i64, apart: i64, round: i64) -> bool {
    let is_date = ours % round == 0 || theirs % round == 0;
    // Below zero there is no deadline, or no key.
    ours == theirs || ours.min(theirs) >= 0 && !is_date && ours.abs_diff(theirs) <= apart.unsigned_abs()
}

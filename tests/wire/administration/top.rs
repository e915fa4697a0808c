//! `kvbench top` shows any server that has INFO.

use crate::{differential::Redis, support::KVBENCH};
use std::process::Command;

#[test]
fn top_shows_a_redis_server() {
    let redis = Redis::start();
    let mut client = redis.connect();
    client.call(&["MSET", "a", "1", "b", "2"]);
    let address = redis.address.to_string();
    let printed = crate::clients::output(Command::new(KVBENCH).args(["top", &address, "-n", "1"]), b"");
    let program = format!("redis {}", super::info::value(&mut client, "redis_version"));
    for part in [&*address, &*program, "clients 2", "keys 2", "requests/s", "memory ", "mset ", "calls/s"] {
        assert!(printed.contains(part), "no {part:?} in {printed}");
    }
    // What only kvbench tells is left out.
    assert!(!printed.contains("commits/s") && !printed.contains("disk"), "{printed}");
}

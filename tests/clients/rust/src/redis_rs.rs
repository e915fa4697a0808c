//! redis-rs, blocking and over Tokio.

use crate::{complete, every_byte};
use redis::{
    AsyncTypedCommands, Client, Commands, Connection, ConnectionAddr, ConnectionInfo, IntoConnectionInfo,
    ProtocolVersion, RedisConnectionInfo, pipe,
};
use std::collections::{HashMap, HashSet};

fn client(port: u16, resp3: bool) -> Client {
    let protocol = if resp3 { ProtocolVersion::RESP3 } else { ProtocolVersion::RESP2 };
    let address = ConnectionAddr::Tcp("127.0.0.1".into(), port);
    let info: ConnectionInfo = address.into_connection_info().unwrap();
    Client::open(info.set_redis_settings(RedisConnectionInfo::default().set_protocol(protocol))).unwrap()
}

pub fn sync(port: u16, resp3: bool) {
    let mut redis = client(port, resp3).get_connection().unwrap();
    redis.flushdb::<()>().unwrap();
    redis.set::<_, _, ()>(every_byte(), every_byte()).unwrap();
    assert_eq!(redis.get::<_, Vec<u8>>(every_byte()).unwrap(), every_byte());
    assert_eq!(redis.get::<_, Option<String>>("none").unwrap(), None);
    assert_eq!(redis.incr::<_, _, i64>("n", 42).unwrap(), 42);
    redis.set::<_, _, ()>("text", "text").unwrap();
    let error = redis.incr::<_, _, i64>("text", 1).unwrap_err();
    assert!(error.to_string().contains("not an integer"), "{error}");
    redis.mset::<_, _, ()>(&[("a", "1"), ("b", "ü字")]).unwrap();
    let values: Vec<Option<String>> = redis.mget(&["a", "b", "none"]).unwrap();
    assert_eq!(values, [Some("1".into()), Some("ü字".into()), None]);
    let settings: HashMap<String, String> =
        redis::cmd("CONFIG").arg("GET").arg("maxmemory").query(&mut redis).unwrap();
    assert_eq!(settings["maxmemory"], "0");

    let mut pipeline = pipe();
    (0..1000).for_each(|n| {
        pipeline.set(format!("p{n}"), n).ignore().incr("count", 1);
    });
    let counts: Vec<i64> = pipeline.query(&mut redis).unwrap();
    assert_eq!(counts, (1..=1000).collect::<Vec<_>>());
    if complete() {
        transactions(&mut redis);
    }
    redis.flushdb::<()>().unwrap();
}

fn transactions(redis: &mut Connection) {
    let (count, a): (i64, i64) = pipe().atomic().incr("count", 1).get("a").query(redis).unwrap();
    assert_eq!((count, a), (1001, 1));
    let keys: HashSet<String> = redis.scan_match("p*").unwrap().collect::<Result<_, _>>().unwrap();
    assert_eq!(keys.len(), 1000);
}

pub async fn tokio(port: u16, resp3: bool) {
    let redis = client(port, resp3).get_multiplexed_async_connection().await.unwrap();
    // Requests of tasks that share a connection meet in one write.
    let tasks: Vec<_> = (0..100)
        .map(|n| {
            let mut redis = redis.clone();
            tokio::spawn(async move {
                redis.set(format!("k{n}"), n).await.unwrap();
                redis.incr("count", 1).await.unwrap();
                assert_eq!(redis.get(format!("k{n}")).await.unwrap(), Some(n.to_string()));
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let mut redis = redis;
    assert_eq!(redis.get("count").await.unwrap(), Some("100".into()));
    if complete() {
        let (set, a): ((), i64) =
            pipe().atomic().set("a", 1).incr("a", 1).query_async(&mut redis).await.unwrap();
        assert_eq!((set, a), ((), 2));
    }
    redis.flushdb().await.unwrap();
}

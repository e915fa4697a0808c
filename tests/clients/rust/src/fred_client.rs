//! fred.

use crate::{complete, every_byte};
use fred::{
    prelude::*,
    types::{CustomCommand, RespVersion, config::ServerConfig, scan::Scanner},
};
use futures::StreamExt;
use std::{
    collections::{HashMap, HashSet},
    pin::pin,
};

pub async fn session(port: u16, resp3: bool) {
    let config = Config {
        server: ServerConfig::new_centralized("127.0.0.1", port),
        version: if resp3 { RespVersion::RESP3 } else { RespVersion::RESP2 },
        ..Config::default()
    };
    let client = Builder::from_config(config).build().unwrap();
    client.init().await.unwrap();
    let flush = CustomCommand::new_static("FLUSHDB", None, false);
    let _: () = client.custom(flush.clone(), Vec::<String>::new()).await.unwrap();
    let every = || fred::types::Key::from(&every_byte()[..]);
    let _: () = client.set(every(), &every_byte()[..], None, None, false).await.unwrap();
    assert_eq!(client.get::<Vec<u8>, _>(every()).await.unwrap(), every_byte());
    assert_eq!(client.get::<Option<String>, _>("none").await.unwrap(), None);
    assert_eq!(client.incr_by::<i64, _>("n", 42).await.unwrap(), 42);
    let error = client.incr::<i64, _>(every()).await.unwrap_err();
    assert!(error.to_string().contains("not an integer"), "{error}");
    let _: () = client.mset(HashMap::from([("a", "1"), ("b", "ü字")])).await.unwrap();
    let values: Vec<Option<String>> = client.mget(vec!["a", "b", "none"]).await.unwrap();
    assert_eq!(values, [Some("1".into()), Some("ü字".into()), None]);

    let pipeline = client.pipeline();
    for n in 0..1000 {
        let _: () = pipeline.set(format!("p{n}"), n, None, None, false).await.unwrap();
    }
    let set: Vec<String> = pipeline.all().await.unwrap();
    assert_eq!(set, vec!["OK"; 1000]);
    if complete() {
        transactions(&client).await;
    }
    let _: () = client.custom(flush, Vec::<String>::new()).await.unwrap();
    client.quit().await.unwrap();
}

async fn transactions(client: &Client) {
    let transaction = client.multi();
    let _: () = transaction.incr("n").await.unwrap();
    let _: () = transaction.get("a").await.unwrap();
    assert_eq!(transaction.exec::<(i64, String)>(true).await.unwrap(), (43, "1".into()));
    let mut keys = HashSet::new();
    let mut pages = pin!(client.scan("p*", Some(100), None));
    while let Some(page) = pages.next().await {
        let mut page = page.unwrap();
        keys.extend(page.take_results().unwrap_or_default());
        page.next();
    }
    assert_eq!(keys.len(), 1000);
}

//! The table of commands against that of redis-server: arity, flags, places of keys, categories, tips.

use super::{Redis, ask_all};
use crate::{every_store::in_memory, frames::ask, support::Client};
use kvbench::command::table;
use redis_protocol::resp2::types::OwnedFrame;
use std::collections::BTreeSet;

/// What Redis 7.0.15 has not: commands of 7.2, and DEBUG's subcommands, which are none in Redis.
const OWN: &[&str] = &["waitaof", "client|no-touch", "client|setinfo", "debug"];

/// Commands without subcommands, and subcommands.
fn names() -> Vec<String> {
    let mut names = Vec::new();
    for spec in table().filter(|spec| !OWN.contains(&spec.name)) {
        if spec.subcommands.is_empty() {
            names.push(spec.name.to_owned());
        }
        names.extend(spec.subcommands.iter().map(|(name, _)| format!("{}|{name}", spec.name)));
    }
    names.retain(|name| !OWN.contains(&name.as_str()));
    names
}

#[test]
fn commands_are_described_as_by_redis() {
    let (redis, running) = (Redis::start(), in_memory(&[]));
    let names = names();
    assert!(names.len() > 100, "{names:?}");
    for protocol in ["2", "3"] {
        let mut clients = [running.connect(), redis.connect()];
        ask_all(&mut clients, &["HELLO", protocol]);
        for name in &names {
            let [ours, theirs] = clients
                .each_mut()
                .map(|client| String::from_utf8(ask(client, &["COMMAND", "INFO", name])).unwrap());
            // It takes options here.
            let theirs =
                if name == "keys" { theirs.replacen("\r\n:2\r\n", "\r\n:-2\r\n", 1) } else { theirs };
            assert_eq!(ours, theirs, "{name}");
        }
    }
}

/// All but the subcommands.
fn described(client: &mut Client, name: &str) -> Vec<OwnedFrame> {
    let OwnedFrame::Array(mut rows) = client.call(&["COMMAND", "INFO", name]) else { panic!("{name}") };
    let OwnedFrame::Array(mut fields) = rows.remove(0) else { panic!("{name}") };
    assert_eq!(fields.len(), 10, "{name}");
    fields.pop();
    fields
}

#[test]
fn commands_with_subcommands_are_described_as_by_redis() {
    let (redis, running) = (Redis::start(), in_memory(&[]));
    let mut clients = [running.connect(), redis.connect()];
    for spec in table().filter(|spec| !spec.subcommands.is_empty() || spec.name == "debug") {
        let [ours, theirs] = clients.each_mut().map(|client| described(client, spec.name));
        assert_eq!(ours, theirs, "{}", spec.name);
    }
}

fn listed(client: &mut Client, filter: &[&str]) -> BTreeSet<String> {
    let reply = client.call(&[&["COMMAND", "LIST"], filter].concat());
    let OwnedFrame::Array(names) = reply else { panic!("{reply:?}") };
    let text = |name: OwnedFrame| match name {
        OwnedFrame::BulkString(name) => String::from_utf8(name).unwrap(),
        other => panic!("{other:?}"),
    };
    names.into_iter().map(text).collect()
}

#[test]
fn commands_are_listed_by_category_and_pattern_as_by_redis() {
    let (redis, running) = (Redis::start(), in_memory(&[]));
    let mut clients = [running.connect(), redis.connect()];
    let [ours, theirs] = clients.each_mut().map(|client| listed(client, &[]));
    let shared: BTreeSet<String> = ours.intersection(&theirs).cloned().collect();
    assert!(shared.contains("config|get") && shared.len() > 100, "{shared:?}");
    let categories = "keyspace read write string bitmap admin fast slow dangerous connection transaction STRING list \
        pubsub scripting nosuch";
    let by_category = categories.split_whitespace().map(|category| ["ACLCAT", category]);
    let patterns = ["*", "config|*", "CONFIG|*", "g?t*", "[a-f]*", "nosuch", "client|[ls]*"];
    for [kind, word] in by_category.chain(patterns.map(|pattern| ["pattern", pattern])) {
        let [ours, theirs] = clients.each_mut().map(|client| {
            let found = listed(client, &["FILTERBY", kind, word]);
            found.intersection(&shared).cloned().collect::<BTreeSet<_>>()
        });
        assert_eq!(ours, theirs, "{kind} {word}");
    }
}

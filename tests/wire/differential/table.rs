//! The table of commands against that of redis-server: arity, flags, places of keys, categories.

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
        names.extend(spec.subcommands.iter().map(|spec| spec.name.to_owned()));
    }
    names.retain(|name| !OWN.contains(&name.as_str()));
    names
}

/// Name, arity, flags, places of keys and categories; tips and key specifications are left out here.
fn described(client: &mut Client, name: &str) -> Vec<OwnedFrame> {
    let OwnedFrame::Array(mut rows) = client.call(&["COMMAND", "INFO", name]) else { panic!("{name}") };
    let OwnedFrame::Array(mut fields) = rows.remove(0) else { panic!("{name}") };
    assert_eq!(fields.len(), 10, "{name}");
    fields.truncate(7);
    fields
}

#[test]
fn commands_are_described_as_by_redis() {
    let (redis, running) = (Redis::start(), in_memory(&[]));
    let (names, mut clients) = (names(), [running.connect(), redis.connect()]);
    assert!(names.len() > 100, "{names:?}");
    let parents = table().filter(|spec| !spec.subcommands.is_empty()).map(|spec| spec.name);
    for name in names.iter().map(String::as_str).chain(parents) {
        let [ours, mut theirs] = clients.each_mut().map(|client| described(client, name));
        if name == "keys" {
            // It takes options here.
            theirs[1] = OwnedFrame::Integer(-2);
        }
        assert_eq!(ours, theirs, "{name}");
    }
}

/// In RESP3 flags and categories are sets. Tips, key specifications and subcommands follow them, which are empty here.
#[test]
fn commands_are_described_as_by_redis_in_resp3() {
    let (redis, running) = (Redis::start(), in_memory(&[]));
    let mut clients = [running.connect(), redis.connect()];
    ask_all(&mut clients, &["HELLO", "3"]);
    for name in names() {
        let [ours, theirs] = clients
            .each_mut()
            .map(|client| String::from_utf8(ask(client, &["COMMAND", "INFO", &name])).unwrap());
        let ours = ours.strip_suffix("~0\r\n~0\r\n~0\r\n").unwrap();
        // It takes options here.
        let theirs = if name == "keys" { theirs.replacen("\r\n:2\r\n", "\r\n:-2\r\n", 1) } else { theirs };
        assert!(theirs.starts_with(ours), "{name}: {ours} and {theirs}");
    }
}

#[test]
fn a_command_names_its_subcommands() {
    let running = in_memory(&[]);
    let mut client = running.connect();
    for spec in table() {
        let reply = client.call(&["COMMAND", "INFO", spec.name]);
        let OwnedFrame::Array(mut rows) = reply else { panic!("{}", spec.name) };
        let OwnedFrame::Array(mut fields) = rows.remove(0) else { panic!("{}", spec.name) };
        let Some(OwnedFrame::Array(subcommands)) = fields.pop() else { panic!("{}", spec.name) };
        let names: Vec<_> = subcommands
            .into_iter()
            .map(|row| match row {
                OwnedFrame::Array(mut fields) => fields.swap_remove(0),
                other => other,
            })
            .collect();
        let expected: Vec<_> = spec
            .subcommands
            .iter()
            .map(|spec| OwnedFrame::BulkString(spec.name.as_bytes().to_vec()))
            .collect();
        assert_eq!(names, expected, "{}", spec.name);
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

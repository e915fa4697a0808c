//! HELP of the commands that have subcommands: the words of redis-server, for the subcommands that are here.

use crate::{differential::Redis, every_store::in_memory, frames::ask};
use kvbench::command::table;

/// The head, and the entries: how a subcommand is written, and what it does.
fn help(reply: &[u8]) -> (String, Vec<String>) {
    let text = str::from_utf8(reply).unwrap();
    let mut lines = text.split("\r\n").filter(|line| !line.is_empty()).map(|line| line.to_owned());
    let count: usize = lines.next().unwrap().strip_prefix('*').expect(text).parse().unwrap();
    let (head, mut entries) = (lines.next().unwrap(), Vec::<String>::new());
    let mut found = 1;
    for line in lines {
        found += 1;
        match entries.last_mut() {
            Some(entry) if line.starts_with("+ ") => *entry += &line,
            _ => entries.push(line),
        }
    }
    assert_eq!(found, count, "{text}");
    (head, entries)
}

/// Subcommands that are kvbench's own, of a later Redis, or do something else.
const OWN: &[&str] = &["NO-TOUCH", "SETINFO", "SETTLE", "SLEEP"];

#[test]
fn help_is_that_of_redis_for_what_is_there() {
    let redis = Redis::start_with(&["--enable-debug-command", "yes"]);
    let running = in_memory(&[]);
    let (mut theirs, mut ours) = (redis.connect(), running.connect());
    for spec in table().filter(|spec| !spec.subcommands.is_empty()) {
        let (head, entries) = help(&ask(&mut ours, &[spec.name, "help"]));
        let (expected_head, expected) = help(&ask(&mut theirs, &[spec.name, "help"]));
        assert_eq!(head, expected_head);
        let name = |entry: &String| entry[1..].split([' ', '+']).next().unwrap().to_owned();
        let is_there = |entry: &&String| {
            let name = name(entry);
            name == "(no"
                || !OWN.contains(&&*name)
                    && spec.subcommands.iter().any(|(subcommand, _)| name.eq_ignore_ascii_case(subcommand))
        };
        let shared: Vec<_> = entries.iter().filter(|entry| !OWN.contains(&&*name(entry))).collect();
        assert_eq!(shared, expected.iter().filter(is_there).collect::<Vec<_>>(), "{}", spec.name);
        for (subcommand, _) in spec.subcommands {
            let is_told = |entry: &String| name(entry).eq_ignore_ascii_case(subcommand);
            assert!(entries.iter().any(is_told), "{} HELP does not tell of {subcommand}", spec.name);
        }
    }
}

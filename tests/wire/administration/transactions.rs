//! Transactions as others see them: in statistics, for MONITOR, in CLIENT LIST.

use super::text;
use crate::{
    differential::Redis,
    every_store::{in_memory, on_every_store},
    frames::{ask, replies},
    support::{Client, PATIENCE},
};
use std::time::Instant;

const REQUESTS: &str = "SELECT 0\r\nSET k v\r\nCONFIG RESETSTAT\r\n\
    MULTI\r\nSET a 1\r\nGET a\r\nINCR k\r\nSELECT 3\r\nSET b x\r\nCLIENT SETNAME me\r\nCONFIG GET port\r\nPING\r\n\
    UNWATCH\r\nSLOWLOG LEN\r\nCLIENT LIST ID 99999\r\nWAIT 1 0\r\nMONITOR\r\nEXEC\r\n\
    EXEC\r\nMULTI\r\nNOSUCH\r\nEXEC\r\nMULTI\r\nPING\r\nDISCARD\r\nWATCH a\r\nSET a 3\r\nMULTI\r\nSET a 4\r\nEXEC\r\n\
    SELECT 0\r\nMULTI\r\nSET q\r\nPING\r\nEXEC\r\nMULTI\r\nCLIENT NOSUCH\r\nDISCARD\r\nMULTI\r\nSET a 5\r\nRESET\r\n\
    HELLO 2 AUTH default secret\r\nTIME\r\nCLIENT ID\r\nGET\r\nMGET a b\r\nCLIENT KILL ID 99999\r\nLATENCY LATEST\r\n\
    CONFIG GET\r\nCONFIG BOGUS\r\nCONFIG HELP\r\nCLIENT LIST TYPE nosuch\r\nCLIENT HELP\r\nSLOWLOG HELP\r\nLATENCY HELP\r\n\
    CLIENT KILL\r\nOBJECT ENCODING\r\nOBJECT ENCODING k\r\nMEMORY USAGE\r\nCOMMAND COUNT\r\nCOMMAND BOGUS\r\nSLOWLOG GET x\r\n\
    MULTI\r\nCLIENT KILL\r\nCONFIG BOGUS\r\nCONFIG RESETSTAT x\r\nEXEC\r\n\
    LOLWUT\r\nECHO last\r\n";

/// What MONITOR shows of them, without times and addresses.
fn shown(monitor: &mut Client) -> Vec<String> {
    let mut lines = Vec::new();
    while lines.last().is_none_or(|line: &String| !line.contains("\"last\"")) {
        let line = String::from_utf8(replies(monitor, 1).remove(0)).unwrap();
        let (place, words) = line.split_once("] ").unwrap();
        let database = place.split_once('[').unwrap().1.split(' ').next().unwrap();
        lines.push(format!("{database} {}", words.trim_end()));
    }
    lines
}

/// Calls, refused and failed ones of every command, and errors.
fn counted(client: &mut Client) -> Vec<String> {
    let info = text(client, &["INFO", "commandstats", "errorstats"]);
    let figure = |line: &str| {
        let (name, figures) = line.split_once(':')?;
        let figures = figures.split(',').filter(|figure| !figure.starts_with("usec"));
        Some(format!("{name} {}", figures.collect::<Vec<_>>().join(" ")))
    };
    let mut lines: Vec<_> = info.lines().filter(|line| line.contains("stat_")).filter_map(figure).collect();
    lines.sort();
    lines
}

fn observed(connect: impl Fn() -> Client) -> (Vec<String>, Vec<String>) {
    let (mut monitor, mut client) = (connect(), connect());
    ask(&mut monitor, &["MONITOR"]);
    client.send(REQUESTS);
    replies(&mut client, REQUESTS.matches("\r\n").count());
    (shown(&mut monitor), counted(&mut client))
}

#[test]
fn statistics_and_monitor_see_transactions_as_those_of_redis_do() {
    let (redis, running) = (Redis::start(), in_memory(&[]));
    let (ours, theirs) = (observed(|| running.connect()), observed(|| redis.connect()));
    assert_eq!(ours.0, theirs.0);
    assert_eq!(ours.1, theirs.1);
}

#[test]
fn client_list_shows_the_database_and_the_length_of_the_transaction() {
    let running = in_memory(&[]);
    let [mut one, mut other] = [running.connect(), running.connect()];
    let mut line = |one: &mut Client, requests: &str, count| {
        one.send(requests);
        replies(one, count);
        let list = text(&mut other, &["CLIENT", "LIST"]);
        let line = list
            .lines()
            .find(|line| line.starts_with("id=1 ") || line.contains("\nid=1 "))
            .unwrap()
            .to_owned();
        let field =
            |name: &str| line.split(' ').find_map(|field| field.strip_prefix(name)).unwrap().to_owned();
        [field("db="), field("multi="), field("flags="), field("cmd=")]
    };
    assert_eq!(line(&mut one, "SELECT 5\r\n", 1), ["5", "-1", "N", "select"]);
    assert_eq!(line(&mut one, "MULTI\r\n", 1), ["5", "0", "x", "multi"]);
    assert_eq!(line(&mut one, "SET k v\r\nGET k\r\n", 2)[..3], ["5", "2", "x"]);
    assert_eq!(line(&mut one, "EXEC\r\n", 1), ["5", "-1", "N", "exec"]);
    assert_eq!(line(&mut one, "MULTI\r\nPING\r\nDISCARD\r\n", 3), ["5", "-1", "N", "discard"]);
    assert_eq!(line(&mut one, "MULTI\r\nPING\r\nEXEC x\r\n", 3)[..3], ["5", "-1", "N"]);
    assert_eq!(line(&mut one, "MULTI\r\nPING\r\nRESET\r\n", 3), ["0", "-1", "N", "reset"]);
}

#[test]
fn reset_leaves_transaction_watch_and_database() {
    on_every_store(|running| {
        let [mut one, mut other] = [running.connect(), running.connect()];
        one.send("SELECT 4\r\nWATCH k\r\nMULTI\r\nSET k v\r\nRESET\r\nEXEC\r\n");
        let told = replies(&mut one, 6);
        assert_eq!(told[4..], [b"+RESET\r\n".to_vec(), b"-ERR EXEC without MULTI\r\n".to_vec()]);
        other.send("SELECT 4\r\nSET k other\r\nSELECT 0\r\n");
        replies(&mut other, 3);
        one.send("MULTI\r\nSET mine 1\r\nEXEC\r\n");
        assert_eq!(replies(&mut one, 3)[2], b"*1\r\n+OK\r\n", "nothing is watched");
        assert_eq!(ask(&mut other, &["GET", "mine"]), b"$1\r\n1\r\n", "it is in database 0 again");
        ask(&mut other, &["FLUSHALL"]);
    });
}

#[test]
fn slowlog_has_what_a_transaction_ran_and_not_exec() {
    let running = in_memory(&[]);
    let mut client = running.connect();
    ask(&mut client, &["CONFIG", "SET", "slowlog-log-slower-than", "0"]);
    ask(&mut client, &["SLOWLOG", "RESET"]);
    client.send("MULTI\r\nSET key-of-it v\r\nEXEC\r\n");
    replies(&mut client, 3);
    let entries = text(&mut client, &["SLOWLOG", "GET"]);
    assert!(entries.contains("key-of-it"), "{entries}");
    assert!(!entries.contains("EXEC"), "{entries}");
    assert_eq!(entries.matches("\r\nSET\r\n").count(), 1, "{entries}");
}

#[test]
fn info_tells_the_keys_of_each_database_and_those_that_expire() {
    let (redis, running) = (Redis::start(), in_memory(&[]));
    for requests in [
        "FLUSHALL\r\nSET a 1\r\n",
        "SELECT 3\r\nMSET a 1 b 2\r\n",
        "EXPIRE a 1000\r\nSELECT 0\r\n",
        "FLUSHDB\r\nPING\r\n",
        "FLUSHALL\r\nPING\r\n",
    ] {
        let [mut ours, mut theirs] = [running.connect(), redis.connect()];
        for client in [&mut ours, &mut theirs] {
            client.send(requests);
            replies(client, 2);
        }
        // Ours may be a moment old: counting is not to take more than a part of the time.
        let (expected, begin) = (databases(&mut theirs), Instant::now());
        while databases(&mut ours) != expected && begin.elapsed() < PATIENCE {}
        assert_eq!(databases(&mut ours), expected, "{requests}");
    }
}

/// The lines of INFO's keyspace section, without the mean time to live.
fn databases(client: &mut Client) -> Vec<String> {
    let info = text(client, &["INFO", "keyspace"]);
    let lines = info.lines().filter(|line| line.starts_with("db"));
    lines.map(|line| line.split(",avg_ttl").next().unwrap().to_owned()).collect()
}

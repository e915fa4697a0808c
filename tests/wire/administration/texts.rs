//! Replies of administration, byte for byte those of redis-server.

use crate::{
    differential::Redis,
    every_store::in_memory,
    frames::{ask, replies},
};
use kvbench::command::find;

/// Words apart by spaces; `_` stands for a space in a word.
const REQUESTS: &[&str] = &[
    "CLIENT CACHING yes",
    "CLIENT GETREDIR",
    "CLIENT KILL",
    "CLIENT KILL 1.2.3.4:1",
    "CLIENT KILL ADDR",
    "CLIENT KILL ADDR 1.2.3.4:1",
    "CLIENT KILL ID 0",
    "CLIENT KILL ID 999999",
    "CLIENT KILL ID x",
    "CLIENT KILL ID 1 TYPE",
    "CLIENT KILL LADDR 1.2.3.4:1 SKIPME no",
    "CLIENT KILL SKIPME maybe",
    "CLIENT KILL TYPE nosuch",
    "CLIENT KILL TYPE pubsub",
    "CLIENT KILL USER nobody",
    "CLIENT LIST BOGUS",
    "CLIENT LIST ID 999999",
    "CLIENT LIST ID x",
    "CLIENT LIST TYPE nosuch",
    "CLIENT LIST TYPE pubsub",
    "CLIENT NO-EVICT maybe",
    "CLIENT NO-EVICT off",
    "CLIENT NO-EVICT on",
    "CLIENT PAUSE",
    "CLIENT PAUSE -1",
    "CLIENT PAUSE 0",
    "CLIENT PAUSE 1 nosuch",
    "CLIENT PAUSE 1 write x",
    "CLIENT PAUSE x",
    "CLIENT REPLY on",
    "CLIENT REPLY x",
    "CLIENT TRACKING off",
    "CLIENT TRACKINGINFO",
    "CLIENT UNBLOCK 1",
    "CLIENT UNBLOCK 1 nosuch",
    "CLIENT UNBLOCK 1 timeout",
    "CLIENT UNBLOCK 1 timeout x",
    "CLIENT UNBLOCK x",
    "CLIENT UNPAUSE",
    "COMMAND GETKEYS",
    "COMMAND GETKEYS get k",
    "COMMAND GETKEYS mset a 1 b 2",
    "COMMAND GETKEYS nosuch k",
    "COMMAND GETKEYS ping k",
    "COMMAND GETKEYS set k",
    "COMMAND LIST FILTERBY MODULE nosuch",
    "COMMAND LIST FILTERBY PATTERN nosuch*",
    "COMMAND LIST FILTERBY nosuch x",
    "COMMAND LIST nosuch",
    "CONFIG RESETSTAT",
    "CONFIG REWRITE",
    "CONFIG REWRITE x",
    "CONFIG RESETSTAT x",
    "CONFIG SET",
    "CONFIG SET appendfsync nosuch",
    "CONFIG SET appendfsync EVERYSEC",
    "CONFIG GET appendfsync",
    "CONFIG SET appendfsync always timeout x",
    "CONFIG GET appendfsync",
    "CONFIG SET latency-monitor-threshold -1",
    "CONFIG SET latency-monitor-threshold 0",
    "CONFIG SET client-output-buffer-limit nosuch",
    "CONFIG SET client-output-buffer-limit normal_0_0_0",
    "CONFIG SET databases 3",
    "CONFIG SET loglevel nosuch",
    "CONFIG SET maxclients",
    "CONFIG SET maxclients 0",
    "CONFIG SET maxclients 100 maxclients 200",
    "CONFIG SET maxclients 100 slowlog-max-len x",
    "CONFIG SET maxclients x",
    "CONFIG SET nosuch 1",
    "CONFIG SET port 1 x",
    "CONFIG SET protected-mode maybe",
    "CONFIG SET slowlog-log-slower-than 5000 slowlog-max-len 7",
    "CONFIG SET slowlog-max-len -1",
    "CONFIG SET timeout -1",
    "CONFIG SET timeout 300",
    "CONFIG GET slowlog-max-len",
    "CONFIG GET slowlog-log-slower-than",
    "CONFIG GET timeout",
    "CONFIG SET loglevel notice",
    "CONFIG GET loglevel",
    "LATENCY",
    "LATENCY DOCTOR",
    "LATENCY DOCTOR x",
    "LATENCY GRAPH",
    "LATENCY GRAPH nosuch",
    "LATENCY HISTOGRAM nosuch",
    "LATENCY HISTORY",
    "LATENCY HISTORY nosuch",
    "LATENCY LATEST",
    "LATENCY LATEST x",
    "LATENCY RESET",
    "LATENCY RESET nosuch",
    "LATENCY nosuch",
    "CONFIG SET latency-monitor-threshold 1000000",
    "CONFIG GET latency-monitor-threshold",
    "LATENCY DOCTOR",
    "LATENCY LATEST",
    "CONFIG SET latency-monitor-threshold 0",
    "LOLWUT",
    "LOLWUT VERSION x",
    "LOLWUT x",
    "SET k v",
    "MEMORY",
    "MEMORY USAGE",
    "MEMORY USAGE none",
    "MEMORY USAGE none SAMPLES 5",
    "MEMORY USAGE k SAMPLES",
    "MEMORY USAGE k SAMPLES x",
    "MEMORY USAGE k SAMPLES -1",
    "MEMORY USAGE k SAMPLES 1 x",
    "MEMORY USAGE k nosuch 1",
    "MEMORY nosuch",
    "COMMAND GETKEYS memory usage k",
    "MONITOR x",
    "RESET x",
    "SLOWLOG",
    "SLOWLOG GET -1",
    "SLOWLOG GET -2",
    "SLOWLOG GET x",
    "SLOWLOG LEN",
    "SLOWLOG LEN x",
    "SLOWLOG RESET",
    "SLOWLOG nosuch",
    "WAIT",
    "WAIT 0 -1",
    "WAIT 0 0",
    "WAIT 0 x",
    "WAIT 1 10",
    "WAIT x 0",
    "INFO nosuch",
    "INFO cluster modules",
];

#[test]
fn administration_is_answered_as_by_redis() {
    let (redis, running) = (Redis::start(), in_memory(&[]));
    for protocol in ["2", "3"] {
        let mut clients = [running.connect(), redis.connect()];
        clients.iter_mut().for_each(|client| drop(ask(client, &["HELLO", protocol])));
        for request in REQUESTS {
            let words: Vec<String> = request.split(' ').map(|word| word.replace('_', " ")).collect();
            let [ours, theirs] = clients.each_mut().map(|client| ask(client, &words));
            let shown = |reply: Vec<u8>| reply.escape_ascii().to_string();
            assert_eq!(shown(ours), shown(theirs), "HELLO {protocol}, {request}");
        }
    }
}

/// RESET changes the protocol too.
#[test]
fn a_reset_connection_is_as_new() {
    let (redis, running) = (Redis::start(), in_memory(&[]));
    let [ours, theirs] = [running.connect(), redis.connect()].map(|mut client| {
        client.send("HELLO 3\r\nCLIENT SETNAME me\r\nRESET\r\nCLIENT GETNAME\r\nGET none\r\n");
        let mut replies = replies(&mut client, 5);
        replies.remove(0);
        replies
    });
    assert_eq!(ours, theirs);
}

#[test]
fn a_command_of_redis_is_there_or_told_to_be_out_of_scope() {
    let (redis, running) = (Redis::start(), in_memory(&[]));
    let (mut theirs, mut ours) = (redis.connect(), running.connect());
    let list = super::text(&mut theirs, &["COMMAND", "LIST"]);
    let is_name = |line: &&str| !line.starts_with(['*', '$']) && !line.contains('|');
    let names: Vec<_> = list.lines().filter(is_name).collect();
    assert!(names.len() > 200, "{names:?}");
    for name in names.into_iter().filter(|name| find(name).is_none()) {
        let reply = super::text(&mut ours, &[name, "x"]);
        let expected = format!("-ERR unknown command '{name}': kvbench has strings and keys, and no ");
        assert!(reply.starts_with(&expected), "{reply}");
    }
}

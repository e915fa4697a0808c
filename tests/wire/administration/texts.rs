//! Replies of administration, byte for byte those of redis-server.

use crate::{
    differential::Redis,
    every_store::{Running, in_memory, on_every_store},
    frames::{ask, exchange, replies},
    support::{Client, request},
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
    "CLIENT KILL USER a\0b",
    "CLIENT KILL TYPE a\0b",
    "CLIENT LIST BOGUS",
    "CLIENT HELP x",
    "CLIENT LIST ID -1",
    "CLIENT LIST ID 0",
    "CLIENT LIST ID 0 999999 x",
    "CLIENT LIST ID 999999",
    "CLIENT LIST ID x",
    "CLIENT LIST TYPE nosuch",
    "CLIENT LIST TYPE a\0b",
    "CLIENT LIST TYPE pubsub",
    "CLIENT NO-EVICT maybe",
    "CLIENT NO-EVICT off",
    "CLIENT NO-EVICT on",
    "CLIENT REPLY on",
    "CLIENT REPLY x",
    "PING",
    "DEL none",
    "CLIENT TRACKING nosuch",
    "CLIENT TRACKING nosuch nosuch",
    "CLIENT TRACKING off",
    "CLIENT TRACKING off bcast optin optout",
    "CLIENT TRACKINGINFO",
    "CLIENT UNBLOCK 1",
    "CLIENT UNBLOCK 1 nosuch",
    "CLIENT UNBLOCK 1 timeout",
    "CLIENT UNBLOCK 1 timeout x",
    "CLIENT UNBLOCK x",
    "COMMAND GETKEYS",
    "COMMAND GETKEYS get k",
    "COMMAND GETKEYS mset a 1 b 2",
    "COMMAND GETKEYS get",
    "COMMAND GETKEYS nosuch",
    "COMMAND GETKEYS ping",
    "COMMAND GETKEYS get k x",
    "COMMAND GETKEYS client nosuch k",
    "COMMAND GETKEYS config get k",
    "COMMAND GETKEYS memory help",
    "COMMAND GETKEYS memory usage",
    "COMMAND GETKEYS object encoding",
    "COMMAND GETKEYS object encoding k",
    "COMMAND GETKEYS object help",
    "COMMAND GETKEYS object nosuch k",
    "COMMAND GETKEYS nosuch k",
    "COMMAND GETKEYS ping k",
    "COMMAND GETKEYS set k",
    "COMMAND GETKEYS shutdown x",
    "COMMAND INFO get|x config|nosuch config|get|x |",
    "COMMAND LIST FILTERBY MODULE nosuch",
    "COMMAND LIST FILTERBY ACLCAT nosuch",
    "COMMAND LIST FILTERBY PATTERN",
    "COMMAND LIST FILTERBY PATTERN a b",
    "COMMAND LIST FILTERBY PATTERN CONFIG|R*E",
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
    "CONFIG SET client-output-buffer-limit normal_0_0_0_replica_256mb_64mb_60_pubsub_32mb_8mb_60",
    "CONFIG SET client-output-buffer-limit SLAVE_1_2_3",
    "CONFIG SET client-output-buffer-limit replica_x_2_3",
    "CONFIG SET client-output-buffer-limit master_1_2_3",
    "CONFIG SET client-output-buffer-limit normal_0_0_-1",
    "CONFIG SET client-output-buffer-limit normal_0_0_x",
    "CONFIG SET client-output-buffer-limit normal_0_-1_0",
    "CONFIG SET client-output-buffer-limit normal_0_0_+1",
    "CONFIG SET client-output-buffer-limit normal_kb_0_",
    "CONFIG SET client-output-buffer-limit normal_0_0",
    "CONFIG SET client-query-buffer-limit 1",
    "CONFIG SET client-query-buffer-limit kb",
    "CONFIG SET client-query-buffer-limit x",
    "CONFIG SET client-query-buffer-limit 1gb",
    "CONFIG GET client-query-buffer-limit",
    "CONFIG SET maxmemory 0 maxmemory-policy noeviction",
    "CONFIG SET maxmemory 0 MAXMEMORY 0",
    "CONFIG SET maxmemory 0 nosuch 1",
    "CONFIG SET timeout x maxmemory 0",
    "CONFIG SET a\0b 1",
    "CONFIG SET loglevel verbose",
    "CONFIG GET loglevel",
    "CONFIG SET loglevel debug",
    "CONFIG GET loglevel",
    "CONFIG SET databases 3",
    "CONFIG SET DATABASES 3",
    "CONFIG SET databases 3 nosuch 1",
    "CONFIG SET nosuch 1 databases 3",
    "CONFIG SET timeout x databases 3",
    "CONFIG SET timeout x nosuch 1",
    "CONFIG SET timeout x TIMEOUT 1",
    "CONFIG SET TIMEOUT x",
    "CONFIG SET timeout 1 TIMEOUT 2 nosuch 1",
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
    "CONFIG GET TIMEOUT",
    "CONFIG GET TIMEOUT timeout",
    "CONFIG GET TIMEO*",
    "CONFIG GET timeo* Timeout",
    "CONFIG GET Timeout TIMEO*",
    "CONFIG GET time\\out",
    "CONFIG SET loglevel notice",
    "CONFIG GET loglevel",
    "LATENCY",
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
    "MEMORY USAGE none SAMPLES 1 samples 0",
    "MEMORY USAGE none SAMPLES 1 SAMPLES",
    "MEMORY USAGE none SAMPLES 1 SAMPLES -1",
    "OBJECT FREQ",
    "OBJECT FREQ k",
    "OBJECT FREQ none",
    "OBJECT HELP x",
    "OBJECT REFCOUNT k",
    "OBJECT REFCOUNT k x",
    "OBJECT REFCOUNT none",
    "SET n 9999",
    "OBJECT REFCOUNT n",
    "SET n 10000",
    "OBJECT REFCOUNT n",
    "SET n -1",
    "OBJECT REFCOUNT n",
    "EXPIRE k 1 x\r\n",
    "EXPIRE k 1 \n\n",
    "EXPIRE k 1 x\ny",
    "PEXPIREAT n 9223372036854775807",
    "EXPIRETIME n",
    "PEXPIRETIME n",
    "KEYS",
    "KEYS a b",
    "MEMORY USAGE k SAMPLES",
    "MEMORY USAGE k SAMPLES x",
    "MEMORY USAGE k SAMPLES -1",
    "MEMORY USAGE k SAMPLES 1 x",
    "MEMORY USAGE k nosuch 1",
    "MEMORY nosuch",
    "MEMORY STATS x",
    "MEMORY HELP x",
    "COMMAND GETKEYS memory usage k",
    "MONITOR x",
    "RESET x",
    "SLOWLOG",
    "SHUTDOWN ABORT",
    "SHUTDOWN ABORT abort",
    "SHUTDOWN ABORT NOW",
    "SHUTDOWN SAVE NOSAVE",
    "SHUTDOWN nosave now save",
    "SHUTDOWN nosuch",
    // A request that a busy machine makes slow is no entry.
    "CONFIG SET slowlog-log-slower-than 1000000000",
    "SLOWLOG RESET",
    "SLOWLOG GET -1",
    "SLOWLOG GET 1 2",
    "SLOWLOG get 1 2 3",
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

fn words(request: &str) -> Vec<String> {
    request.split(' ').map(|word| word.replace('_', " ")).collect()
}

/// Compares what `answers` returns for each request, in both protocols.
fn compare(running: &Running, answers: impl Fn(&mut Client, &[String]) -> Vec<u8>) {
    let redis = Redis::start();
    for protocol in ["2", "3"] {
        let mut clients = [running.connect(), redis.connect()];
        clients.iter_mut().for_each(|client| drop(ask(client, &["HELLO", protocol])));
        for request in REQUESTS {
            let [ours, theirs] = clients.each_mut().map(|client| answers(client, &words(request)));
            let shown = |reply: Vec<u8>| reply.escape_ascii().to_string();
            assert_eq!(shown(ours), shown(theirs), "HELLO {protocol}, {request}");
        }
    }
}

#[test]
fn administration_is_answered_as_by_redis() {
    on_every_store(|running| compare(running, ask));
}

/// What is queued, and what EXEC answers.
#[test]
fn administration_in_a_transaction_is_answered_as_by_redis() {
    compare(&in_memory(&[]), |client, words| {
        // It takes options here, so that its arguments are counted when it runs.
        if words[0] == "KEYS" {
            return Vec::new();
        }
        let bytes = [request(&["MULTI"]), request(words), request(&["EXEC"])].concat();
        exchange(client, &bytes, 3).concat()
    });
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

/// The second MONITOR gets none, and what RESET leaves is no monitor.
#[test]
fn who_monitors_is_answered_once() {
    let (redis, running) = (Redis::start(), in_memory(&[]));
    let [ours, theirs] = [running.connect(), redis.connect()].map(|mut client| {
        client.send("MONITOR\r\nMONITOR\r\nRESET\r\nPING\r\nQUIT\r\n");
        replies(&mut client, 4)
    });
    assert_eq!(ours, theirs);
    assert_eq!(ours.concat(), b"+OK\r\n+RESET\r\n+PONG\r\n+OK\r\n");
}

/// What CLIENT INFO tells as flags.
fn flags(client: &mut Client) -> String {
    let line = super::text(client, &["CLIENT", "INFO"]);
    line.split(' ').find(|field| field.starts_with("flags=")).unwrap().to_owned()
}

#[test]
fn reset_leaves_no_evict_as_it_is() {
    let (redis, running) = (Redis::start(), in_memory(&[]));
    let [ours, theirs] = [running.connect(), redis.connect()].map(|mut client| {
        ask(&mut client, &["CLIENT", "NO-EVICT", "ON"]);
        ask(&mut client, &["RESET"]);
        flags(&mut client)
    });
    assert_eq!(ours, theirs);
    assert_eq!(ours, "flags=e");
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

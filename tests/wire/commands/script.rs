//! One session that has every command in it, in every case and both protocols.

use super::{expect, wire};
use crate::{every_store::on_every_store, support::Client};
use kvbench::command::table;
use std::collections::HashSet;

/// Request, reply in RESP2, and reply in RESP3 where it differs. Words in capitals are names, which
/// are sent in every case.
const SCRIPT: &[(&str, &str, &str)] = &[
    ("AUTH default any", "+OK", ""),
    ("PING", "+PONG", ""),
    ("PING hello", "$5\nhello", ""),
    ("ECHO hello", "$5\nhello", ""),
    ("SELECT 0", "+OK", ""),
    ("CLIENT GETNAME", "$-1", "_"),
    ("CLIENT SETNAME me", "+OK", ""),
    ("CLIENT GETNAME", "$2\nme", ""),
    ("CLIENT SETINFO LIB-NAME lib", "+OK", ""),
    ("CLIENT SETINFO LIB-VER 1.2", "+OK", ""),
    ("FLUSHDB", "+OK", ""),
    ("GET k", "$-1", "_"),
    ("SET k v", "+OK", ""),
    ("GET k", "$1\nv", ""),
    ("SET k longer", "+OK", ""),
    ("GET k", "$6\nlonger", ""),
    ("TYPE k", "+string", ""),
    ("TYPE none", "+none", ""),
    ("EXISTS k none k", ":2", ""),
    ("MSET a 1 b 2 a 3", "+OK", ""),
    ("MGET a b none k", "*4\n$1\n3\n$1\n2\n$-1\n$6\nlonger", "*4\n$1\n3\n$1\n2\n_\n$6\nlonger"),
    ("MGET none", "*1\n$-1", "*1\n_"),
    ("INCR n", ":1", ""),
    ("INCRBY n 41", ":42", ""),
    ("DECR n", ":41", ""),
    ("DECRBY n 141", ":-100", ""),
    ("GET n", "$4\n-100", ""),
    ("SETNX k v", ":0", ""),
    ("GETSET k other", "$6\nlonger", ""),
    ("GETSET k longer", "$5\nother", ""),
    ("APPEND k !", ":7", ""),
    ("STRLEN k", ":7", ""),
    ("GETRANGE k -3 -1", "$3\ner!", ""),
    ("SUBSTR k 0 5", "$6\nlonger", ""),
    ("SETRANGE k 6 ?", ":7", ""),
    ("SET k longer", "+OK", ""),
    ("INCRBYFLOAT n 0.5", "$5\n-99.5", ""),
    ("SET n -100 XX GET", "$5\n-99.5", ""),
    ("LCS k n LEN", ":0", ""),
    ("GETBIT k 1", ":1", ""),
    ("SETBIT k 1 1", ":1", ""),
    ("BITCOUNT k 0 0", ":4", ""),
    ("BITPOS k 1", ":1", ""),
    ("BITOP AND c k none", ":6", ""),
    ("GETDEL c", "$6\n\0\0\0\0\0\0", ""),
    ("BITFIELD c SET u8 0 65", "*1\n:0", ""),
    ("BITFIELD_RO c GET u8 0", "*1\n:65", ""),
    ("RENAME c d", "+OK", ""),
    ("RENAMENX d k", ":0", ""),
    ("COPY d c", ":1", ""),
    ("TOUCH c d none", ":2", ""),
    ("OBJECT ENCODING d", "$6\nembstr", ""),
    ("MEMORY USAGE d", ":2", ""),
    ("UNLINK c d", ":2", ""),
    ("RANDOMKEY x", "-ERR wrong number of arguments for 'randomkey' command", ""),
    ("MSETNX c 1 k 2", ":0", ""),
    ("SETEX e 1000000 v", "+OK", ""),
    ("PSETEX e 1000000499 v", "+OK", ""),
    ("TTL e", ":1000000", ""),
    ("PTTL none", ":-2", ""),
    ("EXPIREAT e 4000000000", ":1", ""),
    ("EXPIRETIME e", ":4000000000", ""),
    ("PEXPIREAT e 4000000000001", ":1", ""),
    ("PEXPIRETIME e", ":4000000000001", ""),
    ("EXPIRE e 100 GT", ":0", ""),
    ("PEXPIRE e 0 NX", ":0", ""),
    ("PERSIST e", ":1", ""),
    ("GETEX e EXAT 1", "$1\nv", ""),
    ("EXISTS e", ":0", ""),
    ("SCAN 0 MATCH n", "*2\n$1\n0\n*1\n$1\nn", ""),
    ("DBSIZE", ":4", ""),
    ("KEYS k*", "*1\n$1\nk", ""),
    ("KEYS k* LIMIT 1 WITHVALUES", "*2\n$1\nk\n$6\nlonger", ""),
    ("KEYS none", "*0", ""),
    ("DEL a b a none", ":2", ""),
    ("DEL a", ":0", ""),
    ("DBSIZE", ":2", ""),
    ("MOVE k 1", ":1", ""),
    ("SWAPDB 0 1", "+OK", ""),
    ("KEYS *", "*1\n$1\nk", ""),
    ("SWAPDB 1 0", "+OK", ""),
    ("DBSIZE", ":1", ""),
    ("WATCH k", "+OK", ""),
    ("UNWATCH", "+OK", ""),
    ("MULTI", "+OK", ""),
    ("INCR m", "+QUEUED", ""),
    ("PING", "+QUEUED", ""),
    ("DISCARD", "+OK", ""),
    ("MULTI", "+OK", ""),
    ("SET m 1", "+QUEUED", ""),
    ("INCR m", "+QUEUED", ""),
    ("PING", "+QUEUED", ""),
    ("DBSIZE", "+QUEUED", ""),
    ("EXEC", "*4\n+OK\n:2\n+PONG\n:2", ""),
    ("FLUSHALL", "+OK", ""),
    ("RANDOMKEY", "$-1", "_"),
    ("SET k v", "+OK", ""),
    ("FLUSHDB SYNC", "+OK", ""),
    ("DBSIZE", ":0", ""),
    ("SET k v", "+OK", ""),
    ("FLUSHDB ASYNC", "+OK", ""),
    ("EXISTS k", ":0", ""),
    ("DEBUG SETTLE", "+OK", ""),
    ("CONFIG GET databases", "*2\n$9\ndatabases\n$2\n16", "%1\n$9\ndatabases\n$2\n16"),
    ("CONFIG GET nosuch", "*0", "%0"),
    ("COMMAND INFO nosuch", "*1\n$-1", "*1\n_"),
    ("COMMAND DOCS nosuch", "*0", "%0"),
    ("CONFIG RESETSTAT", "+OK", ""),
    ("CLIENT NO-EVICT ON", "+OK", ""),
    ("CLIENT GETREDIR", ":-1", ""),
    ("CLIENT LIST ID 999999", "$0\n", "=4\ntxt:"),
    ("SLOWLOG RESET", "+OK", ""),
    ("SLOWLOG LEN", ":0", ""),
    ("SLOWLOG GET 3", "*0", ""),
    ("LATENCY LATEST", "*0", ""),
    ("LATENCY HISTOGRAM nosuch", "*0", "%0"),
    ("WAIT 0 0", ":0", ""),
    ("WAITAOF 0 0 0", "*2\n:0\n:0", ""),
    ("ROLE", "*3\n$6\nmaster\n:0\n*0", ""),
    ("COMMAND GETKEYS set k v", "*1\n$1\nk", ""),
    ("COMMAND LIST FILTERBY PATTERN xad?", "*0", ""),
    ("DEBUG SLEEP 0", "+OK", ""),
    ("CLIENT SETNAME %", "+OK", ""),
    ("CLIENT GETNAME", "$1\n%", ""),
    ("RESET", "+RESET", ""),
    ("CLIENT GETNAME", "$-1", ""),
    ("QUIT", "+OK", ""),
];

/// Tested elsewhere: their replies vary, or they end the server.
const ELSEWHERE: [&str; 7] = ["hello", "info", "shutdown", "bgrewriteaof", "lolwut", "monitor", "time"];

#[test]
fn the_script_has_every_command() {
    let mut missing: HashSet<&str> = table().map(|spec| spec.name).collect();
    for (words, ..) in SCRIPT {
        missing.remove(&*words.split(' ').next().unwrap().to_lowercase());
    }
    for name in ELSEWHERE {
        assert!(missing.remove(name), "{name} is in the script or unknown");
    }
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn every_command_answers_in_any_case_and_both_protocols() {
    let mixed = |word: &str| {
        let case = |(index, letter): (usize, char)| match index % 2 {
            0 => letter.to_ascii_uppercase(),
            _ => letter.to_ascii_lowercase(),
        };
        word.chars().enumerate().map(case).collect::<String>()
    };
    on_every_store(|running| {
        for case in [str::to_lowercase, str::to_uppercase, mixed] {
            run(&mut running.connect(), case, false);
            let mut client = running.connect();
            client.send("HELLO 3\r\n");
            crate::frames::replies(&mut client, 1);
            run(&mut client, case, true);
        }
    });
}

fn run(client: &mut Client, case: impl Fn(&str) -> String, resp3: bool) {
    for (words, reply, other) in SCRIPT {
        let is_name =
            |word: &str| word.len() > 1 && word.bytes().all(|b| b.is_ascii_uppercase() || b == b'-');
        let words: Vec<_> =
            words.split(' ').map(|word| if is_name(word) { case(word) } else { word.into() }).collect();
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        expect(client, &words, if resp3 && !other.is_empty() { other } else { reply });
    }
    client.expect_closed();
}

#[test]
fn bgrewriteaof_is_for_stores_with_such_a_file() {
    on_every_store(|running| {
        let mut client = running.connect();
        client.send("BGREWRITEAOF\r\n");
        let reply = crate::frames::replies(&mut client, 1).remove(0);
        if running.has_append_only_file() {
            assert_eq!(reply, wire("+Background append only file rewriting started"));
        } else {
            let reply = String::from_utf8(reply).unwrap();
            assert!(reply.starts_with(&format!("-ERR {} ", running.store)), "{reply}");
            assert!(reply.ends_with("has no append-only file to rewrite\r\n"), "{reply}");
        }
        super::expect_alive(&mut client);
    });
}

//! A bit flips in a value of `bitcask`: the request for that key fails, and nothing else does.

use crate::support::{Client, KVBENCH, PATIENCE, RunToEnd, Server, on_free_port, request};
use redis_protocol::resp2::types::OwnedFrame;
use std::{
    fs,
    fs::File,
    io::{Read, Write},
    net::TcpStream,
    path::Path,
    process::{Command, ExitStatus},
    thread,
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// The keys whose values are corrupt, in databases 0, 0 and 1.
const CORRUPT: [&str; 3] = ["corrupt", "corrupt mortal", "corrupt of 1"];

/// Values of [`FILLER_BYTES`] that fill a segment, so that the one with the corrupt values is sealed. They are few, because a
/// count of keys looks at the clock at every 16th record, and ends early on a slow machine.
const FILLERS: usize = 6;
const FILLER_BYTES: usize = 12 << 20;

/// A text that no other key has as its value.
fn value(key: &str) -> String {
    format!("<{key}>").repeat(50)
}

fn start(dir: &Path, more: &[&str]) -> Server {
    try_start(dir, more).unwrap_or_else(|status| panic!("the server did not start: {status}"))
}

/// Starts a server, or returns how it ended before it served.
fn try_start(dir: &Path, more: &[&str]) -> Result<Server, ExitStatus> {
    let log = File::options().create(true).append(true).open(dir.join("log")).unwrap();
    let mut command = Command::new(KVBENCH);
    command.args(["--store", "bitcask", "--path", "data", "--fsync", "no", "--threads", "2"]).args(more);
    Server::try_start_command(command.current_dir(dir).stderr(log))
}

/// Files with three corrupt values in a sealed segment.
fn corrupt_data() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path(), &[]);
    let mut client = server.connect();
    for key in ["a", "corrupt", "z"] {
        client.call(&["SET", key, &value(key)]);
    }
    for key in ["corrupt mortal", "mortal"] {
        client.call(&["SET", key, &value(key), "PXAT", "4000000000000"]);
    }
    client.call(&["SET", "soon", "v", "PX", "3000"]);
    client.call(&["SELECT", "1"]);
    for key in ["corrupt of 1", "a"] {
        client.call(&["SET", key, &value(key)]);
    }
    client.call(&["SELECT", "0"]);
    for number in 0..FILLERS {
        client.call(&["SET", &format!("filler {number}"), &"f".repeat(FILLER_BYTES)]);
    }
    // The segment gets its hint, which a start reads in its place.
    client.call(&["DEBUG", "SETTLE"]);
    assert!(server.terminate().success());
    let path = dir.path().join("data/0000000001.segment");
    let mut bytes = fs::read(&path).unwrap();
    for key in CORRUPT {
        let value = value(key);
        let at = bytes.windows(value.len()).position(|window| window == value.as_bytes()).unwrap();
        bytes[at + value.len() / 2] ^= 4;
    }
    fs::write(&path, bytes).unwrap();
    dir
}

pub fn text(frame: &OwnedFrame) -> String {
    match frame {
        OwnedFrame::BulkString(bytes) | OwnedFrame::SimpleString(bytes) => {
            String::from_utf8_lossy(bytes).into()
        }
        OwnedFrame::Error(text) => format!("-{text}"),
        OwnedFrame::Integer(number) => format!(":{number}"),
        OwnedFrame::Null => "null".into(),
        OwnedFrame::Array(frames) => frames.iter().map(text).collect::<Vec<_>>().join(","),
    }
}

/// Sends requests in one pipeline and returns their replies.
pub fn ask(client: &mut Client, requests: &[&[&str]]) -> Vec<String> {
    client.send(requests.iter().flat_map(|words| request(words)).collect::<Vec<_>>());
    requests.iter().map(|_| text(&client.reply())).collect()
}

/// The reply is the error of a corrupt value, and names its key and its file.
fn assert_names(reply: &str, key: &str) {
    let names = [&format!("\"{key}\""), "0000000001.segment", "corrupt"];
    assert!(reply.starts_with("-ERR") && names.iter().all(|name| reply.contains(name)), "{key}: {reply}");
}

/// Asks until the reply is this one.
fn wait_for(client: &mut Client, words: &[&str], reply: &str) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let found = text(&client.call(words));
        if found == reply {
            return;
        }
        assert!(Instant::now() < deadline, "{words:?} answers {found}, never {reply}");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn only_requests_for_a_corrupt_key_fail() {
    let dir = corrupt_data();
    let server = start(dir.path(), &[]);
    let mut client = server.connect();
    let (a, z) = (value("a"), value("z"));
    let replies = ask(
        &mut client,
        &[
            &["GET", "a"],
            &["GET", "corrupt"],
            &["GET", "z"],
            &["MGET", "a", "corrupt", "z"],
            &["MGET", "a", "z"],
            &["EXISTS", "a", "corrupt", "absent"],
            &["TTL", "corrupt"],
            &["STRLEN", "z"],
        ],
    );
    for (index, reply) in [(0, &a), (2, &z), (4, &format!("{a},{z}")), (7, &format!(":{}", z.len()))] {
        assert_eq!(replies[index], *reply, "{index}");
    }
    [1, 3, 6].iter().for_each(|index| assert_names(&replies[*index], "corrupt"));
    assert_eq!(replies[5], ":2");
    // The same in a commit, and in a transaction.
    let writes: [&[&str]; 7] = [
        &["SET", "n", "1"],
        &["GET", "corrupt"],
        &["GET", "a"],
        &["EXISTS", "a", "corrupt"],
        &["APPEND", "corrupt", "x"],
        &["INCR", "n"],
        &["MGET", "z", "a"],
    ];
    let expected = ["OK", "", &a, ":2", "", ":2", &format!("{z},{a}")];
    let check = |replies: &[String]| {
        for (reply, expected) in replies.iter().zip(expected) {
            if expected.is_empty() { assert_names(reply, "corrupt") } else { assert_eq!(reply, expected) }
        }
    };
    check(&ask(&mut client, &writes));
    assert_eq!(ask(&mut client, &[&["WATCH", "corrupt"], &["MULTI"]]), ["OK", "OK"]);
    writes.iter().for_each(|words| assert_eq!(text(&client.call(words)), "QUEUED"));
    let OwnedFrame::Array(frames) = client.call(&["EXEC"]) else { panic!("EXEC failed") };
    check(&frames.iter().map(text).collect::<Vec<_>>());
}

#[test]
fn commands_that_need_a_corrupt_value_change_nothing_and_the_others_succeed() {
    let dir = corrupt_data();
    let server = start(dir.path(), &[]);
    let mut client = server.connect();
    for words in [
        &["APPEND", "corrupt", "x"][..],
        &["INCR", "corrupt"],
        &["GETDEL", "corrupt"],
        &["GETSET", "corrupt", "x"],
        &["SET", "corrupt", "x", "GET"],
        &["SET", "corrupt", "x", "KEEPTTL"],
        &["EXPIRE", "corrupt", "100"],
        &["PERSIST", "corrupt"],
        &["RENAME", "corrupt", "other"],
        &["COPY", "corrupt", "other"],
        &["SETRANGE", "corrupt", "0", "x"],
        &["STRLEN", "corrupt"],
        &["OBJECT", "ENCODING", "corrupt"],
    ] {
        assert_names(&ask(&mut client, &[words])[0], "corrupt");
    }
    for (words, reply) in [
        (&["SET", "corrupt", "x", "NX"][..], "null"),
        (&["SETNX", "corrupt", "x"], ":0"),
        (&["MSETNX", "new", "x", "corrupt", "x"], ":0"),
        (&["COPY", "a", "corrupt"], ":0"),
        (&["EXISTS", "corrupt", "new", "other"], ":1"),
        (&["TOUCH", "corrupt"], ":1"),
        (&["DEL", "a", "corrupt"], ":2"),
        (&["EXISTS", "a", "corrupt"], ":0"),
        (&["SET", "corrupt", "x", "NX"], "OK"),
        (&["GET", "corrupt"], "x"),
        (&["SET", "corrupt mortal", "y"], "OK"),
        (&["GET", "corrupt mortal"], "y"),
        (&["SELECT", "1"], "OK"),
        (&["SET", "corrupt of 1", "z", "XX"], "OK"),
        (&["GET", "corrupt of 1"], "z"),
    ] {
        assert_eq!(ask(&mut client, &[words]), [reply], "{words:?}");
    }
    assert!(text(&client.call(&["INFO"])).contains("writes_refused:0"));
}

#[test]
fn what_looks_at_all_keys_passes_over_a_corrupt_value() {
    let dir = corrupt_data();
    let (server, port) =
        on_free_port(|port| try_start(dir.path(), &["--metrics", &format!("127.0.0.1:{port}")]));
    let mut client = server.connect();
    // The key that expires is found by the scan at the start, behind corrupt values or before them.
    let of_0 = FILLERS + 5;
    wait_for(&mut client, &["DBSIZE"], &format!(":{of_0}"));
    assert_names(&ask(&mut client, &[&["GET", "corrupt"]])[0], "corrupt");
    let counted = format!("db0:keys={of_0},expires=1,");
    let begin = Instant::now();
    // The scan at the start may still be under way on a busy machine.
    let info = loop {
        let info = text(&client.call(&["INFO"]));
        if info.contains(&counted) || begin.elapsed() > PATIENCE {
            break info;
        }
        thread::sleep(Duration::from_millis(10));
    };
    assert!(info.contains(&counted) && info.contains("db1:keys=2,expires=0"), "{info}");
    let reads = info.lines().find_map(|line| line.strip_prefix("corrupt_reads:")).unwrap();
    assert!(reads.parse::<u64>().unwrap() > 0);
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    let mut metrics = String::new();
    stream.read_to_string(&mut metrics).unwrap();
    let reads = metrics.lines().find_map(|line| line.strip_prefix("kvbench_corrupt_reads_total "));
    assert!(reads.unwrap().parse::<u64>().unwrap() > 0);

    let OwnedFrame::Array(keys) = client.call(&["KEYS", "*corrupt*"]) else { panic!("no keys") };
    let mut keys: Vec<_> = keys.iter().map(text).collect();
    keys.sort();
    assert_eq!(keys, ["corrupt", "corrupt mortal"]);
    assert_names(&ask(&mut client, &[&["KEYS", "corrupt", "WITHVALUES"]])[0], "corrupt");
    assert_eq!(ask(&mut client, &[&["KEYS", "a", "WITHVALUES"]]), [format!("a,{}", value("a"))]);
    let (mut cursor, mut found) = ("0".to_owned(), Vec::new());
    loop {
        let OwnedFrame::Array(parts) = client.call(&["SCAN", &cursor, "COUNT", "5"]) else { panic!("SCAN") };
        cursor = text(&parts[0]);
        found.extend(text(&parts[1]).split(',').filter(|key| !key.is_empty()).map(str::to_owned));
        if cursor == "0" {
            break;
        }
    }
    found.sort();
    found.dedup();
    assert!(found.len() == of_0 && CORRUPT[..2].iter().all(|key| found.iter().any(|found| found == key)));
    assert_ne!(ask(&mut client, &[&["RANDOMKEY"]]), ["null"]);

    // What is corrupt stays so wherever it goes.
    assert_eq!(ask(&mut client, &[&["SWAPDB", "0", "1"], &["DBSIZE"]]), ["OK", ":2"]);
    let moved = &ask(&mut client, &[&["GET", "corrupt of 1"]])[0];
    assert!(moved.contains("\"corrupt of 1\"") && moved.contains("corrupt"), "{moved}");
    assert_eq!(ask(&mut client, &[&["GET", "a"], &["FLUSHDB"], &["DBSIZE"]]), [&value("a"), "OK", ":0"]);
    let replies = ask(&mut client, &[&["SELECT", "1"], &["DBSIZE"], &["DEL", "a", "corrupt"], &["FLUSHDB"]]);
    assert_eq!(replies, ["OK", &format!(":{of_0}"), ":2", "OK"]);
    assert_eq!(ask(&mut client, &[&["DBSIZE"], &["SET", "k", "v"]]), [":0", "OK"]);
    assert!(server.terminate().success());
    let log = fs::read_to_string(dir.path().join("log")).unwrap();
    for key in CORRUPT {
        let lines = log.lines().filter(|line| line.contains(&format!("\"{key}\""))).count();
        assert_eq!(lines, 1, "{key}: {log}");
    }
}

#[test]
fn a_check_names_each_corrupt_key() {
    let dir = corrupt_data();
    let output = Command::new(KVBENCH).args(["check", "data"]).current_dir(dir.path()).run_to_end();
    let told = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{told}");
    for key in CORRUPT {
        assert!(told.contains(&format!("\"{key}\"")), "{key}: {told}");
    }
    assert!(
        told.contains("0000000001.segment") && !told.contains("\"a\"") && told.lines().count() == 1,
        "{told}"
    );
}

/// A merge takes neither the corruption away nor ends because of it.
#[test]
fn a_merge_passes_over_a_corrupt_value_and_keeps_it_corrupt() {
    let dir = corrupt_data();
    let server = start(dir.path(), &[]);
    let mut client = server.connect();
    let path = dir.path().join("data/0000000001.segment");
    assert!(path.exists());
    client.call(&["BGREWRITEAOF"]);
    let deadline = Instant::now() + PATIENCE;
    while path.exists() {
        assert!(Instant::now() < deadline, "the segment is not merged");
        thread::sleep(Duration::from_millis(5));
    }
    // After a kill and another start, too.
    let check = |server: &Server| {
        let mut client = server.connect();
        let replies = ask(&mut client, &[&["GET", "a"], &["GET", "corrupt"], &["GET", "z"]]);
        assert_eq!((&replies[0], &replies[2]), (&value("a"), &value("z")));
        assert!(replies[1].starts_with("-ERR") && replies[1].contains("\"corrupt\""), "{}", replies[1]);
    };
    check(&server);
    server.kill();
    let server = start(dir.path(), &[]);
    check(&server);
    assert!(server.terminate().success());
    let output = Command::new(KVBENCH).args(["check", "data"]).current_dir(dir.path()).run_to_end();
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(CORRUPT.iter().all(|key| told.contains(&format!("\"{key}\""))), "{told}");
}

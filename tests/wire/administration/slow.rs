//! Entries of SLOWLOG, as redis-server has them.

use crate::{
    differential::Redis,
    every_store::in_memory,
    frames::{ask, replies},
    support::{Client, request},
};
use redis_protocol::resp2::types::OwnedFrame;

/// Requests, each in a line.
const REQUESTS: &str = "SET k v\nGET k\nGET\nNOSUCH\nget k\nINCR k\nCLIENT SETNAME me\nMULTI\nSET a 1\nCONFIG GET port\nPING\n\
    EXEC\nMULTI\nDISCARD\nWATCH k\nUNWATCH\nAUTH wrong\nAUTH default wrong\nHELLO 2 AUTH default wrong SETNAME you\n\
    HELLO 2 SETNAME auth AUTH default wrong\nCLIENT SETNAME me\n    CONFIG SET requirepass secret\nCONFIG SET timeout 0 requirepass secret\nCONFIG SET requirepass  timeout 0\nSLOWLOG LEN\n\
    CONFIG BOGUS\nCLIENT KILL ID 99999\nSELECT 3\nSELECT 99\nFLUSHALL\nDBSIZE\nSCAN 0\nOBJECT ENCODING none\nMEMORY USAGE none\n\
    COMMAND COUNT\nWAIT 0 0\nRESET\nECHO last";

/// Number, arguments and name of the client of an entry.
type Entry = (i64, Vec<String>, String);

fn entries(client: &mut Client) -> Vec<Entry> {
    let text = |frame: &OwnedFrame| match frame {
        OwnedFrame::BulkString(bytes) => bytes.escape_ascii().to_string(),
        other => panic!("{other:?}"),
    };
    let OwnedFrame::Array(entries) = client.call(&["SLOWLOG", "GET", "-1"]) else { panic!("no entries") };
    let entry = |entry: &OwnedFrame| match entry {
        OwnedFrame::Array(fields) => match &fields[..] {
            [OwnedFrame::Integer(id), _, _, OwnedFrame::Array(args), _, name] => {
                (*id, args.iter().map(text).collect(), text(name))
            }
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    };
    entries.iter().map(entry).collect()
}

fn logged(mut client: Client) -> Vec<Entry> {
    ask(&mut client, &["CONFIG", "SET", "slowlog-max-len", "1000", "slowlog-log-slower-than", "0"]);
    let long = ["x".repeat(128), "y".repeat(129), "z".repeat(1000)];
    ask(&mut client, &["MSET", "a", &long[0], "b", &long[1], "c", &long[2]]);
    for count in [31, 32, 33, 100] {
        let keys = (1..count).map(|number| number.to_string());
        ask(&mut client, &["MGET".to_owned()].into_iter().chain(keys).collect::<Vec<_>>());
    }
    for line in REQUESTS.split('\n') {
        client.send(request(&line.split(' ').collect::<Vec<_>>()));
        replies(&mut client, 1);
    }
    ask(&mut client, &["CONFIG", "SET", "slowlog-log-slower-than", "-1"]);
    entries(&mut client)
}

#[test]
fn slow_commands_are_logged_as_by_redis() {
    let (redis, running) = (Redis::start(), in_memory(&[]));
    let (ours, theirs) = (logged(running.connect()), logged(redis.connect()));
    for (ours, theirs) in ours.iter().zip(&theirs) {
        assert_eq!(ours, theirs);
    }
    assert_eq!(ours.len(), theirs.len());
    assert!(ours.len() > 35, "{ours:?}");
}

/// An entry keeps no more of a client's name than of an argument: names may be as long as requests.
#[test]
fn entries_of_slow_commands_shorten_the_name_of_the_client() {
    let running = in_memory(&["--slowlog-log-slower-than", "0"]);
    let mut client = running.connect();
    ask(&mut client, &["CLIENT", "SETNAME", &"n".repeat(1000)]);
    ask(&mut client, &["PING"]);
    let [(_, _, name), ..] = &entries(&mut client)[..] else { panic!("no entry") };
    assert_eq!(*name, "n".repeat(128));
}

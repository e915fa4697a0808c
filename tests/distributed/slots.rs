//! What holds where keys are in slots: Redis Cluster.

use crate::{
    cluster::{CLUSTER, alone, masters, prefix, refusal, shared},
    servers::{bulk, text, two},
    support::{PATIENCE, request},
};
use redis_protocol::resp2::types::{OwnedFrame, Resp2Frame};
use std::{
    collections::HashSet,
    process::{Command, Stdio},
    sync::atomic::{AtomicBool, AtomicI64, Ordering},
    thread,
    time::Instant,
};

const CROSSSLOT: &str = "CROSSSLOT Keys in request don't hash to the same slot";

fn array<const N: usize>(replies: [OwnedFrame; N]) -> OwnedFrame {
    OwnedFrame::Array(replies.into())
}

#[test]
fn what_crosses_slots_is_refused_and_writes_nothing() {
    let _cluster = shared();
    if !CLUSTER.has_slots() {
        return;
    }
    let (_one, _other, mut client, mut beside) = two("crossing");
    let refused = || OwnedFrame::Error(CROSSSLOT.into());
    for request in [
        &["MSET", "a", "1", "b", "2"][..],
        &["MSETNX", "a", "1", "b", "2"],
        &["MGET", "a", "b"],
        &["DEL", "a", "b"],
        &["EXISTS", "a", "b"],
        &["RENAME", "a", "b"],
        &["COPY", "a", "b"],
    ] {
        assert_eq!(client.call(request), refused(), "{request:?}");
    }
    for request in [&["MULTI"][..], &["SET", "a", "1"], &["SET", "b", "2"]] {
        client.call(request);
    }
    assert_eq!(client.call(&["EXEC"]), refused());
    assert_eq!(beside.call(&["DBSIZE"]), OwnedFrame::Integer(0));
    // One tag is one slot. A key may be written twice.
    client.call(&["MSET", "{t}a", "0", "{t}b", "2", "{t}a", "1"]);
    for request in [&["MULTI"][..], &["SET", "{t}b", "3"], &["SET", "{t}b", "2"]] {
        client.call(request);
    }
    assert_eq!(client.call(&["EXEC"]), array([text("OK"), text("OK")]));
    assert_eq!(
        beside.call(&["MGET", "{t}b", "{t}a", "{t}c"]),
        array([bulk("2"), bulk("1"), OwnedFrame::Null])
    );
    for request in [&["WATCH", "{t}a"][..], &["MULTI"], &["INCR", "{t}a"], &["RENAME", "{t}a", "{t}c"]] {
        client.call(request);
    }
    assert_eq!(client.call(&["EXEC"]), array([OwnedFrame::Integer(2), text("OK")]));
    assert_eq!(beside.call(&["MGET", "{t}a", "{t}c"]), array([OwnedFrame::Null, bulk("2")]));
}

/// Each of its commands is by itself: what one is refused, others do not feel.
#[test]
fn a_pipeline_may_cross_slots() {
    let _cluster = shared();
    if !CLUSTER.has_slots() {
        return;
    }
    let (_one, _other, mut client, mut beside) = two("pipeline");
    let keys: Vec<_> = (0..100).map(|number| format!("key:{number}")).collect();
    for key in &keys {
        client.send(request(&["SET", key, "1"]));
        client.send(request(&["INCR", key]));
        client.send(request(&["MSET", key, "3", "other", "3"]));
        client.send(request(&["GET", key]));
    }
    for key in &keys {
        let replies = [(); 4].map(|()| client.reply());
        let expected = [text("OK"), OwnedFrame::Integer(2), OwnedFrame::Error(CROSSSLOT.into()), bulk("2")];
        assert_eq!(replies, expected, "{key}");
    }
    assert_eq!(beside.call(&["DBSIZE"]), OwnedFrame::Integer(100));
}

/// Every key, each once, over all masters.
#[test]
fn an_incremental_scan_finds_the_keys_of_all_masters() {
    let _cluster = shared();
    if !CLUSTER.has_slots() {
        return;
    }
    let (_one, _other, mut client, mut beside) = two("scan");
    let keys: HashSet<_> = (0..500).map(|number| format!("key:{number}")).collect();
    for key in &keys {
        client.send(request(&["SET", key, "v"]));
    }
    keys.iter().for_each(|_| assert_eq!(client.reply(), text("OK")));
    let (mut cursor, mut found) = (String::from("0"), HashSet::new());
    loop {
        let reply = beside.call(&["SCAN", &cursor, "COUNT", "7"]);
        let OwnedFrame::Array(parts) = reply else { panic!("{reply:?}") };
        let [next, OwnedFrame::Array(page)] = &parts[..] else { panic!("{parts:?}") };
        found.extend(page.iter().map(|key| key.as_str().unwrap().to_owned()));
        cursor = next.as_str().unwrap().to_owned();
        if cursor == "0" {
            break;
        }
    }
    assert_eq!(found, keys);
    let listed = beside.call(&["KEYS", "*"]);
    assert!(matches!(&listed, OwnedFrame::Array(listed) if listed.len() == keys.len()), "{listed:?}");
    assert_eq!(beside.call(&["DBSIZE"]), OwnedFrame::Integer(500));
}

/// Keys go from master to master under clients that increment them: each increment counts once.
#[test]
fn slots_that_move_lose_and_double_nothing() {
    const CLIENTS: usize = 8;
    let _cluster = alone();
    if !CLUSTER.has_slots() {
        return;
    }
    let (one, other, mut client, _) = two("moving");
    let (stop, sum) = (AtomicBool::new(false), AtomicI64::new(0));
    thread::scope(|scope| {
        for number in 0..CLIENTS {
            let (stop, sum) = (&stop, &sum);
            let mut client = if number % 2 == 0 { one.connect() } else { other.connect() };
            scope.spawn(move || {
                // Two keys of a slot, so that one of them may have moved and the other not; all slots in turn.
                for turn in (0..).take_while(|_| !stop.load(Ordering::Relaxed)) {
                    let tag = turn % 200;
                    for request in
                        [&["MULTI"][..], &["INCR", &format!("{{{tag}}}a")], &["INCR", &format!("{{{tag}}}b")]]
                    {
                        client.call(request);
                    }
                    let reply = client.call(&["EXEC"]);
                    let OwnedFrame::Array(replies) = &reply else { panic!("{reply:?}") };
                    assert!(
                        matches!(&replies[..], [OwnedFrame::Integer(_), OwnedFrame::Integer(_)]),
                        "{reply:?}"
                    );
                    sum.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let moved = move_slots();
        stop.store(true, Ordering::Relaxed);
        moved.unwrap();
    });
    let total = |client: &mut crate::support::Client, name: &str| -> i64 {
        let mut number = |tag: i32| {
            let found = client.call(&["GET", &format!("{{{tag}}}{name}")]);
            found.as_str().map_or(0, |text| text.parse::<i64>().unwrap())
        };
        (0..200).map(&mut number).sum()
    };
    let sums = [total(&mut client, "a"), total(&mut client, "b")];
    println!("{} transactions while slots moved", sum.load(Ordering::Relaxed));
    assert_eq!(sums, [sum.load(Ordering::Relaxed); 2]);
}

/// Moves 1,500 slots from all other masters to the first, and as many back.
fn move_slots() -> Result<(), String> {
    let mut masters = masters();
    masters.sort_by_key(|(number, ..)| *number);
    let [(seed, first, _), (_, second, _), ..] = &masters[..] else { return Err("too few masters".into()) };
    let seed = format!("127.0.0.1:{}", 17_000 + seed);
    for (from, to) in [("all", first), (first.as_str(), second)] {
        let mut command = Command::new("redis-cli");
        command.args(["--cluster", "reshard", &seed, "--cluster-from", from, "--cluster-to", to]);
        command.args(["--cluster-slots", "1500", "--cluster-yes"]);
        // The nodes tell each other who has which slot; until all know it, nothing is moved.
        let begin = Instant::now();
        loop {
            let output =
                command.stdin(Stdio::null()).output().map_err(|error| format!("redis-cli: {error}"))?;
            if output.status.success() {
                break;
            }
            if begin.elapsed() > PATIENCE {
                return Err(String::from_utf8_lossy(&output.stdout).into_owned());
            }
        }
    }
    Ok(())
}

/// The policy is that of the nodes: what they do not promise is not promised here.
#[test]
fn a_policy_that_a_node_does_not_keep_is_refused_by_name() {
    let _cluster = alone();
    if !CLUSTER.has_slots() {
        return;
    }
    let mut masters = masters();
    let (number, _, node) = masters.last_mut().unwrap();
    let refusals = [
        ("everysec", "always", Some("appendfsync everysec")),
        ("everysec", "everysec", None),
        ("no", "everysec", Some("appendfsync no")),
        ("no", "no", None),
        ("always", "always", None),
    ]
    .map(|(setting, fsync, expected)| {
        assert_eq!(node.call(&["CONFIG", "SET", "appendfsync", setting]), text("OK"));
        let arguments = [CLUSTER.arguments(&prefix("policy")), vec!["--fsync".into(), fsync.into()]].concat();
        (refusal(&arguments), expected)
    });
    // Checked when the node has its setting again, which other tests need.
    let node = format!(":{}", 17_000 + *number);
    for (refusal, expected) in refusals {
        match (&refusal, expected) {
            (Some(words), Some(expected)) => {
                assert!(words.contains(expected) && words.contains(&node), "{words}");
            }
            _ => assert_eq!(refusal.is_some(), expected.is_some(), "{refusal:?}, expected {expected:?}"),
        }
    }
}

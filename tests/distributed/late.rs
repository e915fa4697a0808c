//! Transactions of two regions of a TiKV cluster, of whose commit the request or the reply is late.

use crate::{
    cluster::{CLUSTER, alone, prefix, serve, split},
    proxy::{Hold, Late, Proxy},
    servers::{bulk, text},
};
use redis_protocol::resp2::types::OwnedFrame;
use std::{thread, time::Duration};

const NEW: &str = "the-new-value";

/// Returns what EXEC replied that set two keys of two regions, and what they have in the end. The commit of the first of
/// them, the primary key, is late until EXEC has replied.
fn exec_with_late_commit(late: Late) -> (OwnedFrame, OwnedFrame) {
    let prefix = prefix("proxied");
    let server = serve(&prefix);
    let mut reader = server.connect();
    let [first, second] = split(&prefix, &mut reader);
    assert_eq!(reader.call(&["MSET", &first, "old", &second, "old"]), text("OK"));
    // The request that locks the key has its value, too.
    let hold = Hold::new(late, &format!("{prefix}{first}"), NEW);
    let proxy = Proxy { hold: Some(hold.clone()), ..Proxy::default() };
    let reply = proxy.run(|| {
        let server = serve(&prefix);
        let mut client = server.connect();
        // A server begins with a scan of all keys, which would settle what the commit leaves.
        thread::sleep(Duration::from_secs(2));
        for request in [&["MULTI"][..], &["SET", &first, NEW], &["SET", &second, NEW]] {
            client.call(request);
        }
        let reply = client.call(&["EXEC"]);
        assert!(hold.end() > 0, "no commit was late");
        reply
    });
    (reply, reader.call(&["MGET", &first, &second]))
}

fn assert_is_unknown(reply: &OwnedFrame) {
    let words = "whether the write took effect is not known";
    assert!(matches!(reply, OwnedFrame::Error(error) if error.contains(words)), "{reply:?}");
}

#[test]
fn proxied_exec_of_two_regions_is_whole_if_the_reply_to_its_commit_is_late() {
    let _cluster = alone();
    if CLUSTER.has_slots() {
        return;
    }
    let (reply, found) = exec_with_late_commit(Late::Replies);
    assert_is_unknown(&reply);
    assert_eq!(found, OwnedFrame::Array(vec![bulk(NEW), bulk(NEW)]));
}

#[test]
fn proxied_exec_of_two_regions_is_whole_if_the_request_for_its_commit_is_late() {
    let _cluster = alone();
    if CLUSTER.has_slots() {
        return;
    }
    let (reply, found) = exec_with_late_commit(Late::Requests);
    assert_is_unknown(&reply);
    let whole = ["old", NEW].map(|value| OwnedFrame::Array(vec![bulk(value), bulk(value)]));
    assert!(whole.contains(&found), "{found:?}");
}

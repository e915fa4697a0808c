//! When the disk is really synced: the server's own system calls.

use crate::{
    faults::ok,
    support::{Client, PATIENCE, RunToEnd, stores, stores_that},
    trace::{Trace, Traced, strace},
};
use kvbench::engine::FsyncSupport;
use redis_protocol::resp2::types::OwnedFrame;
use std::{
    collections::BTreeMap,
    sync::Barrier,
    thread,
    time::{Duration, Instant},
};

const CLIENTS: usize = 256;
const SETS: usize = 20;

#[test]
fn under_always_no_reply_leaves_before_its_own_sync() {
    for store in stores() {
        let dir = tempfile::tempdir().unwrap();
        let mut traced = Traced::start(dir.path(), store, "always");
        set_some(&mut traced.connect());
        each_is_synced_before_its_reply(store, &traced.trace());
    }
}

fn each_is_synced_before_its_reply(store: &str, trace: &Trace) {
    for request in requests() {
        let (received, answered) = trace.handling(&request);
        let written = trace.writes().find(|call| call.begin > received);
        let written = written.unwrap_or_else(|| panic!("{store}: {request} was not written"));
        let mut syncs = trace.syncs().filter(|call| call.begin >= written.begin);
        assert!(
            syncs.any(|call| call.end < answered),
            "{store}: {request} was received at line {received} of the trace, written at {}, and \
             answered at {answered} without a sync",
            written.end
        );
    }
}

/// `fsync` also writes the time of the last change, which costs a commit of the file system's journal. A store that
/// called it would look slower than its library is.
#[test]
fn the_syncs_of_single_writes_leave_out_the_times_of_the_file() {
    for store in stores() {
        let dir = tempfile::tempdir().unwrap();
        let mut traced = Traced::start(dir.path(), store, "always");
        set_some(&mut traced.connect());
        let trace = traced.trace();
        let (first, _) = trace.handling("the-key-0000");
        let full = trace.syncs().filter(|call| call.begin > first && call.name == "fsync").count();
        assert!(full < SETS / 4, "{store}: {full} calls of fsync for {SETS} SETs");
    }
}

#[test]
fn a_change_to_always_syncs_what_was_written_and_what_follows() {
    for store in stores_that(|info| info.fsync == FsyncSupport::Changeable) {
        let dir = tempfile::tempdir().unwrap();
        let mut traced = Traced::start(dir.path(), store, "no");
        let mut client = traced.connect();
        client.call(&["SET", "before", "1"]);
        let reply = client.call(&["CONFIG", "SET", "appendfsync", "always"]);
        assert_eq!(reply, OwnedFrame::SimpleString(b"OK".into()), "{store}");
        set_some(&mut client);
        let trace = traced.trace();
        let (received, answered) = trace.handling("appendfsync");
        let mut syncs = trace.syncs().filter(|call| call.begin > received && call.end < answered);
        assert!(syncs.next().is_some(), "{store}: what was written before is not synced");
        each_is_synced_before_its_reply(store, &trace);
    }
}

#[test]
fn under_always_many_clients_share_a_sync() {
    for store in stores() {
        let dir = tempfile::tempdir().unwrap();
        let mut traced = Traced::start(dir.path(), store, "always");
        let before = traced.trace().syncs().count();
        set_by_many(&traced);
        let trace = traced.trace();
        let (sets, syncs) = (CLIENTS * SETS, trace.syncs().count() - before);
        eprintln!("{store}: {sets} SETs of {CLIENTS} clients, {syncs} syncs, {} each", sets / syncs.max(1));
        assert!(syncs > 0, "{store}: no sync at all");
        assert!(syncs < sets / 4, "{store}: {syncs} syncs for {sets} SETs");
    }
}

#[test]
fn under_everysec_a_timer_syncs_and_no_request_waits_for_it() {
    for store in stores() {
        let dir = tempfile::tempdir().unwrap();
        let mut traced = Traced::start(dir.path(), store, "everysec");
        let before = traced.trace().syncs().count();
        set_some(&mut traced.connect());
        let deadline = Instant::now() + PATIENCE;
        let trace = loop {
            let trace = traced.trace();
            if trace.syncs().count() > before {
                break trace;
            }
            assert!(Instant::now() < deadline, "{store}: the writes are never synced");
            thread::sleep(Duration::from_millis(100));
        };
        assert_eq!(syncs_of_requests(&traced, &trace), BTreeMap::new(), "{store}");
    }
}

#[test]
fn under_no_plain_sets_cause_no_sync() {
    for store in stores() {
        let dir = tempfile::tempdir().unwrap();
        let mut traced = Traced::start(dir.path(), store, "no");
        // MDBX syncs once, when it uses the pages of its last synced state again (meta_wipe_steady).
        set_some(&mut traced.connect());
        let before = traced.trace().syncs().count();
        set_some(&mut traced.connect());
        // Longer than any timer of the other policies.
        thread::sleep(Duration::from_secs(3));
        let trace = traced.trace();
        let syncs: Vec<_> = trace.syncs().skip(before).collect();
        assert!(syncs.is_empty(), "{store}: {syncs:?}");
    }
}

#[test]
fn this_machine_has_strace() {
    assert!(strace().arg("--version").run_to_end().status.success());
}

fn requests() -> impl Iterator<Item = String> {
    (0..SETS).map(|n| format!("the-key-{n:04}"))
}

/// One SET after the other.
fn set_some(client: &mut Client) {
    for key in requests() {
        assert_eq!(client.call(&["SET", &key, &"v".repeat(100)]), ok());
    }
}

/// Every client sets as fast as it is answered.
fn set_by_many(traced: &Traced) {
    let barrier = Barrier::new(CLIENTS);
    thread::scope(|scope| {
        for id in 0..CLIENTS {
            let mut client = traced.connect();
            let barrier = &barrier;
            scope.spawn(move || {
                barrier.wait();
                for n in 0..SETS {
                    client.send(format!("SET {id}:{n} value-{id}-{n}\r\n"));
                    client.expect("+OK\r\n");
                }
            });
        }
    });
}

/// Syncs that a client waited for: those of the threads that serve and commit, between the first
/// request and the last.
fn syncs_of_requests(traced: &Traced, trace: &Trace) -> BTreeMap<String, usize> {
    let (first, _) = trace.handling("the-key-0000");
    let mut found = BTreeMap::new();
    for call in trace.syncs().filter(|call| call.begin > first) {
        let thread = traced.thread_name(call.thread);
        if thread == "commit" || thread.starts_with("worker-") {
            *found.entry(thread).or_default() += 1;
        }
    }
    found
}

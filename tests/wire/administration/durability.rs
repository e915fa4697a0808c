//! CONFIG SET appendfsync and WAITAOF: how durable writes are, changed and waited for while clients are connected.

use super::text;
use crate::{
    every_store::{Running, in_memory, with_every_store},
    frames::{ask, info},
    support::{Client, Server, request, stores_that, wait_until},
};
use kvbench::engine::FsyncSupport;
use std::fs;

fn policy(client: &mut Client) -> (String, bool) {
    let info = text(client, &["INFO", "persistence"]);
    let word = info.lines().find_map(|line| line.strip_prefix("fsync:")).unwrap().to_owned();
    let setting = text(client, &["CONFIG", "GET", "appendfsync"]);
    assert!(setting.ends_with(&format!("\r\n{word}\r\n")), "{setting} is not {word}");
    (word, info.contains("\r\noldest_unsynced_ms:"))
}

#[test]
fn the_policy_changes_where_the_engine_can() {
    with_every_store(|running| {
        let mut client = running.connect();
        assert_eq!(policy(&mut client), ("no".into(), false));
        for (fsync, is_timed) in [("everysec", true), ("no", false), ("always", false)] {
            text(&mut client, &["SET", "k", fsync]);
            let reply = text(&mut client, &["CONFIG", "SET", "appendfsync", fsync]);
            if running.info().fsync == FsyncSupport::AlwaysFixedAtOpen && fsync == "always" {
                assert!(
                    reply.starts_with("-ERR CONFIG SET failed (possibly related to argument 'appendfsync')")
                );
                assert!(reply.ends_with("restart with --fsync always\r\n"), "{reply}");
                assert_eq!(policy(&mut client).0, "no");
                continue;
            }
            assert_eq!(reply, "+OK\r\n", "{fsync}");
            assert_eq!(policy(&mut client), (fsync.into(), is_timed && !running.is_in_memory()));
            text(&mut client, &["SET", "k", "v"]);
        }
        // Killed; the last write was synced.
        if !running.is_in_memory() && running.info().fsync == FsyncSupport::Changeable {
            let running = running.restart();
            assert_eq!(ask(&mut running.connect(), &["GET", "k"]), b"$1\r\nv\r\n");
        }
    });
}

/// The timer reads the policy each second.
#[test]
fn a_change_to_everysec_syncs_what_was_written_before() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &["--store", "map", "--path", "data", "--fsync", "no"]);
    let mut client = server.connect();
    assert_eq!(text(&mut client, &["SET", "k", "v"]), "+OK\r\n");
    assert_eq!(text(&mut client, &["CONFIG", "SET", "appendfsync", "everysec"]), "+OK\r\n");
    wait_until("the write is not synced", || info(&mut client, "last_sync_time") > 0);
    assert_eq!(info(&mut client, "oldest_unsynced_ms"), 0);
}

#[test]
fn a_refused_policy_changes_nothing_else() {
    for store in stores_that(|info| info.fsync != FsyncSupport::Changeable) {
        let running = Running::start(store, "data", &[]);
        let mut client = running.connect();
        let reply = text(&mut client, &["CONFIG", "SET", "timeout", "77", "appendfsync", "always"]);
        assert!(reply.starts_with("-ERR CONFIG SET failed"), "{reply}");
        assert!(text(&mut client, &["CONFIG", "GET", "timeout"]).ends_with("\r\n0\r\n"));
    }
}

/// A server whose syncs last until a file is gone.
fn slow(fsync: &str) -> (tempfile::TempDir, Server) {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &["--store", "slow-sync", "--path", "data", "--fsync", fsync]);
    (dir, server)
}

#[test]
fn waitaof_waits_for_the_sync_of_what_was_written() {
    let (dir, server) = slow("no");
    let hold = dir.path().join("data.hold");
    fs::write(&hold, "").unwrap();
    let (mut client, mut other) = (server.connect(), server.connect());
    assert_eq!(text(&mut client, &["WAITAOF", "1", "0", "0"]), "*2\r\n:1\r\n:0\r\n", "nothing was written");
    text(&mut client, &["SET", "k", "v"]);
    assert_eq!(text(&mut client, &["WAITAOF", "0", "0", "0"]), "*2\r\n:0\r\n:0\r\n", "not asked to wait");
    assert_eq!(text(&mut client, &["WAITAOF", "1", "0", "20"]), "*2\r\n:0\r\n:0\r\n", "in 20 milliseconds");
    client.send(request(&["WAITAOF", "1", "0", "0"]));
    // Nobody else waits meanwhile.
    text(&mut other, &["SET", "k", "w"]);
    assert_eq!(text(&mut other, &["GET", "k"]), "$1\r\nw\r\n");
    fs::remove_file(&hold).unwrap();
    client.expect("*2\r\n:1\r\n:0\r\n");
    assert_eq!(text(&mut other, &["WAITAOF", "1", "1", "5"]), "*2\r\n:1\r\n:0\r\n", "there are no replicas");
}

#[test]
fn waitaof_in_a_transaction_or_without_replies_waits_as_in_redis() {
    let (dir, server) = slow("everysec");
    fs::write(dir.path().join("data.hold"), "").unwrap();
    let mut client = server.connect();
    client.send("SET k v\r\nMULTI\r\nWAITAOF 1 0 0\r\nEXEC\r\n");
    client.expect("+OK\r\n+OK\r\n+QUEUED\r\n*1\r\n*2\r\n:0\r\n:0\r\n");
    client.send("CLIENT REPLY SKIP\r\nWAITAOF 1 0 1\r\nPING\r\n");
    client.expect("+PONG\r\n");
    fs::remove_file(dir.path().join("data.hold")).unwrap();
}

#[test]
fn replies_before_waitaof_do_not_wait_for_its_sync() {
    let (dir, server) = slow("no");
    let hold = dir.path().join("data.hold");
    let mut client = server.connect();
    for (before, replies) in [
        ("SET k v\r\nNONE\r\n", "+OK\r\n-ERR unknown command 'NONE', with args beginning with: \r\n"),
        ("SET k v\r\nCLIENT REPLY SKIP\r\n", "+OK\r\n"),
        ("SET k v\r\nCLIENT REPLY OFF\r\n", "+OK\r\n"),
    ] {
        fs::write(&hold, "").unwrap();
        client.send(format!("{before}WAITAOF 1 0 0\r\nCLIENT REPLY ON\r\nGET k\r\n"));
        client.expect(replies);
        fs::remove_file(&hold).unwrap();
        client.expect(if before.contains("REPLY") { "" } else { "*2\r\n:1\r\n:0\r\n" });
        client.expect("+OK\r\n$1\r\nv\r\n");
    }
}

#[test]
fn a_killed_client_does_not_wait_for_its_sync() {
    let (dir, server) = slow("no");
    let hold = dir.path().join("data.hold");
    fs::write(&hold, "").unwrap();
    let (mut client, mut killer) = (server.connect(), server.connect());
    text(&mut client, &["SET", "k", "v"]);
    for milliseconds in ["0", "60000"] {
        let mut waiting = server.connect();
        let id = text(&mut waiting, &["CLIENT", "ID"])[1..].trim_end().to_owned();
        waiting.send(format!("WAITAOF 1 0 {milliseconds}\r\nSET k w\r\n"));
        assert_eq!(text(&mut killer, &["CLIENT", "KILL", "ID", &id]), ":1\r\n");
        waiting.expect_closed();
    }
    assert_eq!(text(&mut killer, &["GET", "k"]), "$1\r\nv\r\n");
    fs::remove_file(&hold).unwrap();
}

/// A sync for which WAITAOF has stopped waiting holds nobody up, though it still runs.
#[test]
#[cfg(feature = "fault-injection")]
fn waits_that_have_timed_out_are_not_counted_at_the_end() {
    use crate::support::KVBENCH;
    use rustix::process::{Pid, Signal, kill_process};
    let dir = tempfile::tempdir().unwrap();
    let (hold, log) = (dir.path().join("data.hold"), dir.path().join("log"));
    let args = ["--store", "slow-sync", "--path", "data", "--fsync", "no", "--threads", "1"];
    let mut command = std::process::Command::new(KVBENCH);
    command.current_dir(dir.path()).args(args).args(["--shutdown-timeout", "1"]);
    let mut server = Server::start_command(command.stderr(fs::File::create(&log).unwrap()));
    fs::write(&hold, "").unwrap();
    let (mut client, mut waiting) = (server.connect(), server.connect());
    text(&mut client, &["SET", "k", "v"]);
    for _ in 0..40 {
        assert_eq!(text(&mut client, &["WAITAOF", "1", "0", "1"]), "*2\r\n:0\r\n:0\r\n");
    }
    waiting.send("PING\r\nWAITAOF 1 0 0\r\n");
    waiting.expect("+PONG\r\n");
    kill_process(Pid::from_child(&server.process), Signal::TERM).unwrap();
    let said = || fs::read_to_string(&log).unwrap();
    wait_until("nothing is said about a client without a reply", || said().contains("clients get no reply"));
    fs::remove_file(&hold).unwrap();
    server.wait();
    assert!(said().contains(" 1 clients get no reply"), "{}", said());
}

/// The syncs that WAITAOF leaves behind on a slow disk do not occupy the threads of other commands.
#[test]
fn waits_that_have_timed_out_hold_no_other_command_up() {
    let dir = tempfile::tempdir().unwrap();
    let args = ["--store", "slow-sync", "--path", "data", "--fsync", "no", "--threads", "1"];
    let server = Server::start(dir.path(), &args);
    let hold = dir.path().join("data.hold");
    fs::write(&hold, "").unwrap();
    let (mut client, mut other) = (server.connect(), server.connect());
    text(&mut client, &["SET", "k", "v"]);
    for _ in 0..40 {
        assert_eq!(text(&mut client, &["WAITAOF", "1", "0", "1"]), "*2\r\n:0\r\n:0\r\n");
    }
    assert_eq!(text(&mut other, &["KEYS", "*"]), "*1\r\n$1\r\nk\r\n");
    fs::remove_file(&hold).unwrap();
    assert_eq!(text(&mut client, &["WAITAOF", "1", "0", "0"]), "*2\r\n:1\r\n:0\r\n");
}

/// In the words of Redis 7.2.
#[test]
fn waitaof_refuses_what_redis_refuses() {
    let running = in_memory(&[]);
    let mut client = running.connect();
    for (arguments, error) in [
        ("x 0 0", "value is not an integer or out of range"),
        ("2 0 0", "value is out of range, value must between 0 and 1"),
        ("-1 0 0", "value is out of range, value must between 0 and 1"),
        ("0 -1 0", "value is out of range, must be positive"),
        ("0 x 0", "value is out of range, must be positive"),
        ("0 0 -1", "timeout is negative"),
        ("0 0 x", "timeout is not an integer or out of range"),
        ("1 0 0", "WAITAOF cannot be used when numlocal is set but appendonly is disabled."),
    ] {
        let words: Vec<_> = ["WAITAOF"].into_iter().chain(arguments.split(' ')).collect();
        assert_eq!(text(&mut client, &words), format!("-ERR {error}\r\n"), "{arguments}");
    }
    assert_eq!(text(&mut client, &["WAITAOF", "0", "0", "0"]), "*2\r\n:0\r\n:0\r\n");
    let arity = "-ERR wrong number of arguments for 'waitaof' command\r\n";
    assert_eq!(text(&mut client, &["WAITAOF", "0", "0"]), arity);
}

//! `--fsync everysec` on a slow disk: what may be lost stays bounded.

use crate::support::{Client, Server, request, wait_until};
use std::{
    fs, io, thread,
    time::{Duration, Instant},
};

fn info(client: &mut Client, name: &str) -> u64 {
    crate::frames::info(client, name)
}

/// Writes once, and tells whether that waits for the sync.
fn is_delayed(writer: &mut Client, other: &mut Client) -> bool {
    writer.send("SET late 1\r\n");
    loop {
        if info(other, "writes_delayed_by_sync") == 1 {
            return true;
        }
        if has_reply(writer) {
            writer.expect("+OK\r\n");
            return false;
        }
    }
}

fn has_reply(client: &mut Client) -> bool {
    client.stream.set_nonblocking(true).unwrap();
    let received = client.receive();
    client.stream.set_nonblocking(false).unwrap();
    match received {
        Ok(()) => true,
        Err(error) => {
            assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
            false
        }
    }
}

#[test]
fn writes_wait_for_a_slow_sync_and_others_do_not() {
    let dir = tempfile::tempdir().unwrap();
    let args = ["--store", "slow-sync", "--path", "data", "--fsync", "everysec", "--max-unsynced", "1"];
    let server = Server::start(dir.path(), &args);
    let (mut writer, mut other) = (server.connect(), server.connect());
    assert_eq!(info(&mut other, "last_sync_time"), 0);
    writer.send("SET first 1\r\n");
    writer.expect("+OK\r\n");
    wait_until("the first write is not synced", || info(&mut other, "last_sync_time") > 0);
    assert_eq!(info(&mut other, "oldest_unsynced_ms"), 0);
    let hold = dir.path().join("data.hold");
    fs::write(&hold, "").unwrap();
    writer.send("SET early 1\r\n");
    writer.expect("+OK\r\n");
    // Writes go on until the sync of the early one, which does not end, is late.
    wait_until("no write waits for the sync", || is_delayed(&mut writer, &mut other));
    assert!(info(&mut other, "oldest_unsynced_ms") >= 1000);
    other.send(request(&["SET", "more", "1"]));
    let mut reader = server.connect();
    reader.send("GET more\r\nGET early\r\n");
    reader.expect("$-1\r\n$1\r\n1\r\n");
    assert!(!has_reply(&mut writer) && !has_reply(&mut other));
    fs::remove_file(&hold).unwrap();
    writer.expect("+OK\r\n");
    other.expect("+OK\r\n");
    wait_until("the age does not fall", || info(&mut reader, "oldest_unsynced_ms") < 1000);
}

/// The time in which a server was stopped is not the age of its running sync.
#[test]
#[cfg(target_os = "linux")]
fn stopped_server_does_not_delay_writes_afterwards() {
    use rustix::process::{Pid, Signal, kill_process};
    let dir = tempfile::tempdir().unwrap();
    let args = ["--store", "slow-sync", "--path", "data", "--fsync", "everysec", "--max-unsynced", "5"];
    let server = Server::start(dir.path(), &args);
    let (mut writer, mut other) = (server.connect(), server.connect());
    let hold = dir.path().join("data.hold");
    fs::write(&hold, "").unwrap();
    writer.send("SET early 1\r\n");
    writer.expect("+OK\r\n");
    wait_until("no sync has begun", || dir.path().join("data.held").exists());
    let pid = Pid::from_child(&server.process);
    kill_process(pid, Signal::STOP).unwrap();
    thread::sleep(Duration::from_secs(5));
    kill_process(pid, Signal::CONT).unwrap();
    assert!(!is_delayed(&mut writer, &mut other), "the stop counts as the age of the sync");
    // The sync that was held ends, and no syncs make up for the seconds of the stop.
    let begin = Instant::now();
    fs::remove_file(&hold).unwrap();
    while begin.elapsed() < Duration::from_secs(1) {
        writer.send("SET late 1\r\n");
        writer.expect("+OK\r\n");
        thread::sleep(Duration::from_millis(10));
    }
    let syncs = info(&mut other, "timer_syncs");
    // One may be due at the begin, and one while INFO is answered.
    let due = begin.elapsed().as_secs() + 2;
    assert!(syncs <= due, "{syncs} syncs in {:?} after the stop", begin.elapsed());
}

/// The next sync is due after a second in which the server runs: a comparison stops it again and again, for longer than
/// a second each time, and it syncs as often as a server that is not stopped.
#[test]
#[cfg(target_os = "linux")]
fn stopped_server_syncs_once_in_a_second_of_its_running_time() {
    const STOPS: u64 = 12;
    for _ in 0..3 {
        let (syncs, running) = syncs_of_a_stopped_server(STOPS);
        // The server notices a stop up to a tenth of a second late.
        let due = running.as_secs() + 2;
        if due < STOPS {
            assert!(syncs <= due, "{syncs} syncs in {running:?}, with {STOPS} stops");
            return;
        }
        // Where the server ran for that long between the stops, the number proves nothing.
        eprintln!("the machine is too busy: {running:?}");
    }
    panic!("three times the server ran for too long between the stops: run the test on a less busy machine");
}

/// Stops a server so many times, for longer than a second each time. Returns the number of its syncs, and how long it ran.
#[cfg(target_os = "linux")]
fn syncs_of_a_stopped_server(stops: u64) -> (u64, Duration) {
    use rustix::process::{Pid, Signal, kill_process};
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &["--path", "data", "--fsync", "everysec"]);
    let mut client = server.connect();
    let pid = Pid::from_child(&server.process);
    let mut resumed = Instant::now();
    let mut running = Duration::ZERO;
    for _ in 0..stops {
        client.send("SET key 1\r\n");
        client.expect("+OK\r\n");
        kill_process(pid, Signal::STOP).unwrap();
        running += resumed.elapsed();
        thread::sleep(Duration::from_millis(1200));
        resumed = Instant::now();
        kill_process(pid, Signal::CONT).unwrap();
        thread::sleep(Duration::from_millis(100));
    }
    let syncs = info(&mut client, "timer_syncs");
    (syncs, running + resumed.elapsed())
}

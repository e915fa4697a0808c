//! The load generator.

use crate::{
    support::bench::{bench, command, measurement, read, result_of, stderr},
    support::{RunToEnd, Server},
};
use kvbench::bench::result::{Access, Operation};
use redis_protocol::resp2::types::OwnedFrame;
use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    thread,
};

#[test]
fn a_pipeline_counts_what_was_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let mix = "get=0.4,get-miss=0.1,update=0.2,insert=0.1,read-modify-write=0.1,delete=0.1";
    let run = result_of(
        dir.path(),
        &[
            "--wire",
            "--stores",
            "map",
            "--mix",
            mix,
            "--operations",
            "5000",
            "--keys",
            "3000",
            "--threads",
            "7",
            "--batch",
            "16",
            "--fsync",
            "no",
        ],
    );
    assert_eq!(run.cells.len(), 1);
    assert_eq!(run.cells[0].target.access, Access::Wire);
    let measured = measurement(&run.samples[0].outcome);
    assert!(measured.is_sound(), "{:?}", measured.first_fault);
    assert_eq!(measured.operations, 5000);
    let share = measured.by_operation[&Operation::Get].count as f64 / 5000.0;
    assert!((0.35..0.45).contains(&share), "{share}");
    assert!(measured.cpu_us_per_operation.is_some() && measured.peak_memory_bytes.is_some());
    assert!(measured.disk_bytes.unwrap() > 3000 * 116);
}

/// A login sets the one limit low, and lets a process raise it to the other.
#[test]
fn a_low_soft_limit_of_open_files_is_raised_for_all_clients() {
    let dir = tempfile::tempdir().unwrap();
    let flags = "--wire --stores map --fsync memory --threads 300 --operations 3000 --keys 100";
    let run = command(dir.path(), &flags.split(' ').collect::<Vec<_>>());
    let output = Command::new("sh")
        .current_dir(dir.path())
        .args(["-c", "ulimit -Sn 256 && exec \"$0\" \"$@\""])
        .arg(run.get_program())
        .args(run.get_args())
        .run_to_end();
    assert!(output.status.success(), "{}", stderr(&output));
    let run = read(dir.path());
    assert_eq!(measurement(&run.samples[0].outcome).operations, 3000);
}

/// A server refuses the map size of a store without a memory map, and a user may give it for other stores of a run.
#[test]
#[cfg(feature = "lmdb")]
fn the_map_size_is_given_only_to_servers_of_stores_with_a_memory_map() {
    let dir = tempfile::tempdir().unwrap();
    let flags = "--wire --stores map,lmdb --mix get=1 --operations 100 --keys 100 --fsync no --map-size 1GiB";
    let run = result_of(dir.path(), &flags.split(' ').collect::<Vec<_>>());
    let operations = run.samples.iter().map(|sample| measurement(&sample.outcome).operations);
    assert_eq!(operations.collect::<Vec<_>>(), [100, 100]);
}

#[test]
fn another_server_is_a_target_but_must_be_empty() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &["--path", ":memory:"]);
    let address = server.address.to_string();
    let target = ["--target", &address, "--target-name", "other", "--operations", "1000", "--keys", "100"];
    let run = result_of(dir.path(), &target);
    assert_eq!(run.cells[0].target.store, "other");
    assert_eq!(run.cells[0].target.fsync, None);

    let mut client = server.connect();
    client.send("SET precious 1\r\n");
    client.expect("+OK\r\n");
    std::fs::remove_file(dir.path().join("result.json")).unwrap();
    let output = bench(dir.path(), &target);
    assert!(!output.status.success());
    assert!(stderr(&output).contains("holds 1 keys"), "{}", stderr(&output));
    client.send("GET precious\r\n");
    client.expect("$1\r\n1\r\n");
    assert!(!dir.path().join("result.json").exists(), "a refused run leaves no result");

    let flush = [&target[..], &["--flush-target", "--target-fsync", "no"]].concat();
    assert!(bench(dir.path(), &flush).status.success());
    let run = read(dir.path());
    assert!(run.finished);
    // Nothing makes it do its deferred work.
    let measured = measurement(&run.samples[0].outcome);
    assert_eq!(measured.settle_seconds, None);
    assert!(measured.unmeasured.contains_key("settle_seconds"));
    // Nothing is known of its cache.
    let of_cache = |warning: &String| warning.contains("cache");
    assert!(!run.environment.warnings.iter().any(of_cache), "{:?}", run.environment.warnings);
}

#[test]
fn a_server_that_is_not_there_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let output = bench(dir.path(), &["--target", "127.0.0.1:1", "--operations", "10", "--keys", "10"]);
    assert!(!output.status.success());
    assert!(stderr(&output).contains("127.0.0.1:1"), "{}", stderr(&output));
}

#[test]
fn a_rate_is_kept_and_its_lateness_is_measured() {
    let dir = tempfile::tempdir().unwrap();
    let flags = ["--wire", "--stores", "map", "--keys", "100", "--threads", "3", "--seconds", "0.5"];
    let run = result_of(dir.path(), &[&flags[..], &["--rates", "300,600", "--fsync", "memory"]].concat());
    let rates: Vec<_> = run.cells.iter().map(|cell| (cell.row.as_str(), cell.workload.rate)).collect();
    assert_eq!(rates, [("custom at 300/s", Some(300.0)), ("custom at 600/s", Some(600.0))]);
    for (sample, intended) in run.samples.iter().zip([150, 300]) {
        let measured = measurement(&sample.outcome);
        // Each of the clients begins and ends within its own interval.
        let begun = measured.operations + measured.unstarted_operations;
        assert!((intended - 3..=intended + 3).contains(&begun), "{begun} of {intended}");
        assert!(measured.lateness.as_ref().is_some_and(|lateness| lateness.count > 0));
    }
}

/// What follows the last key would be done by some stores and not by others.
#[test]
fn a_client_that_finds_no_key_is_a_fault() {
    let dir = tempfile::tempdir().unwrap();
    let keys = ["--keys", "100", "--operations", "1000"];
    // Of two bytes there are 32,768 keys.
    let inserts =
        ["--key-bytes", "2", "--ordered-keys", "--keys", "10", "--operations", "70000", "--batch", "64"];
    for (mix, flags, words) in [
        ("get-miss=0.5,delete=0.5", &keys[..], "ran out of keys: no key is left to delete"),
        ("get-miss=0.5,insert=0.5", &inserts, "ran out of keys: no key is left to insert"),
        ("get=0.5,delete=0.5", &keys, "ran out of keys"),
    ] {
        let _ = std::fs::remove_file(dir.path().join("result.json"));
        let output = bench(dir.path(), &[&["--wire", "--stores", "map", "--mix", mix], flags].concat());
        assert!(!output.status.success(), "{mix}");
        assert!(stderr(&output).contains(words), "{mix}: {}", stderr(&output));
        assert!(!measurement(&read(dir.path()).samples[0].outcome).is_sound(), "{mix}");
    }
}

/// How long the second start took, over what was closed; of what is empty or in memory it tells nothing.
#[test]
fn a_server_that_starts_again_is_timed() {
    let dir = tempfile::tempdir().unwrap();
    let reopened = |flags: &[&str]| {
        let _ = std::fs::remove_file(dir.path().join("result.json"));
        let run = result_of(dir.path(), &[&["--wire", "--stores", "map"], flags].concat());
        measurement(&run.samples[0].outcome).reopen_seconds
    };
    let get = ["--keys", "100", "--operations", "100"];
    assert!(reopened(&get).is_some_and(|seconds| seconds > 0.0));
    assert_eq!(reopened(&[&get[..], &["--fsync", "memory"]].concat()), None);
    assert_eq!(reopened(&[&get[..], &["--mix", "delete=1"]].concat()), None);
}

/// Stands between clients and a server. `up` sees what the clients send, and `down` may change the replies.
fn proxy(
    server: SocketAddr,
    up: impl Fn(&mut [u8]) + Clone + Send + 'static,
    down: impl Fn(&mut [u8]) + Clone + Send + 'static,
) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for client in listener.incoming() {
            let (client, server) = (client.unwrap(), TcpStream::connect(server).unwrap());
            let requests = (client.try_clone().unwrap(), server.try_clone().unwrap());
            let (up, down) = (up.clone(), down.clone());
            thread::spawn(move || forward(requests, up));
            thread::spawn(move || forward((server, client), down));
        }
    });
    address
}

/// Stands between clients and a server, and changes a byte of the first value that is read.
fn liar(server: SocketAddr) -> SocketAddr {
    let (reads, lied) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let sees = Arc::clone(&reads);
    proxy(
        server,
        move |bytes| sees.store(bytes.starts_with(b"*2\r\n$3\r\nGET\r\n"), SeqCst),
        move |bytes| {
            if reads.load(SeqCst) && !lied.swap(true, SeqCst) {
                let last = bytes.len() - 3;
                bytes[last] ^= 1;
            }
        },
    )
}

/// Stands between clients and a server, and refuses each SET after the first thousand.
fn refuser(server: SocketAddr) -> SocketAddr {
    let (sets, accepted) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let sees = Arc::clone(&sets);
    proxy(
        server,
        move |bytes| match bytes {
            [b'*', b'1', ..] => sees.store(false, SeqCst),
            [b'*', b'3', ..] => sees.store(true, SeqCst),
            _ => {}
        },
        move |bytes| {
            for reply in bytes.chunks_exact_mut(5).filter(|reply| *reply == b"+OK\r\n") {
                if sets.load(SeqCst) && accepted.fetch_add(1, SeqCst) >= 1000 {
                    reply.copy_from_slice(b"-NO\r\n");
                }
            }
        },
    )
}

/// Hands on what comes, after a look at it.
fn forward((mut from, mut to): (TcpStream, TcpStream), mut look: impl FnMut(&mut [u8])) {
    let mut bytes = [0; 1 << 16];
    while let Ok(length @ 1..) = from.read(&mut bytes) {
        look(&mut bytes[..length]);
        if to.write_all(&bytes[..length]).is_err() {
            return;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

/// The keys that it has written would be in the way of the next repetition, and hide the cause.
#[test]
fn a_failed_job_leaves_no_keys_on_the_target() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &["--path", ":memory:"]);
    let address = refuser(server.address).to_string();
    let flags = ["--target", &address, "--operations", "100", "--keys", "20000", "--repetitions", "3"];
    let output = bench(dir.path(), &flags);
    assert!(!output.status.success(), "the refusals were not seen");
    let run = read(dir.path());
    let failures: Vec<_> = run.samples.iter().map(|sample| sample.outcome.failure().unwrap()).collect();
    assert_eq!(failures, ["load: Insert: NO"; 3]);
    assert_eq!(server.connect().call(&["DBSIZE"]), OwnedFrame::Integer(0));
}

/// Stands between clients and a server, and replies to each FLUSHDB that it is refused.
fn keeper(server: SocketAddr) -> SocketAddr {
    let flushes = Arc::new(AtomicBool::new(false));
    let sees = Arc::clone(&flushes);
    proxy(
        server,
        move |bytes| sees.store(bytes.starts_with(b"*1\r\n$7\r\nFLUSHDB\r\n"), SeqCst),
        move |bytes| {
            if flushes.load(SeqCst) && bytes.starts_with(b"+OK\r\n") {
                bytes[..5].copy_from_slice(b"-NO\r\n");
            }
        },
    )
}

/// FLUSHDB comes after all measurements.
#[test]
fn a_target_that_cannot_be_emptied_keeps_its_result() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &["--path", ":memory:"]);
    let address = keeper(server.address).to_string();
    let run = result_of(dir.path(), &["--target", &address, "--operations", "100", "--keys", "100"]);
    let measured = measurement(&run.samples[0].outcome);
    assert_eq!(measured.operations, 100);
    assert!(measured.warnings.iter().any(|text| text.contains("FLUSHDB")), "{:?}", measured.warnings);
}

/// A server that errs while it warms up is not sound; what others do to this machine is nobody's.
#[test]
fn a_fault_of_the_warm_up_is_a_fault_over_the_wire_too() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &["--path", ":memory:"]);
    let address = liar(server.address).to_string();
    let flags = ["--target", &address, "--operations", "100", "--keys", "100", "--threads", "1"];
    let output = bench(dir.path(), &[&flags[..], &["--warm-up", "0.2"]].concat());
    assert!(!output.status.success(), "the lie was not seen");
    let run = read(dir.path());
    let measured = measurement(&run.samples[0].outcome);
    assert_eq!((measured.wrong_values, measured.operations), (1, 100), "{:?}", measured.first_fault);
    // The server's own work is that of another process, but not foreign.
    assert_eq!(run.samples[0].disturbance, None);
}

//! `--fsync`, `--threads`, `--compression`, `--cache-size`, `--map-size`, `--read-ahead`, `--prefix` and `--log-level`.

use crate::{
    program::{field, info, misuse, misuse_in, serve, serve_exactly, setting},
    support::{PATIENCE, Server, stores},
};
use kvbench::engine::{Compression, Kind};
use std::{fs, thread, time::Instant};

#[test]
fn every_fsync_word_is_taken_by_every_store() {
    for store in stores() {
        for (word, policy) in [
            ("always", "always"),
            ("true", "always"),
            ("everysec", "everysec"),
            ("no", "no"),
            ("false", "no"),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let server = serve(dir.path(), &["--store", store, "--fsync", word]);
            assert_eq!(field(&server.start_line, "fsync"), Some(policy));
            assert_eq!(setting(&mut server.connect(), "appendfsync"), policy);
        }
    }
}

#[test]
fn sizes_are_taken_with_units() {
    let dir = tempfile::tempdir().unwrap();
    let server = serve(dir.path(), &["--path", ":memory:", "--cache-size", "64MiB"]);
    assert_eq!(setting(&mut server.connect(), "cache-size"), (64 << 20).to_string());
    for store in stores().filter(|store| has_memory_map(store)) {
        let dir = tempfile::tempdir().unwrap();
        let server = serve(dir.path(), &["--store", store, "--map-size", "3gb"]);
        assert_eq!(setting(&mut server.connect(), "map-size"), 3_000_000_000_u64.to_string(), "{store}");
    }
}

fn has_memory_map(store: &str) -> bool {
    Kind::find(store).unwrap().info.capabilities.map_size
}

#[test]
#[cfg(target_os = "linux")]
fn so_many_workers_run_as_were_asked_for() {
    let cores = thread::available_parallelism().unwrap().get();
    for (args, expected) in [(&["--threads", "3"][..], 3), (&[], cores)] {
        let dir = tempfile::tempdir().unwrap();
        let server = serve(dir.path(), &[&["--path", ":memory:"], args].concat());
        assert_eq!(workers(&server), expected);
        assert_eq!(setting(&mut server.connect(), "threads"), expected.to_string());
    }
}

/// The threads named `worker-*`. A thread has its parent's name until it gives itself one.
#[cfg(target_os = "linux")]
fn workers(server: &Server) -> usize {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let tasks = fs::read_dir(format!("/proc/{}/task", server.process.id())).unwrap();
        let names: Vec<_> =
            tasks.map(|task| fs::read_to_string(task.unwrap().path().join("comm")).unwrap()).collect();
        if names.iter().filter(|name| name.trim() == "kvbench").count() == 1 {
            return names.iter().filter(|name| name.starts_with("worker-")).count();
        }
        assert!(Instant::now() < deadline, "threads without a name: {names:?}");
        thread::yield_now();
    }
}

#[test]
fn compression_is_refused_by_name_where_the_engine_has_none() {
    let able: Vec<_> = stores().filter(|store| compresses(store)).collect();
    for store in stores().filter(|store| !compresses(store)) {
        let dir = tempfile::tempdir().unwrap();
        let line = misuse_in(dir.path(), &["--store", store, "--compression", "lz4", "--port", "0"]);
        assert!(line.contains("--compression lz4") && line.contains(store), "{line}");
        assert!(able.iter().all(|other| line.contains(other)), "{line}");
    }
}

#[test]
fn direct_reads_are_refused_by_name_where_the_engine_has_none() {
    let able = |store: &str| Kind::find(store).unwrap().info.capabilities.direct_reads;
    for store in stores() {
        let dir = tempfile::tempdir().unwrap();
        let args = ["--store", store, "--path", "data", "--direct-reads", "yes", "--port", "0"];
        if able(store) {
            let server = serve(dir.path(), &args[..6]);
            let mut client = server.connect();
            client.send("SET k v\r\nGET k\r\nCONFIG GET direct-reads\r\n");
            client.expect("+OK\r\n$1\r\nv\r\n*2\r\n$12\r\ndirect-reads\r\n$3\r\nyes\r\n");
            assert!(server.terminate().success());
            let log = fs::read_to_string(dir.path().join("data/LOG")).unwrap();
            let setting = log.lines().find(|line| line.contains("Options.use_direct_reads:")).unwrap();
            assert!(setting.ends_with(": 1"), "{setting}");
        } else {
            let line = misuse_in(dir.path(), &args);
            assert!(line.contains("--direct-reads yes") && line.contains(store), "{line}");
            assert!(stores().filter(|store| able(store)).all(|other| line.contains(other)), "{line}");
        }
    }
}

/// The defaults are accepted, since a file of `--config` may name them.
#[test]
fn flags_about_a_memory_map_are_refused_by_name_where_the_store_has_none() {
    let able: Vec<_> = stores().filter(|store| has_memory_map(store)).collect();
    for store in stores().filter(|store| !has_memory_map(store)) {
        for flag in [["--map-size", "1048576"], ["--read-ahead", "on"], ["--read-ahead", "off"]] {
            let args = ["--store", store, "--port", "0", flag[0], flag[1]];
            let line = misuse(&args);
            assert!(
                line.contains(&format!("{} does not work with --store {store};", flag.join(" "))),
                "{line}"
            );
            assert!(able.iter().all(|other| line.contains(other)), "{line}");
        }
        let dir = tempfile::tempdir().unwrap();
        serve(dir.path(), &["--store", store, "--map-size", "256GiB", "--read-ahead", "auto"]);
    }
}

#[test]
fn prefix_is_refused_by_name_where_the_data_are_on_this_machine() {
    for store in stores() {
        for place in [&[][..], &["--path", "data"]] {
            let line = misuse(&[&["--store", store, "--prefix", "mine/", "--port", "0"], place].concat());
            assert!(line.contains("--prefix") && line.contains(&format!("--store {store};")), "{line}");
        }
    }
}

fn compresses(store: &str) -> bool {
    Kind::find(store).unwrap().info.compression.contains(&Compression::Lz4)
}

#[test]
fn debug_logs_what_error_does_not() {
    let logged = |level: &str| {
        let dir = tempfile::tempdir().unwrap();
        let args = ["--path", ":memory:", "--port", "0", "--threads", "1", "--log-level", level];
        let (server, log) = serve_exactly(dir.path(), &args);
        reset_a_connection(&server);
        assert!(server.terminate().success());
        fs::read_to_string(log).unwrap()
    };
    assert_eq!(logged("error"), "");
    let (info, debug) = (logged("info"), logged("debug"));
    assert!(info.contains("stopping") && !info.contains("client 1 "), "{info}");
    assert!(debug.contains("stopping") && debug.contains("client 1 "), "{debug}");
}

/// Leaves without having read the reply, which the server then cannot send.
fn reset_a_connection(server: &Server) {
    let mut client = server.connect();
    client.send("PING\r\nPING\r\n");
    let mut first = [0];
    std::io::Read::read_exact(&mut client.stream, &mut first).unwrap();
    drop(client);
    let mut other = server.connect();
    let deadline = Instant::now() + PATIENCE;
    while info(&mut other, "clients", "connected_clients") != "1" {
        assert!(Instant::now() < deadline, "the client that left is still counted");
        thread::yield_now();
    }
}

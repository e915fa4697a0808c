//! `--store` and `--path`: where data are, whose they are, and who has them open.

use crate::{
    program::{contents, failure, field, misuse, misuse_in, run, serve, serve_exactly, setting},
    support::{KVBENCH, RunToEnd, Server, stores},
};
use kvbench::{engine::Kind, testing::engine_case::names};
use redis_protocol::resp2::types::OwnedFrame;
use std::{
    ffi::OsStr,
    fs,
    net::TcpListener,
    os::unix::{ffi::OsStrExt, net::UnixListener},
    path::Path,
    process::Command,
};

fn start(dir: &Path, store: &str) -> Server {
    serve(dir, &["--store", store, "--path", "data"])
}

/// Leaves data of `store` in `dir/data`.
fn create(dir: &Path, store: &str) {
    let server = start(dir, store);
    assert_eq!(server.connect().call(&["SET", "key", store]), ok());
    assert!(server.terminate().success());
}

fn ok() -> OwnedFrame {
    OwnedFrame::SimpleString(b"OK".to_vec())
}

fn value(server: &Server) -> OwnedFrame {
    server.connect().call(&["GET", "key"])
}

fn refusal(dir: &Path, store: &str, path: &str) -> String {
    failure(dir, &["--store", store, "--path", path, "--port", "0"])
}

#[test]
fn each_store_keeps_its_data_at_the_path() {
    for store in stores() {
        let dir = tempfile::tempdir().unwrap();
        create(dir.path(), store);
        assert_eq!(names(dir.path()), ["data"], "{store} writes elsewhere");
        let server = start(dir.path(), store);
        assert_eq!(value(&server), OwnedFrame::BulkString(store.into()));
        assert_eq!(setting(&mut server.connect(), "store"), store);
        assert_eq!(setting(&mut server.connect(), "path"), "data");
    }
}

/// As `--output` and `--dir` of the benchmark do.
#[test]
fn the_directories_above_a_path_are_created() {
    for store in stores() {
        let dir = tempfile::tempdir().unwrap();
        let server = serve(dir.path(), &["--store", store, "--path", "some/place/data"]);
        assert_eq!(server.connect().call(&["SET", "key", store]), ok());
        assert_eq!(names(&dir.path().join("some/place")), ["data"], "{store}");
    }
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("file"), "").unwrap();
    let text = refusal(dir.path(), "map", "file/data");
    assert!(text.contains("file/data"), "{text}");
}

#[test]
fn without_a_path_the_data_are_beside_their_user_under_the_name_of_the_store() {
    for store in stores() {
        let dir = tempfile::tempdir().unwrap();
        let server = serve(dir.path(), &["--store", store]);
        let name = format!("{store}.db");
        assert_eq!(field(&server.start_line, "path"), Some(&*name));
        assert_eq!(server.connect().call(&["SET", "key", "value"]), ok());
        assert_eq!(names(dir.path()), [name]);
    }
}

#[test]
fn without_a_store_it_is_map() {
    let dir = tempfile::tempdir().unwrap();
    let (server, _) = serve_exactly(dir.path(), &["--port", "0"]);
    assert_eq!(field(&server.start_line, "store"), Some("map"));
    assert_eq!(field(&server.start_line, "path"), Some("map.db"));
    assert_eq!(field(&server.start_line, "fsync"), Some("always"));
}

#[test]
fn memory_leaves_nothing_behind_or_names_the_stores_that_can() {
    for store in stores() {
        let dir = tempfile::tempdir().unwrap();
        if Kind::find(store).unwrap().info.capabilities.in_memory {
            let server = serve(dir.path(), &["--store", store, "--path", ":memory:"]);
            assert_eq!(server.connect().call(&["SET", "key", "value"]), ok());
            assert_eq!(value(&server), OwnedFrame::BulkString(b"value".to_vec()));
            assert!(server.terminate().success());
            let server = serve(dir.path(), &["--store", store, "--path", ":memory:"]);
            assert_eq!(value(&server), OwnedFrame::Null, "{store}");
        } else {
            let line = misuse_in(dir.path(), &["--store", store, "--path", ":memory:", "--port", "0"]);
            assert!(line.contains("--path :memory:") && line.contains(store), "{line}");
            assert!(line.contains("map, btree"), "{line}");
        }
        assert_eq!(names(dir.path()), [""; 0], "{store}");
    }
}

#[test]
fn a_path_that_cannot_be_is_named_in_one_line() {
    for store in stores() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("file"), "x").unwrap();
        let line = refusal(dir.path(), store, "file/data");
        assert!(line.contains("file/data") && line.contains(store), "{store}: {line}");
        assert_eq!(names(dir.path()), ["file"], "{store} made something");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_path_nobody_may_write_to_is_named_in_one_line() {
    for store in stores() {
        let dir = tempfile::tempdir().unwrap();
        // Not even the superuser creates files there.
        let line = refusal(dir.path(), store, "/proc/kvbench-data");
        assert!(line.contains("/proc/kvbench-data") && line.contains(store), "{line}");
    }
}

#[test]
fn data_of_another_engine_are_refused_and_left_as_they_are() {
    for owner in stores() {
        let dir = tempfile::tempdir().unwrap();
        create(dir.path(), owner);
        let data = dir.path().join("data");
        for store in stores().filter(|store| *store != owner) {
            if (Kind::find(store).unwrap().recognise)(&data) {
                // map and btree write the same file, and read it.
                assert_eq!(value(&start(dir.path(), store)), OwnedFrame::BulkString(owner.into()));
                continue;
            }
            let before = contents(&data);
            let line = refusal(dir.path(), store, "data");
            let owners = stores().filter(|store| (Kind::find(store).unwrap().recognise)(&data));
            let named = owners.into_iter().any(|owner| line.contains(&format!("data of {owner}")));
            assert!(line.contains("data holds") && named, "{store} on {owner}: {line}");
            let hint = |owner: &str| line.contains(&format!("use --store {owner}, or another --path"));
            assert!(stores().any(hint), "{line}");
            assert!(contents(&data) == before, "{store} changed data of {owner}");
        }
        assert_eq!(value(&start(dir.path(), owner)), OwnedFrame::BulkString(owner.into()));
    }
}

#[test]
fn something_else_at_the_path_is_refused_and_left_as_it_is() {
    for store in stores() {
        let dir = tempfile::tempdir().unwrap();
        let letter = dir.path().join("letter");
        fs::write(&letter, "Dear Ada,\n".repeat(1000)).unwrap();
        let folder = dir.path().join("folder");
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("letter"), "Dear Ada,\n").unwrap();
        let before = contents(dir.path());
        for path in ["letter", "folder"] {
            let line = refusal(dir.path(), store, path);
            assert!(line.contains(path) && line.contains("--path"), "{store}: {line}");
        }
        assert!(contents(dir.path()) == before, "{store}");
    }
}

/// Opening one waits for another process that opens it.
#[test]
fn a_pipe_at_the_path_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    assert!(Command::new("mkfifo").arg(dir.path().join("pipe")).status().unwrap().success());
    let with_store = stores().map(|store| vec!["--store", store]);
    for flags in with_store.chain([Vec::new()]) {
        let line = misuse_in(dir.path(), &[&flags[..], &["--path", "pipe", "--port", "0"]].concat());
        assert!(line.contains("--path pipe holds something that is no regular file"), "{flags:?}: {line}");
    }
    for (command, code) in [("check", 2), ("repair", 1)] {
        let ended = run(dir.path(), &[command, "pipe"]);
        assert_eq!(ended.status.code(), Some(code), "{command}");
        let said = ended.stdout + &ended.stderr;
        assert!(said.contains("pipe") && said.contains("neither a regular file"), "{command}: {said}");
    }
    assert_eq!(names(dir.path()), ["pipe"]);
}

#[test]
fn data_that_another_process_has_open_are_refused_in_one_line() {
    for store in stores() {
        let dir = tempfile::tempdir().unwrap();
        let server = start(dir.path(), store);
        assert_eq!(server.connect().call(&["SET", "key", store]), ok());
        let line = refusal(dir.path(), store, "data");
        assert!(line.contains("data is in use by another process"), "{store}: {line}");
        assert!(line.contains("--path") && line.contains(store), "{line}");
        // The first goes on.
        assert_eq!(server.connect().call(&["SET", "more", store]), ok());
        server.kill();
        assert_eq!(value(&start(dir.path(), store)), OwnedFrame::BulkString(store.into()));
    }
}

#[test]
fn without_a_store_the_data_at_the_path_are_opened_by_their_own_engine() {
    for owner in stores() {
        let dir = tempfile::tempdir().unwrap();
        create(dir.path(), owner);
        let server = serve(dir.path(), &["--path", "data"]);
        let opened_by = field(&server.start_line, "store").unwrap();
        let kind = Kind::find(opened_by).unwrap();
        assert!((kind.recognise)(&dir.path().join("data")), "{owner}: {opened_by}");
        assert_eq!(value(&server), OwnedFrame::BulkString(owner.into()), "{owner}");
    }
    let dir = tempfile::tempdir().unwrap();
    let server = serve(dir.path(), &["--path", "new"]);
    assert_eq!(field(&server.start_line, "store"), Some("map"), "nothing is at the path");
}

/// The result has them as text.
#[test]
fn arguments_of_a_benchmark_need_not_be_utf8() {
    for command in [&["bench", "--mix", "get=1"][..], &["reproduce", "redb"]] {
        let dir = tempfile::tempdir().unwrap();
        let mut process = Command::new(KVBENCH);
        process.args(command).args(["--dry-run", "--keys", "1000", "--dir"]).arg(OsStr::from_bytes(b"d\xff"));
        let output = process.current_dir(dir.path()).run_to_end();
        assert!(output.status.success(), "{output:?}");
    }
}

#[test]
fn a_busy_address_is_found_before_files_are_created() {
    let dir = tempfile::tempdir().unwrap();
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = other.local_addr().unwrap();
    let (port, text) = (address.port().to_string(), address.to_string());
    let socket = tempfile::tempdir().unwrap();
    let socket = socket.path().join("socket");
    let _other = UnixListener::bind(&socket).unwrap();
    for flags in [
        &["--port", &port][..],
        &["--port", "0", "--metrics", &text],
        &["--port", "off", "--unixsocket", socket.to_str().unwrap()],
    ] {
        let line = failure(dir.path(), &[&["--path", "data"], flags].concat());
        assert!(line.contains("cannot listen on "), "{line}");
        assert_eq!(names(dir.path()), [""; 0], "{flags:?}");
    }

    // Whether or not something listens there.
    for metrics in [text, format!("0.0.0.0:{port}")] {
        let line = failure(dir.path(), &["--path", "data", "--port", &port, "--metrics", &metrics]);
        assert!(
            line.contains(&format!(
                "cannot listen on {metrics}: it is that of --port; choose another --metrics"
            )),
            "{line}"
        );
        assert_eq!(names(dir.path()), [""; 0]);
    }
}

#[test]
fn the_name_of_a_store_without_its_flag_is_explained() {
    for args in [&["-p", "6393", "btree"][..], &["btree"], &["serve", "btree"], &["torture", "btree"]] {
        let said = misuse(args);
        assert!(said.contains("write --store btree"), "{args:?}: {said}");
    }
    for args in [&["bench", "btree"][..], &["reproduce", "redb", "btree"], &["duel", "old", "new", "btree"]] {
        let said = misuse(args);
        assert!(said.contains("write --stores btree"), "{args:?}: {said}");
    }
    let said = misuse(&["check", "data", "btree"]);
    assert!(said.contains("unexpected argument 'btree'") && !said.contains("--store"), "{said}");
}

#[test]
fn stores_of_the_same_design_are_named_for_an_engine_that_is_not_there() {
    for (args, stand_ins) in [
        (&["--store", "leveldb"][..], "rocksdb, fjall"),
        (&["--store", "BoltDB"], "lmdb, redb, mdbx"),
        (&["bench", "--stores", "leveldb", "--dry-run"], "rocksdb, fjall"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let ended = run(dir.path(), args);
        assert!(!ended.status.success());
        let said = &ended.stderr;
        assert!(said.contains(stand_ins) && said.contains("docs/publications.md"), "{args:?}: {said}");
    }
    // A misspelt name is still corrected.
    let said = misuse(&["--store", "btre"]);
    assert!(said.contains("'btree'") && said.contains("bitcask"), "{said}");
}

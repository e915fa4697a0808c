//! What is refused before the first cell, and what is left after a run that was stopped.

use crate::support::bench::{bench, command, read, stderr};
use crate::support::{KVBENCH, PATIENCE, Program, RunToEnd, Server, disk::Disk};
use kvbench::{bench::result::Outcome, engine::Kind, testing::engine_case::names};
use redis_protocol::resp2::types::OwnedFrame;
use rustix::process::{Pid, Signal, kill_process};
use std::{
    fs,
    os::unix::fs::{FileTypeExt, symlink},
    process::Command,
    thread,
    time::{Duration, Instant},
};

/// One line, exit code 2, and no result that would be in the way of the corrected run.
#[test]
fn a_target_that_cannot_be_measured_is_refused_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let one_line = |address: &str, words: &[&str]| {
        let output = bench(dir.path(), &["--suite", "kvbench", "--target", address, "--keys", "100"]);
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(text.starts_with(&format!("kvbench: --target {address}: ")), "{text}");
        words.iter().for_each(|word| assert!(text.contains(word), "{word}: {text}"));
        assert_eq!(names(dir.path()), [""; 0]);
    };
    one_line("127.0.0.1:1", &["start the server"]);
    let closed = tempfile::tempdir().unwrap();
    let flags = ["--store", "map", "--path", ":memory:", "--requirepass", "secret"];
    let server = Server::start(closed.path(), &flags);
    one_line(&server.address.to_string(), &["NOAUTH", "a server with a password cannot be measured"]);
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path(), &["--store", "map", "--path", ":memory:"]);
    server.connect().call(&["SET", "mine", "1"]);
    one_line(&server.address.to_string(), &["holds 1 keys", "--flush-target"]);
}

#[test]
#[cfg(target_os = "linux")]
fn a_process_of_the_target_that_does_not_exist_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let flags = ["--target", "127.0.0.1:1", "--target-pid", "4194000", "--keys", "100"];
    let output = bench(dir.path(), &flags);
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.starts_with("kvbench: --target-pid 4194000: "), "{text}");
    assert_eq!(names(dir.path()), [""; 0]);
}

/// A store that fails twice in the same way is not tried again, and its error is printed once with the cells and
/// once at the end.
#[test]
#[cfg(feature = "lmdb")]
fn a_cell_that_fails_twice_in_the_same_way_is_not_tried_again() {
    let dir = tempfile::tempdir().unwrap();
    let flags =
        ["--stores", "lmdb", "--mix", "update=1", "--fsync", "no", "--keys", "50000", "--operations", "10"];
    let small = ["--map-size", "1MiB", "--no-space-check", "--repetitions", "5"];
    let output = bench(dir.path(), &[&flags[..], &small].concat());
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    let lines: Vec<_> = text.lines().filter(|line| line.contains("/lmdb/")).collect();
    assert_eq!(lines.len(), 2, "{text}");
    let run = read(dir.path());
    let own: Vec<_> = run.samples.iter().filter(|sample| sample.cell.contains("/lmdb/")).collect();
    assert_eq!(own.len(), 5, "the result says so for each repetition");
}

#[test]
fn more_data_than_free_space_are_refused_unless_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let flags = ["--stores", "map", "--mix", "update=1", "--keys", "1000000000", "--value-bytes", "1000000"];
    for dry in [&["--dry-run"][..], &[]] {
        let output = bench(dir.path(), &[&flags[..], dry].concat());
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains("--no-space-check") && text.contains("are free"), "{text}");
    }
    assert_eq!(names(dir.path()), [""; 0]);
    let output = bench(dir.path(), &[&flags[..], &["--dry-run", "--no-space-check"]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let mapped =
        ["--stores", "lmdb", "--mix", "update=1", "--keys", "1000000", "--map-size", "1MiB", "--dry-run"];
    let text = stderr(&bench(dir.path(), &mapped));
    assert!(text.contains("--map-size 1.00 MiB: lmdb may need"), "{text}");
}

/// SIGINT and SIGTERM leave the result and nothing else, and say how to continue.
#[test]
fn a_stopped_run_leaves_its_result_and_says_how_to_continue() {
    for (signal, name, code, wire) in
        [(Signal::INT, "SIGINT", 130, &[][..]), (Signal::TERM, "SIGTERM", 143, &["--wire"])]
    {
        let dir = tempfile::tempdir().unwrap();
        let flags =
            ["--stores", "map", "--mix", "update=1", "--fsync", "no", "--keys", "100", "--seconds", "0.2"];
        let mut long = command(dir.path(), &[&flags[..], &["--repetitions", "1000"], wire].concat());
        let stopped = Program::start(&mut long);
        let deadline = Instant::now() + PATIENCE;
        let measured = || {
            let text = fs::read(dir.path().join("result.json")).unwrap_or_default();
            serde_json::from_slice::<kvbench::bench::result::Run>(&text)
                .is_ok_and(|run| run.samples.len() > 1)
        };
        while !measured() {
            assert!(Instant::now() < deadline, "no measurement");
            thread::sleep(Duration::from_millis(20));
        }
        kill_process(Pid::from_child(&stopped.process), signal).unwrap();
        let output = stopped.output();
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{text}");
        assert_eq!(names(dir.path()), ["result.json"], "{text}");
        let run = read(dir.path());
        let saved =
            format!("stopped by {name}: {} of 2000 measurements are saved in result.json", run.samples.len());
        // In process the harness is measured too.
        let saved = if wire.is_empty() { saved } else { saved.replace("2000", "1000") };
        assert!(text.contains(&saved), "{saved}: {text}");
        let command = text.split("to continue: ").nth(1).unwrap().trim();
        assert!(
            command.starts_with("kvbench bench ") && command.ends_with("--output result.json --resume"),
            "{command}"
        );
        // The command is accepted: its plan is that of the result.
        let mut words = command.split(' ').skip(1);
        let dry =
            Command::new(KVBENCH).current_dir(dir.path()).args(words.by_ref()).arg("--dry-run").run_to_end();
        assert!(dry.status.success(), "{}", stderr(&dry));
    }
}

/// A stopped run removes its keys from the external server, which must be empty when the run continues. When all is
/// measured, the server is not needed.
#[test]
fn a_stopped_run_of_a_target_continues_by_the_printed_command() {
    let dir = tempfile::tempdir().unwrap();
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path(), &["--store", "map", "--path", ":memory:"]);
    let address = server.address.to_string();
    let flags = ["--target", &address, "--mix", "update=1", "--keys", "1000", "--seconds", "1"];
    let mut run = command(dir.path(), &[&flags[..], &["--repetitions", "3"]].concat());
    let stopped = Program::start(&mut run);
    let mut client = server.connect();
    let deadline = Instant::now() + PATIENCE;
    while client.call(&["DBSIZE"]) != OwnedFrame::Integer(1000) {
        assert!(Instant::now() < deadline, "no keys");
        thread::sleep(Duration::from_millis(20));
    }
    kill_process(Pid::from_child(&stopped.process), Signal::INT).unwrap();
    let text = stderr(&stopped.output());
    assert_eq!(client.call(&["DBSIZE"]), OwnedFrame::Integer(0), "{text}");
    let words = text.split("to continue: kvbench ").nth(1).unwrap().trim().split(' ');
    let mut again = Command::new(KVBENCH);
    again.current_dir(dir.path()).args(words);
    let output = again.run_to_end();
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(read(dir.path()).finished);
    drop(server);
    let output = again.run_to_end();
    assert!(output.status.success(), "{}", stderr(&output));
}

/// The files of the store are removed after the free space was read.
#[test]
fn a_full_disk_is_named_as_the_cause_of_a_failed_cell() {
    let Some(disk) = Disk::tmpfs("16m") else { return };
    let dir = tempfile::tempdir().unwrap();
    let stores = disk.path().join("stores");
    let flags = ["--stores", "map", "--mix", "update=1", "--keys", "1000000", "--operations", "10"];
    let place = ["--fsync", "no", "--no-space-check", "--dir", stores.to_str().unwrap()];
    for wire in [&[][..], &["--wire"]] {
        let output = bench(dir.path(), &[&flags[..], &place, wire, &["--force"]].concat());
        let text = stderr(&output);
        assert!(!output.status.success() && text.contains("the disk of --dir is full"), "{text}");
        assert_eq!(names(disk.path()), [""; 0], "{text}");
    }
}

/// The directory of a job whose run was killed is removed by the next run, and so are the files of a calibration.
#[test]
fn leftovers_of_a_killed_run_are_removed() {
    let dir = tempfile::tempdir().unwrap();
    let stores = dir.path().join("stores");
    fs::create_dir_all(stores.join("kvbench-job-4194000").join("store")).unwrap();
    for file in ["kvbench-job-4194000.record", "kvbench-job-4194000.truth"] {
        fs::write(stores.join(file), "").unwrap();
    }
    let others = ["job-4194000", "kvbench-job-mine"];
    others.iter().for_each(|other| fs::create_dir_all(stores.join(other)).unwrap());
    let flags = ["--stores", "map", "--keys", "10", "--operations", "10", "--dir", "stores"];
    let output = bench(dir.path(), &flags);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(names(&stores), others, "files of others stay");
}

#[test]
fn a_result_is_replaced_only_by_force() {
    let dir = tempfile::tempdir().unwrap();
    let flags = ["--operations", "10", "--keys", "10", "--stores"];
    assert!(bench(dir.path(), &[&flags[..], &["btree"]].concat()).status.success());
    let text = stderr(&bench(dir.path(), &[&flags[..], &["map"]].concat()));
    assert!(text.contains("--force"), "{text}");
    assert_eq!(read(dir.path()).cells[0].target.store, "btree");
    assert!(bench(dir.path(), &[&flags[..], &["map", "--force"]].concat()).status.success());
    assert_eq!(read(dir.path()).cells[0].target.store, "map");
}

/// It may be a database, or a device.
#[test]
fn what_is_no_result_is_not_replaced_by_force() {
    let dir = tempfile::tempdir().unwrap();
    let result = dir.path().join("result.json");
    let refused = |words: &[&str]| {
        for flag in [&[][..], &["--force"], &["--resume"]] {
            let flags = ["--stores", "map", "--operations", "10", "--keys", "10"];
            let output = bench(dir.path(), &[&flags[..], flag].concat());
            let text = stderr(&output);
            assert_eq!(output.status.code(), Some(2), "{flag:?}: {text}");
            assert!(text.starts_with("kvbench: --output result.json: "), "{flag:?}: {text}");
            words.iter().for_each(|word| assert!(text.contains(word), "{flag:?}: {word}: {text}"));
            assert!(!text.contains("--force"), "{flag:?}: {text}");
            assert_eq!(names(dir.path()), ["result.json"], "{flag:?}: {text}");
        }
    };
    for content in ["precious", "{\"schema\": 1"] {
        fs::write(&result, content).unwrap();
        refused(&["no result of this version of kvbench can be read from the file", "delete it"]);
        assert_eq!(fs::read_to_string(&result).unwrap(), content);
    }
    fs::remove_file(&result).unwrap();
    assert!(Command::new("mkfifo").arg(&result).run_to_end().status.success());
    refused(&["something other than a file"]);
    assert!(fs::metadata(&result).unwrap().file_type().is_fifo());
    fs::remove_file(&result).unwrap();
    fs::create_dir(&result).unwrap();
    refused(&["something other than a file"]);
}

#[test]
fn a_result_is_written_through_a_symbolic_link() {
    let dir = tempfile::tempdir().unwrap();
    let result = dir.path().join("result.json");
    fs::write(dir.path().join("real.json"), "").unwrap();
    symlink("real.json", &result).unwrap();
    let flags = ["--stores", "map", "--operations", "10", "--keys", "10", "--force"];
    let output = bench(dir.path(), &flags);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(fs::symlink_metadata(&result).unwrap().is_symlink());
    assert_eq!(read(dir.path()).cells[0].target.store, "map");
    assert_eq!(names(dir.path()), ["real.json", "result.json"]);
}

#[test]
fn a_directory_that_cannot_be_made_is_named_with_its_flag() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("data.db"), "").unwrap();
    let flags = ["--stores", "map", "--operations", "10", "--keys", "10", "--dir", "data.db"];
    let output = bench(dir.path(), &flags);
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("--dir data.db: cannot create the directory"), "{text}");
}

/// A part of a data file could be measured as a whole one.
#[test]
fn data_that_cannot_be_generated_leave_no_part() {
    let dir = tempfile::tempdir().unwrap();
    let script =
        r#"ulimit -f 1000; exec "$0" bench --suite xdag --stores map --keys 10000 --output result.json"#;
    let output = Command::new("sh").current_dir(dir.path()).args(["-c", script, KVBENCH]).run_to_end();
    let text = stderr(&output);
    assert!(
        !output.status.success() && text.contains("cannot generate kvbench-bench.tmp/xdag-blocks: "),
        "{text}"
    );
    assert_eq!(names(dir.path()), ["result.json"], "{text}");
}

#[test]
fn what_cannot_have_an_effect_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    for (flags, words) in [
        (&["--mix", "insert=1", "--rate", "100"][..], "--rate: --mix insert only fills or empties the store"),
        (&["--scan-length", "10"], "--scan-length: --mix get has no scan"),
        (&["--batch", "10"], "--batch: in process, --mix get has no operation that waits for a batch"),
        (&["--mix", "read-modify-write", "--batch", "10"], "or leave out --batch"),
        (&["--key-bytes", "4"], "--key-bytes 4: keys that are spread by a hash have at least 8 bytes"),
        (&["--cold", "--fsync", "memory"], "--cold: a store in memory"),
        (&["--suite", "storage", "--fsync", "memory"], "--fsync memory: --suite storage measures files"),
        (&["--mix", "get=1,get=2"], "get is there twice"),
    ] {
        let output = bench(dir.path(), &[&["--stores", "map", "--dry-run"], flags].concat());
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{flags:?}: {text}");
        assert!(text.contains(words), "{flags:?}: {text}");
    }
}

#[test]
fn too_few_keys_of_a_publication_are_refused_with_the_minimum() {
    let dir = tempfile::tempdir().unwrap();
    let reproduce = |keys: &str| {
        let flags = ["reproduce", "redb", "--stores", "map", "--dry-run", "--keys", keys];
        Command::new(KVBENCH).current_dir(dir.path()).args(flags).run_to_end()
    };
    let output = reproduce("10");
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains("reproduce redb takes at least 100 keys"), "{}", stderr(&output));
    let output = reproduce("100");
    assert!(output.status.success(), "{}", stderr(&output));
}

#[test]
fn a_store_on_other_machines_is_measured_by_its_server() {
    let dir = tempfile::tempdir().unwrap();
    for store in ["redis", "tikv"] {
        let is_absent = Kind::find(store).is_none();
        let feature = format!("build kvbench with --features {store}");
        let next = if is_absent { feature.as_str() } else { "kvbench bench --target HOST:PORT" };
        for access in [&[][..], &["--wire"]] {
            let output = bench(dir.path(), &[&["--stores", store], access].concat());
            let text = stderr(&output);
            assert_eq!(output.status.code(), Some(2), "{text}");
            assert!(text.contains(&format!("--stores {store}: ")) && text.contains(next), "{text}");
        }
        if is_absent {
            let flags = ["--store", store, "--path", ":memory:"];
            let text = stderr(&Command::new(KVBENCH).current_dir(dir.path()).args(flags).run_to_end());
            assert!(text.contains(&feature), "{text}");
        }
    }
}

/// The name is a part of the name of the result file.
#[test]
fn the_name_of_a_workload_is_no_path() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["", " ", "a/b", "../../x", "a\nb"] {
        let flags = ["bench", "--stores", "map", "--operations", "10", "--keys", "10", "--name", name];
        let output = Command::new(KVBENCH).current_dir(dir.path()).args(flags).run_to_end();
        assert_eq!(output.status.code(), Some(2), "{name:?}: {}", stderr(&output));
        assert!(stderr(&output).contains("--name"), "{name:?}: {}", stderr(&output));
        assert_eq!(names(dir.path()), [""; 0], "{name:?}");
    }
}

/// A workload's name is in titles and ids.
#[test]
fn the_name_of_a_workload_is_in_titles_and_ids() {
    let dir = tempfile::tempdir().unwrap();
    let flags = ["--name", "sessions", "--stores", "map", "--operations", "10", "--keys", "10"];
    assert!(bench(dir.path(), &flags).status.success());
    let cell = &read(dir.path()).cells[0];
    assert!(
        cell.id.starts_with("sessions/") && cell.table.starts_with("sessions: "),
        "{} {}",
        cell.id,
        cell.table
    );
}

/// The store has no fault, and a repeated run would not help.
#[test]
fn keys_that_a_store_cannot_hold_are_not_supported() {
    for store in crate::support::stores_that(|info| info.key_length.1 < 100_000) {
        let dir = tempfile::tempdir().unwrap();
        let most = crate::support::info(store).key_length.1;
        let outcomes = [most, most + 1].map(|length| {
            let flags = ["--mix", "get=1", "--fsync", "no", "--keys", "100", "--operations", "100"];
            let stores = format!("map,{store}");
            let more =
                ["--stores", &stores, "--repetitions", "1", "--force", "--key-bytes", &length.to_string()];
            let run = crate::support::bench::result_of(dir.path(), &[&flags[..], &more].concat());
            let cell = run.cells.iter().find(|cell| cell.target.store == store).unwrap();
            run.samples.into_iter().find(|sample| sample.cell == cell.id).unwrap().outcome
        });
        let [Outcome::Measured(_), Outcome::Unsupported(reason)] = outcomes else {
            panic!("{store}: {outcomes:?}")
        };
        assert_eq!(reason, format!("{store} has keys of at most {most} bytes"));
    }
}

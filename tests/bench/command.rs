//! The command line of `kvbench bench`.

use crate::support::{
    KVBENCH, RunToEnd,
    bench::{bench, measurement, result_of, stderr},
};
use kvbench::testing::engine_case::names;
use std::{fs, process::Command};

#[test]
fn wrong_flags_are_refused_by_name() {
    let cases: &[(&[&str], &str)] = &[
        (&["--stores", "mongodb"], "--stores mongodb"),
        (&["--suite", "xdag", "--data", "no-such-file"], "--data no-such-file"),
        (&["--suite", "redb", "--wire"], "--wire"),
        (&["--suite", "nonsense"], "--suite"),
        (&["--mix", "get=0.5,fetch=0.5"], "--mix"),
        (&["--mix", "scan=1", "--wire"], "--mix"),
        (&["--mix", "scan=1", "--stores", "map"], "--stores: map does not keep keys in order"),
        (&["--compression", "lz4", "--stores", "map"], "map: it does not compress with lz4"),
        (&["--mix", "get=1", "--keys", "0"], "--keys"),
        (&["--order", "zipfian:1.5"], "--order"),
        (&["--key-bytes", "4"], "--key-bytes"),
        (&["--value-bytes", "9-1"], "--value-bytes"),
        (&["--seconds", "0"], "--seconds"),
        (&["--value-entropy", "1.1"], "--value-entropy"),
        (&["--commits", "groups", "--wire"], "--commits"),
        (&["--commits", "groups", "--suite", "kvbench"], "--commits"),
        (&["--mix", "insert=1", "--seconds", "1"], "--seconds"),
        (&["--mix", "insert=1,delete=1", "--warm-up", "1"], "--warm-up"),
        (&["--mix", "delete=1", "--keys", "10", "--operations", "11"], "--operations 11"),
        (
            &["--mix", "insert=1", "--key-bytes", "2", "--ordered-keys", "--keys", "10"],
            "--operations 1000000",
        ),
        (&["--rate", "x"], "--rate"),
        (&["--minutes", "0"], "--minutes"),
        (&["--find-rate", "p98<5ms"], "'p99<5ms'"),
        (&["--find-rate", "p99<0"], "'p99<5ms'"),
        (&["--find-rate", "p99<5ms", "--rate", "10"], "--rate"),
        (&["--find-rate", "p99<5ms", "--mix", "insert=1"], "--find-rate: --mix insert"),
        (&["--minutes", "1", "--seconds", "1"], "--seconds"),
        (&["--minutes", "1", "--suite", "ycsb"], "--suite"),
        (&["--minutes", "1", "--wire"], "--wire"),
        (&["--minutes", "1", "--mix", "insert=1"], "--minutes: --mix insert"),
        (&["--suite", "ycsb", "--mix", "get=1"], "--mix"),
        (&["--target-name", "redis"], "--target"),
        (&["--target-name", "redis", "--fsync", "no"], "--target-name"),
        (&["--flush-target", "--stores", "map"], "--flush-target"),
        (&["--target", "127.0.0.1:1", "--foreign", "5"], "--foreign: with --target"),
        (&["--mix", "delete=1", "--order", "zipfian"], "--order: --mix delete"),
        (&["--threads", "9001"], "--threads"),
        (&["--target", "127.0.0.1:1", "--stores", "btree"], "--stores"),
        (&["--target", "127.0.0.1:1", "--fsync", "always"], "--fsync"),
        (&["--target", "127.0.0.1:1", "--cache-size", "1GiB"], "--cache-size"),
        (&["--target", "127.0.0.1:1", "--map-size", "1GiB"], "--map-size"),
        (&["--target", "127.0.0.1:1", "--compression", "lz4"], "--compression"),
        (
            &["--stores", "map,btree", "--map-size", "1GiB"],
            "--map-size 1073741824 does not work with --stores map,btree; it works with ",
        ),
        (
            &["--suite", "ycsb", "--stores", "map", "--map-size", "1GiB"],
            "--map-size 1073741824 does not work with --stores map; it works with ",
        ),
        (&["--resume"], "result.json"),
    ];
    let dir = tempfile::tempdir().unwrap();
    for (arguments, word) in cases {
        let output = bench(dir.path(), arguments);
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text.contains(word), "{arguments:?}: {text}");
    }
}

#[test]
fn the_directory_of_the_result_is_made() {
    let dir = tempfile::tempdir().unwrap();
    let flags = ["bench", "--stores", "map", "--operations", "10", "--keys", "10", "--repetitions", "1"];
    let run = |output: &str| {
        let command = &mut Command::new(KVBENCH);
        command.current_dir(dir.path()).args(flags).args(["--warm-up", "0", "--quiet-wait", "0"]);
        command.args(["--output", output]).run_to_end()
    };
    let made = run("runs/today/result.json");
    assert!(made.status.success(), "{}", stderr(&made));
    assert!(dir.path().join("runs/today/result.json").exists());
    fs::write(dir.path().join("file"), "").unwrap();
    let refused = stderr(&run("file/result.json"));
    assert!(refused.contains("--output file/result.json: cannot create the directory"), "{refused}");
}

#[test]
fn a_first_look_at_inserts_inserts_as_many_as_it_loads_else() {
    let dir = tempfile::tempdir().unwrap();
    let run = result_of(dir.path(), &["--quick", "--mix", "insert=1", "--stores", "map", "--fsync", "no"]);
    let of_map = run.samples.iter().filter(|sample| sample.cell.contains("/map/"));
    let operations = of_map.map(|sample| measurement(&sample.outcome).operations);
    assert_eq!(operations.collect::<Vec<_>>(), [20_000; 3]);
}

#[test]
fn nothing_is_left_but_the_result() {
    let dir = tempfile::tempdir().unwrap();
    result_of(dir.path(), &["--stores", "map,btree", "--operations", "1000", "--keys", "100"]);
    let left: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["result.json"]);
}

#[test]
fn the_xdag_suite_generates_its_data_or_reads_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let record = |block: u32| [&block.to_be_bytes()[..], &[0u8; 32 + 512 - 4]].concat();
    fs::write(dir.path().join("blocks"), (0..500).flat_map(record).collect::<Vec<u8>>()).unwrap();
    for data in [["--keys", "500"], ["--data", "blocks"]] {
        let flags = ["--suite", "xdag", "--stores", "map", "--seconds", "0.2", "--fsync", "no"];
        let dry = bench(dir.path(), &[&flags[..], &data, &["--dry-run"]].concat());
        assert!(dry.status.success(), "{}", stderr(&dry));
        assert_eq!(names(dir.path()), ["blocks"], "{data:?}");
        let mut run = result_of(dir.path(), &[&flags[..], &data].concat());
        let cells = run.cells.iter().filter(|cell| !cell.reference);
        let rows: Vec<_> = cells.map(|cell| cell.row.as_str()).collect();
        assert_eq!(rows, ["source scan", "set", "get", "getmixed", "setmixed", "del", "batch 1000"]);
        let operations = |row: &str| {
            let cell = run.cells.iter().find(|cell| cell.row == row).unwrap();
            let sample = run.samples.iter().find(|sample| sample.cell == cell.id).unwrap();
            measurement(&sample.outcome).operations
        };
        assert_eq!(operations("source scan"), 500);
        assert_eq!(operations("set"), 500);
        assert_eq!(operations("del"), 500);
        // As if it had been stopped before the last cell.
        run.finished = false;
        run.samples.pop();
        fs::write(dir.path().join("result.json"), serde_json::to_vec(&run).unwrap()).unwrap();
        let resumed = bench(dir.path(), &[&flags[..], &data, &["--resume"]].concat());
        assert!(resumed.status.success(), "{}", stderr(&resumed));
        assert_eq!(names(dir.path()), ["blocks", "result.json"], "{data:?}");
        fs::remove_file(dir.path().join("result.json")).unwrap();
    }
}

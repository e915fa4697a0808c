//! What the rows of suites hold.

use crate::support::bench::{bench, measurement, read, result_of, stderr};
use kvbench::bench::result::{Cell, CellKind, Outcome, Run, harness_share};

#[test]
fn redbs_rows_count_what_they_say() {
    let dir = tempfile::tempdir().unwrap();
    result_of(dir.path(), &["--suite", "redb", "--keys", "5000", "--stores", "btree"]);
    let run = read(dir.path());
    let operations = |row: &str| {
        let cell = run.cells.iter().find(|cell| cell.row == row && !cell.reference).unwrap();
        measurement(outcome(&run, cell)).operations
    };
    assert_eq!(operations("bulk load"), 5000);
    assert_eq!(operations("random reads"), 1000);
    // All that are there, each once.
    assert_eq!(operations("random reads (8 threads)"), 5160);
    assert_eq!(operations("random range reads"), 500);
    assert_eq!(operations("removals"), 2580);
    assert_eq!((operations("nosync writes"), operations("retain"), operations("pop")), (50, 1290, 500));
    let sizes: Vec<_> = run.cells.iter().filter(|cell| cell.workload.step == CellKind::DiskSize).collect();
    let size = |cell: &Cell| measurement(outcome(&run, cell)).disk_bytes.unwrap();
    assert_eq!(
        sizes.iter().map(|cell| cell.row.as_str()).collect::<Vec<_>>(),
        ["uncompacted size", "compacted size"]
    );
    assert!(size(sizes[0]) > 5000 * 174);
    // 1290 of the pairs are left by retain, as many are added, and there is little beside them.
    assert_eq!(operations("refill"), 1290);
    assert!((2580 * 174..3600 * 174).contains(&size(sizes[1])), "{}", size(sizes[1]));
    let loaded = run.cells.iter().find(|cell| cell.row == "bulk load").unwrap();
    assert!(size(loaded) > 5000 * 174, "charged with what it left: {}", size(loaded));
}

fn outcome<'r>(run: &'r Run, cell: &Cell) -> &'r Outcome {
    &run.samples.iter().find(|sample| sample.cell == cell.id).unwrap().outcome
}

/// Rows of the cells that have no number, and the reasons.
fn unsupported(run: &Run) -> Vec<(&str, &str)> {
    let cells = run.cells.iter().filter(|cell| !cell.reference);
    cells.filter_map(|cell| Some((cell.row.as_str(), run.unsupported(&cell.id)?))).collect()
}

#[test]
fn what_a_store_cannot_do_is_shown_with_the_reason() {
    let dir = tempfile::tempdir().unwrap();
    let suite = |arguments: &[&str]| {
        let _ = std::fs::remove_file(dir.path().join("result.json"));
        let seconds: &[&str] = if arguments.contains(&"redb") { &[] } else { &["--seconds", "0.05"] };
        let stores: &[&str] = if arguments.contains(&"--stores") { &[] } else { &["--stores", "map"] };
        let output = bench(dir.path(), &[arguments, &["--keys", "1000"], seconds, stores].concat());
        assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
        (read(dir.path()), String::from_utf8(output.stdout).unwrap())
    };
    let unordered = "map does not keep keys in order, so it cannot scan";
    let (run, text) = suite(&["--suite", "redb"]);
    assert_eq!(
        unsupported(&run),
        [
            ("random range reads", unordered),
            ("random range reads (2nd)", unordered),
            ("pop", "map does not keep keys in order, so there is no first key")
        ]
    );
    assert!(
        text.lines().any(|line| line.starts_with("random range reads ") && line.ends_with(" n/a")),
        "{text}"
    );
    assert!(text.contains(&format!("n/a: {unordered}\n")), "{text}");

    let (run, text) = suite(&["--suite", "redb", "--fsync", "memory"]);
    let fileless: Vec<_> =
        unsupported(&run).into_iter().filter(|(_, why)| why.contains("no files")).collect();
    let rows: Vec<_> = fileless.iter().map(|(row, _)| *row).collect();
    assert_eq!(rows, ["uncompacted size", "compaction", "compacted size"]);
    assert!(!text.contains("failed"), "{text}");

    let (run, text) = suite(&["--suite", "redb", "--stores", "nothing"]);
    assert!(run.cells.iter().all(|cell| cell.reference));
    assert!(
        text.starts_with("\nharness overhead: mean latency, ns\n") && text.contains("\nremovals "),
        "{text}"
    );

    let (run, _) = suite(&["--suite", "ycsb", "--fsync", "no"]);
    assert_eq!(unsupported(&run), [("e", unordered)]);
    let (run, _) = suite(&["--suite", "ycsb", "--fsync", "no", "--wire"]);
    assert_eq!(unsupported(&run), [("e", "no Redis command scans a range of keys")]);
}

#[test]
#[cfg(feature = "sled")]
fn an_engine_without_compaction_has_no_compacted_size() {
    let dir = tempfile::tempdir().unwrap();
    let run = result_of(dir.path(), &["--suite", "redb", "--keys", "1000", "--stores", "sled"]);
    let why = "sled has no way to compact its files";
    assert_eq!(unsupported(&run), [("compaction", why), ("compacted size", why)]);
}

#[test]
#[cfg(all(feature = "lmdb", feature = "sled"))]
fn stores_without_a_level_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let arguments = ["--stores", "map,lmdb,sled", "--fsync", "memory", "--operations", "10", "--keys", "10"];
    let output = bench(dir.path(), &arguments);
    let text = String::from_utf8(output.stdout).unwrap();
    for store in ["lmdb", "sled"] {
        let left_out = format!("left out: {store} in memory: it keeps its data in files\n");
        assert!(text.contains(&left_out), "{text}");
    }
    assert_eq!(read(dir.path()).left_out.len(), 2);
}

/// redb keeps unsynced commits to itself: without a sync, its file looks empty.
#[test]
#[cfg(feature = "redb")]
fn a_size_on_disk_is_that_of_all_that_was_written() {
    let dir = tempfile::tempdir().unwrap();
    let arguments = ["--stores", "redb", "--fsync", "no", "--mix", "insert", "--keys", "0"];
    let run = result_of(dir.path(), &[&arguments[..], &["--operations", "5000"]].concat());
    let measured = measurement(outcome(&run, &run.cells[0]));
    assert!(measured.disk_bytes.unwrap() > 5000 * 116, "{:?}", measured.disk_bytes);
}

#[test]
fn each_kind_of_work_has_a_floor_and_what_is_near_it_is_marked() {
    let dir = tempfile::tempdir().unwrap();
    let flags =
        ["--suite", "ycsb", "--stores", "btree", "--keys", "2000", "--seconds", "0.1", "--threads", "1"];
    let run = result_of(dir.path(), &[&flags[..], &["--fsync", "memory"]].concat());
    let floors: Vec<_> = run.cells.iter().filter(|cell| cell.reference).collect();
    let names: Vec<_> = floors.iter().map(|cell| cell.workload.name.as_str()).collect();
    assert_eq!(names, ["load", "ycsb-a", "ycsb-b", "ycsb-c", "ycsb-d", "ycsb-e", "ycsb-f"]);
    for cell in run.cells.iter().filter(|cell| !cell.reference) {
        let floor = harness_share::of(&run, cell).unwrap();
        let measured = run.measurements(&cell.id).next().unwrap();
        assert_eq!(measured.near_floor, Some(measured.throughput * 2.0 > floor), "{}", cell.id);
    }
}

#[test]
fn what_is_near_its_floor_is_marked_in_the_table() {
    let dir = tempfile::tempdir().unwrap();
    let flags =
        ["--stores", "map", "--keys", "100", "--seconds", "0.1", "--threads", "1", "--fsync", "memory"];
    let mut run = result_of(dir.path(), &flags);
    for (near, mark) in [(true, true), (false, false)] {
        let Outcome::Measured(measured) = &mut run.samples[0].outcome else { panic!("not measured") };
        measured.near_floor = Some(near);
        let text = kvbench::bench::report::terminal::text(&run);
        assert_eq!(text.contains("\n~: More than half of this time may be"), mark, "{text}");
    }
}

/// What waits for its time sleeps: 500 operations a second need a few milliseconds of the processor.
#[test]
fn waiting_is_not_charged_as_processor_time() {
    let dir = tempfile::tempdir().unwrap();
    let flags = ["--stores", "nothing", "--keys", "10", "--seconds", "1", "--threads", "1", "--rate", "500"];
    let run = result_of(dir.path(), &flags);
    let measured = measurement(&run.samples[0].outcome);
    assert!(measured.lateness.as_ref().is_some_and(|lateness| lateness.count > 0));
    let cpu = measured.cpu_us_per_operation.unwrap();
    assert!(cpu < 60.0, "{cpu} us an operation");
}

/// Ten operations in half a second are twenty a second, also when the last of them ends early.
#[test]
fn a_rate_counts_over_the_whole_time_that_was_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let flags = ["--stores", "map", "--keys", "10", "--seconds", "0.5", "--threads", "2", "--rate", "20"];
    for access in [&[][..], &["--wire"]] {
        let run = result_of(dir.path(), &[&flags[..], access].concat());
        std::fs::remove_file(dir.path().join("result.json")).unwrap();
        let measured = measurement(&run.samples[0].outcome);
        assert!(measured.seconds >= 0.5 && measured.throughput <= 20.0, "{access:?}: {measured:?}");
        assert_eq!(measured.operations + measured.unstarted_operations, 10, "{access:?}");
    }
}

#[test]
fn rates_are_for_steady_cells_of_suites_too() {
    let dir = tempfile::tempdir().unwrap();
    let flags = ["--suite", "smallnest", "--stores", "map", "--fsync", "memory", "--keys", "500"];
    let run = result_of(dir.path(), &[&flags[..], &["--seconds", "0.1", "--rates", "1000,2000"]].concat());
    let cells: Vec<_> = run.cells.iter().filter(|cell| !cell.reference).collect();
    let rows: Vec<_> = cells.iter().map(|cell| cell.row.as_str()).collect();
    let paced = ["get at 1000/s", "get at 2000/s", "getmixed at 1000/s", "setmixed at 1000/s"];
    let paced = [&paced[..], &["getmixed at 2000/s", "setmixed at 2000/s"]].concat();
    assert_eq!(rows, [&["set"][..], &paced, &["del", "batch 1000"]].concat());
    for cell in cells {
        let rate = cell.row.split_once(" at ").filter(|_| !cell.together);
        assert_eq!(cell.workload.rate.is_some(), rate.is_some(), "{}", cell.id);
    }
}

//! Suite `storage`: sizes after equal numbers of writes, traffic of a device of the cell's own, and recovery after a
//! kill.

use crate::support::bench::{bench, measurement, read, result_of, stderr};
use kvbench::{
    bench::result::{CellKind, Measurement, Outcome, Run},
    testing::skip_test::skip,
};
use std::path::Path;

/// 3,000 keys of 1 KiB.
const KEYS: &[&str] = &["--suite", "storage", "--keys", "3000", "--fsync", "no"];

fn run(dir: &Path, stores: &str) -> Run {
    result_of(dir, &[KEYS, &["--stores", stores]].concat())
}

/// Returns the measurements of the cells whose id contains `part`, or a reason that all of them have.
fn measured<'r>(run: &'r Run, part: &str) -> Result<Vec<(&'r str, &'r Measurement)>, String> {
    let samples = run.samples.iter().filter(|sample| sample.cell.contains(part));
    let found: Result<Vec<_>, String> = samples
        .map(|sample| match &sample.outcome {
            Outcome::Unsupported(reason) => Err(reason.clone()),
            outcome => Ok((sample.cell.as_str(), measurement(outcome))),
        })
        .collect();
    assert!(!found.as_ref().is_ok_and(Vec::is_empty), "no cell {part}");
    found
}

#[test]
fn recovery_is_timed_after_a_kill_at_two_sizes_for_every_store() {
    for (fsync, stores) in
        [("no", crate::support::stores().collect::<Vec<_>>().join(",")), ("always", "map".into())]
    {
        let dir = tempfile::tempdir().unwrap();
        let flags = ["--suite", "storage", "--keys", "400", "--fsync", fsync, "--stores", &stores];
        let run = result_of(dir.path(), &flags);
        let cells = run.cells.iter().filter(|cell| cell.workload.step == CellKind::Recovery);
        let keys: std::collections::BTreeSet<_> = cells.map(|cell| cell.workload.keys).collect();
        assert_eq!(keys.into_iter().collect::<Vec<_>>(), [100, 400]);
        for (cell, measured) in measured(&run, "recovery").unwrap() {
            assert!(measured.is_sound(), "{cell}: {:?}", measured.first_fault);
            let seconds = measured.recovery_seconds.unwrap();
            assert!(seconds > 0.0 && seconds == measured.seconds, "{cell}");
            assert!(
                measured.verified_values >= measured.keys_after,
                "{cell}: {:?}",
                measured.verified_values
            );
            // A clean reopening is another metric.
            assert_eq!(measured.reopen_seconds, None, "{cell}");
        }
    }
}

#[test]
fn footprint_and_traffic_follow_equal_numbers_of_writes_and_have_no_times() {
    let dir = tempfile::tempdir().unwrap();
    let run = run(dir.path(), "map,bitcask");
    let overwrites = match measured(&run, "overwrite") {
        Ok(overwrites) => overwrites,
        Err(reason) => {
            return skip("footprint_and_traffic_follow_equal_numbers_of_writes_and_have_no_times", &reason);
        }
    };
    for (cell, measured) in overwrites {
        assert_eq!((measured.operations, measured.user_bytes), (3000, 3000 * 1024), "{cell}");
        assert!(measured.disk_bytes.unwrap() >= 3000 * 1024, "{cell}");
        // Each store appends every value once at least, and the device takes no less than the file.
        let (engine, device) =
            (measured.write_amplification.unwrap(), measured.device_write_amplification.unwrap());
        assert!(engine >= 1.0 && device >= 1.0, "{cell}: {engine} {device}");
        assert!(measured.throughput == 0.0 && measured.latency.count == 0, "{cell}");
        assert!(measured.load_seconds.is_none() && measured.reopen_seconds.is_none(), "{cell}");
        assert!(measured.by_operation.is_empty() && measured.timeline.is_empty(), "{cell}");
    }
    for (cell, measured) in measured(&run, "/get,-cold").unwrap() {
        if cell.contains("bitcask") {
            // One value lies in one page or in two neighbours.
            let (bytes, requests) = (measured.device_read_bytes_per_get, measured.device_reads_per_get);
            assert!(bytes.unwrap() > 100.0 && requests.unwrap() > 0.0, "{cell}: {bytes:?} {requests:?}");
        }
    }
}

/// Read-ahead brings the neighbours of a page, and without it LMDB reads little more than the page of a value.
#[test]
#[cfg(feature = "lmdb")]
fn cold_reads_of_maps_are_measured_with_and_without_read_ahead() {
    use kvbench::engine::ReadAhead;
    let dir = tempfile::tempdir().unwrap();
    let run = result_of(
        dir.path(),
        &["--suite", "storage", "--keys", "20000", "--fsync", "no", "--stores", "lmdb"],
    );
    let figures =
        run.cells.iter().filter(|cell| cell.figure == kvbench::bench::result::Figure::DeviceReadBytes);
    let settings: Vec<_> = figures
        .map(|cell| {
            let device = cell.own_device.unwrap().read_ahead_kib;
            (cell.column.as_str(), cell.target.read_ahead.unwrap(), device)
        })
        .collect();
    let (off, on) = (("lmdb", ReadAhead::Off), ("lmdb/read-ahead", ReadAhead::On));
    let both = [off, on].map(|(column, setting)| [None, Some(128)].map(|device| (column, setting, device)));
    assert_eq!(settings, both.concat());
    if let Err(reason) = measured(&run, "get,-cold") {
        return skip("cold_reads_of_maps_are_measured_with_and_without_read_ahead", &reason);
    }
    let of = |part: &str| measured(&run, part).unwrap()[0].1.device_read_bytes_per_get.unwrap();
    let get = "get,-cold,-device-read-ahead-128-KiB";
    let (off, on) = (cell_of(&run, "lmdb", get), cell_of(&run, "lmdb/read-ahead", get));
    let (off, on) = (of(&off), of(&on));
    // A leaf and the page or two of the value; later reads find some of them in memory.
    assert!((1000.0..40_000.0).contains(&off), "{off}");
    assert!(on > 1.2 * off, "{on} with read-ahead, {off} without");
}

/// Returns the id of the cell in `column` whose id ends with `end`.
#[cfg(feature = "lmdb")]
fn cell_of(run: &Run, column: &str, end: &str) -> String {
    run.cells.iter().find(|cell| cell.column == column && cell.id.ends_with(end)).unwrap().id.clone()
}

#[test]
fn storage_is_measured_in_process_only() {
    let dir = tempfile::tempdir().unwrap();
    let output = bench(dir.path(), &["--suite", "storage", "--wire"]);
    assert!(stderr(&output).contains("in process only"), "{}", stderr(&output));
}

/// In a given time, a fast store overwrites more than a slow one.
#[test]
fn writes_until_a_time_is_up_leave_no_size_to_compare() {
    let of = |more: &[&str]| {
        let dir = tempfile::tempdir().unwrap();
        let flags = ["--stores", "map", "--keys", "1000", "--mix", "update", "--threads", "1"];
        bench(dir.path(), &[&flags, more].concat());
        measurement(&read(dir.path()).samples[0].outcome).clone()
    };
    for access in [&[][..], &["--wire"]] {
        let timed = of(&[&["--seconds", "0.1"], access].concat());
        assert_eq!((timed.disk_bytes, timed.space_amplification), (None, None));
        assert_eq!((timed.live_size, timed.settled_size, timed.closed_size), (None, None, None));
        for metric in ["disk_bytes", "live_bytes", "closed_bytes"] {
            assert!(timed.unmeasured[metric].contains("--suite storage"), "{:?}", timed.unmeasured);
        }
        let counted = of(&[&["--operations", "500"], access].concat());
        assert!(counted.disk_bytes.is_some() && counted.space_amplification.is_some());
        assert!(counted.live_size.is_some() && counted.closed_size.is_some());
        let warmed_up = of(&[&["--operations", "500", "--warm-up", "0.05"], access].concat());
        assert_eq!((warmed_up.disk_bytes, warmed_up.closed_size), (None, None));
        assert!(warmed_up.unmeasured["disk_bytes"].contains("--warm-up 0"), "{:?}", warmed_up.unmeasured);
    }
}

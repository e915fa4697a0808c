//! Sizes, bytes written, memory: what a cell is charged with, and what it is not.

use crate::support::bench::{measurement, result_of};
use kvbench::bench::result::{Measurement, Operation};

/// Measures one store with one workload.
fn measure(store: &str, arguments: &[&str]) -> Measurement {
    let dir = tempfile::tempdir().unwrap();
    let run = result_of(dir.path(), &[&["--stores", store, "--threads", "1"], arguments].concat());
    let cell = run.cells.iter().find(|cell| !cell.reference).unwrap();
    let sample = run.samples.iter().find(|sample| sample.cell == cell.id).unwrap();
    measurement(&sample.outcome).clone()
}

/// 2.3 MB of updates over 1.2 MB of pairs.
const UPDATES: &[&str] = &["--mix", "update", "--keys", "10000", "--operations", "20000"];

fn updates(store: &str, more: &[&str]) -> Measurement {
    measure(store, &[UPDATES, more].concat())
}

/// RocksDB reserves 74 MiB for a log and a manifest behind their ends, as long as they are open.
#[test]
#[cfg(feature = "rocksdb")]
fn what_is_reserved_is_not_taken_for_a_size() {
    let sizes = [&[][..], &["--wire"]].map(|access| {
        let measured = updates("rocksdb", access);
        let (live, settled) = (measured.live_size.unwrap(), measured.settled_size.unwrap());
        let closed = measured.closed_size.unwrap();
        assert_eq!(measured.disk_bytes, Some(settled.used_bytes));
        for size in [live, settled, closed] {
            assert!((1_160_000..10_000_000).contains(&size.used_bytes), "{access:?} {size:?}");
            assert!(size.used_bytes <= size.block_bytes, "{access:?} {size:?}");
        }
        assert!(closed.block_bytes < 10_000_000, "{access:?} {closed:?}");
        closed.used_bytes as f64
    });
    let [in_process, over_wire] = sizes;
    assert!((0.8..1.25).contains(&(in_process / over_wire)), "{sizes:?}");
}

/// A memtable or redb's own unsynced pages cost nothing as long as nobody looked after the end. Over the wire, write calls
/// also go to sockets, so nothing is claimed.
#[test]
fn what_is_written_later_is_charged_too() {
    for store in crate::support::stores() {
        let measured = updates(store, &["--fsync", "no"]);
        let times =
            measured.write_amplification.unwrap_or_else(|| panic!("{store}: {:?}", measured.unmeasured));
        assert!(times > 0.7, "{store}: {times}");
        assert!(measured.written_bytes.unwrap() > 0 && measured.settle_seconds.is_some());
        let served = updates(store, &["--fsync", "no", "--wire", "--batch", "16"]);
        assert_eq!((served.written_bytes, served.write_amplification), (None, None), "{store}");
        assert!(served.unmeasured["written_bytes"].contains("sockets"), "{store}: {:?}", served.unmeasured);
        // The machine's device takes the bytes of all programs.
        assert_eq!((measured.device_bytes, served.device_bytes), (None, None), "{store}");
    }
}

/// Another program's writes once raised the bytes of a store from 6.9 to 23.5 times those of its user.
#[test]
fn writes_of_other_programs_are_not_those_of_a_store() {
    let quiet = updates("bitcask", &["--fsync", "no"]).written_bytes.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let stop = std::sync::atomic::AtomicBool::new(false);
    let disturbed = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                let path = dir.path().join("other");
                std::fs::write(&path, vec![1; 8 << 20]).unwrap();
                std::fs::File::open(&path).unwrap().sync_all().unwrap();
            }
        });
        let measured = updates("bitcask", &["--fsync", "no"]);
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        measured.written_bytes.unwrap()
    });
    assert!(disturbed.abs_diff(quiet) * 20 < quiet, "{quiet} alone, {disturbed} beside another program");
}

/// A memtable with 30 MB of load is flushed, but not in the time of those who come after.
#[test]
#[cfg(feature = "rocksdb")]
fn debts_of_the_load_are_not_inherited() {
    let load = ["--mix", "update", "--keys", "30000", "--value-bytes", "1000", "--operations", "2000"];
    let measured = measure("rocksdb", &[&load[..], &["--fsync", "no"]].concat());
    assert_eq!(measured.user_bytes, 2000 * 1016);
    assert!(measured.written_bytes.unwrap() < 12_000_000, "{:?}", measured.written_bytes);
}

#[test]
fn too_few_bytes_have_no_amplification_and_memory_has_no_files() {
    let few = measure("btree", &["--mix", "update", "--keys", "1000", "--operations", "1000"]);
    assert_eq!((few.user_bytes, few.write_amplification), (116_000, None));
    assert!(few.written_bytes.unwrap() >= 116_000);
    for access in [&[][..], &["--wire"]] {
        let memory = updates("btree", &[&["--fsync", "memory"], access].concat());
        assert_eq!((memory.written_bytes, memory.write_amplification), (None, None));
        assert_eq!((memory.live_size, memory.settled_size, memory.closed_size), (None, None, None));
        assert!(memory.anonymous_bytes.unwrap() > 0);
    }
}

#[test]
fn a_delete_counts_the_bytes_that_it_frees() {
    for access in [&[][..], &["--wire"]] {
        let arguments = ["--mix", "delete", "--keys", "1000", "--operations", "1000"];
        let measured = measure("map", &[&arguments[..], access].concat());
        assert_eq!(measured.by_operation[&Operation::Delete].count, 1000);
        assert_eq!(measured.user_bytes, 116_000, "{access:?}");
    }
}

/// 40 MB in 40,000 pairs.
const READS: &[&str] =
    &["--keys", "40000", "--value-bytes", "1000", "--order", "sequential", "--operations", "40000"];

#[test]
fn memory_is_that_of_the_engine() {
    let measured = measure("map", READS);
    for bytes in [measured.anonymous_bytes, measured.peak_memory_bytes] {
        assert!((40_000_000..80_000_000).contains(&bytes.unwrap()), "{bytes:?}");
    }
    assert_eq!(measured.mapped_bytes, Some(0));
    // What remains of the harness is small.
    let nothing = measure("nothing", READS);
    assert!(nothing.peak_memory_bytes.unwrap() < 8 << 20, "{:?}", nothing.peak_memory_bytes);
}

#[test]
#[cfg(feature = "lmdb")]
fn mapped_files_are_told_apart() {
    for access in [&[][..], &["--wire"]] {
        let measured = measure("lmdb", &[READS, access].concat());
        let mapped = measured.mapped_bytes.unwrap();
        assert!((40_000_000..120_000_000).contains(&mapped), "{access:?} {mapped}");
        assert!(measured.anonymous_bytes.unwrap() < 40_000_000, "{access:?} {:?}", measured.anonymous_bytes);
        assert!(measured.peak_memory_bytes.unwrap() > mapped, "{access:?}");
    }
}

/// Recovery of nothing is nothing to rank by.
#[test]
fn to_open_an_emptied_store_tells_no_recovery() {
    let removed = |count: &str| measure("map", &["--mix", "delete", "--keys", "100", "--operations", count]);
    assert_eq!(removed("100").reopen_seconds, None);
    assert!(removed("50").reopen_seconds.is_some());
}

/// The versions of two million values take 16 MB, which the driver needs and no store.
#[test]
fn the_ledger_of_versions_is_not_the_memory_of_a_store() {
    let keys = ["--keys", "2m", "--value-bytes", "8", "--mix", "update", "--operations", "20000"];
    let measured = measure("nothing", &[&keys[..], &["--fsync", "memory"]].concat());
    let peak = measured.peak_memory_bytes.unwrap();
    assert!(peak < 8 << 20, "{peak} bytes");
}

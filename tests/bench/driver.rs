//! The driver, over an engine that the test controls.

use kvbench::{
    bench::{
        data::{Data, key_ledger::KeyLedger},
        result::{Measurement, Operation, Size, Workload},
        run::{
            in_process::driver::InProcessBench,
            interleave::{slice::Slice, turns::Hooks},
            process_usage::ProcessUsage,
        },
    },
    engine::{
        Batch, Engine, Error, Fsync, Info, KeyRange, Kind, Location, OpenOptions, Result, Snapshot,
        VisitPair, VisitValue,
    },
};
use std::{
    collections::BTreeMap,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

pub fn workload(mix: &[(Operation, f64)]) -> Workload {
    let mix = mix.iter().copied().collect::<BTreeMap<_, _>>();
    Workload { threads: 2, scan_length: 5, seed: 3, ..Workload::of(mix, 20_000) }
}

pub fn memory(store: &str) -> Box<dyn Engine> {
    let options = OpenOptions::new(Location::Memory, Fsync::No);
    Kind::find(store).unwrap().open(&options).unwrap()
}

/// Loads, then runs workloads at the same time.
fn run(engine: &dyn Engine, workloads: &[&Workload]) -> (Vec<Measurement>, u64) {
    let data = Data::new(workloads[0]).unwrap();
    let live = KeyLedger::new(data.capacity());
    let bench = InProcessBench::new(engine, &data, &live);
    let load = workloads[0].load();
    bench.run(&[&load], ProcessUsage::default);
    let phases = bench.run(workloads, ProcessUsage::default);
    (phases.into_iter().map(|phase| phase.recorder.measurement(phase.start)).collect(), live.count())
}

#[test]
fn a_mix_does_its_parts_of_the_operations_asked_for() {
    use Operation::{Get, GetMiss, Insert, ReadModifyWrite, Scan, Update};
    let parts =
        [(Get, 0.3), (GetMiss, 0.1), (Update, 0.2), (Insert, 0.2), (ReadModifyWrite, 0.1), (Scan, 0.1)];
    let engine = memory("btree");
    let (measured, keys) = run(&*engine, &[&workload(&parts)]);
    assert!(measured[0].is_sound(), "{:?}", measured[0].first_fault);
    assert_eq!(measured[0].operations, 20_000);
    for (operation, part) in parts {
        let share = measured[0].by_operation[&operation].count as f64 / 20_000.0;
        assert!((share - part).abs() < 0.02, "{operation:?}: {share}");
    }
    assert_eq!(measured[0].timeline.iter().sum::<u64>(), 20_000);
    let inserted = measured[0].by_operation[&Insert].count;
    assert_eq!(keys, 1000 + inserted);
    assert_eq!(engine.count().unwrap(), keys);
}

#[test]
fn deletes_take_every_key_once_and_fail_when_there_are_no_more() {
    let mut workload = Workload { operations: Some(1000), ..workload(&[(Operation::Delete, 1.0)]) };
    for batch in [1, 7] {
        workload.batch = batch;
        let engine = memory("map");
        let (measured, keys) = run(&*engine, &[&workload]);
        assert!(measured[0].is_sound(), "{:?}", measured[0].first_fault);
        assert_eq!((measured[0].operations, keys, engine.count().unwrap()), (1000, 0, 0));
    }
    workload.operations = Some(1001);
    let (measured, _) = run(&*memory("map"), &[&workload]);
    let fault = measured[0].first_fault.as_deref().unwrap_or_default();
    assert!(
        !measured[0].is_sound() && fault.contains("ran out of keys: no key is left to delete"),
        "{fault}"
    );
}

#[test]
fn reads_beside_deletes_miss_nothing_that_is_there() {
    let workload = workload(&[(Operation::Get, 0.98), (Operation::Delete, 0.02)]);
    let (measured, _) = run(&*memory("map"), &[&workload]);
    assert!(measured[0].is_sound(), "{:?}", measured[0].first_fault);
}

#[test]
fn no_insert_meets_a_key_that_is_there() {
    // Of two bytes there are 65536 keys, half of them for reads that find nothing.
    let workload = Workload {
        key_bytes: Size::Fixed(2),
        hashed_keys: false,
        operations: Some(32_768 - 1000),
        batch: 64,
        ..workload(&[(Operation::Insert, 1.0)])
    };
    let engine = memory("map");
    let (measured, keys) = run(&*engine, &[&workload]);
    assert!(measured[0].is_sound(), "{:?}", measured[0].first_fault);
    assert_eq!((measured[0].operations, keys, engine.count().unwrap()), (31_768, 32_768, 32_768));
    let more = Workload { operations: Some(32_768), ..workload };
    let (measured, _) = run(&*memory("map"), &[&more]);
    let fault = measured[0].first_fault.as_deref().unwrap_or_default();
    assert!(
        !measured[0].is_sound() && fault.contains("ran out of keys: no key is left to insert"),
        "{fault}"
    );
}

#[test]
fn a_warm_up_takes_and_adds_no_keys() {
    let mix = [(Operation::Get, 0.5), (Operation::Delete, 0.25), (Operation::Insert, 0.25)];
    let workload = Workload { warmup_seconds: 0.2, operations: Some(2000), ..workload(&mix) };
    let engine = memory("map");
    let (measured, keys) = run(&*engine, &[&workload]);
    assert!(measured[0].is_sound(), "{:?}", measured[0].first_fault);
    let count = |kind| measured[0].by_operation[&kind].count;
    assert_eq!(keys, 1000 + count(Operation::Insert) - count(Operation::Delete));
    assert_eq!(engine.count().unwrap(), keys);
    let deletes = Workload {
        operations: Some(1000),
        ..Workload { mix: [(Operation::Delete, 1.0)].into(), ..workload }
    };
    let (measured, _) = run(&*memory("map"), &[&deletes]);
    assert!(measured[0].is_sound() && measured[0].operations == 1000, "{:?}", measured[0].first_fault);
}

#[test]
fn a_workload_beside_another_ends_with_it() {
    let first = workload(&[(Operation::Get, 1.0)]);
    let second = Workload { threads: 1, ..workload(&[(Operation::Update, 1.0)]) };
    let (measured, _) = run(&*memory("map"), &[&first, &second]);
    assert_eq!(measured[0].operations, 20_000);
    assert!(measured.iter().all(|measured| measured.errors + measured.misses + measured.wrong_values == 0));
}

#[test]
fn the_file_of_counts_and_bytes_adds_up() {
    let workload = Workload { batch: 10, ..workload(&[(Operation::Update, 1.0)]) };
    let (measured, _) = run(&*memory("map"), &[&workload]);
    assert_eq!(measured[0].user_bytes, 20_000 * 116);
    assert_eq!(measured[0].latency.count, 20_000);
}

/// An engine in which something happens at some reads, by their number, and at every sync.
struct Disturbed {
    inner: Box<dyn Engine>,
    reads: AtomicU64,
    at_read: fn(u64) -> Result<()>,
    at_sync: fn() -> Result<()>,
    /// Pairs that each scan has visited.
    scanned: Mutex<Vec<u32>>,
    /// Snapshots that were asked for; the third fails.
    snapshots: AtomicU64,
    snapshot_reads: AtomicU64,
}

const STALL: Duration = Duration::from_millis(300);

impl Disturbed {
    /// Stops for a while in one read, and is fast in all others.
    fn stalls() -> Self {
        Self::new(
            |number| {
                if number == 100 {
                    thread::sleep(STALL);
                }
                Ok(())
            },
            || Ok(()),
        )
    }

    fn new(at_read: fn(u64) -> Result<()>, at_sync: fn() -> Result<()>) -> Self {
        let (reads, scanned, snapshots, snapshot_reads) = Default::default();
        Self { inner: memory("btree"), reads, at_read, at_sync, scanned, snapshots, snapshot_reads }
    }
}

fn on_purpose() -> Result<()> {
    Err(Error::Library { engine: "map", message: "failed on purpose".into() })
}

impl Engine for Disturbed {
    fn info(&self) -> &'static Info {
        self.inner.info()
    }
    fn key_limits(&self) -> (usize, usize) {
        self.inner.key_limits()
    }
    fn is_memory_only(&self) -> bool {
        true
    }
    fn read(&self, keys: &[&[u8]], visit: &mut VisitValue<'_>) -> Result<()> {
        (self.at_read)(self.reads.fetch_add(1, Ordering::SeqCst))?;
        self.inner.read(keys, visit)
    }
    fn snapshot(&self) -> Result<Option<Box<dyn Snapshot + '_>>> {
        match self.snapshots.fetch_add(1, Ordering::SeqCst) {
            2 => on_purpose().map(|()| None),
            _ => Ok(Some(Box::new(CountedReads(self)))),
        }
    }
    fn write(&self, batch: &Batch<'_>, sync: bool) -> Result<()> {
        self.inner.write(batch, sync)
    }
    fn sync(&self) -> Result<()> {
        (self.at_sync)()
    }
    fn scan(&self, range: KeyRange<'_>, visit: &mut VisitPair<'_>) -> Result<()> {
        let mut visited = 0;
        let scanned = self.inner.scan(range, &mut |key, value| {
            visited += 1;
            visit(key, value)
        });
        self.scanned.lock().unwrap().push(visited);
        scanned
    }
    fn count(&self) -> Result<u64> {
        self.inner.count()
    }
    fn disk_size(&self) -> Result<u64> {
        self.inner.disk_size()
    }
    fn close(&self) -> Result<()> {
        self.inner.close()
    }
}

/// As YCSB's: each length from 1 to the largest is equally likely. Scans near the end of the keys are shorter.
#[test]
fn random_scan_lengths_are_uniform() {
    let engine = Disturbed::new(|_| Ok(()), || Ok(()));
    let scans = Workload {
        keys: 10_000,
        scan_length: 10,
        random_scan_length: true,
        ..workload(&[(Operation::Scan, 1.0)])
    };
    let (measured, _) = run(&engine, &[&scans]);
    assert!(measured[0].is_sound(), "{:?}", measured[0].first_fault);
    let scanned = engine.scanned.into_inner().unwrap();
    assert_eq!(scanned.len(), 20_000);
    for length in 1..=10 {
        let share = scanned.iter().filter(|visited| **visited == length).count();
        assert!((1800..2200).contains(&share), "{share} scans of {length} pairs");
    }
}

/// Snapshot of an engine, which disturbs no read and counts each.
struct CountedReads<'e>(&'e Disturbed);

impl Snapshot for CountedReads<'_> {
    fn read(&self, keys: &[&[u8]], visit: &mut VisitValue<'_>) -> Result<()> {
        self.0.snapshot_reads.fetch_add(1, Ordering::SeqCst);
        self.0.inner.read(keys, visit)
    }
    fn scan(&self, range: KeyRange<'_>, visit: &mut VisitPair<'_>) -> Result<()> {
        self.0.snapshot_reads.fetch_add(1, Ordering::SeqCst);
        self.0.inner.scan(range, visit)
    }
}

/// The third snapshot fails, and with it the workload of its thread.
#[test]
fn each_thread_reads_from_one_snapshot_where_the_workload_says_so() {
    let engine = Disturbed::new(|_| on_purpose(), || Ok(()));
    let mix = [(Operation::Get, 1.0), (Operation::Scan, 1.0)];
    let work = Workload { one_snapshot: true, ..workload(&mix) };
    let (measured, _) = run(&engine, &[&work]);
    assert!(measured[0].is_sound(), "{:?}", measured[0].first_fault);
    let count = |counter: &AtomicU64| counter.load(Ordering::SeqCst);
    assert_eq!((count(&engine.snapshots), count(&engine.snapshot_reads)), (2, 20_000));
    assert_eq!(*engine.scanned.lock().unwrap(), [0; 0]);
    let single = Workload { threads: 1, ..work };
    let (measured, _) = run(&engine, &[&single]);
    assert_eq!((measured[0].errors, measured[0].operations), (1, 0));
    let fault = measured[0].first_fault.as_deref().unwrap_or_default();
    assert!(fault.contains("snapshot") && fault.contains("failed on purpose"), "{fault}");
}

/// An engine that errs while it warms up is not sound.
#[test]
fn a_fault_of_the_warm_up_is_a_fault() {
    let engine = Disturbed::new(|number| if number == 3 { on_purpose() } else { Ok(()) }, || Ok(()));
    let gets = Workload { warmup_seconds: 0.1, ..workload(&[(Operation::Get, 1.0)]) };
    let (measured, _) = run(&engine, &[&gets]);
    assert_eq!((measured[0].errors, measured[0].operations), (1, 20_000));
    let fault = measured[0].first_fault.as_deref().unwrap_or_default();
    assert!(fault.contains("failed on purpose"), "{fault}");
}

/// Panics at the read of this number.
fn panics() -> Disturbed {
    Disturbed::new(|number| if number == 3 { panic!("on purpose") } else { Ok(()) }, || Ok(()))
}

#[test]
fn thread_that_panics_is_a_fault_of_its_own_workload() {
    for threads in [1, 3] {
        for warmup_seconds in [0.0, 0.1] {
            let gets = Workload { threads, warmup_seconds, ..workload(&[(Operation::Get, 1.0)]) };
            let (measured, _) = run(&panics(), &[&gets]);
            let fault = measured[0].first_fault.as_deref().unwrap_or_default();
            assert!(!measured[0].is_sound() && fault.contains("panic: on purpose"), "{fault}");
            // The workload that ends the measurement panics, then the one beside it.
            let updates = Workload { threads, warmup_seconds, ..workload(&[(Operation::Update, 1.0)]) };
            for (workloads, lost) in [([&gets, &updates], 0), ([&updates, &gets], 1)] {
                let (measured, _) = run(&panics(), &workloads);
                assert_eq!(measured.len(), 2);
                assert!(!measured[lost].is_sound() && measured[1 - lost].is_sound(), "{threads}: {lost}");
                let kind = Operation::Update;
                assert!(measured[1 - lost].by_operation.keys().all(|done| *done == kind));
            }
        }
    }
}

/// Returns the measurement of reads on an engine that calls `at_sync` in each sync, of which there is one every second.
fn fault_of_a_sync(at_sync: fn() -> Result<()>) -> Measurement {
    let engine = Disturbed::new(|_| Ok(()), at_sync);
    let gets = Workload {
        seconds: Some(2.2),
        operations: None,
        rate: Some(500.0),
        ..workload(&[(Operation::Get, 1.0)])
    };
    let data = Data::new(&gets).unwrap();
    let live = KeyLedger::new(data.capacity());
    let mut bench = InProcessBench::new(&engine, &data, &live);
    bench.run(&[&gets.load()], ProcessUsage::default);
    bench.sync_every_second = true;
    let phase = bench.run(&[&gets], ProcessUsage::default).pop().unwrap();
    phase.recorder.measurement(phase.start)
}

#[test]
fn sync_that_panics_every_second_is_a_fault() {
    let measured = fault_of_a_sync(|| panic!("on purpose"));
    assert!(!measured.is_sound() && measured.first_fault.unwrap().contains("sync: panic: on purpose"));
}

/// Nobody waits for the sync of every second; that it failed is told all the same.
#[test]
fn a_sync_that_fails_every_second_is_a_fault() {
    let measured = fault_of_a_sync(on_purpose);
    assert!(!measured.is_sound() && measured.first_fault.unwrap().contains("sync: "), "{}", measured.errors);
}

/// At 1000 a second, some 300 operations should have begun during the stall. In an open loop all of them
/// are late; a closed loop, which does not begin them, has one late operation.
#[test]
fn an_open_loop_charges_a_stall_to_all_operations_that_it_delays() {
    let closed = Workload { threads: 1, operations: Some(800), ..workload(&[(Operation::Get, 1.0)]) };
    let open = Workload { rate: Some(1000.0), ..closed.clone() };
    let late = |workload: &Workload| run(&Disturbed::stalls(), &[workload]).0[0].latency.p90_us;
    assert!(late(&open) >= 100_000.0, "open loop: {}", late(&open));
    assert!(late(&closed) < 100_000.0, "closed loop: {}", late(&closed));
}

/// 300 operations should begin in 0.3 s; from the stall at the hundredth on none of the others does.
#[test]
fn operations_that_never_began_have_waited_until_the_end() {
    let stalls = Disturbed::stalls();
    let workload = Workload {
        threads: 1,
        seconds: Some(0.3),
        operations: None,
        rate: Some(1000.0),
        ..workload(&[(Operation::Get, 1.0)])
    };
    let (measured, _) = run(&stalls, &[&workload]);
    let measured = &measured[0];
    assert!(measured.is_sound(), "{:?}", measured.first_fault);
    assert!(measured.unstarted_operations > 0);
    assert_eq!(measured.operations + measured.unstarted_operations, 300);
    assert_eq!(measured.latency.count, 300);
    assert_eq!(measured.by_operation[&Operation::Get].count, measured.operations);
    // Two thirds of them have waited, on average the half of 0.2 s and more.
    assert!(measured.latency.p50_us > 50_000.0, "{:?}", measured.latency);
}

/// Runs slices of at most `nanoseconds` and `operations`, the first of them a warm-up, with a pause before each.
/// Returns the measurement and the sums of the slices' operations and clocks, without the warm-up.
fn sliced(
    workload: &Workload,
    slices: u32,
    nanoseconds: u64,
    operations: Option<u64>,
) -> (Measurement, u64, u64) {
    let engine = memory("btree");
    let data = Data::new(workload).unwrap();
    let live = KeyLedger::new(data.capacity());
    let bench = InProcessBench::new(&*engine, &data, &live);
    bench.run(&[&workload.load()], ProcessUsage::default);
    let (mut left, mut done, mut clock) = (slices, 0, 0);
    let hooks = Hooks { begin: &ProcessUsage::default, usage: &ProcessUsage::default, drain: &|| Ok(()) };
    let phase = bench.run_slices(workload, hooks, |report| {
        if let Some(report) = report.filter(|_| left < slices - 1) {
            (done, clock) = (done + report.operations(), clock + report.nanoseconds);
        }
        // All threads are parked, as if the process were stopped.
        thread::sleep(Duration::from_millis(100));
        left = left.checked_sub(1)?;
        Some(Slice {
            nanoseconds,
            operations,
            is_warm_up: left == slices - 1,
            writes_back: false,
            awaits_device: false,
        })
    });
    (phase.recorder.measurement(phase.start), done, clock)
}

/// A thread does one operation after the other, so the latencies of a thread are at most the sum of its slices.
#[test]
fn no_latency_contains_the_time_between_slices() {
    let mix = [(Operation::Get, 0.8), (Operation::Update, 0.2)];
    let workload = Workload { threads: 1, warmup_seconds: 1.0, ..workload(&mix) };
    let (measured, operations, clock) = sliced(&workload, 6, 3_000_000, None);
    assert!(measured.is_sound(), "{:?}", measured.first_fault);
    assert!(operations > 0 && measured.operations == operations, "{operations}: {measured:?}");
    assert!((measured.seconds * 1e9 - clock as f64).abs() < 1.0, "{clock}: {measured:?}");
    let latencies = measured.latency.mean_us * 1e3 * measured.latency.count as f64;
    assert!(latencies < 1.01 * clock as f64, "{latencies} ns in {clock} ns");
    assert_eq!(measured.timeline.iter().sum::<u64>(), operations);
}

#[test]
fn slices_share_the_operations_among_the_threads() {
    let workload = workload(&[(Operation::Update, 1.0)]);
    let (measured, operations, _) = sliced(&workload, 3, u64::MAX, Some(1001));
    assert!(measured.is_sound(), "{:?}", measured.first_fault);
    assert_eq!((operations, measured.operations), (2002, 2002));
}

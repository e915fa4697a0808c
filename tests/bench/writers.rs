//! Who commits: each thread its own writes, or one of them those of all; and what is noticed of writes that
//! an engine loses.

use crate::driver::{memory, workload};
use kvbench::{
    bench::{
        data::{Data, key_ledger::KeyLedger},
        result::{Measurement, Operation, Order, Size, Workload},
        run::{in_process::driver::InProcessBench, process_usage::ProcessUsage},
    },
    engine::{Batch, Engine, Info, KeyRange, Kind, Result, VisitPair, VisitValue, Writers},
};
use std::{
    sync::{
        Condvar, Mutex,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

/// `map`, with something done around each write of few keys, and before each read; a load is let through.
struct Watched<W, R = fn()> {
    inner: Box<dyn Engine>,
    info: &'static Info,
    write: W,
    before_read: R,
}

impl<W: Fn(&dyn Engine, &Batch<'_>) -> Result<()> + Send + Sync> Watched<W> {
    fn new(writers: Writers, write: W) -> Self {
        let map = Kind::find("map").unwrap().info;
        let info = Box::leak(Box::new(Info { writers, ..*map }));
        Self { inner: memory("map"), info, write, before_read: || {} }
    }

    fn before_read<R: Fn() + Send + Sync>(self, before_read: R) -> Watched<W, R> {
        Watched { inner: self.inner, info: self.info, write: self.write, before_read }
    }
}

impl<W, R> Engine for Watched<W, R>
where
    W: Fn(&dyn Engine, &Batch<'_>) -> Result<()> + Send + Sync,
    R: Fn() + Send + Sync,
{
    fn info(&self) -> &'static Info {
        self.info
    }
    fn key_limits(&self) -> (usize, usize) {
        self.inner.key_limits()
    }
    fn is_memory_only(&self) -> bool {
        true
    }
    fn read(&self, keys: &[&[u8]], visit: &mut VisitValue<'_>) -> Result<()> {
        (self.before_read)();
        self.inner.read(keys, visit)
    }
    fn write(&self, batch: &Batch<'_>, sync: bool) -> Result<()> {
        match batch.len() >= 100 {
            true => self.inner.write(batch, sync),
            false => (self.write)(&*self.inner, batch),
        }
    }
    fn sync(&self) -> Result<()> {
        self.inner.sync()
    }
    fn scan(&self, range: KeyRange<'_>, visit: &mut VisitPair<'_>) -> Result<()> {
        self.inner.scan(range, visit)
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

fn run(engine: &dyn Engine, workload: &Workload, in_groups: bool) -> (Measurement, KeyLedger) {
    let data = Data::new(workload).unwrap();
    let live = KeyLedger::new(data.capacity());
    let mut bench = InProcessBench::new(engine, &data, &live);
    bench.run(&[&workload.load()], ProcessUsage::default);
    bench.in_groups = in_groups;
    let phase = bench.run(&[workload], ProcessUsage::default).remove(0);
    (phase.recorder.measurement(phase.start), live)
}

fn updates() -> Workload {
    Workload { operations: Some(2000), threads: 4, ..workload(&[(Operation::Update, 1.0)]) }
}

/// How many threads were in `write` at once, at most.
fn most_at_once(writers: Writers, in_groups: bool) -> usize {
    let (inside, most) = (Mutex::new(0), AtomicUsize::new(0));
    let (met, company) = (Condvar::new(), writers != Writers::One && !in_groups);
    let engine = Watched::new(writers, |engine, batch| {
        let mut threads = inside.lock().unwrap();
        *threads += 1;
        most.fetch_max(*threads, SeqCst);
        met.notify_all();
        // Who may have company waits for it once; the time only bounds a test that fails.
        while company && most.load(SeqCst) < 2 {
            let (guard, timeout) = met.wait_timeout(threads, Duration::from_secs(20)).unwrap();
            threads = guard;
            if timeout.timed_out() {
                break;
            }
        }
        engine.write(batch, false)?;
        *threads -= 1;
        Ok(())
    });
    let (measured, _) = run(&engine, &updates(), in_groups);
    assert!(measured.is_sound(), "{:?}", measured.first_fault);
    assert_eq!(measured.operations, 2000);
    drop(engine);
    most.into_inner()
}

#[test]
fn only_engines_that_take_one_writer_at_a_time_are_locked() {
    assert_eq!(most_at_once(Writers::One, false), 1);
    assert!(most_at_once(Writers::Serialized, false) > 1);
    assert!(most_at_once(Writers::Concurrent, false) > 1);
    assert_eq!(most_at_once(Writers::Concurrent, true), 1, "in groups there is one commit at a time");
}

/// How many read-modify-writes were between their read and their write at once, at most, over so many keys. The first
/// to read waits for company.
fn most_between_read_and_write(keys: u64, patience: Duration) -> usize {
    let (between, met) = (Mutex::new(0_usize), Condvar::new());
    let (most, waited) = (AtomicUsize::new(0), AtomicBool::new(false));
    let engine = Watched::new(Writers::Concurrent, |engine, batch| {
        engine.write(batch, false)?;
        let mut threads = between.lock().unwrap();
        *threads = threads.saturating_sub(1);
        Ok(())
    });
    let engine = engine.before_read(|| {
        let mut threads = between.lock().unwrap();
        *threads += 1;
        most.fetch_max(*threads, SeqCst);
        met.notify_all();
        if !waited.swap(true, SeqCst) {
            let alone = |_: &mut usize| most.load(SeqCst) < 2;
            drop(met.wait_timeout_while(threads, patience, alone).unwrap());
        }
    });
    let changes = workload(&[(Operation::ReadModifyWrite, 1.0)]);
    let changes = Workload { operations: Some(200), threads: 4, keys, ..changes };
    let (measured, _) = run(&engine, &changes, false);
    assert!(measured.is_sound(), "{:?}", measured.first_fault);
    drop(engine);
    most.into_inner()
}

/// Two of one key would lose what one of them wrote; those of different keys need not wait for each other.
#[test]
fn read_modify_writes_of_one_key_exclude_each_other_and_those_of_others_do_not() {
    // Of a thousand keys, three threads choose hardly ever the one that the first has.
    assert!(most_between_read_and_write(1000, Duration::from_secs(20)) > 1);
    assert_eq!(most_between_read_and_write(1, Duration::from_millis(200)), 1);
}

#[test]
fn a_group_is_one_commit_of_what_waits() {
    let (commits, largest) = (AtomicU64::new(0), AtomicUsize::new(0));
    let engine = Watched::new(Writers::One, |engine, batch| {
        commits.fetch_add(1, SeqCst);
        largest.fetch_max(batch.len(), SeqCst);
        // The others come meanwhile.
        std::thread::sleep(Duration::from_micros(200));
        engine.write(batch, false)
    });
    let (measured, _) = run(&engine, &updates(), true);
    assert!(measured.is_sound(), "{:?}", measured.first_fault);
    assert_eq!((measured.operations, measured.latency.count), (2000, 2000));
    drop(engine);
    assert!(commits.into_inner() < 2000);
    assert!((2..=4).contains(&largest.into_inner()));
}

#[test]
fn all_kinds_of_operation_are_right_both_ways() {
    use Operation::{Delete, Get, Insert, ReadModifyWrite, Update};
    let mix = [(Get, 0.4), (Update, 0.2), (Insert, 0.2), (ReadModifyWrite, 0.19), (Delete, 0.01)];
    for store in ["map", "btree"] {
        for (in_groups, batch) in [(false, 1), (true, 1), (false, 7), (true, 7)] {
            let workload = Workload { threads: 4, batch, order: Order::Zipfian(0.99), ..workload(&mix) };
            let engine = memory(store);
            let (measured, live) = run(&*engine, &workload, in_groups);
            assert!(measured.is_sound(), "{store}: {:?}", measured.first_fault);
            assert_eq!(measured.operations, 20_000);
            let brought_back = engine.count().unwrap() - live.count();
            assert!(brought_back <= measured.by_operation[&Delete].count, "updates race with deletes");
        }
    }
}

/// Acknowledges a write now and then that it has not done.
#[test]
fn a_write_that_is_acknowledged_and_lost_is_noticed() {
    for value_bytes in [1, 3, 8, 100] {
        let writes = AtomicU64::new(0);
        let engine = Watched::new(Writers::One, |engine, batch| match writes.fetch_add(1, SeqCst) % 97 {
            96 => Ok(()),
            _ => engine.write(batch, false),
        });
        for kind in [Operation::Update, Operation::ReadModifyWrite] {
            let mix = [(Operation::Get, 0.5), (kind, 0.5)];
            let value_bytes = Size::Fixed(value_bytes);
            let (measured, _) = run(&engine, &Workload { threads: 1, value_bytes, ..workload(&mix) }, false);
            assert!(measured.wrong_values > 0, "{kind:?} of {value_bytes:?}");
            let fault = measured.first_fault.unwrap_or_default();
            assert!(fault.contains("found version"), "{fault}");
        }
    }
}

/// What a write replaces is never what it writes: an engine that skips such a write would gain by it.
#[test]
fn every_update_changes_its_value() {
    for value_bytes in [1, 2, 3, 7, 8, 100] {
        let same = AtomicU64::new(0);
        let engine = Watched::new(Writers::One, |engine, batch| {
            for op in batch.ops() {
                let kvbench::engine::WriteOp::Put { key, value } = op else { continue };
                let mut compare = |_: usize, old: Option<&[u8]>| {
                    same.fetch_add(u64::from(old == Some(*value)), SeqCst);
                    std::ops::ControlFlow::Continue(())
                };
                engine.read(&[*key], &mut compare)?;
            }
            engine.write(batch, false)
        });
        let value_bytes = Size::Fixed(value_bytes);
        let (measured, _) = run(&engine, &Workload { threads: 1, value_bytes, ..updates() }, false);
        assert!(measured.is_sound(), "{:?}", measured.first_fault);
        drop(engine);
        assert_eq!(same.into_inner(), 0, "values of {value_bytes:?}");
    }
}

/// Each commit takes twice the time in which its batch is due, so no thread is woken after the first batch.
#[test]
fn operations_that_a_commit_delays_are_not_late_by_the_scheduler() {
    let engine = Watched::new(Writers::One, |engine, batch| {
        std::thread::sleep(Duration::from_millis(20));
        engine.write(batch, false)
    });
    let paced = Workload {
        operations: Some(200),
        threads: 1,
        batch: 10,
        rate: Some(1000.0),
        ..workload(&[(Operation::Update, 1.0)])
    };
    let (measured, _) = run(&engine, &paced, false);
    assert_eq!(measured.operations, 200);
    let late = measured.lateness.map_or(0, |lateness| lateness.count);
    assert!(late <= 10, "{late} operations waited for their start");
}

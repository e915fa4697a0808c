//! An open engine with data, and the work on it.

use super::case::{Case, SCANNED, VALUE};
use crate::support::{self, Key, Rng, Values};
use kvbench::{
    bench::run::allocations::{self, Allocated},
    engine::{Batch, Engine, Fsync, KeyRange, Kind, VisitPair},
};
use std::{
    hint::black_box,
    ops::{Bound, ControlFlow},
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// Steps from key to key, so that neighbours in a batch are far apart and each key comes once:
/// a prime that divides no [`Fixture::size`].
const STRIDE: usize = 7919;

pub struct Fixture {
    engine: Box<dyn Engine>,
    sync: bool,
    keys: Vec<Key>,
    values: Values,
    rng: Rng,
    /// Keys removed since the data were loaded.
    deleted: usize,
    /// Below the engine, to be removed after it.
    _dir: TempDir,
}

/// What a run took; `allocated` is known when that was asked for instead of time.
#[derive(Default)]
pub struct Cost {
    pub time: Duration,
    pub allocated: Allocated,
}

/// What a run is made for.
#[derive(Clone, Copy)]
pub enum Measure {
    Time,
    Allocations,
}

impl Measure {
    fn of(self, cost: &mut Cost, work: impl FnOnce()) {
        match self {
            Self::Time => {
                let start = Instant::now();
                work();
                cost.time += start.elapsed();
            }
            Self::Allocations => {
                let counter = allocations::start();
                work();
                let allocated = counter.stop().expect("this program's allocator counts");
                cost.allocated.bytes += allocated.bytes;
                cost.allocated.count += allocated.count;
            }
        }
    }
}

impl Fixture {
    /// Keys that are there. Few enough that a case begins at once: what is measured is the path
    /// through the engine, in the cache. Data larger than memory are for the workload driver.
    pub fn size() -> usize {
        if support::is_test() { 2_000 } else { 20_000 }
    }

    /// Opens a new engine and loads it.
    pub fn open(kind: &Kind, fsync: Fsync) -> Self {
        let dir = support::data_dir();
        let mut fixture = Self {
            engine: support::open(kind, dir.path(), fsync),
            sync: fsync == Fsync::Always,
            keys: support::keys(Self::size()),
            values: Values::new(),
            rng: Rng(2),
            deleted: 0,
            _dir: dir,
        };
        fixture.load();
        fixture
    }

    /// Sets every key to its first value, and makes that durable.
    fn load(&mut self) {
        let numbered: Vec<_> = self.keys.iter().zip(0..).collect();
        for part in numbered.chunks(4_000) {
            let mut batch = Batch::with_capacity(part.len());
            part.iter().for_each(|(key, number)| batch.put(&key[..], self.values.get(*number, VALUE)));
            self.engine.write(&batch, false).expect("loads");
        }
        self.engine.sync().expect("syncs");
        self.deleted = 0;
    }

    /// Runs `case` so many times. That it did what it should is checked each time outside of what is
    /// measured, or inside by no more than a count.
    pub fn run(&mut self, case: Case, iterations: u64, measure: Measure) -> Cost {
        match case {
            Case::Put(len) => self.put(iterations, 1, len, measure),
            Case::Batch(count) => self.put(iterations, count, VALUE, measure),
            Case::GetHit => self.get(iterations, true, measure),
            Case::GetMiss => self.get(iterations, false, measure),
            Case::ScanPrefix => self.scan(iterations, true, measure),
            Case::ScanRange => self.scan(iterations, false, measure),
            Case::Delete => self.delete(iterations, measure),
        }
    }

    fn put(&mut self, iterations: u64, count: usize, len: usize, measure: Measure) -> Cost {
        let Self { engine, keys, values, rng, sync, .. } = self;
        let mut cost = Cost::default();
        let mut last = None;
        let mut spare = Batch::with_capacity(count);
        measure.of(&mut cost, || {
            for _ in 0..iterations {
                let mut batch = spare.recycle();
                let mut index = rng.below(keys.len());
                for _ in 0..count {
                    let (key, value) = (&keys[index], values.get(rng.next(), len));
                    batch.put(key, value);
                    last = Some((key, value));
                    index = (index + STRIDE) % keys.len();
                }
                engine.write(&batch, *sync).expect("writes");
                spare = batch.recycle();
            }
        });
        let (key, value) = last.expect("one iteration");
        assert_eq!(get(&**engine, key).as_deref(), Some(value), "what was put last is there");
        cost
    }

    fn get(&mut self, iterations: u64, hit: bool, measure: Measure) -> Cost {
        let Self { engine, keys, values, rng, .. } = self;
        let mut cost = Cost::default();
        let (mut found, mut asked) = (0, 0);
        // Copied as a server copies it: a value that nobody looks at is never fetched from memory.
        let mut reply = Vec::with_capacity(VALUE);
        measure.of(&mut cost, || {
            for _ in 0..iterations {
                asked = rng.below(keys.len());
                let mut key = keys[asked];
                if !hit {
                    // Not there, but between two keys that are.
                    key[15] = b'-';
                }
                let outcome = engine.read(&[&key], &mut |_, value| {
                    found += u64::from(value.is_some());
                    reply.clear();
                    reply.extend_from_slice(value.unwrap_or_default());
                    black_box(&reply);
                    ControlFlow::Continue(())
                });
                outcome.expect("reads");
            }
        });
        assert_eq!(found, if hit { iterations } else { 0 }, "keys found");
        assert_eq!(get(&**engine, &keys[asked]).as_deref(), Some(values.get(asked as u64, VALUE)));
        cost
    }

    fn scan(&mut self, iterations: u64, prefix: bool, measure: Measure) -> Cost {
        let Self { engine, keys, rng, .. } = self;
        // A prefix leaves out the last two digits. Both scans end at the first key beyond.
        let scan = |first: usize, visit: &mut VisitPair<'_>| {
            let end = support::key(first + SCANNED);
            let start = &keys[first][..if prefix { 14 } else { 16 }];
            let range = KeyRange { start: Bound::Included(start), end: Bound::Excluded(&end) };
            engine.scan(range, visit).expect("scans");
        };
        let mut cost = Cost::default();
        let (mut first, mut visited) = (0, 0);
        measure.of(&mut cost, || {
            for _ in 0..iterations {
                first = match prefix {
                    true => rng.below(keys.len() / SCANNED) * SCANNED,
                    false => rng.below(keys.len() - SCANNED),
                };
                scan(first, &mut |key, value| {
                    visited += 1;
                    black_box((key, value));
                    ControlFlow::Continue(())
                });
            }
        });
        assert_eq!(visited, iterations * SCANNED as u64, "pairs visited");
        let mut expected = keys.iter().skip(first);
        scan(first, &mut |key, _| {
            assert_eq!(Some(key), expected.next().map(|key| &key[..]), "keys in order");
            ControlFlow::Continue(())
        });
        cost
    }

    /// Removes keys until none is left, then loads them anew while no time runs, and so on.
    fn delete(&mut self, iterations: u64, measure: Measure) -> Cost {
        let mut cost = Cost::default();
        let mut left = iterations as usize;
        while left > 0 {
            if self.deleted == self.keys.len() {
                self.load();
            }
            let count = left.min(self.keys.len() - self.deleted);
            let Self { engine, keys, sync, .. } = self;
            let nth = |n: usize| &keys[n * STRIDE % keys.len()];
            let (first, end) = (self.deleted, self.deleted + count);
            let last = nth(end - 1);
            assert!(get(&**engine, last).is_some(), "what is to be removed is there");
            let mut spare = Batch::with_capacity(1);
            measure.of(&mut cost, || {
                for n in first..end {
                    let mut batch = spare.recycle();
                    batch.delete(nth(n));
                    engine.write(&batch, *sync).expect("removes");
                    spare = batch.recycle();
                }
            });
            assert_eq!(get(&**engine, last), None, "what was removed is gone");
            self.deleted = end;
            left -= count;
        }
        cost
    }

    /// Checks that no key is missing or too many, and closes.
    pub fn finish(self) {
        let left = (self.keys.len() - self.deleted) as u64;
        assert_eq!(self.engine.count().expect("counts"), left, "keys left");
        self.engine.close().expect("closes");
    }
}

fn get(engine: &dyn Engine, key: &[u8]) -> Option<Vec<u8>> {
    let mut found = None;
    let outcome = engine.read(&[key], &mut |_, value| {
        found = value.map(<[u8]>::to_vec);
        ControlFlow::Continue(())
    });
    outcome.expect("reads");
    found
}

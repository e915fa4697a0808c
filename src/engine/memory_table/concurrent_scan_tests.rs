//! Model tests of the operations on a table in memory that work in steps (scans, long reads, large batches), with
//! writes between the steps.

use super::{
    super::{Batch, KeyRange, WriteOp},
    concurrent::{SharedTable, free_garbage},
    hash_table::HashTable,
    snapshot::View,
    table_trait::{ByteBudget, ScanControl, Table},
};
use crate::engine::stores::btree::BTree;
use rand::{Rng, SeedableRng, rngs::StdRng};
use std::{collections::BTreeMap, ops::ControlFlow};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Write of a key: its new value, or `None` to delete it.
type Write = (Vec<u8>, Option<Vec<u8>>);

fn apply(model: &mut Model, writes: &[Write]) {
    for (key, value) in writes {
        match value {
            Some(value) => drop(model.insert(key.clone(), value.clone())),
            None => drop(model.remove(key)),
        }
    }
}

fn op((key, value): &Write) -> WriteOp<'_> {
    match value {
        Some(value) => WriteOp::Put { key, value },
        None => WriteOp::Delete { key },
    }
}

fn ops(writes: &[Write]) -> Vec<WriteOp<'_>> {
    writes.iter().map(op).collect()
}

/// Large batch of a test that is not completely in the table yet.
struct Large {
    writes: Vec<Write>,
    gathered: usize,
    /// Number of writes of the batch that are in the table, once the batch is visible; `None` before.
    settled: Option<usize>,
}

/// Scan of a test that has not ended yet.
struct Scan<'t, T: Table> {
    view: View<'t, T>,
    expected: Model,
    found: Vec<(Vec<u8>, Vec<u8>)>,
}

struct Test<'t, T: Table> {
    table: &'t SharedTable<T>,
    ordered: bool,
    model: Model,
    keys: u32,
    large: Option<Large>,
    scans: Vec<Scan<'t, T>>,
    finished: usize,
    rng: StdRng,
}

impl<'t, T: Table> Test<'t, T> {
    fn writes(&mut self, most: usize) -> Vec<Write> {
        let (rng, keys) = (&mut self.rng, self.keys);
        (0..rng.random_range(1..=most))
            .map(|_| {
                let key = rng.random_range(0..keys).to_be_bytes().to_vec();
                (key, rng.random_bool(0.6).then(|| vec![rng.random(); rng.random_range(0..9)]))
            })
            .collect()
    }

    fn write(&mut self) {
        let writes = self.writes(8);
        let mut batch = Batch::default();
        if self.rng.random_ratio(1, 200) {
            batch.clear();
            self.model.clear();
        }
        ops(&writes).into_iter().for_each(|op| batch.push(op));
        free_garbage(self.table.write(&batch));
        apply(&mut self.model, &writes);
    }

    /// Runs the next step of writing a large batch: begins it, gathers some writes, makes it visible, or moves some
    /// writes into the table.
    fn go_on_writing(&mut self) {
        let step = self.rng.random_range(1..40);
        let Some(mut large) = self.large.take() else {
            let writes = self.writes(300);
            self.table.lock_mut().begin();
            self.large = Some(Large { writes, gathered: 0, settled: None });
            return;
        };
        match large.settled {
            None if large.gathered < large.writes.len() => {
                let end = (large.gathered + step).min(large.writes.len());
                self.table.gather(&ops(&large.writes[large.gathered..end]));
                large.gathered = end;
            }
            None => {
                self.table.lock_mut().show();
                apply(&mut self.model, &large.writes);
                large.settled = Some(0);
            }
            Some(settled) => {
                let end = (settled + step).min(large.writes.len());
                let (go_on, _) = self.table.settle(&ops(&large.writes[settled..end]));
                if end == large.writes.len() || !go_on {
                    let _rest = self.table.lock_mut().end();
                    return;
                }
                large.settled = Some(end);
            }
        }
        self.large = Some(large);
    }

    fn is_settling(&self) -> bool {
        self.large.as_ref().is_some_and(|large| large.settled.is_some())
    }

    fn begin_scan(&mut self) {
        if self.scans.len() < 3 && !self.is_settling() {
            let view = self.table.snapshot(&self.table.lock(), T::Position::default());
            self.scans.push(Scan { view, expected: self.model.clone(), found: Vec::new() });
        }
    }

    fn go_on_scanning(&mut self) {
        let Some(mut scan) = self.scans.pop() else { return };
        let mut left = self.rng.random_range(1..60);
        let guard = self.table.lock();
        let mut snapshot = scan.view.lock_snapshot();
        let more = snapshot.scan_step(&guard.table, self.ordered, KeyRange::ALL, &mut |key, value| {
            scan.found.push((key.into(), value.into()));
            left -= 1;
            if left > 0 { ScanControl::Continue } else { ScanControl::Pause }
        });
        if more {
            drop(snapshot);
            return self.scans.insert(0, scan);
        }
        let rest = snapshot.take_kept();
        scan.found.extend(rest.into_iter().filter_map(|(key, value)| Some((key.into(), value?.into()))));
        assert!(!self.ordered || scan.found.is_sorted());
        scan.found.sort();
        assert!(scan.found.into_iter().eq(scan.expected), "not as it was when the scan began");
        self.finished += 1;
    }

    fn check(&mut self) {
        assert_eq!(self.table.len(), self.model.len() as u64);
        let keys: Vec<_> = (0..20).map(|_| self.rng.random_range(0..self.keys).to_be_bytes()).collect();
        let names: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
        self.table.read(&names, &mut |index, value| {
            assert_eq!(value, self.model.get(names[index]).map(Vec::as_slice));
            ControlFlow::Continue(())
        });
        if let Some(scan) = self.scans.first() {
            let guard = self.table.lock();
            let mut expected = names.iter().map(|name| scan.expected.get(*name).map(Vec::as_slice));
            // Keys that the scan has passed are no longer kept.
            if scan.found.is_empty() {
                scan.view.lock_snapshot().read(&guard.table, &names, ByteBudget::NONE, &mut |_, value| {
                    assert_eq!(value, expected.next().unwrap());
                    ControlFlow::Continue(())
                });
            }
        }
    }
}

fn interleave<T: Table>(ordered: bool, keys: u32, filled: u32, rounds: usize, seed: u64) {
    let table = SharedTable::new(T::default(), ordered);
    let (model, rng) = (Model::new(), StdRng::seed_from_u64(seed));
    let (large, scans, finished) = (None, Vec::new(), 0);
    let mut test = Test { table: &table, ordered, model, keys, large, scans, finished, rng };
    let first: Vec<Write> = (0..filled).map(|key| (key.to_be_bytes().into(), Some(vec![1]))).collect();
    let mut batch = Batch::default();
    ops(&first).into_iter().for_each(|op| batch.push(op));
    free_garbage(table.write(&batch));
    apply(&mut test.model, &first);
    for _ in 0..rounds {
        match test.rng.random_range(0..10) {
            0..3 => test.write(),
            3..6 => test.go_on_writing(),
            6 => test.begin_scan(),
            _ => test.go_on_scanning(),
        }
        test.check();
    }
    // Miri is too slow for more.
    let enough = if cfg!(miri) { 1 } else { 10 };
    assert!(test.finished >= enough, "{} scans", test.finished);
}

#[test]
fn steps_between_writes_show_what_one_moment_holds() {
    let (seeds, rounds, keys) = if cfg!(miri) { (1, 80, 40) } else { (10, 6000, 300) };
    for seed in 0..seeds {
        interleave::<HashTable>(false, keys, 0, rounds, seed);
        interleave::<BTree>(true, keys, 0, rounds, seed);
    }
}

/// Scans of a large map with many parts show one snapshot, with writes between their steps, also if the map is split
/// into its parts meanwhile.
#[test]
#[cfg_attr(miri, ignore = "takes too long")]
fn steps_over_a_large_map_between_writes_show_one_snapshot() {
    for (seed, filled) in [(1, 8000), (2, 30_000)] {
        interleave::<HashTable>(false, 40_000, filled, 20_000, seed);
    }
}

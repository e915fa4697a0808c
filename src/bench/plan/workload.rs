//! Functions of a workload for the threads that execute it: choice of the next operation, number of
//! operations, end.

use crate::bench::result::{CellKind, OPERATIONS, Operation, Order, Size, Workload};
use std::{collections::BTreeMap, time::Duration};

/// Maximum number of bytes of keys and values in one batch of the load phase, unless a single pair has more.
const LOAD_BATCH_BYTES: f64 = (64 << 20) as f64;

/// Chooses the kind of each operation by its share of the mix.
#[derive(Clone, Debug)]
pub struct Mix {
    only: Option<Operation>,
    /// Each kind with the sum of all shares up to its own, scaled to 2^64.
    bounds: Vec<(u64, Operation)>,
}

impl Mix {
    /// Returns the mix of a workload, or `None` if no share is above zero.
    pub fn new(workload: &Workload) -> Option<Self> {
        let parts: Vec<_> = workload.mix.iter().filter(|(_, part)| **part > 0.0).collect();
        let total: f64 = parts.iter().map(|(_, part)| **part).sum();
        let mut sum = 0.0;
        let bounds = parts.iter().map(|(operation, part)| {
            sum += **part / total;
            ((sum * u64::MAX as f64) as u64, **operation)
        });
        let bounds: Vec<_> = bounds.collect();
        let (_, last) = *bounds.last()?;
        Some(Self { only: (bounds.len() == 1).then_some(last), bounds })
    }

    /// Returns the next kind of operation. Calls `random` only if the mix has several kinds.
    #[inline]
    pub fn pick(&self, random: impl FnOnce() -> u64) -> Operation {
        if let Some(only) = self.only {
            return only;
        }
        let random = random();
        let found = self.bounds.iter().find(|(bound, _)| random < *bound).or(self.bounds.last());
        found.map_or(Operation::Get, |(_, operation)| *operation)
    }
}

impl Workload {
    /// Returns a workload of `operations` operations of `mix`, by one thread and without batches: 1000 keys
    /// of 16 bytes, chosen uniformly, with incompressible values of 100 bytes.
    pub fn of(mix: impl Into<BTreeMap<Operation, f64>>, operations: u64) -> Self {
        Self {
            name: "custom".into(),
            mix: mix.into(),
            keys: 1000,
            key_bytes: Size::Fixed(16),
            value_bytes: Size::Fixed(100),
            value_entropy: 1.0,
            order: Order::Uniform,
            threads: 1,
            batch: 1,
            seconds: None,
            operations: Some(operations),
            warmup_seconds: 0.0,
            rate: None,
            scan_length: 100,
            random_scan_length: false,
            one_snapshot: false,
            prefix_bytes: None,
            counts_allocations: false,
            counts_instructions: false,
            seed: 1,
            step: CellKind::Operations,
            hashed_keys: true,
            data: None,
            ttl_ms: None,
            rate_goal: None,
            soak: false,
        }
    }

    /// Returns the length of the intervals of the timeline, in which operations are counted: a 60th of the time limit,
    /// at least 10 ms; 100 ms without a time limit.
    pub fn timeline_interval(&self) -> Duration {
        Duration::from_secs_f64(self.seconds.map_or(0.1, |seconds| (seconds / 60.0).max(0.01)))
    }

    /// Returns the duration of the measurement in nanoseconds, or `None` if the workload has no time limit.
    pub fn nanoseconds(&self) -> Option<u64> {
        self.seconds.map(|seconds| (seconds * 1e9) as u64)
    }

    /// Returns the number of operations of the thread with the index `thread`, its part of the workload's limit, or
    /// `None` if the workload has no limit on operations.
    pub fn share(&self, thread: u32) -> Option<u64> {
        let operations = self.operations?;
        let threads = u64::from(self.threads.max(1));
        Some(operations / threads + u64::from(u64::from(thread) < operations % threads))
    }

    /// Returns the seed of the random choices of the threads. It depends on the workload's name, so that in a
    /// group of cells a reader does not choose the same keys as a writer.
    pub fn salted_seed(&self) -> u64 {
        let salt = self.name.bytes().fold(0u64, |sum, byte| sum.wrapping_mul(31) + u64::from(byte));
        self.seed.wrapping_add(salt)
    }

    /// Returns the mean size of a key with its value, in bytes.
    pub fn pair_bytes(&self) -> f64 {
        let mean = |size| match size {
            Size::Fixed(bytes) => f64::from(bytes),
            Size::Uniform(low, high) => (f64::from(low) + f64::from(high)) / 2.0,
        };
        mean(self.key_bytes) + mean(self.value_bytes)
    }

    /// Returns the number of pairs that have 64 MiB, the most of a batch of the load.
    pub fn pairs_of_load_batch(&self) -> f64 {
        LOAD_BATCH_BYTES / self.pair_bytes().max(1.0)
    }

    /// Returns the workload of the load phase: inserts every key once, by one thread, in batches of 1000 pairs, or of
    /// fewer that have 64 MiB.
    pub fn load(&self) -> Workload {
        Workload {
            name: "load".into(),
            mix: [(Operation::Insert, 1.0)].into(),
            threads: 1,
            batch: self.pairs_of_load_batch().clamp(1.0, 1000.0) as u32,
            seconds: None,
            operations: Some(self.keys),
            warmup_seconds: 0.0,
            rate: None,
            one_snapshot: false,
            rate_goal: None,
            soak: false,
            ..self.clone()
        }
    }

    /// Returns a workload that reads each of `keys` keys once, by one thread; if there are more than `most`, it reads
    /// `most` keys chosen at random.
    pub fn verification(&self, keys: u64, most: u64) -> Workload {
        Workload {
            name: "verification".into(),
            mix: [(Operation::Get, 1.0)].into(),
            order: if keys > most { Order::Uniform } else { Order::Sequential },
            operations: Some(keys.min(most)),
            ..self.load()
        }
    }

    /// Returns `true` if the workload has operations other than inserts and deletes, so that it can run for any time.
    /// One that only fills or empties a store ends by count: the same count for every engine, however fast it is.
    pub fn is_steady(&self) -> bool {
        self.kinds().any(|kind| !matches!(kind, Operation::Insert | Operation::Delete))
    }

    /// Returns the mix of the warm-up: that of the workload without inserts and deletes, which would change the keys of
    /// the measurement. `None` if no operation is left or the workload has no warm-up.
    pub fn warm_up_mix(&self) -> Option<Mix> {
        let mut steady = self.clone();
        steady.mix.retain(|kind, _| !matches!(kind, Operation::Insert | Operation::Delete));
        Mix::new(&steady).filter(|_| self.warmup_seconds > 0.0)
    }

    /// Returns `true` if the warm-up replaces values.
    pub fn warm_up_updates(&self) -> bool {
        self.warmup_seconds > 0.0 && self.updates()
    }

    /// Returns `true` if the workload may write to the store or its files.
    pub fn writes(&self) -> bool {
        match self.step {
            CellKind::Operations => self.kinds().any(Operation::writes),
            CellKind::Count | CellKind::SourceScan | CellKind::SourceGet => false,
            CellKind::DiskSize
            | CellKind::Compact
            | CellKind::Retain
            | CellKind::Pop
            | CellKind::Recovery => true,
        }
    }

    /// Returns `true` if the workload's mix replaces values.
    pub fn updates(&self) -> bool {
        self.kinds().any(|kind| matches!(kind, Operation::Update | Operation::ReadModifyWrite))
    }

    /// Returns `true` if the workload's mix inserts or deletes keys. Removals by [`CellKind::Retain`] and
    /// [`CellKind::Pop`] are not in the mix.
    pub fn changes_keys(&self) -> bool {
        self.kinds().any(|kind| matches!(kind, Operation::Insert | Operation::Delete))
    }

    /// Returns the largest number of keys that the store may hold during the workload. Inserts of a workload
    /// that does not end by count are not included.
    pub fn most_keys(&self) -> u64 {
        let inserts = self.kinds().any(|kind| kind == Operation::Insert);
        self.keys + self.operations.filter(|_| inserts && !self.is_steady()).unwrap_or(0)
    }

    /// Returns the bytes of the keys and values of [`Workload::most_keys`] keys.
    pub fn most_bytes(&self) -> f64 {
        self.most_keys() as f64 * self.pair_bytes()
    }

    /// Returns `true` if the workload determines exactly which keys exist at the end: values do not expire, and it does
    /// not mix deletes with updates, since an update of a key that another thread is deleting may create the key again.
    pub fn has_exact_keys(&self) -> bool {
        let deletes = self.kinds().any(|kind| kind == Operation::Delete);
        self.ttl_ms.is_none() && !(deletes && self.updates())
    }

    /// Returns the kinds of operation that have a share above zero in the mix.
    pub fn kinds(&self) -> impl Iterator<Item = Operation> + '_ {
        OPERATIONS.into_iter().filter(|kind| self.mix.get(kind).is_some_and(|part| *part > 0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_of_the_load_takes_little_memory() {
        let batch = |bytes| {
            let value_bytes = Size::Fixed(bytes);
            Workload { value_bytes, ..Workload::of([(Operation::Get, 1.0)], 1) }.load().batch
        };
        assert_eq!(
            [batch(0), batch(1000), batch(1 << 20), batch(16 << 20), batch(256 << 20)],
            [1000, 1000, 63, 3, 1]
        );
    }
}

//! A workload as its threads use it: which operation is next, how many there are, when all of it ends.

use crate::bench::result::{CellKind, OPERATIONS, Operation, Order, Size, Workload};
use std::{collections::BTreeMap, time::Duration};

/// Chooses the kind of each operation by its part of the mix.
#[derive(Clone, Debug)]
pub struct Mix {
    only: Option<Operation>,
    /// Kinds with the sum of the parts up to theirs, as a share of 2^64.
    bounds: Vec<(u64, Operation)>,
}

impl Mix {
    /// The mix of a workload; `None` when no part is above zero.
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

    /// The next kind. The random number is only drawn where there is a choice.
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
    /// So many operations of a mix by one thread, one by one: on a thousand keys of 16 bytes, each as likely as the
    /// others, with values of 100 bytes that do not compress.
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
            prefix_bytes: None,
            counts_allocations: false,
            seed: 1,
            step: CellKind::Operations,
            hashed_keys: true,
            data: None,
        }
    }

    /// Length of the timeline's slices.
    pub fn slice(&self) -> Duration {
        Duration::from_secs_f64(self.seconds.map_or(0.1, |seconds| (seconds / 60.0).max(0.01)))
    }

    /// Nanoseconds of measured time, if it ends by time.
    pub fn nanoseconds(&self) -> Option<u64> {
        self.seconds.map(|seconds| (seconds * 1e9) as u64)
    }

    /// Operations of thread `thread`, if it ends by count.
    pub fn share(&self, thread: u32) -> Option<u64> {
        let operations = self.operations?;
        let threads = u64::from(self.threads.max(1));
        Some(operations / threads + u64::from(u64::from(thread) < operations % threads))
    }

    /// The seed of its threads' choices. Names tell workloads of one group apart, so that a reader does not
    /// follow a writer's steps.
    pub fn salted_seed(&self) -> u64 {
        let salt = self.name.bytes().fold(0u64, |sum, byte| sum.wrapping_mul(31) + u64::from(byte));
        self.seed.wrapping_add(salt)
    }

    /// Mean bytes of a key and its value.
    pub fn pair_bytes(&self) -> f64 {
        let mean = |size| match size {
            Size::Fixed(bytes) => f64::from(bytes),
            Size::Uniform(low, high) => (f64::from(low) + f64::from(high)) / 2.0,
        };
        mean(self.key_bytes) + mean(self.value_bytes)
    }

    /// The load before the measured operations: every key once, by one thread, in large batches.
    pub fn load(&self) -> Workload {
        Workload {
            name: "load".into(),
            mix: [(Operation::Insert, 1.0)].into(),
            threads: 1,
            batch: 1000,
            seconds: None,
            operations: Some(self.keys),
            warmup_seconds: 0.0,
            rate: None,
            ..self.clone()
        }
    }

    /// Reads all of `keys` keys that there are, each once and by one thread; of more than `most` as many by
    /// chance.
    pub fn verification(&self, keys: u64, most: u64) -> Workload {
        Workload {
            name: "verification".into(),
            mix: [(Operation::Get, 1.0)].into(),
            order: if keys > most { Order::Uniform } else { Order::Sequential },
            operations: Some(keys.min(most)),
            ..self.load()
        }
    }

    /// Whether it leaves the store about as it finds it, so that it can go on for any time. What only fills
    /// or empties a store is work by count: the same for every engine, however fast it is.
    pub fn is_steady(&self) -> bool {
        self.kinds().any(|kind| !matches!(kind, Operation::Insert | Operation::Delete))
    }

    /// What threads do before the measured time: the same, without taking or adding keys that the measured
    /// operations are to work on. `None` when nothing is left of it.
    pub fn warm_up(&self) -> Option<Workload> {
        let mut steady = self.clone();
        steady.mix.retain(|kind, _| !matches!(kind, Operation::Insert | Operation::Delete));
        (self.warmup_seconds > 0.0 && steady.kinds().next().is_some()).then_some(steady)
    }

    /// Whether it adds or takes keys.
    pub fn changes_keys(&self) -> bool {
        self.kinds().any(|kind| matches!(kind, Operation::Insert | Operation::Delete))
    }

    /// Most keys that it can meet, where that is known before.
    pub fn most_keys(&self) -> u64 {
        let inserts = self.kinds().any(|kind| kind == Operation::Insert);
        self.keys + self.operations.filter(|_| inserts && !self.is_steady()).unwrap_or(0)
    }

    /// Whether the keys that are there at the end are known. An update of a key that another thread is
    /// deleting may bring it back.
    pub fn has_exact_keys(&self) -> bool {
        let does = |kind| self.kinds().any(|done| done == kind);
        !(does(Operation::Delete) && (does(Operation::Update) || does(Operation::ReadModifyWrite)))
    }

    /// The kinds of operation that it does.
    pub fn kinds(&self) -> impl Iterator<Item = Operation> + '_ {
        OPERATIONS.into_iter().filter(|kind| self.mix.get(kind).is_some_and(|part| *part > 0.0))
    }
}

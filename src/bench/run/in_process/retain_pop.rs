//! Removals other than deletes of one key after another: `retain` (remove about half of the keys in a scan) and `pop`
//! (remove the first keys).

use super::close_reopen::once;
use crate::{
    bench::{
        data::{Data, key_ledger::KeyLedger},
        result::{Measurement, Workload},
    },
    engine::{self, Batch, Engine, Fsync, KeyRange},
    store::pause_aware_clock::EverySecond,
};
use std::{cell::RefCell, ops::ControlFlow, time::Instant};

/// Pairs that an engine should hold, and the syncs of its removals.
pub(super) struct Content<'c> {
    data: &'c Data,
    live: &'c KeyLedger,
    /// `true` if each commit is synced.
    sync: bool,
    /// Time of the next sync under `everysec`; `None` under other policies.
    every_second: RefCell<Option<EverySecond>>,
}

/// A function that removes keys and measures the time.
pub(super) type Remove = fn(&dyn Engine, &Content<'_>, &Workload) -> Result<Measurement, String>;

/// Scans all keys in the engine's order and removes those whose number is in the lower half. Numbers are
/// unrelated to that order, so about every other key is removed, at random.
pub(super) fn retain(
    engine: &dyn Engine,
    content: &Content<'_>,
    workload: &Workload,
) -> Result<Measurement, String> {
    let (first, end) = content.live.range();
    let middle = first.midpoint(end);
    let begin = Instant::now();
    let dropped = content.numbers(engine, |number| number < middle, u64::MAX)?;
    content.delete(engine, &dropped, workload.batch)?;
    let measurement = Measurement { operations: dropped.len() as u64, ..once(begin) };
    while content.live.range().0 < middle && content.live.delete().is_some() {}
    Ok(measurement)
}

/// Removes the first keys in the engine's order, as many as the workload has operations: one scan and one commit for
/// each batch.
pub(super) fn pop(
    engine: &dyn Engine,
    content: &Content<'_>,
    workload: &Workload,
) -> Result<Measurement, String> {
    let wanted = workload.operations.unwrap_or(0).min(content.live.count());
    let begin = Instant::now();
    let mut popped = 0;
    while popped < wanted {
        let some = u64::from(workload.batch).min(wanted - popped);
        let first = content.numbers(engine, |_| true, some)?;
        if first.is_empty() {
            return Err(format!("pop removed {popped} keys, and {wanted} were expected"));
        }
        content.delete(engine, &first, workload.batch)?;
        content.live.mark_removed(&first);
        popped += first.len() as u64;
    }
    Ok(Measurement { operations: popped, ..once(begin) })
}

impl<'c> Content<'c> {
    pub fn new(data: &'c Data, live: &'c KeyLedger, policy: Fsync) -> Self {
        let every_second = (policy == Fsync::EverySec).then(EverySecond::start);
        Self { data, live, sync: policy == Fsync::Always, every_second: RefCell::new(every_second) }
    }

    /// Returns the numbers of the first `most` keys for which `is_meant` returns `true`, in the engine's
    /// order.
    fn numbers(
        &self,
        engine: &dyn Engine,
        is_meant: impl Fn(u64) -> bool,
        most: u64,
    ) -> Result<Vec<u64>, String> {
        let (mut numbers, mut scratch, mut strange) = (Vec::new(), Vec::new(), None);
        let scanned = engine.scan(KeyRange::ALL, &mut |key, _| {
            match self.data.index(key, &mut scratch) {
                Some(number) if is_meant(number) => numbers.push(number),
                Some(_) => {}
                None => strange = Some(key.escape_ascii().to_string()),
            }
            match strange.is_none() && (numbers.len() as u64) < most {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        });
        scanned.map_err(|error| format!("scan: {error}"))?;
        strange.map_or(Ok(numbers), |key| Err(format!("the key {key} is there, but nobody wrote it")))
    }

    fn delete(&self, engine: &dyn Engine, numbers: &[u64], batch: u32) -> Result<(), String> {
        for part in numbers.chunks(batch.max(1) as usize) {
            self.delete_together(engine, part).map_err(|error| format!("write: {error}"))?;
            self.sync_if_due(engine).map_err(|error| format!("sync: {error}"))?;
        }
        Ok(())
    }

    /// Syncs the engine under `everysec` if a second has passed since the previous sync. This thread makes all writes, so
    /// it needs no other one for the syncs.
    fn sync_if_due(&self, engine: &dyn Engine) -> engine::Result<()> {
        let mut every_second = self.every_second.borrow_mut();
        if every_second.as_ref().is_some_and(|schedule| schedule.remaining().is_zero()) {
            engine.sync()?;
            *every_second = Some(EverySecond::start());
        }
        Ok(())
    }

    fn delete_together(&self, engine: &dyn Engine, numbers: &[u64]) -> engine::Result<()> {
        let mut keys = vec![Vec::new(); numbers.len()];
        keys.iter_mut().zip(numbers).for_each(|(key, number)| self.data.key(*number, key));
        let mut batch = Batch::with_capacity(keys.len());
        keys.iter().for_each(|key| batch.delete(key));
        engine.write(&batch, self.sync)
    }
}

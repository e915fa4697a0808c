//! End of a store's cells: compaction, close, and the times to close and to open the store again.

use crate::{
    bench::{
        data::key_ledger::KeyLedger,
        result::{Cell, FileSize, Measurement, Outcome},
        run::{
            disk_usage::Files,
            verification::{Verified, compare_count},
        },
    },
    engine::{Engine, Error},
};
use std::time::Instant;

/// Function that opens the store of a job, for the first time or again.
pub(super) type Open<'s> = &'s dyn Fn() -> Result<Box<dyn Engine>, String>;

/// Compacts the files and opens the store again. Returns the outcome with the time of the compaction, and the opened
/// engine. After a compaction that succeeded, a number of keys other than that of `live` is a fault; an engine that
/// cannot compact is reported as unsupported.
pub(super) fn compact(
    engine: Box<dyn Engine>,
    live: &KeyLedger,
    open: Open<'_>,
) -> Result<(Outcome, Box<dyn Engine>), String> {
    let begin = Instant::now();
    let compacted = engine.compact();
    let mut measurement = once(begin);
    let engine = open().map_err(|error| format!("after the compaction, {error}"))?;
    let outcome = match compacted {
        Err(error @ Error::Unsupported { .. }) => Outcome::Unsupported(error.to_string()),
        Err(error) => {
            measurement.errors = 1;
            measurement.first_fault = Some(format!("compaction: {error}"));
            Outcome::Measured(measurement)
        }
        Ok(()) => {
            compare_count(&mut measurement, &engine.count(), live.count());
            Outcome::Measured(measurement)
        }
    };
    Ok((outcome, engine))
}

/// Result of closing a store and opening it again.
pub(super) struct CloseReport {
    /// Size of the closed files; `None` for a store in memory.
    size: Option<FileSize>,
    close_seconds: f64,
    reopen_seconds: Option<f64>,
    fault: Option<String>,
    verified: Verified,
}

impl CloseReport {
    /// Closes the store and measures the time. A store with files is opened again, to measure that time too and to
    /// compare the number of keys with `live`. `verify` compares the values: of a store with files after it was opened
    /// again, of one in memory before the close.
    pub fn of(
        engine: Box<dyn Engine>,
        live: &KeyLedger,
        files: Option<&Files>,
        open: Open<'_>,
        verify: &dyn Fn(&dyn Engine) -> Verified,
    ) -> Result<Self, String> {
        let words = |error: Error| format!("close: {error}");
        let persistent = !engine.is_memory_only();
        let verified = if persistent { Verified::default() } else { verify(&*engine) };
        let begin = Instant::now();
        engine.close().map_err(words)?;
        drop(engine);
        let close_seconds = begin.elapsed().as_secs_f64();
        let size = files.map(Files::size);
        let mut end = Self { size, close_seconds, reopen_seconds: None, fault: None, verified };
        if persistent {
            let begin = Instant::now();
            let engine = open().map_err(|error| format!("again, {error}"))?;
            let reopen_seconds = begin.elapsed().as_secs_f64();
            // The time to open an empty store says nothing about recovery.
            end.reopen_seconds = (live.count() > 0).then_some(reopen_seconds);
            let keys = engine.count().map_err(|error| format!("opened again, count: {error}"))?;
            if keys != live.count() {
                end.fault = Some(format!(
                    "after it was opened again it has {keys} keys, and {} were expected",
                    live.count()
                ));
            }
            end.verified = verify(&*engine);
            engine.close().map_err(words)?;
        }
        Ok(end)
    }

    /// Adds the results of closing the store and opening it again (times, size, wrong data) to the measurement of a
    /// cell. The size of the closed files is added only if `last` is `true`: no cell was measured between this cell and
    /// the close.
    pub fn add_to(&self, measurement: &mut Measurement, cell: &Cell, last: bool) {
        measurement.close_seconds = Some(self.close_seconds);
        measurement.reopen_seconds = self.reopen_seconds;
        measurement.closed_size = self.size.filter(|_| last);
        // The outcome of a failed write is unknown; the failure is counted already.
        let exact = measurement.errors == 0 && cell.workload.has_exact_keys();
        if let Some(fault) = self.fault.as_ref().filter(|_| exact) {
            measurement.misses += 1;
            measurement.first_fault.get_or_insert_with(|| fault.clone());
        }
        self.verified.add_to(measurement);
    }
}

/// Returns the measurement of a single action, such as a compaction, from `begin` until now. It has no throughput.
pub(super) fn once(begin: Instant) -> Measurement {
    Measurement { operations: 1, seconds: begin.elapsed().as_secs_f64(), ..Measurement::default() }
}

//! What is left of an engine: compacted files, closed files, the time to close and open again.

use crate::{
    bench::{
        data::key_ledger::KeyLedger,
        result::{Cell, FileSize, Measurement, Outcome},
        run::{
            disk::Files,
            verification::{Verified, compare_count},
        },
    },
    engine::{Engine, Error},
};
use std::time::Instant;

/// Opens the store of a job, for the first time or again.
pub(super) type Open<'s> = &'s dyn Fn() -> Result<Box<dyn Engine>, String>;

/// Compacts the files, and opens them again. The keys must still be there.
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

/// What the engine's end has shown.
pub(super) struct CloseReport {
    /// Of its files, where it has any.
    size: Option<FileSize>,
    close_seconds: f64,
    reopen_seconds: Option<f64>,
    fault: Option<String>,
    verified: Verified,
}

impl CloseReport {
    /// Closes the engine. Opens it again where it has files, to see how long that takes and whether the
    /// keys are still there. `verify` looks at the values: of files, after that.
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
            // To open what is empty tells nothing of recovery.
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

    /// Adds it to a cell; the size to those that ran `last`, just before.
    pub fn add_to(&self, measurement: &mut Measurement, cell: &Cell, last: bool) {
        measurement.close_seconds = Some(self.close_seconds);
        measurement.reopen_seconds = self.reopen_seconds;
        measurement.closed_size = self.size.filter(|_| last);
        // A write that failed may or may not be there: it is counted already.
        let exact = measurement.errors == 0 && cell.workload.has_exact_keys();
        if let Some(fault) = self.fault.as_ref().filter(|_| exact) {
            measurement.misses += 1;
            measurement.first_fault.get_or_insert_with(|| fault.clone());
        }
        self.verified.add_to(measurement);
    }
}

/// A step, which took until now. What is done once has no throughput.
pub(super) fn once(begin: Instant) -> Measurement {
    Measurement { operations: 1, seconds: begin.elapsed().as_secs_f64(), ..Measurement::default() }
}

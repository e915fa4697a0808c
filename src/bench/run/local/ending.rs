//! What is left of an engine: the size of its files, compacted files, the time to close and open again.

use crate::{
    bench::{
        data::live::Live,
        result::{Cell, Measurement, Outcome},
        run::verified::Verified,
    },
    engine::{Engine, Error},
};
use std::time::Instant;

/// Opens the store of a job, for the first time or again.
pub(super) type Open<'s> = &'s dyn Fn() -> Result<Box<dyn Engine>, String>;

/// The size of the files at some moment.
pub(super) struct Size {
    bytes: u64,
    /// Keys that were in them.
    live: u64,
}

impl Size {
    /// The size now, with all that is written in the files: an engine may keep unsynced commits to itself.
    pub fn of(engine: &dyn Engine, live: &Live) -> Result<Self, String> {
        let bytes = engine.sync().and_then(|()| engine.disk_size());
        Ok(Self { bytes: bytes.map_err(|error| format!("size on disk: {error}"))?, live: live.count() })
    }

    /// Charges a cell with it, unless it has been charged with an earlier one.
    pub fn charge(&self, measurement: &mut Measurement, cell: &Cell) {
        if !cell.target.persistent || measurement.disk_bytes.is_some() {
            return;
        }
        measurement.disk_bytes = Some(self.bytes);
        let alive = self.live as f64 * cell.workload.pair_bytes();
        measurement.space_amplification = (alive > 0.0).then(|| self.bytes as f64 / alive);
    }
}

/// Compacts the files, and opens them again. The keys must still be there.
pub(super) fn compact(
    engine: Box<dyn Engine>,
    live: &Live,
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
pub(super) struct End {
    size: Size,
    close_seconds: f64,
    reopen_seconds: Option<f64>,
    fault: Option<String>,
    verified: Verified,
}

impl End {
    /// Closes the engine. Opens it again where it has files, to see how long that takes and whether the
    /// keys are still there. `verify` looks at the values: of files, after that.
    pub fn of(
        engine: Box<dyn Engine>,
        live: &Live,
        open: Open<'_>,
        verify: &dyn Fn(&dyn Engine) -> Verified,
    ) -> Result<Self, String> {
        let words = |error: Error| format!("close: {error}");
        let persistent = !engine.is_memory_only();
        // The sync is a part of the close, done before the size is looked at.
        let begin = Instant::now();
        engine.sync().map_err(words)?;
        let synced = begin.elapsed();
        let size = Size::of(&*engine, live)?;
        let verified = if persistent { Verified::default() } else { verify(&*engine) };
        let begin = Instant::now();
        engine.close().map_err(words)?;
        drop(engine);
        let close_seconds = (synced + begin.elapsed()).as_secs_f64();
        let mut end = Self { size, close_seconds, reopen_seconds: None, fault: None, verified };
        if persistent {
            let begin = Instant::now();
            let engine = open().map_err(|error| format!("again, {error}"))?;
            end.reopen_seconds = Some(begin.elapsed().as_secs_f64());
            let keys = engine.count().map_err(words)?;
            if keys != end.size.live {
                end.fault = Some(format!("opened again, it has {keys} keys; {} were there", end.size.live));
            }
            end.verified = verify(&*engine);
            engine.close().map_err(words)?;
        }
        Ok(end)
    }

    pub fn add_to(&self, measurement: &mut Measurement, cell: &Cell) {
        measurement.close_seconds = Some(self.close_seconds);
        measurement.reopen_seconds = self.reopen_seconds;
        self.size.charge(measurement, cell);
        // A write that failed may or may not be there: it is counted already.
        let exact = measurement.errors == 0 && cell.workload.has_exact_keys();
        if let Some(fault) = self.fault.as_ref().filter(|_| exact) {
            measurement.misses += 1;
            measurement.first_fault.get_or_insert_with(|| fault.clone());
        }
        self.verified.add_to(measurement);
    }
}

/// Counts a fault when the engine does not have so many keys as it should.
pub(super) fn compare_count(measurement: &mut Measurement, counted: &Result<u64, Error>, expected: u64) {
    let text = match counted {
        Ok(keys) if *keys == expected => return,
        Ok(keys) => {
            measurement.wrong_values += 1;
            format!("counted {keys} keys, but {expected} are there")
        }
        Err(error) => {
            measurement.errors += 1;
            format!("count: {error}")
        }
    };
    measurement.first_fault.get_or_insert(text);
}

/// A step, which took until now. What is done once has no throughput.
pub(super) fn once(begin: Instant) -> Measurement {
    Measurement { operations: 1, seconds: begin.elapsed().as_secs_f64(), ..Measurement::default() }
}

//! Resources that cells of one step use, and the size of the files that they leave: read around the
//! measurement, between two states in which the store has no deferred work.

use super::{
    disk::Files,
    panics,
    process::{self, Memory, ProcessUsage},
};
use crate::bench::result::{Cell, FileSize, Measurement};
use std::{
    cell::{Cell as Slot, RefCell},
    time::Instant,
};

/// Minimum bytes of keys and values for a write amplification. Below it, the ratio mostly shows constant
/// writes of an engine (a file header, a first page), not the cost of a write.
pub(super) const LEAST_USER_BYTES: u64 = 1 << 20;

/// Makes the store do its deferred work.
pub(super) type Settle<'s> = &'s dyn Fn() -> Result<(), String>;

/// Reads the resources that a process uses during the measurement of some cells.
pub(super) struct Meter<'m> {
    /// Id of the process with the engine, if known.
    pid: Option<u32>,
    /// Files of the store, if known.
    files: Option<&'m Files>,
    settle: Settle<'m>,
    /// Memory of the process without the engine.
    base: Memory,
    before: RefCell<Option<Before>>,
    live: Slot<Option<FileSize>>,
    mapped: Slot<Option<u64>>,
    failure: RefCell<Option<String>>,
}

/// State at the start of the measurement.
struct Before {
    usage: ProcessUsage,
    device_bytes: Option<u64>,
}

/// Resources used by the cells of a step, and sizes of the files.
#[derive(Debug)]
pub(super) struct CellUsage {
    written_bytes: Option<u64>,
    device_bytes: Option<u64>,
    memory: Memory,
    mapped_bytes: Option<u64>,
    live: Option<FileSize>,
    settled: Option<FileSize>,
    settle_seconds: f64,
}

impl<'m> Meter<'m> {
    pub fn new(pid: Option<u32>, files: Option<&'m Files>, settle: Settle<'m>, base: Memory) -> Self {
        Self {
            pid,
            files,
            settle,
            base,
            before: RefCell::default(),
            live: Slot::default(),
            mapped: Slot::default(),
            failure: RefCell::default(),
        }
    }

    /// Returns the resources used so far by the process. The first call is made before the measurement: it
    /// first makes the store do the work deferred by load and warm-up, so that it is not charged to the
    /// cells. The second call is made after the measurement.
    pub fn read(&self) -> ProcessUsage {
        let mut before = self.before.borrow_mut();
        if before.is_some() {
            let usage = self.usage();
            self.live.set(self.files.map(Files::size));
            let mapped = |files: &Files| process::mapped_bytes(self.pid?, files.directory());
            self.mapped.set(self.files.and_then(mapped));
            return usage;
        }
        if let Err(text) = self.settle() {
            self.failure.replace(Some(text));
        }
        self.pid.into_iter().for_each(process::reset_peak);
        let usage = self.usage();
        *before =
            Some(Before { usage: usage.clone(), device_bytes: self.files.and_then(Files::device_bytes) });
        usage
    }

    /// Quiesces the store and returns all resources used since the first reading, including the quiescing.
    /// `after` is the difference of the two readings.
    pub fn finish(self, after: &ProcessUsage) -> Result<CellUsage, String> {
        let begin = Instant::now();
        self.settle()?;
        let settle_seconds = begin.elapsed().as_secs_f64();
        if let Some(text) = self.failure.take() {
            return Err(text);
        }
        let counted = self.files.is_none_or(Files::are_counted);
        let (now, before) = (self.usage(), self.before.take());
        let since = before.as_ref().map(|before| now.since(&before.usage)).unwrap_or_default();
        let device = || {
            let now = self.files?.device_bytes()?;
            Some(now.saturating_sub(before.as_ref()?.device_bytes?))
        };
        let device_bytes = device();
        Ok(CellUsage {
            written_bytes: written(since.written_bytes.filter(|_| counted), device_bytes),
            device_bytes,
            memory: after.memory.beyond(&self.base),
            mapped_bytes: self.mapped.get(),
            live: self.live.get(),
            settled: self.files.map(Files::size),
            settle_seconds,
        })
    }

    fn usage(&self) -> ProcessUsage {
        self.pid.map(ProcessUsage::of).unwrap_or_default()
    }

    fn settle(&self) -> Result<(), String> {
        settle(self.files, self.settle)
    }
}

/// Returns the bytes that a process has written, at most those written to the device. If a file is cached in
/// large folios, the kernel counts a whole folio, up to 2 MiB, for each page of it that becomes dirty.
fn written(process: Option<u64>, device: Option<u64>) -> Option<u64> {
    process.map(|bytes| device.map_or(bytes, |device| bytes.min(device)))
}

/// Makes the store do its deferred work, then the file system.
pub(super) fn settle(files: Option<&Files>, settle: Settle<'_>) -> Result<(), String> {
    let settled = panics::caught(settle).unwrap_or_else(Err);
    settled.map_err(|error| format!("settling: {error}"))?;
    files.map_or(Ok(()), Files::write_back).map_err(|error| format!("settling: syncfs: {error}"))
}

impl CellUsage {
    /// Adds the resources to the measurements of the cells. `alive` is the number of keys in the store.
    pub fn charge(&self, measurements: &mut [Measurement], cells: &[Cell], alive: u64) {
        let user_bytes: u64 = measurements.iter().map(|measurement| measurement.user_bytes).sum();
        for (measurement, cell) in measurements.iter_mut().zip(cells) {
            measurement.peak_memory_bytes = self.memory.peak;
            measurement.anonymous_bytes = self.memory.anonymous;
            if !cell.target.persistent {
                continue;
            }
            measurement.mapped_bytes = self.mapped_bytes;
            measurement.written_bytes = self.written_bytes;
            measurement.device_bytes = self.device_bytes;
            // Writes cannot be attributed to one of several cells; a cell that wrote nothing has no
            // amplification.
            if user_bytes >= LEAST_USER_BYTES && measurement.user_bytes > 0 {
                let times = |bytes| bytes as f64 / user_bytes as f64;
                measurement.write_amplification = self.written_bytes.map(times);
            }
            measurement.settle_seconds = Some(self.settle_seconds);
            measurement.live_size = self.live;
            if let Some(size) = self.settled {
                charge_size(measurement, cell, size, alive);
            }
        }
    }
}

/// Adds the size of quiesced files that hold `alive` keys to a cell's measurement.
pub(super) fn charge_size(measurement: &mut Measurement, cell: &Cell, size: FileSize, alive: u64) {
    measurement.settled_size = Some(size);
    measurement.disk_bytes = Some(size.used_bytes);
    let alive = alive as f64 * cell.workload.pair_bytes();
    measurement.space_amplification = (alive > 0.0).then(|| size.used_bytes as f64 / alive);
}

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(target_os = "linux")]
    use crate::testing::skipping::skip;
    #[cfg(target_os = "linux")]
    use std::{fs::File, os::unix::fs::FileExt};

    /// Linux 6.16 and later count 2 MiB for each of these pages on ext4.
    #[test]
    #[cfg(target_os = "linux")]
    fn a_page_of_a_large_folio_is_no_folio() {
        const PAGE: usize = 4096;
        let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let files = Files::of(directory.path());
        let file = File::create(directory.path().join("pages")).unwrap();
        file.write_all_at(&vec![1; 32 << 20], 0).unwrap();
        files.write_back().unwrap();
        let meter = Meter::new(Some(std::process::id()), Some(&files), &|| Ok(()), Memory::default());
        let before = meter.read();
        (0..16).for_each(|page| file.write_all_at(&[2; PAGE], page << 21).unwrap());
        let after = meter.read().since(&before);
        let used = meter.finish(&after).unwrap();
        let (Some(written), Some(device)) = (used.written_bytes, used.device_bytes) else {
            // Data in memory, or not on a block device of its own.
            let reason = format!("{used:?} does not tell what was written to {}", directory.path().display());
            return skip("a_page_of_a_large_folio_is_no_folio", &reason);
        };
        assert!((16 * PAGE as u64..=device).contains(&written), "{written} of {device}");
    }

    #[test]
    fn bytes_written_are_no_more_than_those_of_the_device() {
        for (process, device, expected) in [
            (Some(2 << 20), Some(4096), Some(4096)),
            (Some(4096), Some(8192), Some(4096)),
            (Some(4096), None, Some(4096)),
            (None, Some(4096), None),
        ] {
            assert_eq!(written(process, device), expected);
        }
    }
}

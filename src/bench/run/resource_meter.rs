//! Resources that cells which run at the same time use, and the size of the files that they leave: read around the
//! measurement, between two states in which the store has no deferred work.

use super::{
    disk_usage::{DeviceTraffic, Files},
    panics,
    process_usage::{self, Memory, ProcessUsage},
};
use crate::bench::result::{Cell, FileSize, Measurement, Operation};
use std::{
    cell::{Cell as Slot, RefCell},
    time::Instant,
};

/// Minimum number of bytes of keys and values written for which a write amplification is reported. Below it, the ratio
/// mostly shows constant writes of an engine (a file header, a first page), not the cost of a write.
pub(in crate::bench) const LEAST_USER_BYTES: u64 = 1 << 20;

/// Function that makes the store do its deferred work; returns the text of an error.
pub(super) type Settle<'s> = &'s dyn Fn() -> Result<(), String>;

/// Reads the resources that a process uses during the measurement of some cells.
pub(super) struct Meter<'m> {
    /// Id of the process in which the engine runs; `None` if unknown.
    pid: Option<u32>,
    /// Files of the store; `None` if it has none, or they are unknown.
    files: Option<&'m Files>,
    settle: Settle<'m>,
    /// Reason why the time to quiesce is not that of the store's own deferred work; `None` if it is.
    not_own_settling: Option<&'static str>,
    /// Memory of the process before it opened the engine, which is subtracted.
    base: Memory,
    before: RefCell<Option<Before>>,
    live: Slot<Option<FileSize>>,
    mapped: Slot<Option<u64>>,
    device: Slot<Option<DeviceTraffic>>,
    /// Bytes and number of the write calls since the start of the measurement that are not the engine's.
    other_writes: Slot<(u64, u64)>,
    failure: RefCell<Option<String>>,
    /// `true` if the store has done deferred work since the start of the measurement ([`Meter::drain`]).
    has_drained: Slot<bool>,
}

/// Reason why the time to quiesce and the size before it are absent after write-back in the course of the measurement.
const WRITTEN_BACK: &str =
    "the store did its deferred work after each of its slices, so little is left for the end";

/// Reason why the time to quiesce is absent for an external server, and for a server of another program.
pub(super) const NOT_AWAITED: &str =
    "kvbench waits only for the deferred work of the kvbench servers that it starts";

/// Reason why the time to quiesce is absent for stores that take turns.
pub(super) const IN_TURNS: &str = "stores that take turns share a file system: the first one to quiesce writes back what all of them have written";

/// Reason why sizes are absent after writes until a time was up.
const TIMED: &str =
    "written until a time was up, so stores have overwritten different amounts of data; see --suite storage";

/// Reason why sizes are absent after a warm-up that replaced values.
const WARMED_UP: &str = "the warm-up updated values until a time was up, so stores have overwritten different amounts of \
                         data; use --warm-up 0, or see --suite storage";

/// Resources used and device traffic up to the start of the measurement.
struct Before {
    usage: ProcessUsage,
    device: Option<DeviceTraffic>,
}

/// Resources used by cells that ran at the same time, and sizes of the store's files.
#[derive(Debug)]
pub(super) struct CellUsage {
    /// Bytes and number of the engine's write calls, or the reason why they are unknown.
    written: Result<(u64, u64), String>,
    device: Option<DeviceTraffic>,
    /// Traffic of the files' own device during the measurement, without that of the quiesce phase after it; `None` if
    /// unknown.
    measured_device: Option<DeviceTraffic>,
    memory: Memory,
    mapped_bytes: Option<u64>,
    live: Option<FileSize>,
    settled: Option<FileSize>,
    /// Time until the store had quiesced, in seconds, or the reason why it is absent.
    settle_seconds: Result<f64, &'static str>,
    /// `true` if the store did its deferred work in the course of the measurement too, after slices.
    is_written_back: bool,
}

impl<'m> Meter<'m> {
    pub fn new(pid: Option<u32>, files: Option<&'m Files>, settle: Settle<'m>, base: Memory) -> Self {
        Self {
            pid,
            files,
            settle,
            not_own_settling: None,
            base,
            before: RefCell::default(),
            live: Slot::default(),
            mapped: Slot::default(),
            device: Slot::default(),
            other_writes: Slot::default(),
            failure: RefCell::default(),
            has_drained: Slot::default(),
        }
    }

    /// Returns this meter, which leaves the time to quiesce out for the given reason, if there is one.
    pub fn without_settle_time(self, not_own_settling: Option<&'static str>) -> Self {
        Self { not_own_settling, ..self }
    }

    /// Returns the resources used so far by the process. The first call is made before the measurement and is the same
    /// as [`Meter::begin`]. Each later call also keeps the file sizes, mapped bytes and device traffic of that moment
    /// for [`Meter::finish`]; the last call is made after the measurement.
    pub fn read(&self) -> ProcessUsage {
        if self.before.borrow().is_none() {
            return self.begin();
        }
        let usage = self.usage();
        self.device.set(self.files.and_then(Files::device_traffic));
        self.live.set(self.files.map(Files::size));
        let mapped = |files: &Files| process_usage::mapped_bytes(self.pid?, files.directory());
        self.mapped.set(self.files.and_then(mapped));
        usage
    }

    /// Makes the store do the work deferred by load and warm-up, so that it is not charged to the cells, and returns
    /// the resources used so far by the process: the measurement begins here. A later call replaces an earlier one.
    pub fn begin(&self) -> ProcessUsage {
        if let Err(text) = self.settle() {
            self.failure.replace(Some(text));
        }
        self.pid.into_iter().for_each(process_usage::reset_peak);
        let usage = self.usage();
        let device = self.files.and_then(Files::device_traffic);
        self.other_writes.set((0, 0));
        self.has_drained.set(false);
        self.before.replace(Some(Before { usage: usage.clone(), device }));
        usage
    }

    /// Excludes a write call of `bytes` bytes, which this process made for the benchmark, from those of the engine.
    pub fn leave_out_write(&self, bytes: u64) {
        let (all, calls) = self.other_writes.get();
        self.other_writes.set((all + bytes, calls + 1));
    }

    /// Quiesces the store and returns the bytes written since [`Meter::begin`], including those of the quiescing, with
    /// the memory in `after` and what the last [`Meter::read`] kept. `after` is the usage during the measurement. Fails
    /// with the text of the error if the store could not be quiesced, now or at the first reading.
    pub fn finish(self, after: &ProcessUsage) -> Result<CellUsage, String> {
        let begin = Instant::now();
        self.settle()?;
        let is_written_back = self.has_drained.get();
        let settle_seconds = match is_written_back.then_some(WRITTEN_BACK).or(self.not_own_settling) {
            Some(reason) => Err(reason),
            None => Ok(begin.elapsed().as_secs_f64()),
        };
        if let Some(text) = self.failure.take() {
            return Err(text);
        }
        let (now, before) = (self.usage(), self.before.take());
        let since = before.as_ref().map(|before| now.since(&before.usage)).unwrap_or_default();
        let from_start =
            |device: Option<DeviceTraffic>| Some(device?.since(before.as_ref()?.device.as_ref()?));
        Ok(CellUsage {
            written: self.written(since.written_bytes.zip(since.write_calls)).map(|(bytes, calls)| {
                let (other_bytes, other_calls) = self.other_writes.get();
                (bytes.saturating_sub(other_bytes), calls.saturating_sub(other_calls))
            }),
            device: from_start(self.files.and_then(Files::device_traffic)),
            measured_device: from_start(self.device.get()),
            memory: after.memory.beyond(&self.base),
            mapped_bytes: self.mapped.get(),
            live: self.live.get(),
            settled: self.files.map(Files::size),
            settle_seconds,
            is_written_back,
        })
    }

    /// Returns the bytes and the number of the engine's write calls, or the reason why they are unknown. `calls` has those
    /// of the process.
    fn written(&self, calls: Option<(u64, u64)>) -> Result<(u64, u64), String> {
        let pid = self.pid.ok_or("the process of the engine is not known")?;
        if pid != std::process::id() {
            return Err(
                "the write calls of a server are also those of its sockets and threads; measure in process"
                    .into(),
            );
        }
        let map = self.files.and_then(|files| process_usage::writable_map(pid, files.directory()));
        if let Some(path) = map {
            return Err(format!("{} is written through a memory map, without write calls", path.display()));
        }
        calls.ok_or_else(|| "this system does not count the bytes of write calls".into())
    }

    fn usage(&self) -> ProcessUsage {
        self.pid.map(ProcessUsage::of).unwrap_or_default()
    }

    fn settle(&self) -> Result<(), String> {
        settle(self.files, self.settle)
    }

    /// Makes the store do its deferred work in the course of the measurement, without writing the dirty pages of its
    /// file system to the device.
    pub fn drain(&self) -> Result<(), String> {
        self.has_drained.set(true);
        drain(self.settle)
    }
}

/// Makes the store do its deferred work, then writes the dirty pages of its file system to the device.
pub(super) fn settle(files: Option<&Files>, settle: Settle<'_>) -> Result<(), String> {
    drain(settle)?;
    files.map_or(Ok(()), Files::write_back).map_err(|error| format!("settling: syncfs: {error}"))
}

fn drain(settle: Settle<'_>) -> Result<(), String> {
    panics::caught(settle).unwrap_or_else(Err).map_err(|error| format!("settling: {error}"))
}

impl CellUsage {
    /// Adds the resources to the measurements of `cells`, in order. `alive` is the number of keys in the store.
    pub fn charge(&self, measurements: &mut [Measurement], cells: &[Cell], alive: u64) {
        let user_bytes: u64 = measurements.iter().map(|measurement| measurement.user_bytes).sum();
        for (measurement, cell) in measurements.iter_mut().zip(cells) {
            measurement.peak_memory_bytes = self.memory.peak;
            measurement.anonymous_bytes = self.memory.anonymous;
            if !cell.target.persistent {
                continue;
            }
            measurement.mapped_bytes = self.mapped_bytes;
            (measurement.written_bytes, measurement.write_calls) = self.written.clone().ok().unzip();
            if let Err(reason) = &self.written {
                measurement.unmeasured.insert("written_bytes".into(), reason.clone());
            }
            measurement.device_bytes = self.device.map(|device| device.written_bytes);
            // Writes cannot be attributed to one of several cells; a cell that wrote nothing has no
            // amplification.
            if user_bytes >= LEAST_USER_BYTES && measurement.user_bytes > 0 {
                let times = |bytes| bytes as f64 / user_bytes as f64;
                measurement.write_amplification = measurement.written_bytes.map(times);
                measurement.device_write_amplification = measurement.device_bytes.map(times);
            }
            let only_gets = cell.workload.kinds().all(|kind| kind == Operation::Get);
            if let Some(device) = self.measured_device.filter(|_| only_gets && cells.len() == 1) {
                let per_get = |count: u64| count as f64 / measurement.operations.max(1) as f64;
                measurement.device_read_bytes_per_get = Some(per_get(device.read_bytes));
                measurement.device_reads_per_get = Some(per_get(device.reads));
            }
            measurement.settle_seconds = self.settle_seconds.ok();
            if let Err(reason) = self.settle_seconds {
                measurement.unmeasured.insert("settle_seconds".into(), reason.into());
            }
            if self.is_written_back {
                measurement.unmeasured.insert("live_bytes".into(), WRITTEN_BACK.into());
            } else {
                measurement.live_size = self.live;
            }
            if let Some(size) = self.settled {
                charge_size(measurement, cell, size, alive);
            }
        }
    }
}

/// Adds the size of the store's files, which were quiesced and hold `alive` keys, and the space amplification to a
/// cell's measurement.
pub(super) fn charge_size(measurement: &mut Measurement, cell: &Cell, size: FileSize, alive: u64) {
    measurement.settled_size = Some(size);
    measurement.disk_bytes = Some(size.used_bytes);
    let alive = alive as f64 * cell.workload.pair_bytes();
    measurement.space_amplification = (alive > 0.0).then(|| size.used_bytes as f64 / alive);
}

/// Removes `disk_bytes` and the space amplification where they cannot be compared between stores: of a cell that writes
/// until a time is up, or whose warm-up replaces values, and of all later cells, because a fast store has written more
/// than a slow one. `cells` used the same files, in this order.
pub(super) fn drop_unequal_sizes<'c>(cells: impl Iterator<Item = (&'c mut Measurement, &'c Cell)>) {
    let mut reason = None;
    for (measurement, cell) in cells {
        let work = &cell.workload;
        let complete = work.operations.is_some_and(|count| measurement.operations >= count);
        let is_timed = (work.seconds.is_some() || cell.together) && !complete;
        let own = match is_timed && work.kinds().any(Operation::writes) {
            true => Some(TIMED),
            false => work.warm_up_updates().then_some(WARMED_UP),
        };
        reason = reason.or(own);
        if let Some(reason) = reason {
            drop_sizes(measurement, reason);
        }
    }
}

/// Removes the sizes of the store's files and the space amplification from a measurement, and gives the reason in their
/// place.
pub(super) fn drop_sizes(measurement: &mut Measurement, reason: &str) {
    (measurement.space_amplification, measurement.settled_size) = (None, None);
    let sizes = [
        ("disk_bytes", measurement.disk_bytes.take().is_some()),
        ("live_bytes", measurement.live_size.take().is_some()),
        ("closed_bytes", measurement.closed_size.take().is_some()),
    ];
    for (metric, _) in sizes.into_iter().filter(|(_, had_one)| *had_one) {
        measurement.unmeasured.insert(metric.into(), reason.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::{
        plan::{options::Options, suites},
        result::Workload,
    };
    #[cfg(target_os = "linux")]
    use std::{fs::File, os::unix::fs::FileExt};

    /// Bytes written by an engine are those of its write calls. Once they were those that the kernel wrote: Linux 6.16
    /// and later count a large folio, up to 2 MiB, for each dirty page, and other programs write to the device too.
    #[test]
    #[cfg(target_os = "linux")]
    fn written_bytes_count_write_calls() {
        const PAGE: usize = 4096;
        let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let files = Files::of(directory.path());
        let file = File::create(directory.path().join("pages")).unwrap();
        file.write_all_at(&vec![1; 32 << 20], 0).unwrap();
        let written = || {
            let meter = Meter::new(Some(std::process::id()), Some(&files), &|| Ok(()), Memory::default());
            let before = meter.read();
            (0..16).for_each(|page| file.write_all_at(&[2; PAGE], page << 21).unwrap());
            let after = meter.read().since(&before);
            let used = meter.finish(&after).unwrap();
            assert_eq!(used.device, None, "the device has other files");
            let written = used.written.unwrap().0;
            assert!(written >= 16 * PAGE as u64, "{written}");
            written
        };
        // Other tests of this process write too, but not always.
        assert!((0..100).any(|_| written() < 16 << 20));
    }

    #[test]
    fn written_bytes_of_a_server_are_left_out() {
        let meter = Meter::new(Some(1), None, &|| Ok(()), Memory::default());
        meter.read();
        let used = meter.finish(&ProcessUsage::default()).unwrap();
        assert!(used.written.unwrap_err().contains("sockets"));
    }

    /// The last slice's deferred work is done before the measurement ends. Without write-back, the dirty pages of all stores
    /// that took turns are written at its end.
    #[test]
    fn time_and_size_before_the_quiescing_are_left_out_in_turns() {
        let options = Options { suite: suites::find("smallnest"), keys: Some(1000), ..Options::default() };
        let cells = suites::plan(&options).unwrap().cells;
        let mut cell = cells[0].clone();
        cell.target.persistent = true;
        let directory = tempfile::tempdir().unwrap();
        let files = Files::of(directory.path());
        let measured = |in_turns, is_written_back: bool| {
            let meter = Meter::new(None, Some(&files), &|| Ok(()), Memory::default());
            let meter = meter.without_settle_time(in_turns);
            meter.read();
            if is_written_back {
                meter.drain().unwrap();
            }
            let after = meter.read();
            let used = meter.finish(&after).unwrap();
            let mut measurement = Measurement::default();
            used.charge(std::slice::from_mut(&mut measurement), std::slice::from_ref(&cell), 1);
            measurement
        };
        for (in_turns, is_written_back, known) in [
            (None, false, [true, true]),
            (Some(IN_TURNS), false, [false, true]),
            (Some(IN_TURNS), true, [false, false]),
        ] {
            let Measurement { settle_seconds, live_size, unmeasured, .. } =
                measured(in_turns, is_written_back);
            assert_eq!([settle_seconds.is_some(), live_size.is_some()], known);
            for (metric, is_known) in ["settle_seconds", "live_bytes"].into_iter().zip(known) {
                assert_eq!(unmeasured.contains_key(metric), !is_known, "{metric}");
            }
        }
    }

    /// The files of redis-server are known, those of an external server are not.
    #[test]
    fn time_of_deferred_work_that_is_not_awaited_is_left_out() {
        let options = Options { suite: suites::find("smallnest"), keys: Some(1000), ..Options::default() };
        let mut cell = suites::plan(&options).unwrap().cells.remove(0);
        cell.target.persistent = true;
        let directory = tempfile::tempdir().unwrap();
        let files = Files::of(directory.path());
        for known in [None, Some(&files)] {
            let meter =
                Meter::new(None, known, &|| Ok(()), Memory::default()).without_settle_time(Some(NOT_AWAITED));
            meter.read();
            let after = meter.read();
            let used = meter.finish(&after).unwrap();
            let mut measurement = Measurement::default();
            used.charge(std::slice::from_mut(&mut measurement), std::slice::from_ref(&cell), 1);
            assert_eq!(measurement.settle_seconds, None);
            assert_eq!(measurement.live_size.is_some(), known.is_some());
            assert_eq!(measurement.unmeasured["settle_seconds"], NOT_AWAITED);
        }
    }

    #[test]
    fn sizes_after_unequal_work_are_dropped_with_those_that_follow() {
        let options = Options { suite: suites::find("smallnest"), keys: Some(1000), ..Options::default() };
        let cells = suites::plan(&options).unwrap().cells;
        // `get`, `getmixed` together with `setmixed`, then `del`: one set of files.
        let group: Vec<_> = cells.iter().filter(|cell| cell.group == cells[1].group).collect();
        let size = Some(FileSize::default());
        let measured = Measurement {
            disk_bytes: Some(1),
            settled_size: size,
            live_size: size,
            closed_size: size,
            operations: 10,
            ..Measurement::default()
        };
        let mut measurements = vec![measured; group.len()];
        drop_unequal_sizes(measurements.iter_mut().zip(group.iter().copied()));
        let names: Vec<_> = group.iter().map(|cell| cell.row.as_str()).collect();
        assert_eq!(names, ["get", "getmixed", "setmixed", "del"]);
        let left = measurements.iter().map(|m| (m.disk_bytes, m.settled_size, m.live_size, m.closed_size));
        let (all, none) = ((Some(1), size, size, size), (None, None, None, None));
        assert_eq!(left.collect::<Vec<_>>(), [all, all, none, none]);
        for metric in ["disk_bytes", "live_bytes", "closed_bytes"] {
            assert!(measurements[3].unmeasured[metric].contains("overwritten"), "{metric}");
        }
    }

    /// The warm-up ends by time, also where the measurement ends by count.
    #[test]
    fn sizes_after_a_warm_up_that_updates_are_dropped() {
        let options = Options { suite: suites::find("smallnest"), keys: Some(1000), ..Options::default() };
        let mut cell = suites::plan(&options).unwrap().cells.remove(0);
        cell.together = false;
        for (kind, warmup_seconds, has_size) in [
            (Operation::Update, 0.0, true),
            (Operation::Update, 0.1, false),
            (Operation::ReadModifyWrite, 0.1, false),
            // The warm-up inserts nothing.
            (Operation::Insert, 0.1, true),
            (Operation::Get, 0.1, true),
        ] {
            cell.workload = Workload { warmup_seconds, ..Workload::of([(kind, 1.0)], 10) };
            let mut measurement =
                Measurement { disk_bytes: Some(1), operations: 10, ..Measurement::default() };
            drop_unequal_sizes(std::iter::once((&mut measurement, &cell)));
            assert_eq!(measurement.disk_bytes.is_some(), has_size, "{kind:?} {warmup_seconds}");
            let reason = measurement.unmeasured.get("disk_bytes");
            assert_eq!(reason.is_some_and(|reason| reason.contains("--warm-up 0")), !has_size, "{reason:?}");
        }
    }
}

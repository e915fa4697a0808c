//! Expected value and allowed range of every metric of a measurement.

#[cfg(test)]
#[path = "expected_ranges_tests.rs"]
mod tests;

use super::{
    checked_metric::{Figure, columns, real},
    experiments::{Experiment, Subject},
    latency_bounds::{self, Turn},
};
use crate::{
    bench::{
        result::{Access, Measurement, Operation, Workload, metric::RECOVERY},
        run::LEAST_USER_BYTES,
    },
    engine::synthetic::calibration::{Call, CallKind, PAGE, PIECE, ProcessMemory, Record, Span},
};
use std::ops::RangeInclusive;

/// Maximum memory in bytes (buffers and stacks of threads) that the harness, or a server, frees at the end of a cell
/// before the engine records the memory of the process.
const FREED_BYTES: f64 = (2 << 20) as f64;
/// Maximum size in bytes of a file system's block map of a file.
const BLOCK_MAP_BYTES: f64 = (256 << 10) as f64;
/// Maximum number of bytes that ext4 writes in addition to the data: first for each sync (one descriptor block and one
/// commit block of the journal, and at most six blocks of metadata: inode, block bitmap, group descriptor, extents,
/// quota, superblock), second in total (these blocks in their places, once they are written back).
const JOURNAL_BYTES: (f64, f64) = ((32 << 10) as f64, (2 << 20) as f64);
/// Maximum number of bytes, and of read requests, by which ext4 looks up where the blocks of a file are: inode,
/// extents, bitmaps and directories, each in a block of its own, and two neighbours of some.
const LOOK_UP: (f64, f64) = ((256 << 10) as f64, 32.0);
/// Largest verified value of any metric, as a multiple of its expected value. A larger value may be possible on a busy
/// machine, but proves too little.
const MOST_VERIFIED: f64 = 10.0;
/// Fraction of the engine's own time, and time in microseconds, whose sum is the maximum by which a verified mean
/// latency, or a percentile up to the 99th, exceeds that time. A larger value is possible, but the time outside the
/// engine was too long for it to prove anything.
const UNDECIDED: (f64, f64) = (0.5, 1000.0);
/// Sum as in [`UNDECIDED`] for the 99.9th percentile and larger latencies, which are often those of a paused machine.
const UNDECIDED_LARGEST: (f64, f64) = (1.0, 10_000.0);
/// Maximum relative error of a latency from a histogram with three significant digits, and of its mean.
const DIGITS: f64 = 0.002;
/// Maximum relative error of a latency from a histogram with two significant digits, such as those of a soak's seconds.
const SECOND_DIGITS: f64 = 0.01;
/// Number of reads, on an idle machine, that may see a value as expired while the engine, which reads the clock at
/// another moment, does not; or the reverse.
const CLOCKS: f64 = 3.0;
/// Time in nanoseconds around the start and the end of a measurement in which the removal of an expired key may or may
/// not be counted.
const REMOVAL_NS: u64 = 50_000_000;
/// Largest time in nanoseconds from the end of a second of a soak to its reading on an idle machine.
const BETWEEN_READINGS_NS: u64 = 20_000_000;
/// Largest relative error of a CPU time that is counted in hundredths of a second, and of the driver's own share of it.
const TICKS: f64 = 0.1;
/// Fraction of the measured time after which the last of several threads may begin: they are woken one after the
/// other.
const LATE: f64 = 0.05;

/// Measurements of an experiment, and the records that the calibration engine wrote.
pub(super) struct Evidence {
    pub measurements: Vec<Measurement>,
    /// One record for each time the engine was open.
    pub records: Vec<Record>,
    /// Time at which the job (all cells of the experiment) had ended, in nanoseconds of the monotonic clock.
    pub end: u64,
}

fn seconds(nanoseconds: u64) -> f64 {
    real(nanoseconds) / 1e9
}

/// Check of the metrics of one cell against the records of the calibration engine.
struct Judge<'e> {
    experiment: &'e Experiment,
    evidence: &'e Evidence,
    measurement: &'e Measurement,
    workload: &'e Workload,
    record: &'e Record,
    /// Record of the next time the engine was open; `None` if it was not opened again.
    again: Option<&'e Record>,
    span: &'e Span,
    /// End of the quiesce phase before the cell, in nanoseconds of the monotonic clock.
    begin: u64,
    is_last: bool,
    figures: Vec<Figure>,
}

/// Returns all checked metrics of an experiment; none if no record of the engine has all of its cells. The engine must
/// have been quiesced before and after each cell.
pub(super) fn judge(experiment: &Experiment, evidence: &Evidence) -> Vec<Figure> {
    if experiment.subject == Subject::Recovery {
        return recovery(experiment, evidence).into_iter().collect();
    }
    // The load may have opened and closed the engine before.
    let with_cells = |record: &Record| record.spans.len() >= 2 * experiment.cells.len();
    let Some(session) = evidence.records.iter().position(with_cells) else { return Vec::new() };
    let Some(record) = evidence.records.get(session) else { return Vec::new() };
    let mut figures = Vec::new();
    for (place, (cell, measurement)) in experiment.cells.iter().zip(&evidence.measurements).enumerate() {
        let (before, span) = (record.spans.get(place * 2), record.spans.get(place * 2 + 1));
        let (Some(before), Some(span)) = (before, span) else { continue };
        let mut judge = Judge {
            experiment,
            evidence,
            measurement,
            workload: &cell.workload,
            record,
            again: evidence.records.get(session + 1),
            span,
            begin: before.settle.1,
            is_last: place + 1 == experiment.cells.len(),
            figures: Vec::new(),
        };
        match experiment.subject {
            Subject::Latency | Subject::Threads => judge.closed_loop(),
            Subject::Tail => judge.tail(),
            Subject::OpenLoop => judge.open_loop(),
            Subject::Window => judge.window(),
            Subject::Overload => judge.overload(),
            Subject::Allocations => judge.allocations(),
            Subject::Instructions => judge.instructions(),
            Subject::Kinds => judge.kinds(),
            Subject::Crowd => judge.crowd(),
            Subject::Groups => judge.groups(),
            Subject::FoundRate => judge.found_rate(),
            Subject::Soak => judge.soak(),
            Subject::TimerSyncs => judge.timer_syncs(),
            Subject::Expiration => judge.expiration(),
            Subject::Processor => judge.processor(),
            Subject::Written => judge.written(),
            Subject::DeviceWrites => judge.device_writes(),
            Subject::DeviceReads => judge.device_reads(),
            Subject::Bytes => judge.all_bytes(),
            // Has no quiesce phase, and is checked above.
            Subject::Recovery => {}
        }
        figures.append(&mut judge.figures);
    }
    figures
}

/// Returns the check of the recovery time: from the start of the last open to the end of the first read. A store that
/// was not killed opens faster than its writes allow. `None` if a record is missing.
fn recovery(experiment: &Experiment, evidence: &Evidence) -> Option<Figure> {
    let (cell, measurement) = experiment.cells.first().zip(evidence.measurements.first())?;
    let (loaded, opened) = (evidence.records.first()?, evidence.records.last()?);
    let mut calls = opened.spans.iter().flat_map(|span| &span.calls);
    let read = calls.next().map_or(opened.close.0, |call| call.end);
    let next = calls.next().map_or(opened.close.0, |call| call.begin);
    let writes = cell.workload.keys + cell.workload.operations.unwrap_or(0);
    let known = real(writes * experiment.truth.replay_us) / 1e6;
    let truth = seconds(read - opened.open.0).max(known);
    let most = seconds(next - loaded.close.1).max(truth);
    let (column, unit, of) = columns().find(|(name, ..)| *name == RECOVERY.name)?;
    Some(Figure {
        workload: cell.workload.name.clone(),
        access: experiment.access,
        column,
        unit,
        truth,
        allowed: truth * (1.0 - DIGITS)..=most * (1.0 + DIGITS),
        decided_to: truth * (1.0 + UNDECIDED.0),
        measured: of(measurement),
    })
}

impl Judge<'_> {
    fn add(&mut self, column: &str, truth: f64, allowed: RangeInclusive<f64>) {
        let Some((name, unit, of)) = columns().find(|(name, ..)| *name == column) else { return };
        self.figures.push(Figure {
            workload: self.workload.name.clone(),
            access: self.experiment.access,
            column: name,
            unit,
            truth,
            decided_to: truth * MOST_VERIFIED,
            allowed,
            measured: of(self.measurement),
        });
    }

    /// Adds the check of the metric named `column`, which must be equal to `truth`, such as a number of bytes or
    /// operations.
    fn exact(&mut self, column: &str, truth: f64) {
        self.add(column, truth, truth..=truth);
    }

    /// Adds the check of the metric named `column`, whose expected value is `least` and whose largest correct value is
    /// `most`. The relative error of histograms ([`DIGITS`]) is allowed beyond both.
    fn between(&mut self, column: &str, least: f64, most: f64) {
        self.add(column, least, least * (1.0 - DIGITS)..=most * (1.0 + DIGITS));
    }

    /// Returns the number of operations that the workload asks for; 0 if it ends by time. The engine may see more,
    /// since a server may read a key before it writes it.
    fn operations(&self) -> f64 {
        real(self.workload.operations.unwrap_or(0))
    }

    /// Returns the operations of all threads of a closed loop, each with its time in the engine and the times before
    /// and after.
    fn turns(&self) -> Vec<Turn> {
        let mut calls = self.span.calls.clone();
        // Over the wire, threads of the server serve the single connection in turn.
        if self.experiment.subject == Subject::Threads {
            calls.sort_by_key(|call| (call.thread, call.begin));
        } else {
            calls.iter_mut().for_each(|call| call.thread = 0);
        }
        let of_thread = |own| latency_bounds::turns(own, self.begin, self.span.settle.0);
        calls.chunk_by(|one, next| one.thread == next.thread).flat_map(of_thread).collect()
    }

    /// Returns the lower and upper bounds of the latency of each operation of an open loop at `rate` operations per
    /// second, in microseconds. Latency counts from the intended start; the first operation does not start before the
    /// quiesce phase ends.
    fn bounds(&self, rate: f64) -> (Vec<f64>, Vec<f64>) {
        let calls = &self.span.calls;
        let next = calls.iter().skip(1).map(|call| call.begin).chain([self.span.settle.0]);
        let first = calls.first().map_or(self.begin, |call| call.begin);
        let mut bounds = (Vec::new(), Vec::new());
        for (number, (call, next)) in (0_u64..).zip(calls.iter().zip(next)) {
            let late = real(number) * 1e9 / rate;
            let (latest, earliest) = (real(first) + late, real(self.begin) + late);
            bounds.0.push((real(call.end) - latest).max(0.0) / 1e3);
            bounds.1.push((real(next) - earliest).max(0.0) / 1e3);
        }
        bounds
    }

    /// Returns lower and upper bounds of the waiting time of each missed operation of an open loop, from its intended
    /// start to the end, in microseconds.
    fn waits(&self) -> (Vec<f64>, Vec<f64>) {
        let (begun, intended) = (self.span.calls.len() as u64, self.intended());
        let (shortest, longest) = self.durations();
        let late = |number: u64| real(number) / self.workload.rate.unwrap_or(1.0);
        let waits = |end: f64| (begun..intended).map(move |number| (end - late(number)).max(0.0) * 1e6);
        (waits(shortest).collect(), waits(longest).collect())
    }

    /// Returns the number of operations of an open loop that should have started in the requested time.
    fn intended(&self) -> u64 {
        (self.workload.rate.unwrap_or(0.0) * self.workload.seconds.unwrap_or(0.0)).round() as u64
    }

    /// Returns the lower and upper bounds of the measured time, in seconds. A requested time is measured to its
    /// end.
    fn durations(&self) -> (f64, f64) {
        let calls = &self.span.calls;
        let first = calls.iter().map(|call| call.begin).min().unwrap_or(0);
        let last = calls.iter().map(|call| call.end).max().unwrap_or(0);
        let asked = self.workload.seconds.unwrap_or(0.0);
        (seconds(last - first).max(asked), seconds(self.span.settle.0 - self.begin).max(asked))
    }

    /// Adds checks of the latency metrics of an open loop: of operations that started, and of those missed in the
    /// requested time.
    fn open_latencies(&mut self) {
        let (mut least, mut most) = self.bounds(self.workload.rate.unwrap_or(1.0));
        let (waited, waited_at_most) = self.waits();
        least.extend(waited);
        most.extend(waited_at_most);
        most.sort_by(f64::total_cmp);
        self.distribution("", least, mean(&most), &|quantile| at(&most, quantile));
    }

    /// Adds checks of the latency metrics of operations of a closed loop: the metrics whose names begin with `name`.
    fn closed_latencies(&mut self, name: &str, turns: &[Turn]) {
        let least = turns.iter().map(|turn| turn.inside).collect();
        let most = |quantile| latency_bounds::largest_at(turns, quantile);
        self.distribution(name, least, latency_bounds::largest_mean(turns), &most);
    }

    /// Adds checks of mean and percentiles of the latency: the metrics whose names begin with `name`. `least` are lower
    /// bounds of each operation in microseconds, `most_mean` and `most_at` the upper bounds of the mean and of a
    /// quantile.
    fn distribution(
        &mut self,
        name: &str,
        mut least: Vec<f64>,
        most_mean: f64,
        most_at: &dyn Fn(f64) -> f64,
    ) {
        least.sort_by(f64::total_cmp);
        self.latency(&format!("{name}mean_us"), mean(&least), most_mean, UNDECIDED);
        for (column, quantile, fewest) in [
            ("p50_us", 0.5, 1),
            ("p90_us", 0.9, 1),
            ("p99_us", 0.99, 1),
            ("p999_us", 0.999, 1000),
            ("max_us", 1.0, 1),
            ("p9999_us", 0.9999, 10_000),
        ] {
            // Results omit the percentile if there are fewer operations.
            if least.len() >= fewest {
                let undecided = if quantile <= 0.99 { UNDECIDED } else { UNDECIDED_LARGEST };
                self.latency(&format!("{name}{column}"), at(&least, quantile), most_at(quantile), undecided);
            }
        }
    }

    /// Adds the check of the latency metric named `column` in microseconds, whose expected value is `least` and whose
    /// largest correct value is `most`. `undecided` is as [`UNDECIDED`].
    fn latency(&mut self, column: &str, least: f64, most: f64, undecided: (f64, f64)) {
        self.between(column, least, most);
        if let Some(figure) = self.figures.last_mut() {
            figure.decided_to = figure.decided_to.min(least * (1.0 + undecided.0) + undecided.1);
        }
    }

    fn closed_loop(&mut self) {
        self.counts(self.operations());
        self.closed_latencies("", &self.turns());
    }

    /// Adds checks of the metrics of a closed loop except the latency percentiles up to the 99th, which other
    /// experiments verify with operations that take longer in the engine than outside it.
    fn tail(&mut self) {
        self.closed_loop();
        self.figures.retain(|figure| !["p50_us", "p90_us", "p99_us"].contains(&figure.column));
    }

    /// Adds checks of the number of operations (expected: `count`), the measured time and the throughput.
    fn counts(&mut self, count: f64) {
        let (least, most) = self.durations();
        self.exact("operations", count);
        self.between("seconds", least, most);
        self.add(
            "throughput_per_second",
            count / least,
            count / most * (1.0 - DIGITS)..=count / least * (1.0 + DIGITS),
        );
    }

    /// Adds checks of the metrics of each kind of operation. The workload must have one thread.
    fn kinds(&mut self) {
        self.counts(self.operations());
        let operations = self.calls_by_operation();
        let calls: Vec<_> = operations.iter().map(|(_, call)| *call).collect();
        let turns = latency_bounds::turns(&calls, self.begin, self.span.settle.0);
        for (name, kind) in [
            ("get ", Operation::Get),
            ("update ", Operation::Update),
            ("insert ", Operation::Insert),
            ("delete ", Operation::Delete),
            ("scan ", Operation::Scan),
            ("read-modify-write ", Operation::ReadModifyWrite),
        ] {
            if !self.workload.mix.contains_key(&kind) {
                continue;
            }
            let kinds = || operations.iter().map(|(found, _)| *found == kind);
            let follows = [false].into_iter().chain(kinds());
            let own: Vec<_> = turns
                .iter()
                .zip(kinds().zip(follows))
                .filter(|(_, (is_own, _))| *is_own)
                .map(|(turn, (_, follows))| Turn { follows, ..*turn })
                .collect();
            self.exact(&format!("{name}count"), real(own.len() as u64));
            self.closed_latencies(name, &own);
        }
    }

    /// Returns each operation of a single thread, from the start of its first call to the end of its last one: a
    /// read-modify-write reads and then writes.
    fn calls_by_operation(&self) -> Vec<(Operation, Call)> {
        let modifies = self.workload.mix.contains_key(&Operation::ReadModifyWrite);
        let mut operations: Vec<(Operation, Call)> = Vec::new();
        for call in &self.span.calls {
            let kind = match call.kind {
                CallKind::Read if modifies => Operation::ReadModifyWrite,
                CallKind::Read => Operation::Get,
                CallKind::Insert => Operation::Insert,
                CallKind::Delete => Operation::Delete,
                CallKind::Scan => Operation::Scan,
                CallKind::Update => {
                    if let Some((_, read)) = operations.last_mut().filter(|_| modifies) {
                        read.end = call.end;
                        continue;
                    }
                    Operation::Update
                }
            };
            operations.push((kind, *call));
        }
        operations
    }

    /// Adds checks of the metrics of threads whose writes are committed in groups. Every thread always has one write in
    /// flight, so the sum of the latencies is known, although the waiting time of each write is not. Adds nothing if
    /// every commit had one write.
    fn groups(&mut self) {
        let count = self.span.calls.len() as u64;
        let commits = self.span.calls.iter().filter_map(|call| call.commit).max().unwrap_or(0);
        if commits >= count {
            return;
        }
        self.counts(real(count));
        self.exact("by kind", real(count));
        self.exact("timeline", real(count));
        self.exact("user_bytes", real(self.span.user_bytes));
        let threads = f64::from(self.workload.threads);
        let each = |seconds: f64| threads * seconds * 1e6 / real(count);
        let truth = each(self.workload.seconds.unwrap_or(0.0));
        let most = each(self.durations().1) * (1.0 + DIGITS);
        self.add("mean_us", truth, truth * (1.0 - LATE)..=most);
    }

    fn open_loop(&mut self) {
        self.counts(self.operations());
        self.open_latencies();
    }

    /// Adds checks of the metrics of an open loop that ends by time. The expected number of operations is that of the
    /// engine's records, since a busy machine may wake the driver too late for the last operation.
    fn window(&mut self) {
        self.counts(real(self.span.calls.len() as u64));
    }

    fn overload(&mut self) {
        let begun = self.span.calls.len() as u64;
        self.counts(real(begun));
        self.exact("unstarted_operations", real(self.intended().saturating_sub(begun)));
        self.open_latencies();
    }

    fn allocations(&mut self) {
        let blocks = self.operations() * real(self.experiment.truth.read_blocks);
        self.exact("allocations", blocks);
        self.exact("allocated_bytes", blocks * real(self.experiment.truth.block_bytes));
    }

    /// Adds the check of the instructions: those of the engine, and at most 1% more for the driver and the engine's records.
    fn instructions(&mut self) {
        let truth = self.operations() * real(self.experiment.truth.read_instructions);
        self.add("instructions", truth, truth..=truth * 1.01);
    }

    fn crowd(&mut self) {
        let count = self.operations();
        self.counts(count);
        self.exact("by kind", count);
        self.exact("timeline", count);
        self.exact("user_bytes", real(self.span.user_bytes));
    }

    /// Adds the check of a rate that was found, whose record is that of the closed loop before the search. The verified rate
    /// is 95% of the highest that was kept; a busy machine keeps a lower one. A stall may have slowed the closed loop, so the
    /// upper bound follows from its shortest operation.
    fn found_rate(&mut self) {
        let calls = &self.span.calls;
        let first = calls.first().map_or(0, |call| call.begin);
        let last = calls.last().map_or(0, |call| call.end);
        let capacity = real(calls.len() as u64) / seconds(last.saturating_sub(first).max(1));
        let shortest = calls.iter().map(|call| call.end - call.begin).min().unwrap_or(0);
        let (truth, most) = (0.95 * capacity, 1.0 / seconds(shortest.max(1)));
        self.add("throughput_per_second", truth, 0.6 * truth..=most);
    }

    /// Adds checks of the series of a soak by one thread: of all its seconds together, or of the last one. Operations at
    /// the end may or may not be counted, because the thread of the readings is woken at another moment.
    fn soak(&mut self) {
        let calls = &self.span.calls;
        let first = calls.first().map_or(0, |call| call.begin);
        let asked = (self.workload.seconds.unwrap_or(0.0) * 1e9) as u64;
        let until = |end: u64| calls.iter().filter(move |call| call.end < end);
        let (surely, maybe) = (first + asked - BETWEEN_READINGS_NS, first + asked);
        let count = |end| real(until(end).count() as u64);
        let (least, counted, all) = (count(surely), count(maybe), real(calls.len() as u64));
        let written =
            |end| PAGE as f64 * real(until(end).filter(|call| call.commit.is_some()).count() as u64);
        let (least_written, all_written) = (written(surely), written(u64::MAX));
        let truth = &self.experiment.truth;
        let (held, mapped) = (real(truth.memory_bytes), real(truth.mapped_bytes));
        let (anonymous, resident) = self.memory_beside();
        let used = real(self.span.used_bytes.0);
        let (begin, end) = self.span.process_cpu_ns;
        let (own_ms, process_ms) = (real(self.span.cpu_ns) / 1e6, real(end - begin) / 1e6);
        let settle = seconds(self.span.settle.1 - self.span.settle.0);
        let (shortest, longest) = self.durations();
        let after = self.record.close.0.saturating_sub(calls.last().map_or(0, |call| call.end));
        let (fastest, slowest) = (all / (shortest + settle), all / (longest + seconds(after)));
        self.exact("operations", all);
        self.between("seconds", shortest, longest);
        self.add("throughput_per_second", fastest, slowest * (1.0 - DIGITS)..=fastest * (1.0 + DIGITS));
        self.add("soak operations", counted, least..=all);
        self.add("soak gauge", counted, least..=all);
        self.add("soak written_bytes", all_written, least_written..=all_written);
        self.add("soak file_bytes", used, used - (all_written - least_written)..=used);
        self.add("soak anonymous_bytes", held, held..=held + anonymous);
        self.add("soak resident_bytes", held + mapped, held + mapped..=held + mapped + resident);
        self.add("soak cpu_ms", own_ms, own_ms * (1.0 - TICKS)..=process_ms * (1.0 + TICKS));
        let turns = self.turns();
        let inside: Vec<f64> = turns.iter().map(|turn| turn.inside).collect();
        let smallest = inside.iter().copied().reduce(f64::min).unwrap_or_default();
        let largest = inside.iter().copied().reduce(f64::max).unwrap_or_default();
        let most = latency_bounds::largest_at(&turns, 1.0) * (1.0 + SECOND_DIGITS);
        self.latency("soak p50_us", smallest, most, UNDECIDED);
        self.latency("soak p99_us", smallest, most, UNDECIDED_LARGEST);
        self.latency("soak max_us", largest, most, UNDECIDED_LARGEST);
    }

    /// Adds the check of the number of syncs by the one-second timer of `everysec`. A sync after the last operation may
    /// or may not be counted.
    fn timer_syncs(&mut self) {
        let last = self.span.calls.last().map_or(0, |call| call.begin);
        let until = |end| {
            let counted = |sync: &&u64| (self.begin..end).contains(*sync);
            real(self.span.syncs.iter().filter(counted).count() as u64)
        };
        let (least, most) = (until(last), until(u64::MAX));
        self.add("timer_syncs", least, least..=most);
    }

    /// Adds checks of the metrics of a workload whose values expire: operations, hits, reads of expired values, removed
    /// keys. Active expiration reads each key before it deletes the key.
    fn expiration(&mut self) {
        self.exact("operations", self.operations());
        let span = self.span;
        let removed = real(span.deletes.len() as u64);
        let absent = real(span.absent) - removed;
        let clocks = self.reads_between_clocks();
        self.add("expired_reads", absent, absent - clocks..=absent + clocks);
        let found = real(span.found);
        self.add("hits", found, found - clocks..=found + clocks);
        let last = span.calls.iter().filter(|call| call.commit.is_none()).map(|call| call.begin).max();
        let measured = self.begin + REMOVAL_NS..last.unwrap_or(0).saturating_sub(REMOVAL_NS);
        let least = real(span.deletes.iter().filter(|end| measured.contains(end)).count() as u64);
        self.add("expired_keys", least, least..=removed);
    }

    /// Returns the number of reads that may see a value as expired while the engine, at another moment, does not, or
    /// the reverse. A key expires at most once in its time to live. So the expected number of reads whose key expires
    /// on the way to the engine or back is at most the time between calls of the engine, divided by the time to live.
    /// Twice that and [`CLOCKS`] are allowed.
    fn reads_between_clocks(&self) -> f64 {
        let between: f64 = self.turns().iter().map(|turn| turn.before).sum();
        CLOCKS + 2.0 * between / (real(self.workload.ttl_ms.unwrap_or(1)) * 1e3)
    }

    fn processor(&mut self) {
        let (begin, end) = self.span.process_cpu_ns;
        let each = |ns: u64| real(ns) / 1e3 / self.operations();
        let (least, most) = (each(self.span.cpu_ns), each(end - begin));
        self.between("cpu_us_per_operation", least, most);
    }

    fn all_bytes(&mut self) {
        self.written();
        self.memory();
        self.sizes();
        self.times();
    }

    fn written(&mut self) {
        let (truth, count) = (&self.experiment.truth, self.operations());
        let user = count * self.workload.pair_bytes();
        let bytes = if truth.write_bytes == 0 { PAGE } else { truth.write_bytes };
        let written = count * real(bytes + truth.overwrite_bytes + truth.debt_bytes);
        self.exact("operations", count);
        self.exact("user_bytes", user);
        // A server's write calls are also those of its sockets, so its results have none.
        if self.experiment.access == Access::InProcess {
            self.exact("written_bytes", written);
            // Each commit has one operation; deferred work is done at once, in pieces.
            let commit = if truth.overwrite_bytes > 0 { 2.0 } else { 1.0 };
            let deferred = (count * real(truth.debt_bytes) / real(PIECE as u64)).ceil();
            self.exact("write_calls", count * commit + deferred);
            if user >= real(LEAST_USER_BYTES) {
                self.exact("write_amplification", written / user);
            }
        }
    }

    /// Adds checks of the metrics of synced writes to a block device that only this cell uses: each is written at once,
    /// with the journal.
    fn device_writes(&mut self) {
        self.written();
        let truth = &self.experiment.truth;
        let (count, user) = (self.operations(), self.operations() * self.workload.pair_bytes());
        let written = count * real(truth.write_bytes + truth.overwrite_bytes);
        let (each, beside) = JOURNAL_BYTES;
        let most = written + count * each + beside;
        self.add("device_bytes", written, written..=most);
        self.add("device_write_amplification", written / user, written / user..=most / user);
    }

    /// Adds checks of the metrics of reads from a block device that only this cell uses. With limited memory, the page
    /// cache may have as much of the file when it is read a second time as fits into the limit.
    fn device_reads(&mut self) {
        let (truth, count) = (&self.experiment.truth, self.operations());
        let (bytes, places) = (real(truth.read_bytes), real(truth.read_file_bytes / truth.read_bytes.max(1)));
        let fits =
            self.experiment.memory_limit.map_or(0.0, |limit| real(limit) / real(truth.read_file_bytes));
        let least = if count > places { places + (count - places) * (1.0 - fits) } else { count } / count;
        let (look_up, requests) = LOOK_UP;
        self.exact("operations", count);
        self.add("device_read_bytes_per_get", bytes, bytes * least..=bytes + look_up / count);
        self.add("device_reads_per_get", 1.0, least..=1.0 + requests / count);
    }

    /// Adds checks of the metrics of memory. Beside the engine's, the process has memory of the harness, or of a server
    /// and its program: what is resident when the engine looks, at the end of the cell.
    fn memory(&mut self) {
        let truth = &self.experiment.truth;
        let (held, mapped) = (real(truth.memory_bytes), real(truth.mapped_bytes));
        let peak = held + mapped + real(truth.surge_bytes);
        let (anonymous, resident) = self.memory_beside();
        self.add("anonymous_bytes", held, held..=held + anonymous);
        self.exact("mapped_bytes", mapped);
        self.add("peak_memory_bytes", peak, peak..=peak + resident);
    }

    /// Returns the largest anonymous and the largest resident memory, in bytes, that the process may have beside the
    /// engine's.
    fn memory_beside(&self) -> (f64, f64) {
        let truth = &self.experiment.truth;
        let (held, mapped) = (real(truth.memory_bytes), real(truth.mapped_bytes));
        // In process, what the process had before it first opened the engine is not measured.
        let first = self.evidence.records.first().unwrap_or(self.record).memory;
        let before = if self.experiment.access == Access::Wire { ProcessMemory::default() } else { first };
        let now = self.span.memory;
        let beside =
            |now: u64, before: u64, own: f64| (real(now) - real(before) - own).max(0.0) + FREED_BYTES;
        (beside(now.anonymous, before.anonymous, held), beside(now.resident, before.resident, held + mapped))
    }

    fn sizes(&mut self) {
        let truth = &self.experiment.truth;
        let Span { length_bytes: length, used_bytes: used, .. } = self.span;
        let settled = real(used.1);
        // Writes since the reservation went into the reserved space.
        let rest = real(truth.reserved_bytes) - self.operations() * real(truth.write_bytes);
        let reserved = real(used.0) + rest;
        let closed = settled - real(truth.settled_bytes - truth.closed_bytes);
        self.exact("live_bytes", real(used.0));
        self.exact("live length", real(length.0));
        self.add("live blocks", reserved, reserved..=reserved + BLOCK_MAP_BYTES);
        self.exact("disk_bytes", settled);
        self.exact("settled length", real(length.1));
        self.add("settled blocks", settled, settled..=settled + BLOCK_MAP_BYTES);
        self.exact("space_amplification", settled / real(self.span.alive_bytes));
        if self.is_last {
            self.exact("closed_bytes", closed);
            self.exact("closed length", closed);
        }
    }

    /// Adds checks of the times of the load, the quiesce phase, the close and the reopening.
    fn times(&mut self) {
        let (record, span) = (self.record, self.span);
        let spans = &record.spans;
        let first = self.evidence.records.first();
        if let Some((opened, load)) = first.and_then(|first| Some((first.open.1, first.spans.first()?))) {
            let begin = load.calls.first().map_or(0, |call| call.begin);
            let end = load.calls.last().map_or(0, |call| call.end);
            self.between("load_seconds", seconds(end - begin), seconds(load.settle.0 - opened));
        }
        let after = spans.iter().map(|span| span.settle.0).find(|begin| *begin > span.settle.1);
        let worked = span.calls.last().map_or(0, |call| call.end);
        let most = seconds(after.unwrap_or(record.close.0) - worked);
        self.between("settle_seconds", seconds(span.settle.1 - span.settle.0), most);
        let (close, settled) = (record.close, spans.last().map_or(0, |span| span.settle.1));
        let again = self.again;
        let closed = again.map_or(self.evidence.end, |again| again.open.0);
        self.between("close_seconds", seconds(close.1 - close.0), seconds(closed - settled));
        if let Some(again) = again {
            // Over the wire this is the start of a server: from the end of the previous one until the new one
            // replies.
            let open = again.open;
            let first = again.spans.first().and_then(|span| span.calls.first());
            let used = first.map_or(again.close.0, |call| call.begin);
            self.between("reopen_seconds", seconds(open.1 - open.0), seconds(used - close.1));
        }
    }
}

/// Returns the mean of `values`, 0 without any.
fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / real(values.len().max(1) as u64)
}

/// Returns the value at a quantile (0 to 1) of sorted values, by the same rule as a histogram: the smallest one that at
/// least this fraction of the values do not exceed.
fn at(sorted: &[f64], quantile: f64) -> f64 {
    let rank = (quantile * real(sorted.len() as u64)).ceil().max(1.0);
    sorted.get(rank as usize - 1).copied().unwrap_or_default()
}

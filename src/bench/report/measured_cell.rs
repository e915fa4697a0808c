//! Cell of a report with its measurements.

use super::soak_notes;
use crate::{
    bench::result::{
        Cell, CellKind, Measurement, Operation, Outcome, Run, harness_share, histogram,
        interleaved_comparison::Comparison,
        metric::{Better, Metric, P99, P999},
        number_format::{self, ratio_words},
        spread::Spread,
    },
    engine::{Compression, ReadAhead, synthetic},
};
use std::collections::{BTreeMap, BTreeSet};

/// Source of a cell's repetitions: the run and, if stores took turns, the interleaved comparison in it; both by address.
pub type Source = (*const Run, Option<*const Comparison>);

/// Cell of a report (one store, one workload, one setting) with its measurements.
pub struct Entry<'a> {
    /// Run to which the cell belongs.
    pub run: &'a Run,
    /// Description of the cell.
    pub cell: &'a Cell,
    /// Number, from 0, of the group of runs that were made by the same program on the same machine and have no cell in
    /// common.
    pub group: usize,
    /// Row and column of the cell in its table, both from 0.
    pub place: (usize, usize),
    /// Validity of the measurements.
    pub state: State,
    /// `true` if another cell ran at the same time on the same store.
    pub concurrent: bool,
    /// Numbers of the cell's footnotes in its table, from 1.
    pub notes: Vec<usize>,
    /// Measurements of the cell by repetition, without those that other programs disturbed unless all were disturbed;
    /// empty unless `state` is [`State::Sound`].
    measurements: BTreeMap<u32, &'a Measurement>,
}

/// Validity of a cell's measurements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// All measurements of the cell so far are valid, and there is at least one.
    Sound,
    /// A measurement failed (reason), so none of the cell's metrics is shown.
    Faulty(String),
    /// The store does not support the workload (reason).
    Unsupported(String),
    /// The cell has no measurement.
    Missing,
}

impl State {
    /// Returns the text that replaces a missing metric: "failed", "n/a" or the like.
    pub fn without_figure(&self) -> &'static str {
        match self {
            Self::Sound => "\u{2013}",
            Self::Faulty(_) => "failed",
            Self::Unsupported(_) => "n/a",
            Self::Missing => "not measured",
        }
    }
}

impl<'a> Entry<'a> {
    /// Collects the valid measurements of `cell` from `run` and determines their state. `place` is row and column in
    /// the table.
    pub fn new(run: &'a Run, cell: &'a Cell, group: usize, place: (usize, usize)) -> Self {
        let outcomes = || run.samples.iter().filter(|sample| sample.cell == cell.id).map(|s| &s.outcome);
        let measurements: BTreeMap<_, _> = run.by_repetition(&cell.id).collect();
        let state = match (outcomes().find_map(fault), run.unsupported(&cell.id)) {
            (Some(fault), _) => State::Faulty(fault),
            (None, Some(reason)) => State::Unsupported(reason.to_owned()),
            (None, None) if measurements.is_empty() => State::Missing,
            (None, None) => State::Sound,
        };
        // Valid repetitions of a cell with a failed one are dropped: an engine that sometimes fails must not
        // rank as fast.
        let measurements = if state == State::Sound { measurements } else { BTreeMap::new() };
        let concurrent = concurrent(run, cell);
        Self { run, cell, group, place, state, concurrent, notes: Vec::new(), measurements }
    }

    /// Returns the name of the store for charts and tables, with its side in a duel ("old" or "new"), its compression,
    /// and "read-ahead" if the run switched that on.
    pub fn label(&self) -> String {
        let target = &self.cell.target;
        let compression = (target.compression != Compression::None).then_some(target.compression.as_str());
        let read_ahead = (target.read_ahead == Some(ReadAhead::On)).then_some("read-ahead");
        let store = target.store_and_side();
        [Some(store.as_str()), compression, read_ahead].into_iter().flatten().collect::<Vec<_>>().join("/")
    }

    /// Returns the larger of the planned sizes of the data (keys and values) before and after the cell, in bytes.
    #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
    pub fn data_bytes(&self) -> f64 {
        let before = self.group_cells().take_while(|cell| cell.id != self.cell.id);
        let (found, left) = Keys::after(before).and(self.cell);
        found.max(left) as f64 * self.cell.workload.pair_bytes()
    }

    /// Returns the planned size of all keys and values when the store of this cell is closed, in bytes.
    #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
    pub fn left_bytes(&self) -> f64 {
        Keys::after(self.group_cells()).left as f64 * self.cell.workload.pair_bytes()
    }

    /// Returns `true` if the store keeps all its data in memory, so that the page cache has no effect. Also `true` for
    /// a server of which it is not known whether it has files.
    pub fn holds_all(&self) -> bool {
        let target = &self.cell.target;
        let info = synthetic::info(&target.store).filter(|_| target.address.is_none());
        !target.persistent || info.is_some_and(|info| info.capabilities.memory_resident)
    }

    /// Returns the memory that the store may use, in bytes: that of `--memory-limit` or of the machine; `None` for an
    /// external server, whose memory is not known.
    pub fn memory_bytes(&self) -> Option<u64> {
        self.run.environment.usable_memory_bytes().filter(|_| self.cell.target.address.is_none())
    }

    /// Returns `true` if the data (keys and values) exceed the memory that the store may use.
    #[expect(clippy::cast_precision_loss, reason = "three digits suffice")]
    pub fn exceeds_memory(&self) -> bool {
        self.memory_bytes().is_some_and(|memory| self.data_bytes() > memory as f64)
    }

    /// Returns `true` if the cell, or a cell that ran at the same time, writes. Only then does the loss bound of
    /// the store matter: reads lose nothing.
    pub fn may_lose(&self) -> bool {
        self.concurrent || self.cell.workload.writes()
    }

    /// Returns the median and range of a metric over the cell's repetitions, or `None` if it was not measured or the
    /// cell failed.
    pub fn spread(&self, measure: &Metric) -> Option<Spread> {
        self.spread_of(measure.of)
    }

    /// Returns the median and range, over the repetitions, of a value computed from each measurement, or `None` if it
    /// was not measured or the cell failed.
    pub fn spread_of(&self, figure: impl Fn(&Measurement) -> Option<f64>) -> Option<Spread> {
        Spread::of(self.measurements.values().filter_map(|measurement| figure(measurement)))
    }

    /// Returns the value of a metric for each repetition that has it; empty if the cell failed.
    pub fn by_repetition(&self, measure: &Metric) -> BTreeMap<u32, f64> {
        let figure = |(repetition, measurement): (&u32, &&Measurement)| {
            Some((*repetition, (measure.of)(measurement)?))
        };
        self.measurements.iter().filter_map(figure).collect()
    }

    /// Returns the source of the cell's repetitions. Those of different sources are not pairs.
    pub fn source(&self) -> Source {
        let comparison = self.run.comparison(&self.cell.id).map(std::ptr::from_ref);
        (std::ptr::from_ref(self.run), comparison)
    }

    /// Returns the natural logarithm of a metric for each repetition that has a positive value, negated if lower values
    /// are better; empty if the cell failed.
    pub fn scores(&self, measure: &Metric) -> BTreeMap<u32, f64> {
        let sign = if measure.better == Better::Higher { 1.0 } else { -1.0 };
        let values = self.by_repetition(measure).into_iter().filter(|(_, value)| *value > 0.0);
        values.map(|(repetition, value)| (repetition, sign * value.ln())).collect()
    }

    /// Returns `true` if the cell was measured with a cold cache: the store's files were not in the page
    /// cache at the start (`--cold`).
    pub fn is_cold(&self) -> bool {
        self.run.environment.cold.is_some()
    }

    /// Returns latency percentiles over all repetitions together, in microseconds, and the number of
    /// operations behind them, or `None` if a measurement has no histogram.
    pub fn percentiles(&self, quantiles: &[f64]) -> Option<(Vec<f64>, u64)> {
        let texts = self.measurements.values().map(|measurement| measurement.latency.histogram.as_deref());
        let sum = histogram::merged(texts)?;
        #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
        let at = |quantile: &f64| sum.value_at_quantile(*quantile) as f64 / 1e3;
        Some((quantiles.iter().map(at).collect(), sum.len()))
    }

    /// Returns the 99th percentile of the latency as text; with a cold cache the 99.9th, if it was measured, because most
    /// of the time may be that of few operations, which wait for the device. `None` without a latency.
    pub fn tail_words(&self) -> Option<String> {
        let words = |name: &str, measure: &Metric| {
            let value = number_format::short(measure.unit, self.spread(measure)?.median);
            Some(format!("{name} {value}"))
        };
        let rare = self.is_cold().then(|| words("p99.9", &P999)).flatten();
        rare.or_else(|| words("p99", &P99))
    }

    /// Returns the number of repetitions whose measurement counts: those that other programs did not disturb, or all if
    /// each was disturbed; 0 if the cell failed.
    pub fn samples(&self) -> usize {
        self.measurements.len()
    }

    /// Returns the measurement of the repetition with the median throughput, for data that have no median, such as a
    /// timeline; `None` if the cell has none.
    pub fn typical(&self) -> Option<&'a Measurement> {
        let mut sorted: Vec<_> = self.measurements.values().copied().collect();
        sorted.sort_by(|a, b| a.throughput.total_cmp(&b.throughput));
        sorted.get(sorted.len().saturating_sub(1) / 2).copied()
    }

    /// Returns `true` if the size on disk is shown for this cell of a persistent store. The cells of a
    /// group share one set of files, so only the group's cells of kind `DiskSize` show it or, without such a
    /// cell, the first cell.
    pub fn shows_size(&self) -> bool {
        let measures = |cell: &Cell| cell.workload.step == CellKind::DiskSize;
        self.cell.target.persistent
            && (self.cell.group.is_none()
                || measures(self.cell)
                || (!self.group_cells().any(measures)
                    && self.group_cells().next().is_some_and(|first| first.id == self.cell.id)))
    }

    /// Returns `true` if the space amplification of this cell characterises the store. In a group it does not if a
    /// cell of the group deletes keys, because then the remaining live data are an arbitrary rest; a cell of kind
    /// `DiskSize` is an exception.
    pub fn shows_space_amplification(&self) -> bool {
        let deletes = |cell: &Cell| cell.workload.kinds().any(|kind| kind == Operation::Delete);
        self.shows_size()
            && (self.cell.group.is_none()
                || self.cell.workload.step == CellKind::DiskSize
                || !self.group_cells().any(deletes))
    }

    /// Returns `true` if the cell, or another cell that uses the same files, overwrites or deletes values.
    pub fn overwrites(&self) -> bool {
        let of = |kind| matches!(kind, Operation::Update | Operation::ReadModifyWrite | Operation::Delete);
        self.group_cells().any(|cell| cell.workload.kinds().any(of))
    }

    /// Returns the cells that use the same files as this cell, itself included, in the order of the run.
    fn group_cells(&self) -> impl Iterator<Item = &'a Cell> {
        let alone = self.cell.group.is_none();
        let same = move |other: &&Cell| match alone {
            true => other.id == self.cell.id,
            false => other.group == self.cell.group,
        };
        self.run.cells.iter().filter(same)
    }

    /// Returns the texts of the footnotes about the cell's measurements.
    pub fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        if let State::Faulty(fault) = &self.state {
            remarks.push(format!("{}: {fault}", self.cell.id));
        }
        if let State::Unsupported(reason) = &self.state {
            remarks.push(format!("n/a: {reason}."));
        }
        let wanted = usize::try_from(self.run.repetitions_of(&self.cell.id)).unwrap_or(usize::MAX);
        let found = self.run.samples.iter().filter(|sample| sample.cell == self.cell.id).count();
        if self.state == State::Sound && found < wanted {
            remarks.push(format!("{found} of {wanted} repetitions so far."));
        }
        if let Some(part) = self.run.disturbed_part(&self.cell.id) {
            let percent = part * 100.0;
            remarks.push(format!(
                "Other programs or virtual machines used {percent:.0}% of the CPUs or more in each repetition."
            ));
        }
        let soak = self.typical().and_then(soak_notes::sentence);
        remarks.extend(soak.map(|sentence| format!("Soak: {sentence}.")));
        let search = self.typical().and_then(soak_notes::search_sentence);
        remarks.extend(search.map(|sentence| format!("Rate: {sentence}.")));
        if self.measurements.values().any(|measurement| measurement.near_floor == Some(true)) {
            remarks.push(harness_share::NEAR_FLOOR.into());
        }
        remarks
            .extend(self.measurements.values().flat_map(|measurement| measurement.warnings.iter().cloned()));
        remarks.extend(self.unmeasured());
        remarks
    }
}

impl Entry<'_> {
    /// Returns a footnote for each reason why metrics of the cell are absent, which names them.
    fn unmeasured(&self) -> Vec<String> {
        let mut metrics: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (metric, reason) in self.measurements.values().flat_map(|measurement| &measurement.unmeasured) {
            metrics.entry(reason).or_default().insert(metric);
        }
        let note = |(reason, metrics): (&str, BTreeSet<&str>)| {
            format!("No {}: {reason}.", metrics.into_iter().collect::<Vec<_>>().join(", "))
        };
        metrics.into_iter().map(note).collect()
    }

    /// Returns the median rate, in operations per second, without the write-back after the slices of an interleaved
    /// comparison; `None` if the cell is in no interleaved comparison, if no write-back followed its slices, or if the cell
    /// has no valid measurement.
    pub fn rate_without_write_back(&self) -> Option<f64> {
        let comparison = self.run.comparison(&self.cell.id).filter(|_| self.state == State::Sound)?;
        let store = comparison.cells.iter().position(|id| *id == self.cell.id)?;
        let blocks = comparison.blocks.iter().filter(|block| block.has_write_back());
        let rates = blocks.filter_map(|block| comparison.rate_without_write_back(block, store));
        Some(Spread::of(rates)?.median)
    }
}

/// Planned number of keys in the course of a group of cells.
struct Keys {
    left: u64,
    loaded: bool,
}

impl Keys {
    /// Returns the planned number of keys after `cells`, which are the first cells of a group.
    fn after<'c>(cells: impl Iterator<Item = &'c Cell>) -> Self {
        let start = Self { left: 0, loaded: false };
        cells.fold(start, |keys, cell| Self { left: keys.and(cell).1, loaded: true })
    }

    /// Returns the numbers of keys that are planned to exist before and after `cell`, the next cell of the group.
    fn and(&self, cell: &Cell) -> (u64, u64) {
        let work = &cell.workload;
        // The keys of the first cell are loaded; later cells start with the keys that the cells before them
        // left.
        let found = if self.loaded { self.left } else { work.keys };
        let does = |kind| {
            work.step == CellKind::Operations && !work.is_steady() && work.kinds().any(|one| one == kind)
        };
        let count = work.operations.unwrap_or(0);
        let left = match work.step {
            CellKind::Retain => found.div_ceil(2),
            CellKind::Pop => found.saturating_sub(count),
            _ if does(Operation::Insert) => found + count,
            _ if does(Operation::Delete) => found.saturating_sub(count),
            _ => found,
        };
        (found, left)
    }
}

/// Returns the text that compares the largest data of `entries` with the engines' cache and the memory; empty
/// without entries. Metrics are hard to interpret without it.
pub fn ratio(entries: &[Entry<'_>]) -> String {
    let Some(entry) = entries.iter().max_by(|a, b| a.data_bytes().total_cmp(&b.data_bytes())) else {
        return String::new();
    };
    let target = &entry.cell.target;
    let cache = Some(target.cache_bytes).filter(|_| target.address.is_none());
    ratio_words(entry.data_bytes(), cache, entry.memory_bytes())
}

/// Returns how the operations of `entries` start, without which their latencies cannot be understood; empty if none of
/// them has operations.
pub fn pacing(entries: &[Entry<'_>]) -> &'static str {
    let works = entries.iter().map(|entry| &entry.cell.workload);
    let timed: Vec<_> = works.filter(|work| work.step == CellKind::Operations).collect();
    let paced = timed.iter().filter(|work| work.rate.is_some() || work.rate_goal.is_some()).count();
    match paced {
        _ if timed.is_empty() => "",
        0 => "closed loop: each store at its own highest rate",
        all if all == timed.len() => "open loop: at a given rate",
        _ => "open loop where a rate is given, otherwise each store at its own highest rate",
    }
}

/// Returns a sentence about those of `cells` of which other programs disturbed every repetition, or `None` if there are
/// none.
pub fn disturbed<'c>(cells: impl Iterator<Item = (&'c Run, &'c Cell)>) -> Option<String> {
    let parts: Vec<_> = cells.map(|(run, cell)| run.disturbed_part(&cell.id)).collect();
    let most = parts.iter().flatten().copied().reduce(f64::max)?;
    Some(format!(
        "Other programs or virtual machines disturbed every repetition of {} of {} cells: they used up to {:.0}% of the \
         CPUs in the least disturbed one.",
        parts.iter().flatten().count(),
        parts.len(),
        most * 100.0
    ))
}

/// Returns `true` if `cell` ran at the same time as another cell. `together` is set for all concurrent cells
/// but the first, which is recognised by the cell after it.
fn concurrent(run: &Run, cell: &Cell) -> bool {
    let after = run.cells.iter().skip_while(|other| other.id != cell.id).nth(1);
    cell.together || after.is_some_and(|next| next.together)
}

/// Returns the reason why a repetition failed, which invalidates its whole cell; `None` if it did not fail.
fn fault(outcome: &Outcome) -> Option<String> {
    match outcome {
        Outcome::Failed(reason) => Some(reason.clone()),
        Outcome::Unsupported(_) => None,
        Outcome::Measured(measurement) if measurement.is_sound() => None,
        Outcome::Measured(m) if m.operations == 0 && m.errors + m.misses + m.wrong_values == 0 => {
            Some("no operation ended in the measured time".to_owned())
        }
        Outcome::Measured(m) => Some(format!(
            "{} errors, {} misses, {} wrong values; the first: {}",
            m.errors,
            m.misses,
            m.wrong_values,
            m.first_fault.as_deref().unwrap_or("not recorded")
        )),
    }
}

//! A cell of a report and what was measured of it.

use crate::{
    bench::result::{
        Cell, CellKind, Measurement, Operation, Outcome, Run, histogram, metric::Metric,
        number_format::ratio_words, spread::Spread, validity,
    },
    engine::synthetic,
};
use std::collections::BTreeMap;

/// A cell and what was measured of it.
pub struct Entry<'a> {
    /// The run it is of.
    pub run: &'a Run,
    /// The cell.
    pub cell: &'a Cell,
    /// Runs with the same number were made by the same program on the same machine.
    pub group: usize,
    /// Row and column, from 0.
    pub place: (usize, usize),
    /// Whether it has figures.
    pub state: State,
    /// Whether another cell ran at the same time.
    pub concurrent: bool,
    /// Its footnotes.
    pub notes: Vec<usize>,
    /// By repetition.
    measurements: BTreeMap<u32, &'a Measurement>,
}

/// Whether a cell has figures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It has, and they can be trusted.
    Sound,
    /// An operation did not do what it should, so none of its figures means anything.
    Faulty(String),
    /// The target has no such thing.
    Unsupported(String),
    /// Nothing was measured.
    Missing,
}

impl State {
    /// What stands where a figure would.
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
    /// A cell of a run, at its place.
    pub fn new(run: &'a Run, cell: &'a Cell, group: usize, place: (usize, usize)) -> Self {
        let outcomes = || run.samples.iter().filter(|sample| sample.cell == cell.id).map(|s| &s.outcome);
        let measurements: BTreeMap<_, _> = run.by_repetition(&cell.id).collect();
        let state = match (outcomes().find_map(fault), run.unsupported(&cell.id)) {
            (Some(fault), _) => State::Faulty(fault),
            (None, Some(reason)) => State::Unsupported(reason.to_owned()),
            (None, None) if measurements.is_empty() => State::Missing,
            (None, None) => State::Sound,
        };
        // Sound repetitions beside a faulty one are dropped: the engine that sometimes errs is not fast.
        let measurements = if state == State::Sound { measurements } else { BTreeMap::new() };
        let concurrent = concurrent(run, cell);
        Self { run, cell, group, place, state, concurrent, notes: Vec::new(), measurements }
    }

    /// What is measured, as charts and answers call it.
    pub fn label(&self) -> String {
        let target = &self.cell.target;
        match target.compression.as_str() {
            "none" | "" => target.store.clone(),
            compression => format!("{}/{compression}", target.store),
        }
    }

    /// Bytes of all keys and values that it works on.
    #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
    pub fn data_bytes(&self) -> f64 {
        let before = self.group_cells().take_while(|cell| cell.id != self.cell.id);
        let (found, left) = Keys::after(before).and(self.cell);
        found.max(left) as f64 * self.cell.workload.pair_bytes()
    }

    /// Bytes of all keys and values that are there when its store is closed.
    #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
    pub fn left_bytes(&self) -> f64 {
        Keys::after(self.group_cells()).left as f64 * self.cell.workload.pair_bytes()
    }

    /// Whether the store keeps all its data in memory, where no page cache has a part in it.
    pub fn holds_all(&self) -> bool {
        let target = &self.cell.target;
        let info = synthetic::info(&target.store).filter(|_| target.address.is_none());
        !target.persistent || info.is_some_and(|info| info.family.is_in_memory())
    }

    /// A figure over the repetitions, where it was measured and can be trusted.
    pub fn spread(&self, measure: &Metric) -> Option<Spread> {
        self.spread_of(measure.of)
    }

    /// The same of a figure that is no measure of its own.
    pub fn spread_of(&self, figure: impl Fn(&Measurement) -> Option<f64>) -> Option<Spread> {
        Spread::of(self.measurements.values().filter_map(|measurement| figure(measurement)))
    }

    /// A figure by repetition, where it was measured and can be trusted.
    pub fn by_repetition(&self, measure: &Metric) -> BTreeMap<u32, f64> {
        let figure = |(repetition, measurement): (&u32, &&Measurement)| {
            Some((*repetition, (measure.of)(measurement)?))
        };
        self.measurements.iter().filter_map(figure).collect()
    }

    /// Whether the page cache held nothing of the files when it was measured.
    pub fn is_cold(&self) -> bool {
        self.run.environment.cold.is_some()
    }

    /// Percentiles of latency over all repetitions together, in microseconds, and of how many operations they are;
    /// `None` where a file has no histograms.
    pub fn percentiles(&self, quantiles: &[f64]) -> Option<(Vec<f64>, u64)> {
        let texts = self.measurements.values().map(|measurement| measurement.latency.histogram.as_deref());
        let sum = histogram::merged(texts)?;
        #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
        let at = |quantile: &f64| sum.value_at_quantile(*quantile) as f64 / 1e3;
        Some((quantiles.iter().map(at).collect(), sum.len()))
    }

    /// How many repetitions there are.
    pub fn samples(&self) -> usize {
        self.measurements.len()
    }

    /// The repetition in the middle by throughput, for what has no median of its own.
    pub fn typical(&self) -> Option<&'a Measurement> {
        let mut sorted: Vec<_> = self.measurements.values().copied().collect();
        sorted.sort_by(|a, b| a.throughput.total_cmp(&b.throughput));
        sorted.get(sorted.len().saturating_sub(1) / 2).copied()
    }

    /// Whether the size on disk is this cell's own. The cells of a group leave one set of files: its steps
    /// that measure them count, else its first cell.
    pub fn tells_size(&self) -> bool {
        let measures = |cell: &Cell| cell.workload.step == CellKind::DiskSize;
        self.cell.target.persistent
            && (self.cell.group.is_none()
                || measures(self.cell)
                || (!self.group_cells().any(measures)
                    && self.group_cells().next().is_some_and(|first| first.id == self.cell.id)))
    }

    /// Whether that size by byte alive says something of the store: what deletes of another cell leave
    /// alive is some rest.
    pub fn tells_space(&self) -> bool {
        let deletes = |cell: &Cell| cell.workload.kinds().any(|kind| kind == Operation::Delete);
        self.tells_size()
            && (self.cell.group.is_none()
                || self.cell.workload.step == CellKind::DiskSize
                || !self.group_cells().any(deletes))
    }

    /// The cells that work on the same files.
    fn group_cells(&self) -> impl Iterator<Item = &'a Cell> {
        let alone = self.cell.group.is_none();
        let same = move |other: &&Cell| match alone {
            true => other.id == self.cell.id,
            false => other.group == self.cell.group,
        };
        self.run.cells.iter().filter(same)
    }

    /// What its footnotes say of its measurements.
    pub fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        if let State::Faulty(fault) = &self.state {
            remarks.push(format!("{}: {fault}", self.cell.id));
        }
        if let State::Unsupported(reason) = &self.state {
            remarks.push(format!("n/a: {reason}."));
        }
        let wanted = usize::try_from(self.run.repetitions).unwrap_or(usize::MAX);
        if self.state == State::Sound && self.samples() < wanted {
            remarks.push(format!("{} of {wanted} repetitions so far.", self.samples()));
        }
        if self.measurements.values().any(|measurement| measurement.near_floor == Some(true)) {
            remarks.push(validity::NEAR.into());
        }
        remarks
            .extend(self.measurements.values().flat_map(|measurement| measurement.warnings.iter().cloned()));
        remarks
    }
}

/// How many keys there are in the course of a group, as far as it is planned.
struct Keys {
    left: u64,
    loaded: bool,
}

impl Keys {
    /// After some cells of a group, from its first one on.
    fn after<'c>(cells: impl Iterator<Item = &'c Cell>) -> Self {
        let start = Self { left: 0, loaded: false };
        cells.fold(start, |keys, cell| Self { left: keys.and(cell).1, loaded: true })
    }

    /// How many the next cell finds, and leaves.
    fn and(&self, cell: &Cell) -> (u64, u64) {
        let work = &cell.workload;
        // What the first one wants is loaded; the others find what those before them have left.
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

/// How large the largest data of some cells are beside the engines' cache and the memory: figures mean little without
/// it.
pub fn ratio(entries: &[Entry<'_>]) -> String {
    let Some(entry) = entries.iter().max_by(|a, b| a.data_bytes().total_cmp(&b.data_bytes())) else {
        return String::new();
    };
    let (place, target) = (&entry.run.environment, &entry.cell.target);
    let cache = Some(target.cache_bytes).filter(|_| target.address.is_none());
    ratio_words(entry.data_bytes(), cache, place.memory_limit_bytes.or(place.memory_bytes))
}

/// A cell that runs together with others says so of itself, but for the first of them.
fn concurrent(run: &Run, cell: &Cell) -> bool {
    let after = run.cells.iter().skip_while(|other| other.id != cell.id).nth(1);
    cell.together || after.is_some_and(|next| next.together)
}

/// Why an outcome makes its cell worthless.
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

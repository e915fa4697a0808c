//! `kvbench compare`: reports what became slower from one benchmark run to another, with an exit code for CI.
//!
//! `paired_samples` collects the measurements that both runs have, `change` combines them by store, `significance`
//! decides which changes exceed the noise within and between runs, and `text` formats the report. With a limit
//! (`--fail-above`), the comparison fails if the loss of a store, of all stores together or of a single cell is
//! significant and larger than the limit, or if a cell fails in the second run only. `unchecked_reasons` lists what
//! the comparison could not cover: the limit only counts as kept if every cell of the first run was compared, and
//! with enough precision.

mod cell_status;
mod change;
mod paired_samples;
mod significance;
mod text;
mod unchecked_reasons;

use crate::bench::result::{
    Cell, Run, Target,
    metric::Better,
    number_format::distinct,
    run_file::{self, ReadError},
    statistics::margin::Margin,
};
use cell_status::CellStatus;
use change::Change;
use paired_samples::{COMPARED_METRICS, ComparedMetric, Series};
use significance::{CellFinding, Finding, Judgement};
use std::path::Path;

/// Comparison of two benchmark runs.
#[derive(Debug)]
pub struct Comparison {
    /// Changes of stores and cells, with their significance.
    judgement: Judgement,
    /// Ids of the cells that both runs have, each with its status, in the order of the first run.
    cells: Vec<(String, CellStatus)>,
    /// `true` if a cell of a store, not only of the harness, is in both runs.
    shares_stores: bool,
    /// Ids of cells that only the first run has.
    only_first: Vec<String>,
    /// Ids of cells that only the second run has.
    only_second: Vec<String>,
    /// Sentences on what makes the comparison doubtful, such as different machines.
    warnings: Vec<String>,
    /// Reasons why the comparison cannot decide whether a loss exceeds the limit (`--fail-above`); empty if it can, or
    /// without a limit.
    gaps: Vec<String>,
    /// Allowed loss, as a fraction of the first run's value (`--fail-above`); `None` for no limit.
    limit: Option<f64>,
    /// Change below which metrics count as equal: the limit, or 3% without one or with a limit of 0 or above 100%.
    margin: Margin,
}

/// Verdict on the change of a metric from the first run to the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// There are too few repetitions to judge the change of the metric.
    TooFew,
    /// Neither a change of the metric nor equality is shown.
    CannotTell,
    /// The change of the metric is smaller than the margin, and may be chance.
    Equal,
    /// The metric became better.
    Better,
    /// The metric became worse, but not by more than the limit (`--fail-above`), or there is no limit.
    Worse,
    /// The metric became worse by more than the limit (`--fail-above`) allows.
    TooMuch,
}

impl Verdict {
    /// Returns `true` for verdicts whose rows are listed without `--all`: changes, and metrics with too few
    /// repetitions.
    fn is_shown(self) -> bool {
        !matches!(self, Self::Equal | Self::CannotTell)
    }
}

/// Compares the runs in two result files. `limit` is the allowed loss as a fraction (0.1 for 10%); `None` for no limit.
///
/// # Errors
///
/// Fails with the errors of both files, if they cannot be read: see [`run_file::read`].
pub fn compare(first: &Path, second: &Path, limit: Option<f64>) -> Result<Comparison, ReadError> {
    match (run_file::read(first), run_file::read(second)) {
        (Ok(first), Ok(second)) => Ok(Comparison::new(&first.run, &second.run, limit)),
        (Err(first), Err(second)) => Err(ReadError::Several(vec![first, second])),
        (Err(error), _) | (_, Err(error)) => Err(error),
    }
}

impl Comparison {
    /// Compares two runs. `limit` is the allowed loss as a fraction (0.1 for 10%); `None` for no limit.
    pub fn new(first: &Run, second: &Run, limit: Option<f64>) -> Self {
        let lacks = |run: &Run, id: &str| !run.cells.iter().any(|cell| cell.id == id);
        let missing = |from: &Run, of: &Run| {
            let ids = of.cells.iter().map(|cell| cell.id.clone());
            ids.filter(|id| lacks(from, id)).collect::<Vec<_>>()
        };
        let (mut cells, mut series) = (Vec::new(), Vec::new());
        let mut shares_stores = false;
        for cell in &first.cells {
            let Some(other) = second.cells.iter().find(|other| other.id == cell.id) else { continue };
            let same = cell.workload == other.workload
                && is_same(&cell.target, &other.target)
                && took_turns_alike([first, second], &cell.id);
            let own: Vec<_> = COMPARED_METRICS
                .into_iter()
                .filter_map(|metric| Series::new([first, second], cell, metric))
                .collect();
            let state =
                if same { state(first, second, cell, !own.is_empty()) } else { CellStatus::OtherWork };
            if state == CellStatus::Figures {
                series.extend(own);
            }
            cells.push((cell.id.clone(), state));
            shares_stores |= !cell.reference;
        }
        let margin = limit.and_then(Margin::new).unwrap_or_default();
        let mut comparison = Self {
            judgement: Judgement::of(&series, margin),
            margin,
            cells,
            shares_stores,
            only_first: missing(second, first),
            only_second: missing(first, second),
            warnings: warnings(first, second),
            gaps: Vec::new(),
            limit,
        };
        comparison.gaps = comparison.gaps(first);
        comparison
    }

    /// Returns the reasons why the comparison cannot decide whether a loss from the first run to the second exceeds the
    /// limit (`--fail-above`); empty if it can, or without a limit.
    fn gaps(&self, first: &Run) -> Vec<String> {
        let Some(limit) = self.limit else { return Vec::new() };
        let compared = unchecked_reasons::Compared {
            first,
            cells: &self.cells,
            only_first: &self.only_first,
            too_few: self.verdicts().filter(|verdict| *verdict == Verdict::TooFew).count(),
            noisiest: self.judgement.noisiest.as_ref(),
            suspected: self.suspected(limit),
        };
        unchecked_reasons::of(&compared, limit)
    }

    /// Returns the metrics of stores, and of all stores together, that got worse by more than the limit without a
    /// verdict: "p99 of rocksdb".
    fn suspected(&self, limit: f64) -> Vec<String> {
        let undecided = self.judgement.stores.iter().filter(|finding| {
            self.of_store(finding) == Verdict::CannotTell
                && is_beyond(finding.metric, finding.change.shift.exp(), limit)
        });
        distinct(undecided.map(|finding| {
            format!("{} of {}", finding.metric.title(), finding.store.as_deref().unwrap_or("all stores"))
        }))
    }

    /// Returns `true` if a loss exceeds the limit (`--fail-above`) or a cell fails in the second run only. Always
    /// `false` without a limit.
    pub fn failed(&self) -> bool {
        let breaks = || self.cells.iter().any(|(_, state)| *state == CellStatus::FailsNow);
        self.limit.is_some() && (breaks() || self.verdicts().any(|verdict| verdict == Verdict::TooMuch))
    }

    /// Returns `true` if the comparison cannot decide whether a loss exceeds the limit (`--fail-above`). Always `false`
    /// without a limit.
    pub fn is_inconclusive(&self) -> bool {
        self.limit.is_some() && !self.gaps.is_empty()
    }

    /// Returns `true` if no cell of a store is in both runs.
    pub fn is_empty(&self) -> bool {
        !self.shares_stores
    }

    /// Returns the verdicts on the changes of all stores and cells.
    fn verdicts(&self) -> impl Iterator<Item = Verdict> {
        let stores = self.judgement.stores.iter().map(|finding| self.of_store(finding));
        stores.chain(self.judgement.cells.iter().map(|finding| self.of_cell(finding)))
    }

    /// Returns the number of rows (metrics of stores and cells) that show no change and are listed only with `--all`.
    fn unchanged(&self) -> usize {
        self.verdicts().filter(|verdict| !verdict.is_shown()).count()
    }

    fn of_store(&self, finding: &Finding) -> Verdict {
        verdict(finding.metric, Some(finding.change), (finding.real, finding.equal), self.limit)
    }

    fn of_cell(&self, finding: &CellFinding) -> Verdict {
        verdict(finding.metric, finding.change, (finding.real, finding.equal), self.limit)
    }
}

/// Returns `true` if the throughputs of a cell in both runs can be compared ([`Run::writes_back_in_turns`]), or one of the
/// runs has none.
fn took_turns_alike(runs: [&Run; 2], id: &str) -> bool {
    let [first, second] = runs.map(|run| run.writes_back_in_turns(id));
    first == second || runs.iter().any(|run| run.measurements(id).next().is_none())
}

/// Returns `true` if two targets have equal access, compression, cache size and loss bound, as far as both runs
/// record them.
fn is_same(one: &Target, other: &Target) -> bool {
    let foreign = one.address.is_some() || other.address.is_some();
    one.access == other.access
        && one.compression == other.compression
        && (one.cache_bytes == other.cache_bytes || foreign)
        && (one.loses == other.loses || one.loses.is_none() || other.loses.is_none())
}

/// Returns the verdict on a change that is shown to be `real`, or `equal` within the margin. A limit of 0.1 allows 90%
/// of the speed, and 110% of latency or size.
fn verdict(
    metric: ComparedMetric,
    change: Option<Change>,
    (real, equal): (bool, bool),
    limit: Option<f64>,
) -> Verdict {
    let Some(change) = change else { return Verdict::TooFew };
    let ratio = change.shift.exp();
    let gained = match metric.better() {
        Better::Higher => ratio > 1.0,
        Better::Lower => ratio < 1.0,
    };
    let too_much = limit.is_some_and(|limit| is_beyond(metric, ratio, limit));
    match (real, gained, too_much) {
        (false, ..) if equal => Verdict::Equal,
        (false, ..) => Verdict::CannotTell,
        (true, true, _) => Verdict::Better,
        (true, false, true) => Verdict::TooMuch,
        (true, false, false) => Verdict::Worse,
    }
}

/// Returns `true` if a metric whose ratio is `ratio` got worse by more than the limit.
fn is_beyond(metric: ComparedMetric, ratio: f64, limit: f64) -> bool {
    match metric.better() {
        Better::Higher => ratio < 1.0 - limit,
        Better::Lower => ratio > 1.0 + limit,
    }
}

fn state(first: &Run, second: &Run, cell: &Cell, has_figures: bool) -> CellStatus {
    let id = &cell.id;
    let is_measured = |run: &Run| run.measurements(id).next().is_some() && run.unsupported(id).is_none();
    match (first.has_failed(id), second.has_failed(id)) {
        (true, true) => CellStatus::NoFigures,
        (false, true) if is_measured(first) => CellStatus::FailsNow,
        (true, false) if is_measured(second) => CellStatus::Mended,
        _ if first.unsupported(id).or(second.unsupported(id)).is_some() => CellStatus::Unsupported,
        (false, false) if has_figures => CellStatus::Figures,
        (false, false)
            if is_measured(first) && is_measured(second) && !paired_samples::has_value(first, cell) =>
        {
            CellStatus::NothingToCompare
        }
        _ => CellStatus::NoFigures,
    }
}

fn warnings(first: &Run, second: &Run) -> Vec<String> {
    let (one, other) = (&first.environment, &second.environment);
    let facts = [
        ("processor", one.cpu == other.cpu),
        ("number of cores", one.cores == other.cores),
        ("memory", one.memory_bytes == other.memory_bytes),
        ("system", one.system == other.system),
        ("frequency governor", one.governor == other.governor),
        ("file system", one.file_system == other.file_system),
        ("device", one.device == other.device),
        ("memory limit", one.memory_limit_bytes == other.memory_limit_bytes),
        ("page cache (--cold)", one.cold == other.cold),
        ("pinned processors (--cpus)", one.cpus == other.cpus),
    ];
    let differing: Vec<_> = facts.into_iter().filter(|(_, same)| !same).map(|(name, _)| name).collect();
    let mut warnings = Vec::new();
    if !differing.is_empty() {
        warnings.push(format!("The runs differ in {}.", differing.join(", ")));
    }
    for (name, run) in [("first", first), ("second", second)] {
        if !run.finished {
            warnings.push(format!("The {name} run was not finished."));
        }
        warnings.extend(run.environment.warnings.iter().map(|text| format!("The {name} run: {text}")));
    }
    warnings
}

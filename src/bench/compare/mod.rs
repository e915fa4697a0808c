//! `kvbench compare`: two runs, cell by cell, with an exit code for CI.
//!
//! For each cell that both runs have: the ratio of the medians over the repetitions, of throughput (or
//! what else the cell is about) and of the 99th percentile of latency, with an interval that `bootstrap`
//! makes from the repetitions. A cell is slower when the whole interval is on that side of 1, and fails
//! the comparison when the whole interval is beyond the limit: noise alone then seldom fails a build, and
//! a real loss near the limit needs more repetitions to be seen. A cell that fails in the second run only
//! fails the comparison too.

mod bootstrap;
mod text;

use crate::bench::result::{
    Cell, Outcome, Run,
    files::{self, ReadError},
    measure::{self, Better, Measure, P99},
    spread::ENOUGH,
};
use std::path::Path;

/// What became of the cells of two runs.
#[derive(Debug)]
pub struct Comparison {
    /// Cells of both runs, in the order of the first.
    pub cells: Vec<Compared>,
    /// Cells of the first run alone.
    pub only_first: Vec<String>,
    /// Cells of the second run alone.
    pub only_second: Vec<String>,
    /// What makes the comparison doubtful.
    pub warnings: Vec<String>,
    /// What may be lost, as a part of the first run's figure.
    pub limit: Option<f64>,
}

/// One cell in two runs.
#[derive(Debug)]
pub struct Compared {
    /// Its id.
    pub id: String,
    /// What became of it.
    pub change: CellChange,
}

/// What became of a cell.
#[derive(Debug)]
pub enum CellChange {
    /// Both runs have sound figures.
    Figures {
        /// Of what the cell is about, mostly operations each second.
        figure: Change,
        /// Of the 99th percentile of latency; absent where it is under the clock's resolution.
        p99: Option<Change>,
    },
    /// It failed in the second run only.
    FailsNow,
    /// It has figures in the second run only.
    Mended,
    /// Neither run has figures, or the second has not measured it.
    NoFigures,
    /// One of the runs tells that there is no such thing.
    Unsupported,
    /// The same id, but other work.
    OtherWork,
}

/// How a figure changed.
#[derive(Clone, Copy, Debug)]
pub struct Change {
    /// Median of the first run.
    pub first: f64,
    /// Median of the second.
    pub second: f64,
    /// Second by first.
    pub ratio: f64,
    /// Where the ratio is with 95% confidence; absent with fewer than [`ENOUGH`] repetitions.
    pub interval: Option<(f64, f64)>,
    /// What changed.
    pub measure: &'static Measure,
}

/// What a change means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Too few repetitions.
    CannotTell,
    /// The interval has 1 in it.
    Same,
    /// All of it is better.
    Faster,
    /// All of it is worse.
    Slower,
    /// All of it is worse than the limit allows.
    TooSlow,
}

/// Compares the runs of two files. `limit` is the part that may be lost (0.1 for 10%).
pub fn compare(first: &Path, second: &Path, limit: Option<f64>) -> Result<Comparison, ReadError> {
    match (files::read(first), files::read(second)) {
        (Ok(first), Ok(second)) => Ok(Comparison::new(&first.run, &second.run, limit)),
        (Err(first), Err(second)) => Err(ReadError::Several(vec![first, second])),
        (Err(error), _) | (_, Err(error)) => Err(error),
    }
}

impl Comparison {
    /// Compares two runs.
    pub fn new(first: &Run, second: &Run, limit: Option<f64>) -> Self {
        let lacks = |run: &Run, id: &str| !run.cells.iter().any(|cell| cell.id == id);
        let missing = |from: &Run, of: &Run| {
            let ids = of.cells.iter().map(|cell| cell.id.clone());
            ids.filter(|id| lacks(from, id)).collect::<Vec<_>>()
        };
        let both = first.cells.iter().filter_map(|cell| {
            let other = second.cells.iter().find(|other| other.id == cell.id)?;
            let same = cell.workload == other.workload && cell.target.access == other.target.access;
            let change = if same { change(first, second, cell) } else { CellChange::OtherWork };
            Some(Compared { id: cell.id.clone(), change })
        });
        Self {
            cells: both.collect(),
            only_first: missing(second, first),
            only_second: missing(first, second),
            warnings: warnings(first, second),
            limit,
        }
    }

    /// Whether something is slower than the limit allows, or fails now. Never without a limit.
    pub fn failed(&self) -> bool {
        let Some(limit) = self.limit else { return false };
        self.cells.iter().any(|cell| cell.change.fails(limit))
    }
}

impl CellChange {
    fn fails(&self, limit: f64) -> bool {
        match self {
            Self::Figures { figure, p99 } => {
                let all = [Some(figure), p99.as_ref()];
                all.into_iter().flatten().any(|change| change.verdict(Some(limit)) == Verdict::TooSlow)
            }
            Self::FailsNow => true,
            Self::Mended | Self::NoFigures | Self::Unsupported | Self::OtherWork => false,
        }
    }
}

impl Change {
    fn new(measure: &'static Measure, first: &[f64], second: &[f64]) -> Option<Self> {
        let found = bootstrap::ratio_of_medians(first, second)?;
        let enough = first.len().min(second.len()) >= ENOUGH;
        Some(Self {
            first: found.first,
            second: found.second,
            ratio: found.ratio,
            interval: enough.then_some(found.interval),
            measure,
        })
    }

    /// What it means. A limit of 0.1 allows nine tenths of the throughput, and eleven of the latency.
    pub fn verdict(&self, limit: Option<f64>) -> Verdict {
        let Some((low, high)) = self.interval else { return Verdict::CannotTell };
        let (worse, better, too_slow) = match self.measure.better {
            Better::Higher => (high < 1.0, low > 1.0, limit.is_some_and(|limit| high < 1.0 - limit)),
            Better::Lower => (low > 1.0, high < 1.0, limit.is_some_and(|limit| low > 1.0 + limit)),
        };
        match (too_slow, worse, better) {
            (true, _, _) => Verdict::TooSlow,
            (_, true, _) => Verdict::Slower,
            (_, _, true) => Verdict::Faster,
            _ => Verdict::Same,
        }
    }
}

fn change(first: &Run, second: &Run, cell: &Cell) -> CellChange {
    let id = &cell.id;
    let values = |run: &Run, measure: &Measure| -> Vec<f64> {
        run.measurements(id).filter_map(|measurement| (measure.of)(measurement)).collect()
    };
    let between =
        |measure: &'static Measure| Change::new(measure, &values(first, measure), &values(second, measure));
    match (faulty(first, id), faulty(second, id)) {
        (true, true) => CellChange::NoFigures,
        (false, true) => CellChange::FailsNow,
        (true, false) => CellChange::Mended,
        _ if first.unsupported(id).or(second.unsupported(id)).is_some() => CellChange::Unsupported,
        (false, false) => match between(measure::of_figure(cell.figure)) {
            Some(figure) => CellChange::Figures { figure, p99: between(&P99) },
            None => CellChange::NoFigures,
        },
    }
}

/// Whether a repetition of a cell did not do what it should.
fn faulty(run: &Run, id: &str) -> bool {
    run.samples.iter().filter(|sample| sample.cell == id).any(|sample| match &sample.outcome {
        Outcome::Failed(_) => true,
        Outcome::Unsupported(_) => false,
        Outcome::Measured(measurement) => !measurement.is_sound(),
    })
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

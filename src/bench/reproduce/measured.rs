//! Metrics of a run, found by row, column and fsync policy.

use super::published::Published;
use crate::{
    bench::{
        plan::{
            options::{Options, Suite},
            suites,
        },
        result::{Cell, Measurement, Run, comparability::Level, number_format::distinct, spread::Spread},
    },
    engine::Durability,
};

/// Text of a table cell without a value: a dash.
pub(super) const NONE: &str = "\u{2013}";

/// Mark of a value that was measured only while other programs or virtual machines took more of the processors than the
/// run allows.
pub(super) const DISTURBED: &str = "!";

/// Run of a publication's experiment by kvbench, in which the layouts look up its metrics.
pub(super) struct OwnMetrics<'r> {
    pub run: &'r Run,
    /// Cells of the experiment with the publication's own numbers of keys and operations; empty if the publication does
    /// not state them, or the experiment needs a file.
    theirs: Vec<Cell>,
}

impl<'r> OwnMetrics<'r> {
    pub fn new(run: &'r Run, publication: &'static Suite, facts: &Published) -> Self {
        let options = Options { suite: Some(publication), ..Options::default() };
        let plan = facts.states_keys.then(|| suites::plan(&options).ok()).flatten();
        Self { run, theirs: plan.map(|plan| plan.cells).unwrap_or_default() }
    }

    /// Returns the largest number of keys of a cell of this run, or `None` if it has no cell.
    pub fn keys(&self) -> Option<u64> {
        most_keys(&self.run.cells)
    }

    /// Returns the publication's number of keys, or `None` if it is not known.
    pub fn their_keys(&self) -> Option<u64> {
        most_keys(&self.theirs)
    }

    /// Returns the number of operations that the publication's experiment has in the table row `row`, or `None` if it
    /// is not known.
    pub fn their_operations(&self, row: &str) -> Option<u64> {
        self.theirs.iter().find(|cell| cell.row == row && !cell.reference)?.workload.operations
    }

    /// Returns the cells of this run that measure stores, without those that measure the harness.
    pub fn cells(&self) -> impl Iterator<Item = &'r Cell> {
        self.run.cells.iter().filter(|cell| !cell.reference)
    }

    /// Returns the names of the stores that this run measured, and its column headings, each once.
    pub fn stores(&self) -> Vec<&'r str> {
        distinct(self.cells().flat_map(|cell| [cell.target.store.as_str(), cell.column.as_str()]))
    }

    /// Returns the column headings of this run's cells with this durability (an fsync policy), each once. Stores in
    /// memory count for every durability.
    pub fn columns(&self, durability: Durability) -> Vec<&'r str> {
        distinct(self.cells().filter(|cell| is_at(cell, durability)).map(|cell| cell.column.as_str()))
    }

    /// Returns the cell of this run in this row and column with this durability, or `None` if there is none.
    pub fn cell(&self, row: &str, column: &str, durability: Durability) -> Option<&'r Cell> {
        self.cells().find(|cell| cell.row == row && cell.column == column && is_at(cell, durability))
    }

    /// Returns the median of a metric over all repetitions of `cell`, formatted by `show`, and [`DISTURBED`] if it comes
    /// from disturbed ones. Without one, returns `n/a`, `failed`, `not yet` or [`NONE`].
    pub fn figure(
        &self,
        cell: Option<&Cell>,
        of: impl Fn(&Measurement) -> Option<f64>,
        show: impl Fn(f64) -> String,
    ) -> String {
        let Some(cell) = cell else { return NONE.into() };
        if self.run.unsupported(&cell.id).is_some() {
            return "n/a".into();
        }
        if (0..self.run.repetitions).any(|repetition| !self.run.has(&cell.id, repetition)) {
            return "not yet".into();
        }
        if self.run.has_failed(&cell.id) {
            return "failed".into();
        }
        let figures: Option<Vec<f64>> = self.run.measurements(&cell.id).map(of).collect();
        let mark = if self.run.disturbed_part(&cell.id).is_some() { DISTURBED } else { "" };
        figures.and_then(Spread::of).map_or(NONE.into(), |spread| show(spread.median) + mark)
    }

    /// Returns, as sentences, the reasons why values of this run are missing or doubtful, and the warnings about this
    /// machine.
    pub fn remarks(&self) -> Vec<String> {
        let left_out = self.run.left_out.iter().map(|reason| format!("Left out: {reason}."));
        let timed = self.cells().filter(|cell| !cell.workload.counts_allocations);
        let unsupported =
            timed.filter_map(|cell| Some(format!("n/a, {}: {}.", cell.row, self.run.unsupported(&cell.id)?)));
        let failed = self.run.samples.iter();
        let failed = failed.filter_map(|sample| Some((&sample.cell, sample.outcome.failure()?)));
        let failed = failed.map(|(cell, failure)| format!("failed, {cell}: {failure}."));
        let warnings = self.run.environment.warnings.iter().map(|warning| format!("Ours: {warning}."));
        let doubts = self.cells().flat_map(|cell| {
            let own = self.run.measurements(&cell.id).flat_map(|measurement| &measurement.warnings);
            own.map(move |warning| format!("Ours, {}: {warning}", cell.id))
        });
        let disturbed = self.cells().any(|cell| self.run.disturbed_part(&cell.id).is_some()).then(|| {
            format!(
                "{DISTURBED}: other programs or virtual machines took more of the CPUs than --foreign allows, in each \
                 repetition. Measure it again on a quiet machine."
            )
        });
        let missing = left_out.chain(unsupported).chain(failed);
        let all: Vec<_> = missing.chain(disturbed).chain(doubts).chain(warnings).collect();
        distinct(all.iter().map(String::as_str)).into_iter().map(Into::into).collect()
    }
}

fn most_keys(cells: &[Cell]) -> Option<u64> {
    let own = cells.iter().filter(|cell| !cell.reference);
    own.map(|cell| cell.workload.most_keys()).max()
}

fn is_at(cell: &Cell, durability: Durability) -> bool {
    let level = Level::of(&cell.target).durability;
    level == Some(durability) || level == Some(Durability::Memory)
}

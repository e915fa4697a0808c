//! Matrix of stores and scenarios: the performance of each store relative to the best. In a report it stands before
//! the tables of cells, after the rankings of runs with `--may-lose` and the verdict and ranking of each scenario, which
//! are made from its columns.
//!
//! A column uses the cells of one level on one machine, for writes of one loss bound (except for sizes on disk, which
//! lose nothing), and of those the workloads that the most stores have run. A store's score in a repetition is the mean
//! of the logarithms of its metric over these workloads, so it is compared with the other stores in the same repetition.
//! A store is named as the best only if each of the others is slower with 95% confidence, after Holm's correction for
//! all pairs of the column. If the only workload is an interleaved comparison, and its throughput is compared, the
//! column has the verdicts of the result file.

use super::{
    column_notes,
    comparison_group::{ComparisonGroup, Judged, contests, deciding_clause, same_work},
    measured_cell::{Entry, State},
    price::{price, priced_work},
    ranking::READS_LOSE_NOTHING,
    report_tables::Report,
    scenarios::{SCENARIOS, Scenario},
};
use crate::{
    bench::result::{
        Access, Commits, Loses,
        comparability::{self, Level},
        metric::{Metric, THROUGHPUT, Unit},
        number_format,
        spread::ENOUGH,
        statistics::{
            looks::Looks,
            margin::Margin,
            mean,
            pairwise::{Pair, RankGroups},
        },
    },
    engine::LossClass,
};
use std::{collections::BTreeMap, ptr};

/// Matrix of a report: a row for each store and a column for each scenario (typical use).
pub struct Matrix {
    /// Columns of the matrix, one for each scenario (typical use).
    pub columns: Vec<Column>,
    /// Rows of the matrix, one for each store, in the order of the report.
    pub rows: Vec<Row>,
}

/// Column of the matrix: the comparison of all stores in one scenario, such as "Read-heavy".
pub struct Column {
    /// Heading of the column in the matrix.
    pub title: &'static str,
    /// Description of the cells that the column compares: "at least 90% scans".
    pub scope: String,
    /// Level (access, commit path and fsync policy) of the compared cells, and their machine if the report has several;
    /// empty if nothing was measured.
    pub level: String,
    /// Loss bounds of the compared stores after a kill and a power cut, as text that follows the level. Empty for cells
    /// that only read, for sizes on disk, with `--may-lose` (the level then has the allowed loss), and if the result
    /// file has no bounds.
    pub losses: String,
    /// Names of the workloads that are compared.
    pub works: Vec<String>,
    /// Relative difference below which stores of the column count as equal.
    pub margin: Margin,
    /// Result of the comparison of all stores in the column's scenario.
    pub verdict: Verdict,
    /// Sentences below the ranking of the stores ([`column_notes`]).
    pub notes: Vec<String>,
}

/// Result of the comparison of all stores in a scenario.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// The named store is better than all others.
    Best(String),
    /// The named stores are equal within the margin, and better than all others.
    Equal(Vec<String>, Margin),
    /// The first named store has the highest score. Of at least one other named store, neither a difference from the
    /// first nor equality is shown; the rest are equal to the first within the margin.
    CannotTell(Vec<String>),
    /// A store has too few repetitions in common with the best for a comparison.
    TooFew,
    /// Only the named store was measured, so nothing is compared.
    Alone(String),
    /// No store was measured in the scenario.
    NotMeasured,
}

/// Row of the matrix: one store in all scenarios.
pub struct Row {
    /// Name of the store, with its side in a duel, its compression and its read-ahead, as far as it has them.
    pub label: String,
    /// Cells of the row, one for each scenario (column).
    pub places: Vec<MatrixCell>,
}

/// Cell of the matrix: one store in one scenario.
pub struct MatrixCell {
    /// Performance of the store relative to the best one: 1 is as good, 0.5 half as good. `None` if the store has no
    /// result.
    pub ratio: Option<f64>,
    /// Confidence interval of `ratio`, 95% over all pairs of the column; `None` for the best store, and with fewer than
    /// [`ENOUGH`] repetitions.
    pub interval: Option<(f64, f64)>,
    /// Rank of the store in the scenario, compared with the best one.
    pub standing: Rank,
    /// Measured values of the store in the scenario as text, or the reason why there are none.
    pub words: String,
    /// Text in few words that replaces a missing ratio, such as "failed"; empty with a ratio.
    instead: String,
    /// Text of the metric's median, and for throughput a high percentile of the latency ([`Entry::tail_words`]); of
    /// several workloads only the geometric mean of the metric. Empty without a result.
    pub value: String,
    /// Memory, files and times to open of the store ([`price`]) in the workload of the column that [`priced_work`] chooses.
    /// Empty texts without a result.
    pub price: [String; 4],
}

/// Rank of a store in a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rank {
    /// The store is better than all others, with 95% confidence.
    Best,
    /// The store is equal to the best one within the margin; as rank of the best store: others are equal to it.
    Equal,
    /// The store is possibly the best: neither a difference from the store with the highest score nor equality is
    /// shown. As rank of the store with the highest score: at least one other store is possibly the best.
    CannotTell,
    /// The store is worse than the best one, with 95% confidence.
    Worse,
    /// The rank is not known: there are too few repetitions, or no other store to compare with.
    Unknown,
    /// The store was not measured, failed, or cannot be compared.
    Absent,
}

/// Column of the matrix before it is formatted: its cells, the scores of the stores, and their comparison.
struct Draft<'r, 'a> {
    scenario: &'static Scenario,
    level: String,
    losses: String,
    contests: Vec<ComparisonGroup<'r, 'a>>,
    /// Score, by repetition, of each store that was measured in all workloads of the column; more is better.
    stores: BTreeMap<String, BTreeMap<u32, f64>>,
    /// Stores that have failed in a workload of the scenario, each with the workload and the reason. They are not
    /// compared: a store that sometimes fails must not rank as fast.
    failed: BTreeMap<String, String>,
    /// Stores that were measured in the scenario, each with what distinguishes it from the stores of the column.
    others: BTreeMap<String, Difference>,
    best: Option<String>,
    /// Comparison of each other store with the best one; `None` with fewer than [`ENOUGH`] common repetitions.
    rivals: BTreeMap<String, Option<Pair>>,
    /// Stores grouped by their comparison with the best one, as indices into the alphabetical order of `stores`.
    groups: RankGroups,
    /// Difference below which stores are equal.
    margin: Margin,
}

impl Matrix {
    /// Returns the matrix of a report: compares all its stores in all scenarios.
    pub fn of(report: &Report<'_>) -> Self {
        let entries = report.entries().filter(|entry| !entry.cell.reference);
        let labels = number_format::distinct(entries.map(Entry::label));
        let alternatives = SCENARIOS.chunk_by(|one, other| one.title == other.title);
        let drafts: Vec<_> = alternatives.filter_map(|ones| Draft::first_measured(report, ones)).collect();
        let columns = drafts.iter().map(Draft::column).collect();
        let row = |label: String| {
            let own = |entry: &&Entry<'_>| !entry.cell.reference && entry.label() == label;
            let own: Vec<_> = report.entries().filter(own).collect();
            let places = drafts.iter().map(|draft| draft.place(&label, &own)).collect();
            Row { label, places }
        };
        Self { columns, rows: labels.into_iter().map(row).collect() }
    }
}

impl Matrix {
    /// Returns the margins of the columns, within which stores count as equal, as text: "3%", or "3% or 10%" if
    /// comparisons asked for different ones.
    pub fn margins(&self) -> String {
        let measured = self.columns.iter().filter(|column| column.verdict != Verdict::NotMeasured);
        let margins = number_format::distinct(measured.map(|column| column.margin.to_string()));
        match margins.is_empty() {
            true => Margin::default().to_string(),
            false => margins.join(" or "),
        }
    }

    /// Returns the names and cells of the stores that have a result in a column, the best first. `column` is an index of
    /// `columns`.
    pub fn ranking(&self, column: usize) -> Vec<(&str, &MatrixCell)> {
        let rows = self.rows.iter().filter_map(|row| Some((row.label.as_str(), row.places.get(column)?)));
        let mut ranking: Vec<_> = rows.filter(|(_, place)| place.ratio.is_some()).collect();
        let ratio = |place: &MatrixCell| place.ratio.unwrap_or(0.0);
        ranking.sort_by(|(_, one), (_, other)| ratio(other).total_cmp(&ratio(one)));
        ranking
    }

    /// Returns the matrix without the columns of scenarios that no store was measured in.
    pub fn without_unmeasured(mut self) -> Self {
        let measured: Vec<_> =
            self.columns.iter().map(|column| column.verdict != Verdict::NotMeasured).collect();
        let mut kept = measured.iter();
        self.columns.retain(|_| kept.next().is_some_and(|kept| *kept));
        for row in &mut self.rows {
            let mut kept = measured.iter();
            row.places.retain(|_| kept.next().is_some_and(|kept| *kept));
        }
        self
    }
}

impl<'r, 'a> Draft<'r, 'a> {
    /// Returns the column of the first of some scenarios in which stores can be compared, or else that of the first one that
    /// was measured, or the empty column of the last one; `None` without scenarios. Stores that were measured in another one
    /// of them only have done other work.
    fn first_measured(report: &'r Report<'a>, scenarios: &'static [Scenario]) -> Option<Self> {
        let mut drafts: Vec<_> = scenarios.iter().map(|scenario| Self::new(report, scenario)).collect();
        let with = |least: usize| drafts.iter().position(|draft: &Self| draft.stores.len() >= least);
        let place = with(2).or_else(|| with(1)).or(drafts.len().checked_sub(1))?;
        let mut draft = drafts.swap_remove(place);
        let fits = |entry: &&Entry<'_>| {
            let is_of = |one: &Scenario| (one.fits)(entry) && has_figure(entry, one.measure);
            !entry.cell.reference && scenarios.iter().any(is_of)
        };
        for entry in report.entries().filter(fits) {
            draft.others.entry(entry.label()).or_insert(Difference::Work);
        }
        Some(draft)
    }

    fn new(report: &'r Report<'a>, scenario: &'static Scenario) -> Self {
        let fits = |entry: &&Entry<'_>| !entry.cell.reference && (scenario.fits)(entry);
        let mut levels: Vec<(Class, Vec<&Entry<'a>>)> = Vec::new();
        for entry in report.entries().filter(fits) {
            let key = Class::of(entry, scenario);
            match levels.iter_mut().find(|(known, _)| known.is(&key)) {
                Some((_, entries)) => entries.push(entry),
                None => levels.push((key, vec![entry])),
            }
        }
        let mut classes: Vec<_> = levels
            .into_iter()
            .map(|(key, entries)| {
                let failed = failures(&entries);
                let is_compared = |entry: &&Entry<'_>| !failed.contains_key(&entry.label());
                let contests = common_work(entries.into_iter().filter(is_compared).collect(), scenario);
                (key, failed, contests)
            })
            .filter(|(_, _, contests)| !contests.is_empty())
            .collect();
        // The class with the most comparable stores is chosen; among equals, the one with the lowest `rank`.
        let chosen = classes.iter().enumerate().max_by_key(|(_, (class, _, contests))| {
            let stores = contests.first().map_or(0, |one| with_figures(one, scenario.measure).count());
            (stores, std::cmp::Reverse(class.rank()))
        });
        let Some(chosen) = chosen.map(|(place, _)| place) else { return Self::empty(scenario) };
        let (class, failed, contests) = classes.remove(chosen);
        let Class { group, level, .. } = class;
        let several = report.entries().any(|entry| entry.group > 0);
        let machine = if several { format!(", environment {}", group + 1) } else { String::new() };
        let first = contests.first().and_then(|one| one.entries.first());
        // The level of cells with `--may-lose` says the loss.
        let own = first.filter(|entry| {
            scenario.depends_on_loss() && entry.may_lose() && entry.cell.target.may_lose.is_none()
        });
        let losses = own.and_then(|entry| comparability::loses_words(&entry.cell.target));
        let only_reads =
            first.is_some_and(|entry| !entry.may_lose()) && ptr::eq(scenario.measure, &THROUGHPUT);
        let losses = losses.or(only_reads.then(|| READS_LOSE_NOTHING.to_owned()));
        let losses = losses.map_or(String::new(), |words| format!("; {words}"));
        let mut draft = Self {
            scenario,
            level: format!("{level}{machine}"),
            losses,
            stores: figures(&contests, scenario.measure),
            contests,
            failed,
            others: others(report.entries().filter(fits), class, scenario),
            ..Self::empty(scenario)
        };
        draft.compare();
        draft
    }

    fn empty(scenario: &'static Scenario) -> Self {
        let (level, losses, contests, failed) = Default::default();
        let (stores, others, rivals, groups, margin) = Default::default();
        Self { scenario, level, losses, contests, stores, failed, others, best: None, rivals, groups, margin }
    }

    /// Compares all pairs of stores, and sets `best` (the store with the highest mean score), `rivals` and `groups`.
    fn compare(&mut self) {
        let labels: Vec<_> = self.stores.keys().cloned().collect();
        let Judged { pairwise, margin, .. } = self.judged();
        self.margin = margin;
        let Some(best) = pairwise.order().first().copied() else { return };
        self.groups = pairwise.rank_groups(pairwise.order());
        for (number, label) in labels.iter().enumerate().filter(|(number, _)| *number != best) {
            self.rivals.insert(label.clone(), pairwise.between(number, best));
        }
        self.best = labels.get(best).cloned();
    }

    /// Compares all pairs of stores by their scores over all workloads; with a single workload, by its cells, whose
    /// interleaved comparison may have recorded the verdicts.
    fn judged(&self) -> Judged {
        if self.contests.len() == 1 {
            let entries: Vec<_> = self.stores.keys().flat_map(|label| self.entries_of(label)).collect();
            return Judged::of(&entries, self.scenario.measure);
        }
        let scores: Vec<_> = self.stores.values().cloned().collect();
        let firsts = self.contests.iter().filter_map(|contest| contest.entries.first());
        let (looks, margins): (Vec<Looks>, Vec<Margin>) =
            firsts.map(|first| first.run.looks(&first.cell.id)).unzip();
        let margin = Margin::narrowest(margins);
        let looks = Looks::of_several(&looks);
        let sources_of = |label: &String| self.entries_of(label).map(Entry::source).collect();
        let sources: Vec<_> = self.stores.keys().map(sources_of).collect();
        Judged::by_scores(&sources, self.scenario.measure, &scores, (&looks, margin))
    }

    /// Returns the labels of the stores with these indices in the alphabetical order of `stores`.
    fn labels(&self, stores: &[usize]) -> Vec<String> {
        stores.iter().filter_map(|store| self.stores.keys().nth(*store)).cloned().collect()
    }

    fn column(&self) -> Column {
        let Scenario { title, scope, .. } = *self.scenario;
        let first = self.contests.first().and_then(|one| one.entries.first());
        let scope = first.map_or_else(|| scope.to_owned(), |entry| self.scenario.scope_of(entry));
        let RankGroups { winners, undecided, .. } = &self.groups;
        let verdict = match &self.best {
            None => Verdict::NotMeasured,
            Some(best) if self.rivals.is_empty() => Verdict::Alone(best.clone()),
            Some(_) if self.rivals.values().any(Option::is_none) => Verdict::TooFew,
            Some(_) if !undecided.is_empty() => {
                Verdict::CannotTell(self.labels(&[winners.as_slice(), undecided].concat()))
            }
            Some(_) if winners.len() > 1 => Verdict::Equal(self.labels(winners), self.margin),
            Some(best) => Verdict::Best(best.clone()),
        };
        let works = self.contests.iter().map(|one| one.title.clone()).collect();
        let (level, losses, margin) = (self.level.clone(), self.losses.clone(), self.margin);
        let needed = self.needed(undecided).map(|clause| format!("Which store is best: {clause}."));
        let notes = needed.into_iter().chain(column_notes::of(&self.contests, self.scenario)).collect();
        Column { title, scope, level, losses, works, margin, verdict, notes }
    }

    /// Returns what would decide the comparisons of `undecided` stores (indices in the order of `stores`) with the best one,
    /// as a clause.
    fn needed(&self, undecided: &[usize]) -> Option<String> {
        let labels = self.labels(undecided);
        let verdicts = labels.iter().filter_map(|label| Some((*self.rivals.get(label)?)?.verdict));
        let first = self.contests.first().and_then(|contest| contest.entries.first());
        let comparison = first.and_then(|entry| entry.run.comparison(&entry.cell.id));
        deciding_clause(verdicts, self.margin, comparison.filter(|_| self.contests.len() == 1))
    }

    /// Returns the cell of a store. `own` are all cells of the store in the report.
    fn place(&self, label: &str, own: &[&Entry<'_>]) -> MatrixCell {
        if !self.stores.contains_key(label) {
            let (instead, words) = self.why_absent(label);
            let (ratio, interval, standing) = (None, None, Rank::Absent);
            let (value, price) = Default::default();
            return MatrixCell { ratio, interval, standing, words, instead, value, price };
        }
        let priced = priced_work(&self.contests).and_then(|place| self.entries_of(label).nth(place));
        let price = priced.map_or_else(Default::default, |entry| price(entry, own));
        let (words, value, instead) = (self.words(label), self.value(label), String::new());
        let is_in = |stores: &[usize]| self.labels(stores).iter().any(|one| one == label);
        let RankGroups { winners, undecided, .. } = &self.groups;
        let Some(pair) = self.rivals.get(label) else {
            let few = self.rivals.values().any(Option::is_none);
            let standing = match (winners.len(), undecided.is_empty()) {
                // Without a rival, or with too few repetitions, no store can be called the best.
                _ if few || self.rivals.is_empty() => Rank::Unknown,
                (_, false) => Rank::CannotTell,
                (1, true) => Rank::Best,
                (_, true) => Rank::Equal,
            };
            return MatrixCell { ratio: Some(1.0), interval: None, standing, words, instead, value, price };
        };
        let standing = match pair {
            None => Rank::Unknown,
            Some(_) if is_in(winners) => Rank::Equal,
            Some(_) if is_in(undecided) => Rank::CannotTell,
            Some(_) => Rank::Worse,
        };
        let ratio = pair.map_or_else(|| self.ratio(label), |pair| Some(pair.ratio));
        MatrixCell { ratio, interval: pair.map(|pair| pair.interval), standing, words, instead, value, price }
    }

    /// Returns the ratio of a store to the best from their mean scores, for stores without a confidence
    /// interval.
    fn ratio(&self, label: &str) -> Option<f64> {
        let level = |label: &str| mean(&self.stores.get(label)?.values().copied().collect::<Vec<_>>());
        Some((level(label)? - level(self.best.as_deref()?)?).exp())
    }

    /// Returns the cells of a store of the column, one for each workload, in their order.
    fn entries_of(&self, label: &str) -> impl Iterator<Item = &'r Entry<'a>> {
        let measure = self.scenario.measure;
        let of = move |contest| with_figures(contest, measure).find(|entry| entry.label() == label).copied();
        self.contests.iter().filter_map(of)
    }

    /// Returns the metric of a store as text: of one workload the median, with a high percentile of the latency if the
    /// metric is a rate; of several workloads the geometric mean of the medians.
    fn value(&self, label: &str) -> String {
        let measure = self.scenario.measure;
        let own = || self.entries_of(label);
        let logs: Vec<_> = own().filter_map(|entry| Some(entry.spread(measure)?.median.ln())).collect();
        let Some(middle) = mean(&logs) else { return String::new() };
        let text = number_format::short(measure.unit, middle.exp());
        let tail = own().next().and_then(Entry::tail_words).filter(|_| measure.unit == Unit::PerSecond);
        match (logs.len(), tail) {
            (1, Some(tail)) => format!("{text}, {tail}"),
            (1, None) => text,
            _ => format!("{text} in the mean"),
        }
    }

    /// Returns the measured values of a store as text: median and range for each workload.
    fn words(&self, label: &str) -> String {
        let measure = self.scenario.measure;
        let figure = |(contest, entry): (&ComparisonGroup<'_, '_>, &Entry<'_>)| {
            let spread = entry.spread(measure)?;
            let text = |value| number_format::short(measure.unit, value);
            let range = format!(" ({} to {})", text(spread.min), text(spread.max));
            let range = if spread.samples > 1 { range } else { String::new() };
            Some(format!("{}: {}{range}", contest.title, text(spread.median)))
        };
        self.contests.iter().zip(self.entries_of(label)).filter_map(figure).collect::<Vec<_>>().join("; ")
    }

    /// Returns the reason why the column has no ratio of a store, in few words and as a clause.
    fn why_absent(&self, label: &str) -> (String, String) {
        if let Some(reason) = self.failed.get(label) {
            return ("failed".to_owned(), format!("failed: {reason}"));
        }
        let states = self.contests.iter().flat_map(|one| &one.entries).filter(|entry| entry.label() == label);
        let reasons = states.filter_map(|entry| match &entry.state {
            State::Unsupported(reason) => Some(("n/a".to_owned(), format!("n/a: {reason}"))),
            State::Faulty(_) | State::Sound | State::Missing => None,
        });
        let other = || self.others.get(label).map(Difference::description);
        reasons.min().or_else(other).unwrap_or_else(|| ("\u{2013}".to_owned(), "not measured".to_owned()))
    }
}

/// Returns the stores of which a cell has failed, each with the first such workload and the reason.
fn failures(entries: &[&Entry<'_>]) -> BTreeMap<String, String> {
    let mut failed = BTreeMap::new();
    for entry in entries {
        if let State::Faulty(reason) = &entry.state {
            failed.entry(entry.label()).or_insert_with(|| format!("{}: {reason}", entry.cell.workload.name));
        }
    }
    failed
}

/// Difference between a measured cell and the cells that a column compares, in ascending order: of several cells of a
/// store, the one that is the most like the column says why the store is not compared.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Difference {
    /// The cell has another workload than the column, or the store lacks one of the column's workloads.
    Work,
    /// The store has the loss bound that the text says, and the column has another.
    Loss(String),
    /// The cell has another fsync policy, which the text names.
    Policy(String),
    /// The cell has another access or commit path, which the text names.
    Access(&'static str),
    /// The cell was measured by another machine or program: in the environment of this number, from 1.
    Environment(usize),
}

impl Difference {
    /// Returns the difference of a cell, which fits the scenario, from the cells of the class `column`.
    fn of(entry: &Entry<'_>, column: Class, scenario: &Scenario) -> Self {
        let class = Class::of(entry, scenario);
        let (own, other) = (class.level, column.level);
        if class.group != column.group {
            Self::Environment(class.group + 1)
        } else if (own.access, own.commits) != (other.access, other.commits) {
            Self::Access(own.access_words())
        } else if own != other {
            Self::Policy(own.durability_words())
        } else if class.loses != column.loses {
            Self::Loss(comparability::loses_words(&entry.cell.target).unwrap_or_default())
        } else {
            Self::Work
        }
    }

    /// Returns the difference in few words and as a clause.
    fn description(&self) -> (String, String) {
        let brief = match self {
            Self::Work => "other work".to_owned(),
            Self::Loss(_) => "other loss bound".to_owned(),
            Self::Policy(words) => words.clone(),
            Self::Access(words) => (*words).to_owned(),
            Self::Environment(number) => format!("environment {number}"),
        };
        let clause = match self {
            Self::Work => format!("{brief}, so not compared"),
            Self::Loss(loses) => format!("{brief}, so not compared: {loses}"),
            Self::Policy(_) => format!("other durability, so not compared: {brief}"),
            Self::Access(_) => format!("other access, so not compared: {brief}"),
            Self::Environment(_) => format!("measured in {brief}, so not compared"),
        };
        (brief, clause)
    }
}

/// Returns, for each store with a value of the metric, the least difference of its cells from those of the class
/// `column`.
fn others<'r, 'a: 'r>(
    entries: impl Iterator<Item = &'r Entry<'a>>,
    column: Class,
    scenario: &Scenario,
) -> BTreeMap<String, Difference> {
    let mut others: BTreeMap<String, Difference> = BTreeMap::new();
    for entry in entries.filter(|entry| has_figure(entry, scenario.measure)) {
        let (label, difference) = (entry.label(), Difference::of(entry, column, scenario));
        if others.get(&label).is_none_or(|known| difference < *known) {
            others.insert(label, difference);
        }
    }
    others
}

/// Key of the cells that may be ranked together: equal machine, access, commit path and fsync policy, and for
/// writes equal loss bound, unless it does not matter in the scenario.
#[derive(Clone, Copy)]
struct Class {
    group: usize,
    level: Level,
    /// Loss that `--may-lose` allowed or, without it, the loss bound in the result file; nothing for cells without
    /// writes, and for scenarios in which the loss bound does not matter.
    loses: Option<Loses>,
    /// Loss that `--may-lose` allowed or, without it, the loss bound of the first cell's store: in the result file or,
    /// without one there, of this build's engine.
    known: Option<Loses>,
}

impl Class {
    fn of(entry: &Entry<'_>, scenario: &Scenario) -> Self {
        let target = &entry.cell.target;
        let is_bounded = entry.may_lose() && scenario.depends_on_loss();
        let nothing = Loses { kill: LossClass::Nothing, power_cut: LossClass::Nothing };
        Self {
            group: entry.group,
            level: Level::of(target),
            loses: if is_bounded { target.may_lose.or(target.loses) } else { Some(nothing) },
            known: target.may_lose.or(comparability::loses(target)),
        }
    }

    fn is(&self, other: &Self) -> bool {
        (self.group, self.level, self.loses) == (other.group, other.level, other.loses)
    }

    /// Returns the sort key by which a class is preferred (smallest first): in process before over the wire, then own
    /// commits before group commit, then the smallest loss bound, then the highest group number: that of the machine or
    /// program whose first run is the newest.
    fn rank(&self) -> (bool, bool, LossClass, LossClass, std::cmp::Reverse<usize>) {
        let loses =
            self.known.unwrap_or(Loses { kill: LossClass::Everything, power_cut: LossClass::Everything });
        let newest = std::cmp::Reverse(self.group);
        let Level { access, commits, .. } = self.level;
        (access == Access::Wire, commits == Commits::Groups, loses.kill, loses.power_cut, newest)
    }
}

/// Returns the comparison groups of `entries` in which the most stores have a value of the scenario's metric.
fn common_work<'r, 'a>(entries: Vec<&'r Entry<'a>>, scenario: &Scenario) -> Vec<ComparisonGroup<'r, 'a>> {
    let measure = scenario.measure;
    let mut contests = if scenario.depends_on_loss() { contests(entries) } else { same_work(entries) };
    let most = contests.iter().map(|one| with_figures(one, measure).count()).max().unwrap_or(0);
    contests.retain(|one| most > 0 && with_figures(one, measure).count() == most);
    // Only stores that all groups have are ranked over all groups. If that leaves some out, one group is ranked alone.
    if figures(&contests, measure).len() < most {
        contests.truncate(1);
    }
    contests
}

fn with_figures<'c, 'r, 'a>(
    contest: &'c ComparisonGroup<'r, 'a>,
    measure: &'c Metric,
) -> impl Iterator<Item = &'c &'r Entry<'a>> {
    contest.entries.iter().filter(|entry| has_figure(entry, measure))
}

/// Returns `true` if the cell has a positive value of the metric.
fn has_figure(entry: &Entry<'_>, measure: &Metric) -> bool {
    entry.spread(measure).is_some_and(|spread| spread.median > 0.0)
}

/// Returns the score of each store by repetition: the mean logarithm of its metric over all comparison
/// groups, negated if lower is better. Stores that lack a group are left out.
fn figures(contests: &[ComparisonGroup<'_, '_>], measure: &Metric) -> BTreeMap<String, BTreeMap<u32, f64>> {
    let mut stores: BTreeMap<String, Vec<BTreeMap<u32, f64>>> = BTreeMap::new();
    for contest in contests {
        for entry in with_figures(contest, measure) {
            stores.entry(entry.label()).or_default().push(entry.scores(measure));
        }
    }
    stores.retain(|_, scores| scores.len() == contests.len());
    let join = |scores: Vec<BTreeMap<u32, f64>>| {
        let repetitions = scores.first().into_iter().flat_map(BTreeMap::keys);
        let of = |repetition: &u32| {
            let of_works: Option<Vec<f64>> =
                scores.iter().map(|of_work| of_work.get(repetition).copied()).collect();
            Some((*repetition, mean(&of_works?)?))
        };
        repetitions.filter_map(of).collect::<BTreeMap<_, _>>()
    };
    let joined = stores.into_iter().map(|(label, scores)| (label, join(scores)));
    joined.filter(|(_, values)| !values.is_empty()).collect()
}

impl Column {
    /// Returns the level of the matrix column (access, commit path and fsync policy) as text, without the prefix "in
    /// process, ", which nearly all columns have.
    pub fn short_level(&self) -> &str {
        self.level.strip_prefix("in process, ").unwrap_or(&self.level)
    }
}

impl Verdict {
    /// Returns the verdict as text: the best stores, and "cannot tell" or the like.
    pub fn words(&self) -> String {
        match self {
            Self::Best(label) => label.clone(),
            Self::Equal(labels, margin) => format!("{}: equal within {margin}", labels.join(", ")),
            Self::CannotTell(labels) => format!("{}: cannot tell", labels.join(", ")),
            Self::TooFew => format!("no verdict with fewer than {ENOUGH} repetitions"),
            Self::Alone(label) => format!("{label} only"),
            Self::NotMeasured => "not measured".to_owned(),
        }
    }
}

/// Formats a ratio with two decimal places, three below 0.095, and near 1 as [`number_format::ratio`] does.
fn part(ratio: f64) -> String {
    match ratio {
        small if small < 0.095 => format!("{ratio:.3}"),
        near if (0.9..1.1).contains(&near) => number_format::ratio(ratio),
        _ => format!("{ratio:.2}"),
    }
}

impl MatrixCell {
    /// Returns the store's ratio to the best store as text, or the reason why there is none.
    pub fn text(&self) -> String {
        match self.ratio {
            Some(ratio) => part(ratio),
            None => self.instead.clone(),
        }
    }

    /// Returns the confidence interval of the store's ratio to the best store as text; empty if there is none.
    pub fn range(&self) -> String {
        self.interval.map_or(String::new(), |(low, high)| format!("{}\u{2013}{}", part(low), part(high)))
    }

    /// Returns a grade from 0 (no ratio to the best store) to 5 (ratio of at least 0.8), which selects the background
    /// shade of the matrix cell on the page.
    pub fn grade(&self) -> usize {
        let Some(ratio) = self.ratio else { return 0 };
        [0.05, 0.2, 0.5, 0.8].iter().filter(|bound| ratio >= **bound).count() + 1
    }

    /// Returns a symbol for the store's rank, so that it can be read without colour: a star for the best, "≈" for equal
    /// to the best, "?" for possibly the best; otherwise an empty string.
    pub fn sign(&self) -> &'static str {
        match self.standing {
            Rank::Best => "\u{2605}",
            Rank::Equal => "\u{2248}",
            Rank::CannotTell => "?",
            Rank::Worse | Rank::Unknown | Rank::Absent => "",
        }
    }

    /// Returns the length of the matrix cell's bar in percent, which is the store's ratio to the best store: at least
    /// 1, and 0 without a ratio.
    pub fn percent(&self) -> f64 {
        self.ratio.map_or(0.0, |ratio| (ratio * 100.0).clamp(1.0, 100.0))
    }
}

//! Which of many changes are more than chance.
//!
//! Cells of one store are no independent witnesses: what hits a store in one repetition hits all its cells,
//! and what hits the machine hits all stores. So the verdict is on stores. For each level and aspect:
//!
//! - *all stores*: what they have in common, the median of their shifts. A program that got slower as a
//!   whole looks like a machine that did, so it takes much to call this a change.
//! - *each store* beside that. Machine and disk are out of it, since stores are measured in turns. Where a
//!   level has fewer than three stores, the harness floor is one more witness of the machine.
//! - *each store* at all levels together, which sees smaller losses.
//! - *each cell* beside what all stores have in common, only for what one kind of work alone has lost.
//!
//! Of 10 repetitions or more, the best of each of five rounds count: what others do on the machine only takes
//! time away. The noise is that of the repetitions, or rounds, and on top what differs between runs. Where most stores differ by
//! more than that, all errors are widened until the middle one is as expected, which is how genetics
//! deals with strata that nobody knows of (Devlin and Roeder, Genomic Control, 1999). All questions
//! together are answered wrongly in 5% of comparisons at most, by Holm's correction: 3% for the stores at all
//! levels, and 1% each for the levels and for the cells.

use super::{
    change::{BetweenRuns, Change, Part, common_shift, median},
    paired_samples::{ASPECTS, ComparedMetric, Series},
};
use crate::bench::result::{loss_class::Level, spread::ENOUGH, statistics::holm};

/// Probability that any store is called changed which is not: by what is its only level, or all of them.
const STORES: f64 = 0.03;
/// Probability that any store at one of its levels is.
const LEVELS: f64 = 0.01;
/// Probability that any cell is.
const CELLS: f64 = 0.01;
/// Fewest stores whose middle one tells how noisy they are.
const MANY: usize = 5;
/// Middle distance from zero of a normal distribution, in standard deviations.
const MIDDLE: f64 = 0.6745;

/// One store at one level, or all of them.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The store; all of the level when absent.
    pub store: Option<String>,
    /// The level; all of them when absent.
    pub level: Option<Level>,
    /// What of them.
    pub aspect: ComparedMetric,
    /// How they changed.
    pub change: Change,
    /// Whether that is more than chance.
    pub real: bool,
}

/// One figure of one cell.
#[derive(Clone, Debug)]
pub struct CellFinding {
    /// The cell.
    pub id: String,
    /// What of it.
    pub aspect: ComparedMetric,
    /// Medians of the two runs.
    pub medians: [f64; 2],
    /// How it changed beside what all stores have in common; absent with fewer than [`ENOUGH`] repetitions.
    pub change: Option<Change>,
    /// Whether that is more than chance.
    pub real: bool,
}

/// What is compared of two runs.
#[derive(Debug)]
pub struct Judgement {
    /// Of stores.
    pub stores: Vec<Finding>,
    /// Of cells.
    pub cells: Vec<CellFinding>,
    /// The least loss of speed of a store that would have been seen, for most of them.
    pub visible: Option<f64>,
    /// Of how many repetitions the best counts, at most; 1 when each counts.
    pub best_of: usize,
}

/// Stores of one level and aspect.
struct Group<'s> {
    level: Level,
    aspect: ComparedMetric,
    stores: Vec<(String, Part)>,
    harness: Vec<Part>,
    series: Vec<&'s Series>,
}

impl Judgement {
    /// Judges all series of two runs.
    pub fn of(series: &[Series]) -> Self {
        let groups = groups(series);
        let mut stores: Vec<Finding> = groups.iter().flat_map(Group::findings).collect();
        widen(&mut stores);
        let wide = across(&stores);
        let mut cells: Vec<CellFinding> = series
            .iter()
            .filter(|one| !one.reference)
            .map(|one| cell(one, groups.iter().find(|group| group.has(one))))
            .collect();
        let several =
            |one: &Finding| wide.iter().any(|all| (&all.store, all.aspect) == (&one.store, one.aspect));
        let (mut levels, mut all): (Vec<_>, Vec<_>) = stores.into_iter().partition(|one| several(one));
        all.extend(wide);
        decide(all.iter_mut().map(|one| (Some(one.change), &mut one.real)), STORES);
        decide(levels.iter_mut().map(|one| (Some(one.change), &mut one.real)), LEVELS);
        decide(cells.iter_mut().map(|one| (one.change, &mut one.real)), CELLS);
        let visible = visible(&all);
        let mut stores = [all, levels].concat();
        stores.sort_by_key(|one| one.store.is_some());
        let best_of = series.iter().map(|one| one.best_of).max().unwrap_or(1);
        Self { visible, stores, cells, best_of }
    }
}

fn groups(series: &[Series]) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    let enough = |one: &&Series| one.repetitions() >= ENOUGH;
    for one in series.iter().filter(enough).filter(|one| !one.reference) {
        match groups.iter_mut().find(|group| group.has(one)) {
            Some(group) => group.series.push(one),
            None => groups.push(Group {
                level: one.level,
                aspect: one.aspect,
                stores: Vec::new(),
                harness: Vec::new(),
                series: vec![one],
            }),
        }
    }
    for group in &mut groups {
        group.stores = parts(group.aspect, &group.series);
        let fits = |one: &&Series| {
            one.reference && one.aspect == group.aspect && one.level.access == group.level.access
        };
        let harness: Vec<_> = series.iter().filter(enough).filter(fits).collect();
        if group.stores.len() < 3 {
            group.harness = parts(group.aspect, &harness).into_iter().map(|(_, part)| part).collect();
        }
    }
    groups
}

/// The stores of some cells. One that has too few repetitions in common is left out.
fn parts(aspect: ComparedMetric, series: &[&Series]) -> Vec<(String, Part)> {
    let mut stores: Vec<&str> = Vec::new();
    for one in series {
        if !stores.contains(&one.store.as_str()) {
            stores.push(&one.store);
        }
    }
    let part = |store: &str| {
        let own: Vec<_> = series.iter().copied().filter(|one| one.store == store).collect();
        (store.to_owned(), Part::of(&own, between(aspect).cell))
    };
    stores.into_iter().map(part).filter(|(_, part)| part.repetitions() >= ENOUGH).collect()
}

/// What an idle machine's runs differ by. The tail of a distribution shakes more than its middle.
fn between(aspect: ComparedMetric) -> BetweenRuns {
    match aspect {
        ComparedMetric::Speed => BetweenRuns { store: 0.015, machine: 0.04, cell: 0.03 },
        ComparedMetric::P99 => BetweenRuns { store: 0.05, machine: 0.08, cell: 0.08 },
        ComparedMetric::Size => BetweenRuns { store: 0.02, machine: 0.02, cell: 0.05 },
    }
}

impl Group<'_> {
    fn has(&self, series: &Series) -> bool {
        (self.level, self.aspect) == (series.level, series.aspect)
    }

    fn witnesses(&self) -> Vec<&Part> {
        self.stores.iter().map(|(_, part)| part).chain(&self.harness).collect()
    }

    /// What the stores have in common; nothing where there is only one witness.
    fn common(&self) -> f64 {
        let witnesses = self.witnesses();
        if witnesses.len() < 2 {
            0.0
        } else {
            common_shift(witnesses.iter().map(|part| part.shift()).collect())
        }
    }

    fn findings(&self) -> Vec<Finding> {
        let BetweenRuns { store: of_store, machine, .. } = between(self.aspect);
        let (witnesses, common) = (self.witnesses(), self.common());
        let finding = |store: Option<String>, change: Change| Finding {
            store,
            level: Some(self.level),
            aspect: self.aspect,
            change,
            real: false,
        };
        let mut findings = Vec::new();
        if self.stores.len() > 1 {
            let all: Vec<_> = self.stores.iter().map(|(_, part)| part).collect();
            let change = Part::middle(&all).beside(&[], machine);
            findings.push(finding(None, change.less(-common)));
        }
        for (store, part) in &self.stores {
            let others: Vec<_> =
                witnesses.iter().copied().filter(|other| !std::ptr::eq(*other, part)).collect();
            let floor = if others.is_empty() { machine } else { of_store };
            let change = part.beside(&others, floor);
            findings.push(finding(Some(store.clone()), change.less(common)));
        }
        findings
    }
}

/// Errors of a cell: beside what all stores of its level have in common.
fn cell(series: &Series, group: Option<&Group<'_>>) -> CellFinding {
    let change = group.filter(|_| series.repetitions() >= ENOUGH).map(|group| {
        let others: Vec<_> = group.witnesses().into_iter().collect();
        let floor = between(series.aspect);
        let own = Part { logs: series.logs.clone() };
        match others.len() {
            0 | 1 => own.beside(&[], floor.machine.max(floor.cell)),
            _ => own.beside(&others, floor.cell).less(group.common()),
        }
    });
    CellFinding { id: series.id.clone(), aspect: series.aspect, medians: series.medians, change, real: false }
}

/// Widens all errors until the middle change of the stores is as large as chance makes it.
fn widen(findings: &mut [Finding]) {
    for aspect in ASPECTS {
        let mut own: Vec<_> = findings
            .iter_mut()
            .filter(|finding| finding.aspect == aspect && finding.store.is_some())
            .collect();
        let distances = own.iter().map(|one| one.change.shift.abs() / one.change.error()).collect::<Vec<_>>();
        let Some(middle) = median(distances).filter(|_| own.len() >= MANY) else { continue };
        let factor = (middle / MIDDLE).max(1.0);
        own.iter_mut().for_each(|finding| finding.change.widen(factor));
    }
}

/// Each store over all its levels, where it has several; and all stores likewise.
fn across(findings: &[Finding]) -> Vec<Finding> {
    let mut joined: Vec<Finding> = Vec::new();
    for one in findings {
        let same = |other: &&Finding| (&other.store, other.aspect) == (&one.store, one.aspect);
        let changes: Vec<_> = findings.iter().filter(same).map(|other| other.change).collect();
        if changes.len() > 1 && !joined.iter().any(|known| same(&known)) {
            joined.extend(Change::joined(&changes).map(|change| Finding {
                level: None,
                change,
                ..one.clone()
            }));
        }
    }
    joined
}

/// Marks the changes that are more than chance, with a probability that any of them is.
fn decide<'f>(findings: impl Iterator<Item = (Option<Change>, &'f mut bool)>, level: f64) {
    let (changes, marks): (Vec<_>, Vec<_>) =
        findings.filter_map(|(change, mark)| Some((change?, mark))).unzip();
    let adjusted = holm::adjusted(&changes.iter().map(Change::probability).collect::<Vec<_>>());
    for (mark, probability) in marks.into_iter().zip(adjusted) {
        *mark = probability < level;
    }
}

fn visible(findings: &[Finding]) -> Option<f64> {
    #[expect(clippy::cast_precision_loss, reason = "a number of stores")]
    let questions = findings.len() as f64;
    let speeds = findings.iter().filter(|one| one.store.is_some() && one.aspect == ComparedMetric::Speed);
    let reach = speeds.map(|one| one.change.reach(STORES / questions));
    median(reach.collect()).map(|reach| 1.0 - (-reach).exp())
}

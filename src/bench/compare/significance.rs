//! Significance of changes: decides which of many changes are more than chance.
//!
//! Cells of one store are not independent: a disturbance of a store in one repetition affects all its cells, and a
//! disturbance of the machine affects all stores. So the verdict is on stores. For each level and metric, these
//! are tested:
//!
//! - *all stores*: the shift that they share, which is the median of their shifts. A program that got slower as a
//!   whole looks like a machine that did, so only a large shift counts as a change.
//! - *each store*, relative to that shift. Effects of machine and disk cancel out, since stores are measured in
//!   turns. Where a level has fewer than three stores, the no-op engine is one more reference for the machine.
//! - *each store* over all its levels, which detects smaller losses.
//! - *each cell*, relative to the shift that all stores share, for losses of one workload alone.
//!
//! With 10 repetitions or more, only the best of each of at least five groups counts, because other processes only
//! take time away; file sizes and bytes read of all repetitions count. The noise is that of the repetitions or groups, plus the
//! variation between runs. A shift of all stores by more than 16% shows another state of the machine, which not all
//! stores feel alike: their own changes are then expected to be larger. Where most stores differ by more than
//! expected, the errors of all single stores' and cells' changes are widened until the median change of a store is as
//! large as expected, which is how genetics deals with unknown population strata (Devlin and Roeder, Genomic Control,
//! 1999). Holm's correction limits the probability that a comparison reports any false change to 5%: 3% for the stores
//! over all levels, and 1% each for the levels and for the cells. The probability of any false verdict of equality is
//! limited in the same way.

use super::{
    change::{BetweenRuns, Change, Part, common_shift, median},
    paired_samples::{COMPARED_METRICS, ComparedMetric, Series},
};
use crate::bench::result::{
    comparability::Level,
    metric::Better,
    spread::ENOUGH,
    statistics::{BETWEEN_RUNS, BETWEEN_RUNS_OF_SIZES, holm, margin::Margin},
};

/// Allowed probability that a change is reported for at least one store that has not changed, each store judged over
/// all its levels (access, commit path, fsync policy) or at its only level.
const STORES: f64 = 0.03;
/// Allowed probability that a change is reported for at least one store that has not changed, among the stores that are
/// judged at one of several levels (access, commit path, fsync policy).
const LEVELS: f64 = 0.01;
/// Allowed probability that a change is reported for at least one single cell that has not changed.
const CELLS: f64 = 0.01;
/// Minimum number of changes of stores from which all standard errors are widened if the median change is larger than
/// chance explains.
const MANY: usize = 5;
/// Median absolute deviation of a normal distribution, in standard deviations.
const MIDDLE: f64 = 0.6745;
/// Shift of all stores together (logarithm of a ratio), less its standard error, above which the machine was in another
/// state in each run. In the six runs of docs/reference/between-runs.csv, shifts of speed between two runs (medians over
/// the stores) are below 0.10 or at least 0.16.
const OTHER_STATE: f64 = 0.16;
/// Standard deviation of a store's change relative to the others, as a fraction of the shift of all stores together, if the
/// machine was in another state. In the speeds of the same six runs: up to 0.84, over all stores of two runs, and once 1.2.
const OWN_SHARE: f64 = 0.85;

/// Change of a metric of one store or of all stores together, at one level (access, commit path, fsync policy) or over
/// all levels.
#[derive(Clone, Debug)]
pub struct Finding {
    /// Name of the store whose metric changed; `None` for the change of all stores together.
    pub store: Option<String>,
    /// Level of the change (access, commit path and fsync policy); `None` for the change over all levels together.
    pub level: Option<Level>,
    /// Metric that changed.
    pub metric: ComparedMetric,
    /// Size of the change from the first run to the second, with its standard error.
    pub change: Change,
    /// `true` if the change is significant (more than chance explains).
    pub real: bool,
    /// `true` if the change is shown to be smaller than the margin, below which changes count as equal.
    pub equal: bool,
}

/// Change of a metric of one cell.
#[derive(Clone, Debug)]
pub struct CellFinding {
    /// Id of the cell whose metric changed.
    pub id: String,
    /// Metric that changed.
    pub metric: ComparedMetric,
    /// Medians of the metric in the first and in the second run.
    pub medians: [f64; 2],
    /// Change of the cell relative to the shift that all stores share; `None` with fewer than [`ENOUGH`] repetitions.
    pub change: Option<Change>,
    /// `true` if the change is significant (more than chance explains).
    pub real: bool,
    /// `true` if the change is shown to be smaller than the margin, below which changes count as equal.
    pub equal: bool,
}

/// Smallest loss of a store that a comparison can find.
#[derive(Clone, Debug)]
pub struct LeastLoss {
    /// Name of the store.
    pub store: String,
    /// Metric that is judged: the speed, or the p99 of a store that was measured at given rates only.
    pub metric: ComparedMetric,
    /// Loss as a fraction of the first run's value.
    pub loss: f64,
}

impl LeastLoss {
    /// Returns the name of the store or, if its p99 is judged, that of its p99: "redb's p99".
    pub fn name(&self) -> String {
        match self.metric {
            ComparedMetric::Speed => self.store.clone(),
            other => format!("{}'s {}", self.store, other.title()),
        }
    }
}

/// All changes between two runs, each marked as significant or not.
#[derive(Debug)]
pub struct Judgement {
    /// Changes of each store and of all stores together: for each level (access, commit path, fsync policy) and metric,
    /// and over all levels.
    pub stores: Vec<Finding>,
    /// Changes of the compared metrics of each cell that measures a store.
    pub cells: Vec<CellFinding>,
    /// Median, over the stores, of the smallest loss of speed (at a rate: of p99) that the comparison can find, as a
    /// fraction; `None` if neither was compared.
    pub detectable_loss: Option<f64>,
    /// Store of which only the largest losses can be found, without stores that are shown to be equal or better; `None` if
    /// there is none.
    pub noisiest: Option<LeastLoss>,
    /// Number of repetitions of which only the best counts, the largest of all cells; 1 if each repetition counts.
    pub group_size: u32,
}

/// Stores that are compared with each other: with equal level (access, commit path, fsync policy), for one metric.
struct Group<'s> {
    level: Level,
    metric: ComparedMetric,
    stores: Vec<(String, Part)>,
    harness: Vec<Part>,
    series: Vec<&'s Series>,
    /// Standard deviation between runs of a store's metric relative to the others that another state of the machine
    /// causes; 0 in one state.
    by_state: f64,
}

impl Judgement {
    /// Tests the changes of all `series`, each of which is one metric of one cell in two runs: whether a change is
    /// significant, and whether it is shown to be smaller than `margin`, so that it counts as equal.
    pub fn of(series: &[Series], margin: Margin) -> Self {
        let groups = groups(series);
        let mut stores: Vec<Finding> = groups.iter().flat_map(Group::findings).collect();
        let mut cells: Vec<CellFinding> = series
            .iter()
            .filter(|one| !one.reference)
            .map(|one| cell(one, groups.iter().find(|group| group.has(one))))
            .collect();
        widen(&mut stores, &mut cells);
        let wide = across(&stores);
        let several =
            |one: &Finding| wide.iter().any(|all| (&all.store, all.metric) == (&one.store, one.metric));
        let (mut levels, mut all): (Vec<_>, Vec<_>) = stores.into_iter().partition(|one| several(one));
        all.extend(wide);
        decide(all.iter_mut().map(|one| (Some(one.change), &mut one.real, &mut one.equal)), STORES, margin);
        decide(
            levels.iter_mut().map(|one| (Some(one.change), &mut one.real, &mut one.equal)),
            LEVELS,
            margin,
        );
        decide(cells.iter_mut().map(|one| (one.change, &mut one.real, &mut one.equal)), CELLS, margin);
        let (detectable_loss, noisiest) = detectable_losses(&all);
        let mut stores = [all, levels].concat();
        stores.sort_by_key(|one| one.store.is_some());
        let group_size = series.iter().map(|one| one.group_size).max().unwrap_or(1);
        Self { detectable_loss, noisiest, stores, cells, group_size }
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
                metric: one.metric,
                stores: Vec::new(),
                harness: Vec::new(),
                series: vec![one],
                by_state: 0.0,
            }),
        }
    }
    for group in &mut groups {
        group.stores = parts(group.metric, &group.series);
        let fits = |one: &&Series| {
            one.reference && one.metric == group.metric && one.level.access == group.level.access
        };
        let harness: Vec<_> = series.iter().filter(enough).filter(fits).collect();
        if group.stores.len() < 3 {
            group.harness = parts(group.metric, &harness).into_iter().map(|(_, part)| part).collect();
        }
    }
    for metric in COMPARED_METRICS {
        let by_state = by_state(groups.iter().filter(|group| group.metric == metric));
        groups.iter_mut().filter(|group| group.metric == metric).for_each(|group| group.by_state = by_state);
    }
    groups
}

/// Returns the standard deviation between runs of a store's metric relative to the others that another state of the machine
/// causes: 0 if the mean shift over all levels (access, commit path, fsync policy) shows no other state.
fn by_state<'g>(levels: impl Iterator<Item = &'g Group<'g>>) -> f64 {
    let changes: Vec<_> = levels.map(|group| group.shared(0.0)).collect();
    let Some(shared) = Change::joined(&changes) else { return 0.0 };
    let shift = shared.shift.abs();
    // What the repetitions explain needs no other state. A change between two runs has the variance of both.
    if shift - shared.error() > OTHER_STATE { OWN_SHARE * shift / std::f64::consts::SQRT_2 } else { 0.0 }
}

/// Returns, for each store of the cells in `series`, its name and the weighted mean of its cells' logarithms by
/// repetition, in which cells with little noise count more. A store with fewer than [`ENOUGH`] common repetitions is
/// left out.
fn parts(metric: ComparedMetric, series: &[&Series]) -> Vec<(String, Part)> {
    let mut stores: Vec<&str> = Vec::new();
    for one in series {
        if !stores.contains(&one.store.as_str()) {
            stores.push(&one.store);
        }
    }
    let part = |store: &str| {
        let own: Vec<_> = series.iter().copied().filter(|one| one.store == store).collect();
        (store.to_owned(), Part::of(&own, between(metric).cell))
    };
    stores.into_iter().map(part).filter(|(_, part)| part.repetitions() >= ENOUGH).collect()
}

/// Returns how much a metric varies between runs of one build on an idle machine: a store or a cell relative to the others in
/// one state of the machine, and all stores together over its states. The source is docs/reference/between-runs.csv: a store
/// varies by 1.3% in speed and by 3.2% in p99 over four runs of one state (the second to the fifth), rounded up; the p99 of
/// all stores together by 27% over all six, the root of the mean variance of the three works. The table has one cell of
/// each store, so the figures of cells are assumed: about twice those of stores.
fn between(metric: ComparedMetric) -> BetweenRuns {
    match metric {
        ComparedMetric::Speed => BetweenRuns { store: 0.015, machine: BETWEEN_RUNS, cell: 0.03 },
        ComparedMetric::P99 => BetweenRuns { store: 0.05, machine: 0.27, cell: 0.08 },
        // The variation of bytes read was not measured; it is taken to be that of sizes.
        ComparedMetric::Size | ComparedMetric::Reads => {
            BetweenRuns { store: 0.02, machine: BETWEEN_RUNS_OF_SIZES, cell: 0.05 }
        }
    }
}

impl Group<'_> {
    fn has(&self, series: &Series) -> bool {
        (self.level, self.metric) == (series.level, series.metric)
    }

    /// Returns the stores of the group without `store`, and the harness.
    fn others(&self, store: &str) -> Vec<&Part> {
        let others = self.stores.iter().filter(|(name, _)| name != store).map(|(_, part)| part);
        others.chain(&self.harness).collect()
    }

    /// Returns how much the group's metric varies between runs of one build: a store or a cell relative to the others
    /// varies more if the machine was in another state.
    fn between(&self) -> BetweenRuns {
        let BetweenRuns { store, machine, cell } = between(self.metric);
        BetweenRuns { store: store.hypot(self.by_state), machine, cell: cell.hypot(self.by_state) }
    }

    /// Returns the shift (logarithm of a ratio) that the stores of the group share; 0 if there are fewer than two to
    /// compare, the harness counted.
    fn common(&self) -> f64 {
        let witnesses: Vec<_> = self.stores.iter().map(|(_, part)| part).chain(&self.harness).collect();
        if witnesses.len() < 2 {
            0.0
        } else {
            common_shift(witnesses.iter().map(|part| part.shift()).collect())
        }
    }

    /// Returns the change that the stores of the group share; `machine` is the standard deviation between runs.
    fn shared(&self, machine: f64) -> Change {
        let all: Vec<_> = self.stores.iter().map(|(_, part)| part).collect();
        Part::middle(&all).beside(&[], machine).less(-self.common())
    }

    fn findings(&self) -> Vec<Finding> {
        let BetweenRuns { store: of_store, machine, .. } = self.between();
        let common = self.common();
        let finding = |store: Option<String>, change: Change| Finding {
            store,
            level: Some(self.level),
            metric: self.metric,
            change,
            real: false,
            equal: false,
        };
        let mut findings = Vec::new();
        if self.stores.len() > 1 {
            findings.push(finding(None, self.shared(machine)));
        }
        for (store, part) in &self.stores {
            let others = self.others(store);
            let floor = if others.is_empty() { machine } else { of_store };
            let change = part.beside(&others, floor);
            findings.push(finding(Some(store.clone()), change.less(common)));
        }
        findings
    }
}

/// Returns the change of a cell's metric relative to the shift that all stores of its level share, not yet marked as
/// significant.
fn cell(series: &Series, group: Option<&Group<'_>>) -> CellFinding {
    let change = group.filter(|_| series.repetitions() >= ENOUGH).map(|group| {
        let (others, floor) = (group.others(&series.store), group.between());
        let own = Part { logs: series.logs.clone() };
        match others.as_slice() {
            [] => own.beside(&[], floor.machine.max(floor.cell)),
            others => own.beside(others, floor.cell).less(group.common()),
        }
    });
    CellFinding {
        id: series.id.clone(),
        metric: series.metric,
        medians: series.medians,
        change,
        real: false,
        equal: false,
    }
}

/// Widens, for each metric, the standard errors of all stores' and cells' changes until the median change of a store in
/// standard errors is not larger than chance explains. Metrics with fewer than [`MANY`] changes of stores are left as
/// they are.
fn widen(stores: &mut [Finding], cells: &mut [CellFinding]) {
    for metric in COMPARED_METRICS {
        let mut own: Vec<_> =
            stores.iter_mut().filter(|finding| finding.metric == metric && finding.store.is_some()).collect();
        let distances = own.iter().map(|one| one.change.shift.abs() / one.change.error()).collect::<Vec<_>>();
        let Some(middle) = median(distances).filter(|_| own.len() >= MANY) else { continue };
        let factor = (middle / MIDDLE).max(1.0);
        own.iter_mut().for_each(|finding| finding.change.widen(factor));
        let cells = cells.iter_mut().filter(|cell| cell.metric == metric);
        cells.filter_map(|cell| cell.change.as_mut()).for_each(|change| change.widen(factor));
    }
}

/// Returns the mean change over all levels (access, commit path, fsync policy) of each store that has several, and of
/// all stores together.
fn across(findings: &[Finding]) -> Vec<Finding> {
    let mut joined: Vec<Finding> = Vec::new();
    for one in findings {
        let same = |other: &&Finding| (&other.store, other.metric) == (&one.store, one.metric);
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

/// Sets the marks of each change: the first if the change is significant, the second if it is shown to be smaller than
/// `margin`. `level` is the probability that any mark of one kind is wrong (Holm).
fn decide<'f>(
    findings: impl Iterator<Item = (Option<Change>, &'f mut bool, &'f mut bool)>,
    level: f64,
    margin: Margin,
) {
    let (changes, marks): (Vec<_>, Vec<_>) =
        findings.filter_map(|(change, real, equal)| Some((change?, (real, equal)))).unzip();
    let shown = |probability: &dyn Fn(&Change) -> f64| -> Vec<bool> {
        let probabilities: Vec<f64> = changes.iter().map(probability).collect();
        let levels = holm::levels(&probabilities, level);
        probabilities.into_iter().zip(levels).map(|(probability, level)| probability < level).collect()
    };
    let tests = shown(&Change::probability).into_iter().zip(shown(&|change| change.equality(margin)));
    for ((real, equal), tested) in marks.into_iter().zip(tests) {
        (*real, *equal) = tested;
    }
}

/// Returns the median of the smallest losses that can be found of each store, and the store for which it is the largest,
/// if it is not shown to be equal or better: of its speed, or of its p99 if all its cells run at a given rate, so that no
/// speed is compared.
fn detectable_losses(findings: &[Finding]) -> (Option<f64>, Option<LeastLoss>) {
    #[expect(clippy::cast_precision_loss, reason = "a number of stores")]
    let questions = findings.len() as f64;
    let has_speed = |store: &Option<String>| {
        findings.iter().any(|one| one.store == *store && one.metric == ComparedMetric::Speed)
    };
    let judged = || {
        findings.iter().filter(|one| match one.metric {
            ComparedMetric::Speed => one.store.is_some(),
            ComparedMetric::P99 => one.store.is_some() && !has_speed(&one.store),
            ComparedMetric::Size | ComparedMetric::Reads => false,
        })
    };
    let is_lower_better = |one: &Finding| one.metric.better() == Better::Lower;
    let loss = |one: &Finding| {
        let reach = one.change.reach(STORES / questions);
        if is_lower_better(one) { reach.exp_m1() } else { -(-reach).exp_m1() }
    };
    let is_better = |one: &Finding| one.real && (one.change.shift < 0.0) == is_lower_better(one);
    let open = judged().filter(|one| !(one.equal || is_better(one)));
    let noisiest = open.max_by(|one, other| loss(one).total_cmp(&loss(other)));
    let noisiest = noisiest
        .and_then(|one| Some(LeastLoss { store: one.store.clone()?, metric: one.metric, loss: loss(one) }));
    (median(judged().map(loss).collect()), noisiest)
}

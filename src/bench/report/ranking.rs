//! Ranking of the stores that did the same work and lose no more than the question allows, with a verdict as a
//! sentence.
//!
//! A table without `--may-lose` ranks the stores within the loss that its fsync policy is meant to allow.
//! Stores that lose more are left out, with the reason. Work that only reads loses nothing, so it ranks every store.

use super::{
    comparison_group::{ComparisonGroup, Judged, deciding_clause, same_work},
    measured_cell::{Entry, State},
    price::price,
};
use crate::{
    bench::result::{
        Figure, Loses,
        comparability::{self, Level},
        metric::{self, Better, DISK, Metric, P99, Unit},
        number_format::{self, distinct},
        spread::{ENOUGH, Spread},
        statistics::{
            margin::Margin,
            pairwise::{Pair, RankGroups},
            verdict::Verdict,
        },
    },
    engine::LossClass,
};
use std::{borrow::Borrow, mem};

/// Ranking of the stores that executed the same workload, the best median first; of an interleaved comparison, the best
/// mean.
pub struct Ranking<'r, 'a> {
    /// Short description of the workload, unique in a list of rankings.
    pub title: String,
    /// Metric by which the stores are ranked.
    pub measure: &'static Metric,
    /// Largest loss of acknowledged writes that a ranked store may have; `None` for work that only reads. Without
    /// `--may-lose` also `None` if the fsync policy or the loss bounds of all stores are not known.
    pub bound: Option<Loses>,
    /// Ranked stores, the best first.
    pub places: Vec<RankedStore<'r, 'a>>,
    /// Names of stores that are not ranked, each with the reason.
    pub left_out: Vec<(String, String)>,
    /// Ranked stores, as indices of `places`, grouped by their comparison with the first.
    groups: RankGroups,
    /// Relative difference of the metric below which stores count as equal.
    margin: Margin,
    reads_only: bool,
    /// `true` if each store has the fsync policy that `--may-lose` chose for it.
    pub by_policy: bool,
}

/// Ranked store with its values.
pub struct RankedStore<'r, 'a> {
    /// Cell of the ranked store, with its measurements.
    pub entry: &'r Entry<'a>,
    /// Median and range of the ranking's metric over the store's repetitions.
    pub spread: Spread,
    /// Comparison with the first store; `None` for the first store and with fewer than [`ENOUGH`] common repetitions.
    pub to_first: Option<ToFirst>,
}

/// Comparison of a ranked store with the first.
#[derive(Clone, Copy, Debug)]
pub struct ToFirst {
    /// Value of the metric of the store, divided by that of the first store.
    pub ratio: f64,
    /// Confidence interval of `ratio`: 95%, corrected for all pairs of the ranking.
    pub interval: (f64, f64),
    /// Verdict on the store, compared with the first one.
    pub verdict: Verdict,
}

impl ToFirst {
    fn of(pair: Pair, better: Better) -> Self {
        let Pair { ratio, interval: (low, high), verdict, .. } = pair;
        match better {
            Better::Higher => Self { ratio, interval: (low, high), verdict },
            // The pair compares the inverse values.
            Better::Lower => Self { ratio: 1.0 / ratio, interval: (1.0 / high, 1.0 / low), verdict },
        }
    }
}

/// Returns the rankings of a table's cells: one for each workload, in the order of the cells. A workload of which no
/// store was measured has a ranking that only lists the stores that are left out. Cells that measure the harness are
/// ignored.
pub fn rankings<'r, 'a>(entries: impl IntoIterator<Item = &'r Entry<'a>>) -> Vec<Ranking<'r, 'a>>
where
    'a: 'r,
{
    let measured = |entry: &&Entry<'_>| !entry.cell.reference;
    let groups = same_work(entries.into_iter().filter(measured));
    groups.into_iter().filter_map(Ranking::of).collect()
}

impl<'r, 'a> Ranking<'r, 'a> {
    fn of(group: ComparisonGroup<'r, 'a>) -> Option<Self> {
        let first = group.entries.first()?;
        let figure = first.cell.figure;
        let paced = group.is_paced() && figure == Figure::Throughput;
        let reads_only = !group.entries.iter().any(|entry| entry.may_lose());
        let bound = if reads_only { None } else { bound(&group.entries) };
        let mut ranking = Self {
            title: group.title,
            measure: if paced { &P99 } else { metric::of_figure(figure) },
            bound,
            places: Vec::new(),
            left_out: Vec::new(),
            groups: RankGroups::default(),
            margin: Margin::default(),
            reads_only,
            by_policy: first.cell.target.may_lose.is_some(),
        };
        group.entries.iter().for_each(|entry| ranking.admit(entry));
        let order = ranking.measure.better;
        ranking.places.sort_by(|one, other| order.order(one.spread.median, other.spread.median));
        ranking.compare();
        if ranking.by_policy {
            let lines = group.entries.iter().flat_map(|entry| &entry.run.left_out);
            let unmeasured = distinct(lines.map(String::as_str));
            let unmeasured = unmeasured.into_iter().filter_map(|line| line.split_once(": "));
            let is_ranked =
                |store: &str| ranking.places.iter().any(|place| place.entry.cell.target.store == store);
            let unmeasured: Vec<_> = unmeasured.filter(|(store, _)| !is_ranked(store)).collect();
            ranking.left_out.extend(unmeasured.into_iter().map(|(store, why)| (store.into(), why.into())));
        }
        (!ranking.places.is_empty() || !ranking.left_out.is_empty()).then_some(ranking)
    }

    /// Adds the store of a cell to the ranking or, with the reason, to the stores that are left out. Ignores a store
    /// without a value of the metric.
    fn admit(&mut self, entry: &'r Entry<'a>) {
        let mut leave_out = |reason| self.left_out.push((entry.label(), reason));
        match &entry.state {
            State::Faulty(reason) => return leave_out(format!("failed: {reason}")),
            State::Unsupported(reason) => return leave_out(reason.clone()),
            State::Missing => return leave_out("not measured yet".into()),
            State::Sound => {}
        }
        let excess = self.bound.and_then(|most| Some(comparability::loses(&entry.cell.target)?.excess(most)));
        match (excess, entry.spread(self.measure)) {
            (Some(reason), _) if !reason.is_empty() => leave_out(reason),
            (_, Some(spread)) => {
                self.places.push(RankedStore { entry, spread, to_first: None });
            }
            (_, None) => {}
        }
    }

    /// Compares all pairs of ranked stores, and sets the comparison of each with the first, the groups and the margin.
    fn compare(&mut self) {
        let mut judged = self.judged();
        if judged.is_recorded {
            // Recorded verdicts compare means over blocks, so the stores are ranked by the same means.
            let mut places: Vec<_> = mem::take(&mut self.places).into_iter().map(Some).collect();
            let in_order = judged.pairwise.order().iter().filter_map(|place| places.get_mut(*place)?.take());
            self.places = in_order.collect();
            judged = self.judged();
        }
        let Judged { pairwise, margin, .. } = judged;
        self.margin = margin;
        let order: Vec<usize> = (0..self.places.len()).collect();
        self.groups = pairwise.rank_groups(&order);
        for (number, place) in self.places.iter_mut().enumerate().skip(1) {
            let pair = pairwise.between(number, 0);
            place.to_first = pair.map(|pair| ToFirst::of(pair, self.measure.better));
        }
    }

    fn judged(&self) -> Judged {
        Judged::of(&self.places.iter().map(|place| place.entry).collect::<Vec<_>>(), self.measure)
    }

    /// Returns the store that is certainly better than each other ranked store, or `None` if there is none or
    /// no other store.
    pub fn winner(&self) -> Option<&RankedStore<'r, 'a>> {
        self.places.get(self.groups.winner()?)
    }

    /// Returns the ranked cell whose value of `measure` is better than that of each other ranked cell with 95% confidence,
    /// or `None` if there is no such cell, only one cell, or the metric cannot be ranked.
    pub fn best(&self, measure: &Metric) -> Option<&'r Entry<'a>> {
        let entries = || self.places.iter().map(|place| place.entry);
        if measure.name == metric::THROUGHPUT.name
            && entries().any(|entry| entry.cell.workload.rate.is_some())
        {
            return None;
        }
        // A value of 0 has no ratio to the others.
        if entries().filter_map(|entry| entry.spread(measure)).any(|spread| spread.min <= 0.0) {
            return None;
        }
        let measured: Vec<_> = entries().filter(|entry| !entry.scores(measure).is_empty()).collect();
        let pairwise = Judged::of(&measured, measure).pairwise;
        let winner = pairwise.rank_groups(pairwise.order()).winner()?;
        measured.get(winner).copied()
    }

    /// Returns the name of the store if the ranking has no other one, neither ranked nor left out.
    pub fn only_store(&self) -> Option<String> {
        match self.places.as_slice() {
            [only] if self.left_out.is_empty() => Some(only.entry.label()),
            _ => None,
        }
    }

    /// Returns the verdict as a sentence without a final stop: the winner, or the reason why there is none.
    pub fn result(&self) -> String {
        let among = self.among();
        let [first, rivals @ ..] = self.places.as_slice() else {
            return format!("no store was measured{among}");
        };
        let name = |place: &RankedStore<'_, '_>| self.name(place);
        if rivals.is_empty() {
            return format!("{} is the only store{among}", name(first));
        }
        if self.places.iter().any(|place| place.entry.samples() < ENOUGH)
            || rivals.iter().any(|place| place.to_first.is_none())
        {
            return format!("no verdict{among}: {}", self.too_few());
        }
        let names = |stores: &[usize]| -> Vec<String> {
            stores.iter().filter_map(|store| self.places.get(*store)).map(name).collect()
        };
        let RankGroups { winners, undecided, slower } = &self.groups;
        let best = names(winners);
        if !undecided.is_empty() {
            let near = listed(&[best, names(undecided)].concat());
            return format!(
                "no winner{among}: cannot tell which of {near} {}{}",
                superlative(self.measure, true),
                self.needed(undecided)
            );
        }
        if best.len() > 1 {
            let margin = self.margin;
            return format!(
                "{} {}{among}, equal within {margin}{}",
                listed(&best),
                superlative(self.measure, false),
                self.small_differences(winners)
            );
        }
        let second = slower.first().and_then(|store| self.places.get(*store));
        let by = second.and_then(|second| Some(self.times(second.to_first?, &name(second))));
        format!("{} {}{among}{}", name(first), superlative(self.measure, true), by.unwrap_or_default())
    }

    /// Returns the differences of stores that tie with the first although they are shown to differ, as the end of a sentence;
    /// empty if there are none.
    fn small_differences(&self, winners: &[usize]) -> String {
        let small = winners.iter().filter_map(|store| {
            let place = self.places.get(*store)?;
            let ToFirst { ratio, verdict, .. } = place.to_first?;
            matches!(verdict, Verdict::SlightlySlower { .. })
                .then(|| format!("{} by {:.1}%", self.name(place), (ratio - 1.0).abs() * 100.0))
        });
        let small: Vec<_> = small.collect();
        if small.is_empty() { String::new() } else { format!("; the first is ahead of {}", listed(&small)) }
    }

    /// Returns what would decide the comparisons of `undecided` stores with the first, as the end of a sentence.
    fn needed(&self, undecided: &[usize]) -> String {
        let verdicts = undecided.iter().filter_map(|store| Some(self.places.get(*store)?.to_first?.verdict));
        let first = self.places.first().map(|place| place.entry);
        let comparison = first.and_then(|entry| entry.run.comparison(&entry.cell.id));
        deciding_clause(verdicts, self.margin, comparison)
            .map_or(String::new(), |clause| format!("; {clause}"))
    }

    /// Returns the reason why the ranking has too few repetitions for a verdict, as a clause.
    fn too_few(&self) -> String {
        let disturbed = self.places.iter().any(|place| {
            let entry = place.entry;
            let mut own = entry.run.samples.iter().filter(|sample| sample.cell == entry.cell.id);
            own.any(|sample| entry.run.is_disturbed(sample))
        });
        let kind = if disturbed { " that other programs did not disturb" } else { "" };
        format!("it takes {ENOUGH} common repetitions{kind}")
    }

    /// Returns the ranked stores as text, in order.
    pub fn shown(&self) -> Vec<ShownStore> {
        let winner = self.winner().map(|place| place.entry.cell.id.as_str());
        self.places.iter().map(|place| place.shown(self, winner)).collect()
    }

    /// Returns how much better the first store is than the second, with the confidence interval: ", 1.5 times as fast
    /// as lmdb (1.4 to 1.6)".
    fn times(&self, pair: ToFirst, second: &str) -> String {
        let (low, high) = pair.interval;
        let text = number_format::ratio;
        match (self.measure.better, self.measure.unit) {
            (Better::Higher, _) => format!(
                ", {} times as fast as {second} ({} to {})",
                text(1.0 / pair.ratio),
                text(1.0 / high),
                text(1.0 / low)
            ),
            (Better::Lower, unit) => {
                let what = if unit == Unit::Bytes { "bytes" } else { "time" };
                format!(
                    "; {second} takes {} times the {what} ({} to {})",
                    text(pair.ratio),
                    text(low),
                    text(high)
                )
            }
        }
    }

    /// Returns the largest loss that a ranked store may have: " among stores that lose at most a second". Empty without
    /// such a bound.
    fn among(&self) -> String {
        let Some(most) = self.bound else { return String::new() };
        let words = comparability::at_most(most);
        match words.strip_prefix("loses ") {
            Some(rest) => format!(" among stores that lose {rest}"),
            None => format!(" among stores of which {words}"),
        }
    }

    /// Returns the name of a ranked store, with its fsync policy if each store has its own.
    pub fn name(&self, place: &RankedStore<'_, '_>) -> String {
        match self.by_policy {
            true => format!("{} ({})", place.entry.label(), place.policy()),
            false => place.entry.label(),
        }
    }
}

/// Words about work that only reads, in place of a loss.
pub(super) const READS_LOSE_NOTHING: &str = "reads lose nothing";

/// Returns the verdicts of a table's rankings as sentences without a final stop: one sentence for a single
/// ranking; otherwise one for each, then one for each reason to leave out stores, with the rankings that it concerns
/// unless it concerns all, and "reads lose nothing" if all rankings only read.
pub fn verdicts(rankings: &[Ranking<'_, '_>]) -> Vec<String> {
    let mut left_out = Vec::new();
    for LeftOut { reason, titles, stores } in reasons(rankings) {
        let verb = if stores.len() == 1 { "is" } else { "are" };
        let of = if titles.len() == rankings.len() { "" } else { &format!(" of {}", listed(&titles)) };
        left_out.push(format!("{} {verb} left out{of}: {reason}", listed(&stores)));
    }
    if rankings.iter().all(|ranking| ranking.reads_only) && !rankings.is_empty() {
        left_out.push(READS_LOSE_NOTHING.to_owned());
    }
    match rankings {
        [only] => vec![std::iter::once(only.result()).chain(left_out).collect::<Vec<_>>().join("; ")],
        several => {
            let results = several.iter().map(|ranking| format!("{}: {}", ranking.title, ranking.result()));
            results.chain(left_out).collect()
        }
    }
}

/// Stores that are left out of the same rankings of a table for the same reason.
struct LeftOut<'k> {
    reason: &'k str,
    /// Titles of the rankings that leave out the stores.
    titles: Vec<&'k str>,
    stores: Vec<&'k str>,
}

/// Returns the reasons why stores are left out of any of the rankings, each with those rankings and stores.
fn reasons<'k>(rankings: &'k [Ranking<'_, '_>]) -> Vec<LeftOut<'k>> {
    let mut reasons: Vec<LeftOut<'k>> = Vec::new();
    for (store, reason) in rankings.iter().flat_map(|ranking| &ranking.left_out) {
        let is_left_out = |ranking: &&Ranking<'_, '_>| {
            ranking.left_out.iter().any(|(other, why)| (other, why) == (store, reason))
        };
        let titles: Vec<_> =
            rankings.iter().filter(is_left_out).map(|ranking| ranking.title.as_str()).collect();
        match reasons.iter_mut().find(|known| known.reason == reason && known.titles == titles) {
            Some(known) if known.stores.contains(&store.as_str()) => {}
            Some(known) => known.stores.push(store),
            None => reasons.push(LeftOut { reason, titles, stores: vec![store] }),
        }
    }
    reasons
}

/// Ranked store as text.
pub struct ShownStore {
    /// Name of the store, with its side in a duel, its compression and its read-ahead, as far as it has them.
    pub store: String,
    /// Name of the store's fsync policy; `memory` without files, `unknown` if it is not known.
    pub policy: &'static str,
    /// Acknowledged writes that a kill may lose: "a second"; "unknown" if it is not known.
    pub kill: &'static str,
    /// Acknowledged writes that a power cut may lose: "a second"; "unknown" if it is not known.
    pub power_cut: &'static str,
    /// Median of the ranking's metric, with its unit.
    pub value: String,
    /// Ratio of the store's metric to that of the first store, with its 95% confidence interval if there are enough
    /// repetitions; empty for the first store.
    pub to_first: String,
    /// 99th percentile of the latency, with its unit; empty if there is none.
    pub p99: String,
    /// Memory, files and times to open of the store ([`price`]).
    pub price: [String; 4],
    /// `true` for the store that is better than all others with 95% confidence.
    pub is_winner: bool,
    /// `true` if other programs disturbed every repetition of the store.
    pub is_disturbed: bool,
    /// `true` if the harness overhead may be more than half of the store's measured time.
    pub is_near_floor: bool,
}

impl RankedStore<'_, '_> {
    fn shown(&self, ranking: &Ranking<'_, '_>, winner: Option<&str>) -> ShownStore {
        let (run, cell) = (self.entry.run, self.entry.cell);
        let losses = comparability::loses(&cell.target);
        let loses =
            |of: fn(Loses) -> LossClass| losses.map_or("unknown", |loses| comparability::brief(of(loses)));
        let text = number_format::ratio;
        let ratio = self.ratio_to(&ranking.places).map_or(String::new(), text);
        let interval = self.to_first.map_or(String::new(), |pair| {
            format!(" ({} to {})", text(pair.interval.0), text(pair.interval.1))
        });
        let p99 = self.entry.spread(&P99);
        ShownStore {
            store: self.entry.label(),
            policy: self.policy(),
            kill: loses(|loses| loses.kill),
            power_cut: loses(|loses| loses.power_cut),
            value: number_format::exact(ranking.measure.unit, self.spread.median),
            to_first: format!("{ratio}{interval}"),
            p99: p99.map_or(String::new(), |spread| number_format::short(P99.unit, spread.median)),
            price: price(self.entry, &[self.entry]),
            is_winner: winner == Some(cell.id.as_str()),
            is_disturbed: run.disturbed_part(&cell.id).is_some(),
            is_near_floor: run.measurements(&cell.id).any(|one| one.near_floor == Some(true)),
        }
    }

    /// Returns the name of the store's fsync policy; `memory` without files, `unknown` if it is not known.
    fn policy(&self) -> &'static str {
        Level::of(&self.entry.cell.target).durability_word()
    }

    /// Returns the ratio of this store's value of the metric to that of the first of `places`, or `None` for the first.
    fn ratio_to(&self, places: &[RankedStore<'_, '_>]) -> Option<f64> {
        let first = places.first().filter(|first| !std::ptr::eq(first.entry, self.entry))?;
        Some(self.to_first.map_or(self.spread.median / first.spread.median, |pair| pair.ratio))
    }
}

/// Returns the largest loss that a ranked store may have: the one that `--may-lose` or the fsync policy allows or, if
/// no measured store is within the latter, the smallest loss of the measured stores (of all, if none was measured). `None`
/// if the fsync policy or all losses are not known.
fn bound(entries: &[&Entry<'_>]) -> Option<Loses> {
    let target = &entries.first()?.cell.target;
    if target.may_lose.is_some() {
        return target.may_lose;
    }
    let meant = comparability::of_policy(Level::of(target).durability?);
    let smallest = |only_measured: bool| {
        let counting = entries.iter().filter(|entry| !only_measured || entry.state == State::Sound);
        let losses = counting.filter_map(|entry| comparability::loses(&entry.cell.target));
        losses.map(|loses| loses.kill.max(loses.power_cut)).min()
    };
    let smallest = smallest(true).or_else(|| smallest(false))?;
    let most = meant.kill.max(smallest);
    Some(Loses { kill: most, power_cut: most })
}

/// Returns the predicate of the best store, or of several unless `is_one`, by the metric of a ranking: "is fastest",
/// "have the smallest files".
fn superlative(measure: &'static Metric, is_one: bool) -> &'static str {
    match (measure, is_one) {
        (measure, true) if std::ptr::eq(measure, &P99) => "has the lowest 99th percentile of latency",
        (measure, false) if std::ptr::eq(measure, &P99) => "have the lowest 99th percentile of latency",
        (measure, true) if std::ptr::eq(measure, &DISK) => "has the smallest files",
        (measure, false) if std::ptr::eq(measure, &DISK) => "have the smallest files",
        (measure, true) if measure.unit == Unit::Bytes => "reads the fewest bytes",
        (measure, false) if measure.unit == Unit::Bytes => "read the fewest bytes",
        (_, true) => "is fastest",
        (_, false) => "are fastest",
    }
}

/// Joins names as a list of a sentence: "a, b and c".
pub(super) fn listed<S: Borrow<str>>(names: &[S]) -> String {
    match names {
        [] => String::new(),
        [only] => only.borrow().to_owned(),
        [before @ .., last] => format!("{} and {}", before.join(", "), last.borrow()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Neither small files nor few bytes that are read are speed.
    #[test]
    fn the_best_store_is_named_by_what_was_measured() {
        let words = |figure| [true, false].map(|is_one| superlative(metric::of_figure(figure), is_one));
        assert_eq!(words(Figure::DeviceReadBytes), ["reads the fewest bytes", "read the fewest bytes"]);
        assert_eq!(words(Figure::DiskBytes), ["has the smallest files", "have the smallest files"]);
        assert_eq!(words(Figure::Milliseconds), ["is fastest", "are fastest"]);
        assert_eq!(words(Figure::Throughput), ["is fastest", "are fastest"]);
    }
}

//! Comparison groups: cells that may be ranked because workload, level and machine are equal, and for writes the
//! loss bound.

use super::measured_cell::{Entry, Source};
use crate::bench::result::{
    Access, Target, Workload,
    comparability::{self, Level},
    interleaved_comparison::Comparison,
    metric::{Metric, THROUGHPUT, Unit},
    number_format,
    statistics::{
        BETWEEN_RUNS, BETWEEN_RUNS_OF_SIZES,
        looks::Looks,
        margin::Margin,
        pairwise::{Pairwise, Rates, Runs},
        verdict::{Verdict, deciding},
    },
};
use std::collections::BTreeMap;

/// Comparison group: cells with equal workload, level (access, commit path, fsync policy), machine and cache size. If
/// [`contests`] made the group, cells that write also have equal loss bounds, so that they may be ranked.
pub struct ComparisonGroup<'r, 'a> {
    /// Short description of the workload, unique in a list of comparison groups.
    pub title: String,
    /// Cells of the comparison group, in the order of the report's tables.
    pub entries: Vec<&'r Entry<'a>>,
}

impl<'r, 'a> ComparisonGroup<'r, 'a> {
    /// Returns `true` if the workload is an open loop: operations start at a given rate. Its throughput is then that
    /// rate and cannot be ranked.
    pub fn is_paced(&self) -> bool {
        self.entries.first().is_some_and(|entry| entry.cell.workload.rate.is_some())
    }
}

/// Comparison of all pairs of a list of comparable cells by a metric.
pub struct Judged {
    /// Verdicts on the pairs of cells, which are identified by their indices in the list of compared cells.
    pub pairwise: Pairwise,
    /// Relative difference of the metric below which two cells count as equal.
    pub margin: Margin,
    /// `true` if the verdicts are those that an interleaved comparison has recorded.
    pub is_recorded: bool,
}

impl Judged {
    /// Compares all pairs of cells by the metric `measure`. For the throughput of cells that took turns (an interleaved
    /// comparison), returns the verdicts that were recorded during the measurement.
    pub fn of(entries: &[&Entry<'_>], measure: &Metric) -> Self {
        let first = entries.first();
        let comparison = first.and_then(|first| first.run.comparison(&first.cell.id));
        let ids: Vec<&str> = entries.iter().map(|entry| entry.cell.id.as_str()).collect();
        let recorded = comparison.filter(|one| {
            let is_compared = |entry: &&Entry<'_>| {
                first.is_some_and(|first| std::ptr::eq(first.run, entry.run))
                    && one.cells.contains(&entry.cell.id)
            };
            measure.name == THROUGHPUT.name && entries.iter().all(is_compared)
        });
        if let Some(comparison) = recorded {
            let (pairwise, margin) = (comparison.recorded(&ids), comparison.margin);
            return Self { pairwise, margin, is_recorded: true };
        }
        let scores: Vec<_> = entries.iter().map(|entry| entry.scores(measure)).collect();
        let (looks, margin) = match first {
            Some(entry) => entry.run.looks(&entry.cell.id),
            None => (Looks::once(), Margin::default()),
        };
        let sources: Vec<_> = entries.iter().map(|entry| vec![entry.source()]).collect();
        Self::by_scores(&sources, measure, &scores, (&looks, margin))
    }

    /// Compares all pairs of stores by `scores`, the logarithms of each store's metric by repetition. `sources` has the
    /// sources of each store's cells, one for each workload. Stores with different ones are compared with the variance
    /// between runs.
    pub fn by_scores(
        sources: &[Vec<Source>],
        measure: &Metric,
        scores: &[BTreeMap<u32, f64>],
        (looks, margin): (&Looks, Margin),
    ) -> Self {
        let number = |own: &Vec<Source>| sources.iter().position(|other| other == own);
        let numbers: Vec<usize> = sources.iter().filter_map(number).collect();
        let deviation = match measure.unit {
            Unit::Bytes | Unit::Times | Unit::Count => BETWEEN_RUNS_OF_SIZES,
            Unit::PerSecond | Unit::Seconds | Unit::Microseconds => BETWEEN_RUNS,
        };
        let runs = Runs { of: &numbers, deviation };
        let pairwise = Pairwise::of(Rates { stores: scores, looks, margin, runs });
        Self { pairwise, margin, is_recorded: false }
    }
}

/// Divides cells into comparison groups (workload, level, machine, cache size and, for writes, loss bound are equal, so
/// that the cells may be ranked), and gives each group a title.
pub fn contests<'r, 'a>(entries: impl IntoIterator<Item = &'r Entry<'a>>) -> Vec<ComparisonGroup<'r, 'a>>
where
    'a: 'r,
{
    grouped(entries, comparable)
}

/// Returns what would decide all of `verdicts` that cannot tell, as a clause; `None` if there are none. `comparison` is that
/// of the stores if they took turns.
pub fn deciding_clause(
    verdicts: impl IntoIterator<Item = Verdict>,
    margin: Margin,
    comparison: Option<&Comparison>,
) -> Option<String> {
    let open = verdicts.into_iter().filter_map(|verdict| match verdict {
        Verdict::CannotTell { blocks, may_be_equal, .. } => Some((blocks, may_be_equal)),
        _ => None,
    });
    let longest = |(all, one): (Option<u32>, Option<u32>)| Some(all?.max(one?));
    let (blocks, may_be_equal) = open.reduce(|all, one| (longest((all.0, one.0)), all.1 && one.1))?;
    let amount = |blocks| match comparison {
        Some(comparison) => comparison.amount(blocks),
        None => format!("{blocks} repetitions"),
    };
    Some(deciding(blocks, may_be_equal, margin, amount))
}

/// Divides cells into groups with equal workload, machine, cache size and level (access, commit path, fsync policy),
/// whatever their loss bounds are, and gives each group a title.
pub fn same_work<'r, 'a>(entries: impl IntoIterator<Item = &'r Entry<'a>>) -> Vec<ComparisonGroup<'r, 'a>>
where
    'a: 'r,
{
    let is_same = |a: &Entry<'_>, b: &Entry<'_>| {
        is_same_work(a, b) && Level::of(&a.cell.target) == Level::of(&b.cell.target)
    };
    grouped(entries, is_same)
}

fn grouped<'r, 'a>(
    entries: impl IntoIterator<Item = &'r Entry<'a>>,
    belong: impl Fn(&Entry<'_>, &Entry<'_>) -> bool,
) -> Vec<ComparisonGroup<'r, 'a>>
where
    'a: 'r,
{
    let mut contests: Vec<ComparisonGroup<'r, 'a>> = Vec::new();
    for entry in entries {
        let same = |contest: &&mut ComparisonGroup<'r, 'a>| {
            contest.entries.first().is_some_and(|first| belong(first, entry))
        };
        match contests.iter_mut().find(same) {
            Some(contest) => contest.entries.push(entry),
            None => contests.push(ComparisonGroup { title: String::new(), entries: vec![entry] }),
        }
    }
    name(&mut contests);
    contests
}

fn comparable(a: &Entry<'_>, b: &Entry<'_>) -> bool {
    is_same_work(a, b) && may_be_ranked(a, b)
}

/// Returns `true` if two cells of the same work may be ranked by their levels (access, commit path, fsync policy) and
/// loss bounds.
fn may_be_ranked(a: &Entry<'_>, b: &Entry<'_>) -> bool {
    comparability::may_be_ranked(&a.cell.target, &b.cell.target, a.may_lose() || b.may_lose())
}

/// Returns `true` if both cells could be ranked if the rates (open loop) of their workloads were equal.
pub fn is_comparable_at_other_rates(a: &Entry<'_>, b: &Entry<'_>) -> bool {
    let unpaced = |entry: &Entry<'_>| Workload { rate: None, ..entry.cell.workload.clone() };
    is_same_setting(a, b) && unpaced(a) == unpaced(b) && may_be_ranked(a, b)
}

/// Returns `true` if both cells have the same workload, on the same machine and with the same cache size.
fn is_same_work(a: &Entry<'_>, b: &Entry<'_>) -> bool {
    a.cell.workload == b.cell.workload && is_same_setting(a, b)
}

/// Returns `true` if both cells were measured on the same machine and with the same cache size; that of an external
/// server counts as equal to any.
fn is_same_setting(a: &Entry<'_>, b: &Entry<'_>) -> bool {
    let foreign = |target: &Target| target.address.is_some();
    let (one, other) = (&a.cell.target, &b.cell.target);
    a.group == b.group
        && a.cell.reference == b.cell.reference
        // The cache size of an external server is not known.
        && (one.cache_bytes == other.cache_bytes || foreign(one) || foreign(other))
}

/// Sets the title of each comparison group: its workload and, if that is ambiguous, the settings in which the groups
/// differ.
fn name(contests: &mut [ComparisonGroup<'_, '_>]) {
    let traits: Vec<Vec<String>> = contests.iter().map(traits).collect();
    for (number, contest) in contests.iter_mut().enumerate() {
        let Some(own) = traits.get(number) else { continue };
        contest.title = shortest_title(own, &traits);
    }
}

/// Returns a title: the traits (workload and settings, as text) from `own` that distinguish it from all other entries
/// of `all`, joined by commas. The first trait is always included.
fn shortest_title(own: &[String], all: &[Vec<String>]) -> String {
    let mut namesakes: Vec<_> = all.iter().filter(|other| other.as_slice() != own).collect();
    let mut title = Vec::new();
    for (position, part) in own.iter().enumerate() {
        let before = namesakes.len();
        namesakes.retain(|other| other.get(position) == Some(part));
        if position == 0 || namesakes.len() < before {
            title.push(part.as_str());
        }
    }
    title.join(", ")
}

/// Returns the traits of a comparison group: the name of the workload, followed by every setting that may differ, each
/// as text. The last one is the loss bound, if the work may lose writes and all cells have the same.
fn traits(contest: &ComparisonGroup<'_, '_>) -> Vec<String> {
    let Some(entry) = contest.entries.first() else { return Vec::new() };
    let work = &entry.cell.workload;
    let mut parts = vec![work.name.clone()];
    parts.extend(load_traits(work, entry));
    parts.push(number_format::order(work.order));
    parts.push(match (work.seconds, work.operations) {
        (Some(seconds), _) => format!("{seconds} s"),
        (None, Some(count)) => format!("{count} operations"),
        (None, None) => String::new(),
    });
    parts.push(work.rate.map_or_else(|| "closed loop".to_owned(), |rate| format!("{rate} a second")));
    let least = if work.random_scan_length { "1 to " } else { "" };
    parts.push(format!("{least}{} pairs a scan", work.scan_length));
    parts.push(format!("seed {}", work.seed));
    parts.push(format!("cache {} B", entry.cell.target.cache_bytes));
    parts.push(format!("machine {}", entry.group + 1));
    let losses = contest.entries.iter().map(|entry| comparability::loses_words(&entry.cell.target));
    if let ([Some(words)], true) = (number_format::distinct(losses).as_slice(), entry.may_lose()) {
        parts.push(words.clone());
    }
    parts
}

fn load_traits(work: &Workload, entry: &Entry<'_>) -> Vec<String> {
    let (workers, batch) = match entry.cell.target.access {
        Access::InProcess => ("thread", "batch"),
        Access::Wire => ("client", "pipeline"),
    };
    let plural = if work.threads == 1 { "" } else { "s" };
    vec![
        number_format::mix(&work.mix),
        format!("{} {workers}{plural}", work.threads),
        format!("{batch} {}", work.batch),
        format!("{} keys", work.keys),
        format!("keys of {}", number_format::length(work.key_bytes)),
        format!("values of {}", number_format::length(work.value_bytes)),
        work.ttl_ms.map_or_else(|| "no expiration".to_owned(), |ttl| format!("time to live {ttl} ms")),
    ]
}

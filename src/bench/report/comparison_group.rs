//! Which cells can be compared: those that did the same work, at the same level, on the same machine.

use super::row::Entry;
use crate::bench::result::{
    Access, Target, Workload, loss_class,
    metric::{Better, Metric, THROUGHPUT},
    number_format,
    statistics::bootstrap,
};
use std::collections::BTreeMap;

/// Cells that did the same work.
pub struct ComparisonGroup<'r, 'a> {
    /// The work in a few words, other than that of any other contest of the same list.
    pub title: String,
    /// The cells, in the order of their tables.
    pub entries: Vec<&'r Entry<'a>>,
}

impl<'r, 'a> ComparisonGroup<'r, 'a> {
    /// Whether its operations began at a rate: then their throughput is that rate, and no merit.
    pub fn is_paced(&self) -> bool {
        self.entries.first().is_some_and(|entry| entry.cell.workload.rate.is_some())
    }

    /// The cell that is better than each of the others, of which there must be one, with 95% confidence.
    pub fn best(&self, measure: &Metric) -> Option<&'r Entry<'a>> {
        if self.is_paced() && measure.name == THROUGHPUT.name {
            return None;
        }
        let medians = self.entries.iter().filter_map(|entry| Some((*entry, entry.spread(measure)?.median)));
        let (best, _) = medians.clone().min_by(|a, b| measure.better.order(a.1, b.1))?;
        let mut others = medians.filter(|(entry, _)| !std::ptr::eq(*entry, best)).peekable();
        others.peek()?;
        let figures = best.by_repetition(measure);
        others.all(|(entry, _)| is_better(&figures, &entry.by_repetition(measure), measure)).then_some(best)
    }
}

/// Whether figures are better than others, as far as the repetitions that both have can tell.
fn is_better(one: &BTreeMap<u32, f64>, other: &BTreeMap<u32, f64>, measure: &Metric) -> bool {
    let pairs = one.iter().filter_map(|(repetition, value)| Some((*value, *other.get(repetition)?)));
    let higher = measure.better == Better::Higher;
    let found = bootstrap::paired(&pairs.collect::<Vec<_>>());
    found.is_some_and(|found| found.differs() && (found.ratio > 1.0) == higher)
}

/// Groups cells by what they did, and names the groups.
pub fn contests<'r, 'a>(entries: impl IntoIterator<Item = &'r Entry<'a>>) -> Vec<ComparisonGroup<'r, 'a>>
where
    'a: 'r,
{
    let mut contests: Vec<ComparisonGroup<'r, 'a>> = Vec::new();
    for entry in entries {
        let same = |contest: &&mut ComparisonGroup<'r, 'a>| {
            contest.entries.first().is_some_and(|first| comparable(first, entry))
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
    let foreign = |target: &Target| target.address.is_some();
    let (one, other) = (&a.cell.target, &b.cell.target);
    a.group == b.group
        && a.cell.reference == b.cell.reference
        && loss_class::may_be_ranked(one, other)
        && a.cell.workload == b.cell.workload
        // The cache of a server that we did not start is not known.
        && (one.cache_bytes == other.cache_bytes || foreign(one) || foreign(other))
}

/// Names contests by their workload and, where that is not enough, by what tells them apart.
fn name(contests: &mut [ComparisonGroup<'_, '_>]) {
    let traits: Vec<Vec<String>> = contests.iter().map(traits).collect();
    for (number, contest) in contests.iter_mut().enumerate() {
        let Some(own) = traits.get(number) else { continue };
        contest.title = shortest_title(own, &traits);
    }
}

/// As many traits as it takes until no other contest has them all.
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

/// The name of the workload first, then everything that may differ, each in words.
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
    parts.push(format!("{} pairs a scan", work.scan_length));
    parts.push(format!("seed {}", work.seed));
    parts.push(format!("cache {} B", entry.cell.target.cache_bytes));
    parts.push(format!("machine {}", entry.group + 1));
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
    ]
}

//! `kvbench reproduce`: repeats a published experiment, and shows the published and the new results in the layout
//! of the publication.
//!
//! The experiments are suites of `plan`, which have the published results, with source, machine and date, as JSON.
//! `published` reads the JSON; `measured` finds the metrics of a run; `tidwall_kvbench`, `kvstore_bench`,
//! `store_columns` and `ycsb` are the layouts, made with `markdown_table` and `bar_chart`.

mod bar_chart;
mod kvstore_bench;
mod markdown_table;
mod measured;
mod published;
mod store_columns;
mod tidwall_kvbench;
mod ycsb;

use crate::{
    bench::{
        plan::suites,
        result::{
            Run,
            metric::Unit,
            number_format::{self, distinct},
        },
    },
    engine::{self, synthetic},
};
use measured::OwnMetrics;
use published::{Layout, Published};
use std::fmt::Write;

/// Error of [`text`].
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum Error {
    #[error("{} is not a result of kvbench reproduce", .0)]
    NoReproduction(String),
    #[error("the figures of {publication} cannot be read: {source}")]
    Facts { publication: &'static str, source: serde_json::Error },
}

/// Returns a run of a publication's experiment as Markdown, in the layout of the publication.
///
/// # Errors
///
/// [`Error::NoReproduction`] if the run is of another suite, and [`Error::Facts`] if the published figures cannot be
/// read.
pub fn text(run: &Run) -> Result<String, Error> {
    let name = run.suite.as_deref().unwrap_or_default();
    let no_reproduction = || Error::NoReproduction(name.into());
    let suite = suites::find(name).ok_or_else(no_reproduction)?;
    let json = suite.published.ok_or_else(no_reproduction)?;
    let facts: Published =
        serde_json::from_str(json).map_err(|source| Error::Facts { publication: suite.word(), source })?;
    let ours = OwnMetrics::new(run, suite, &facts);
    let tables = match facts.layout {
        Layout::Kvbench => tidwall_kvbench::layout(&facts, &ours),
        Layout::KvstoreBench => kvstore_bench::layout(&facts, &ours),
        Layout::Smallnest => store_columns::smallnest(&facts, &ours),
        Layout::Xdag => store_columns::xdag(&facts, &ours),
        Layout::Redb => store_columns::redb(&facts, &ours),
        Layout::Ycsb => ycsb::layout(&facts, &ours),
    };
    Ok(head(&facts, run, &ours) + &tables + &foot(&facts, &ours))
}

/// Returns the head of the report: the experiment and its source; the machine and the versions of our run; its
/// numbers of keys; and a note if it was stopped.
fn head(facts: &Published, run: &Run, ours: &OwnMetrics<'_>) -> String {
    let mut text = format!("# {}\n\nPublished: {}. Date: {}.\n\n", facts.title, facts.source, facts.date);
    for line in &facts.experiment {
        let _ = writeln!(text, "- {line}");
    }
    let place = &run.environment;
    let mut memory = place.memory_bytes.map_or("unknown size".into(), number_format::size) + " of memory";
    if let Some(limit) = place.memory_limit_bytes {
        let _ = write!(memory, " ({} of it for each store)", number_format::size(limit));
    }
    let _ = write!(
        text,
        "\nOurs: {}, {} cores, {memory}, {}, {} on {}; {}, kvbench {} ({}), median of {}.\n",
        place.cpu.as_deref().unwrap_or("a processor of unknown name"),
        place.cores,
        place.system,
        place.file_system.as_deref().unwrap_or("a file system of unknown type"),
        place.device.as_deref().unwrap_or("a device of unknown name"),
        run.started.get(..10).unwrap_or_default(),
        run.version,
        place.commit.as_deref().unwrap_or("commit unknown"),
        run.repetitions,
    );
    let libraries = place
        .libraries
        .iter()
        .filter(|(store, _)| !synthetic::is_reference(store))
        .map(|(store, library)| format!("{store}: {library}"));
    let _ = writeln!(text, "Stores: {}.", libraries.collect::<Vec<_>>().join("; "));
    let caches =
        ours.cells().map(|cell| &cell.target).filter(|target| target.persistent && target.program.is_none());
    let caches =
        distinct(caches.filter(|target| synthetic::info(&target.store).is_some()).map(|t| t.cache_bytes));
    if !caches.is_empty() {
        let _ = writeln!(text, "--cache-size: {}.", joined(caches.into_iter().map(number_format::size)));
    }
    text.extend(counts(facts, ours));
    if !run.finished {
        text.push_str("The run was stopped: --resume completes it.\n");
    }
    text
}

/// Returns a line with the number of keys of our run, in relation to that of the publication, and one with the duration
/// of cells that end by time.
fn counts(facts: &Published, ours: &OwnMetrics<'_>) -> Option<String> {
    let keys = ours.keys()?;
    let mut text = format!("Ours: {} keys", grouped(keys));
    match ours.their_keys() {
        None if facts.states_keys => {}
        None => text.push_str("; the publication does not state its number"),
        Some(theirs) if theirs == keys => {}
        Some(theirs) => {
            let times =
                |more: u64, fewer: u64| number_format::short(Unit::Count, more as f64 / fewer.max(1) as f64);
            let (relation, effect) = match keys < theirs {
                true => {
                    (format!("1/{}", times(theirs, keys)), ", and remember that small data fit in caches")
                }
                false => (format!("{} times the number", times(keys, theirs)), ""),
            };
            let _ = write!(
                text,
                ", {relation} of theirs ({}). Totals differ for this reason alone; compare values per operation{effect}",
                grouped(theirs)
            );
        }
    }
    let timed = ours.cells().filter(|cell| cell.workload.operations.is_none());
    let seconds = distinct(timed.filter_map(|cell| cell.workload.seconds).map(number_format::digits));
    if !seconds.is_empty() {
        let _ = write!(text, ". Our cells that end by time last {} s", joined(seconds.into_iter()));
    }
    Some(text + ".\n")
}

fn joined(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join(", ")
}

fn grouped(number: u64) -> String {
    number_format::grouped(number as f64)
}

/// Returns the section with the remarks, below the tables: stores that only the publication has, missing values, and
/// warnings.
fn foot(facts: &Published, ours: &OwnMetrics<'_>) -> String {
    let mut text = String::from("\n## Remarks\n\n");
    let absent = facts.absent(&ours.stores());
    // A store in memory is named `map/memory`. A build may lack a store; the run then says that it was left out.
    let is_known =
        |store: &str| synthetic::info(store).is_some() || engine::absent().any(|(name, _)| name == store);
    let is_ours = |name: &String| name.split('/').next().is_some_and(is_known);
    let (unasked, unknown): (Vec<String>, Vec<String>) = absent.into_iter().partition(is_ours);
    for (why, names) in [("since kvbench has no such store", unknown), ("not measured in this run", unasked)]
    {
        if !names.is_empty() {
            let _ = writeln!(text, "- Published only, {why}: {}.", names.join(", "));
        }
    }
    for line in facts.remarks.iter().cloned().chain(ours.remarks()) {
        let _ = writeln!(text, "- {line}");
    }
    text
}

//! What each store promises, and what it needs: losses, memory, time to open again.

use super::{model::Report, row::Entry};
use crate::{
    bench::result::{
        metric::{MEMORY, Metric, REOPEN, Unit},
        number_format,
    },
    engine::{Fsync, synthetic},
};

/// A store.
pub struct StoreProperties {
    /// Its label.
    pub label: String,
    /// Its data structure; empty of a store that this build does not have.
    pub family: String,
    /// Whether all data must fit in memory.
    pub holds_all: bool,
    /// For each `--fsync` that was measured: the word, what a kill and what a power cut loses.
    pub losses: Vec<(&'static str, &'static str, &'static str)>,
    /// Largest memory that was measured, with the data it was measured with.
    pub memory: Option<String>,
    /// The same for the time to open again.
    pub recovery: Option<String>,
    /// Memory for each byte of keys and values, where all of them are in memory.
    pub memory_factor: Option<f64>,
}

/// All stores of a report, in its order.
pub fn promises(report: &Report<'_>) -> Vec<StoreProperties> {
    let mut promises: Vec<StoreProperties> = Vec::new();
    for entry in report.entries().filter(|entry| !entry.cell.reference) {
        if !promises.iter().any(|known| known.label == entry.label()) {
            promises.push(promise(report, entry));
        }
    }
    promises
}

fn promise(report: &Report<'_>, entry: &Entry<'_>) -> StoreProperties {
    let label = entry.label();
    let own = || report.entries().filter(|other| !other.cell.reference && other.label() == label);
    let ours = entry.cell.target.address.is_none();
    let info = synthetic::info(&entry.cell.target.store).filter(|_| ours);
    let measured = |fsync: &Fsync| {
        own().any(|other| {
            other.cell.target.persistent && other.cell.target.fsync.as_deref() == Some(fsync.as_str())
        })
    };
    let losses = info.map_or(Vec::new(), |info| {
        let all = Fsync::ALL.into_iter().filter(measured);
        all.map(|fsync| (fsync.as_str(), info.loss(fsync).kill.words, info.loss(fsync).power_cut.words))
            .collect()
    });
    let holds_all = info.is_some_and(|info| info.family.is_in_memory());
    let files: Vec<_> = own().filter(|other| other.tells_size()).collect();
    let all: Vec<_> = own().collect();
    StoreProperties {
        family: info.map_or(String::new(), |info| info.family.to_string()),
        holds_all,
        losses,
        memory: largest(&all, &MEMORY, |entry| entry.data_bytes()),
        recovery: largest(&files, &REOPEN, |entry| entry.left_bytes()),
        memory_factor: holds_all.then(|| factor(&all)).flatten(),
        label,
    }
}

/// A figure with the most `data` that it was measured with.
fn largest(entries: &[&Entry<'_>], measure: &Metric, data: impl Fn(&Entry<'_>) -> f64) -> Option<String> {
    let measured = entries.iter().filter_map(|entry| Some((data(entry), entry.spread(measure)?.median)));
    let (data, value) = measured.max_by(|one, other| {
        (one.0, one.1).partial_cmp(&(other.0, other.1)).unwrap_or(std::cmp::Ordering::Equal)
    })?;
    Some(format!(
        "{} with {} of data",
        number_format::short(measure.unit, value),
        number_format::short(Unit::Bytes, data)
    ))
}

/// Memory for each byte, of the cell with the most data, if that is enough to see anything beside the program.
fn factor(entries: &[&Entry<'_>]) -> Option<f64> {
    const ENOUGH: f64 = 8_388_608.0;
    let large = entries.iter().filter(|entry| entry.data_bytes() >= ENOUGH);
    let measured = large.filter_map(|entry| Some((entry.data_bytes(), entry.spread(&MEMORY)?.median)));
    measured.max_by(|one, other| one.0.total_cmp(&other.0)).map(|(data, memory)| (memory / data).max(1.0))
}

//! Properties of each store: loss bounds, memory, and times to recover and to reopen.

use super::{
    measured_cell::Entry,
    price::{largest, with_most_data},
    report_tables::Report,
};
use crate::{
    bench::result::{
        metric::{MEMORY, Metric, RECOVERY, REOPEN, Unit},
        number_format,
    },
    engine::{Fsync, synthetic},
};

/// Properties of one store: loss bounds, memory, and times to open it again.
pub struct StoreProperties {
    /// Name of the store, with its side in a duel, its compression and its read-ahead, as far as it has them.
    pub label: String,
    /// Data structure of the engine; empty if this build does not have the engine, and for a server that was already
    /// running (`--target`).
    pub family: String,
    /// `true` if the store keeps all its data in memory.
    pub holds_all: bool,
    /// Name of each fsync policy under which the store was measured with files, with the loss bounds of this build's
    /// engine after a kill and after a power cut, as text. Empty if this build does not have the engine.
    pub losses: Vec<(&'static str, &'static str, &'static str)>,
    /// Largest peak memory of all cells, and the size of the data in that cell, as text.
    pub memory: Option<String>,
    /// Time to open the store again after a kill, in the cell with the most data, and the size of that data, as text.
    pub recovery: Option<String>,
    /// Time to open the store again after it was closed, in the cell with the most data, and the size of that data, as
    /// text.
    pub reopening: Option<String>,
    /// Peak memory per byte of keys and values, at least 1; `None` unless all data must fit in memory, and if no cell
    /// has at least 8 MiB of data.
    pub memory_factor: Option<f64>,
}

/// Returns the loss bounds, memory and times of recovery and reopening of each store of a report, in the order of the
/// report.
pub fn promises(report: &Report<'_>) -> Vec<StoreProperties> {
    let mut promises: Vec<StoreProperties> = Vec::new();
    for entry in report.entries().filter(|entry| !entry.cell.reference) {
        if !promises.iter().any(|known| known.label == entry.label()) {
            promises.push(properties_of(report, entry));
        }
    }
    promises
}

fn properties_of(report: &Report<'_>, entry: &Entry<'_>) -> StoreProperties {
    let label = entry.label();
    let own = || report.entries().filter(|other| !other.cell.reference && other.label() == label);
    let ours = entry.cell.target.address.is_none();
    let info = synthetic::info(&entry.cell.target.store).filter(|_| ours);
    let measured = |fsync: &Fsync| {
        own().any(|other| other.cell.target.persistent && other.cell.target.fsync == Some(*fsync))
    };
    let losses = info.map_or(Vec::new(), |info| {
        let all = Fsync::ALL.into_iter().filter(measured);
        all.map(|fsync| (fsync.as_str(), info.loss(fsync).kill.words, info.loss(fsync).power_cut.words))
            .collect()
    });
    let holds_all = info.is_some_and(|info| info.capabilities.memory_resident);
    let files: Vec<_> = own().filter(|other| other.shows_size()).collect();
    let all: Vec<_> = own().collect();
    StoreProperties {
        family: info.map_or(String::new(), |info| info.family.to_string()),
        holds_all,
        losses,
        memory: largest(&all, |entry| Some((entry.spread(&MEMORY)?.median, entry.data_bytes())))
            .map(|(memory, data)| with_data(&MEMORY, memory, data)),
        recovery: with_most_data(&all, &RECOVERY).map(|(data, time)| with_data(&RECOVERY, time, data)),
        reopening: with_most_data(&files, &REOPEN).map(|(data, time)| with_data(&REOPEN, time, data)),
        memory_factor: holds_all.then(|| factor(&all)).flatten(),
        label,
    }
}

/// Returns a value of a metric, and the size in bytes of the data with which it was measured (`data`), as text.
fn with_data(measure: &Metric, value: f64, data: f64) -> String {
    format!(
        "{} with {} of data",
        number_format::short(measure.unit, value),
        number_format::short(Unit::Bytes, data)
    )
}

/// Returns the peak memory per byte of data in the cell with the most data, at least 1, or `None` if no cell has at
/// least 8 MiB of data: with less, the memory of the program itself dominates.
fn factor(entries: &[&Entry<'_>]) -> Option<f64> {
    const MIN_DATA_BYTES: f64 = 8_388_608.0;
    let large = entries.iter().filter(|entry| entry.data_bytes() >= MIN_DATA_BYTES);
    let measured = large.filter_map(|entry| Some((entry.data_bytes(), entry.spread(&MEMORY)?.median)));
    measured.max_by(|one, other| one.0.total_cmp(&other.0)).map(|(data, memory)| (memory / data).max(1.0))
}

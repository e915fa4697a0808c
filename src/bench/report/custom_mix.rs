//! Data with which the page's script ranks stores for a reader's own mix, data size, memory and durability:
//! the metrics by repetition of all workloads that consist of single-key reads and writes.

use super::{
    comparison_group::contests,
    model::Report,
    row::Entry,
    scenarios::{reads, tells_speed, writes},
    store_properties::StoreProperties,
};
use crate::{
    bench::result::{
        Size, Target,
        loss_class::{self, Level},
        metric::{P99, THROUGHPUT},
    },
    engine::LossClass,
};
use serde::Serialize;

/// Data for the page's script.
#[derive(Serialize)]
struct Data<'a> {
    stores: Vec<Store<'a>>,
    contests: Vec<Work>,
}

#[derive(Serialize)]
struct Store<'a> {
    name: &'a str,
    /// `true` if all data must fit in memory; `factor` is then the memory used per byte of data.
    holds_all: bool,
    factor: Option<f64>,
}

/// Cells with equal workload, which may be ranked.
#[derive(Serialize)]
struct Work {
    title: String,
    /// Identifier of the workload that does not depend on the fsync policy.
    work: String,
    access: &'static str,
    /// Share of single-key reads in all operations, from 0 to 1.
    reads: f64,
    data: f64,
    /// Memory that was available to the page cache and the stores, in bytes.
    memory: Option<f64>,
    cold: bool,
    value_bytes: String,
    cells: Vec<Cell>,
}

#[derive(Serialize)]
struct Cell {
    /// Index in the list of stores.
    store: usize,
    /// Name of the fsync policy.
    durability: &'static str,
    /// Loss bound after a kill (`power_cut`: after a power cut), from 0 (nothing) to 4 (everything, or
    /// unknown).
    kill: usize,
    power_cut: usize,
    /// Throughput by repetition; `None` for a missing repetition.
    rates: Vec<Option<f64>>,
    p99_us: Option<f64>,
}

/// Returns the loss bounds after a kill and after a power cut as indices into [`LossClass::ALL`], which
/// begins with the smallest loss.
fn losses(target: &Target) -> (usize, usize) {
    let place = |extent| LossClass::ALL.iter().position(|other| *other == extent);
    let worst = LossClass::ALL.len() - 1;
    let known = loss_class::loses(target);
    let of = |extent: Option<LossClass>| extent.and_then(place).unwrap_or(worst);
    (of(known.map(|loses| loses.kill)), of(known.map(|loses| loses.power_cut)))
}

/// Returns an identifier of the entry's workload, machine, access and cache size that does not depend on the
/// fsync policy.
fn work_of(entry: &Entry<'_>) -> String {
    let (cell, group) = (&entry.cell, entry.group);
    let work = serde_json::to_string(&cell.workload).unwrap_or_default();
    format!("{group} {} {} {work}", Level::of(&cell.target).access_words(), cell.target.cache_bytes)
}

/// Minimum share of single-key reads and writes in a workload that the chooser uses.
const NEARLY_ALL: f64 = 0.95;

/// Returns the data as JSON that can be embedded in the HTML page: each `<` is escaped.
pub fn data(report: &Report<'_>, promises: &[StoreProperties]) -> Result<String, serde_json::Error> {
    let stores = promises.iter().map(|promise| Store {
        name: &promise.label,
        holds_all: promise.holds_all,
        factor: promise.memory_factor,
    });
    let fits = |entry: &&Entry<'_>| {
        !entry.cell.reference
            && !entry.concurrent
            && tells_speed(entry)
            && reads(entry) + writes(entry) >= NEARLY_ALL
    };
    let mut works = Vec::new();
    for contest in contests(report.entries().filter(fits)) {
        let Some(first) = contest.entries.first() else { continue };
        let cells = contest.entries.iter().filter_map(|entry| {
            let rates = entry.by_repetition(&THROUGHPUT);
            let store = promises.iter().position(|promise| promise.label == entry.label())?;
            let rates: Vec<_> =
                (0..entry.run.repetitions).map(|number| rates.get(&number).copied()).collect();
            let p99_us = entry.spread(&P99).map(|spread| spread.median);
            let durability = Level::of(&entry.cell.target).durability_word();
            let (kill, power_cut) = losses(&entry.cell.target);
            rates.iter().any(Option::is_some).then_some(Cell {
                store,
                durability,
                kill,
                power_cut,
                rates,
                p99_us,
            })
        });
        let (level, place) = (Level::of(&first.cell.target), &first.run.environment);
        works.push(Work {
            work: work_of(first),
            access: level.access_words(),
            reads: reads(first),
            data: first.data_bytes(),
            #[expect(clippy::cast_precision_loss, reason = "compared with a number of people")]
            memory: place.memory_limit_bytes.or(place.memory_bytes).map(|bytes| bytes as f64),
            cold: first.is_cold(),
            value_bytes: match first.cell.workload.value_bytes {
                Size::Fixed(bytes) => bytes.to_string(),
                Size::Uniform(from, to) => format!("{from}-{to}"),
            },
            cells: cells.collect(),
            title: contest.title,
        });
    }
    let data = Data { stores: stores.collect(), contests: works };
    Ok(serde_json::to_string(&data)?.replace('<', "\\u003c"))
}

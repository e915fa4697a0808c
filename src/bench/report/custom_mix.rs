//! What the page needs to answer for a reader's own mix, data, memory and durability: the figures by
//! repetition of all work that is made of single reads and writes. The page's script computes with them.

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

/// Figures for the page's script.
#[derive(Serialize)]
struct Data<'a> {
    stores: Vec<Store<'a>>,
    contests: Vec<Work>,
}

#[derive(Serialize)]
struct Store<'a> {
    name: &'a str,
    /// Whether all data must fit in memory, and how much of it each byte takes.
    holds_all: bool,
    factor: Option<f64>,
}

/// Cells that did the same work.
#[derive(Serialize)]
struct Work {
    title: String,
    /// The same of the same work under every policy.
    work: String,
    access: &'static str,
    /// Part of reads.
    reads: f64,
    data: f64,
    /// What the page cache and the stores could use.
    memory: Option<f64>,
    cold: bool,
    value_bytes: String,
    cells: Vec<Cell>,
}

#[derive(Serialize)]
struct Cell {
    /// Place in the list of stores.
    store: usize,
    /// Its policy.
    durability: &'static str,
    /// How much a kill and a power cut take of it, from 0 (nothing) to 4 (everything, or nobody knows).
    kill: usize,
    power_cut: usize,
    /// Throughput by repetition; absent where a repetition is missing.
    rates: Vec<Option<f64>>,
    p99_us: Option<f64>,
}

/// Both losses as places in the list of extents, from the least to the most.
fn losses(target: &Target) -> (usize, usize) {
    let place = |extent| LossClass::ALL.iter().position(|other| *other == extent);
    let worst = LossClass::ALL.len() - 1;
    let known = loss_class::loses(target);
    let of = |extent: Option<LossClass>| extent.and_then(place).unwrap_or(worst);
    (of(known.map(|loses| loses.kill)), of(known.map(|loses| loses.power_cut)))
}

/// What tells one work from another, whatever its policy.
fn work_of(entry: &Entry<'_>) -> String {
    let (cell, group) = (&entry.cell, entry.group);
    let work = serde_json::to_string(&cell.workload).unwrap_or_default();
    format!("{group} {} {} {work}", Level::of(&cell.target).access_words(), cell.target.cache_bytes)
}

/// Part of the operations that a chooser of reads and writes must know.
const NEARLY_ALL: f64 = 0.95;

/// The figures as JSON that can stand in a page: no `<` in it opens anything.
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

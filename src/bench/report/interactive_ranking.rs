//! Data with which the page's script ranks stores for a reader's own mix, data size, memory and durability:
//! the metrics by repetition of all workloads that consist of single-key reads and writes.

use super::{
    comparison_group::{ComparisonGroup, contests},
    measured_cell::{Entry, State},
    report_tables::Report,
    scenarios::{is_closed_loop, reads, writes},
    store_properties::StoreProperties,
};
use crate::{
    bench::result::{
        Access, Commits, Loses, Measurement, Order, Size, Target,
        comparability::{self, Level},
        metric::{P99, THROUGHPUT},
        number_format,
        statistics::BETWEEN_RUNS,
    },
    engine::{Compression, LossClass},
};
use serde::Serialize;

/// Data with which the page's script ranks stores for a reader's own question.
#[derive(Serialize)]
struct Data<'a> {
    /// Question (mix, sizes, allowed loss) with which the page opens: the one that the report's cells answer; `None` if
    /// no cell fits.
    start: Option<Question>,
    stores: Vec<Store<'a>>,
    contests: Vec<Work>,
    /// Standard deviation, between measurements with different sources, of the logarithm of a rate.
    between_runs: f64,
}

/// Question of a reader: share of reads, sizes, allowed loss and access.
#[derive(Serialize)]
struct Question {
    reads: f64,
    data: f64,
    memory: Option<f64>,
    value_bytes: String,
    /// Largest loss that is allowed after a kill, as an index into [`LossClass::ALL`] (`power_cut`: after a power cut).
    kill: usize,
    power_cut: usize,
    access: &'static str,
}

#[derive(Serialize)]
struct Store<'a> {
    name: &'a str,
    /// `true` if all data must fit in memory; `factor` is then the memory used per byte of data, or `None` if no cell
    /// has enough data to determine it.
    holds_all: bool,
    factor: Option<f64>,
}

/// Comparison group: cells with equal workload, access and settings, which may be ranked.
#[derive(Serialize)]
struct Work {
    title: String,
    /// Identifier of workload, machine, access and cache size, which does not depend on the fsync policy.
    work: String,
    access: &'static str,
    /// Share of single-key reads in all operations, from 0 to 1.
    reads: f64,
    data: f64,
    /// Memory that was available to the page cache and the stores, in bytes; `None` if unknown.
    memory: Option<f64>,
    value_bytes: String,
    /// Flags of `kvbench bench` with the stores, access, order of keys, size of keys, time to live, threads, batch,
    /// cache and compression of the work. The script adds those that the reader's question determines.
    flags: String,
    /// Seconds, per byte of data, that a repetition of the slowest store takes in addition to the measurement: to load,
    /// settle, close, reopen and verify.
    seconds_per_byte: f64,
    /// Relative difference below which stores count as equal, as a fraction.
    margin: f64,
    /// Number of blocks of the plan, of which the measured ones may be a part; `None` for a number of repetitions that
    /// the rates did not determine. `factor` is that of [`Looks`](crate::bench::result::statistics::looks::Looks).
    planned: Option<u32>,
    factor: f64,
    /// Number of the environment (machine, program and conditions) that measured the work: the higher, the newer.
    group: usize,
    failed: Vec<Failed>,
    cells: Vec<Cell>,
}

/// Store that failed in a work.
#[derive(Serialize)]
struct Failed {
    /// Index of the store in the page's list of stores.
    store: usize,
    /// Name of the fsync policy under which it failed, as that of a [`Cell`].
    durability: &'static str,
    /// Loss bounds under this policy, as those of a [`Cell`].
    kill: usize,
    power_cut: usize,
}

#[derive(Serialize)]
struct Cell {
    /// Index of the cell's store in the page's list of stores.
    store: usize,
    /// Number of the interleaved comparison, or else of the run, that measured the cell. Repetitions of different sources
    /// are not pairs.
    source: usize,
    /// Name of the fsync policy; `memory` without files, `unknown` if it is not known.
    durability: &'static str,
    /// Loss bound of the cell's store after a kill (`power_cut`: after a power cut) as an index into
    /// [`LossClass::ALL`], from 0 (nothing) to 4 (everything, or unknown).
    kill: usize,
    power_cut: usize,
    /// Operations per second in each repetition; `None` for a missing repetition.
    rates: Vec<Option<f64>>,
    p99_us: Option<f64>,
}

/// Returns the loss bounds after a kill and after a power cut as indices into [`LossClass::ALL`], which
/// begins with the smallest loss.
fn losses(target: &Target) -> (usize, usize) {
    indices(comparability::loses(target))
}

/// Returns the loss bounds after a kill and after a power cut as indices into [`LossClass::ALL`]; those of the largest
/// loss if they are not known.
fn indices(known: Option<Loses>) -> (usize, usize) {
    let place = |extent| LossClass::ALL.iter().position(|other| *other == extent);
    let worst = LossClass::ALL.len() - 1;
    let of = |extent: Option<LossClass>| extent.and_then(place).unwrap_or(worst);
    (of(known.map(|loses| loses.kill)), of(known.map(|loses| loses.power_cut)))
}

/// Returns the question (mix, sizes, allowed loss) that the report's cells answer. Its work is the first that the most
/// stores did, preferably one that reads and writes. Its loss is that of `--may-lose` or, without it, what the measured
/// fsync policy that syncs the least is meant to allow, but after a kill at most a second unless the stores have no
/// files. Returns `None` without works.
fn question(report: &Report<'_>, works: &[Work]) -> Option<Question> {
    let most = works.iter().map(|work| work.cells.len()).max()?;
    let mut common = works.iter().filter(|work| work.cells.len() == most);
    let is_mixed = |work: &&Work| work.reads > 0.0 && work.reads < 1.0;
    let work = common.clone().find(is_mixed).or_else(|| common.next())?;
    let targets = || report.entries().filter(|entry| !entry.cell.reference).map(|entry| &entry.cell.target);
    let asked = targets().find_map(|target| target.may_lose);
    let policies =
        || targets().filter_map(|target| Level::of(target).durability).map(comparability::of_policy);
    let files = policies().filter(|loses| loses.power_cut != LossClass::Everything);
    let weakest = files.max_by_key(|loses| loses.power_cut).or_else(|| policies().next());
    let (kill, power_cut) = indices(asked.or(weakest));
    // No store is meant to lose more than the last seconds by a kill, unless it keeps nothing.
    let kill = if asked.is_some() || power_cut == LossClass::ALL.len() - 1 { kill } else { kill.min(1) };
    Some(Question {
        reads: work.reads,
        data: work.data,
        memory: work.memory,
        value_bytes: work.value_bytes.clone(),
        kill,
        power_cut,
        access: work.access,
    })
}

/// Returns the flags of `kvbench bench` for the work of `entry`: stores, order and size of keys, time to live, threads,
/// batch, cache, compression and access.
fn flags(contest: &ComparisonGroup<'_, '_>, entry: &Entry<'_>) -> String {
    let (cell, work) = (entry.cell, &entry.cell.workload);
    // kvbench starts its own stores only.
    let is_own = |target: &Target| target.program.is_none() && target.address.is_none();
    let own = entry.run.cells.iter().filter(|other| !other.reference && is_own(&other.target));
    let stores = number_format::distinct(own.map(|other| other.target.store.as_str())).join(",");
    let mut words = Vec::new();
    if !stores.is_empty() {
        words.push(format!("--stores {stores}"));
    }
    words.extend(order_flag(work.order).map(|order| format!("--order {order}")));
    words.push(format!("--threads {}", work.threads));
    words.push(format!("--key-bytes {}", size_flag(work.key_bytes)));
    words.extend(work.ttl_ms.map(|ttl| format!("--ttl {ttl}ms")));
    if work.batch > 1 {
        words.push(format!("--batch {}", work.batch));
    }
    if contest.entries.iter().all(|one| one.cell.target.address.is_none()) {
        words.push(format!("--cache-size {}B", cell.target.cache_bytes));
    }
    if cell.target.compression != Compression::None {
        words.push(format!("--compression {}", cell.target.compression));
    }
    match (cell.target.access, cell.target.commits) {
        (Access::Wire, _) => words.push("--wire".to_owned()),
        (Access::InProcess, Commits::Groups) => words.push("--commits groups".to_owned()),
        (Access::InProcess, Commits::Own) => {}
    }
    words.join(" ")
}

/// Returns the value of `--order` for an order of keys, or `None` for one that the flag does not accept.
fn order_flag(order: Order) -> Option<String> {
    let is_part = |number: f64| number > 0.0 && number < 1.0;
    match order {
        Order::Sequential => Some("sequential".to_owned()),
        Order::Uniform => Some("uniform".to_owned()),
        Order::Latest => Some("latest".to_owned()),
        Order::Zipfian(theta) => is_part(theta).then(|| format!("zipfian:{theta}")),
        Order::HotSet(keys, operations) => {
            (is_part(keys) && is_part(operations)).then(|| format!("hot:{keys}:{operations}"))
        }
    }
}

/// Returns the value of `--key-bytes` or `--value-bytes` for a size.
fn size_flag(size: Size) -> String {
    match size {
        Size::Fixed(bytes) => bytes.to_string(),
        Size::Uniform(from, to) => format!("{from}-{to}"),
    }
}

/// Returns the seconds per byte of data that load, settling, close, reopening and verification take: those of the
/// slowest store.
fn seconds_per_byte(contest: &ComparisonGroup<'_, '_>) -> f64 {
    let of = |entry: &&Entry<'_>| {
        let around = |one: &Measurement| {
            let seconds = [one.load_seconds, one.settle_seconds, one.close_seconds, one.reopen_seconds];
            // Values are verified about as fast as they are loaded.
            Some(seconds.into_iter().flatten().sum::<f64>() + one.load_seconds.unwrap_or(0.0))
        };
        Some(entry.spread_of(around)?.median / entry.data_bytes().max(1.0))
    };
    contest.entries.iter().filter_map(of).fold(0.0, f64::max)
}

/// Returns an identifier of the entry's workload, machine, access and cache size that does not depend on the
/// fsync policy.
fn work_of(entry: &Entry<'_>) -> String {
    let (cell, group) = (&entry.cell, entry.group);
    let work = serde_json::to_string(&cell.workload).unwrap_or_default();
    format!("{group} {} {} {work}", Level::of(&cell.target).access_words(), cell.target.cache_bytes)
}

/// Minimum share of single-key reads and writes, from 0 to 1, in a workload that the page's chooser uses.
const NEARLY_ALL: f64 = 0.95;

/// Returns the data for the page's script as JSON that can be embedded in the HTML page: each `<` is escaped.
pub fn data(report: &Report<'_>, promises: &[StoreProperties]) -> Result<String, serde_json::Error> {
    let stores = promises.iter().map(|promise| Store {
        name: &promise.label,
        holds_all: promise.holds_all,
        factor: promise.memory_factor,
    });
    let fits = |entry: &&Entry<'_>| {
        !entry.cell.reference
            && !entry.concurrent
            && !entry.is_cold()
            && is_closed_loop(entry)
            && reads(entry) + writes(entry) >= NEARLY_ALL
    };
    let sources = number_format::distinct(report.entries().map(Entry::source));
    let mut works = Vec::new();
    for contest in contests(report.entries().filter(fits)) {
        let Some(first) = contest.entries.first() else { continue };
        let store = |entry: &Entry<'_>| promises.iter().position(|promise| promise.label == entry.label());
        let cells = contest.entries.iter().filter_map(|entry| {
            cell_of(entry, store(entry)?, sources.iter().position(|source| *source == entry.source())?)
        });
        let failed = contest.entries.iter().filter(|entry| matches!(entry.state, State::Faulty(_)));
        let level = Level::of(&first.cell.target);
        let (looks, margin) = first.run.looks(&first.cell.id);
        works.push(Work {
            work: work_of(first),
            access: level.access_words(),
            reads: reads(first),
            data: first.data_bytes(),
            #[expect(clippy::cast_precision_loss, reason = "compared with a number of people")]
            memory: first.memory_bytes().map(|bytes| bytes as f64),
            flags: flags(&contest, first),
            seconds_per_byte: seconds_per_byte(&contest),
            value_bytes: size_flag(first.cell.workload.value_bytes),
            margin: margin.fraction(),
            planned: looks.planned(),
            factor: looks.factor(),
            group: first.group,
            failed: failed
                .filter_map(|entry| {
                    let durability = Level::of(&entry.cell.target).durability_word();
                    let (kill, power_cut) = losses(&entry.cell.target);
                    Some(Failed { store: store(entry)?, durability, kill, power_cut })
                })
                .collect(),
            cells: cells.collect(),
            title: contest.title,
        });
    }
    let start = question(report, &works);
    let data = Data { start, stores: stores.collect(), contests: works, between_runs: BETWEEN_RUNS };
    Ok(serde_json::to_string(&data)?.replace('<', "\\u003c"))
}

/// Returns the cell of the entry; `None` without a rate.
fn cell_of(entry: &Entry<'_>, store: usize, source: usize) -> Option<Cell> {
    let rates = entry.by_repetition(&THROUGHPUT);
    let repetitions = 0..entry.run.repetitions_of(&entry.cell.id);
    let rates: Vec<_> = repetitions.map(|number| rates.get(&number).copied()).collect();
    let p99_us = entry.spread(&P99).map(|spread| spread.median);
    let durability = Level::of(&entry.cell.target).durability_word();
    let (kill, power_cut) = losses(&entry.cell.target);
    rates.iter().any(Option::is_some).then_some(Cell {
        store,
        source,
        durability,
        kill,
        power_cut,
        rates,
        p99_us,
    })
}

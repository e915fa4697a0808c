//! Interleaved comparison: stores take turns, and while one runs all others are stopped.
//!
//! The stores of a row of a table are compared in blocks. In a block each store is a fresh instance, a process of its own
//! with its own load, and all have one seed. Blocks are measured until an evaluation decides the comparison, the planned
//! number of blocks is measured (see [`statistics`](crate::bench::result::statistics)), without `--detect` five blocks
//! are measured, the budget of time is used up, or fewer than two stores are left that have not failed. In a duel a
//! table has one store, and its instances are processes of two programs. Stores that do not fit into memory or on the disk
//! together are loaded in groups, one after the other in each block, and one store is in all of them: if it fails, the
//! comparison ends.

pub mod block;
pub mod instance;
pub mod pause_process;
pub mod pilot;
pub mod slice;
pub mod stopping_rule;
pub mod turns;

use super::{
    attempts::job_in,
    error::Error,
    free_space, interference, interrupt,
    job_messages::{self, Job, Report},
    resource_meter,
    result_writer::{record, save, stopped},
    stored_calibration::checksum,
};
use crate::{
    bench::{
        data::key_ledger::KeyLedger,
        plan::{
            options::{Cpus, Interleave, Options, RunConditions},
            suites,
            unsupported::unsupported_reason,
        },
        result::{
            Cell, Disturbance, Outcome, Program, Run, Side, Workload,
            comparability::Level,
            interleaved_comparison::{Block, Comparison, End, SliceRecord, Slicing},
            metric::Unit,
            number_format::{self, distinct},
            statistics::{looks::FIRST_LOOK, real},
        },
    },
    engine::{
        Family,
        machine_memory::{field_bytes, memory_bytes},
        synthetic,
    },
};
use block::{MIN_WRITE_BACK_SLICE_SECONDS, Sliced};
use instance::Instance;
use pilot::{MIN_WRITE_TURNS, Requirements};
use rand::{SeedableRng, rngs::SmallRng, seq::SliceRandom};
use std::{collections::BTreeSet, fs, path::Path, thread, time::Instant};

/// Default of `--seconds` for stores that take turns: running time in seconds of each store in a block.
pub(super) const BLOCK_SECONDS: f64 = 2.0;
/// Minimum running time in seconds of the fastest store in a block, if the workload writes.
pub(super) const MIN_WRITE_SECONDS: f64 = 3.0;
/// Length of the pilot, as a multiple of that of a block.
pub(super) const PILOT_BLOCKS: f64 = 1.5;
/// Memory in bytes that must stay free when stores are loaded; at most three quarters of the available memory.
const FREE_MEMORY: f64 = 2_147_483_648.0;

/// Memory and disk for the stores that are loaded together, in bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Room {
    memory: f64,
    pub disk: f64,
}

impl Room {
    /// No memory and no disk.
    const NONE: Self = Self { memory: 0.0, disk: 0.0 };

    /// Returns the available memory, at most that of the container, less what must stay free, and the free space of the
    /// disk of a run; infinite where these are unknown, and with `--no-space-check`.
    pub fn of(options: &Options) -> Self {
        let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let available = field_bytes(&text, "MemAvailable:").filter(|_| !options.ignores_space);
        // In a container, the first is the machine's.
        let available = available.map(|bytes| memory_bytes().map_or(bytes, |most| most.min(bytes)));
        #[expect(clippy::cast_precision_loss, reason = "an estimate")]
        let available = available.map_or(f64::INFINITY, |bytes| bytes as f64);
        let free = free_space::of(&options.directory).filter(|_| !options.ignores_space);
        Self { memory: (available - FREE_MEMORY).max(available / 4.0), disk: free.unwrap_or(f64::INFINITY) }
    }

    /// Returns an estimate of what the store of a cell needs of memory and disk.
    fn needed(cell: &Cell) -> Self {
        Self { memory: memory(cell), disk: free_space::needed(std::slice::from_ref(cell)) }
    }

    /// Returns what the stores of several cells need together.
    fn sum(needed: impl IntoIterator<Item = Self>) -> Self {
        needed
            .into_iter()
            .fold(Self::NONE, |a, b| Self { memory: a.memory + b.memory, disk: a.disk + b.disk })
    }

    fn holds(self, needed: Self) -> bool {
        needed.memory <= self.memory && needed.disk <= self.disk
    }

    /// Returns groups of stores that fit into this room, one at a time, each begun by the store that needs the least;
    /// none if all stores fit together. `needed` is what each store needs. A store that does not fit together with the
    /// first one has a group of its own with it.
    fn groups(self, needed: &[Self]) -> Vec<Vec<usize>> {
        let of = |store: &usize| needed.get(*store).copied();
        if needed.len() < 3 || self.holds(Self::sum(needed.iter().copied())) {
            return Vec::new();
        }
        let part = |store: &usize| of(store).map_or(0.0, |of| of.memory / self.memory + of.disk / self.disk);
        let Some(anchor) = (0..needed.len()).min_by(|a, b| part(a).total_cmp(&part(b))) else {
            return Vec::new();
        };
        let mut groups: Vec<Vec<usize>> = Vec::new();
        for store in (0..needed.len()).filter(|store| *store != anchor) {
            let fits =
                |group: &Vec<usize>| self.holds(Self::sum(group.iter().chain([&store]).filter_map(of)));
            match groups.iter_mut().find(|group| fits(group)) {
                Some(group) => group.push(store),
                None => groups.push(vec![anchor, store]),
            }
        }
        groups
    }
}

/// Returns the comparisons of a run: one for each row of a table with at least two cells, of two stores or, in a duel, of
/// one store in two programs. Cells that only fill or empty the store are in none, nor are those that their store cannot
/// run, except in a duel, whose answer names them.
pub(super) fn comparisons(cells: &[Cell], interleave: Interleave, room: Room) -> Vec<Comparison> {
    let cells: Vec<&Cell> = cells.iter().filter(|cell| !cell.reference).collect();
    let is_duel = cells.iter().any(|cell| cell.target.side.is_some());
    let is_able = |cell: &Cell| is_duel || unsupported_reason(cell).is_none();
    let compared = cells.iter().filter(|cell| suites::is_alone_and_steady(cell) && is_able(cell));
    let compared: Vec<&Cell> = compared.copied().collect();
    let row_of = |cell: &Cell| (cell.table.clone(), cell.row.clone());
    let comparison = |(table, row): (String, String)| {
        let is_only_row = cells.iter().all(|cell| cell.table != table || cell.row == row);
        let own = compared.iter().filter(|cell| (&cell.table, &cell.row) == (&table, &row));
        let needed: Vec<Room> = own.clone().map(|cell| Room::needed(cell)).collect();
        let ids = own.map(|cell| cell.id.clone()).collect();
        let id = if is_only_row { table } else { format!("{table}; {row}") };
        Comparison {
            groups: room.groups(&needed),
            margin: interleave.detect.unwrap_or_default(),
            ..Comparison::new(id, ids)
        }
    };
    let rows = distinct(compared.iter().map(|cell| row_of(cell)));
    let all = rows.into_iter().map(comparison);
    let mut all: Vec<Comparison> = all.filter(|comparison| comparison.cells.len() > 1).collect();
    // The answer of a duel is a loss if a single comparison shows one.
    let others_in_family = if is_duel { all.len().saturating_sub(1) } else { 0 };
    all.iter_mut().for_each(|comparison| comparison.others_in_family = others_in_family);
    all
}

/// Returns the cells of the stores that are loaded together: those of each group of each comparison.
fn loaded_together<'c>(
    comparisons: &'c [Comparison],
    cells: &'c [Cell],
) -> impl Iterator<Item = Vec<&'c Cell>> {
    comparisons.iter().flat_map(|comparison| {
        let all: Vec<usize> = (0..comparison.cells.len()).collect();
        let cells_of = |stores: Vec<usize>| {
            let ids = stores.into_iter().filter_map(|store| comparison.cells.get(store));
            ids.filter_map(|id| cells.iter().find(|cell| cell.id == *id)).collect()
        };
        comparison.loaded_together(&all).into_iter().map(move |(_, stores)| cells_of(stores))
    })
}

/// Returns an estimate of what the stores need that the comparisons load together, the largest of all memory and the
/// largest of all disk.
pub(super) fn needed(comparisons: &[Comparison], cells: &[Cell]) -> Room {
    let each = loaded_together(comparisons, cells).map(|own| Room::sum(own.into_iter().map(Room::needed)));
    each.fold(Room::NONE, |a, b| Room { memory: a.memory.max(b.memory), disk: a.disk.max(b.disk) })
}

/// Returns a warning if the files of the stores that a comparison loads together exceed the `memory` in bytes.
#[expect(clippy::cast_precision_loss, reason = "an estimate")]
pub(super) fn page_cache_warning(
    comparisons: &[Comparison],
    cells: &[Cell],
    memory: Option<u64>,
) -> Option<String> {
    let of = |own: Vec<&Cell>| -> f64 {
        own.iter().filter(|cell| cell.target.persistent).map(|cell| cell.workload.most_bytes()).sum()
    };
    let files = loaded_together(comparisons, cells).map(of).reduce(f64::max)?;
    let memory = memory? as f64;
    let short = |bytes| number_format::short(Unit::Bytes, bytes);
    (files > memory).then(|| {
        format!(
            "the files of the stores that take turns exceed memory ({} of data, {} of memory), so they take pages of the page \
             cache from each other: compare fewer --stores, or measure each alone with --repetitions",
            short(files),
            short(memory)
        )
    })
}

/// Returns an error message if the stores that a comparison loads together may need more memory than is available.
pub(super) fn check_memory(comparisons: &[Comparison], cells: &[Cell], room: Room) -> Result<(), String> {
    let needed = needed(comparisons, cells);
    let short = |bytes| number_format::short(Unit::Bytes, bytes);
    match needed.memory > room.memory {
        true => Err(format!(
            "the stores of a comparison are loaded at once, two at least, and may need {} of memory, of which {} may be \
             used; take fewer --keys, or add --no-space-check",
            short(needed.memory),
            short(room.memory)
        )),
        false => Ok(()),
    }
}

/// Returns an estimate of the bytes of memory that the store of a cell needs: twice its data, but for a store that
/// reads from files at most its cache; and the driver's versions of values that are updated.
#[expect(clippy::cast_precision_loss, reason = "an estimate")]
fn memory(cell: &Cell) -> f64 {
    let data = 2.0 * cell.workload.most_bytes();
    let holds_all = synthetic::info(&cell.target.store).is_none_or(|info| info.capabilities.memory_resident);
    let versions =
        if cell.workload.updates() { KeyLedger::version_bytes(cell.workload.most_keys()) } else { 0 };
    let own =
        if holds_all || !cell.target.persistent { data } else { data.min(cell.target.cache_bytes as f64) };
    own + versions as f64
}

/// Measures all comparisons of a run. Ends with an error if a signal stops the run.
pub(super) fn measure(options: &Options, interleave: Interleave, run: &mut Run) -> Result<(), Error> {
    for number in 0..run.comparisons.len() {
        let Some(comparison) = run.comparisons.get(number).cloned() else { continue };
        let attempts = interference::ATTEMPTS;
        let mut controller = Controller { options, limits: interleave, number, attempts };
        controller.compare(run, comparison)?;
    }
    Ok(())
}

fn refuse_signal(options: &Options, run: &Run) -> Result<(), Error> {
    interrupt::received().map_or(Ok(()), |signal| Err(stopped(options, run, signal)))
}

/// Returns an error if the file of a program of the duel is no longer the one that has described itself.
fn refuse_rebuilt(options: &Options) -> Result<(), Error> {
    let is_rebuilt = |program: &&Program| checksum(Path::new(&program.path)).ok() != Some(program.checksum);
    let mut programs = options.duel.iter().flat_map(|duel| Side::BOTH.map(|side| duel.program(side)));
    programs.find(is_rebuilt).map_or(Ok(()), |program| {
        Err(Error::Rebuilt { program: program.path.clone().into(), path: options.output.clone() })
    })
}

/// State for the measurement of one comparison.
struct Controller<'o> {
    options: &'o Options,
    limits: Interleave,
    /// Index of the comparison in the run.
    number: usize,
    /// Maximum number of measurements of the next block, of which the one with the least interference is kept: a
    /// machine that was busy in every attempt is not waited for again, until it was calm once.
    attempts: usize,
}

/// Measurement of a block: its slices, and the reports of its stores.
#[derive(Default)]
struct Measured {
    slices: Vec<SliceRecord>,
    reports: Vec<Report>,
    disturbance: Option<Disturbance>,
}

impl Measured {
    /// Returns the share of the CPUs that other processes and virtual machines used, from 0 to 1: 0 if it is not known,
    /// 1 if the device was never idle after a slice that waited for it.
    fn disturbed_part(&self) -> f64 {
        match self.slices.iter().any(|slice| slice.left_device_busy) {
            true => 1.0,
            false => self.disturbance.as_ref().map_or(0.0, Disturbance::part),
        }
    }

    /// Adds reports of stores. Of several of one store, the anchor, the first failure is kept or, without one, the first
    /// report.
    fn add(&mut self, reports: impl IntoIterator<Item = Report>) {
        for report in reports {
            match self.reports.iter_mut().find(|known| known.cell == report.cell) {
                None => self.reports.push(report),
                Some(known) if known.outcome.failure().is_none() && report.outcome.failure().is_some() => {
                    *known = report
                }
                Some(_) => {}
            }
        }
    }

    /// Returns `true` if a store has failed or its measurement is not valid.
    fn has_failed(&self) -> bool {
        self.reports.iter().any(|report| report.outcome.failure().is_some())
    }
}

/// Stores that were loaded for a block or for the pilot of a comparison, each in a process of its own.
#[derive(Default)]
struct Loaded {
    instances: Vec<Instance>,
    /// Seconds that the loads took, without the warm-ups.
    load_seconds: f64,
    /// Failed reports of stores whose process could not be started.
    reports: Vec<Report>,
}

impl Controller<'_> {
    /// Measures blocks of the comparison until it ends. Saves the run after the pilot and after each block.
    fn compare(&mut self, run: &mut Run, mut comparison: Comparison) -> Result<(), Error> {
        while comparison.end.is_none() {
            let stores = run.sound_stores(&comparison);
            let was_planned = comparison.looks.is_some();
            comparison.end = stopping_rule::next(&mut comparison, &stores, self.limits);
            // After the end, the verdicts are printed with this sentence.
            let findings = comparison.findings(&stores).filter(|_| !was_planned && comparison.end.is_none());
            if let Some(findings) = findings {
                eprintln!("kvbench: {}: {findings}", comparison.id);
            }
            if comparison.end.is_none() {
                match comparison.slicing.clone() {
                    None => comparison.end = self.pilot(run, &mut comparison, &stores)?,
                    Some(slicing) => self.block(run, &mut comparison, &stores, &slicing)?,
                }
            }
            if let Some(kept) = run.comparisons.get_mut(self.number) {
                kept.clone_from(&comparison);
            }
            save(run, &self.options.output)?;
        }
        Ok(())
    }

    /// Measures the pilot. Adds the reports of stores that fail in it to the run, which compares them no further. Returns
    /// the end of the comparison if no store could be measured.
    fn pilot(
        &self,
        run: &mut Run,
        comparison: &mut Comparison,
        stores: &[usize],
    ) -> Result<Option<End>, Error> {
        if let Some(groups) = comparison.groups_text(&run.cells) {
            eprintln!("kvbench: {}: {groups}", comparison.id);
        }
        let began = Instant::now();
        let budget = self.limits.budget_seconds;
        let seconds = self.options.wanted_seconds().unwrap_or(BLOCK_SECONDS);
        let together = comparison.loaded_together(stores);
        let instances: usize = together.iter().map(|(_, stores)| stores.len()).sum();
        let needs = |load_seconds: f64| {
            // The first evaluation needs five blocks. The verification at the end of a block takes half as long as its
            // loads.
            let blocks = f64::from(FIRST_LOOK) + PILOT_BLOCKS;
            let block_seconds = (budget / blocks - 1.5 * load_seconds).max(0.0);
            requirements(run, comparison, &self.options.conditions, seconds, block_seconds, instances)
        };
        let seed = stopping_rule::seed(self.options.seed, None);
        let (mut load_seconds, mut pilots, mut failed) = (0.0, Vec::new(), Vec::new());
        for (_, stores) in together {
            let Loaded { mut instances, load_seconds: of_these, reports } =
                self.load(run, comparison, &stores, seed);
            load_seconds += of_these;
            pilots.extend(needs(load_seconds).and_then(|needs| pilot::run_pilot(&mut instances, needs)));
            refuse_signal(self.options, run)?;
            refuse_rebuilt(self.options)?;
            let excluded = instances.into_iter().filter(Instance::is_excluded).flat_map(Instance::finish);
            failed.extend(reports.into_iter().chain(excluded).filter(|report| {
                // A store that cannot run the workload is here only in a duel.
                report.outcome.failure().is_some() || matches!(report.outcome, Outcome::Unsupported(_))
            }));
        }
        let slicing = needs(load_seconds).and_then(|needs| pilot::of_groups(&pilots, needs));
        record(run, failed, 0, None);
        let Some(slicing) = slicing else { return Ok(Some(End::Failed)) };
        let warm_up_seconds =
            workload(run, comparison).map_or(0.0, |workload| block::warm_up_seconds(workload, &slicing));
        let seconds = began.elapsed().as_secs_f64();
        let slicing = Slicing { seconds, load_seconds, warm_up_seconds, ..slicing };
        let [length, discarded] =
            [slicing.slice_seconds, slicing.discarded_seconds].map(|seconds| seconds * 1e3);
        comparison.slicing = Some(slicing);
        let stores = run.sound_stores(comparison).len();
        let forecast = comparison.forecast(stores, self.limits.detect.is_some(), budget);
        let slices = format!("slices of {length:.0} ms, of which the first {discarded:.0} ms do not count");
        let doubts = comparison.doubts(None, &run.cells);
        let more = comparison.device_text(&run.cells).into_iter().chain(run.less_work_text(comparison));
        for line in [slices, forecast].into_iter().chain(more).chain(doubts) {
            eprintln!("kvbench: {}: {line}", comparison.id);
        }
        Ok(None)
    }

    /// Measures a block, at most `attempts` times while other processes use more of the CPUs than `--foreign` allows and
    /// no store fails, and adds the least disturbed measurement to the comparison, and the reports of its stores to the run.
    fn block(
        &mut self,
        run: &mut Run,
        comparison: &mut Comparison,
        stores: &[usize],
        slicing: &Slicing,
    ) -> Result<(), Error> {
        let began = Instant::now();
        let number = comparison.blocks.len();
        let seed = stopping_rule::seed(self.options.seed, Some(number));
        let limit = self.options.conditions.foreign_limit.unwrap_or(f64::INFINITY);
        let attempts = stopping_rule::attempts(comparison, self.limits.budget_seconds, self.attempts);
        let mut measurements = 0;
        let measured = interference::least_disturbed(limit, attempts, || {
            measurements += 1;
            let measured = self.measure_block(run, comparison, stores, slicing, seed);
            // A failure is reported, however disturbed the block was.
            let is_final = interrupt::received().is_some() || measured.has_failed();
            let part = if is_final { 0.0 } else { measured.disturbed_part() };
            (measured, part)
        });
        refuse_signal(self.options, run)?;
        // After the block, so that no block with processes of the new build is kept.
        refuse_rebuilt(self.options)?;
        let measured = measured.unwrap_or_default();
        let is_disturbed = measured.disturbed_part() > limit;
        let Measured { slices, mut reports, disturbance } = measured;
        self.attempts = if is_disturbed { 1 } else { interference::ATTEMPTS };
        let seconds = began.elapsed().as_secs_f64();
        let block = Block { seed, slices, disturbance, attempts: measurements, seconds };
        for report in &mut reports {
            let Some(store) = comparison.cells.iter().position(|cell| *cell == report.cell) else { continue };
            let Outcome::Measured(measurement) = &mut report.outcome else { continue };
            if let Some(rate) = comparison.rate(&block, store) {
                measurement.throughput = rate;
            }
            if slicing.work_of(store) != slicing.work {
                resource_meter::drop_sizes(
                    measurement,
                    "written less than the other stores of the comparison, which are far faster",
                );
            }
        }
        record(run, reports, u32::try_from(number).unwrap_or(u32::MAX), disturbance);
        comparison.blocks.push(block);
        Ok(())
    }

    /// Measures a block once. All instances make their keys, values and random choices from `seed`.
    fn measure_block(
        &self,
        run: &Run,
        comparison: &Comparison,
        stores: &[usize],
        slicing: &Slicing,
        seed: u64,
    ) -> Measured {
        interference::wait_for_disk(&self.options.directory, self.options.conditions.quiet_wait);
        let watch = interference::CpuWatch::start();
        let number = comparison.blocks.len();
        let mut random = SmallRng::seed_from_u64(stopping_rule::seed(!self.options.seed, Some(number)));
        let mut measured = Measured::default();
        let mut groups = comparison.loaded_together(stores);
        groups.shuffle(&mut random);
        for (group, mut order) in groups {
            // Always loaded first, a store could always get the better memory.
            order.shuffle(&mut random);
            let Loaded { mut instances, reports, .. } = self.load(run, comparison, &order, seed);
            let slices = block::run_block(&mut instances, slicing, &mut random);
            measured.slices.extend(slices.into_iter().map(|slice| SliceRecord { group, ..slice }));
            measured.add(reports);
            if interrupt::received().is_some() {
                break;
            }
            measured.add(instances.into_iter().flat_map(Instance::finish));
        }
        Measured { disturbance: watch.end(), ..measured }
    }

    /// Starts and loads an instance of each of `stores` (indices in the comparison), and runs it for the warm-up.
    /// The instances make their keys, values and random choices from `seed`.
    fn load(&self, run: &Run, comparison: &Comparison, stores: &[usize], seed: u64) -> Loaded {
        let mut loaded = Loaded::default();
        for store in stores {
            let id = comparison.cells.get(*store);
            let Some(cell) = run.cells.iter().find(|cell| id == Some(&cell.id)) else { continue };
            let began = Instant::now();
            let instance = self.instance(cell, *store, seed);
            loaded.load_seconds += began.elapsed().as_secs_f64();
            let mut instance = match instance {
                Ok(instance) => instance,
                Err(reports) => {
                    loaded.reports.extend(reports);
                    continue;
                }
            };
            if let Some(warm_up) = block::warm_up(&cell.workload, comparison.slicing.as_ref(), *store) {
                // A store that fails here fails in its first slice too.
                let _ = instance.run(warm_up);
            }
            loaded.instances.push(instance);
        }
        loaded
    }

    fn instance(&self, cell: &Cell, store: usize, seed: u64) -> Result<Instance, Vec<Report>> {
        let directory = job_messages::directory(&self.options.directory).join(store.to_string());
        let job = job_in(self.options, std::slice::from_ref(cell), 0, directory);
        let mut job = Job { in_slices: true, ..job };
        for cell in &mut job.cells {
            cell.workload.seed = seed;
        }
        Instance::load(store, job.clone(), &self.options.conditions).map_err(|error| {
            job.of_each_cell(Vec::new(), &format!("cannot measure in a process of its own: {error}"))
        })
    }
}

/// Returns the cells of a comparison.
fn cells<'run>(run: &'run Run, comparison: &'run Comparison) -> impl Iterator<Item = &'run Cell> {
    run.cells.iter().filter(|cell| comparison.cells.contains(&cell.id))
}

/// Returns the workload of a comparison, or `None` if it has no cell.
fn workload<'run>(run: &'run Run, comparison: &'run Comparison) -> Option<&'run Workload> {
    cells(run, comparison).next().map(|cell| &cell.workload)
}

/// Returns what the workload of a comparison requires of its slices and blocks, or `None` if it has no cell. `seconds` is
/// the wanted running time of each store in a block, `block_seconds` that of all stores for which the budget suffices, and
/// `instances` the number of stores that the pilot measures, the anchor once for each group.
fn requirements(
    run: &Run,
    comparison: &Comparison,
    conditions: &RunConditions,
    seconds: f64,
    block_seconds: f64,
    instances: usize,
) -> Option<Requirements> {
    let workload = workload(run, comparison)?;
    let writes = workload.writes();
    let is_long = |cell: &Cell| {
        let family = synthetic::info(&cell.target.store).map(|info| info.family);
        Level::of(&cell.target).is_everysec() || family == Some(Family::Lsm)
    };
    let seconds = if writes { seconds.max(MIN_WRITE_SECONDS) } else { seconds };
    // In a block, a warm-up that updates takes each store as long in proportion as it takes the fastest one; any other takes
    // each store the same time.
    let warm_up = workload.warmup_seconds;
    let block_seconds = match workload.warm_up_updates() {
        true => block_seconds / (1.0 + warm_up / seconds),
        false => (block_seconds - warm_up * real(instances)).max(0.0),
    };
    Some(Requirements {
        writes,
        // `everysec` syncs once a second, and LSM trees delay writes while they compact.
        min_slice_seconds: if writes && cells(run, comparison).any(is_long) {
            MIN_WRITE_BACK_SLICE_SECONDS
        } else {
            0.0
        },
        max_slice_seconds: max_slice_seconds(seconds, block_seconds, instances),
        seconds,
        block_seconds,
        cpus: (conditions.quiet_wait > 0.0 && cells(run, comparison).any(|cell| cell.target.persistent))
            .then(|| real(usable_cpus(&conditions.cpus).min(workload.threads as usize))),
    })
}

/// Returns the number of CPUs that the processes of a store may use: those of `--cpus`, or all.
fn usable_cpus(cpus: &Cpus) -> usize {
    let chosen: BTreeSet<_> = [&cpus.server, &cpus.driver].into_iter().flatten().flatten().collect();
    match chosen.len() {
        0 => thread::available_parallelism().map_or(1, usize::from),
        chosen => chosen,
    }
}

/// Returns the maximum length in seconds to which long operations lengthen slices: that at which the pilot's turns of
/// `instances` stores take `block_seconds`, which is the running time of a block for which the budget suffices. A slice may
/// always be as long as the fastest store runs in a block (`seconds`).
fn max_slice_seconds(seconds: f64, block_seconds: f64, instances: usize) -> f64 {
    (block_seconds / (f64::from(MIN_WRITE_TURNS) * real(instances))).max(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::result::{Access, BuildDescription, Duel, Figure, Operation, Target};

    const ENDLESS: Room = Room { memory: f64::INFINITY, disk: f64::INFINITY };

    /// Returns a cell of `table` that measures reads of `store`, in a duel by one of the two programs.
    fn cell(table: &str, store: &str, side: Option<Side>) -> Cell {
        let target = Target { side, ..Target::new(Access::InProcess, store) };
        Cell {
            id: format!("{table}/{}", target.store_and_side()),
            table: table.into(),
            row: "get".into(),
            column: target.store_and_side(),
            target,
            workload: Workload::of([(Operation::Get, 1.0)], 1000),
            group: None,
            together: false,
            figure: Figure::Throughput,
            reference: false,
            own_device: None,
        }
    }

    #[test]
    fn files_of_stores_in_turns_beyond_memory_are_warned_of() {
        let stores = ["rocksdb", "lmdb", "map"];
        let mut cells = stores.map(|store| cell("reads", store, None));
        // The third has no file.
        cells[..2].iter_mut().for_each(|cell| cell.target.persistent = true);
        let interleave = Interleave { detect: None, budget_seconds: 60.0, min_blocks: 0, is_default: false };
        let both = 2.0 * cells[0].workload.most_bytes();
        let warning = |comparisons: &[Comparison], memory: f64| {
            page_cache_warning(comparisons, &cells, Some(memory as u64))
        };
        let mut all = comparisons(&cells, interleave, ENDLESS);
        assert!(warning(&all, both - 1.0).is_some_and(|text| text.contains("exceed memory")));
        assert_eq!(warning(&all, both + 1.0), None);
        // In groups, one of the files is loaded at a time.
        all[0].groups = vec![vec![2, 0], vec![2, 1]];
        assert_eq!(warning(&all, both - 1.0), None);
        assert_eq!(page_cache_warning(&all, &cells, None), None);
    }

    #[test]
    fn comparisons_of_a_duel_are_one_family() {
        let others = |tables: &[&str], columns: [(&str, Option<Side>); 2]| -> Vec<usize> {
            let cells_of = |table: &&str| columns.map(|(store, side)| cell(table, store, side));
            let cells: Vec<Cell> = tables.iter().flat_map(cells_of).collect();
            let interleave =
                Interleave { detect: None, budget_seconds: 60.0, min_blocks: 0, is_default: false };
            let all = comparisons(&cells, interleave, ENDLESS);
            all.iter().map(|comparison| comparison.others_in_family).collect()
        };
        let programs = Side::BOTH.map(|side| ("map", Some(side)));
        assert_eq!(others(&["one", "two", "three"], programs), [2; 3]);
        assert_eq!(others(&["one"], programs), [0]);
        let stores = ["map", "btree"].map(|store| (store, None));
        assert_eq!(others(&["one", "two", "three"], stores), [0; 3]);
    }

    #[test]
    fn a_rebuilt_program_of_a_duel_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let [old, new] = ["old", "new"].map(|name| dir.path().join(name));
        let program = |path: &Path| {
            fs::write(path, "build").unwrap();
            let (path, checksum) = (path.display().to_string(), checksum(path).unwrap());
            Program { path, checksum, chosen: None, build: BuildDescription::default() }
        };
        let duel = Duel { old: program(&old), new: program(&new) };
        let options = Options { duel: Some(duel), ..Options::default() };
        refuse_rebuilt(&Options::default()).unwrap();
        refuse_rebuilt(&options).unwrap();
        fs::write(&new, "another build").unwrap();
        assert!(matches!(refuse_rebuilt(&options), Err(Error::Rebuilt { program, .. }) if program == new));
        fs::remove_file(&old).unwrap();
        assert!(matches!(refuse_rebuilt(&options), Err(Error::Rebuilt { program, .. }) if program == old));
    }

    /// A stall of 30 seconds would otherwise make a pilot of 1.5 hours, whatever the budget is.
    #[test]
    fn slices_of_a_pilot_are_limited_by_the_budget() {
        // Ten minutes are 6.5 blocks, with the pilot.
        let block_seconds = 600.0 / 6.5;
        let slice = max_slice_seconds(3.0, block_seconds, 9);
        assert!((2.0 * 9.0 * slice - block_seconds).abs() < 1e-9, "{slice}");
        assert_eq!(max_slice_seconds(3.0, 0.0, 9), 3.0);
    }

    #[test]
    fn stores_that_do_not_fit_together_form_groups_with_the_smallest() {
        let room = Room { memory: 23.0, disk: 100.0 };
        let stores = |memory: &[f64], disk| -> Vec<Room> {
            memory.iter().map(|memory| Room { memory: *memory, disk }).collect()
        };
        let none: [Vec<usize>; 0] = [];
        assert_eq!(room.groups(&stores(&[10.0, 2.0, 10.0], 30.0)), none);
        assert_eq!(room.groups(&stores(&[10.0, 2.0, 10.0, 10.0], 20.0)), [vec![1, 0, 2], vec![1, 3]]);
        assert_eq!(room.groups(&stores(&[3.0, 2.0, 3.0, 3.0], 40.0)), [vec![1, 0], vec![1, 2], vec![1, 3]]);
        assert_eq!(room.groups(&stores(&[2.0, 12.0, 15.0, 8.0], 1.0)), [vec![0, 1, 3], vec![0, 2]]);
        // Two stores are compared together or not at all.
        assert_eq!(room.groups(&stores(&[20.0, 20.0], 30.0)), none);
        assert_eq!(ENDLESS.groups(&stores(&[1e30, 1e30, 1e30], 1e30)), none);
    }
}

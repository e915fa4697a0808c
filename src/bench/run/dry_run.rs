//! `--dry-run`: the cells that a run would measure, the estimated time, and the disk space needed.

use super::{
    Error, NO_TURNS, Planned,
    attempts::verified_at_most,
    comparisons, find_rate, free_space,
    interleave::{BLOCK_SECONDS, MIN_WRITE_SECONDS, PILOT_BLOCKS, Room},
    needed_disk,
    order::jobs,
    planned, verification,
};
use crate::{
    bench::{
        plan::options::{Interleave, Options},
        result::{Access, Cell, CellKind, Operation, comparability::Level, metric::Unit, number_format},
    },
    engine::synthetic,
};
use std::fmt::Write;

/// Estimated number of pairs loaded per second.
const LOADED: f64 = 100_000.0;
/// Estimated number of operations per second that need not wait for a sync.
const DONE: f64 = 50_000.0;
/// Estimated number of synced commits per second.
const SYNCED: f64 = 1_000.0;
/// Estimated bytes of pairs written per second, including the additional writes of an engine.
const WRITTEN: f64 = 250e6;
/// Estimated number of values verified per second at the end of a job.
const VERIFIED: f64 = 200_000.0;
/// Estimated number of values verified per second if they are read from the disk.
const VERIFIED_FROM_DISK: f64 = 5_000.0;
/// Estimated number of trials of a search for a rate, each with a load of its own, before the one that verifies it.
const TRIALS: f64 = 12.0;
/// Seconds to start a process, to wait for the disk, and to open, close and remove a store.
const START: f64 = 0.5;

/// Describes what a run with these options would measure: the cells, the estimated time and the disk space. Creates no
/// file.
///
/// # Errors
///
/// Returns an error if the options cannot be measured.
pub fn text(options: &Options) -> Result<String, Error> {
    let Planned { options, plan, against_turns } = planned_anew(options)?;
    let options = &options;
    let jobs = jobs(&plan.cells);
    let most = verified_at_most(&options.conditions);
    let once = jobs.iter().map(|cells| seconds(cells, most)).sum::<f64>();
    let comparisons = comparisons(options, &plan.cells, Room::of(options));
    let takes_turns = |cell: &Cell| comparisons.iter().any(|comparison| comparison.cells.contains(&cell.id));
    let repetitions = f64::from(options.repetitions);
    let repeated = match options.interleave {
        Some(_) => "compared in blocks".into(),
        None => format!("{repetitions} repetitions"),
    };
    let time = match options.interleave {
        None => format!("about {}", number_format::duration(repetitions * once)),
        Some(Interleave { min_blocks: blocks @ 1.., detect: None, .. }) => {
            format!("about {}", number_format::duration(in_blocks(options, blocks, &jobs)))
        }
        Some(Interleave { min_blocks, budget_seconds, .. }) => {
            let alone = jobs.iter().filter(|cells| !cells.iter().any(takes_turns));
            let alone = repetitions * alone.map(|cells| seconds(cells, most)).sum::<f64>();
            let most = number_format::duration(comparisons.len() as f64 * budget_seconds + alone);
            let longer = match min_blocks {
                0 | 1 => "a block takes".into(),
                blocks => format!("{blocks} blocks take"),
            };
            format!("at most {most}, unless {longer} longer")
        }
    };
    let place = &options.directory;
    let free = free_space::of(place).map_or(String::new(), |free| {
        format!(", where {} are free", number_format::short(Unit::Bytes, free))
    });
    // The lines that matter come first: the list of cells may be long.
    let mut text = format!(
        "{} cells in {} processes, {repeated}\ntime: {time}\ndisk: up to {} in {}{free}\nresult: {}\n",
        plan.cells.len(),
        jobs.len(),
        number_format::short(Unit::Bytes, needed_disk(&comparisons, &plan.cells)),
        place.display(),
        options.output.display(),
    );
    if let Some(reason) = against_turns {
        let _ = writeln!(text, "{NO_TURNS}: {reason}");
    }
    for comparison in &comparisons {
        if let Some(groups) = comparison.groups_text(&plan.cells) {
            let _ = writeln!(text, "{}: {groups}", comparison.id);
        }
    }
    for reason in &plan.left_out {
        let _ = writeln!(text, "left out: {reason}");
    }
    for table in number_format::distinct(plan.cells.iter().map(|cell| cell.table.as_str())) {
        let _ = writeln!(text, "\n{table}");
        for cell in plan.cells.iter().filter(|cell| cell.table == table) {
            let _ = writeln!(text, "  {}", cell.id);
        }
    }
    Ok(text)
}

/// Returns an error if the stores of a run may need more than the free space, than `--map-size`, or than the memory.
///
/// # Errors
///
/// Returns an error also if the options cannot be measured.
pub fn check_space(options: &Options) -> Result<(), Error> {
    let Planned { options, plan, .. } = planned_anew(options)?;
    super::check_space(&options, &plan.cells).map(drop)
}

/// Returns the plan of a new run, whatever a result file contains.
fn planned_anew(options: &Options) -> Result<Planned, Error> {
    planned(&Options { resume: false, ..options.clone() })
}

/// Estimates the seconds of a comparison of the cells of jobs in this number of blocks, with its pilot.
fn in_blocks(options: &Options, blocks: u32, jobs: &[Vec<Cell>]) -> f64 {
    let wanted = options.wanted_seconds().unwrap_or(BLOCK_SECONDS);
    let block = |cells: &Vec<Cell>| {
        let mut cells = cells.clone();
        for cell in &mut cells {
            // The fastest store that writes needs half of this time, the others more.
            let seconds = if cell.workload.writes() { 2.0 * wanted.max(MIN_WRITE_SECONDS) } else { wanted };
            if cell.workload.is_steady() && !cell.reference {
                cell.workload.seconds = Some(seconds);
            }
        }
        seconds(&cells, verified_at_most(&options.conditions))
    };
    (f64::from(blocks) + PILOT_BLOCKS) * jobs.iter().map(block).sum::<f64>()
}

/// Estimates the seconds of a job: load, cells, and the verification of at most `verified` values at the end.
fn seconds(cells: &[Cell], verified: u64) -> f64 {
    let Some(first) = cells.first() else { return 0.0 };
    let keys = first.workload.keys as f64;
    let stored = !synthetic::is_reference(&first.target.store);
    let load = keys / LOADED + keys * first.workload.pair_bytes() / WRITTEN;
    let rate = if verified == verification::MAX_COMPARED { VERIFIED } else { VERIFIED_FROM_DISK };
    let verification = keys.min(verified as f64) / rate;
    let around = if stored { START + load + verification } else { 0.0 };
    let times = if first.workload.rate_goal.is_some() { TRIALS + 1.0 } else { 1.0 };
    times * around + cells.iter().map(|cell| measured(cell) + settled(cell)).sum::<f64>()
}

/// Estimates the seconds of a cell with its warm-up. A cell that runs together with the previous one adds
/// none.
fn measured(cell: &Cell) -> f64 {
    let work = &cell.workload;
    let seconds = match (work.step, work.seconds, work.operations) {
        (CellKind::Operations, Some(seconds), None) => seconds,
        (CellKind::Operations, Some(seconds), Some(count)) => seconds.min(count as f64 / rate(cell)),
        (CellKind::Operations | CellKind::Recovery, None, Some(count)) => count as f64 / rate(cell),
        _ => 0.0,
    };
    let lengths = find_rate::Lengths::of(seconds);
    let seconds =
        if work.rate_goal.is_some() { TRIALS * lengths.trial + lengths.verification } else { seconds };
    if cell.together { 0.0 } else { seconds + work.warmup_seconds }
}

/// Estimates the seconds until the writes of a cell are on the disk.
fn settled(cell: &Cell) -> f64 {
    let work = &cell.workload;
    let part = |kinds: &dyn Fn(Operation) -> bool| {
        work.mix.iter().filter(|(kind, _)| kinds(**kind)).map(|(_, part)| part).sum::<f64>()
    };
    let all = part(&|_| true);
    if all == 0.0 || !cell.target.persistent {
        return 0.0;
    }
    measured(cell) * rate(cell) * part(&Operation::writes) / all * work.pair_bytes() / WRITTEN
}

/// Estimates the operations per second of a cell, at most the fixed rate of an open loop.
fn rate(cell: &Cell) -> f64 {
    cell.workload.rate.map_or(unpaced(cell), |rate| rate.min(unpaced(cell)))
}

/// Estimates the operations per second of a closed loop. Durable writes wait for the disk: in process each
/// thread for its own commit, over the wire for the common commit of all clients.
fn unpaced(cell: &Cell) -> f64 {
    let work = &cell.workload;
    if !work.kinds().any(Operation::writes) || !Level::of(&cell.target).is_durable() {
        return DONE;
    }
    let clients = if cell.target.access == Access::Wire { work.threads } else { 1 };
    DONE.min(SYNCED * f64::from(clients) * f64::from(work.batch))
}

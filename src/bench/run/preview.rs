//! `--dry-run`: what a run would measure, how long that takes, and what it needs.

use super::{Error, check, jobs};
use crate::bench::{
    plan::options::Options,
    result::{Access, Cell, Operation, Step, level::Level, measure::Unit, numbers},
};
use std::{fmt::Write, path::Path};

/// Pairs that a store takes in a second when it is loaded, to guess with.
const LOADED: f64 = 100_000.0;
/// Operations in a second, likewise.
const DONE: f64 = 50_000.0;
/// Commits in a second that wait for the disk, likewise.
const SYNCED: f64 = 1_000.0;
/// Seconds to start a process, open and close a store.
const START: f64 = 0.3;
/// What files take at most of the bytes of their pairs, while they are rewritten.
const SWOLLEN: f64 = 3.0;

/// The plan in words. Makes nothing.
pub fn text(options: &Options) -> Result<String, Error> {
    let plan = check(options)?;
    let jobs = jobs(&plan.cells);
    let mut text = String::new();
    let mut tables: Vec<&str> = Vec::new();
    for cell in &plan.cells {
        if !tables.contains(&cell.table.as_str()) {
            tables.push(&cell.table);
        }
    }
    for table in tables {
        let _ = writeln!(text, "{table}");
        for cell in plan.cells.iter().filter(|cell| cell.table == table) {
            let _ = writeln!(text, "  {}", cell.id);
        }
    }
    plan.left_out.iter().for_each(|reason| {
        let _ = writeln!(text, "left out: {reason}");
    });
    let seconds =
        f64::from(options.repetitions) * jobs.iter().map(|cells| START + seconds(cells)).sum::<f64>();
    let disk = jobs.iter().map(|cells| bytes(cells)).fold(0.0, f64::max);
    let place = &options.directory;
    let free = free(place)
        .map_or(String::new(), |free| format!(", where {} are free", numbers::short(Unit::Bytes, free)));
    let _ = write!(
        text,
        "\n{} cells in {} processes, {} repetitions\ntime: about {}\ndisk: up to {} in {}{free}\nresult: {}\n",
        plan.cells.len(),
        jobs.len(),
        options.repetitions,
        duration(seconds),
        numbers::short(Unit::Bytes, disk),
        place.display(),
        options.output.display(),
    );
    Ok(text)
}

/// The time of a job: the load, and its cells one after the other.
fn seconds(cells: &[Cell]) -> f64 {
    let load = cells.first().map_or(0.0, |first| first.workload.keys as f64 / LOADED);
    let cell = |cell: &Cell| {
        let work = &cell.workload;
        let measured = match (work.step, work.seconds, work.operations) {
            (Step::Operations, Some(seconds), None) => seconds,
            (Step::Operations, Some(seconds), Some(count)) => seconds.min(count as f64 / rate(cell)),
            (Step::Operations, None, Some(count)) => count as f64 / rate(cell),
            _ => 0.0,
        };
        // Cells that run together take no time of their own.
        if cell.together { 0.0 } else { measured + work.warmup_seconds }
    };
    load + cells.iter().map(cell).sum::<f64>()
}

/// Operations that a cell may do in a second, no more than it is asked to begin.
fn rate(cell: &Cell) -> f64 {
    cell.workload.rate.map_or(unpaced(cell), |rate| rate.min(unpaced(cell)))
}

/// As fast as it goes: operations that write wait for the disk where it is synced, each for its own commit, or over
/// the wire for that of all clients.
fn unpaced(cell: &Cell) -> f64 {
    let work = &cell.workload;
    let writes =
        work.kinds().any(|kind| !matches!(kind, Operation::Get | Operation::GetMiss | Operation::Scan));
    if !writes || !Level::of(&cell.target).is_durable() {
        return DONE;
    }
    let clients = if cell.target.access == Access::Wire { work.threads } else { 1 };
    DONE.min(SYNCED * f64::from(clients) * f64::from(work.batch))
}

fn bytes(cells: &[Cell]) -> f64 {
    let on_disk = cells.iter().filter(|cell| cell.target.persistent && cell.target.address.is_none());
    let pairs = on_disk.map(|cell| {
        let work = &cell.workload;
        work.most_keys() as f64 * work.pair_bytes()
    });
    SWOLLEN * pairs.fold(0.0, f64::max)
}

fn duration(seconds: f64) -> String {
    match seconds {
        few if few < 90.0 => format!("{few:.0} s"),
        some if some < 5400.0 => format!("{:.0} min", some / 60.0),
        many => format!("{:.1} h", many / 3600.0),
    }
}

#[cfg(target_os = "linux")]
fn free(directory: &Path) -> Option<f64> {
    // The directory is made by the run; it will be on the file system of the one above.
    let existing = std::path::absolute(directory).ok()?.ancestors().find(|path| path.exists())?.to_path_buf();
    let found = nix::sys::statvfs::statvfs(&existing).ok()?;
    Some(found.blocks_available() as f64 * found.fragment_size() as f64)
}

#[cfg(not(target_os = "linux"))]
fn free(_directory: &Path) -> Option<f64> {
    None
}

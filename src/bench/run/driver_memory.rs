//! Memory of the driver itself, which is added to `--memory-limit`, so that the limit is the store's: measured with the
//! no-op engine, which needs none.

use super::{attempts, memory_limit::MemoryGroup, order::jobs};
use crate::{
    bench::{
        data::key_ledger::KeyLedger,
        plan::options::Options,
        result::{Access, Cell, CellKind, Operation, Outcome, Target, Workload},
    },
    engine::synthetic,
};
use std::{fs::File, io};

/// Minimum number of operations of each thread: enough for a histogram of every kind of operation.
const OPERATIONS: u64 = 1000;

/// Limit of the control group of the measurement, in bytes: none.
const UNLIMITED: u64 = 1 << 60;

/// Returns the peak memory of the driver with the cells of a run for which it needs the most, in bytes: versions of keys,
/// expiration times, histograms, threads, buffers and a copy of the data file, without the page cache of that file.
///
/// # Errors
///
/// Returns the reason if no control group can be made, if the cells fail with the no-op engine, or if the kernel does
/// not report the peak of a control group.
pub(super) fn measure(options: &Options, cells: &[Cell]) -> Result<u64, String> {
    let largest = largest_job(cells);
    let job = attempts::job(options, &with_noop_engine(&largest), 0);
    // A page in the page cache belongs to the group whose process reads it first. Those of the data file are not the
    // driver's own memory, so this process reads them first.
    if let Some(path) = largest.iter().find_map(|cell| cell.workload.data.as_deref()) {
        // The driver reads the file too, and reports an error.
        let _ = File::open(path).and_then(|mut file| io::copy(&mut file, &mut io::sink()));
    }
    let group = MemoryGroup::new(UNLIMITED)?;
    let reports = job.reports_of_child(&options.conditions.cpus, Some(&group));
    let peak = group.peak();
    drop(group);
    for report in job.concluded(reports) {
        if let Outcome::Failed(reason) | Outcome::Unsupported(reason) = report.outcome {
            return Err(format!("{}: {reason}", report.cell));
        }
    }
    let peak = peak.ok_or("the kernel does not tell the peak of a control group")?;
    Ok(peak + expiration_bytes(cells.iter().map(|cell| &cell.workload)))
}

/// Returns the cells of the job for which the driver needs the most memory: that with the most versions of keys, which only
/// updates need, or among equal ones that with the most keys and threads.
fn largest_job(cells: &[Cell]) -> Vec<Cell> {
    let size = |cells: &Vec<Cell>| {
        let workloads = || cells.iter().map(|cell| &cell.workload);
        let updated = workloads().filter(|workload| workload.updates()).map(Workload::most_keys).max();
        let keys = workloads().map(Workload::most_keys).max();
        let threads: u32 = workloads().map(|workload| workload.threads).sum();
        (KeyLedger::version_bytes(updated.unwrap_or(0)), keys, threads)
    };
    jobs(cells).into_iter().max_by_key(size).unwrap_or_default()
}

/// Returns the bytes of the driver's largest table of expiration times; 0 if no workload has a time to live. The
/// measurement has no such table, because values of the no-op engine do not expire.
fn expiration_bytes<'w>(workloads: impl Iterator<Item = &'w Workload>) -> u64 {
    let keys = workloads.filter(|workload| workload.ttl_ms.is_some()).map(Workload::most_keys);
    // The entries of this table are as large as those of the table of versions.
    keys.max().map_or(0, KeyLedger::version_bytes)
}

/// Returns copies of the cells for which the driver needs as much memory, with the no-op engine as their store.
fn with_noop_engine(cells: &[Cell]) -> Vec<Cell> {
    let target = Target::new(Access::InProcess, synthetic::NOTHING);
    let copy = |cell: &Cell| Cell {
        target: target.clone(),
        workload: without_waits(&cell.workload),
        reference: true,
        own_device: None,
        ..cell.clone()
    };
    cells.iter().map(copy).collect()
}

/// Returns a workload with the keys, the threads and the kinds of operations of `workload`, but without scans (with a
/// data file, without any reads), warm-up, rate, time limit and time to live. If no kind of operation is left, it
/// updates. It ends by a number of operations.
fn without_waits(workload: &Workload) -> Workload {
    let mut mix = workload.mix.clone();
    // The no-op engine keeps a list of all keys for scans, and of those of a data file for reads.
    mix.retain(|kind, _| *kind != Operation::Scan && (workload.data.is_none() || kind.writes()));
    if mix.is_empty() {
        mix.insert(Operation::Update, 1.0);
    }
    let is_filled = workload.step == CellKind::Operations && !workload.is_steady();
    let few = OPERATIONS * u64::from(workload.threads) * u64::from(workload.batch);
    Workload {
        mix,
        operations: if is_filled { workload.operations } else { Some(few) },
        seconds: None,
        warmup_seconds: 0.0,
        rate: None,
        ttl_ms: None,
        counts_allocations: false,
        step: CellKind::Operations,
        ..workload.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::result::Figure;

    /// Only updates need versions of keys, so the work that only reads needs less memory, although it comes last.
    #[test]
    fn the_largest_job_has_the_most_versions_of_keys() {
        let cell = |kind: Operation, keys, threads| Cell {
            id: String::new(),
            table: String::new(),
            row: String::new(),
            column: String::new(),
            target: Target::new(Access::InProcess, "map"),
            workload: Workload { threads, ..Workload::of([(kind, 1.0)], keys) },
            group: None,
            together: false,
            figure: Figure::Throughput,
            reference: false,
            own_device: None,
        };
        let (get, update) = (Operation::Get, Operation::Update);
        for (cells, expected) in [
            (vec![cell(update, 1000, 2), cell(get, 1000, 2)], 0),
            (vec![cell(get, 2000, 2), cell(update, 1000, 2)], 1),
            (vec![cell(get, 1000, 2), cell(get, 2000, 2), cell(get, 2000, 1)], 1),
        ] {
            assert_eq!(largest_job(&cells), cells[expected..=expected], "{cells:?}");
        }
    }

    #[test]
    fn expiration_times_are_memory_of_the_driver() {
        let work = |keys, ttl_ms| Workload { keys, ttl_ms, ..Workload::of([(Operation::Update, 1.0)], 1) };
        let bytes = |workloads: &[Workload]| expiration_bytes(workloads.iter());
        assert_eq!(bytes(&[work(5000, None)]), 0);
        assert_eq!(bytes(&[work(1000, Some(1)), work(2000, Some(1)), work(5000, None)]), 16_000);
    }
}

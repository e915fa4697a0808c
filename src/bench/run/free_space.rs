//! Free space on the disk of a run, compared with what the stores need.

use crate::{
    bench::{
        plan::options::Options,
        result::{Cell, metric::Unit, number_format},
    },
    engine::{files, synthetic},
};
use std::path::Path;

/// Free space below which a disk counts as full, in bytes: engines allocate files in steps of this order.
const FULL: f64 = 1_048_576.0;
/// Maximum size of a memory-mapped data file, as a multiple of the bytes of its keys and values: half-filled pages, and
/// pages of an earlier version.
const MAPPED: f64 = 2.0;
/// Maximum size of a store's files while it rewrites them, as a multiple of the bytes of its keys and values.
const REWRITTEN: f64 = 3.0;

/// Returns an error message if the run, which may need `needed` bytes on disk, may need more than the free space of
/// `--dir`, or one of `cells` more than `--map-size`. Checks nothing with `--no-space-check`.
pub(super) fn check(options: &Options, cells: &[Cell], needed: f64) -> Result<(), String> {
    if options.ignores_space {
        return Ok(());
    }
    let short = |bytes| number_format::short(Unit::Bytes, bytes);
    if let Some(free) = of(&options.directory).filter(|free| needed > *free) {
        return Err(format!(
            "--dir {}: the stores may need up to {}, and {} are free; take fewer --keys or another --dir, or add \
             --no-space-check",
            options.directory.display(),
            short(needed),
            short(free)
        ));
    }
    let map = options.map_bytes as f64;
    let is_mapped =
        |cell: &&Cell| synthetic::info(&cell.target.store).is_some_and(|info| info.capabilities.map_size);
    let own = cells.iter().filter(|cell| cell.target.persistent && cell.target.address.is_none());
    for cell in own.filter(is_mapped) {
        let needed = MAPPED * cell.workload.most_bytes();
        if needed > map {
            return Err(format!(
                "--map-size {}: {} may need up to {}; raise --map-size, or add --no-space-check",
                short(map),
                cell.target.store,
                short(needed)
            ));
        }
    }
    Ok(())
}

/// Returns an estimate of the bytes that the largest store of the cells needs on disk.
pub(super) fn needed(cells: &[Cell]) -> f64 {
    let on_disk = cells.iter().filter(|cell| cell.target.persistent && cell.target.address.is_none());
    REWRITTEN * on_disk.map(|cell| cell.workload.most_bytes()).fold(0.0, f64::max)
}

/// Returns `true` if less than 1 MiB is free on the disk of `directory`, so that it counts as full.
pub(super) fn is_full(directory: &Path) -> bool {
    of(directory).is_some_and(|free| free < FULL)
}

/// Returns the free bytes of the file system of `directory`, or of its nearest existing parent; `None` if they
/// cannot be known.
pub(super) fn of(directory: &Path) -> Option<f64> {
    let existing = std::path::absolute(directory).ok()?.ancestors().find(|path| path.exists())?.to_path_buf();
    files::file_system_size(&existing).map(|(_, free)| free as f64)
}

//! The append-only file: how a table in memory outlives its process.
//!
//! One file of RESP commands, as Redis writes them: `SET`, `DEL` and `FLUSHDB`, a batch of several
//! between `MULTI` and `EXEC`. People can read it, `redis-server` can load it, and `map` and
//! `btree` can open each other's. (The segments of `bitcask` are such files, too, but for what their records hold:
//! the engine's keys and values as they are, see [`frame`].) Unlike Redis' it has checksums, and tells up to where it was on stable
//! storage, in lines that Redis skips: see [`frame`] and docs/durability-log.md. A rewrite
//! works in `<path>.rewrite` beside it; what is left there after a crash is removed at the next open.
//!
//! A write goes to the file, with `sync` to stable storage, and only then to the table: readers see
//! nothing that a crash could take back. Whatever fails on the way leaves the table as it was, and
//! the file too, or else the log refuses all further writes: a disk that failed once may have
//! dropped pages that a second `fsync` does not report.

mod append;
mod check;
mod file;
mod frame;
mod log;
mod open;
mod plain;
mod record;
mod replay;
mod rewrite;
#[cfg(test)]
mod tests;
mod verbatim;
mod window;

#[cfg(test)]
pub(super) use tests::without_sums;

use super::{Caveat, Loss, LossBound, LossClass};
pub use check::{Repaired, repair_log};
pub(super) use {
    check::check,
    file::Storage,
    frame::{FORMAT, newer_format},
    log::Aof,
    open::{EMPTY, Restored, corrupt_values, read_last, read_sealed, recognise, verbatim_id},
    record::{MAX_LENGTH, encode_set},
    replay::ReplayEnd,
    rewrite::STEP,
};

/// What an engine with this log loses. A write is in the kernel's hands before it is acknowledged,
/// so a killed process loses nothing whatever the policy.
pub(super) const LOSS: [Loss; 3] = [
    Loss::NOTHING,
    Loss::power_cut(LossBound::seconds("about a second")),
    Loss::power_cut(LossBound::new(
        LossClass::Unwritten,
        "what the system had not written (about 30 seconds on Linux)",
    )),
];

/// What one should know of an engine with this log.
pub(super) const CAVEATS: &[Caveat] = &[
    Caveat::new("All data must fit in memory."),
    Caveat::in_files("A start replays the whole file."),
    Caveat::in_files(
        "A rewrite of the file needs space for a second file. It is automatic when the file is at least 64 MiB and \
        has doubled.",
    ),
    Caveat::in_memory(
        "With --path :memory: everything is lost when the process ends, whatever --fsync says.",
    ),
];

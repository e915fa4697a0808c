//! The append-only file (AOF): persistence for the engines whose table is in memory.
//!
//! One file of RESP commands, as Redis writes them: `SET`, `DEL` and `FLUSHALL`, with `PEXPIREAT` for expiration times
//! and `SELECT` for databases; a batch of several commands is between `MULTI` and `EXEC`. Users can read it,
//! `redis-server` can load it, and `map` and `btree` can open each other's. (A segment of `bitcask` is such a file too,
//! but its records hold the engine's keys and values unchanged: see `Form::Raw` in [`record`].) Unlike Redis' AOF it
//! has checksums and records up to which offset it was durable, in lines that Redis skips: see [`frame`] and
//! docs/durability-log.md. A rewrite writes to `<path>.rewrite` in the same directory; the next open removes what a
//! crash has left of it.
//!
//! A write goes to the file, is synced if requested, and only then goes to the table: under `always`, readers see
//! nothing that a power cut could lose. A failure leaves the table unchanged, and the file too, or else the AOF refuses
//! all further writes: a disk that failed once may have dropped pages that a second `fsync` does not report.

mod append;
mod check;
mod file;
mod frame;
mod log;
mod open;
mod read_window;
mod record;
mod replay;
mod rewrite;
mod segment_record;
#[cfg(test)]
mod tests;

#[cfg(test)]
pub(super) use tests::without_sums;

use super::{Caveat, Fsync, Loss, LossBound, LossClass};
pub use check::Repaired;
pub(super) use {
    check::{check, repair},
    file::Storage,
    frame::{FORMAT, newer_format},
    log::Aof,
    open::{EMPTY, Restored, corrupt_values, read_last, read_sealed, recognise, verbatim_id},
    record::{MAX_LENGTH, MAX_LENGTHS, MAX_STORED_VALUE, encode_set},
    replay::ReplayEnd,
    rewrite::STEP,
};

/// Loss bounds of an engine with an AOF, per fsync policy. A write is in the kernel's hands before it is
/// acknowledged, so a kill loses nothing under any policy.
pub(super) const LOSS: [Loss; 3] = [
    Loss::NOTHING,
    Loss::power_cut(LossBound::seconds("about a second")),
    Loss::power_cut(LossBound::new(
        LossClass::Unwritten,
        "what the system had not written (about 30 seconds on Linux)",
    )),
];

/// Caveat of every engine that appends with [`Aof::append`].
pub(super) const PADDING_CAVEAT: Caveat = Caveat::under(
    Fsync::Always,
    "Under always, up to 1 MiB of padding is written behind the data in advance, so that most syncs need not make the \
    file longer: on ext4 such a sync takes half as long.",
);

/// Caveats of an engine with an AOF.
pub(super) const CAVEATS: &[Caveat] = &[
    Caveat::new("All data must fit in memory."),
    Caveat::in_files("A start replays the whole file."),
    Caveat::in_files(
        "A rewrite of the file needs space for a second file. It is automatic when the file is at least 64 MiB and \
        has doubled since the start or the last rewrite; BGREWRITEAOF starts one at any time.",
    ),
    PADDING_CAVEAT,
    Caveat::in_memory(
        "With --path :memory: everything is lost when the process ends, whatever --fsync says.",
    ),
];

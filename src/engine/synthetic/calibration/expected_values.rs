//! What the calibration engine is told to be, and what it has seen itself do.

use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// The engine's name.
pub const CALIBRATION: &str = "calibration";

/// Bytes of a page: what is written and mapped comes in multiples of it, or the kernel would round.
pub const PAGE: u64 = 4096;

/// What the engine is to be. Everything that is absent costs nothing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Truth {
    /// What reads take, in parts; empty for nothing.
    pub reads: Vec<Part>,
    /// Blocks of memory that each read takes and gives back.
    pub read_blocks: u64,
    /// Bytes of each of these.
    pub block_bytes: u64,
    /// What each write takes.
    pub write: Cost,
    /// When all operations stand still.
    pub stall: Option<Stall>,
    /// Bytes that each write appends to the log: a multiple of [`PAGE`].
    pub write_bytes: u64,
    /// Bytes that each write leaves to be written later: a multiple of [`PAGE`].
    pub debt_bytes: u64,
    /// Bytes beside the log that are on disk once settled.
    pub settled_bytes: u64,
    /// What of these is left when it is closed.
    pub closed_bytes: u64,
    /// Bytes that the log's file is longer than what is in it, a hole, while there are unsettled writes.
    pub hole_bytes: u64,
    /// Bytes reserved behind the log's end while there are unsettled writes.
    pub reserved_bytes: u64,
    /// Memory without a file.
    pub memory_bytes: u64,
    /// Memory that the first write after settling takes and gives back at once.
    pub surge_bytes: u64,
    /// The same in the load, before it was settled for the first time.
    pub load_surge_bytes: u64,
    /// Bytes of a file that is mapped into memory.
    pub mapped_bytes: u64,
    /// Milliseconds to settle, to close, and to open again what was closed.
    pub settle_ms: u64,
    /// See `settle_ms`.
    pub close_ms: u64,
    /// See `settle_ms`.
    pub recovery_ms: u64,
    /// Where it tells what it has seen: a line of JSON for each time it was open.
    pub record: PathBuf,
}

/// What so many of all reads take.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// So many.
    pub count: u64,
    /// Take this.
    pub cost: Cost,
}

/// What an operation takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// Nanoseconds of processor time.
    pub cpu_ns: u64,
    /// Nanoseconds of sleep.
    pub sleep_ns: u64,
}

/// Standstills: the last `length_ms` of every `every_ms` since the first operation after settling.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stall {
    /// From the begin of one period to that of the next.
    pub every_ms: u64,
    /// How long it stands still.
    pub length_ms: u64,
}

/// What the engine has seen while it was open. Times are nanoseconds of the machine's monotonic clock,
/// the same in all processes.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Record {
    /// Begin and end of opening.
    pub open: (u64, u64),
    /// What came between one settling and the next; the first is what came before any, the last what came
    /// before it was closed, if there was something.
    pub spans: Vec<Span>,
    /// Begin and end of closing.
    pub close: (u64, u64),
}

/// An operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// When it began.
    pub begin: u64,
    /// When it ended.
    pub end: u64,
    /// Of a write: the number of its commit, from 1 on in each span. A read has none.
    pub commit: Option<u64>,
}

/// What came before a settling, and the settling.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Span {
    /// Each operation.
    pub calls: Vec<Call>,
    /// Processor time that operations were made to take.
    pub cpu_ns: u64,
    /// Processor time of the process when the span began, and when it ended.
    pub process_cpu_ns: (u64, u64),
    /// Bytes of keys and values that were written, or deleted.
    pub user_bytes: u64,
    /// Bytes written to files, the settling's included.
    pub written_bytes: u64,
    /// Length of all files before the settling, and after it.
    pub length_bytes: (u64, u64),
    /// The same without holes.
    pub used_bytes: (u64, u64),
    /// Keys and values that are there, in bytes.
    pub alive_bytes: u64,
    /// Begin and end of the settling.
    pub settle: (u64, u64),
}

impl Truth {
    /// Where the truth of a store at `path` is told: beside the directory it is in, which may be measured.
    pub fn place(path: &Path) -> PathBuf {
        path.parent().unwrap_or(path).with_extension("truth")
    }
}

//! Configuration of the calibration engine, and its record of what it did: the expected values of a calibration.

use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Name of the calibration engine in `--store`.
pub const CALIBRATION: &str = "calibration";

/// Size of a page in bytes: written and mapped sizes are multiples of it, or the kernel would round.
pub const PAGE: u64 = 4096;

/// Configuration of the calibration engine. A value of 0 or an empty value costs nothing, except `write_bytes`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Truth {
    /// Costs of the calibration engine's reads: each part has a share of the reads. Empty if reads cost nothing.
    pub reads: Vec<Part>,
    /// Number of memory blocks that each read of the calibration engine allocates and frees.
    pub read_blocks: u64,
    /// Size in bytes of each memory block that a read allocates and frees.
    pub block_bytes: u64,
    /// Number of instructions that each read of the calibration engine executes in addition, an even number.
    pub read_instructions: u64,
    /// Time that each write of the calibration engine takes.
    pub write: Cost,
    /// Periods in which reads, writes and scans of the calibration engine stall; `None` for none.
    pub stall: Option<Stall>,
    /// Time that each scan of the calibration engine takes.
    pub scan: Cost,
    /// Bytes that each write appends to the log of the calibration engine; 0 stands for one [`PAGE`].
    pub write_bytes: u64,
    /// Number of bytes that each commit (write batch) of the calibration engine overwrites, always at the start of a
    /// file.
    pub overwrite_bytes: u64,
    /// Number of bytes that each read of the calibration engine reads from the next place of a file, without
    /// read-ahead.
    pub read_bytes: u64,
    /// Size in bytes of the file from which reads take bytes. Behind its end, reads begin again.
    pub read_file_bytes: u64,
    /// Bytes of deferred work per write: a multiple of [`PAGE`].
    pub debt_bytes: u64,
    /// Maximum length in bytes, after a quiesce, of the file to which the deferred work writes.
    pub settled_bytes: u64,
    /// Maximum length in bytes, after the engine is closed, of the file to which the deferred work writes.
    pub closed_bytes: u64,
    /// Size in bytes of a hole at the end of a file, while there are writes since the last quiesce.
    pub hole_bytes: u64,
    /// Bytes reserved behind the log's end while there are writes since the last quiesce.
    pub reserved_bytes: u64,
    /// Memory that the engine holds only to use it, not mapped from a file, in bytes.
    pub memory_bytes: u64,
    /// Memory in bytes that the first write after a quiesce allocates and frees immediately.
    pub surge_bytes: u64,
    /// Memory in bytes that the first write of the load, before the first quiesce, allocates and frees immediately.
    pub load_surge_bytes: u64,
    /// Size in bytes of a file that the engine maps into memory.
    pub mapped_bytes: u64,
    /// Time for which a quiesce of the calibration engine sleeps before the deferred work, in milliseconds.
    pub settle_ms: u64,
    /// Time for which a close of the calibration engine sleeps before the last sync, in milliseconds.
    pub close_ms: u64,
    /// Time in milliseconds that an open of the calibration engine sleeps, in addition to reading the log, if the log
    /// has writes.
    pub recovery_ms: u64,
    /// Time in microseconds that the engine takes for each write in its log when files are opened that were not
    /// closed.
    pub replay_us: u64,
    /// File to which each close of the calibration engine appends the engine's [`Record`], as a line of JSON.
    pub record: PathBuf,
}

/// Share of the calibration engine's reads, all of one cost.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// Weight of this part: its share of the reads is `count`, divided by the sum of the counts of all parts.
    pub count: u64,
    /// Time that each read of this part takes.
    pub cost: Cost,
}

/// Time that an operation takes: CPU time and sleep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// CPU time of the operation, in nanoseconds.
    pub cpu_ns: u64,
    /// Time for which the operation sleeps, in nanoseconds.
    pub sleep_ns: u64,
}

/// Stalls: the last `length_ms` of every `every_ms` since the first operation after a quiesce.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stall {
    /// Time in milliseconds from the start of one period, at whose end the engine stalls, to the start of the next.
    pub every_ms: u64,
    /// Duration of each stall of the calibration engine, in milliseconds.
    pub length_ms: u64,
}

/// Record of what the calibration engine did while it was open. Times are nanoseconds of the machine's monotonic clock,
/// which all processes share.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Record {
    /// Start and end of the open, in nanoseconds of the machine's monotonic clock.
    pub open: (u64, u64),
    /// Memory of the engine's process at the start of the open.
    #[serde(default)]
    pub memory: ProcessMemory,
    /// Spans between quiesces: the first is before any quiesce, the last is between the last quiesce and the close,
    /// if there were operations.
    pub spans: Vec<Span>,
    /// Start and end of the close, in nanoseconds of the machine's monotonic clock.
    pub close: (u64, u64),
}

/// Memory of the engine's process, in bytes; 0 where it is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessMemory {
    /// Resident memory of the process, in bytes.
    pub resident: u64,
    /// Resident memory of the process that is not mapped from a file, in bytes.
    pub anonymous: u64,
}

/// Operation that the calibration engine has executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// Start of the operation, in nanoseconds of the machine's monotonic clock.
    pub begin: u64,
    /// End of the operation, in nanoseconds of the machine's monotonic clock.
    pub end: u64,
    /// Number of the commit (write batch) of a write, from 1 in each span; `None` for a read or a scan.
    pub commit: Option<u64>,
    /// Kind of the operation: a read, one of three kinds of write, or a scan.
    pub kind: CallKind,
    /// Number of the thread that called the engine, in the order of the threads' first calls.
    pub thread: u64,
}

/// Kind of an operation of the calibration engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum CallKind {
    /// A read of a key.
    #[default]
    Read,
    /// A write that replaced a value.
    Update,
    /// A write that added a key.
    Insert,
    /// A delete of a key, whether or not the key existed, or a clear.
    Delete,
    /// A scan.
    Scan,
}

/// Record of the calibration engine's operations between two quiesces, and of the quiesce that ends them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Span {
    /// Operations between two quiesces (a span), in the order in which they ended.
    pub calls: Vec<Call>,
    /// Time of the end of each sync that was not part of a write, in nanoseconds of the machine's monotonic clock.
    #[serde(default)]
    pub syncs: Vec<u64>,
    /// Time of the end of each delete of a key (not of clears), before its commit is written to the log, in nanoseconds
    /// of the machine's monotonic clock.
    #[serde(default)]
    pub deletes: Vec<u64>,
    /// Number of reads that found a value which had not expired.
    #[serde(default)]
    pub found: u64,
    /// Number of reads that found nothing, or a value which had expired.
    #[serde(default)]
    pub absent: u64,
    /// CPU time that the operations of the span were made to use, in nanoseconds.
    pub cpu_ns: u64,
    /// CPU time of the process at the start and at the end of the span, in nanoseconds.
    pub process_cpu_ns: (u64, u64),
    /// Bytes of keys and values that the operations of the span wrote or deleted.
    pub user_bytes: u64,
    /// Bytes that were written to files in the span, including those of the quiesce.
    pub written_bytes: u64,
    /// Total length of the log, the mapped file and the deferred work's output in bytes, before and after the quiesce.
    pub length_bytes: (u64, u64),
    /// Total length as in `length_bytes`, but without the hole, before and after the quiesce.
    pub used_bytes: (u64, u64),
    /// Total size of all keys and values that exist at the end of the span, in bytes.
    pub alive_bytes: u64,
    /// Memory of the engine's process at the end of the span.
    #[serde(default)]
    pub memory: ProcessMemory,
    /// Start and end of the quiesce, in nanoseconds of the machine's monotonic clock.
    pub settle: (u64, u64),
}

impl Truth {
    /// Returns the number of bytes that a write appends to the log.
    pub(super) fn record_bytes(&self) -> u64 {
        if self.write_bytes == 0 { PAGE } else { self.write_bytes }
    }

    /// Returns the path of the file that configures the calibration engine for a store at `path`. It is outside the
    /// directory that contains the store, because the size of that may be measured.
    pub fn place(path: &Path) -> PathBuf {
        path.parent().unwrap_or(path).with_extension("truth")
    }
}

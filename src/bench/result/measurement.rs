//! Metrics of one measurement.

use super::Operation;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The numbers.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Measurement {
    /// Operations that succeeded, with the right value, in the measured time.
    pub operations: u64,
    /// Measured time.
    pub seconds: f64,
    /// Operations in each second; 0 of a step that is done once.
    pub throughput: f64,
    /// Keys that existed before its first operation (with a time to live, those that were loaded or inserted); counted in the engine where `keys_after` says so.
    #[serde(default)]
    pub keys_before: Option<u64>,
    /// Keys that existed after its last operation. They are what the driver has written and removed, and
    /// the engine has been asked for its own count wherever it knows that, or the operations could have
    /// changed it. With a time to live they are the engine's own count, with expired keys that are not removed yet.
    #[serde(default)]
    pub keys_after: Option<u64>,
    /// Values that were read and compared after the last operation of the cell's group, of files after
    /// they had been closed and opened again. Of more than five million keys so many are drawn by chance; with
    /// `--cold` or `--memory-limit` of more than 20,000.
    #[serde(default)]
    pub verified_values: Option<u64>,
    /// Operations that ended in an error.
    pub errors: u64,
    /// Reads that did not find what was there.
    pub misses: u64,
    /// Reads that found another value than was written.
    pub wrong_values: u64,
    /// With a time to live: reads that found the value of their key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hits: Option<u64>,
    /// With a time to live: reads that found nothing because the value had expired. They succeeded, and are no `misses`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expired_reads: Option<u64>,
    /// With a time to live: expired keys that the store removed in the measured time. Absent where the server does not
    /// report them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expired_keys: Option<u64>,
    /// The first error, miss or wrong value, in words.
    pub first_fault: Option<String>,
    /// Latency over all operations, also those that never started.
    pub latency: Latency,
    /// Operations whose intended start came, at a rate, but that had not begun by the end. They count in
    /// `latency`, with the time that they had waited by then, and nowhere else.
    #[serde(default)]
    pub unstarted_operations: u64,
    /// At a rate: how much later than intended an operation began that its thread had waited for. It is the
    /// harness' and the scheduler's part of the latency.
    #[serde(default)]
    pub lateness: Option<Latency>,
    /// Whether its throughput is above half of what the same operations reach over an engine that does
    /// nothing: then much of the figure is the harness' own.
    #[serde(default)]
    pub near_floor: Option<bool>,
    /// Count and latency by kind of operation.
    pub by_operation: BTreeMap<Operation, Latency>,
    /// Operations of each equal slice of the measured time.
    pub timeline: Vec<u64>,
    /// Length of a slice.
    pub timeline_slice_seconds: f64,
    /// Processor time of the process with the engine (over the wire: of the server), by operation.
    pub cpu_us_per_operation: Option<f64>,
    /// Largest resident memory of that process in the measured time. In process it is without what the
    /// process had before it opened the engine; over the wire it is that of the whole server.
    pub peak_memory_bytes: Option<u64>,
    /// Its memory without a file behind it, at the end of the measured time, counted likewise.
    #[serde(default)]
    pub anonymous_bytes: Option<u64>,
    /// Bytes of the store's files that it had in memory by mapping them, at the end of the measured time.
    /// What the system's page cache holds beside is in no process.
    #[serde(default)]
    pub mapped_bytes: Option<u64>,
    /// Allocations of the engine in Rust while it was called, and of its threads meanwhile, where that was asked
    /// for. What C and C++ allocate is not seen.
    #[serde(default)]
    pub allocations: Option<u64>,
    /// Their bytes.
    #[serde(default)]
    pub allocated_bytes: Option<u64>,
    /// Bytes of keys and values that operations wrote, or deleted.
    pub user_bytes: u64,
    /// Bytes that the engine passed to write calls in the measured time and while it settled afterwards:
    /// flushes and compactions of what these cells have caused, and of nothing before them. In process only.
    pub written_bytes: Option<u64>,
    /// Bytes written in the same time to a device of the cell's own, with those of its file system's journal.
    /// Results of schema 3 and earlier: bytes that the machine's device took from all programs.
    #[serde(default)]
    pub device_bytes: Option<u64>,
    /// `written_bytes / user_bytes`, from 1 MiB of `user_bytes` on.
    pub write_amplification: Option<f64>,
    /// `device_bytes / user_bytes`, from 1 MiB of `user_bytes` on.
    #[serde(default)]
    pub device_write_amplification: Option<f64>,
    /// Bytes read from a device of the cell's own, by GET; of cells that only read single keys.
    #[serde(default)]
    pub device_read_bytes_per_get: Option<f64>,
    /// Read requests of that device, by GET.
    #[serde(default)]
    pub device_reads_per_get: Option<f64>,
    /// Bytes used on disk once settled, without what is reserved behind the end of files.
    pub disk_bytes: Option<u64>,
    /// `disk_bytes` by bytes of the keys and values that are alive.
    pub space_amplification: Option<f64>,
    /// The files at the end of the measured time.
    #[serde(default)]
    pub live_size: Option<FileSize>,
    /// The files once settled: all is flushed, no background work is left.
    #[serde(default)]
    pub settled_size: Option<FileSize>,
    /// The files once closed; of the last cells of a group, after which the store is closed.
    #[serde(default)]
    pub closed_size: Option<FileSize>,
    /// Syncs that the timer of the policy `everysec` made in the measured time; absent under other policies.
    #[serde(default)]
    pub timer_syncs: Option<u64>,
    /// Time to settle after the measured time.
    #[serde(default)]
    pub settle_seconds: Option<f64>,
    /// Time to load the keys before, under the policy `no`, and to sync them (another program than kvbench, or a server
    /// that was running already, is not asked to sync; the latter has its own policy).
    pub load_seconds: Option<f64>,
    /// Time to close.
    pub close_seconds: Option<f64>,
    /// Time to open again what was closed; over the wire, to start a server with it, until it takes requests. Absent
    /// where no key was left.
    pub reopen_seconds: Option<f64>,
    /// Time from the start of opening the store to its first read, after its process was killed under load and
    /// its files were dropped from the page cache.
    #[serde(default)]
    pub recovery_seconds: Option<f64>,
    /// Metrics that are absent, each with the reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub unmeasured: BTreeMap<String, String>,
    /// What is doubtful about this measurement.
    pub warnings: Vec<String>,
}

/// The size of a store's files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileSize {
    /// Sum of their lengths.
    pub length_bytes: u64,
    /// What the file system has allocated for them, with what is reserved behind their ends.
    pub block_bytes: u64,
    /// What it has allocated within their lengths.
    pub used_bytes: u64,
}

/// How long operations took, from an HDR histogram of three digits.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Latency {
    /// Operations counted.
    pub count: u64,
    /// Mean.
    pub mean_us: f64,
    /// Median.
    pub p50_us: f64,
    /// 90th percentile.
    pub p90_us: f64,
    /// 99th percentile.
    pub p99_us: f64,
    /// 99.9th percentile.
    pub p999_us: f64,
    /// 99.99th percentile; `null` with fewer operations than it takes to have one.
    #[serde(default)]
    pub p9999_us: Option<f64>,
    /// Largest.
    pub max_us: f64,
    /// The histogram in nanoseconds, as HdrHistogram's V2 encoding with compression, in base64; of all
    /// operations together, not of their kinds.
    #[serde(default)]
    pub histogram: Option<String>,
}

impl Measurement {
    /// Returns `true` if the measurement has operations and none had an error, a miss or a wrong value. Other
    /// measurements must not be shown.
    pub fn is_sound(&self) -> bool {
        self.errors == 0 && self.misses == 0 && self.wrong_values == 0 && self.operations > 0
    }
}

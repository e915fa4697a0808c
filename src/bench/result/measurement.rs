//! Metrics of one measurement.

use super::{Operation, latency_goal::Percentile, rate_search::RateSearch, soak::Soak};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Metrics of a measurement: one repetition of one cell.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Measurement {
    /// Number of operations that succeeded, with the right value, in the measured time.
    pub operations: u64,
    /// Measured time in seconds: from the start to the end of the last operation; in an open loop at least to the time
    /// limit.
    pub seconds: f64,
    /// Operations per second; 0 for a single action, such as a count of all keys. In a soak, `settle_seconds` is added to
    /// the time: the deferred work of the store belongs to it. With `rate_search` it is
    /// the requested rate of the verification, of which at least 98% was completed.
    pub throughput: f64,
    /// Number of keys before the first operation, as the benchmark has written them; with a time to live, keys that
    /// have expired count too. In process, the engine's own count is compared with it if the engine knows that without
    /// a scan.
    #[serde(default)]
    pub keys_before: Option<u64>,
    /// Number of keys after the last operation, as the benchmark has written and removed them. The store's own count is
    /// compared with it over the wire, and in process if the engine knows it without a scan or the operations could
    /// have changed it. With a time to live it is the store's own count, with expired keys that are not removed yet.
    #[serde(default)]
    pub keys_after: Option<u64>,
    /// Number of values that were read and compared after the last operation of the cell's group; if the store has
    /// files, after they were closed and opened again. All values, or at most five million chosen at random; with
    /// `--cold` or `--memory-limit` at most 20,000.
    #[serde(default)]
    pub verified_values: Option<u64>,
    /// Number of operations that ended in an error, with those of the warm-up; one more for each time that the store
    /// could not count its keys.
    pub errors: u64,
    /// Number of operations that did not find a key that existed, with those of the warm-up; one more if the store has
    /// a wrong number of keys after it was closed and opened again.
    pub misses: u64,
    /// Number of operations that found another value than the one that was written, with those of the warm-up; one more
    /// for each wrong number of keys before or after the operations, and one if the comparison of all values
    /// (`verified_values`) found a fault.
    pub wrong_values: u64,
    /// With a time to live: number of reads that found the value of their key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hits: Option<u64>,
    /// With a time to live: number of reads that found nothing because the value had expired. They succeeded, and are
    /// not counted in `misses`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expired_reads: Option<u64>,
    /// With a time to live: number of expired keys that the store removed in the measured time. Absent if the server
    /// does not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expired_keys: Option<u64>,
    /// Description of the first error, miss or wrong value; absent if there was none.
    pub first_fault: Option<String>,
    /// Latency of all operations, with those that were due but not started by the end (`unstarted_operations`). In an
    /// interleaved comparison, it contains the operations at the start of slices, which the throughput leaves out.
    pub latency: Latency,
    /// Open loop: number of operations that were due but not started by the end of the measurement. They count in
    /// `latency`, with the time that they had waited by then, and in no other metric.
    #[serde(default)]
    pub unstarted_operations: u64,
    /// Open loop: delay from the intended to the actual start of operations whose thread was waiting for that start. It
    /// is the part of the latency that the harness and the scheduler cause.
    #[serde(default)]
    pub lateness: Option<Latency>,
    /// `true` if the throughput is more than half of that of the no-op engine with the same operations, so that much of
    /// the time may be harness overhead; absent if the no-op engine was not measured, and in an open loop.
    #[serde(default)]
    pub near_floor: Option<bool>,
    /// Number and latency of the operations of each kind that succeeded.
    pub by_operation: BTreeMap<Operation, Latency>,
    /// Number of operations that ended in each slice of the measured time; each slice lasts `timeline_slice_seconds`.
    pub timeline: Vec<u64>,
    /// Length of a slice of `timeline`, in seconds.
    pub timeline_slice_seconds: f64,
    /// CPU time per operation in microseconds, of the process with the engine: in process with the benchmark's threads,
    /// over the wire of the server.
    pub cpu_us_per_operation: Option<f64>,
    /// Peak resident memory, in the measured time, of the process with the engine, in bytes: in process without what it
    /// had before it opened the engine, over the wire that of the whole server.
    pub peak_memory_bytes: Option<u64>,
    /// Resident memory without a file behind it (such as the heap), at the end of the measured time, of the process
    /// with the engine, in bytes; in process without what it had before it opened the engine.
    #[serde(default)]
    pub anonymous_bytes: Option<u64>,
    /// Bytes of the store's files that its process had in memory by mapping them, at the end of the measured time.
    /// Other file pages in the page cache are not counted.
    #[serde(default)]
    pub mapped_bytes: Option<u64>,
    /// Number of allocations by Rust code of the engine during its calls, and of its threads meanwhile; absent unless
    /// the workload counts allocations. Allocations by C and C++ are not counted.
    #[serde(default)]
    pub allocations: Option<u64>,
    /// Bytes of the allocations that `allocations` counts.
    #[serde(default)]
    pub allocated_bytes: Option<u64>,
    /// Number of instructions that the process with the engine, and with the benchmark's threads, executed in user space in
    /// the measured time; absent unless the workload counts instructions, and where the processor counts none. In process
    /// only.
    #[serde(default)]
    pub instructions: Option<u64>,
    /// Bytes of the keys and values of successful writes; a delete counts its key and the value that it removed.
    pub user_bytes: u64,
    /// Bytes that the engine passed to write calls in the measured time and afterwards until it was settled: with the
    /// flushes and compactions that the measured operations caused, without those of the load. In process only.
    pub written_bytes: Option<u64>,
    /// Number of the engine's write calls whose bytes `written_bytes` counts.
    #[serde(default)]
    pub write_calls: Option<u64>,
    /// Bytes written to a block device of the cell's own (a loop device) until the store was settled, with those of the
    /// file system's journal. Results of schema 3 and earlier: bytes that all programs wrote to the machine's device.
    #[serde(default)]
    pub device_bytes: Option<u64>,
    /// `written_bytes / user_bytes`; absent below 1 MiB of `user_bytes`.
    pub write_amplification: Option<f64>,
    /// `device_bytes / user_bytes`; absent below 1 MiB of `user_bytes`.
    #[serde(default)]
    pub device_write_amplification: Option<f64>,
    /// Bytes read per GET from a block device of the cell's own (a loop device); only if all operations are GETs.
    #[serde(default)]
    pub device_read_bytes_per_get: Option<f64>,
    /// Read requests per GET to a block device of the cell's own (a loop device); only if all operations are GETs.
    #[serde(default)]
    pub device_reads_per_get: Option<f64>,
    /// Bytes on disk that the store's files use after all is flushed and no background work is left, without space
    /// reserved behind the ends of files.
    pub disk_bytes: Option<u64>,
    /// `disk_bytes` divided by the bytes of the keys and values that exist.
    pub space_amplification: Option<f64>,
    /// Size of the store's files at the end of the measured time.
    #[serde(default)]
    pub live_size: Option<FileSize>,
    /// Size of the store's files once all is flushed and no background work is left.
    #[serde(default)]
    pub settled_size: Option<FileSize>,
    /// Size of the store's files once the store is closed; absent unless the store was closed directly after the cell,
    /// without another cell in between.
    #[serde(default)]
    pub closed_size: Option<FileSize>,
    /// Number of syncs that the timer of the fsync policy `everysec` made in the measured time; absent under other
    /// policies.
    #[serde(default)]
    pub timer_syncs: Option<u64>,
    /// Seconds after the measured time until all was flushed and no background work was left.
    #[serde(default)]
    pub settle_seconds: Option<f64>,
    /// Seconds to load the keys before the group's first cell, under the fsync policy `no`, and to sync them at the end
    /// (another program than kvbench, or a server that was running already, is not asked to sync; the latter has its
    /// own policy).
    pub load_seconds: Option<f64>,
    /// Seconds to close the store; over the wire, to stop the server. Absent for a server that was already running.
    pub close_seconds: Option<f64>,
    /// Seconds to open the closed store again; over the wire, to start a server with its files until it takes requests.
    /// Absent if no key was left, for a store without files, and for a server that was already running.
    pub reopen_seconds: Option<f64>,
    /// Seconds from the start of opening the store to the end of its first read, after its process was killed during
    /// updates and its files were dropped from the page cache.
    #[serde(default)]
    pub recovery_seconds: Option<f64>,
    /// Search that found the rate of this measurement; absent in other measurements.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_search: Option<RateSearch>,
    /// Values of each second of a soak; absent in other measurements.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub soak: Option<Soak>,
    /// Names of metrics that are absent, each with the reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub unmeasured: BTreeMap<String, String>,
    /// Sentences on what is doubtful about the measurement.
    pub warnings: Vec<String>,
}

/// Size of a store's files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileSize {
    /// Sum of the lengths of the store's files.
    pub length_bytes: u64,
    /// Bytes that the file system has allocated for the store's files, with those reserved behind their ends.
    pub block_bytes: u64,
    /// Bytes that the file system has allocated within the lengths of the store's files.
    pub used_bytes: u64,
}

/// Latency of operations, from an HDR histogram with three significant digits.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Latency {
    /// Number of operations in the histogram.
    pub count: u64,
    /// Mean latency in microseconds.
    pub mean_us: f64,
    /// Median latency in microseconds.
    pub p50_us: f64,
    /// 90th percentile of the latency in microseconds.
    pub p90_us: f64,
    /// 99th percentile of the latency in microseconds.
    pub p99_us: f64,
    /// 99.9th percentile of the latency in microseconds.
    pub p999_us: f64,
    /// 99.99th percentile of the latency in microseconds; `null` with fewer than 10,000 operations.
    #[serde(default)]
    pub p9999_us: Option<f64>,
    /// Largest latency in microseconds.
    pub max_us: f64,
    /// Histogram of the latencies in nanoseconds, as HdrHistogram's V2 encoding with compression, in base64; only for
    /// all operations together, not for a single kind.
    #[serde(default)]
    pub histogram: Option<String>,
}

impl Latency {
    /// Returns a percentile of the latency in microseconds.
    pub fn at(&self, percentile: Percentile) -> f64 {
        match percentile {
            Percentile::P50 => self.p50_us,
            Percentile::P90 => self.p90_us,
            Percentile::P99 => self.p99_us,
            Percentile::P999 => self.p999_us,
            Percentile::Max => self.max_us,
        }
    }
}

impl Measurement {
    /// Returns `true` if the measurement has operations and none had an error, a miss or a wrong value. Other
    /// measurements must not be shown.
    pub fn is_sound(&self) -> bool {
        self.errors == 0 && self.misses == 0 && self.wrong_values == 0 && self.operations > 0
    }
}

//! Metrics of a measurement: one list for tables, charts and CSV.

use super::{Figure, Measurement};
use std::cmp::Ordering;

/// Metric of a measurement, with its names, its unit, and the function that reads its value.
#[derive(Debug)]
pub struct Metric {
    /// Name of the metric for programs, such as `p99_us`; the names of its CSV columns begin with it.
    pub name: &'static str,
    /// Name of the metric for people, such as "Latency p99".
    pub title: &'static str,
    /// Unit of the metric's values.
    pub unit: Unit,
    /// Direction in which values of the metric are better.
    pub better: Better,
    /// `true` if the HTML page can show the metric in its tables; the CSV has all metrics.
    pub in_tables: bool,
    /// Function that returns the metric's value in a measurement, or `None` if it was not measured.
    pub of: fn(&Measurement) -> Option<f64>,
}

/// Unit of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Operations per second.
    PerSecond,
    /// Microseconds.
    Microseconds,
    /// Seconds.
    Seconds,
    /// Bytes.
    Bytes,
    /// Ratio without a unit.
    Times,
    /// Number of events.
    Count,
}

/// Direction in which values of a metric are better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// Higher values are better.
    Higher,
    /// Lower values are better.
    Lower,
}

impl Better {
    /// Returns the direction as text: "higher is better".
    pub fn words(self) -> &'static str {
        match self {
            Self::Higher => "higher is better",
            Self::Lower => "lower is better",
        }
    }

    /// Compares two values of a metric so that the better one sorts first: the higher or the lower, as `self` says.
    pub fn order(self, a: f64, b: f64) -> Ordering {
        match self {
            Self::Higher => b.total_cmp(&a),
            Self::Lower => a.total_cmp(&b),
        }
    }
}

impl Metric {
    /// Returns `true` if the metric is a percentile, the mean or the maximum of the latency.
    pub fn is_latency(&self) -> bool {
        self.unit == Unit::Microseconds && !std::ptr::eq(self, &CPU)
    }

    /// Returns the title of the metric as the heading of a column. Rates are shown without their unit, so the heading has
    /// it.
    pub fn heading(&self) -> &'static str {
        if self.unit == Unit::PerSecond { "Throughput (operations/s)" } else { self.title }
    }

    /// Creates a metric; higher values are better if `unit` is [`Unit::PerSecond`], otherwise lower ones.
    pub(in crate::bench) const fn new(
        name: &'static str,
        title: &'static str,
        unit: Unit,
        in_tables: bool,
        of: fn(&Measurement) -> Option<f64>,
    ) -> Self {
        let better = if matches!(unit, Unit::PerSecond) { Better::Higher } else { Better::Lower };
        Self { name, title, unit, better, in_tables, of }
    }
}

#[expect(clippy::cast_precision_loss, reason = "figures have three digits")]
fn bytes(value: Option<u64>) -> Option<f64> {
    value.map(|value| value as f64)
}

/// Returns `value` if the measurement has latencies, otherwise `None`: an action that is executed once, such as a count
/// of keys, has none.
fn latency(measurement: &Measurement, value: f64) -> Option<f64> {
    (measurement.latency.count > 0).then_some(value)
}

/// Throughput in operations per second.
pub static THROUGHPUT: Metric =
    Metric::new("throughput_per_second", "Throughput", Unit::PerSecond, true, |m| {
        (m.throughput > 0.0).then_some(m.throughput)
    });
/// Median latency in microseconds.
pub static P50: Metric =
    Metric::new("p50_us", "Latency p50", Unit::Microseconds, true, |m| latency(m, m.latency.p50_us));
/// 99th percentile of the latency in microseconds.
pub static P99: Metric =
    Metric::new("p99_us", "Latency p99", Unit::Microseconds, true, |m| latency(m, m.latency.p99_us));
/// Size in bytes of the store's files, after all is flushed and no background work is left.
pub static DISK: Metric = Metric::new("disk_bytes", "Disk", Unit::Bytes, true, |m| bytes(m.disk_bytes));
/// Write amplification: bytes written per byte of user data.
pub static WRITE_AMPLIFICATION: Metric =
    Metric::new("write_amplification", "Write amplification", Unit::Times, true, |m| m.write_amplification);
/// Space amplification: bytes on disk per byte of live data.
pub static SPACE_AMPLIFICATION: Metric =
    Metric::new("space_amplification", "Space amplification", Unit::Times, true, |m| m.space_amplification);
/// Peak resident memory in bytes of the process with the engine.
pub static MEMORY: Metric =
    Metric::new("peak_memory_bytes", "Peak memory", Unit::Bytes, true, |m| bytes(m.peak_memory_bytes));

/// Duration of the measurement in seconds.
pub static DURATION: Metric = Metric::new("seconds", "Duration", Unit::Seconds, false, |m| {
    // Cells on a device of their own have none.
    (m.seconds > 0.0).then_some(m.seconds)
});

/// 99.9th percentile of the latency.
pub static P999: Metric = Metric::new("p999_us", "Latency p99.9", Unit::Microseconds, true, |m| {
    // With fewer operations the 99.9th percentile is the maximum.
    (m.latency.count >= 1000).then_some(m.latency.p999_us)
});
static P9999: Metric =
    Metric::new("p9999_us", "Latency p99.99", Unit::Microseconds, true, |m| m.latency.p9999_us);
static CPU: Metric =
    Metric::new("cpu_us_per_operation", "CPU time per operation", Unit::Microseconds, true, |m| {
        m.cpu_us_per_operation
    });
static MEAN: Metric =
    Metric::new("mean_us", "Mean latency", Unit::Microseconds, false, |m| latency(m, m.latency.mean_us));
static P90: Metric =
    Metric::new("p90_us", "Latency p90", Unit::Microseconds, false, |m| latency(m, m.latency.p90_us));
static MAX: Metric =
    Metric::new("max_us", "Largest latency", Unit::Microseconds, false, |m| latency(m, m.latency.max_us));
static WRITTEN: Metric =
    Metric::new("written_bytes", "Written by the engine", Unit::Bytes, false, |m| bytes(m.written_bytes));
static WRITE_CALLS: Metric =
    Metric::new("write_calls", "Write calls of the engine", Unit::Count, false, |m| {
        #[expect(clippy::cast_precision_loss, reason = "figures have three digits")]
        m.write_calls.map(|calls| calls as f64)
    });
static ANONYMOUS: Metric =
    Metric::new("anonymous_bytes", "Memory without files", Unit::Bytes, false, |m| bytes(m.anonymous_bytes));
static MAPPED: Metric =
    Metric::new("mapped_bytes", "Mapped files", Unit::Bytes, false, |m| bytes(m.mapped_bytes));
static DEVICE: Metric =
    Metric::new("device_bytes", "Written to the device", Unit::Bytes, false, |m| bytes(m.device_bytes));
static DEVICE_WRITES: Metric =
    Metric::new("device_write_amplification", "Device write amplification", Unit::Times, true, |m| {
        m.device_write_amplification
    });
static READ_BYTES: Metric =
    Metric::new("device_read_bytes_per_get", "Read from the device per GET", Unit::Bytes, true, |m| {
        m.device_read_bytes_per_get
    });
static READS: Metric = Metric::new("device_reads_per_get", "Device reads per GET", Unit::Times, true, |m| {
    m.device_reads_per_get
});
/// Time to open the store again and to read a first value, after its process was killed under load, with a cold cache,
/// in seconds.
pub static RECOVERY: Metric =
    Metric::new("recovery_seconds", "Recovery after a kill", Unit::Seconds, true, |m| m.recovery_seconds);
static LIVE: Metric = Metric::new("live_bytes", "Disk before settling", Unit::Bytes, false, |m| {
    bytes(m.live_size.map(|size| size.used_bytes))
});
static CLOSED: Metric = Metric::new("closed_bytes", "Disk once closed", Unit::Bytes, false, |m| {
    bytes(m.closed_size.map(|size| size.used_bytes))
});
static SETTLE: Metric =
    Metric::new("settle_seconds", "Flush and compaction after the run", Unit::Seconds, false, |m| {
        m.settle_seconds
    });
static TIMER_SYNCS: Metric = Metric::new("timer_syncs", "Syncs by the timer", Unit::Count, false, |m| {
    #[expect(clippy::cast_precision_loss, reason = "a few per second")]
    m.timer_syncs.map(|syncs| syncs as f64)
});
static LOAD: Metric = Metric::new("load_seconds", "Load", Unit::Seconds, true, |m| m.load_seconds);
static CLOSE: Metric = Metric::new("close_seconds", "Close", Unit::Seconds, false, |m| m.close_seconds);
/// Time to open the store again after it was closed, in seconds.
pub static REOPEN: Metric =
    Metric::new("reopen_seconds", "Reopen after a close", Unit::Seconds, true, |m| m.reopen_seconds);

/// Returns the metric that tables show first for cells with this main metric (`figure`).
pub fn of_figure(figure: Figure) -> &'static Metric {
    match figure {
        Figure::Throughput => &THROUGHPUT,
        Figure::Milliseconds => &DURATION,
        Figure::DiskBytes => &DISK,
        Figure::DeviceReadBytes => &READ_BYTES,
    }
}

/// All metrics, in the order of the CSV.
pub static METRICS: [&Metric; 30] = [
    &THROUGHPUT,
    &DURATION,
    &MEAN,
    &P50,
    &P90,
    &P99,
    &P999,
    &P9999,
    &MAX,
    &CPU,
    &MEMORY,
    &ANONYMOUS,
    &MAPPED,
    &DISK,
    &LIVE,
    &CLOSED,
    &WRITTEN,
    &WRITE_CALLS,
    &DEVICE,
    &WRITE_AMPLIFICATION,
    &DEVICE_WRITES,
    &READ_BYTES,
    &READS,
    &SPACE_AMPLIFICATION,
    &TIMER_SYNCS,
    &LOAD,
    &SETTLE,
    &CLOSE,
    &REOPEN,
    &RECOVERY,
];

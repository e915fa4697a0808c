//! Flags on the recording of slow commands.

use crate::config;
use clap::Args;

/// What is remembered of slow commands; all of it changes with CONFIG SET.
#[derive(Args, Clone, Copy, Debug)]
pub(super) struct Slowness {
    /// Record commands in SLOWLOG that take at least this many microseconds; -1 for never
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 10_000, allow_negative_numbers = true, value_parser = clap::value_parser!(i64).range(-1..), help_heading = "Process")]
    slowlog_log_slower_than: i64,
    /// Maximum number of entries of SLOWLOG
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = clap::value_parser!(u32), help_heading = "Process")]
    slowlog_max_len: u32,
    /// Record commands, commits, syncs and removals of expired keys in LATENCY that take at least this many milliseconds; 0 for
    /// never
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 0, value_parser = clap::value_parser!(i64).range(0..), help_heading = "Process")]
    latency_monitor_threshold: i64,
}

impl Slowness {
    pub fn config(self) -> config::Slowness {
        config::Slowness {
            log_from: self.slowlog_log_slower_than,
            log_length: self.slowlog_max_len as usize,
            latency_threshold_ms: self.latency_monitor_threshold,
        }
    }
}

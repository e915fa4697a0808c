//! Statistics of the server. Each worker has counters of its own and updates them once for adjacent requests of
//! a pipeline that are the same command; readers add up the counters of all workers.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex, OnceLock, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

pub use super::histogram::{Histogram, HistogramSnapshot};
pub use super::latency_events::{LatencyEvents, event};
pub use super::slowlog_ring::SlowLog;

/// Counters of one worker, most of them since the start or the last CONFIG RESETSTAT.
#[derive(Debug, Default)]
pub struct Stats {
    /// Number of connections of one worker of the server that are open now.
    pub connections: AtomicUsize,
    /// Number of connections that one worker of the server was given since the start or the last CONFIG RESETSTAT.
    pub accepted: AtomicU64,
    /// Number of requests that the worker has received since the start or the last CONFIG RESETSTAT.
    pub commands: AtomicU64,
    /// Number of bytes that the worker has received since the start or the last CONFIG RESETSTAT.
    pub received: AtomicU64,
    /// Number of bytes that the worker has sent since the start or the last CONFIG RESETSTAT.
    pub sent: AtomicU64,
    /// Number of keys that reads of the worker's clients looked up and found since the start or the last CONFIG
    /// RESETSTAT.
    pub keyspace_hits: AtomicU64,
    /// Number of keys that reads of the worker's clients looked up and did not find since the start or the last CONFIG
    /// RESETSTAT.
    pub keyspace_misses: AtomicU64,
    /// Counters of each command, in the order of the command table; created when a command is first used.
    by_command: Box<[OnceLock<Box<CommandStats>>]>,
}

impl Stats {
    /// Creates the counters of one worker, all 0, for a command table of `commands` names.
    pub fn new(commands: usize) -> Self {
        Self { by_command: (0..commands).map(|_| OnceLock::new()).collect(), ..Self::default() }
    }

    /// Returns this worker's counters of the command with the index `index` in the list of command names, creating them
    /// on first use; `None` if there is no such index.
    pub fn command(&self, index: usize) -> Option<&CommandStats> {
        Some(self.by_command.get(index)?.get_or_init(Box::default))
    }

    /// Returns this worker's counters of the command with the index `index` in the list of command names; `None` if the
    /// worker has never counted a request of the command.
    pub fn used_command(&self, index: usize) -> Option<&CommandStats> {
        Some(self.by_command.get(index)?.get()?)
    }

    /// Resets the worker's counters that CONFIG RESETSTAT resets.
    pub fn reset(&self) {
        let traffic = [&self.accepted, &self.commands, &self.received, &self.sent];
        for counter in traffic.into_iter().chain([&self.keyspace_hits, &self.keyspace_misses]) {
            counter.store(0, Ordering::Relaxed);
        }
        self.by_command.iter().filter_map(OnceLock::get).for_each(|command| command.reset());
    }
}

/// Counters of one command or subcommand on one worker, since the start or the last CONFIG RESETSTAT.
#[derive(Debug, Default)]
pub struct CommandStats {
    /// Number of requests of the command that were executed.
    pub calls: AtomicU64,
    /// Total execution time of the command in nanoseconds. The time of requests that are executed together is divided
    /// equally among them.
    pub nanos: AtomicU64,
    /// Number of requests of the command that were refused before execution.
    pub rejected: AtomicU64,
    /// Number of executed requests of the command whose reply was an error.
    pub failed: AtomicU64,
    /// Latency of each call in nanoseconds, from the time when the execution of the request, or of those executed
    /// with it, begins, to the written reply; includes the wait for a commit and its sync.
    pub latency: Histogram,
}

impl CommandStats {
    /// Records `calls` calls. `share` is the execution time of each of them, an equal part if requests were executed
    /// together; `latency` is the time from the start of the execution to the written reply.
    pub fn note(&self, calls: u64, share: Duration, latency: Duration) {
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.calls.fetch_add(calls, Ordering::Relaxed);
        self.nanos.fetch_add(nanos(share).wrapping_mul(calls), Ordering::Relaxed);
        self.latency.record(nanos(latency), calls);
    }

    fn reset(&self) {
        for counter in [&self.calls, &self.nanos, &self.rejected, &self.failed] {
            counter.store(0, Ordering::Relaxed);
        }
        self.latency.reset();
    }
}

/// Counters of one command or subcommand, summed over all workers, since the start or the last CONFIG RESETSTAT.
#[derive(Default)]
pub struct CommandTotal {
    /// Number of requests of the command that were executed.
    pub calls: u64,
    /// Total execution time of the command in nanoseconds.
    pub nanos: u64,
    /// Number of requests of the command that were refused before execution.
    pub rejected: u64,
    /// Number of executed requests of the command whose reply was an error.
    pub failed: u64,
    /// Histogram of the command's latencies in nanoseconds: see [`CommandStats::latency`].
    pub latency: HistogramSnapshot,
}

impl CommandTotal {
    /// Returns the sum of the workers' counters for the command number `index`; `None` if no client has used the
    /// command.
    pub fn of<'s>(workers: impl Iterator<Item = &'s Stats>, index: usize) -> Option<Self> {
        let mut total = Self::default();
        for stats in workers.filter_map(|worker| worker.used_command(index)) {
            total.calls += stats.calls.load(Ordering::Relaxed);
            total.nanos += stats.nanos.load(Ordering::Relaxed);
            total.rejected += stats.rejected.load(Ordering::Relaxed);
            total.failed += stats.failed.load(Ordering::Relaxed);
            stats.latency.add_to(&mut total.latency);
        }
        (total.calls + total.rejected > 0).then_some(total)
    }
}

/// Number of error replies of the server by error code, the first word of the reply. Errors are rare enough for a lock.
#[derive(Debug, Default)]
pub struct ErrorStats(Mutex<BTreeMap<String, u64>>);

/// Maximum number of different error codes that are counted, as in Redis. No code contains bytes from a client.
const CODES: usize = 128;

impl ErrorStats {
    /// Adds one to the number of error replies with the code in `line`, an error reply of the form `-CODE text`.
    pub fn note(&self, line: &[u8]) {
        let code = line.get(1..).unwrap_or_default();
        let code = code.split(|byte| byte.is_ascii_whitespace()).next().unwrap_or_default();
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let code = String::from_utf8_lossy(code).into_owned();
        if counts.len() < CODES || counts.contains_key(&code) {
            *counts.entry(code).or_default() += 1;
        }
    }

    /// Returns the error codes and the number of replies with each, sorted by code.
    pub fn counts(&self) -> Vec<(String, u64)> {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.iter().map(|(code, count)| (code.clone(), *count)).collect()
    }

    /// Resets the numbers of error replies.
    pub fn reset(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// Statistics of the commits of the server's commit threads, and of its syncs under `everysec`, since the start or the
/// last CONFIG RESETSTAT. With a memory-only store there are no such threads, and nothing is counted.
#[derive(Debug, Default)]
pub struct CommitStats {
    /// Number of connections whose writes shared a commit, times 1,024, because the histogram begins at 1,024.
    pub size: Histogram,
    /// Duration of commits in nanoseconds; under `always` it includes the sync.
    pub commit: Histogram,
    /// Duration of the syncs under `everysec`, in nanoseconds.
    pub sync: Histogram,
}

impl CommitStats {
    /// Adds a commit to the statistics: it took `time` and had the writes of `size` connections.
    pub fn note_commit(&self, size: usize, time: Duration) {
        self.size.record((size as u64) << 10, 1);
        self.commit.record(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), 1);
    }

    /// Adds a sync under `everysec` to the statistics: it took `time`.
    pub fn note_sync(&self, time: Duration) {
        self.sync.record(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), 1);
    }

    /// Resets the statistics of commits and syncs.
    pub fn reset(&self) {
        [&self.size, &self.commit, &self.sync].into_iter().for_each(Histogram::reset);
    }
}

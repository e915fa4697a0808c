//! What the server counts. Each worker writes lines of its own, once for all neighbours of a pipeline that are the
//! same command; whoever asks adds them up.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex, OnceLock, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

pub use super::histogram::{Histogram, HistogramSnapshot};
pub use super::latency_events::{EventHistory, LatencyEvents, LatencySample, event};
pub use super::slowlog_ring::{SlowLog, SlowLogEntry};

/// What one worker has counted.
#[derive(Debug, Default)]
pub struct Stats {
    /// Connections it serves now.
    pub connections: AtomicUsize,
    /// Connections it has served.
    pub accepted: AtomicU64,
    /// Requests it has answered.
    pub commands: AtomicU64,
    /// Bytes received.
    pub received: AtomicU64,
    /// Bytes sent.
    pub sent: AtomicU64,
    /// Keys that reads looked for and that were there.
    pub keyspace_hits: AtomicU64,
    /// Keys that reads looked for and that were not there.
    pub keyspace_misses: AtomicU64,
    /// By command, in the order of the table; made when a command is first used.
    by_command: Box<[OnceLock<Box<CommandStats>>]>,
}

impl Stats {
    /// All zero, for a table of so many commands.
    pub fn new(commands: usize) -> Self {
        Self { by_command: (0..commands).map(|_| OnceLock::new()).collect(), ..Self::default() }
    }

    /// The counters of one command; `None` outside the table.
    pub fn command(&self, index: usize) -> Option<&CommandStats> {
        Some(self.by_command.get(index)?.get_or_init(Box::default))
    }

    /// The same, if it was ever used.
    pub fn used_command(&self, index: usize) -> Option<&CommandStats> {
        Some(self.by_command.get(index)?.get()?)
    }

    /// Sets to zero what CONFIG RESETSTAT does.
    pub fn reset(&self) {
        let traffic = [&self.accepted, &self.commands, &self.received, &self.sent];
        for counter in traffic.into_iter().chain([&self.keyspace_hits, &self.keyspace_misses]) {
            counter.store(0, Ordering::Relaxed);
        }
        self.by_command.iter().filter_map(OnceLock::get).for_each(|command| command.reset());
    }
}

/// What one worker has counted of one command.
#[derive(Debug, Default)]
pub struct CommandStats {
    /// Times it ran.
    pub calls: AtomicU64,
    /// Time it took, in nanoseconds: of commands that ran together, each has its share.
    pub nanos: AtomicU64,
    /// Times it was refused before it ran.
    pub rejected: AtomicU64,
    /// Times its reply was an error.
    pub failed: AtomicU64,
    /// From when it was its turn until its reply was written, in nanoseconds; waiting for a commit and its sync
    /// included.
    pub latency: Histogram,
}

impl CommandStats {
    /// Notes that it ran `calls` times in a run that took `time` for `all` requests.
    pub fn note(&self, calls: u64, all: u64, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.calls.fetch_add(calls, Ordering::Relaxed);
        self.nanos.fetch_add(nanos / all.max(1) * calls, Ordering::Relaxed);
        self.latency.record(nanos, calls);
    }

    fn reset(&self) {
        for counter in [&self.calls, &self.nanos, &self.rejected, &self.failed] {
            counter.store(0, Ordering::Relaxed);
        }
        self.latency.reset();
    }
}

/// What all workers have counted of one command.
#[derive(Default)]
pub struct CommandTotal {
    /// Times it ran.
    pub calls: u64,
    /// Nanoseconds it took.
    pub nanos: u64,
    /// Times it was refused before it ran.
    pub rejected: u64,
    /// Times its reply was an error.
    pub failed: u64,
    /// See [`CommandStats::latency`].
    pub latency: HistogramSnapshot,
}

impl CommandTotal {
    /// Adds up what the workers have counted; `None` when nobody used the command.
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

/// Error replies by their first word. Errors are rare enough for a lock.
#[derive(Debug, Default)]
pub struct ErrorStats(Mutex<BTreeMap<String, u64>>);

/// Most different codes that are counted, as in Redis; what a client sends is in none of them.
const CODES: usize = 128;

impl ErrorStats {
    /// Notes the error reply that begins `line`: `-CODE text`.
    pub fn note(&self, line: &[u8]) {
        let code = line.get(1..).unwrap_or_default();
        let code = code.split(|byte| byte.is_ascii_whitespace()).next().unwrap_or_default();
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let code = String::from_utf8_lossy(code).into_owned();
        if counts.len() < CODES || counts.contains_key(&code) {
            *counts.entry(code).or_default() += 1;
        }
    }

    /// Codes and counts, by name.
    pub fn counts(&self) -> Vec<(String, u64)> {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.iter().map(|(code, count)| (code.clone(), *count)).collect()
    }

    /// Forgets all.
    pub fn reset(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// What the committing thread and the syncing one have counted.
#[derive(Debug, Default)]
pub struct CommitStats {
    /// Connections whose writes shared a commit, times 1,024, which is where the histogram begins.
    pub size: Histogram,
    /// Nanoseconds of a commit; under `always` its sync is part of it.
    pub commit: Histogram,
    /// Nanoseconds of a sync of `everysec`.
    pub sync: Histogram,
}

impl CommitStats {
    /// Notes a commit of `size` connections' writes.
    pub fn note_commit(&self, size: usize, time: Duration) {
        self.size.record((size as u64) << 10, 1);
        self.commit.record(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), 1);
    }

    /// Notes a sync of `everysec`.
    pub fn note_sync(&self, time: Duration) {
        self.sync.record(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), 1);
    }

    /// Forgets all.
    pub fn reset(&self) {
        [&self.size, &self.commit, &self.sync].into_iter().for_each(Histogram::reset);
    }
}

//! State of the server that commands can read and change.

use super::state::{
    client_registry::ClientRegistry,
    config_file::ConfigFile,
    monitor_hub::MonitorHub,
    settings::RuntimeSettings,
    stats::{CommandTotal, CommitStats, ErrorStats, LatencyEvents, SlowLog, Stats, event},
};
use crate::{engine::Fsync, store::Store};
use crossbeam_utils::CachePadded;
use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

/// Redis version whose replies kvbench gives. Clients read it to find out which commands they can use.
pub const REDIS_VERSION: &str = "7.0.15";

/// State of the server that commands can read and change.
pub struct ServerState {
    /// Store whose data the server's commands read and write.
    pub store: Arc<Store>,
    /// Names and values of the settings that CONFIG GET returns and that do not change at run time.
    pub settings: Vec<(&'static str, String)>,
    /// File that CONFIG REWRITE writes, and the settings that have changed.
    pub file: ConfigFile,
    /// Settings that CONFIG SET changes.
    pub live: RuntimeSettings,
    /// Registry of the open connections.
    pub clients: Arc<ClientRegistry>,
    /// Connections in MONITOR mode.
    pub monitors: MonitorHub,
    /// Log of slow commands (SLOWLOG).
    pub slow: SlowLog,
    /// Latency spikes (LATENCY).
    pub spikes: LatencyEvents,
    /// Number of error replies by error code.
    pub errors: ErrorStats,
    /// Statistics of commits, and of syncs under `everysec`.
    pub groups: CommitStats,
    /// Names of the server's commands, and of their subcommands as `command|subcommand`: see
    /// [`CommandTable::names`](super::CommandTable::names).
    pub names: Vec<&'static str>,
    /// Random identifier of this server process: 40 hexadecimal digits.
    pub run_id: String,
    /// Number of connections refused because of `--maxclients` or protected mode.
    pub rejected: AtomicU64,
    /// Number of expired keys that the store had removed at the last CONFIG RESETSTAT.
    pub expired: AtomicU64,
    /// The two latest snapshots of the counters, from which INFO computes rates; the older one first.
    pub seen: Mutex<[CounterSnapshot; 2]>,
    /// TCP port on which the server listens; 0: none.
    pub port: u16,
    /// Time at which the server was started.
    pub started: Instant,
    /// Statistics of each worker.
    pub stats: Vec<CachePadded<Stats>>,
}

/// Numbers of requests, of received and of sent bytes of the whole server at one time, from which INFO computes rates.
#[derive(Clone, Copy, Debug)]
pub struct CounterSnapshot {
    time: Instant,
    commands: u64,
    received: u64,
    sent: u64,
}

/// Rates of the whole server that INFO shows: requests and bytes per second, since an earlier INFO.
#[derive(Clone, Copy, Debug)]
pub struct Rates {
    /// Requests per second.
    pub commands: f64,
    /// Bytes received per second.
    pub received: f64,
    /// Bytes sent per second.
    pub sent: f64,
}

impl CounterSnapshot {
    /// Creates a snapshot in which all counters are 0.
    pub fn new(time: Instant) -> Self {
        Self { time, commands: 0, received: 0, sent: 0 }
    }
}

impl ServerState {
    /// Returns the sum over all workers of the counter that `counter` selects.
    pub fn total(&self, counter: impl Fn(&Stats) -> &AtomicU64) -> u64 {
        self.stats.iter().map(|worker| counter(worker).load(Ordering::Relaxed)).sum()
    }

    /// Returns the number of open connections.
    pub fn connections(&self) -> usize {
        self.stats.iter().map(|worker| worker.connections.load(Ordering::Relaxed)).sum()
    }

    /// Returns the commands and subcommands that clients have used, with their statistics, summed over all workers.
    pub fn used_commands(&self) -> impl Iterator<Item = (&'static str, CommandTotal)> {
        self.names.iter().enumerate().filter_map(move |(index, name)| {
            let workers = self.stats.iter().map(|worker| &**worker);
            Some((*name, CommandTotal::of(workers, index)?))
        })
    }

    /// Returns the rates since an earlier call, at least 100 ms ago. Just after the start or CONFIG RESETSTAT there may
    /// be no such call; the rates are then since the start or the reset.
    pub fn rates(&self) -> Rates {
        let now = CounterSnapshot {
            time: Instant::now(),
            commands: self.total(|stats| &stats.commands),
            received: self.total(|stats| &stats.received),
            sent: self.total(|stats| &stats.sent),
        };
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let [earlier, latest] = *seen;
        let old_enough = now.time - latest.time >= Duration::from_millis(100);
        if old_enough {
            *seen = [latest, now];
        }
        let last = if old_enough { latest } else { earlier };
        let seconds = (now.time - last.time).as_secs_f64().max(0.001);
        let rate = |now: u64, last: u64| now.saturating_sub(last) as f64 / seconds;
        Rates {
            commands: rate(now.commands, last.commands),
            received: rate(now.received, last.received),
            sent: rate(now.sent, last.sent),
        }
    }

    /// Records a commit of the writes of `size` connections, which took `time`.
    pub fn note_commit(&self, size: usize, time: Duration) {
        self.groups.note_commit(size, time);
        let is_synced = self.store.fsync() == Fsync::Always;
        self.spikes.note(if is_synced { event::ALWAYS } else { event::WRITE }, time);
    }

    /// Records a sync under `everysec`, which took `time`.
    pub fn note_sync(&self, time: Duration) {
        self.groups.note_sync(time);
        self.spikes.note(event::SYNC, time);
    }

    /// Resets all statistics that CONFIG RESETSTAT resets.
    pub fn reset_statistics(&self) {
        self.stats.iter().for_each(|worker| worker.reset());
        self.groups.reset();
        self.errors.reset();
        self.rejected.store(0, Ordering::Relaxed);
        self.expired.store(self.store.expiry().removed(), Ordering::Relaxed);
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = [CounterSnapshot::new(Instant::now()); 2];
    }
}

//! State of the connection and of the server that commands can read and change.

use super::state::{
    client_registry::{Client, ClientRegistration, ClientRegistry},
    config_file::ConfigFile,
    monitor_hub::{MonitorFeed, MonitorHub},
    settings::RuntimeSettings,
    stats::{CommandTotal, CommitStats, ErrorStats, LatencyEvents, SlowLog, Stats, event},
};
use crate::{
    engine::Fsync,
    resp::Reply,
    store::{Database, Store},
};
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

/// Action on the connection after a reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AfterReply {
    /// Read the next request.
    #[default]
    Continue,
    /// Close the connection (QUIT).
    Close,
    /// Stop the server, without a reply to this request (SHUTDOWN).
    Shutdown,
}

/// Mode that selects the requests that get a reply (CLIENT REPLY).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReplyMode {
    /// All requests.
    #[default]
    On,
    /// No request.
    Off,
    /// CLIENT REPLY SKIP was received: the next request gets no reply, the later ones do.
    SkipNext,
    /// The current request gets no reply, the later ones do.
    Skip,
}

/// Condition and time limit for which WAIT or WAITAOF wait.
#[derive(Clone, Copy, Debug)]
pub struct WaitRequest {
    /// Maximum time to wait. Zero: WAITAOF waits for the sync without a limit, and WAIT does not wait at all,
    /// because there are no replicas and the wait would never end.
    pub time: Duration,
    /// `true` if the writes so far must be synced (WAITAOF).
    pub sync: bool,
    /// `true` if the client waits for replicas; there are none, so the whole time passes.
    pub for_replicas: bool,
}

impl WaitRequest {
    /// Writes the reply to WAITAOF once the result of the sync is known.
    pub fn answer(is_synced: bool, reply: &mut Reply) {
        reply.array(2);
        reply.integer(is_synced.into());
        // There are no replicas.
        reply.integer(0);
    }
}

/// State of one connection.
#[derive(Debug)]
pub struct Session {
    member: ClientRegistration,
    /// `true` if the client may use all commands: it has authenticated, or the server has no password.
    pub authenticated: bool,
    /// Database selected by the client.
    pub space: Database,
    /// Action after the current reply.
    pub after: AfterReply,
    /// Mode that selects the requests that get a reply.
    pub replies: ReplyMode,
    /// `true` if the connection must discard its transaction and unwatch its keys (RESET).
    pub discard_transaction: bool,
    /// Wait before the next request, set by WAIT and WAITAOF.
    pub wait: Option<WaitRequest>,
    /// Requests of other clients, if this client has sent MONITOR.
    pub feed: Option<MonitorFeed>,
}

pub(super) const BAD_NAME: &str = "ERR Client names cannot contain spaces, newlines or special characters.";

/// Returns `name` if it is printable ASCII without spaces; the empty name is valid and removes the name.
pub(super) fn client_name(name: &[u8]) -> Option<Box<str>> {
    let name = str::from_utf8(name).ok()?;
    name.bytes().all(|byte| byte.is_ascii_graphic()).then(|| name.into())
}

impl Session {
    /// Registers a new connection between two addresses and creates its state.
    pub fn new(id: u64, peer: Box<str>, local: Box<str>, context: &ServerState) -> Self {
        Self {
            member: context.clients.enter(id, peer, local),
            authenticated: context.live.password().is_none(),
            space: Database::default(),
            after: AfterReply::Continue,
            replies: ReplyMode::On,
            discard_transaction: false,
            wait: None,
            feed: None,
        }
    }

    /// Returns the part of the state that other connections can see.
    pub fn client(&self) -> &Arc<Client> {
        &self.member.client
    }

    pub(super) fn set_name(&self, name: &[u8]) -> Result<(), Vec<u8>> {
        self.client().labels().name = client_name(name).ok_or(BAD_NAME)?;
        Ok(())
    }

    pub(super) fn set_info(&self, attribute: &[u8], value: &[u8]) -> Result<(), Vec<u8>> {
        let mut labels = self.client().labels();
        let (field, name) = if attribute.eq_ignore_ascii_case(b"lib-name") {
            (&mut labels.lib_name, "lib-name")
        } else if attribute.eq_ignore_ascii_case(b"lib-ver") {
            (&mut labels.lib_version, "lib-ver")
        } else {
            return Err([b"ERR Unrecognized option '", attribute, b"'"].concat());
        };
        let refusal = || format!("ERR {name} cannot contain spaces, newlines or special characters.");
        *field = client_name(value).ok_or_else(refusal)?;
        Ok(())
    }

    pub(super) fn stop_monitor(&mut self) {
        self.feed = None;
        self.client().monitors.store(false, Ordering::Relaxed);
    }
}

/// State of the server that commands can read and change.
pub struct ServerState {
    /// Store with the data.
    pub store: Arc<Store>,
    /// Names and values of the settings that CONFIG GET returns and that do not change at run time.
    pub settings: Vec<(&'static str, String)>,
    /// File that CONFIG REWRITE writes, and the settings that have changed.
    pub file: ConfigFile,
    /// Settings that CONFIG SET changes.
    pub live: RuntimeSettings,
    /// Open connections.
    pub clients: Arc<ClientRegistry>,
    /// Connections that have sent MONITOR.
    pub monitors: MonitorHub,
    /// Log of slow commands (SLOWLOG).
    pub slow: SlowLog,
    /// Latency spikes (LATENCY).
    pub spikes: LatencyEvents,
    /// Counts of error replies.
    pub errors: ErrorStats,
    /// Statistics of commits and syncs.
    pub groups: CommitStats,
    /// Names of commands, and of `command|subcommand`: see [`CommandTable::names`](super::CommandTable::names).
    pub names: Vec<&'static str>,
    /// Random identifier of this server process: 40 hexadecimal digits.
    pub run_id: String,
    /// Number of refused connections.
    pub rejected: AtomicU64,
    /// Number of expired keys that the store had removed at the last CONFIG RESETSTAT.
    pub expired: AtomicU64,
    /// The two latest snapshots of the counters, from which INFO computes rates; the older one first.
    pub seen: Mutex<[CounterSnapshot; 2]>,
    /// TCP port; 0: none.
    pub port: u16,
    /// Start time of the server.
    pub started: Instant,
    /// Statistics of each worker.
    pub stats: Vec<CachePadded<Stats>>,
}

/// Values of the traffic counters at one time.
#[derive(Clone, Copy, Debug)]
pub struct CounterSnapshot {
    time: Instant,
    commands: u64,
    received: u64,
    sent: u64,
}

/// Rates per second.
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
    /// Returns the sum of one counter over all workers.
    pub fn total(&self, counter: impl Fn(&Stats) -> &AtomicU64) -> u64 {
        self.stats.iter().map(|worker| counter(worker).load(Ordering::Relaxed)).sum()
    }

    /// Returns the number of open connections.
    pub fn connections(&self) -> usize {
        self.stats.iter().map(|worker| worker.connections.load(Ordering::Relaxed)).sum()
    }

    /// Returns the statistics of one command, summed over all workers; `None` if no client has used the
    /// command.
    pub fn command_total(&self, index: usize) -> Option<CommandTotal> {
        CommandTotal::of(self.stats.iter().map(|worker| &**worker), index)
    }

    /// Returns the rates since an earlier call, at least 100 ms ago. Just after the start there may be no such
    /// call; the rates are then since the start.
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

    /// Records a commit that contained the writes of `size` connections.
    pub fn note_commit(&self, size: usize, time: Duration) {
        self.groups.note_commit(size, time);
        let is_synced = self.store.fsync() == Fsync::Always;
        self.spikes.note(if is_synced { event::ALWAYS } else { event::WRITE }, time);
    }

    /// Records a sync under `everysec`.
    pub fn note_sync(&self, time: Duration) {
        self.groups.note_sync(time);
        self.spikes.note(event::SYNC, time);
    }

    /// Resets the statistics (CONFIG RESETSTAT).
    pub fn reset_statistics(&self) {
        self.stats.iter().for_each(|worker| worker.reset());
        self.groups.reset();
        self.errors.reset();
        self.rejected.store(0, Ordering::Relaxed);
        self.expired.store(self.store.expiry().removed(), Ordering::Relaxed);
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = [CounterSnapshot::new(Instant::now()); 2];
    }
}

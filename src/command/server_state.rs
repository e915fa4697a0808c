//! What commands see of their connection and of the server.

use super::state::{
    client_registry::{Client, ClientRegistration, ClientRegistry, Pause},
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

/// The Redis version whose replies kvbench gives, for clients that ask before they use a command.
pub const REDIS_VERSION: &str = "7.0.15";

/// What happens to a connection after a reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AfterReply {
    /// The next request.
    #[default]
    Continue,
    /// The connection closes (QUIT).
    Close,
    /// The server stops, without a reply to this request (SHUTDOWN).
    Shutdown,
}

/// Which requests are answered (CLIENT REPLY).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReplyMode {
    /// All.
    #[default]
    On,
    /// None.
    Off,
    /// All but the next one, of which this is said.
    SkipNext,
    /// All but this one.
    Skip,
}

/// What a connection waits for.
#[derive(Clone, Copy, Debug)]
pub struct WaitRequest {
    /// At most so long. Without an end (zero) there is no waiting for replicas, or the client would never come back.
    pub time: Duration,
    /// Whether what was written so far is to be synced (WAITAOF).
    pub sync: bool,
    /// Whether replicas are waited for; there are none.
    pub for_replicas: bool,
}

impl WaitRequest {
    /// Answers WAITAOF anew, when what was waited for is known.
    pub fn answer(is_synced: bool, reply: &mut Reply) {
        reply.array(2);
        reply.integer(is_synced.into());
        // There are no replicas.
        reply.integer(0);
    }
}

/// One connection's state.
#[derive(Debug)]
pub struct Session {
    member: ClientRegistration,
    /// Whether it may use all commands: it has given the password, or there is none.
    pub authenticated: bool,
    /// The database it has chosen.
    pub space: Database,
    /// What follows the current reply.
    pub after: AfterReply,
    /// Which requests are answered.
    pub replies: ReplyMode,
    /// Whether its transaction is to be forgotten, and the keys it watches (RESET).
    pub discard_transaction: bool,
    /// What its next request has to wait for, once (WAIT, WAITAOF).
    pub wait: Option<WaitRequest>,
    /// What others ask of the server, when it wants to see that (MONITOR).
    pub feed: Option<MonitorFeed>,
}

pub(super) const BAD_NAME: &str = "ERR Client names cannot contain spaces, newlines or special characters.";

/// Printable ASCII without spaces; the empty name removes it.
pub(super) fn client_name(name: &[u8]) -> Option<Box<str>> {
    let name = str::from_utf8(name).ok()?;
    name.bytes().all(|byte| byte.is_ascii_graphic()).then(|| name.into())
}

impl Session {
    /// A new connection between two addresses, to a server with a password or without.
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

    /// What others see of it.
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

/// The server, as commands see it.
pub struct ServerState {
    /// The data.
    pub store: Arc<Store>,
    /// Names and values for CONFIG GET that stay what they were at the start.
    pub settings: Vec<(&'static str, String)>,
    /// The file that CONFIG REWRITE writes, and what of it has changed.
    pub file: ConfigFile,
    /// Those that CONFIG SET changes.
    pub live: RuntimeSettings,
    /// The connections.
    pub clients: Arc<ClientRegistry>,
    /// CLIENT PAUSE.
    pub pause: Pause,
    /// MONITOR.
    pub monitors: MonitorHub,
    /// SLOWLOG.
    pub slow: SlowLog,
    /// LATENCY.
    pub spikes: LatencyEvents,
    /// Error replies.
    pub errors: ErrorStats,
    /// Commits and syncs.
    pub groups: CommitStats,
    /// Names of commands, and of `command|subcommand`: see [`CommandTable::names`](super::CommandTable::names).
    pub names: Vec<String>,
    /// Tells this process from every other: 40 hexadecimal digits.
    pub run_id: String,
    /// Connections that were turned away.
    pub rejected: AtomicU64,
    /// How many expired keys the store had removed at the last CONFIG RESETSTAT.
    pub expired: AtomicU64,
    /// What INFO has seen last, for its rates.
    pub seen: Mutex<[CounterSnapshot; 2]>,
    /// The TCP port, 0 without one.
    pub port: u16,
    /// When the server started.
    pub started: Instant,
    /// One row a worker.
    pub stats: Vec<CachePadded<Stats>>,
}

/// Counters at one moment.
#[derive(Clone, Copy, Debug)]
pub struct CounterSnapshot {
    time: Instant,
    commands: u64,
    received: u64,
    sent: u64,
}

/// What happens in a second.
#[derive(Clone, Copy, Debug)]
pub struct Rates {
    /// Requests.
    pub commands: f64,
    /// Bytes received.
    pub received: f64,
    /// Bytes sent.
    pub sent: f64,
}

impl CounterSnapshot {
    /// Nothing yet.
    pub fn new(time: Instant) -> Self {
        Self { time, commands: 0, received: 0, sent: 0 }
    }
}

impl ServerState {
    /// Sum of one counter over all workers.
    pub fn total(&self, counter: impl Fn(&Stats) -> &AtomicU64) -> u64 {
        self.stats.iter().map(|worker| counter(worker).load(Ordering::Relaxed)).sum()
    }

    /// Open connections.
    pub fn connections(&self) -> usize {
        self.stats.iter().map(|worker| worker.connections.load(Ordering::Relaxed)).sum()
    }

    /// What all workers have counted of one command; `None` when nobody used it.
    pub fn command_total(&self, index: usize) -> Option<CommandTotal> {
        CommandTotal::of(self.stats.iter().map(|worker| &**worker), index)
    }

    /// Rates since an earlier look, which was at least a tenth of a second ago unless there is none such.
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

    /// Notes a commit of `size` connections' writes.
    pub fn note_commit(&self, size: usize, time: Duration) {
        self.groups.note_commit(size, time);
        let is_synced = self.store.fsync() == Fsync::Always;
        self.spikes.note(if is_synced { event::ALWAYS } else { event::WRITE }, time);
    }

    /// Notes a sync of `everysec`.
    pub fn note_sync(&self, time: Duration) {
        self.groups.note_sync(time);
        self.spikes.note(event::SYNC, time);
    }

    /// CONFIG RESETSTAT.
    pub fn reset_statistics(&self) {
        self.stats.iter().for_each(|worker| worker.reset());
        self.groups.reset();
        self.errors.reset();
        self.rejected.store(0, Ordering::Relaxed);
        self.expired.store(self.store.expiry().removed(), Ordering::Relaxed);
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = [CounterSnapshot::new(Instant::now()); 2];
    }
}

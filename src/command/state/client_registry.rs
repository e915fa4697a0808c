//! All connections, as any of them can see and end the others (CLIENT LIST, CLIENT KILL).

use crate::resp::Protocol;
use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, AtomicUsize, Ordering},
    },
    task::Waker,
    time::{Duration, Instant},
};

/// What others see of one connection. Its own worker writes it once a batch.
#[derive(Debug)]
pub struct Client {
    /// Number of the connection, ascending from 1.
    pub id: u64,
    /// The client's address.
    pub peer: Box<str>,
    /// The address it connected to.
    pub local: Box<str>,
    since: Instant,
    labels: Mutex<Labels>,
    /// When it was last heard of, in milliseconds since it connected.
    seen: AtomicU64,
    /// Its last command, by position in the table.
    pub command: AtomicUsize,
    /// The database it works on.
    pub database: AtomicUsize,
    /// Commands of its open transaction; -1 without one.
    queued: AtomicI64,
    /// CLIENT NO-EVICT and MONITOR, which CLIENT LIST shows.
    pub no_evict: AtomicBool,
    /// See `no_evict`.
    pub monitors: AtomicBool,
    protocol: AtomicU8,
    killed: AtomicBool,
    /// Wakes its task.
    waker: OnceLock<Waker>,
}

/// What a client says about itself.
#[derive(Clone, Debug, Default)]
pub struct Labels {
    /// Set by CLIENT SETNAME and HELLO.
    pub name: Box<str>,
    /// Set by CLIENT SETINFO.
    pub lib_name: Box<str>,
    /// Set by CLIENT SETINFO.
    pub lib_version: Box<str>,
}

/// No command yet.
const NONE: usize = usize::MAX;

impl Client {
    /// What it has called itself.
    pub fn labels(&self) -> MutexGuard<'_, Labels> {
        self.labels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes its last command and its database, and that it was heard of.
    pub fn note(&self, command: Option<usize>, database: usize, now: Instant) {
        let time = now.saturating_duration_since(self.since).as_millis();
        self.seen.store(u64::try_from(time).unwrap_or(u64::MAX), Ordering::Relaxed);
        self.command.store(command.unwrap_or(NONE), Ordering::Relaxed);
        self.database.store(database, Ordering::Relaxed);
    }

    /// Notes how many requests its transaction has; `None` without one.
    pub fn set_queued(&self, requests: Option<usize>) {
        let queued = requests.map_or(-1, |requests| i64::try_from(requests).unwrap_or(i64::MAX));
        self.queued.store(queued, Ordering::Relaxed);
    }

    /// Whether its transaction is being carried out, when a command asks.
    pub fn is_executing(&self) -> bool {
        self.queued.load(Ordering::Relaxed) >= 0
    }

    /// Notes the protocol it has chosen.
    pub fn set_protocol(&self, protocol: Protocol) {
        self.protocol.store(protocol.number() as u8, Ordering::Relaxed);
    }

    /// Ends the connection: without the replies that wait to be sent.
    pub fn kill(&self) {
        self.killed.store(true, Ordering::Release);
        self.wake();
    }

    /// Whether somebody wants it to end.
    pub fn is_killed(&self) -> bool {
        self.killed.load(Ordering::Acquire)
    }

    /// Tells how its task is woken; once.
    pub fn set_waker(&self, waker: Waker) {
        let _first = self.waker.set(waker);
    }

    /// Wakes its task, so that it looks at what has changed.
    pub fn wake(&self) {
        self.waker.get().inspect(|waker| waker.wake_by_ref());
    }

    /// The Unix socket it came over, if it did: that is in place of its address.
    pub fn socket(&self) -> Option<&str> {
        let is_path = self.peer.parse::<SocketAddr>().is_err();
        self.peer.strip_suffix(":0").filter(|_| is_path)
    }

    /// A line of CLIENT LIST, in Redis' order of fields. Buffers are lent to a connection only while it is active:
    /// their sizes are 0.
    pub fn describe(&self, command: &str) -> String {
        let labels = self.labels().clone();
        let age = self.since.elapsed();
        let idle = age.saturating_sub(Duration::from_millis(self.seen.load(Ordering::Relaxed)));
        format!(
            "id={} addr={} laddr={} fd=-1 name={} age={} idle={} flags={} db={} sub=0 psub=0 ssub=0 multi={} qbuf=0 \
             qbuf-free=0 argv-mem=0 multi-mem=0 rbs=0 rbp=0 obl=0 oll=0 omem=0 tot-mem=0 events=r cmd={command} \
             user=default redir=-1 resp={} lib-name={} lib-ver={}",
            self.id,
            self.peer,
            self.local,
            labels.name,
            age.as_secs(),
            idle.as_secs(),
            self.flags(),
            self.database.load(Ordering::Relaxed),
            self.queued.load(Ordering::Relaxed),
            self.protocol.load(Ordering::Relaxed),
            labels.lib_name,
            labels.lib_version,
        )
    }

    fn flags(&self) -> String {
        let flags = [
            (self.monitors.load(Ordering::Relaxed), 'O'),
            (self.queued.load(Ordering::Relaxed) >= 0, 'x'),
            (self.socket().is_some(), 'U'),
            (self.no_evict.load(Ordering::Relaxed), 'e'),
        ];
        let flags: String = flags.iter().filter(|(set, _)| *set).map(|(_, letter)| letter).collect();
        if flags.is_empty() { "N".into() } else { flags }
    }
}

/// The connections that are open.
#[derive(Debug, Default)]
pub struct ClientRegistry(Mutex<BTreeMap<u64, Arc<Client>>>);

impl ClientRegistry {
    /// Adds a connection between two addresses.
    pub fn enter(self: &Arc<Self>, id: u64, peer: Box<str>, local: Box<str>) -> ClientRegistration {
        let client = Arc::new(Client {
            id,
            peer,
            local,
            since: Instant::now(),
            labels: Mutex::default(),
            seen: AtomicU64::new(0),
            command: AtomicUsize::new(NONE),
            database: AtomicUsize::new(0),
            queued: AtomicI64::new(-1),
            no_evict: AtomicBool::new(false),
            monitors: AtomicBool::new(false),
            protocol: AtomicU8::new(2),
            killed: AtomicBool::new(false),
            waker: OnceLock::new(),
        });
        self.lock().insert(id, client.clone());
        ClientRegistration { client, clients: self.clone() }
    }

    /// All of them, the oldest first.
    pub fn all(&self) -> Vec<Arc<Client>> {
        self.lock().values().cloned().collect()
    }

    /// Wakes all tasks, so that they look at what has changed.
    pub fn wake(&self) {
        self.all().iter().for_each(|client| client.wake());
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Client>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection in the list for as long as this lives.
#[derive(Debug)]
pub struct ClientRegistration {
    /// What others see of it.
    pub client: Arc<Client>,
    clients: Arc<ClientRegistry>,
}

impl Drop for ClientRegistration {
    fn drop(&mut self) {
        self.clients.lock().remove(&self.client.id);
    }
}

/// CLIENT PAUSE: until when commands, or writes, wait.
#[derive(Debug)]
pub struct Pause {
    start: Instant,
    /// Milliseconds since `start`; 0 is not at all.
    until: AtomicU64,
    all: AtomicBool,
}

impl Default for Pause {
    fn default() -> Self {
        Self { start: Instant::now(), until: AtomicU64::new(0), all: AtomicBool::new(false) }
    }
}

impl Pause {
    /// Lets commands wait, `all` of them or those that write. A pause is never made shorter or weaker by another,
    /// as in Redis.
    pub fn begin(&self, time: Duration, all: bool) {
        let end = (self.start.elapsed() + time).as_millis();
        let end = u64::try_from(end).unwrap_or(u64::MAX).max(1);
        let is_running = self.left(true).is_some();
        let all = all || is_running && self.all.load(Ordering::Relaxed);
        self.all.store(all, Ordering::Relaxed);
        if is_running {
            self.until.fetch_max(end, Ordering::Release);
        } else {
            self.until.store(end, Ordering::Release);
        }
    }

    /// Ends it. Who waits must be woken.
    pub fn end(&self) {
        self.until.store(0, Ordering::Release);
    }

    /// Whether there may be one.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.until.load(Ordering::Acquire) != 0
    }

    /// How long a command still has to wait, `None` for not at all.
    #[inline]
    pub fn left(&self, writes: bool) -> Option<Duration> {
        match self.until.load(Ordering::Acquire) {
            0 => None,
            until => self.time_to(until, writes),
        }
    }

    #[cold]
    fn time_to(&self, until: u64, writes: bool) -> Option<Duration> {
        let left = Duration::from_millis(until).checked_sub(self.start.elapsed())?;
        (writes || self.all.load(Ordering::Relaxed)).then_some(left).filter(|left| !left.is_zero())
    }
}

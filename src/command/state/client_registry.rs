//! Registry of all connections, for CLIENT LIST and CLIENT KILL.

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

/// Part of a connection's state that other connections can see. The worker of the connection updates it each time it
/// has executed some requests together.
#[derive(Debug)]
pub struct Client {
    /// Number of the connection: connections are numbered from 1 in the order of acceptance.
    pub id: u64,
    /// Address of the client, or the path of the Unix socket and `:0`.
    pub peer: Box<str>,
    /// Local address to which the client connected, or the path of the Unix socket and `:0`.
    pub local: Box<str>,
    since: Instant,
    labels: Mutex<Labels>,
    /// Time of the last request, in milliseconds since the connection was accepted.
    seen: AtomicU64,
    /// Last command, as an index into the names of the command table; `usize::MAX`: none.
    pub command: AtomicUsize,
    /// Index of the selected database.
    pub database: AtomicUsize,
    /// Number of requests queued since MULTI; -1 without a transaction.
    queued: AtomicI64,
    /// `true` after CLIENT NO-EVICT ON; shown by CLIENT LIST, without other effect.
    pub no_evict: AtomicBool,
    /// `true` while the connection is in MONITOR mode.
    pub monitors: AtomicBool,
    protocol: AtomicU8,
    killed: AtomicBool,
    /// Waker of the connection's task, for changes that other connections cause.
    waker: OnceLock<Waker>,
}

/// Names that a client has given to its connection.
#[derive(Clone, Debug, Default)]
pub struct Labels {
    /// Name set by CLIENT SETNAME or HELLO.
    pub name: Box<str>,
    /// Library name set by CLIENT SETINFO.
    pub lib_name: Box<str>,
    /// Library version set by CLIENT SETINFO.
    pub lib_version: Box<str>,
}

/// Index of a connection's last command if there is none: before its first request, and after a step that executed no
/// request (unknown, refused or queued ones).
const NONE: usize = usize::MAX;

impl Client {
    /// Locks and returns the names that the client has given to the connection.
    pub fn labels(&self) -> MutexGuard<'_, Labels> {
        self.labels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records for CLIENT LIST, after a request of the connection: the index of its command in the list of command
    /// names (`None` if it was not executed), the selected database, and the time `now`.
    pub fn note(&self, command: Option<usize>, database: usize, now: Instant) {
        let time = now.saturating_duration_since(self.since).as_millis();
        self.seen.store(u64::try_from(time).unwrap_or(u64::MAX), Ordering::Relaxed);
        self.command.store(command.unwrap_or(NONE), Ordering::Relaxed);
        self.database.store(database, Ordering::Relaxed);
    }

    /// Records the number of requests queued since MULTI; `None` without a transaction.
    pub fn set_queued(&self, requests: Option<usize>) {
        let queued = requests.map_or(-1, |requests| i64::try_from(requests).unwrap_or(i64::MAX));
        self.queued.store(queued, Ordering::Relaxed);
    }

    /// Returns `true` if the connection has sent MULTI and its transaction has not ended. Commands use it to find
    /// out whether EXEC executes them.
    pub fn is_executing(&self) -> bool {
        self.queued.load(Ordering::Relaxed) >= 0
    }

    /// Records the protocol version that the client has chosen.
    pub fn set_protocol(&self, protocol: Protocol) {
        self.protocol.store(protocol.number() as u8, Ordering::Relaxed);
    }

    /// Closes the connection (CLIENT KILL). Replies that have not been sent are dropped.
    pub fn kill(&self) {
        self.killed.store(true, Ordering::Release);
        self.wake();
    }

    /// Returns `true` if the connection has to be closed (CLIENT KILL).
    pub fn is_killed(&self) -> bool {
        self.killed.load(Ordering::Acquire)
    }

    /// Sets the waker of the connection's task; later calls have no effect.
    pub fn set_waker(&self, waker: Waker) {
        let _first = self.waker.set(waker);
    }

    /// Wakes the connection's task, so that it notices CLIENT KILL, a changed timeout, lines of MONITOR or the stop of
    /// its worker.
    pub fn wake(&self) {
        self.waker.get().inspect(|waker| waker.wake_by_ref());
    }

    /// Returns the path of the Unix socket, or `None` for a TCP connection. `peer` holds the path in place of
    /// an address.
    pub fn socket(&self) -> Option<&str> {
        let is_path = self.peer.parse::<SocketAddr>().is_err();
        self.peer.strip_suffix(":0").filter(|_| is_path)
    }

    /// Returns a line of CLIENT LIST, in Redis' order of fields. Buffers belong to a connection only while it
    /// is active, so their sizes are reported as 0.
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

/// Open connections, by number.
#[derive(Debug, Default)]
pub struct ClientRegistry(Mutex<BTreeMap<u64, Arc<Client>>>);

impl ClientRegistry {
    /// Registers connection number `id` from the address `peer` to the address `local`; it is removed when the
    /// result is dropped.
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

    /// Returns all open connections, the oldest first. Killed ones, which close soon, do not count as open.
    pub fn all(&self) -> Vec<Arc<Client>> {
        self.lock().values().filter(|client| !client.is_killed()).cloned().collect()
    }

    /// Returns the open connection with the number `id`, or `None` if there is none, or if it was killed.
    pub fn find(&self, id: u64) -> Option<Arc<Client>> {
        self.lock().get(&id).filter(|client| !client.is_killed()).cloned()
    }

    /// Wakes the tasks of all connections, also of killed ones, so that they notice a changed timeout or the stop of
    /// their worker.
    pub fn wake(&self) {
        let clients: Vec<_> = self.lock().values().cloned().collect();
        clients.iter().for_each(|client| client.wake());
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Client>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Registration of a connection; dropping it removes the connection from the registry.
#[derive(Debug)]
pub struct ClientRegistration {
    /// Part of the connection's state that other connections can see.
    pub client: Arc<Client>,
    clients: Arc<ClientRegistry>,
}

impl Drop for ClientRegistration {
    fn drop(&mut self) {
        self.clients.lock().remove(&self.client.id);
    }
}

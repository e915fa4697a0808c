//! What commands see of their connection and of the server.

use super::password::Password;
use crate::store::{Space, Store};
use crossbeam_utils::CachePadded;
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Instant,
};

/// The Redis version whose replies kvbench gives, for clients that ask before they use a command.
pub const REDIS_VERSION: &str = "7.0.15";

/// What happens to a connection after a reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum After {
    /// The next request.
    #[default]
    Continue,
    /// The connection closes (QUIT).
    Close,
    /// The server stops, without a reply to this request (SHUTDOWN).
    Shutdown,
}

/// One connection's state.
#[derive(Debug)]
pub struct Session {
    /// Number of the connection, ascending from 1.
    pub id: u64,
    /// Set by CLIENT SETNAME and HELLO.
    pub name: Box<str>,
    /// Set by CLIENT SETINFO.
    pub lib_name: Box<str>,
    /// Set by CLIENT SETINFO.
    pub lib_version: Box<str>,
    /// The client's address.
    pub peer: Box<str>,
    /// The address it connected to.
    pub local: Box<str>,
    /// When it connected.
    pub since: Instant,
    /// Whether it may use all commands: it has given the password, or there is none.
    pub authenticated: bool,
    /// The database it has chosen.
    pub space: Space,
    /// What follows the current reply.
    pub after: After,
}

impl Session {
    /// A new connection between two addresses, to a server with a password or without.
    pub fn new(id: u64, peer: Box<str>, local: Box<str>, context: &Context) -> Self {
        Self {
            id,
            name: Box::default(),
            lib_name: Box::default(),
            lib_version: Box::default(),
            peer,
            local,
            since: Instant::now(),
            authenticated: context.password.is_none(),
            space: Space::default(),
            after: After::Continue,
        }
    }
}

/// What one worker has counted. Each worker writes its own cache lines only.
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
}

impl Stats {
    /// All zero.
    pub const fn new() -> Self {
        Self {
            connections: AtomicUsize::new(0),
            accepted: AtomicU64::new(0),
            commands: AtomicU64::new(0),
            received: AtomicU64::new(0),
            sent: AtomicU64::new(0),
        }
    }
}

/// The server, as commands see it.
pub struct Context {
    /// The data.
    pub store: Arc<Store>,
    /// What clients must give before they may use the rest.
    pub password: Option<Password>,
    /// Names and values for CONFIG GET, sorted by name.
    pub settings: Vec<(&'static str, String)>,
    /// The TCP port, 0 without one.
    pub port: u16,
    /// When the server started.
    pub started: Instant,
    /// One row a worker.
    pub stats: Vec<CachePadded<Stats>>,
}

impl Context {
    /// Sum of one counter over all workers.
    pub fn total(&self, counter: impl Fn(&Stats) -> &AtomicU64) -> u64 {
        self.stats.iter().map(|worker| counter(worker).load(Ordering::Relaxed)).sum()
    }

    /// Open connections.
    pub fn connections(&self) -> usize {
        self.stats.iter().map(|worker| worker.connections.load(Ordering::Relaxed)).sum()
    }
}

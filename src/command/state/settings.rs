//! Settings that may change while the server runs (CONFIG SET).

use super::password::Password;
use std::{
    net::IpAddr,
    sync::{
        PoisonError, RwLock,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

/// The settings as they are now.
#[derive(Debug)]
pub struct RuntimeSettings {
    /// What clients must give before they may use the rest.
    password: RwLock<Option<Password>>,
    /// Whether, without a password, clients of other machines are turned away.
    pub protected: AtomicBool,
    /// Most clients at once.
    pub max_clients: AtomicUsize,
    /// The most that may be set: what the limit of open files leaves.
    pub possible_clients: usize,
    /// Seconds after which a connection closes on which nothing moves; 0 is never.
    pub timeout: AtomicU64,
    /// Most bytes of replies that may wait for a client; 0 is no limit.
    pub output_buffer_limit: AtomicUsize,
    /// Most bytes of a request that is not complete; for connections to come.
    pub query_buffer_limit: AtomicUsize,
}

impl RuntimeSettings {
    /// What the command line says. `clients` is the most there can be.
    pub fn new(password: Option<Password>, protected: bool, clients: usize) -> Self {
        Self {
            password: RwLock::new(password),
            protected: AtomicBool::new(protected),
            max_clients: AtomicUsize::new(clients),
            possible_clients: clients,
            timeout: AtomicU64::new(0),
            output_buffer_limit: AtomicUsize::new(0),
            query_buffer_limit: AtomicUsize::new(0),
        }
    }

    /// The same with limits: bytes of replies and of requests, and how long nothing may move.
    pub fn with_limits(self, output: usize, query: usize, timeout: Option<Duration>) -> Self {
        self.output_buffer_limit.store(output, Ordering::Relaxed);
        self.query_buffer_limit.store(query, Ordering::Relaxed);
        self.timeout.store(timeout.map_or(0, |timeout| timeout.as_secs()), Ordering::Relaxed);
        self
    }

    /// The password, if there is one.
    pub fn password(&self) -> Option<Password> {
        self.password.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets the password, or none.
    pub fn set_password(&self, password: Option<Password>) {
        *self.password.write().unwrap_or_else(PoisonError::into_inner) = password;
    }

    /// How long nothing may move on a connection.
    pub fn timeout(&self) -> Option<Duration> {
        Some(self.timeout.load(Ordering::Relaxed)).filter(|seconds| *seconds > 0).map(Duration::from_secs)
    }

    /// Whether a client from `peer` is to be turned away: one of another machine, while there is no password.
    pub fn denies(&self, peer: IpAddr) -> bool {
        !peer.to_canonical().is_loopback()
            && self.protected.load(Ordering::Relaxed)
            && self.password().is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protected_mode_knows_this_machine_by_its_loopback_addresses() {
        for (peer, local) in [
            ("127.0.0.1", true),
            ("127.3.2.1", true),
            ("::1", true),
            ("::ffff:127.0.0.1", true),
            ("192.0.2.1", false),
            ("::ffff:192.0.2.1", false),
            ("2001:db8::1", false),
        ] {
            let peer = peer.parse().unwrap();
            let live = RuntimeSettings::new(None, true, 1);
            assert_eq!(live.denies(peer), !local, "{peer}");
            live.set_password(Password::new(b"secret"));
            assert!(!live.denies(peer), "{peer}");
            assert!(!RuntimeSettings::new(None, false, 1).denies(peer), "{peer}");
        }
    }
}

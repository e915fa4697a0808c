//! Settings that CONFIG SET can change while the server runs.

use super::password::Password;
use std::{
    net::IpAddr,
    sync::{
        PoisonError, RwLock,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
    time::Duration,
};

/// Converts a size to the value of a setting, at most `i64::MAX`.
pub(super) fn number(size: usize) -> i64 {
    i64::try_from(size).unwrap_or(i64::MAX)
}

/// Returns the current value of a setting that is a size; a negative value is 0.
pub fn as_size(setting: &AtomicI64) -> usize {
    usize::try_from(setting.load(Ordering::Relaxed)).unwrap_or(0)
}

/// Current values of the settings that CONFIG SET can change.
#[derive(Debug)]
pub struct RuntimeSettings {
    /// Password for authentication; `None`: not required.
    password: RwLock<Option<Password>>,
    /// `true` if clients from other machines are refused while no password is set (protected mode).
    pub protected: AtomicBool,
    /// Maximum number of clients (`maxclients`).
    pub max_clients: AtomicI64,
    /// Upper bound of `maxclients`, derived from the limit of open files.
    pub possible_clients: usize,
    /// Time without traffic after which a connection is closed, in seconds; 0: never.
    pub timeout: AtomicI64,
    /// Maximum number of unsent reply bytes per client; 0: no limit.
    pub output_buffer_limit: AtomicI64,
    /// Maximum size in bytes of an incomplete request; also the maximum memory of the requests that a client queues after
    /// MULTI, and of the keys that it watches. Changes apply to each connection from its next request on.
    pub query_buffer_limit: AtomicI64,
}

impl RuntimeSettings {
    /// Creates the settings from the command line. `clients` is the maximum number of clients, and its upper
    /// bound.
    pub fn new(password: Option<Password>, protected: bool, clients: usize) -> Self {
        Self {
            password: RwLock::new(password),
            protected: AtomicBool::new(protected),
            max_clients: AtomicI64::new(number(clients)),
            possible_clients: clients,
            timeout: AtomicI64::new(0),
            output_buffer_limit: AtomicI64::new(0),
            query_buffer_limit: AtomicI64::new(0),
        }
    }

    /// Returns the settings with other limits: unsent reply bytes, request bytes, and time without traffic.
    pub fn with_limits(self, output: usize, query: usize, timeout: Option<Duration>) -> Self {
        self.output_buffer_limit.store(number(output), Ordering::Relaxed);
        self.query_buffer_limit.store(number(query), Ordering::Relaxed);
        let seconds = timeout.map_or(0, |timeout| i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX));
        self.timeout.store(seconds, Ordering::Relaxed);
        self
    }

    /// Returns the password, or `None` if none is set.
    pub fn password(&self) -> Option<Password> {
        self.password.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets the password; `None` removes it.
    pub fn set_password(&self, password: Option<Password>) {
        *self.password.write().unwrap_or_else(PoisonError::into_inner) = password;
    }

    /// Returns the time without traffic after which a connection is closed; `None`: never.
    pub fn timeout(&self) -> Option<Duration> {
        let seconds = self.timeout.load(Ordering::Relaxed);
        (seconds > 0).then(|| Duration::from_secs(seconds.unsigned_abs()))
    }

    /// Returns `true` if protected mode refuses a client from `peer`: it is on another machine, and no password
    /// is set.
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

//! MONITOR: connections that receive a copy of the requests of all clients.

use super::client_registry::Client;
use std::{
    fmt::Write,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicUsize, Ordering},
    },
    time::SystemTime,
};

/// Maximum number of bytes queued for a connection in MONITOR mode. The connection is closed if its client reads too
/// slowly, or if one line is longer.
const LIMIT: usize = 32 << 20;

/// Connections in MONITOR mode.
#[derive(Debug, Default)]
pub struct MonitorHub {
    count: Arc<AtomicUsize>,
    queues: Mutex<Vec<Weak<Queue>>>,
}

#[derive(Debug)]
struct Queue {
    client: Arc<Client>,
    lines: Mutex<Vec<u8>>,
}

impl Queue {
    fn lines(&self) -> MutexGuard<'_, Vec<u8>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Queue of lines for one connection in MONITOR mode. Dropping it ends the mode.
#[derive(Debug)]
pub struct MonitorFeed {
    queue: Arc<Queue>,
    count: Arc<AtomicUsize>,
}

impl MonitorFeed {
    /// Removes and returns the lines that are queued for the connection in MONITOR mode.
    pub fn take(&self) -> Vec<u8> {
        std::mem::take(&mut *self.queue.lines())
    }
}

impl Drop for MonitorFeed {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}

impl MonitorHub {
    /// Returns `true` if any connection is in MONITOR mode.
    #[inline]
    pub fn any(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    /// Adds a connection to those in MONITOR mode. Returns its queue of lines.
    pub fn add(&self, client: Arc<Client>) -> MonitorFeed {
        let queue = Arc::new(Queue { client, lines: Mutex::default() });
        self.count.fetch_add(1, Ordering::Relaxed);
        let mut queues = self.queues();
        queues.retain(|queue| queue.strong_count() > 0);
        queues.push(Arc::downgrade(&queue));
        drop(queues);
        MonitorFeed { queue, count: self.count.clone() }
    }

    /// Sends a request of `client` to all connections in MONITOR mode.
    pub fn show<'a>(&self, client: &Client, args: impl Iterator<Item = &'a [u8]>) {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let database = client.database.load(Ordering::Relaxed);
        let peer = client.socket().map_or_else(|| client.peer.to_string(), |path| format!("unix:{path}"));
        let mut line = format!("+{}.{:06} [{database} {peer}]", now.as_secs(), now.subsec_micros());
        for arg in args {
            quote(arg, &mut line);
            if line.len() > LIMIT {
                break;
            }
        }
        line.push_str("\r\n");
        self.queues().retain(|queue| {
            let Some(queue) = queue.upgrade() else { return false };
            let mut lines = queue.lines();
            if lines.len() + line.len() > LIMIT {
                queue.client.kill();
                return false;
            }
            if lines.is_empty() {
                queue.client.wake();
            }
            lines.extend_from_slice(line.as_bytes());
            true
        });
    }

    fn queues(&self) -> MutexGuard<'_, Vec<Weak<Queue>>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Appends `arg` to `line`, quoted as redis-server does. Stops when `line` exceeds [`LIMIT`]: no client gets that line.
fn quote(arg: &[u8], line: &mut String) {
    line.push_str(" \"");
    for byte in arg {
        if line.len() > LIMIT {
            return;
        }
        match byte {
            b'\\' | b'"' => line.extend(['\\', char::from(*byte)]),
            b'\n' => line.push_str("\\n"),
            b'\r' => line.push_str("\\r"),
            b'\t' => line.push_str("\\t"),
            7 => line.push_str("\\a"),
            8 => line.push_str("\\b"),
            b' '..=b'~' => line.push(char::from(*byte)),
            // Writing to a String cannot fail.
            _ => drop(write!(line, "\\x{byte:02x}")),
        }
    }
    line.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::state::client_registry::ClientRegistry;

    #[test]
    fn a_monitor_gets_no_more_than_the_limit_and_is_killed_for_it() {
        let (hub, clients) = (MonitorHub::default(), Arc::new(ClientRegistry::default()));
        let [monitor, other] =
            [1, 2].map(|id| clients.enter(id, "127.0.0.1:1".into(), "127.0.0.1:2".into()).client.clone());
        let feed = hub.add(monitor.clone());
        hub.show(&other, [&b"SET"[..], b"k", b"\x00"].into_iter());
        assert!(feed.take().ends_with(b"\"SET\" \"k\" \"\\x00\"\r\n"));
        let letters = vec![b'x'; LIMIT * 2 / 3];
        hub.show(&other, [&letters[..]].into_iter());
        assert!(!monitor.is_killed());
        hub.show(&other, [&letters[..]].into_iter());
        assert!(monitor.is_killed());
        let queued = feed.take().len();
        assert!((letters.len()..=LIMIT).contains(&queued), "{queued}");
    }

    /// Each of the bytes takes four in the line.
    #[test]
    fn a_request_larger_than_the_limit_is_not_quoted_to_its_end() {
        let zeros = vec![0; LIMIT];
        let mut line = String::new();
        quote(&zeros, &mut line);
        assert!((LIMIT..LIMIT + 10).contains(&line.len()), "{}", line.len());
    }
}

//! MONITOR: connections that see what others ask.

use super::client_registry::Client;
use std::{
    fmt::Write,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicUsize, Ordering},
    },
    time::SystemTime,
};

/// Bytes that may wait for a monitor; one that reads too slowly is closed.
const LIMIT: usize = 32 << 20;

/// The connections that monitor.
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

/// What waits for one monitor. Dropping it ends the monitoring.
#[derive(Debug)]
pub struct MonitorFeed {
    queue: Arc<Queue>,
    count: Arc<AtomicUsize>,
}

impl MonitorFeed {
    /// Takes what has come.
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
    /// Whether anybody wants to see requests.
    #[inline]
    pub fn any(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    /// Adds a monitor.
    pub fn add(&self, client: Arc<Client>) -> MonitorFeed {
        let queue = Arc::new(Queue { client, lines: Mutex::default() });
        self.count.fetch_add(1, Ordering::Relaxed);
        self.queues().push(Arc::downgrade(&queue));
        MonitorFeed { queue, count: self.count.clone() }
    }

    /// Shows a request of `client` to all monitors.
    pub fn show<'a>(&self, client: &Client, args: impl Iterator<Item = &'a [u8]>) {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let database = client.database.load(Ordering::Relaxed);
        let peer = client.socket().map_or_else(|| client.peer.to_string(), |path| format!("unix:{path}"));
        let mut line = format!("+{}.{:06} [{database} {peer}]", now.as_secs(), now.subsec_micros());
        args.for_each(|arg| quote(arg, &mut line));
        line.push_str("\r\n");
        self.queues().retain(|queue| {
            let Some(queue) = queue.upgrade() else { return false };
            let mut lines = queue.lines();
            if lines.len() > LIMIT {
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

/// As redis-server quotes.
fn quote(arg: &[u8], line: &mut String) {
    line.push_str(" \"");
    for byte in arg {
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

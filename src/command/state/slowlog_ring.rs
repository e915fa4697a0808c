//! SLOWLOG: the most recent slow commands.

use super::settings::{as_size, number};
use std::{
    collections::VecDeque,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicI64, Ordering},
    },
    time::{Duration, SystemTime},
};

/// Maximum number of arguments in a SLOWLOG entry, as in Redis. `BYTES` is the maximum length of each, in bytes.
const ARGUMENTS: usize = 32;
const BYTES: usize = 128;

/// Entry of the slow log.
#[derive(Clone, Debug)]
pub struct SlowLogEntry {
    /// Number of the entry, ascending from 0 since the start of the server.
    pub id: u64,
    /// Unix time in seconds at which the command was added to the slow log, directly after it ended.
    pub time: u64,
    /// Execution time of the command in microseconds.
    pub micros: u64,
    /// Arguments of the request: at most 32, each of at most 128 bytes; remarks replace what is left out.
    pub args: Vec<Vec<u8>>,
    /// Address of the client.
    pub peer: Box<str>,
    /// Name that the client has given to its connection (CLIENT SETNAME): its first 128 bytes.
    pub name: Box<str>,
}

/// Slow log and its settings.
#[derive(Debug)]
pub struct SlowLog {
    /// Minimum execution time of a slow command in microseconds; negative: nothing is logged.
    pub threshold: AtomicI64,
    /// Maximum number of entries of the slow log.
    pub length: AtomicI64,
    entries: Mutex<(u64, VecDeque<SlowLogEntry>)>,
}

impl SlowLog {
    /// Creates an empty slow log of at most `length` entries, for commands that take at least `micros` microseconds.
    pub fn new(micros: i64, length: usize) -> Self {
        Self {
            threshold: AtomicI64::new(micros),
            length: AtomicI64::new(number(length)),
            entries: Mutex::default(),
        }
    }

    /// Returns `true` if a command that took `time` is added to the slow log.
    pub fn wants(&self, time: Duration) -> bool {
        let threshold = self.threshold.load(Ordering::Relaxed);
        threshold >= 0 && time.as_micros() >= threshold.unsigned_abs().into()
    }

    /// Adds an entry to the slow log; the oldest entries are removed if there are too many.
    pub fn add<'a>(
        &self,
        args: impl ExactSizeIterator<Item = &'a [u8]>,
        time: Duration,
        peer: &str,
        name: &str,
    ) {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let slow = SlowLogEntry {
            id: 0,
            time: now.as_secs(),
            micros: u64::try_from(time.as_micros()).unwrap_or(u64::MAX),
            args: shorten(args),
            peer: peer.into(),
            name: name.get(..BYTES).unwrap_or(name).into(),
        };
        let length = as_size(&self.length);
        let mut log = self.lock();
        let id = log.0;
        log.0 += 1;
        log.1.push_front(SlowLogEntry { id, ..slow });
        log.1.truncate(length);
    }

    /// Returns the newest entries of the slow log: at most `most`, or all for `None`.
    pub fn entries(&self, most: Option<usize>) -> Vec<SlowLogEntry> {
        self.lock().1.iter().take(most.unwrap_or(usize::MAX)).cloned().collect()
    }

    /// Returns the number of entries in the slow log.
    pub fn len(&self) -> usize {
        self.lock().1.len()
    }

    /// Returns `true` if the slow log has no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Removes all entries of the slow log.
    pub fn reset(&self) {
        self.lock().1.clear();
    }

    fn lock(&self) -> MutexGuard<'_, (u64, VecDeque<SlowLogEntry>)> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Shortens the arguments of a request for SLOWLOG as Redis does: `... (N more arguments)` replaces those from the 32nd
/// on if there are more than 32, and `... (N more bytes)` what follows the first 128 bytes of one.
fn shorten<'a>(args: impl ExactSizeIterator<Item = &'a [u8]>) -> Vec<Vec<u8>> {
    let count = args.len();
    let kept = if count > ARGUMENTS { ARGUMENTS - 1 } else { count };
    let mut short: Vec<Vec<u8>> = args
        .take(kept)
        .map(|arg| match arg.get(..BYTES) {
            Some(begin) if arg.len() > BYTES => {
                let rest = format!("... ({} more bytes)", arg.len() - BYTES);
                [begin, rest.as_bytes()].concat()
            }
            _ => arg.to_vec(),
        })
        .collect();
    if count > kept {
        short.push(format!("... ({} more arguments)", count - kept).into_bytes());
    }
    short
}

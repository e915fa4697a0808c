//! SLOWLOG: the last commands that took long.

use std::{
    collections::VecDeque,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicI64, AtomicUsize, Ordering},
    },
    time::{Duration, SystemTime},
};

/// Most arguments of an entry, and most bytes of one, as in Redis.
const ARGUMENTS: usize = 32;
const BYTES: usize = 128;

/// One entry.
#[derive(Clone, Debug)]
pub struct SlowLogEntry {
    /// Ascending from 0.
    pub id: u64,
    /// When it ended, in seconds since 1970.
    pub time: u64,
    /// Microseconds it took.
    pub micros: u64,
    /// What was asked, shortened.
    pub args: Vec<Vec<u8>>,
    /// The client's address.
    pub peer: Box<str>,
    /// The client's name.
    pub name: Box<str>,
}

/// The log, and what goes into it.
#[derive(Debug)]
pub struct SlowLog {
    /// Microseconds from which on a command is slow; less than 0 for none.
    pub threshold: AtomicI64,
    /// Most entries.
    pub length: AtomicUsize,
    entries: Mutex<(u64, VecDeque<SlowLogEntry>)>,
}

impl SlowLog {
    /// An empty log of at most `length` entries, of commands that take `micros` microseconds or more.
    pub fn new(micros: i64, length: usize) -> Self {
        Self {
            threshold: AtomicI64::new(micros),
            length: AtomicUsize::new(length),
            entries: Mutex::default(),
        }
    }

    /// Whether a command that took `time` belongs in it.
    pub fn wants(&self, time: Duration) -> bool {
        let threshold = self.threshold.load(Ordering::Relaxed);
        threshold >= 0 && time.as_micros() >= threshold.unsigned_abs().into()
    }

    /// Adds an entry; the oldest go when there are too many.
    pub fn add<'a>(
        &self,
        args: impl ExactSizeIterator<Item = &'a [u8]>,
        time: Duration,
        peer: &str,
        name: Box<str>,
    ) {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let slow = SlowLogEntry {
            id: 0,
            time: now.as_secs(),
            micros: u64::try_from(time.as_micros()).unwrap_or(u64::MAX),
            args: shorten(args),
            peer: peer.into(),
            name,
        };
        let length = self.length.load(Ordering::Relaxed);
        let mut log = self.lock();
        let id = log.0;
        log.0 += 1;
        log.1.push_front(SlowLogEntry { id, ..slow });
        log.1.truncate(length);
    }

    /// The newest entries, `most` of them or all.
    pub fn entries(&self, most: Option<usize>) -> Vec<SlowLogEntry> {
        self.lock().1.iter().take(most.unwrap_or(usize::MAX)).cloned().collect()
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.lock().1.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Removes all.
    pub fn reset(&self) {
        self.lock().1.clear();
    }

    fn lock(&self) -> MutexGuard<'_, (u64, VecDeque<SlowLogEntry>)> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Redis' way: of many arguments the last is a remark, and so is the end of a long one.
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

//! LATENCY: what took longer than it should, by event.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicI64, Ordering},
    },
    time::{Duration, SystemTime},
};

/// Most samples of an event, as in Redis.
const SAMPLES: usize = 160;

/// Names of events, those of Redis where it has the thing.
pub mod event {
    /// A commit with its sync.
    pub const ALWAYS: &str = "aof-fsync-always";
    /// A commit without a sync.
    pub const WRITE: &str = "aof-write";
    /// A sync of `everysec`.
    pub const SYNC: &str = "aof-fsync-everysec";
    /// A step in which what has expired is removed.
    pub const EXPIRE: &str = "expire-cycle";
}

/// The worst of one second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatencySample {
    /// Seconds since 1970.
    pub time: u64,
    /// Milliseconds.
    pub millis: u64,
}

/// One event.
#[derive(Clone, Debug, Default)]
pub struct EventHistory {
    /// The oldest first; never empty.
    pub spikes: VecDeque<LatencySample>,
    /// The worst that ever was, in milliseconds.
    pub worst: u64,
}

impl EventHistory {
    fn add(&mut self, spike: LatencySample) {
        self.worst = self.worst.max(spike.millis);
        match self.spikes.back_mut() {
            Some(last) if last.time == spike.time => last.millis = last.millis.max(spike.millis),
            _ => self.spikes.push_back(spike),
        }
        if self.spikes.len() > SAMPLES {
            self.spikes.pop_front();
        }
    }
}

/// All events.
#[derive(Debug, Default)]
pub struct LatencyEvents {
    /// Milliseconds from which on something is a spike; 0 for never.
    pub threshold: AtomicI64,
    events: Mutex<BTreeMap<&'static str, EventHistory>>,
}

impl LatencyEvents {
    /// None yet, of what takes `millis` milliseconds or more; 0 for never.
    pub fn new(millis: i64) -> Self {
        Self { threshold: AtomicI64::new(millis), events: Mutex::default() }
    }

    /// Whether what took `time` is one.
    #[inline]
    pub fn wants(&self, time: Duration) -> bool {
        let threshold = self.threshold.load(Ordering::Relaxed);
        threshold > 0 && time.as_millis() >= threshold.unsigned_abs().into()
    }

    /// Notes that `event` took `time`, if that is a spike.
    #[inline]
    pub fn note(&self, event: &'static str, time: Duration) {
        if self.wants(time) {
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
            self.lock().entry(event).or_default().add(LatencySample { time: now.as_secs(), millis });
        }
    }

    /// The events, by name.
    pub fn all(&self) -> Vec<(&'static str, EventHistory)> {
        self.lock().iter().map(|(event, series)| (*event, series.clone())).collect()
    }

    /// One of them.
    pub fn series(&self, event: &[u8]) -> Option<EventHistory> {
        self.lock().iter().find(|(name, _)| name.as_bytes() == event).map(|(_, series)| series.clone())
    }

    /// Forgets those for which `forgets` holds, and returns how many.
    pub fn reset(&self, forgets: impl Fn(&str) -> bool) -> usize {
        let mut events = self.lock();
        let before = events.len();
        events.retain(|event, _| !forgets(event));
        before - events.len()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<&'static str, EventHistory>> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_of_a_second_is_kept_for_so_many_seconds() {
        let mut series = EventHistory::default();
        for (time, millis) in [(1, 5), (1, 9), (1, 7), (2, 3)] {
            series.add(LatencySample { time, millis });
        }
        assert_eq!(
            series.spikes,
            [LatencySample { time: 1, millis: 9 }, LatencySample { time: 2, millis: 3 }]
        );
        for time in 3..1000 {
            series.add(LatencySample { time, millis: 1 });
        }
        assert_eq!((series.spikes.len(), series.worst), (SAMPLES, 9));
        assert_eq!(series.spikes[0].time, 1000 - SAMPLES as u64);
    }

    #[test]
    fn nothing_is_noted_below_the_threshold_or_without_one() {
        let spikes = LatencyEvents::default();
        let long = Duration::from_millis(100);
        spikes.note("command", long);
        spikes.threshold.store(101, Ordering::Relaxed);
        spikes.note("command", long);
        assert!(spikes.all().is_empty());
        spikes.threshold.store(100, Ordering::Relaxed);
        spikes.note("command", long);
        assert_eq!(spikes.series(b"command").unwrap().worst, 100);
        assert_eq!((spikes.reset(|event| event == "other"), spikes.reset(|_| true)), (0, 1));
    }
}

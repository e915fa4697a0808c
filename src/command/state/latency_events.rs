//! LATENCY: spikes, samples of events that took longer than the threshold.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicI64, Ordering},
    },
    time::{Duration, SystemTime},
};

/// Maximum number of samples that are kept per event of LATENCY, as in Redis.
const SAMPLES: usize = 160;

/// Names of the events that LATENCY records besides `command` and `fast-command`, the executions of requests. Events
/// that Redis also has are called as there.
pub mod event {
    /// Name of the LATENCY event: commit with its sync.
    pub const ALWAYS: &str = "aof-fsync-always";
    /// Name of the LATENCY event: commit without a sync.
    pub const WRITE: &str = "aof-write";
    /// Name of the LATENCY event: sync under `everysec`.
    pub const SYNC: &str = "aof-fsync-everysec";
    /// Name of the LATENCY event: removal of one chunk of expired keys by active expiration.
    pub const EXPIRE: &str = "expire-cycle";
}

/// Latency spike: the longest duration of an event within one second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatencySample {
    /// Second in which the spike ended, as Unix time in seconds.
    pub time: u64,
    /// Duration of the spike in milliseconds.
    pub millis: u64,
}

/// Latency spikes of one event.
#[derive(Clone, Debug, Default)]
pub struct EventHistory {
    /// Latest spikes of the event, the oldest first; never empty.
    pub spikes: VecDeque<LatencySample>,
    /// Longest duration of the event since the start or the last reset, in milliseconds.
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

/// Latency spikes of all events.
#[derive(Debug, Default)]
pub struct LatencyEvents {
    /// Minimum duration of a spike in milliseconds; 0: nothing is recorded.
    pub threshold: AtomicI64,
    events: Mutex<BTreeMap<&'static str, EventHistory>>,
}

impl LatencyEvents {
    /// Creates empty histories. `millis` is the minimum duration of a spike; 0: nothing is recorded.
    pub fn new(millis: i64) -> Self {
        Self { threshold: AtomicI64::new(millis), events: Mutex::default() }
    }

    /// Returns `true` if a duration is a spike: at least the threshold, unless that is 0.
    #[inline]
    pub fn wants(&self, time: Duration) -> bool {
        let threshold = self.threshold.load(Ordering::Relaxed);
        threshold > 0 && time.as_millis() >= threshold.unsigned_abs().into()
    }

    /// Records that `event` took `time`, if that is a spike.
    #[inline]
    pub fn note(&self, event: &'static str, time: Duration) {
        if self.wants(time) {
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
            self.lock().entry(event).or_default().add(LatencySample { time: now.as_secs(), millis });
        }
    }

    /// Returns the histories of all events with spikes, sorted by event name.
    pub fn all(&self) -> Vec<(&'static str, EventHistory)> {
        self.lock().iter().map(|(event, series)| (*event, series.clone())).collect()
    }

    /// Returns the history of one event, or `None` if it has no spikes.
    pub fn series(&self, event: &[u8]) -> Option<EventHistory> {
        self.lock().iter().find(|(name, _)| name.as_bytes() == event).map(|(_, series)| series.clone())
    }

    /// Removes the histories of the events for which `forgets` returns `true`; returns their number.
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

//! Counting keys per database, for INFO and similar commands.

use super::{
    Error, ExpirationClock, Store,
    cached_key_counts::{KeyCounts, KeyStats, Last},
    database_keys::MarkerRecords,
    incremental_scan::IncrementalScan,
};
use crate::engine::key_value_headers;
use std::time::{Duration, Instant};

/// Time limit of a count of all keys; beyond it, their number is reported as unknown (`None`).
const COUNT_LIMIT: Duration = Duration::from_millis(100);

/// Time for which a key count is reused, in multiples of the time that counting took.
const REUSE_FACTOR: u32 = 20;

/// Number of keys that a key count visits between two readings of the clock.
const STEP: usize = 1024;

impl Store {
    /// Returns the number of keys of each database. `None` if the engine does not know its number of keys, or if
    /// counting takes too long: once keys expire or are in other databases than 0, they are counted one by one.
    ///
    /// # Errors
    ///
    /// Errors of the engine's count and scan.
    pub fn key_counts(&self) -> Result<Option<KeyCounts>, Error> {
        if !self.info().capabilities.constant_count {
            return Ok(None);
        }
        let own = self.own();
        if own == MarkerRecords::default() {
            let keys = self.engine().count()?;
            let count = KeyStats { keys, ..KeyStats::default() };
            return Ok(Some((keys > 0).then_some((0, count)).into_iter().collect()));
        }
        let mut last = self.counted.lock();
        let begin = Instant::now();
        if let Some(last) = &*last
            && begin < last.until
        {
            return Ok(last.counts.clone());
        }
        let counts = self.count_all(begin)?;
        let now = Instant::now();
        *last = Some(Last { counts: counts.clone(), until: now + (now - begin) * REUSE_FACTOR });
        Ok(counts)
    }

    fn count_all(&self, begin: Instant) -> Result<Option<KeyCounts>, Error> {
        let (mut counts, mut walk, moment) =
            (KeyCounts::new(), IncrementalScan::default(), ExpirationClock::default());
        while walk.step(self, STEP, &mut |stored, value| {
            let Some((database, _)) = key_value_headers::key(stored) else { return };
            let deadline = value.map_or(0, |value| key_value_headers::entry(value).deadline);
            let count = counts.entry(database).or_default();
            count.keys += 1;
            if deadline > 0 {
                count.expires += 1;
                count.ttl_sum_ms += deadline.saturating_sub(moment.now());
            }
        })? {
            if begin.elapsed() > COUNT_LIMIT {
                return Ok(None);
            }
        }
        Ok(Some(counts))
    }
}

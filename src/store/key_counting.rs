//! Counting keys per database, for INFO and similar commands.

use super::{
    Error, ExpirationClock, Store,
    cached_key_counts::{KeyCounts, KeyStats, Last},
    database_keys::MarkerRecords,
};
use crate::engine::{KeyRange, key_value_headers};
use std::{
    ops::ControlFlow,
    time::{Duration, Instant},
};

/// Time limit of a count of all keys; beyond it, their number is reported as unknown (`None`).
const COUNT_LIMIT: Duration = Duration::from_millis(100);

/// Time for which a key count is reused, in multiples of the time that counting took.
const REUSE_FACTOR: u32 = 20;

/// Number of keys that a key count visits between two readings of the clock. Small, because an engine may read each value
/// from the disk.
const KEYS_PER_CLOCK_READ: u64 = 16;

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
        let markers = self.markers();
        if markers == MarkerRecords::default() {
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

    /// Counts all keys one by one. Returns `None` if the time limit, measured from `begin`, is over before the end. The
    /// scan may stop at any key: a part of an unordered engine may have very many.
    fn count_all(&self, begin: Instant) -> Result<Option<KeyCounts>, Error> {
        let (mut counts, clock) = (KeyCounts::new(), ExpirationClock::default());
        let (mut visited, mut is_late) = (0_u64, false);
        self.reads.scan_each(KeyRange::ALL, &mut |stored, value| {
            visited += 1;
            is_late = visited.is_multiple_of(KEYS_PER_CLOCK_READ) && begin.elapsed() > COUNT_LIMIT;
            if is_late {
                return ControlFlow::Break(());
            }
            let Some((database, _)) = key_value_headers::key(stored) else {
                return ControlFlow::Continue(());
            };
            let deadline = value.map_or(0, |value| key_value_headers::entry(value).deadline);
            let count = counts.entry(database).or_default();
            count.keys += 1;
            if deadline > 0 {
                count.expires += 1;
                let ttl = deadline.saturating_sub(clock.now());
                count.ttl_sum_ms = count.ttl_sum_ms.saturating_add(ttl);
            }
            ControlFlow::Continue(())
        })?;
        Ok((!is_late).then_some(counts))
    }
}

#[cfg(test)]
mod tests {
    use super::{super::tests::store_of_corrupt_values, *};

    #[test]
    #[cfg_attr(miri, ignore = "takes too long")]
    fn a_count_beyond_its_time_limit_reads_few_more_values() {
        let directory = tempfile::tempdir().unwrap();
        let store = store_of_corrupt_values(directory.path(), 3000);
        let begin = Instant::now().checked_sub(2 * COUNT_LIMIT).unwrap();
        assert_eq!(store.count_all(begin).unwrap(), None);
        assert!(store.corrupt_reads() <= KEYS_PER_CLOCK_READ, "{} reads", store.corrupt_reads());
        // A limit that no machine exceeds.
        let begin = Instant::now() + Duration::from_secs(3600);
        let keys = store.count_all(begin).unwrap().unwrap().values().map(|count| count.keys).sum::<u64>();
        assert_eq!(keys, 3000);
    }
}

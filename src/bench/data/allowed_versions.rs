//! Versions of each key's value, and which of them a read may return: updates that overlap may take effect in any
//! order.

use super::atomic_table::{AtomicTable, TRACKED};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// Value of the counters `State::behind` and `State::epoch` that stands for this number or more, or for an unknown one:
/// a read may then return any older version.
const FAR: u8 = u8::MAX;

/// State of the versions of one key. The insert writes version 0, each update writes the next one.
///
/// Updates of one key that overlap in time may reach the engine in any order, so the value of any of them may
/// be the last. A chain of updates that overlap, each with the next, is an *epoch*. When an epoch is over,
/// the value is of one of its updates: no version older than the first of the epoch is allowed. With one
/// writer, each update is an epoch of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct State {
    /// Newest version of the key that an update writes or has written.
    newest: u32,
    /// Number of updates of the key that have begun and not ended; not counted any more once it has reached 65,535.
    pending: u16,
    /// Distance from `newest` to the oldest version that a read may return; `FAR` if a read may return any version.
    behind: u8,
    /// Number of updates in the current epoch, a chain of updates that overlap in time; `FAR` if there are more, or one
    /// has failed.
    epoch: u8,
}

impl State {
    fn unpack(bits: u64) -> Self {
        Self {
            newest: (bits >> 32) as u32,
            pending: (bits >> 16) as u16,
            behind: (bits >> 8) as u8,
            epoch: bits as u8,
        }
    }

    fn pack(self) -> u64 {
        u64::from(self.newest) << 32
            | u64::from(self.pending) << 16
            | u64::from(self.behind) << 8
            | u64::from(self.epoch)
    }

    fn begin(mut self) -> Self {
        if self.pending == 0 {
            self.epoch = 0;
        }
        self.newest = self.newest.wrapping_add(1);
        // At the maximum, updates are no longer counted, and the epoch does not end.
        self.pending = self.pending.saturating_add(1);
        self.epoch = self.epoch.saturating_add(1);
        self.behind = self.behind.saturating_add(1);
        self
    }

    fn end(mut self, succeeded: bool) -> Self {
        if !succeeded {
            // The outcome of a failed write is unknown, now and after a restart.
            self.epoch = FAR;
        }
        if self.pending < u16::MAX {
            self.pending = self.pending.saturating_sub(1);
        }
        if self.pending == 0 {
            self.behind = if self.epoch == FAR { FAR } else { self.epoch.saturating_sub(1) };
        }
        self
    }

    /// Returns `true` if the update of the key that has just ended overlapped no other update of the key.
    fn was_alone(self) -> bool {
        self.pending == 0 && self.epoch == 1
    }

    /// Returns the oldest version of the key's value that a read may return if it begins now.
    fn oldest(self) -> u32 {
        if self.behind == FAR { 0 } else { self.newest.saturating_sub(u32::from(self.behind)) }
    }
}

/// Versions of the values of the keys whose number is below `TRACKED`. Memory is allocated only for chunks with updated
/// keys. Of a value of another key it is only checked that its bytes belong to the key, in any version.
#[derive(Debug, Default)]
pub struct ValueVersions(AtomicTable);

/// Oldest version of a key's value that a read may return, as known when the read began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OldestVersion(u32);

impl ValueVersions {
    #[inline]
    fn state(&self, index: u64) -> State {
        self.0.find(index).map_or_else(State::default, |state| State::unpack(state.load(SeqCst)))
    }

    /// Allocates the memory for the versions of the first `keys` keys, before the first update.
    pub fn allocate(&self, keys: u64) {
        self.0.allocate(keys);
    }

    /// Begins an update of key `index` and returns the version that it writes: the next one, or a random one if the key
    /// number is `TRACKED` or above.
    #[inline]
    pub fn begin(&self, index: u64, random: impl FnOnce() -> u64) -> u32 {
        match self.0.find_or_allocate(index) {
            Some(state) => change(state, State::begin).newest,
            None => random() as u32,
        }
    }

    /// Ends an update of key `index` that was acknowledged (`succeeded`) or failed. Returns `true` if it was
    /// acknowledged and it is known that no other update of the key overlapped it.
    #[inline]
    pub fn end(&self, index: u64, succeeded: bool) -> bool {
        let state = self.0.find(index).map(|state| change(state, |state| state.end(succeeded)));
        state.is_some_and(State::was_alone)
    }

    /// Returns `true` if `oldest`, which was found when a read of key `index` began, is still the newest version: no
    /// update of the key was running then or has begun since. `false` for a key number from `TRACKED` on.
    #[inline]
    pub fn is_unchanged(&self, index: u64, OldestVersion(oldest): OldestVersion) -> bool {
        index < TRACKED && self.newest(index) == oldest
    }

    /// Returns the oldest version that a read of key `index` may return. Must be called before the read.
    #[inline]
    pub fn oldest(&self, index: u64) -> OldestVersion {
        OldestVersion(self.state(index).oldest())
    }

    /// Returns the newest version of key `index` that an update writes or has written; 0 without an update.
    pub fn newest(&self, index: u64) -> u32 {
        self.state(index).newest
    }

    /// Returns `true` if a read of key `index` may have returned `version`: it lies between `oldest`, as known when the
    /// read began, and the newest version now. Only the lowest `bits` bits, which the value holds, are compared. Always
    /// `true` for a key number from `TRACKED` on. Must be called after the read.
    #[inline]
    pub fn allow(&self, index: u64, OldestVersion(oldest): OldestVersion, version: u32, bits: u32) -> bool {
        if index >= TRACKED {
            return true;
        }
        let mask = 1u32.checked_shl(bits).map_or(u32::MAX, |beyond| beyond - 1);
        version.wrapping_sub(oldest) & mask <= self.newest(index).wrapping_sub(oldest)
    }
}

#[inline]
fn change(state: &AtomicU64, change: impl Fn(State) -> State) -> State {
    let mut old = state.load(SeqCst);
    loop {
        let new = change(State::unpack(old));
        match state.compare_exchange_weak(old, new.pack(), SeqCst, SeqCst) {
            Ok(_) => return new,
            Err(now) => old = now,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begin(versions: &ValueVersions) -> u32 {
        versions.begin(7, || 0)
    }

    /// Returns the versions below 20 of key 7 that a read may return if it begins and ends now.
    fn allowed(versions: &ValueVersions) -> Vec<u32> {
        let oldest = versions.oldest(7);
        (0..20).filter(|version| versions.allow(7, oldest, *version, 32)).collect()
    }

    #[test]
    fn what_one_writer_has_written_is_all_that_may_be_found() {
        let versions = ValueVersions::default();
        assert_eq!(allowed(&versions), [0]);
        assert_eq!(begin(&versions), 1);
        assert_eq!(allowed(&versions), [0, 1]);
        versions.end(7, true);
        assert_eq!(allowed(&versions), [1]);
        begin(&versions);
        versions.end(7, true);
        assert_eq!(allowed(&versions), [2]);
        assert_eq!(versions.newest(8), 0, "each key has its own");
    }

    #[test]
    fn of_writes_that_overlap_any_may_stand() {
        let versions = ValueVersions::default();
        begin(&versions);
        versions.end(7, true);
        begin(&versions);
        begin(&versions);
        versions.end(7, true);
        assert_eq!(allowed(&versions), [1, 2, 3]);
        versions.end(7, true);
        assert_eq!(allowed(&versions), [2, 3]);
        begin(&versions);
        versions.end(7, true);
        assert_eq!(allowed(&versions), [4]);
    }

    #[test]
    fn after_a_failed_write_nothing_is_sure_until_the_next() {
        let versions = ValueVersions::default();
        begin(&versions);
        versions.end(7, true);
        begin(&versions);
        versions.end(7, false);
        assert_eq!(allowed(&versions), [0, 1, 2]);
        begin(&versions);
        versions.end(7, true);
        assert_eq!(allowed(&versions), [3]);
    }

    #[test]
    fn a_very_long_epoch_allows_all_and_the_next_one_is_exact() {
        let versions = ValueVersions::default();
        (0..300).for_each(|_| assert!(begin(&versions) > 0));
        assert_eq!(allowed(&versions).len(), 20);
        (0..300).for_each(|_| assert!(!versions.end(7, true), "none was alone"));
        assert_eq!(allowed(&versions).len(), 20);
        assert_eq!(begin(&versions), 301);
        assert!(versions.end(7, true), "the epoch is over");
        assert_eq!(versions.oldest(7), OldestVersion(301));
    }

    #[test]
    fn of_a_short_value_the_lowest_bits_are_compared() {
        let versions = ValueVersions::default();
        for _ in 0..20 {
            begin(&versions);
            versions.end(7, true);
        }
        let oldest = versions.oldest(7);
        assert!(versions.allow(7, oldest, 20 & 0xf, 4));
        assert!(!versions.allow(7, oldest, 19 & 0xf, 4));
        assert!(versions.allow(7, oldest, 0, 0), "an empty value has no version");
    }

    #[test]
    fn beyond_the_table_versions_are_random_and_not_checked() {
        let versions = ValueVersions::default();
        assert_eq!(versions.begin(TRACKED, || 99), 99);
        versions.end(TRACKED, true);
        assert!(versions.allow(TRACKED, versions.oldest(TRACKED), 5, 32));
    }
}

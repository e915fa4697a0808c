//! Times to live of values, and what the driver knows about the expiration time of each key: until when the key must
//! exist, and from when on it must not.

use super::{atomic_table::AtomicTable, keys::mix};
use std::{
    sync::atomic::{AtomicU64, Ordering::SeqCst},
    time::{SystemTime, UNIX_EPOCH},
};

/// Allowed difference in milliseconds between an expiration time that the driver expects and that of the store:
/// servers count whole milliseconds, and some read their clock only now and then.
const TOLERANCE: u32 = 100;

/// Bounds of the expiration time of a key, in milliseconds of the clock of [`Expirations::now`].
///
/// The server, or the keyspace layer, adds the time to live to its clock when it carries out a write: after the write
/// began and before it was acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bounds {
    /// Time in milliseconds of the clock of [`Expirations::now`] before which a read must find the key; 0 if a read
    /// need not find it, because all writes of the key may have overlapped others.
    earliest: u32,
    /// Time in milliseconds of the clock of [`Expirations::now`] after which all values of the key have expired whose
    /// write was acknowledged, or failed with an unknown outcome.
    latest: u32,
}

impl Bounds {
    /// Bounds of a key of which nothing is known: a read may find it or not.
    const NONE: Self = Self { earliest: 0, latest: u32::MAX };

    fn unpack(bits: u64) -> Self {
        Self { earliest: (bits >> 32) as u32, latest: bits as u32 }
    }

    fn pack(self) -> u64 {
        u64::from(self.earliest) << 32 | u64::from(self.latest)
    }
}

/// Times to live and expiration times of the keys of a workload.
#[derive(Debug)]
pub struct Expirations {
    /// Time to live of inserted and updated values, in milliseconds.
    ttl_ms: u64,
    /// Unix time in milliseconds at which the clock of [`Expirations::now`] was 0.
    origin: u64,
    bounds: AtomicTable,
}

/// Time at which a read of a key began, and the bounds of the key's expiration time as known then.
#[derive(Clone, Copy, Debug)]
pub struct ReadStart {
    at: u32,
    bounds: Bounds,
}

/// Time to live of a value, and the time when its write began, in milliseconds of the clock of [`Expirations::now`].
#[derive(Clone, Copy, Debug)]
pub struct Lifetime {
    begin: u32,
    /// Time to live in milliseconds, at least 1.
    pub ttl_ms: u64,
}

fn after(time: u32, ttl_ms: u64) -> u32 {
    u64::from(time).saturating_add(ttl_ms).try_into().unwrap_or(u32::MAX)
}

/// Returns the current time in milliseconds since 1970.
fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_millis().try_into().unwrap_or(u64::MAX)
}

impl Expirations {
    /// Creates a record of the expiration times of values that live for `ttl_ms` milliseconds, and allocates the memory
    /// for the first `keys` keys.
    pub fn new(ttl_ms: u64, keys: u64) -> Self {
        let bounds = AtomicTable::default();
        bounds.allocate(keys);
        Self { ttl_ms, origin: unix_ms(), bounds }
    }

    /// Returns the time in milliseconds since this record was created, by the system's clock, which stores use for
    /// expiration times.
    #[inline]
    pub fn now(&self) -> u32 {
        unix_ms().saturating_sub(self.origin).try_into().unwrap_or(u32::MAX)
    }

    /// Returns the time to live of a value of key `index` whose write begins now, with the time of the write. With
    /// `is_load` it is a pseudo-random part of the configured time to live, so that loaded keys expire evenly over it,
    /// in random order.
    pub fn lifetime(&self, index: u64, is_load: bool) -> Lifetime {
        let ttl_ms = if is_load { self.loaded_ttl(index) } else { self.ttl_ms };
        Lifetime { begin: self.now(), ttl_ms }
    }

    fn loaded_ttl(&self, index: u64) -> u64 {
        // Another hash than that of the keys: keys must not expire in their order.
        let hash = mix(index ^ 0x9e37_79b9_7f4a_7c15);
        ((u128::from(hash) * u128::from(self.ttl_ms)) >> u64::BITS) as u64 + 1
    }

    /// Records that a write of key `index` was acknowledged, or failed and may have taken effect, so that reads may
    /// find the value until it expires. Must be called before the write ends for readers
    /// ([`ValueVersions::end`](super::allowed_versions::ValueVersions::end)).
    pub(super) fn acknowledge(&self, index: u64, lifetime: Lifetime) {
        let latest = after(self.now(), lifetime.ttl_ms);
        self.raise(index, |bounds| Bounds { latest: bounds.latest.max(latest), ..bounds });
    }

    /// Records that an acknowledged write of key `index` overlapped no other write, so that reads must find the key
    /// until the value expires. Must be called after the write has ended for readers.
    pub(super) fn acknowledge_alone(&self, index: u64, lifetime: Lifetime) {
        let earliest = after(lifetime.begin, lifetime.ttl_ms);
        self.raise(index, |bounds| Bounds { earliest: bounds.earliest.max(earliest), ..bounds });
    }

    fn raise(&self, index: u64, raise: impl Fn(Bounds) -> Bounds) {
        if let Some(bounds) = self.bounds.find_or_allocate(index) {
            let raised = |bits| Some(raise(Bounds::unpack(bits)).pack());
            let _always_some = bounds.fetch_update(SeqCst, SeqCst, raised);
        }
    }

    /// Returns the time now and the bounds of the expiration time of key `index`, for a read that begins now. Must be
    /// called after [`ValueVersions::oldest`](super::allowed_versions::ValueVersions::oldest), so that a version that
    /// is known to have been acknowledged is among the bounds.
    pub fn begin_read(&self, index: u64) -> ReadStart {
        let load = |bounds: &AtomicU64| Bounds::unpack(bounds.load(SeqCst));
        ReadStart { bounds: self.bounds.find(index).map_or(Bounds::NONE, load), at: self.now() }
    }

    /// Returns `true` if the read that began at `start` and ends now may have found nothing: the value may have
    /// expired.
    pub fn may_be_absent(&self, start: ReadStart) -> bool {
        self.now().saturating_add(TOLERANCE) >= start.bounds.earliest
    }
}

impl ReadStart {
    /// Returns `true` if all values that were acknowledged before the read began had expired when it began.
    pub fn finds_only_expired(self) -> bool {
        self.at > self.bounds.latest.saturating_add(TOLERANCE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3_600_000;

    fn acknowledged(ttl_ms: u64) -> Expirations {
        let expirations = Expirations::new(ttl_ms, 10);
        let lifetime = expirations.lifetime(7, false);
        expirations.acknowledge(7, lifetime);
        expirations.acknowledge_alone(7, lifetime);
        expirations
    }

    /// Returns the start of a read of key 7 as if it began `later` milliseconds from now.
    fn begin(expirations: &Expirations, later: u32) -> ReadStart {
        let start = expirations.begin_read(7);
        ReadStart { at: start.at + later, ..start }
    }

    #[test]
    fn value_exists_until_its_expiration_time_and_not_afterwards() {
        let hour = acknowledged(HOUR);
        assert!(!hour.may_be_absent(begin(&hour, 0)));
        assert!(!begin(&hour, 0).finds_only_expired());
        assert!(begin(&hour, HOUR as u32 + 1000).finds_only_expired());
        let short = acknowledged(1);
        assert!(short.may_be_absent(begin(&short, 0)));
    }

    #[test]
    fn after_overlapping_writes_the_older_bound_of_absence_holds() {
        let expirations = Expirations::new(HOUR, 10);
        let lifetime = expirations.lifetime(7, false);
        expirations.acknowledge(7, lifetime);
        assert!(expirations.may_be_absent(begin(&expirations, 0)), "which of them was last is not known");
        expirations.acknowledge_alone(7, lifetime);
        expirations.acknowledge_alone(7, Lifetime { ttl_ms: 1, ..lifetime });
        assert!(!expirations.may_be_absent(begin(&expirations, 0)));
    }

    #[test]
    fn nothing_is_known_of_keys_beyond_the_table() {
        let expirations = Expirations::new(1, 0);
        let beyond = super::super::atomic_table::TRACKED;
        let lifetime = expirations.lifetime(beyond, false);
        expirations.acknowledge(beyond, lifetime);
        expirations.acknowledge_alone(beyond, lifetime);
        let start = expirations.begin_read(beyond);
        assert!(expirations.may_be_absent(start) && !start.finds_only_expired());
    }

    #[test]
    fn loaded_keys_expire_evenly_over_the_time_to_live() {
        let expirations = Expirations::new(1000, 0);
        let mut by_tenth = [0; 10];
        for index in 0..10_000 {
            let ttl = expirations.loaded_ttl(index);
            assert!((1..=1000).contains(&ttl), "{ttl}");
            by_tenth[(ttl as usize - 1) / 100] += 1;
        }
        assert!(by_tenth.iter().all(|count| (850..1150).contains(count)), "{by_tenth:?}");
    }
}

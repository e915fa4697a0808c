//! The pairs that a store should hold, generated from the driver's records: the no-op engine returns them.

use crate::{
    bench::data::{Data, key_ledger::KeyLedger},
    engine::synthetic::Expected,
};
use std::{
    collections::HashMap,
    sync::{Arc, OnceLock},
};

/// Pairs that the driver has written, according to its records.
struct Pairs {
    data: Arc<Data>,
    live: Arc<KeyLedger>,
    /// Key number by key, for a data file, whose keys do not contain their number; filled on first use.
    numbers: OnceLock<HashMap<Vec<u8>, u64>>,
}

/// Returns the pairs for the no-op engine, which stores none: scans visit the keys that exist according to `live`, and
/// a read finds every key of `data`, also one that is deleted or not inserted yet, with the newest version in `live`.
pub(super) fn of(data: &Arc<Data>, live: &Arc<KeyLedger>) -> Arc<dyn Expected> {
    Arc::new(Pairs { data: Arc::clone(data), live: Arc::clone(live), numbers: OnceLock::new() })
}

impl Pairs {
    fn number(&self, key: &[u8]) -> Option<u64> {
        match self.data.keys() {
            Some(keys) => keys.number(key),
            None => self
                .numbers
                .get_or_init(|| self.all().map(|(number, key)| (key, number)).collect())
                .get(key)
                .copied(),
        }
    }

    /// Returns all keys of the data file with their numbers.
    fn all(&self) -> impl Iterator<Item = (u64, Vec<u8>)> {
        (0..self.data.capacity()).map(|number| (number, self.key(number)))
    }

    fn key(&self, number: u64) -> Vec<u8> {
        let mut key = Vec::new();
        self.data.key(number, &mut key);
        key
    }
}

impl Expected for Pairs {
    fn value(&self, key: &[u8], value: &mut Vec<u8>) -> bool {
        let number = self.number(key).filter(|&number| number < self.data.capacity());
        number.inspect(|&number| self.data.value(number, self.live.versions.newest(number), value)).is_some()
    }

    fn keys(&self) -> Vec<Vec<u8>> {
        let (first, end) = self.live.range();
        let mut keys: Vec<_> = (first..end).map(|number| self.key(number)).collect();
        keys.sort_unstable();
        keys
    }
}

//! What a store should hold, made from what the driver has written: the engine that does nothing answers with it.

use crate::{
    bench::data::{Data, key_ledger::KeyLedger},
    engine::synthetic::Expected,
};
use std::{
    collections::HashMap,
    sync::{Arc, OnceLock},
};

/// Pairs of a driver.
struct Pairs {
    data: Arc<Data>,
    live: Arc<KeyLedger>,
    /// Numbers of the keys of a file, which do not tell them.
    numbers: OnceLock<HashMap<Vec<u8>, u64>>,
}

/// What `live` says of `data`.
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

    /// All keys of a file.
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

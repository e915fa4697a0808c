//! A store that is open: an engine, and for values that expire the server's keyspace layer over it.

use crate::{
    bench::{
        data::{Data, key_ledger::KeyLedger},
        run::in_process::driver::InProcessBench,
    },
    engine::{Engine, Fsync},
    store::{Database, Store},
};

/// Open store of a job in process: an engine, or for values that expire the server's keyspace layer over it.
pub(super) enum Opened {
    /// Engine that the driver calls for reads and writes.
    Engine(Box<dyn Engine>),
    /// Keyspace layer over an engine, which stores expiration times and removes expired keys. Writes go through it.
    Store(Box<Store>),
}

impl Opened {
    /// Creates an open store from an engine. Adds the keyspace layer if the values of `live` expire.
    pub fn new(engine: Box<dyn Engine>, live: &KeyLedger, fsync: Fsync) -> Self {
        match live.expirations {
            None => Self::Engine(engine),
            Some(_) => Self::Store(Box::new(Store::new(engine, fsync))),
        }
    }

    pub fn engine(&self) -> &dyn Engine {
        match self {
            Self::Engine(engine) => &**engine,
            Self::Store(store) => store.engine(),
        }
    }

    pub fn into_engine(self) -> Box<dyn Engine> {
        match self {
            Self::Engine(engine) => engine,
            Self::Store(store) => store.into_engine(),
        }
    }

    /// Returns a benchmark of the store, which holds the pairs that `live` records.
    pub fn bench<'e>(&'e self, data: &'e Data, live: &'e KeyLedger) -> InProcessBench<'e> {
        let mut bench = InProcessBench::new(self.engine(), data, live);
        if let Self::Store(store) = self {
            bench.store = Some(store);
        }
        bench
    }

    /// Returns the number of keys that exist: the keys of `live` if values do not expire, otherwise the keys that the
    /// engine holds, including expired ones that are not removed yet.
    pub fn count(&self, live: &KeyLedger) -> Result<u64, String> {
        match self {
            Self::Engine(_) => Ok(live.count()),
            Self::Store(store) => {
                store.count_keys(Database::default()).map_err(|error| format!("count: {error}"))
            }
        }
    }
}

//! The two sides of the comparison.

use super::support;
use kvbench::engine::{Batch, Engine, Fsync, Kind, Location, OpenOptions, ReadAhead};
use std::{hint::black_box, ops::ControlFlow, path::Path};

/// Declares the module of each side and the list of all: the engine's module in kvbench, and its feature.
macro_rules! sides {
    ($($module:ident $(if $feature:literal)?,)+) => {
        $(
            $(#[cfg(feature = $feature)])?
            mod $module;
        )+

        /// The engines compared: the name of each in `--store`, and what opens its bare side.
        pub fn all() -> Vec<(String, OpenBare)> {
            vec![
                $(
                    $(#[cfg(feature = $feature)])?
                    (stringify!($module).replace('_', "-"), $module::open as OpenBare),
                )+
            ]
        }
    };
}

sides! {
    map,
    rocksdb if "rocksdb",
    rocksdb_blob if "rocksdb",
    lmdb if "lmdb",
    redb if "redb",
    sqlite if "sqlite",
    fjall if "fjall",
    mdbx if "mdbx",
    canopydb if "canopydb",
}

/// What an engine's bare side is opened with.
pub type OpenBare = fn(&Path, Settings) -> Box<dyn Side>;

/// What a side is opened with.
#[derive(Clone, Copy)]
pub struct Settings {
    /// The engine.
    pub kind: &'static Kind,
    /// What the server is given by `--cache-size`, in bytes.
    pub cache: usize,
    /// Whether there is to be no read-ahead, as an adapter decides it.
    pub larger_than_memory: bool,
}

impl Settings {
    /// A size in bytes with which the adapter opens the engine's library, by the name that results have for it.
    #[cfg(any(feature = "rocksdb", feature = "fjall"))]
    fn adapter_bytes(self, name: &str) -> u64 {
        use kvbench::engine::Setting;
        let settings = (self.kind.settings)(&self.options(Location::Memory));
        match settings.into_iter().find(|(setting, _)| *setting == name) {
            Some((_, Setting::Bytes(bytes))) => bytes,
            other => panic!("{} has no size {name:?}: {other:?}", self.kind.info.name),
        }
    }

    fn options(self, location: Location) -> OpenOptions {
        let mut options = support::options(location, Fsync::No);
        options.cache_size = self.cache as u64;
        if self.larger_than_memory {
            options.read_ahead = ReadAhead::Off;
        }
        options
    }
}

/// What is compared. The loops are inside, so that a call costs nothing.
pub trait Side {
    /// Reads one key after the other, each by itself, and copies its value to `reply` as a server
    /// does (a value that nobody looks at is never fetched from memory). Returns the bytes of all.
    fn get_each(&mut self, keys: &[&[u8]], reply: &mut Vec<u8>) -> usize;

    /// Reads all keys under one snapshot. Returns the bytes of their values.
    fn get_batch(&mut self, keys: &[&[u8]]) -> usize;

    /// Sets all pairs in one commit, which is not synced.
    fn put_batch(&mut self, pairs: &[(&[u8], &[u8])]);

    /// The value of `key`, for the comparison at the end.
    fn value(&mut self, key: &[u8]) -> Option<Vec<u8>>;
}

/// Copies one value in place of the last.
#[inline]
fn answer(reply: &mut Vec<u8>, value: Option<&[u8]>) -> usize {
    reply.clear();
    reply.extend_from_slice(value.unwrap_or_default());
    black_box(&reply).len()
}

/// The length of a value, which nobody copies.
#[inline]
fn length(value: Option<&[u8]>) -> usize {
    black_box(value).map_or(0, <[u8]>::len)
}

/// The engine as the server opens it; in memory if all its data are there, since the bare table has no file.
pub fn open_through(path: &Path, settings: Settings) -> Through {
    let location = match settings.kind.info.capabilities.memory_resident {
        true => Location::Memory,
        false => Location::Path(path.into()),
    };
    Through(settings.kind.open(&settings.options(location)).expect("opens"))
}

/// An engine through the trait.
pub struct Through(pub Box<dyn Engine>);

impl Side for Through {
    fn get_each(&mut self, keys: &[&[u8]], reply: &mut Vec<u8>) -> usize {
        let mut bytes = 0;
        for key in keys {
            let outcome = self.0.read(&[key], &mut |_, value| {
                answer(reply, value);
                ControlFlow::Continue(())
            });
            outcome.expect("reads");
            bytes += reply.len();
        }
        bytes
    }

    fn get_batch(&mut self, keys: &[&[u8]]) -> usize {
        let mut bytes = 0;
        let outcome = self.0.read(keys, &mut |_, value| {
            bytes += length(value);
            ControlFlow::Continue(())
        });
        outcome.expect("reads");
        bytes
    }

    fn put_batch(&mut self, pairs: &[(&[u8], &[u8])]) {
        let mut batch = Batch::with_capacity(pairs.len());
        pairs.iter().for_each(|(key, value)| batch.put(key, value));
        self.0.write(&batch, false).expect("writes");
    }

    fn value(&mut self, key: &[u8]) -> Option<Vec<u8>> {
        let mut found = None;
        let outcome = self.0.read(&[key], &mut |_, value| {
            found = value.map(<[u8]>::to_vec);
            ControlFlow::Continue(())
        });
        outcome.expect("reads");
        found
    }
}

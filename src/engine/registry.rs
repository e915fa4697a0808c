//! List of engines, and detection of the engine whose data are at a path.

#[cfg(feature = "canopydb")]
use super::stores::canopydb;
#[cfg(feature = "fjall")]
use super::stores::fjall;
#[cfg(feature = "lmdb")]
use super::stores::lmdb;
#[cfg(feature = "mdbx")]
use super::stores::mdbx;
#[cfg(feature = "redb")]
use super::stores::redb;
#[cfg(feature = "redis")]
use super::stores::redis;
#[cfg(feature = "rocksdb")]
use super::stores::rocksdb;
#[cfg(feature = "sled")]
use super::stores::sled;
#[cfg(feature = "sqlite")]
use super::stores::sqlite;
#[cfg(feature = "tikv")]
use super::stores::tikv;
#[cfg(feature = "fault-injection")]
use super::synthetic::faulty;
#[cfg(all(feature = "fault-injection", feature = "sled"))]
use super::synthetic::sled_flush_only;
use super::{
    Engine, Error, Info, Kind, Location, OpenOptions, Result, aof, first,
    stores::{bitcask, btree, map},
};
use std::{fs, io, path::Path, sync::OnceLock, thread, time::Duration};

/// Engines of this build with data on this machine.
pub const KINDS: &[Kind] = &[
    map::KIND,
    btree::KIND,
    bitcask::KIND,
    #[cfg(feature = "rocksdb")]
    rocksdb::KIND,
    #[cfg(feature = "rocksdb")]
    rocksdb::BLOB,
    #[cfg(feature = "lmdb")]
    lmdb::KIND,
    #[cfg(feature = "sled")]
    sled::KIND,
    #[cfg(feature = "redb")]
    redb::KIND,
    #[cfg(feature = "sqlite")]
    sqlite::KIND,
    #[cfg(feature = "fjall")]
    fjall::KIND,
    #[cfg(feature = "mdbx")]
    mdbx::KIND,
    #[cfg(feature = "canopydb")]
    canopydb::KIND,
];

/// Engines whose data are on other machines. Tables do not compare them with the others, because network and
/// replicas determine their results.
pub const DISTRIBUTED: &[Kind] = &[
    #[cfg(feature = "tikv")]
    tikv::KIND,
    #[cfg(feature = "redis")]
    redis::KIND,
];

/// Engines that fail on purpose, in builds for tests; they are in no list.
pub const FAULTY: &[Kind] = &[
    #[cfg(feature = "fault-injection")]
    faulty::FAILING,
    #[cfg(feature = "fault-injection")]
    faulty::WRONG_VALUE,
    #[cfg(feature = "fault-injection")]
    faulty::FORGETFUL,
    #[cfg(feature = "fault-injection")]
    faulty::SLOW_SYNC,
    #[cfg(feature = "fault-injection")]
    faulty::SLOW_SCAN,
    #[cfg(all(feature = "fault-injection", feature = "sled"))]
    sled_flush_only::KIND,
];

/// Prepares engines in a process that starts other processes, before it does.
pub fn prepare() {
    #[cfg(feature = "mdbx")]
    mdbx::disable_stderr_log();
}

/// Engines that this process has registered in addition to those of the build.
static OTHERS: OnceLock<&'static [Kind]> = OnceLock::new();

/// Adds engines to those of this build, once per process.
///
/// # Errors
///
/// Another engine has the name of one of them.
pub fn register(others: &'static [Kind]) -> Result<()> {
    for (at, kind) in others.iter().enumerate() {
        let engine = kind.info.name;
        let before = others.iter().take(at).any(|other| other.info.name == engine);
        if before || Kind::find(engine).is_some() {
            return Err(Error::Unsupported { engine, what: "is the name of two engines".into() });
        }
    }
    // Tests in one process may register the same engines again.
    let _added = OTHERS.set(others);
    Ok(())
}

/// Returns the engines of this build with data on this machine, and those that were registered.
pub fn kinds() -> impl Iterator<Item = &'static Kind> + Clone {
    KINDS.iter().chain(OTHERS.get().copied().unwrap_or_default())
}

/// Returns the name and version of the storage format: the engine's library, or for `map`, `btree` and `bitcask`,
/// whose libraries do not use the disk, kvbench's own file format.
pub fn storage_format(info: &Info) -> &'static str {
    let own = [(&map::KIND, aof::FORMAT), (&btree::KIND, aof::FORMAT), (&bitcask::KIND, bitcask::FORMAT)];
    let found = own.iter().find(|(kind, _)| kind.info.name == info.name);
    found.map_or(info.library, |(_, format)| format)
}

impl Kind {
    /// Returns the engine named `name`, or `None` if this process does not have it.
    pub fn find(name: &str) -> Option<&'static Kind> {
        kinds().chain(DISTRIBUTED).chain(FAULTY).find(|kind| kind.info.name == name)
    }

    /// Opens or creates the engine's data, after checking that the path does not contain other data.
    pub fn open(&self, options: &OpenOptions) -> Result<Box<dyn Engine>> {
        self.check_location(&options.location)?;
        if let Location::Path(path) = &options.location {
            check_owner(path, self)?;
        }
        when_unlocked(|| (self.open)(options))
    }
}

impl Kind {
    /// Fails if the engine does not support the location of the data.
    fn check_location(&self, location: &Location) -> Result<()> {
        let what = match (location, self.info.family.is_shared()) {
            (Location::Path(_) | Location::Memory, true) => "keeps its data on other machines",
            (Location::Cluster { .. }, false) => "keeps its data on this machine",
            _ => return Ok(()),
        };
        Err(Error::Unsupported { engine: self.info.name, what: what.into() })
    }
}

/// Retries for half a second if the data are locked, because a lock of this process can outlive its engine for a
/// moment: a thread of sled's pool may hold it, and a process that another thread starts shares every lock on an
/// open file (flock(2)) between fork and exec.
fn when_unlocked<T>(open: impl Fn() -> Result<T>) -> Result<T> {
    let mut pause = Duration::from_millis(1);
    loop {
        match open() {
            Err(Error::Locked { .. }) if pause < Duration::from_millis(500) => thread::sleep(pause),
            outcome => return outcome,
        }
        pause *= 2;
    }
}

/// Fails if `path` contains data that `kind` does not recognise as its own: opening it could destroy them. An
/// absent path, an empty file and an empty directory may be used, and so may what an interrupted first start of
/// this engine has left there.
fn check_owner(path: &Path, kind: &Kind) -> Result<()> {
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Error::io("open", path)(error)),
    };
    let engine = kind.info.name;
    let empty = if metadata.is_dir() { first::is_unused(path, engine)? } else { metadata.len() == 0 };
    if empty || (kind.recognise)(path) {
        return Ok(());
    }
    let is_of = |other: &&Kind| (other.recognise)(path) || first::has_unfinished_start(path, other.info.name);
    let owners: Vec<_> = kinds().filter(is_of).map(|other| other.info.name).collect();
    let found = match owners.as_slice() {
        [] => "something else".into(),
        owners => format!("data of {}", owners.join(" or ")),
    };
    Err(Error::Foreign { path: path.into(), engine, found })
}

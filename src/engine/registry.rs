//! The list of engines, on top of them all, and whose data are at a path.

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

/// The engines of this build.
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

/// Engines whose data are on other machines. They stand in no table beside the others: network and replicas decide.
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

/// What engines ask of a process that starts others, before it does.
pub fn prepare() {
    #[cfg(feature = "mdbx")]
    mdbx::disable_stderr_log();
}

/// Engines that this process has besides.
static OTHERS: OnceLock<&'static [Kind]> = OnceLock::new();

/// Adds engines to those of this build, once a process.
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
    // Tests in one process may add the same again.
    let _added = OTHERS.set(others);
    Ok(())
}

/// The engines of this build, and those that were added.
pub fn kinds() -> impl Iterator<Item = &'static Kind> + Clone {
    KINDS.iter().chain(OTHERS.get().copied().unwrap_or_default())
}

/// What keeps an engine's data on disk, with its version: its library, but with `map`, `btree` and `bitcask`, whose
/// libraries know of no disk, kvbench's own files in their format.
pub fn storage_format(info: &Info) -> &'static str {
    let own = [(&map::KIND, aof::FORMAT), (&btree::KIND, aof::FORMAT), (&bitcask::KIND, bitcask::FORMAT)];
    let found = own.iter().find(|(kind, _)| kind.info.name == info.name);
    found.map_or(info.library, |(_, format)| format)
}

impl Kind {
    /// The engine named `name`, if this process has it.
    pub fn find(name: &str) -> Option<&'static Kind> {
        kinds().chain(DISTRIBUTED).chain(FAULTY).find(|kind| kind.info.name == name)
    }

    /// Opens or creates the engine's data, after checking that the path holds nobody else's.
    pub fn open(&self, options: &OpenOptions) -> Result<Box<dyn Engine>> {
        self.check_location(&options.location)?;
        if let Location::Path(path) = &options.location {
            check_owner(path, self)?;
        }
        when_unlocked(|| (self.open)(options))
    }
}

impl Kind {
    /// Fails where the engine's data cannot be.
    fn check_location(&self, location: &Location) -> Result<()> {
        let what = match (location, self.info.family.is_shared()) {
            (Location::Path(_) | Location::Memory, true) => "keeps its data on other machines",
            (Location::Cluster { .. }, false) => "keeps its data on this machine",
            _ => return Ok(()),
        };
        Err(Error::Unsupported { engine: self.info.name, what: what.into() })
    }
}

/// Tries again for half a second what finds the data locked, because a lock of this process can outlive its engine
/// for a moment: a thread of sled's pool may hold it, and a process that another thread starts shares every lock on
/// an open file (flock(2)) between fork and exec.
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

/// Fails when `path` holds data that `kind` does not recognise as its own: opening it could destroy
/// them. An absent path, an empty file and an empty directory are free to use, and so is what the first
/// start of this engine has left there when it was interrupted.
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

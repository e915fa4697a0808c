//! Tests of what is specific to the engine `bitcask`: segments, merges, hint files.

mod corrupt_values;
mod corruption;
mod crashes;
mod merging;
mod missing_segments;
mod moved_directory;
mod nearly_full_disk;

use super::{
    Bitcask, open,
    segment::{id_of, path_of},
    space_reserve::SEGMENT,
};
use crate::{
    engine::{Batch, CheckReport, Engine, OpenOptions, Result, registry::when_unlocked},
    testing::engine_case::names,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    ops::ControlFlow,
    path::{Path, PathBuf},
};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// A `bitcask` store, open or closed, with its expected content.
struct Store {
    directory: tempfile::TempDir,
    engine: Option<Bitcask>,
    model: Model,
}

fn try_open(path: &Path) -> Result<Bitcask> {
    let engine = when_unlocked(|| Bitcask::open(&OpenOptions::for_check(path)))?;
    // Tests run the background work themselves, at known times.
    engine.background.stop();
    Ok(engine)
}

/// Checks the data at `path` as `kvbench check` does, but waits for a lock that outlives its engine, see
/// [`when_unlocked`].
fn check(path: &Path) -> Result<CheckReport> {
    when_unlocked(|| open::check(path))
}

impl Store {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let engine = Some(try_open(&directory.path().join("data")).unwrap());
        Self { directory, engine, model: Model::new() }
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("data").canonicalize().unwrap()
    }

    fn engine(&self) -> &Bitcask {
        self.engine.as_ref().unwrap()
    }

    fn put(&mut self, key: &[u8], value: &[u8]) {
        let mut batch = Batch::default();
        batch.put(key, value);
        self.engine().write(&batch, false).unwrap();
        self.model.insert(key.into(), value.into());
    }

    fn delete(&mut self, key: &[u8]) {
        let mut batch = Batch::default();
        batch.delete(key);
        self.engine().write(&batch, false).unwrap();
        self.model.remove(key);
    }

    /// Writes `count` different values of 1,000 bytes to the keys from `first` on.
    fn fill(&mut self, first: u32, count: u32, seed: u8) {
        for number in first..first + count {
            self.put(&number.to_be_bytes(), &value(number, seed));
        }
    }

    fn roll(&self) {
        let files = &self.engine().files;
        files.try_roll(&mut files.lock_writer()).unwrap();
    }

    fn merge_oldest(&self) {
        assert!(self.engine().files.merge_oldest(&|| false).unwrap());
    }

    /// Closes the store if `close`; otherwise drops it, which leaves the files as a kill would.
    fn shut(&mut self, close: bool) {
        let engine = self.engine.take().unwrap();
        if close {
            engine.close().unwrap();
        }
    }

    fn open(&mut self) {
        self.engine = Some(try_open(&self.path()).unwrap());
    }

    fn reopen(&mut self, close: bool) {
        self.shut(close);
        self.open();
    }

    /// Asserts that the test's store has exactly the expected pairs (`model`), by a scan, incremental scans with and
    /// without values, a count and reads.
    fn check(&self) {
        assert_eq!(all(self.engine()), self.model);
        assert_eq!(pairs_of_steps(self.engine()), self.model);
        assert!(keys_of_steps(self.engine()).iter().eq(self.model.keys()));
        assert_eq!(self.engine().count().unwrap(), self.model.len() as u64);
        let keys: Vec<&[u8]> = self.model.keys().map(Vec::as_slice).chain([&b"absent"[..]]).collect();
        let mut values = self.model.values();
        let mut compare = |_, value: Option<&[u8]>| {
            assert_eq!(value, values.next().map(Vec::as_slice));
            ControlFlow::Continue(())
        };
        self.engine().read(&keys, &mut compare).unwrap();
    }

    fn segments(&self) -> Vec<u32> {
        segments(&self.path())
    }
}

fn value(number: u32, seed: u8) -> Vec<u8> {
    (0..1000).map(|at: u32| (number.wrapping_mul(31).wrapping_add(at * 7) as u8) ^ seed).collect()
}

fn all(engine: &Bitcask) -> Model {
    let mut found = Model::new();
    let mut add = |key: &[u8], value: &[u8]| {
        assert!(found.insert(key.into(), value.into()).is_none(), "visited twice");
        ControlFlow::Continue(())
    };
    engine.scan(crate::engine::KeyRange::ALL, &mut add).unwrap();
    found
}

fn pairs_of_steps(engine: &Bitcask) -> Model {
    let (mut found, mut position) = (Model::new(), 0);
    loop {
        let mut add = |key: &[u8], value: &[u8]| {
            found.insert(key.into(), value.into());
            ControlFlow::Break(())
        };
        position = engine.scan_step(position, &mut add).unwrap();
        if position == 0 {
            return found;
        }
    }
}

fn keys_of_steps(engine: &Bitcask) -> BTreeSet<Vec<u8>> {
    let (mut found, mut position) = (BTreeSet::new(), 0);
    loop {
        let mut add = |key: &[u8]| {
            assert!(found.insert(key.to_vec()), "visited twice");
            ControlFlow::Break(())
        };
        position = engine.scan_step_keys(position, &mut add).unwrap();
        if position == 0 {
            return found;
        }
    }
}

fn get(engine: &Bitcask, key: &[u8]) -> Result<Option<Vec<u8>>> {
    let mut found = None;
    engine.read(&[key], &mut |_, value| {
        found = value.map(Vec::from);
        ControlFlow::Continue(())
    })?;
    Ok(found)
}

fn segments(path: &Path) -> Vec<u32> {
    names(path).iter().filter_map(|name| id_of(name)).collect()
}

/// Copies all files of the directory `from` to the directory `to`, which is created if necessary.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for name in names(from) {
        fs::copy(from.join(&name), to.join(&name)).unwrap();
    }
}

/// Returns the data that a start would find if the process ended now: opens a copy of the files in `path`.
fn model_after_restart(path: &Path) -> Model {
    let scratch = tempfile::tempdir().unwrap();
    let to = scratch.path().join("copy");
    copy(path, &to);
    all(&try_open(&to).unwrap())
}

/// Number of values of 1,000 bytes, as [`Store::fill`] writes them, that fill a segment.
const FULL: u32 = (SEGMENT / 1000) as u32 + 1;

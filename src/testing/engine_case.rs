//! The engines and settings under test, and an open engine with its files.

use crate::engine::{
    Batch, ClusterAccess, Engine, Family, Fsync, KeyRange, Kind, Location, LossClass, OpenOptions, Result,
};
use std::{
    collections::BTreeSet,
    env, fmt, fs, io,
    ops::ControlFlow,
    path::{Path, PathBuf},
    time::SystemTime,
};
use tempfile::TempDir;

/// An engine under a policy.
#[derive(Clone, Copy)]
pub struct EngineCase {
    /// The engine.
    pub kind: &'static Kind,
    /// Its policy.
    pub fsync: Fsync,
    /// Whether it has no files.
    pub memory: bool,
}

impl fmt::Display for EngineCase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = if self.memory { " in memory" } else { "" };
        write!(f, "{} {}{place}", self.kind.info.name, self.fsync)
    }
}

/// Runs `test` over an engine in files, under every policy.
pub fn for_each_on_disk(kind: &'static Kind, mut test: impl FnMut(EngineCase)) {
    for fsync in Fsync::ALL {
        if !kind.info.family.has_policies() && fsync != Fsync::Always {
            // It has one policy.
            continue;
        }
        let cell = EngineCase { kind, fsync, memory: false };
        // Captured, and shown when the test fails: tells where it was.
        println!("{cell}");
        test(cell);
    }
}

/// Runs `test` over an engine in files, and in memory where it can.
pub fn for_each(kind: &'static Kind, mut test: impl FnMut(EngineCase)) {
    for_each_on_disk(kind, &mut test);
    if kind.info.in_memory {
        let cell = EngineCase { kind, fsync: Fsync::No, memory: true };
        println!("{cell}");
        test(cell);
    }
}

/// A directory for the data of one test.
pub fn scratch() -> TempDir {
    tempfile::tempdir().unwrap()
}

/// Options that suit every test but those about a limit.
pub fn options(path: impl Into<PathBuf>, fsync: Fsync) -> OpenOptions {
    OpenOptions {
        cache_size: 16 << 20,
        map_size: 256 << 20,
        max_files: u64::MAX,
        ..OpenOptions::new(Location::Path(path.into()), fsync)
    }
}

/// The cluster that the tests are to use: the environment has its nodes, `host:port,...`, in `KVBENCH_PD`, or, where there
/// are slots, in `KVBENCH_NODES`. There all keys are in one slot, so that a batch may be about any.
///
/// # Panics
///
/// When it has none.
pub fn cluster(family: Family, prefix: &[u8]) -> Location {
    let (variable, prefix) = match family.is_sharded() {
        true => ("KVBENCH_NODES", [b"{", prefix, b"}/"].concat()),
        false => ("KVBENCH_PD", prefix.to_vec()),
    };
    let nodes = env::var(variable).expect("KVBENCH_PD or KVBENCH_NODES names the cluster for this test");
    Location::Cluster {
        nodes: nodes.split(',').map(String::from).collect(),
        prefix,
        access: ClusterAccess::default(),
    }
}

/// An engine that is open on data of its own.
pub struct Open {
    /// What it is.
    pub cell: EngineCase,
    /// What it was opened with.
    pub options: OpenOptions,
    engine: Option<Box<dyn Engine>>,
    _scratch: TempDir,
}

impl EngineCase {
    /// A new engine, with files that go with it.
    pub fn open(self) -> Open {
        let scratch = scratch();
        let mut options = options(scratch.path().join("data"), self.fsync);
        if self.memory {
            options.location = Location::Memory;
        } else if self.kind.info.family.is_shared() {
            options.location = cluster(self.kind.info.family, scratch.path().as_os_str().as_encoded_bytes());
        }
        self.open_with(options, scratch)
    }

    /// Whether the engine says that a kill loses nothing.
    pub fn survives_a_kill(self) -> bool {
        self.kind.info.loss(self.fsync).kill.extent == LossClass::Nothing
    }

    /// The same with options, whose path is in `scratch`.
    pub fn open_with(self, options: OpenOptions, scratch: TempDir) -> Open {
        let engine = Some(self.kind.open(&options).unwrap());
        Open { cell: self, options, engine, _scratch: scratch }
    }
}

impl Open {
    /// The engine.
    pub fn engine(&self) -> &dyn Engine {
        self.engine.as_deref().unwrap()
    }

    /// Where its data are.
    pub fn path(&self) -> PathBuf {
        let path = self.options.location.path();
        path.unwrap_or_else(|| panic!("{} has no path", self.cell)).to_owned()
    }

    /// Drops the engine, after a `close()` if so asked, and opens it again.
    pub fn reopen(&mut self, close: bool) {
        self.shut(close);
        self.open_again();
    }

    /// Opens the engine that was shut or taken.
    pub fn open_again(&mut self) {
        self.engine = Some(self.cell.kind.open(&self.options).unwrap());
    }

    /// The engine itself, for a call that ends it.
    pub fn take(&mut self) -> Box<dyn Engine> {
        self.engine.take().unwrap()
    }

    /// Drops the engine, after a `close()` if so asked.
    pub fn shut(&mut self, close: bool) {
        let engine = self.take();
        if close {
            engine.close().unwrap();
        }
    }

    /// The engine on a copy of the files as they are now: what a kill would leave behind.
    pub fn after_a_kill(&self) -> Open {
        let scratch = scratch();
        if self.options.location.path().is_none() {
            // Nothing is here that a kill could end.
            return self.cell.open_with(self.options.clone(), scratch);
        }
        let path = scratch.path().join("data");
        copy(&self.path(), &path);
        self.cell.open_with(options(path, self.cell.fsync), scratch)
    }

    /// Writes as the store does under the cell's policy.
    pub fn try_write<'a>(&self, fill: impl FnOnce(&mut Batch<'a>)) -> Result<()> {
        let mut batch = Batch::default();
        fill(&mut batch);
        self.engine().write(&batch, self.cell.fsync == Fsync::Always)
    }

    /// Writes, or fails the test.
    pub fn write<'a>(&self, fill: impl FnOnce(&mut Batch<'a>)) {
        self.try_write(fill).unwrap();
    }

    /// Writes one pair.
    pub fn put(&self, key: &[u8], value: &[u8]) {
        let mut batch = Batch::default();
        batch.put(key, value);
        self.engine().write(&batch, self.cell.fsync == Fsync::Always).unwrap();
    }

    /// Reads keys in one call.
    pub fn read(&self, keys: &[&[u8]]) -> Vec<Option<Vec<u8>>> {
        let mut values = Vec::new();
        let mut visit = |index: usize, value: Option<&[u8]>| {
            assert_eq!(index, values.len(), "visited in order");
            values.push(value.map(Vec::from));
            ControlFlow::Continue(())
        };
        self.engine().read(keys, &mut visit).unwrap();
        assert_eq!(values.len(), keys.len(), "one visit for each key");
        values
    }

    /// Reads one key.
    pub fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.read(&[key]).pop().unwrap()
    }

    /// Up to `limit` pairs of `range`, sorted if the engine is not.
    pub fn scan(&self, range: KeyRange<'_>, limit: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut pairs = Vec::new();
        let mut visit = |key: &[u8], value: &[u8]| {
            assert!(pairs.len() < limit, "visited after it was stopped");
            pairs.push((key.to_vec(), value.to_vec()));
            if pairs.len() == limit { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        self.engine().scan(range, &mut visit).unwrap();
        if !self.cell.kind.info.ordered {
            pairs.sort();
        }
        pairs
    }

    /// Every pair, sorted.
    pub fn all(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        self.scan(KeyRange::ALL, usize::MAX)
    }

    /// What the engine says of the number of keys.
    pub fn count(&self) -> u64 {
        self.engine().count().unwrap()
    }
}

/// Copies files that background threads of the engine may be changing: until nothing changed on the
/// way, as a kill sees all of them at one moment.
fn copy(from: &Path, to: &Path) {
    loop {
        let unchanged = || {
            let before = list(from)?;
            try_copy(from, to)?;
            io::Result::Ok(list(from)? == before)
        };
        match unchanged() {
            Ok(true) => return,
            Ok(false) => {}
            // Gone since it was listed.
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::NotFound, "{error}"),
        }
        let _ = if to.is_dir() { fs::remove_dir_all(to) } else { fs::remove_file(to) };
    }
}

fn try_copy(from: &Path, to: &Path) -> io::Result<()> {
    if !from.is_dir() {
        return fs::copy(from, to).map(drop);
    }
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        try_copy(&entry.path(), &to.join(entry.file_name()))?;
    }
    Ok(())
}

/// Every file with its length and the time it was last changed.
fn list(path: &Path) -> io::Result<BTreeSet<(PathBuf, u64, SystemTime)>> {
    let metadata = fs::metadata(path)?;
    if !metadata.is_dir() {
        return Ok([(path.to_owned(), metadata.len(), metadata.modified()?)].into());
    }
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(path)? {
        found.append(&mut list(&entry?.path())?);
    }
    Ok(found)
}

/// `pairs` as `Open::all` returns them.
pub fn pairs(pairs: &[(&[u8], &[u8])]) -> Vec<(Vec<u8>, Vec<u8>)> {
    pairs.iter().map(|(key, value)| (key.to_vec(), value.to_vec())).collect()
}

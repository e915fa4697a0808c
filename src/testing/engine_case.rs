//! Engines and settings under test, and an open engine with its files.

use crate::engine::{
    Batch, ClusterAccess, Engine, Error, Fsync, Info, KeyRange, Kind, Location, LossClass, OpenOptions,
    Result,
};
use std::{
    collections::BTreeSet,
    env, fmt, fs, io,
    ops::ControlFlow,
    path::{Path, PathBuf},
    time::SystemTime,
};
use tempfile::TempDir;

/// Engine under test, with the fsync policy and the place of the data for one run of a test.
#[derive(Clone, Copy)]
pub struct EngineCase {
    /// Engine under test.
    pub kind: &'static Kind,
    /// Fsync policy under which the engine is opened.
    pub fsync: Fsync,
    /// `true` if the engine is opened in memory, without files.
    pub memory: bool,
}

impl fmt::Display for EngineCase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = if self.memory { " in memory" } else { "" };
        write!(f, "{} {}{place}", self.kind.info.name, self.fsync)
    }
}

/// Runs `test` with an engine in files (or, for an engine on other machines, on the [`cluster`] of the tests), under
/// every fsync policy that it supports.
pub fn for_each_on_disk(kind: &'static Kind, mut test: impl FnMut(EngineCase)) {
    for fsync in Fsync::ALL {
        if !kind.info.supports(fsync) {
            // The engine has only one policy.
            continue;
        }
        let cell = EngineCase { kind, fsync, memory: false };
        // The test harness shows this line if the test fails.
        println!("{cell}");
        test(cell);
    }
}

/// Runs `test` as [`for_each_on_disk`] does, and then with the engine in memory if it supports that.
pub fn for_each(kind: &'static Kind, mut test: impl FnMut(EngineCase)) {
    for_each_on_disk(kind, &mut test);
    if kind.info.capabilities.in_memory {
        let cell = EngineCase { kind, fsync: Fsync::No, memory: true };
        println!("{cell}");
        test(cell);
    }
}

/// Creates a temporary directory for the data of one test.
pub fn scratch() -> TempDir {
    tempfile::tempdir().unwrap()
}

/// Returns the names of the entries of a directory, sorted.
pub fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Returns the options of most tests: a cache of 16 MiB, a map of at most 256 MiB, no limit of open files.
pub fn options(path: impl Into<PathBuf>, fsync: Fsync) -> OpenOptions {
    OpenOptions {
        cache_size: 16 << 20,
        map_size: 256 << 20,
        max_files: u64::MAX,
        ..OpenOptions::new(Location::Path(path.into()), fsync)
    }
}

/// Opens the data at `path` under `fsync always`, with the [`options`] of most tests.
///
/// # Errors
///
/// Errors of [`Kind::open`].
pub fn open_at(kind: &Kind, path: &Path) -> Result<Box<dyn Engine>> {
    kind.open(&options(path, Fsync::Always))
}

/// Returns the error of [`open_at`], and panics if the engine opens the data.
pub fn error_at(kind: &Kind, path: &Path) -> Error {
    match open_at(kind, path) {
        Ok(_) => panic!("{} opened {}", kind.info.name, path.display()),
        Err(error) => error,
    }
}

/// Returns the cluster that the tests use. The environment variable `KVBENCH_PD` (with hash slots:
/// `KVBENCH_NODES`) names its nodes as `host:port,...`. With hash slots, all keys get the same slot, so that a
/// batch may have any keys.
///
/// # Panics
///
/// If the environment variable is not set.
pub fn cluster(info: &Info, prefix: &[u8]) -> Location {
    let (variable, prefix) = match info.capabilities.hash_slots {
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

/// Open engine of a test, with data of its own.
pub struct Open {
    /// Engine under test and its settings.
    pub cell: EngineCase,
    /// Options with which the engine was opened.
    pub options: OpenOptions,
    engine: Option<Box<dyn Engine>>,
    _scratch: TempDir,
}

impl EngineCase {
    /// Opens a new engine: in memory, under a new prefix of keys on the [`cluster`] of the tests, or in a new temporary
    /// directory.
    pub fn open(self) -> Open {
        let scratch = scratch();
        let mut options = options(scratch.path().join("data"), self.fsync);
        if self.memory {
            options.location = Location::Memory;
        } else if self.kind.info.capabilities.multi_writer {
            options.location = cluster(self.kind.info, scratch.path().as_os_str().as_encoded_bytes());
        }
        self.open_with(options, scratch)
    }

    /// Returns `true` if the engine's `Info` says that a kill loses nothing under the fsync policy of the case.
    pub fn survives_a_kill(self) -> bool {
        self.kind.info.loss(self.fsync).kill.extent == LossClass::Nothing
    }

    /// Opens a new engine with these options, whose path is in `scratch`.
    pub fn open_with(self, options: OpenOptions, scratch: TempDir) -> Open {
        let engine = Some(self.kind.open(&options).unwrap());
        Open { cell: self, options, engine, _scratch: scratch }
    }
}

impl Open {
    /// Returns the open engine.
    pub fn engine(&self) -> &dyn Engine {
        self.engine.as_deref().unwrap()
    }

    /// Returns the path of the engine's data; panics if it has none.
    pub fn path(&self) -> PathBuf {
        let path = self.options.location.path();
        path.unwrap_or_else(|| panic!("{} has no path", self.cell)).to_owned()
    }

    /// Drops the engine, after a `close()` if `close` is `true`, and opens it again.
    pub fn reopen(&mut self, close: bool) {
        self.shut(close);
        self.open_again();
    }

    /// Opens the engine again on its data after [`Open::shut`] or [`Open::take`]; panics if that fails.
    pub fn open_again(&mut self) {
        self.try_open_again().unwrap();
    }

    /// Opens the engine again on its data after [`Open::shut`] or [`Open::take`].
    ///
    /// # Errors
    ///
    /// Errors of [`Kind::open`].
    pub fn try_open_again(&mut self) -> Result<()> {
        self.engine = Some(self.cell.kind.open(&self.options)?);
        Ok(())
    }

    /// Takes the engine out, for a call that consumes it.
    pub fn take(&mut self) -> Box<dyn Engine> {
        self.engine.take().unwrap()
    }

    /// Drops the engine, after a `close()` if `close` is `true`; its files stay.
    pub fn shut(&mut self, close: bool) {
        let engine = self.take();
        if close {
            engine.close().unwrap();
        }
    }

    /// Opens a second engine on a copy of the current files, which is what a kill would leave. An engine on other
    /// machines is opened on the same data; one in memory would be empty.
    pub fn after_a_kill(&self) -> Open {
        let scratch = scratch();
        if self.options.location.path().is_none() {
            // The data are on other machines, where a kill of this process has no effect.
            return self.cell.open_with(self.options.clone(), scratch);
        }
        let path = scratch.path().join("data");
        copy(&self.path(), &path);
        self.cell.open_with(options(path, self.cell.fsync), scratch)
    }

    /// Writes a batch that `fill` fills, with a sync if the fsync policy of the case is `always`.
    ///
    /// # Errors
    ///
    /// Errors of [`Engine::write`].
    pub fn try_write<'a>(&self, fill: impl FnOnce(&mut Batch<'a>)) -> Result<()> {
        let mut batch = Batch::default();
        fill(&mut batch);
        self.engine().write(&batch, self.cell.fsync == Fsync::Always)
    }

    /// Writes a batch that `fill` fills, with a sync if the fsync policy of the case is `always`, and panics if that
    /// fails.
    pub fn write<'a>(&self, fill: impl FnOnce(&mut Batch<'a>)) {
        self.try_write(fill).unwrap();
    }

    /// Writes one pair, with a sync if the fsync policy of the case is `always`; panics if that fails.
    pub fn put(&self, key: &[u8], value: &[u8]) {
        self.write(|batch| batch.put(key, value));
    }

    /// Reads `keys` in one call, and returns the value of each (`None`: absent).
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

    /// Reads one key, and returns its value or `None` if the key does not exist.
    pub fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.read(&[key]).pop().unwrap()
    }

    /// Returns up to `limit` pairs of `range`, sorted here if the engine is unordered.
    pub fn scan(&self, range: KeyRange<'_>, limit: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut pairs = Vec::new();
        let mut visit = |key: &[u8], value: &[u8]| {
            assert!(pairs.len() < limit, "visited after it was stopped");
            pairs.push((key.to_vec(), value.to_vec()));
            if pairs.len() == limit { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        self.engine().scan(range, &mut visit).unwrap();
        if !self.cell.kind.info.capabilities.ordered {
            pairs.sort();
        }
        pairs
    }

    /// Returns all pairs of the engine, sorted by key.
    pub fn all(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        self.scan(KeyRange::ALL, usize::MAX)
    }

    /// Returns the number of keys that the engine reports.
    pub fn count(&self) -> u64 {
        self.engine().count().unwrap()
    }
}

/// Copies files that background threads of the engine may change. Repeats the copy until no file changed during
/// it, since a kill leaves all files as they are at one time.
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
            // The file was removed after it was listed.
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

/// Returns all files below `path`, or `path` itself, with their lengths in bytes and times of modification.
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

/// Returns `pairs` in the form that `Open::all` returns.
pub fn pairs(pairs: &[(&[u8], &[u8])]) -> Vec<(Vec<u8>, Vec<u8>)> {
    pairs.iter().map(|(key, value)| (key.to_vec(), value.to_vec())).collect()
}

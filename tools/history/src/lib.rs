//! Major versions of redb and of fjall as engines of one program, so that a benchmark can compare them in turns. Versions of
//! C libraries are in programs of their own, which this one starts: see [`programs`].
//!
//! All versions of a library are used in the same way. For each read redb begins a transaction and opens the table; kvbench's
//! own engine `redb` shares one table among all reads, which version 1 does not allow, so its results differ.

mod fjall;
pub mod programs;
mod redb;

use kvbench::engine::{
    Batch, Capabilities, Check, CheckReport, Compression, Engine, Error, Family, FsyncSupport, Info,
    KeyRange, Kind, Location, Loss, LossBound, LossClass, OpenFiles, OpenOptions, Result, Status, VisitPair,
    VisitValue, Writers,
    files::{FirstTree, disk_size, lock},
};
use std::{
    fs::File,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

/// Engines of this program, for the tests.
pub static KINDS: &[Kind] = &OWN;

const OWN: [Kind; 6] = [
    kind::<redb::v1::Redb>(),
    kind::<redb::v2::Redb>(),
    kind::<redb::v3::Redb>(),
    kind::<redb::v4::Redb>(),
    kind::<fjall::v2::Fjall>(),
    kind::<fjall::v3::Fjall>(),
];

/// Returns the engines of this program and those of the programs in its directory, for `kvbench::main`.
pub fn kinds() -> &'static [Kind] {
    Vec::leak(OWN.into_iter().chain(programs::kinds()).collect())
}

/// Error of a library.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Open database of one version of a library. The methods are those of [`Engine`] with the same names; keys of a batch have
/// a length that the library accepts.
pub trait Library: Send + Sync + Sized + 'static {
    /// Description of the engine.
    const INFO: &'static Info;

    /// Opens the database in the directory `path`, or creates it.
    fn open(path: &Path, options: &OpenOptions) -> Result<Self, Failure>;
    fn read(&self, keys: &[&[u8]], visit: &mut VisitValue<'_>) -> Result<(), Failure>;
    fn write(&self, batch: &Batch<'_>, sync: bool) -> Result<(), Failure>;
    fn sync(&self) -> Result<(), Failure>;
    fn scan(&self, range: KeyRange<'_>, visit: &mut VisitPair<'_>) -> Result<(), Failure>;
    fn count(&self) -> Result<u64, Failure>;
    fn quiesce(&self) -> Result<(), Failure> {
        self.sync()
    }
}

/// Engine of a version of a library, with its data in a subdirectory of the store's directory that has the name of the
/// engine: the versions of a library may have the same file format, but each must recognise only its own data.
struct Stored<L> {
    library: L,
    /// Directory of the store.
    path: PathBuf,
    /// The same directory, locked against other processes.
    _directory: File,
}

/// Returns the entry of an engine.
pub const fn kind<L: Library>() -> Kind {
    Kind::new(L::INFO, open::<L>, recognise::<L>, Check::OnCopy(check_copy::<L>))
}

fn fail<L: Library>(error: Failure) -> Error {
    Error::library(L::INFO.name, error)
}

fn open<L: Library>(options: &OpenOptions) -> Result<Box<dyn Engine>> {
    let name = L::INFO.name;
    let Location::Path(path) = &options.location else {
        return Err(Error::Unsupported { engine: name, what: "needs a --path on disk".into() });
    };
    if let Some(first) = FirstTree::begin(path, name)? {
        drop(L::open(first.path(), options).map_err(fail::<L>)?);
        first.end()?;
    }
    let directory = File::open(path).map_err(Error::io("open", path))?;
    lock(&directory, path)?;
    let library = L::open(&path.join(name), options).map_err(fail::<L>)?;
    Ok(Box::new(Stored { library, path: path.clone(), _directory: directory }))
}

fn recognise<L: Library>(path: &Path) -> bool {
    path.join(L::INFO.name).is_dir()
}

fn check_copy<L: Library>(path: &Path) -> Result<CheckReport> {
    CheckReport::by_scan(open::<L>(&OpenOptions::for_check(path))?)
}

impl<L: Library> Engine for Stored<L> {
    fn info(&self) -> &'static Info {
        L::INFO
    }

    fn read(&self, keys: &[&[u8]], visit: &mut VisitValue<'_>) -> Result<()> {
        self.library.read(keys, visit).map_err(fail::<L>)
    }

    fn write(&self, batch: &Batch<'_>, sync: bool) -> Result<()> {
        batch.check_keys(L::INFO.name, L::INFO.key_length)?;
        self.library.write(batch, sync).map_err(fail::<L>)
    }

    fn sync(&self) -> Result<()> {
        self.library.sync().map_err(fail::<L>)
    }

    fn quiesce(&self) -> Result<()> {
        self.library.quiesce().map_err(fail::<L>)
    }

    fn scan(&self, range: KeyRange<'_>, visit: &mut VisitPair<'_>) -> Result<()> {
        if range.is_empty() {
            return Ok(());
        }
        self.library.scan(range, visit).map_err(fail::<L>)
    }

    fn count(&self) -> Result<u64> {
        self.library.count().map_err(fail::<L>)
    }

    fn disk_size(&self) -> Result<u64> {
        disk_size(&self.path)
    }
}

/// Waits until `is_busy` has returned `false` three times in a row: a compaction may begin shortly after a flush. `check`
/// returns an error if background work has failed.
pub fn wait_while(
    is_busy: impl Fn() -> bool,
    check: impl Fn() -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut idle = 0;
    while idle < 3 {
        check()?;
        idle = if is_busy() { 0 } else { idle + 1 };
        thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Returns the description of an engine that hands each write to the operating system before it acknowledges it.
const fn info(name: &'static str, library: &'static str, family: Family) -> Info {
    Info {
        name,
        library,
        own_format: None,
        family,
        status: Status::Experimental,
        needs: &[],
        capabilities: Capabilities { ordered: true, counts_allocations: true, ..Capabilities::NONE },
        writers: Writers::Serialized,
        fsync: FsyncSupport::Changeable,
        key_length: (1, u16::MAX as usize),
        compression: &[Compression::None],
        cache: "cache of the library of this size",
        open_files: OpenFiles::always(8),
        cluster_flag: None,
        loss: [
            Loss::NOTHING,
            Loss::power_cut(LossBound::seconds("about a second")),
            Loss::power_cut(LossBound::new(LossClass::Unwritten, "what the system had not written")),
        ],
        caveats: &[],
        same_design: &[],
        log_targets: &[],
    }
}

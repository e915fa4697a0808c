//! List of engines, and detection of the engine whose data are at a path.

use super::{
    Engine, Error, Kind, Location, OpenOptions, Result, files, page_cache,
    stores::{DISTRIBUTED_ROWS, ROWS, Row},
};
pub use super::{
    stores::{DISTRIBUTED, KINDS},
    synthetic::FAULTY,
};
use std::{fs, io, path::Path, sync::OnceLock, thread, time::Duration};

/// Prepares the libraries of all engines of this process ([`Kind::before_threads`]). Must be called before the process
/// starts threads or other processes.
pub fn prepare() {
    all_kinds().for_each(|kind| (kind.before_threads)());
}

/// Engines that this process has added to those of the build.
static OTHERS: OnceLock<&'static [Kind]> = OnceLock::new();

/// Adds engines to those of this build, once per process. Another call with engines of the same names has no effect.
///
/// # Errors
///
/// [`Error::Unsupported`] if another engine of this build has the name of one of them, or if other engines were added
/// before.
pub fn register(others: &'static [Kind]) -> Result<()> {
    add(&OTHERS, others)
}

/// Adds the engines `others` to those of the build, in `added`: see [`register`].
fn add(added: &OnceLock<&'static [Kind]>, others: &'static [Kind]) -> Result<()> {
    let Some(first) = others.first() else { return Ok(()) };
    for (at, kind) in others.iter().enumerate() {
        let engine = kind.info.name;
        let mut before = others.iter().take(at).chain(KINDS).chain(DISTRIBUTED).chain(FAULTY);
        if before.any(|other| other.info.name == engine) {
            return Err(Error::Unsupported { engine, what: "is the name of two engines".into() });
        }
    }
    let names = |kinds: &[Kind]| kinds.iter().map(|kind| kind.info.name).collect::<Vec<_>>();
    // Tests in one process may register the same engines again.
    if names(added.get_or_init(|| others)) == names(others) {
        return Ok(());
    }
    let what =
        "cannot be added, because this process has added other engines before; add all of them at once";
    Err(Error::Unsupported { engine: first.info.name, what: what.into() })
}

/// Returns the engines of this build with data on this machine, and those that were registered.
pub fn kinds() -> impl Iterator<Item = &'static Kind> + Clone {
    KINDS.iter().chain(OTHERS.get().copied().unwrap_or_default())
}

/// Returns every engine that `--store` accepts: those of [`kinds`], those on other machines, and in builds for tests
/// those that fail on purpose.
pub fn all_kinds() -> impl Iterator<Item = &'static Kind> + Clone {
    kinds().chain(DISTRIBUTED).chain(FAULTY)
}

/// Returns the names of the engines for data on this machine that this build lacks, with their Cargo features.
pub fn absent() -> impl Iterator<Item = (String, &'static str)> {
    let optional = ROWS.iter().filter_map(|row| Some((name(row), row.1?)));
    optional.filter(|(name, _)| Kind::find(name).is_none())
}

/// Returns the Cargo feature of an engine; `None` if every build has the engine, or if it is in no list.
pub fn feature(engine: &str) -> Option<&'static str> {
    ROWS.iter().chain(DISTRIBUTED_ROWS).find(|row| name(row) == engine)?.1
}

/// Returns a hint for a user who asked for the engine `name`, which this build does not have: the Cargo feature that adds
/// it, or the stores of the same design. `None` if no build has the engine, and no store of this build has it in
/// [`super::Info::same_design`].
pub fn absent_hint(name: &str) -> Option<String> {
    if let Some(feature) = feature(name) {
        return Some(format!("this build has no {name}; build kvbench with --features {feature}"));
    }
    let name = name.to_ascii_lowercase();
    let stores = kinds().filter(|kind| kind.info.same_design.contains(&&*name)).map(|kind| kind.info.name);
    let stores = stores.collect::<Vec<_>>().join(", ");
    let hint =
        || format!("kvbench has no {name}; stores of the same design: {stores} (docs/publications.md)");
    (!stores.is_empty()).then(hint)
}

/// Returns the name in `--store` of an engine in the list of a build.
fn name((module, _): &Row) -> String {
    module.replace('_', "-")
}

impl Kind {
    /// Engine that is used without `--store`: the first of the list.
    pub const DEFAULT: &'static Self = KINDS.first().expect("map is in every build");

    /// Returns the engine named `name`, or `None` if this process does not have it.
    pub fn find(name: &str) -> Option<&'static Kind> {
        all_kinds().find(|kind| kind.info.name == name)
    }

    /// Returns the engine whose data are at `path`: the first of the list if several can open them. `None` if the
    /// path is absent, empty, or holds something else.
    pub fn owner(path: &Path) -> Option<&'static Kind> {
        kinds().find(|kind| (kind.recognise)(path))
    }

    /// Opens or creates the engine's data, after checking that the path does not contain other data.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] if the engine cannot have data there, [`Error::Foreign`] if the path holds other data,
    /// [`Error::Locked`] if another process uses them, and errors of the engine.
    pub fn open(&self, options: &OpenOptions) -> Result<Box<dyn Engine>> {
        self.check_location(&options.location)?;
        if let Some(program) = self.program {
            let what = format!("is in the program {}; run that one", program.display());
            return Err(Error::Unsupported { engine: self.info.name, what });
        }
        let Location::Path(path) = &options.location else { return when_unlocked(|| (self.open)(options)) };
        let mark = page_cache::evict_after_failed_sync(path)?;
        check_owner(path, self)?;
        let engine = when_unlocked(|| (self.open)(options))?;
        if let Some(Err(error)) = mark.map(|mark| fs::remove_file(&mark).map_err(Error::io("remove", mark))) {
            log::warn!("{error}: the next start empties the page cache again");
        }
        Ok(engine)
    }
}

impl Kind {
    /// Fails if `location` is on other machines and the engine has its data on this machine, or the reverse. Does not
    /// check whether the engine supports `--path :memory:`.
    fn check_location(&self, location: &Location) -> Result<()> {
        let what = match (location, self.info.capabilities.multi_writer) {
            (Location::Path(_) | Location::Memory, true) => "keeps its data on other machines",
            (Location::Cluster { .. }, false) => "keeps its data on this machine",
            _ => return Ok(()),
        };
        Err(Error::Unsupported { engine: self.info.name, what: what.into() })
    }
}

/// Retries for half a second if the data are locked, because a lock of this process can outlive its engine
/// briefly: a thread of sled's pool may hold it, and a process that another thread starts shares every lock on an
/// open file (flock(2)) between fork and exec.
pub(in crate::engine) fn when_unlocked<T>(open: impl Fn() -> Result<T>) -> Result<T> {
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
    let empty = if metadata.is_dir() { files::is_unused(path, engine)? } else { metadata.len() == 0 };
    if empty || (kind.recognise)(path) {
        return Ok(());
    }
    files::check_readable(path)?;
    let is_of = |other: &&Kind| (other.recognise)(path) || files::has_unfinished_start(path, other.info.name);
    let owners: Vec<_> = kinds().filter(is_of).map(|other| other.info.name).collect();
    let found = match owners.as_slice() {
        [] => "something else".into(),
        owners => format!("data of {}", owners.join(" or ")),
    };
    Err(Error::Foreign { path: path.into(), engine, found, owner: owners.first().copied() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Fsync, Info, stores::btree};

    static ONE: Info = Info { name: "one", ..*btree::KIND.info };
    static TWO: Info = Info { name: "two", ..*btree::KIND.info };

    /// Returns an engine for tests with the description `info`.
    const fn kind(info: &'static Info) -> Kind {
        Kind { info, ..btree::KIND }
    }

    #[test]
    fn other_engines_cannot_be_added_later() {
        static FIRST: [Kind; 1] = [kind(&ONE)];
        static SAME: [Kind; 1] = [kind(&ONE)];
        static BOTH: [Kind; 2] = [kind(&ONE), kind(&TWO)];
        static OTHER: [Kind; 1] = [kind(&TWO)];
        let list = OnceLock::new();
        add(&list, &[]).unwrap();
        add(&list, &FIRST).unwrap();
        for again in [&FIRST, &SAME] {
            add(&list, again).unwrap();
        }
        add(&list, &[]).unwrap();
        for (others, name) in [(&OTHER[..], "two"), (&BOTH, "one")] {
            let text = add(&list, others).unwrap_err().to_string();
            assert!(text.starts_with(&format!("{name} cannot be added")), "{text}");
        }
        assert_eq!(list.get().unwrap().len(), 1);
    }

    #[test]
    fn two_engines_cannot_have_one_name() {
        static TWICE: [Kind; 2] = [kind(&ONE), kind(&ONE)];
        static TAKEN: [Kind; 2] = [kind(&ONE), btree::KIND];
        for (others, name) in [(&TWICE, "one"), (&TAKEN, "btree")] {
            let list = OnceLock::new();
            let text = add(&list, others).unwrap_err().to_string();
            assert_eq!(text, format!("{name} is the name of two engines"));
            assert!(list.get().is_none());
        }
    }

    #[test]
    fn an_engine_of_another_program_is_not_opened_but_named_with_its_program() {
        let kind = Kind::in_program(&ONE, Path::new("/programs/one"));
        let directory = tempfile::tempdir().unwrap();
        let location = Location::Path(directory.path().join("data"));
        let error = kind.open(&OpenOptions::new(location, Fsync::No)).err().unwrap();
        assert_eq!(error.to_string(), "one is in the program /programs/one; run that one");
        assert!(fs::read_dir(directory.path()).unwrap().next().is_none());
    }

    #[test]
    fn an_engine_has_the_name_of_its_module() {
        for (kinds, rows) in [(KINDS, ROWS), (DISTRIBUTED, DISTRIBUTED_ROWS)] {
            let names: Vec<_> = rows.iter().map(name).collect();
            for kind in kinds {
                assert!(names.iter().any(|name| name == kind.info.name), "{}", kind.info.name);
            }
            let missing = names.iter().filter(|name| Kind::find(name).is_none());
            assert_eq!(missing.count() + kinds.len(), rows.len());
        }
    }

    #[test]
    fn an_engine_is_absent_only_without_its_feature() {
        for (name, feature) in absent() {
            assert!(Kind::find(&name).is_none() && super::feature(&name) == Some(feature), "{name}");
        }
        assert_eq!(feature(Kind::DEFAULT.info.name), None);
        assert!(absent_hint("tikv").is_some_and(|hint| hint.ends_with("--features tikv")));
    }
}

//! `sled`: sled 0.34. A latch-free B+ tree over a log of page changes.

mod two_group_lock;

use crate::engine::{
    Batch, Capabilities, Caveat, Check, CheckReport, Compression, Engine, Error, Family, Fsync, FsyncSupport,
    Info, KeyRange, Kind, Loss, LossBound, LossClass, OpenFiles, OpenOptions, Result, Setting, Status,
    VisitPair, VisitValue, WriteOp, Writers,
    files::{self, FirstDirectory},
    refusal::Refusal,
};
use std::{
    collections::HashMap,
    ffi::{OsStr, OsString},
    fs::{self, File, Metadata},
    io, mem,
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};
use two_group_lock::{Group, GroupLock};

/// Entry of the engine `sled` in the list of engines.
pub const KIND: Kind = Kind::new(&INFO, Sled::open, recognise, Check::OnCopy(check_copy))
    .with_settings(|options| vec![("page cache", Setting::Bytes(cache_capacity(options)))]);

const NAME: &str = "sled";

static INFO: Info = Info {
    name: NAME,
    library: "sled 0.34.7",
    own_format: None,
    family: Family::LogBTree,
    status: Status::Stable,
    needs: &[],
    capabilities: Capabilities { ordered: true, counts_allocations: true, ..Capabilities::NONE },
    writers: Writers::Concurrent,
    fsync: FsyncSupport::Changeable,
    key_length: (0, MAX_KEY),
    compression: &[Compression::None],
    cache: "page cache of this size",
    // A large value is read from a separate file.
    open_files: OpenFiles { least: 24, most: 24, per_read: 1 },
    cluster_flag: None,
    loss: [
        Loss::power_cut(LossBound::new(
            LossClass::Everything,
            "usually nothing; in 3 of 80 tests the whole database (reads failed)",
        )),
        Loss {
            kill: LossBound::seconds("about a second"),
            power_cut: LossBound::new(
                LossClass::Everything,
                "about two seconds, and possibly the whole database (it may not open again)",
            ),
        },
        Loss {
            kill: LossBound::new(LossClass::Buffer, "what sled's write buffer of 512 KiB holds"),
            power_cut: LossBound::new(
                LossClass::Everything,
                "what was not written, and possibly the whole database (it may not open again)",
            ),
        },
    ],
    caveats: &[
        Caveat::unsynced(
            "After a power cut that left writes out of order, sled could not open its log: it panics (kvbench \
            torture --store sled --fsync no --mode power).",
        ),
        Caveat::in_files(
            "In 3 of 80 tests under always, a power cut damaged data that were synced before: sled orders its writes by \
             sync_file_range, which does not make them durable, and uses their space again.",
        ),
        Caveat::under(
            Fsync::Always,
            "Under always, readers see a batch before it is synced: sled applies and syncs it in two steps.",
        ),
        Caveat::under(
            Fsync::EverySec,
            "Under everysec, sled's own timer thread also writes its buffer and cleans segments once a second, beside \
            the syncs of kvbench.",
        ),
        Caveat::in_files(
            "Under always and no, sled's timer thread is off, and with it the only thread that cleans segments: space \
            of overwritten pages is used again only when a whole segment is dead. With its default, sled cleans twice a \
            second.",
        ),
        Caveat::new("sled's own flush() does not reach stable storage; kvbench syncs its files itself."),
        Caveat::new(
            "To set a key to the value that it already has writes nothing, so a load of identical values measures \
            no writes.",
        ),
        Caveat::new(
            "sled has no snapshots: writes wait while a scan, or a read of several keys, runs. Reads wait while a batch \
            of several writes is applied.",
        ),
        Caveat::new("Values above about 128 KiB become separate files; a synced commit lists all of them."),
        Caveat::new(
            "A start that is killed, or finds no space, can leave an incomplete snapshot, with which sled never \
            opens again (sled's issue 1527); kvbench removes it.",
        ),
        Caveat::new("FLUSHDB first collects all keys in memory, because sled's own clear is not atomic."),
        Caveat::new("After a failed write (also on a full disk) it accepts no writes until a restart."),
        Caveat::in_files(
            "Writes can wait forever after its log has shrunk, for example when FLUSHDB and batches of long values alternate \
            (under no in 2 of 6 tests; sled's pull request 1269, not released), and after the failed write of a batch to the \
            disk; only SIGKILL ends the process then.",
        ),
        Caveat::in_files(
            "A batch that finds no space, and is answered with an error, can be half there, for readers at once and after a \
             kill (in 1 of 16 tests).",
        ),
        Caveat::new("Its last release is from 2021."),
    ],
    same_design: &[],
    log_targets: &[],
};

/// Maximum length of a key, in bytes: Redis' limit. sled has no limit of its own.
const MAX_KEY: usize = 512 << 20;

/// Name of sled's file with the log of page changes.
const LOG_FILE: &str = "db";
/// Name of sled's file with the settings that must not change between starts.
const CONF_FILE: &str = "conf";
/// Name of sled's directory with one file per large record.
const BLOB_DIR: &str = "blobs";

fn recognise(path: &Path) -> bool {
    path.join(CONF_FILE).is_file() && path.join(LOG_FILE).is_file()
}

/// Returns `true` for a file that an interrupted first start may have left: the log holds at most its first
/// record, and there is no file of a large record.
fn is_first(name: &str, metadata: &Metadata) -> bool {
    let is_snapshot = name.starts_with("snap.");
    match metadata.is_dir() {
        true => name == BLOB_DIR,
        false => name == CONF_FILE || is_snapshot || name == LOG_FILE && metadata.len() <= 64 << 10,
    }
}

struct Sled {
    db: sled::Db,
    /// Refusal of writes and syncs after a failed write. After a large value whose file could not be written, sled waits
    /// without end for this write in each sync, in writes that fill its buffer, and when it is dropped.
    refusal: Refusal,
    path: PathBuf,
    /// Writes run concurrently with each other, but not while several keys or a range are read: sled has no
    /// snapshots. A `get` of one key waits only for sled's own lock, which a batch of several writes takes.
    exclusion: GroupLock,
    log: File,
    /// Length in bytes of each of sled's blob files (of large records) when it was synced last, by its name: a file that
    /// has grown since was being written. The highest number of a file would not suffice: sled's threads take their
    /// numbers before they create the files.
    synced_blobs: Mutex<HashMap<OsString, u64>>,
}

/// Removes snapshots of the page table that a killed or failed start left incomplete: sled reads the last file
/// whose name starts with `snap.`, and would then report it as corrupt at every start
/// (github.com/spacejam/sled/issues/1527). The previous snapshot still exists, as does the log from which sled
/// reads the later changes.
fn remove_unfinished_snapshots(path: &Path) -> Result<()> {
    let log_path = path.join(LOG_FILE);
    let log = match File::open(&log_path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        log => log.map_err(Error::io("open", log_path))?,
    };
    // sled's own lock: another process may be opening the database now.
    files::lock(&log, path)?;
    for entry in fs::read_dir(path).map_err(Error::io("list", path))? {
        let entry = entry.map_err(Error::io("list", path))?;
        if is_unfinished_snapshot(&entry.file_name()) {
            files::remove_leftover(&entry.path())?;
        }
    }
    Ok(())
}

fn is_unfinished_snapshot(name: &OsStr) -> bool {
    name.to_str().is_some_and(|name| name.starts_with("snap.") && name.ends_with(".generating"))
}

/// Returns the size of sled's page cache, in bytes.
fn cache_capacity(options: &OpenOptions) -> u64 {
    options.cache_size.max(1 << 20)
}

impl Sled {
    fn open(options: &OpenOptions) -> Result<Box<dyn Engine>> {
        Ok(Box::new(Self::open_as(options)?))
    }

    fn open_as(options: &OpenOptions) -> Result<Self> {
        let path = options.location.on_disk(NAME)?;
        let place = FirstDirectory::begin(path, NAME, is_first)?;
        // Under `always` each commit flushes, and `no` promises no flush. sled's timer thread is also the only caller of
        // its segment cleaner, so segments are cleaned under `everysec` alone: see `INFO.caveats`.
        let flush = if options.fsync == Fsync::EverySec { Some(1000) } else { None };
        let config =
            sled::Config::new().path(path).cache_capacity(cache_capacity(options)).flush_every_ms(flush);
        remove_unfinished_snapshots(path)?;
        let db = config.open().map_err(|error| fail(error, path))?;
        let log_path = path.join(LOG_FILE);
        let log = File::open(&log_path).map_err(Error::io("open", log_path))?;
        let (exclusion, refusal, synced_blobs) = Default::default();
        let engine = Self { db, refusal, path: path.into(), exclusion, log, synced_blobs };
        engine.sync_new_files()?;
        place.end()?;
        Ok(engine)
    }

    /// Syncs the files that sled creates at its first start and never syncs, and their directories.
    fn sync_new_files(&self) -> Result<()> {
        files::sync_path(&self.path.join(CONF_FILE))?;
        self.sync()?;
        files::sync_path(&self.path.join(BLOB_DIR))?;
        files::sync_path(&self.path)
    }

    /// Syncs the blob files (of large records) that were created since the last call, or that were being written then.
    /// sled writes them without a sync. Returns the number of synced files.
    fn sync_blobs(&self) -> Result<usize> {
        let dir = self.path.join(BLOB_DIR);
        let mut synced = self.synced_blobs.lock().unwrap_or_else(PoisonError::into_inner);
        let mut present = HashMap::with_capacity(synced.len());
        let mut count = 0;
        for entry in fs::read_dir(&dir).map_err(Error::io("list", &dir))? {
            let entry = entry.map_err(Error::io("list", &dir))?;
            let name = entry.file_name();
            let mut sync = || -> io::Result<u64> {
                // Before the sync, which covers no more than this.
                let length = entry.metadata()?.len();
                if synced.get(&name) != Some(&length) {
                    File::open(entry.path())?.sync_data()?;
                    count += 1;
                }
                Ok(length)
            };
            match sync() {
                Ok(length) => drop(present.insert(name, length)),
                // sled has replaced the file by a newer one meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(Error::io("sync", entry.path())(error)),
            }
        }
        if count > 0 {
            files::sync_path(&dir)?;
        }
        *synced = present;
        Ok(count)
    }

    fn fail(&self, error: sled::Error) -> Error {
        fail(error, &self.path)
    }

    /// Applies a write batch, without a sync. A single write does not use sled's `apply_batch`, which makes all other
    /// writes and reads wait.
    fn apply(&self, batch: &Batch<'_>) -> Result<()> {
        let applied = match *batch.ops() {
            [WriteOp::Put { key, value }] => {
                let _no_snapshot = self.exclusion.enter(Group::Writers);
                self.db.insert(key, value).map(drop)
            }
            [WriteOp::Delete { key }] => {
                let _no_snapshot = self.exclusion.enter(Group::Writers);
                self.db.remove(key).map(drop)
            }
            _ => {
                let converted = self.convert(batch)?;
                let _no_snapshot = self.exclusion.enter(Group::Writers);
                self.db.apply_batch(converted)
            }
        };
        applied.map_err(|error| {
            self.refusal.set_after(&error);
            self.fail(error)
        })
    }

    /// Converts a write batch to sled's type: a map that holds the last write of each key. A clear becomes a removal of
    /// each existing key.
    fn convert(&self, batch: &Batch<'_>) -> Result<sled::Batch> {
        let mut converted = sled::Batch::default();
        let (clear, ops) = batch.after_clear();
        if clear {
            for key in self.db.iter().keys() {
                converted.remove(key.map_err(|error| self.fail(error))?);
            }
        }
        for op in ops {
            match *op {
                WriteOp::Put { key, value } => converted.insert(key, value),
                WriteOp::Delete { key } => converted.remove(key),
                WriteOp::Clear => {}
            }
        }
        Ok(converted)
    }
}

/// Checks the copy of a store's files at `path` by a scan: sled compares each record of its log with its checksum when
/// it reads the record.
fn check_copy(path: &Path) -> Result<CheckReport> {
    let remark = "damage near the end of its log is not found: sled takes it for the end of the log, as after a \
    crash";
    Ok(CheckReport::by_scan(Sled::open(&OpenOptions::for_check(path))?)?.with_remark(remark))
}

/// Converts an error of sled. sled keeps the first error of its log and returns it for all later writes, so writes
/// cannot continue after any error.
fn fail(error: sled::Error, path: &Path) -> Error {
    match error {
        sled::Error::Io(source) if source.to_string().starts_with("could not acquire lock") => {
            Error::Locked { path: path.into() }
        }
        sled::Error::Io(source) => Error::Io { action: "access", path: path.into(), source },
        error => Error::library(NAME, error),
    }
}

impl Drop for Sled {
    fn drop(&mut self) {
        if self.refusal.check(&self.path).is_err() {
            // Keeps the database, whose end would wait, to the end of the process.
            mem::forget(self.db.clone());
        }
    }
}

impl Engine for Sled {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn read(&self, keys: &[&[u8]], visit: &mut VisitValue<'_>) -> Result<()> {
        let _no_write = match keys {
            [] | [_] => None,
            _ => Some(self.exclusion.enter(Group::Readers)),
        };
        for (index, key) in keys.iter().enumerate() {
            let value = self.db.get(key).map_err(|error| self.fail(error).of_value(index, key, false))?;
            if let ControlFlow::Break(()) = visit(index, value.as_deref()) {
                break;
            }
        }
        Ok(())
    }

    fn write(&self, batch: &Batch<'_>, sync: bool) -> Result<()> {
        batch.check_keys(NAME, self.key_limits())?;
        self.refusal.check(&self.path)?;
        self.apply(batch)?;
        // Readers do not wait for the sync, so they see the batch before it is durable.
        if sync { self.sync() } else { Ok(()) }
    }

    fn sync(&self) -> Result<()> {
        self.refusal.check(&self.path)?;
        // Passes the log to the operating system and waits for its writes, but not for the file's length nor
        // for the disk's cache.
        let sync = || {
            self.db.flush().map_err(|error| self.fail(error))?;
            self.sync_blobs()?;
            self.log.sync_data().map_err(Error::io("sync", self.path.join(LOG_FILE)))
        };
        // The kernel reports a failed sync once, so another one would succeed without the lost pages.
        sync().inspect_err(|error| self.refusal.set_after(error))
    }

    fn scan(&self, range: KeyRange<'_>, visit: &mut VisitPair<'_>) -> Result<()> {
        if range.is_empty() {
            return Ok(());
        }
        let _no_write = self.exclusion.enter(Group::Readers);
        for pair in self.db.range::<&[u8], _>((range.start, range.end)) {
            let (key, value) = pair.map_err(|error| self.fail(error))?;
            if let ControlFlow::Break(()) = visit(&key, &value) {
                break;
            }
        }
        Ok(())
    }

    fn count(&self) -> Result<u64> {
        let mut count = 0;
        let mut add = |_: &[u8], _: &[u8]| {
            count += 1;
            ControlFlow::Continue(())
        };
        self.scan(KeyRange::ALL, &mut add)?;
        Ok(count)
    }

    fn disk_size(&self) -> Result<u64> {
        files::disk_size(&self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Location;
    use std::{sync::mpsc, thread, time::Duration};

    /// A single write takes sled's `insert` and `remove`. Its `apply_batch` would make all other calls wait, and would
    /// pass its log to the operating system for each write, where `insert` and `remove` fill a buffer of 512 KiB first.
    #[test]
    fn single_writes_make_the_log_as_long_as_sled_alone_does() {
        let keys: Vec<_> = (0..1000_u32).map(u32::to_be_bytes).collect();
        let directory = tempfile::tempdir().unwrap();
        let log_bytes = |name: &str| fs::metadata(directory.path().join(name).join(LOG_FILE)).unwrap().len();

        let plain = sled::Config::new().path(directory.path().join("plain")).flush_every_ms(None);
        let plain = plain.open().unwrap();
        plain.flush().unwrap();
        let first = log_bytes("plain");
        for key in &keys {
            plain.insert(key, &[7; 100][..]).unwrap();
        }
        keys.iter().step_by(2).for_each(|key| drop(plain.remove(key).unwrap()));
        assert_eq!(log_bytes("plain"), first, "the buffer holds all of them");

        let place = Location::Path(directory.path().join("engine"));
        let engine = Sled::open(&OpenOptions::new(place, Fsync::No)).unwrap();
        let write = |op| engine.write(&Batch::of(&[op]), false).unwrap();
        keys.iter().for_each(|key| write(WriteOp::Put { key, value: &[7; 100] }));
        keys.iter().step_by(2).for_each(|key| write(WriteOp::Delete { key }));
        assert_eq!(engine.count().unwrap(), 500);
        assert_eq!(log_bytes("engine"), first);
    }

    fn open(directory: &Path) -> Sled {
        let place = Location::Path(directory.join("data"));
        Sled::open_as(&OpenOptions::new(place, Fsync::No)).unwrap()
    }

    /// Another thread may list a blob file that is still being written: the sync of its writer must sync it again.
    #[test]
    fn a_blob_file_that_has_grown_is_synced_again() {
        let directory = tempfile::tempdir().unwrap();
        let engine = open(directory.path());
        let blob = engine.path.join(BLOB_DIR).join("999999");
        for (content, synced) in [("half", 1), ("half", 0), ("half and half", 1), ("half and half", 0)] {
            fs::write(&blob, content).unwrap();
            assert_eq!(engine.sync_blobs().unwrap(), synced, "{content}");
        }
        fs::remove_file(blob).unwrap();
    }

    /// sled itself would wait for the failed write without end.
    #[test]
    fn a_large_value_that_cannot_be_written_lets_sync_close_and_the_end_return() {
        let directory = tempfile::tempdir().unwrap();
        let engine = open(directory.path());
        engine.write(&Batch::of(&[WriteOp::Put { key: b"small", value: b"value" }]), false).unwrap();
        let blobs = engine.path.join(BLOB_DIR);
        fs::rename(&blobs, directory.path().join("away")).unwrap();
        let large = WriteOp::Put { key: b"large", value: &[7; 200_000] };
        engine.write(&Batch::of(&[large]), false).unwrap_err();
        fs::rename(directory.path().join("away"), &blobs).unwrap();
        let (ended, end) = mpsc::channel();
        thread::spawn(move || {
            let small = engine.write(&Batch::of(&[WriteOp::Delete { key: b"small" }]), false);
            let results =
                [small, engine.sync(), engine.close()].map(|result| result.unwrap_err().to_string());
            let value = engine.db.get(b"small").unwrap();
            drop(engine);
            ended.send((results, value)).unwrap();
        });
        let (results, value) = end.recv_timeout(Duration::from_secs(60)).expect("one of them waits");
        assert!(
            results.iter().all(|result| result.contains("refused since an earlier failure")),
            "{results:?}"
        );
        assert_eq!(value.as_deref(), Some(&b"value"[..]));
    }
}

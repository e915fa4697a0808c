//! `rocksdb`: RocksDB, a log-structured merge tree in C++.

mod write_stall;

use crate::engine::{
    Batch, Capabilities, Caveat, Check, CheckReport, Compression, Engine, Error, Family, FsyncSupport, Gauge,
    Info, KeyRange, Kind, Loss, LossBound, LossClass, OpenFiles, OpenOptions, Result, Setting, Status, Tool,
    VisitPair, VisitValue, WriteOp, Writers,
    files::{self, FirstDirectory},
    machine_memory::machine_bytes,
};
use rocksdb::{
    BlockBasedOptions, BottommostLevelCompaction, Cache, CompactOptions, DB, DBCompressionType,
    DBRecoveryMode, DEFAULT_COLUMN_FAMILY_NAME, Env, Options, ReadOptions, WaitForCompactOptions, WriteBatch,
    WriteBufferManager, WriteOptions,
    properties::{
        ACTUAL_DELAYED_WRITE_RATE, BACKGROUND_ERRORS, BLOCK_CACHE_PINNED_USAGE, BLOCK_CACHE_USAGE,
        CUR_SIZE_ALL_MEM_TABLES, ESTIMATE_NUM_KEYS, ESTIMATE_PENDING_COMPACTION_BYTES,
        ESTIMATE_TABLE_READERS_MEM, IS_WRITE_STOPPED, NUM_IMMUTABLE_MEM_TABLE, NUM_RUNNING_COMPACTIONS,
        NUM_RUNNING_FLUSHES, NUM_SNAPSHOTS, PropName, TOTAL_SST_FILES_SIZE, num_files_at_level,
    },
};
use std::{
    env,
    fs::Metadata,
    ops::{Bound, ControlFlow},
    path::{Path, PathBuf},
    sync::Arc,
};
use write_stall::StallMonitor;

/// Entry of the engine `rocksdb` in the list of engines.
pub const KIND: Kind = Kind::new(&INFO, open, recognise, Check::OnCopy(check_copy)).with_settings(settings);

static INFO: Info = info("rocksdb", &CAVEATS, &["leveldb", "goleveldb", "pebble", "pebbledb"]);

/// Returns the static description of `rocksdb` or `rocksdb-blob`, which differ in these arguments only.
pub(super) const fn info(
    name: &'static str,
    caveats: &'static [Caveat],
    same_design: &'static [&'static str],
) -> Info {
    Info {
        name,
        library: "rocksdb 0.25.0, librocksdb-sys 0.19.0+11.8.1",
        own_format: None,
        family: Family::Lsm,
        status: Status::Stable,
        needs: &[Tool::Cc, Tool::Cxx, Tool::Libclang],
        capabilities: Capabilities {
            ordered: true,
            in_memory: true,
            compacts: true,
            finds_corruption: true,
            direct_reads: true,
            ..Capabilities::NONE
        },
        writers: Writers::Concurrent,
        fsync: FsyncSupport::Changeable,
        key_length: (0, MAX_KEY),
        compression: &[Compression::None, Compression::Lz4],
        cache: "one budget: block cache (HyperClockCache) with indexes and filters, of which up to half for memtables \
                (at most two, each of a quarter of the budget, 1 to 64 MiB)",
        // The WAL, RocksDB's text log, the manifest, directories; SST files of a compaction.
        open_files: OpenFiles { least: OWN_FILES + 96, most: MOST_FILES, per_read: 0 },
        cluster_flag: None,
        loss: [
            Loss::NOTHING,
            Loss::power_cut(LossBound::seconds("about a second")),
            Loss::power_cut(LossBound::new(LossClass::Unwritten, "what the system had not written")),
        ],
        caveats,
        same_design,
        log_targets: &[],
    }
}

/// Documented caveats that `rocksdb` and `rocksdb-blob` have in common.
pub(super) const CAVEATS: [Caveat; 6] = [
    Caveat::new("Flushes and compactions run on two background threads, during the load that is measured."),
    Caveat::new(
        "Writes that are faster than compaction are slowed down, then stopped, until compaction catches up.",
    ),
    Caveat::new(
        "Bloom filters with 10 bits for each key are on: a read of an absent key skips most table files.",
    ),
    Caveat::new(
        "FLUSHDB writes one range deletion for all keys; the files shrink when compaction reaches them.",
    ),
    Caveat::in_files(
        "After a failed write (also on a full disk) it accepts no writes until a restart. It reserves space for \
        the files that it writes: with less than about 80 MB free, a write or a start may fail.",
    ),
    Caveat::in_memory(
        "In memory, RocksDB uses its own in-memory file system: the same log and table files, without a disk.",
    ),
];

/// Maximum length of a key, in bytes: Redis' limit. RocksDB's own limit is 4 GiB.
const MAX_KEY: usize = 512 << 20;

/// Number of files that RocksDB may have open besides SST files that are read: the WAL, its text log, the manifest,
/// directories, SST files that are being written.
const OWN_FILES: u64 = 32;

/// Maximum number of open files that RocksDB can make use of. If as many are allowed, RocksDB keeps all SST files open,
/// without a limit of its own, so that no read opens one. 65,536 SST files of 64 MiB (with a cache of 256 MiB or more)
/// hold several terabytes.
const MOST_FILES: u64 = 1 << 16;

/// Maximum number of keys per batched read (MultiGet): as many as RocksDB itself looks up together. All their values
/// are in memory at the same time.
const READS: usize = 32;

/// Maximum size of level L1, as a multiple of the maximum size of a memtable: RocksDB's default number of files in L0
/// that start a compaction.
const FLUSHES_TO_L1: u64 = 4;

/// Maximum size of a memtable, in bytes: RocksDB's default.
const MEMTABLE: u64 = 64 << 20;

/// Maximum number of range deletions (FLUSHALL, FLUSHDB) in a memtable: each makes the next read and the next range
/// deletion slower, until the memtable is flushed. RocksDB's default is no limit.
const RANGE_DELETIONS: u32 = 32;

/// Properties of RocksDB that are gauges, each with the gauge's name and description. They cost nothing until they are
/// read; RocksDB's statistics, which are counted with every read and write, stay off.
const PROPERTIES: &[(&PropName, &str, &str)] = &[
    (
        ACTUAL_DELAYED_WRITE_RATE,
        "delayed_write_rate_bytes",
        "Rate to which writes are slowed down; 0 is not at all.",
    ),
    (BACKGROUND_ERRORS, "background_errors", "Errors of flushes and compactions."),
    (BLOCK_CACHE_PINNED_USAGE, "block_cache_pinned_bytes", "Block cache that cannot be given back now."),
    (BLOCK_CACHE_USAGE, "block_cache_bytes", "Block cache in use."),
    (CUR_SIZE_ALL_MEM_TABLES, "memtable_bytes", "Memtables."),
    (ESTIMATE_NUM_KEYS, "estimated_keys", "Keys, estimated."),
    (
        ESTIMATE_PENDING_COMPACTION_BYTES,
        "pending_compaction_bytes",
        "Bytes that compaction has yet to rewrite.",
    ),
    (ESTIMATE_TABLE_READERS_MEM, "table_reader_bytes", "Indexes and filters outside the block cache."),
    (IS_WRITE_STOPPED, "write_stopped", "1 while writes are stopped."),
    (NUM_IMMUTABLE_MEM_TABLE, "immutable_memtables", "Memtables that wait to be flushed."),
    (NUM_RUNNING_COMPACTIONS, "running_compactions", "Compactions that run."),
    (NUM_RUNNING_FLUSHES, "running_flushes", "Flushes that run."),
    (NUM_SNAPSHOTS, "snapshots", "Snapshots that are held."),
    (TOTAL_SST_FILES_SIZE, "table_file_bytes", "Table files."),
];

/// Name of the gauge of table files in level 0, whose property is text.
const LEVEL_0_FILES: &str = "level_0_files";

/// Names of the gauges of work that flushes and compactions have yet to do.
const BACKLOGS: [&str; 3] = ["pending_compaction_bytes", "immutable_memtables", LEVEL_0_FILES];

pub(super) fn recognise(path: &Path) -> bool {
    path.join("CURRENT").is_file()
}

/// Returns `true` for a file that an interrupted first start may have left: not for a WAL with content, nor for
/// an SST file.
fn is_first(name: &str, metadata: &Metadata) -> bool {
    let is_log = name.ends_with(".log");
    let starts = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
    metadata.is_file()
        && (["CURRENT", "IDENTITY", "LOCK", "LOG"].contains(&name)
            || starts(&["LOG.old.", "MANIFEST-", "OPTIONS-"])
            || name.ends_with(".dbtmp")
            || is_log && metadata.len() == 0)
}

fn open(options: &OpenOptions) -> Result<Box<dyn Engine>> {
    RocksDb::open(options, &INFO, db_options(options, INFO.name)?.0)
}

/// Open `rocksdb` or `rocksdb-blob` store.
pub(super) struct RocksDb {
    /// Monitor of write stalls; `None` for data in memory. Declared before `db`, which it reads, so that it is dropped
    /// first.
    watch: Option<StallMonitor>,
    db: Arc<DB>,
    /// Path of the data; `None` for data in memory.
    path: Option<PathBuf>,
    info: &'static Info,
}

impl RocksDb {
    /// Opens the store `info` (`rocksdb` or `rocksdb-blob`) with RocksDB's options `db_options`.
    pub fn open(
        options: &OpenOptions,
        info: &'static Info,
        mut db_options: Options,
    ) -> Result<Box<dyn Engine>> {
        let (path, place) = match options.location.path() {
            Some(path) => (Some(path.to_owned()), Some(FirstDirectory::begin(path, info.name, is_first)?)),
            None => {
                db_options.set_env(&Env::mem_env().map_err(|error| fail(error, None, info.name))?);
                (None, None)
            }
        };
        // The crate creates the directory on disk even if RocksDB's files are in memory, so an existing one is
        // used.
        let directory = path.clone().unwrap_or_else(env::temp_dir);
        let db = open_db(&db_options, &directory).map_err(|error| fail(error, path.as_deref(), info.name))?;
        place.map_or(Ok(()), FirstDirectory::end)?;
        let db = Arc::new(db);
        let watch = path
            .as_ref()
            .map(|path| StallMonitor::start(db.clone()).map_err(Error::io("start a thread for", path)));
        Ok(Box::new(Self { watch: watch.transpose()?, db, path, info }))
    }

    fn fail(&self, error: rocksdb::Error) -> Error {
        fail(error, self.path.as_deref(), self.info.name)
    }

    fn convert(&self, batch: &Batch<'_>) -> Result<WriteBatch> {
        let (clear, ops) = batch.after_clear();
        let mut converted = WriteBatch::default();
        if clear && let Some(end) = self.end()? {
            converted.delete_range([].as_slice(), &end);
        }
        for op in ops {
            match op {
                WriteOp::Put { key, value } => converted.put(key, value),
                WriteOp::Delete { key } => converted.delete(key),
                WriteOp::Clear => {}
            }
        }
        Ok(converted)
    }

    /// Returns the first possible key behind the last existing one, or `None` if the database is empty.
    fn end(&self) -> Result<Option<Vec<u8>>> {
        let mut iterator = self.db.raw_iterator();
        iterator.seek_to_last();
        iterator.status().map_err(|error| self.fail(error))?;
        Ok(iterator.key().map(|last| [last, &[0]].concat()))
    }
}

/// Opens the database with a handle of the default column family: batched reads need one, and the crate has
/// handles only for the column families that it is given.
fn open_db(options: &Options, path: &Path) -> std::result::Result<DB, rocksdb::Error> {
    DB::open_cf_with_opts(options, path, [(DEFAULT_COLUMN_FAMILY_NAME, options.clone())])
}

/// Maximum size of the block cache, as a multiple of the machine's memory. Systems refuse the address space of a cache that
/// is about a hundred times as large as the memory.
const MAX_CACHE_PER_MEMORY: u64 = 16;

/// Sizes in bytes that follow from `--cache-size`.
struct Sizes {
    block_cache: u64,
    /// Maximum size of all memtables together.
    memtables: u64,
    memtable: u64,
    /// Size of an SST file.
    file: u64,
    /// Maximum size of level L1.
    first_level: u64,
}

fn sizes(options: &OpenOptions) -> Sizes {
    let memtable = (options.cache_size / 4).clamp(1 << 20, MEMTABLE);
    Sizes {
        block_cache: options.cache_size,
        memtables: options.cache_size / 2,
        memtable,
        // In RocksDB's proportions: a flush makes one SST file, and the first level holds four. With the defaults for
        // memtables of 64 MiB, a smaller memtable would leave all its data in a first level of 256 MiB.
        file: memtable,
        first_level: FLUSHES_TO_L1 * memtable,
    }
}

/// Returns RocksDB's settings for `options`, those that `rocksdb` and `rocksdb-blob` have in common.
pub(super) fn settings(options: &OpenOptions) -> Vec<(&'static str, Setting)> {
    let Sizes { block_cache, memtables, memtable, file, first_level } = sizes(options);
    let sizes = [
        ("block cache", block_cache),
        ("memtable", memtable),
        ("all memtables", memtables),
        ("table file", file),
        ("L1", first_level),
    ];
    sizes.map(|(name, bytes)| (name, Setting::Bytes(bytes))).into()
}

/// Returns RocksDB's options for `options`, those that `rocksdb` and `rocksdb-blob` have in common. Errors name `engine`.
///
/// # Errors
///
/// Fails if the cache is far larger than the machine's memory: RocksDB would end the process.
pub(super) fn db_options(options: &OpenOptions, engine: &'static str) -> Result<(Options, Cache)> {
    let most = machine_bytes().map_or(u64::MAX, |memory| memory.saturating_mul(MAX_CACHE_PER_MEMORY));
    if options.cache_size > most {
        let what = format!("cannot reserve --cache-size {}; lower it to {most} or less", options.cache_size);
        return Err(Error::Unsupported { engine, what });
    }
    let Sizes { block_cache, memtables, memtable, file, first_level } = sizes(options);
    let whole = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    // The hyper clock cache looks up without a lock: with 630,000 keys a GET takes 6% to 18% less CPU time than
    // with the LRU cache. 0: its entries, which are blocks and shares of memtables, have no common size.
    let cache = Cache::new_hyper_clock_cache(whole(block_cache), 0);
    let mut table = BlockBasedOptions::default();
    table.set_block_cache(&cache);
    // Counts index and filter blocks in the budget, instead of additional memory that grows with the data.
    table.set_cache_index_and_filter_blocks(true);
    table.set_pin_l0_filter_and_index_blocks_in_cache(true);
    table.set_bloom_filter(10.0, false);
    let mut result = Options::default()
        .get_options_from_string(format!("memtable_max_range_deletions={RANGE_DELETIONS}"))
        .map_err(|error| fail(error, None, engine))?;
    result.create_if_missing(true);
    result.set_block_based_table_factory(&table);
    result.set_write_buffer_size(whole(memtable));
    result.set_target_file_size_base(file);
    result.set_max_bytes_for_level_base(first_level);
    result.set_max_write_buffer_number(2);
    // A filter per memtable, 2% of its size: a GET searches a memtable only for keys that it may hold. With
    // 630,000 keys, most of them in SST files, a GET takes a quarter less CPU time; a SET with pipelining takes
    // 5% more.
    result.set_memtable_whole_key_filtering(true);
    result.set_memtable_prefix_bloom_ratio(0.02);
    let memtables =
        WriteBufferManager::new_write_buffer_manager_with_cache(whole(memtables), false, cache.clone());
    result.set_write_buffer_manager(&memtables);
    result.set_compression_type(compression_type(options.compression));
    result.set_max_background_jobs(2);
    result.set_use_direct_reads(options.direct_reads);
    result.set_max_open_files(max_open_files(options.max_files));
    // RocksDB's text log: each start begins a file. Without a limit a file would grow while the store is open: every
    // flush and every compaction adds some lines, 9 MiB a minute in a soak with 16 MiB of cache.
    result.set_keep_log_file_num(4);
    result.set_max_log_file_size(MAX_TEXT_LOG);
    Ok((result, cache))
}

/// Length at which RocksDB begins another file of its text log, in bytes. It keeps four files.
const MAX_TEXT_LOG: usize = 4 << 20;

/// Returns the value of `--compression` in RocksDB's terms.
pub(super) fn compression_type(compression: Compression) -> DBCompressionType {
    match compression {
        Compression::None => DBCompressionType::None,
        Compression::Lz4 => DBCompressionType::Lz4,
    }
}

/// Texts of the operating system in RocksDB's errors for ENOSPC, EDQUOT and EFBIG.
const NO_SPACE: [&str; 3] = ["No space left on device", "Disk quota exceeded", "File too large"];

/// Checks the copy of a store's files at `path` by a scan, which reads every block with pairs; RocksDB verifies each
/// block's checksum. Corruption in the middle of the WAL is an error here; a server takes it for the end of the WAL.
pub(super) fn check_copy(path: &Path) -> Result<CheckReport> {
    let (mut options, _) = db_options(&OpenOptions::for_check(path), INFO.name)?;
    options.create_if_missing(false);
    options.set_paranoid_checks(true);
    options.set_wal_recovery_mode(DBRecoveryMode::TolerateCorruptedTailRecords);
    let db = open_db(&options, path).map_err(|error| {
        let message = error.to_string();
        // No corruption: the open writes what the WAL has to new files.
        match NO_SPACE.iter().any(|text| message.contains(text)) {
            true => Error::Full { engine: INFO.name, detail: message },
            false => fail(error, Some(path), INFO.name),
        }
    })?;
    CheckReport::by_scan(Box::new(RocksDb {
        watch: None,
        db: Arc::new(db),
        path: Some(path.into()),
        info: &INFO,
    }))
}

/// Returns RocksDB's option `max_open_files` if `allowed` files may be open. If that is large enough, all SST files
/// stay open (-1, RocksDB's default), so that no read opens one.
fn max_open_files(allowed: u64) -> i32 {
    if allowed >= MOST_FILES {
        return -1;
    }
    i32::try_from(allowed.saturating_sub(OWN_FILES)).unwrap_or(i32::MAX)
}

fn fail(error: rocksdb::Error, path: Option<&Path>, engine: &'static str) -> Error {
    let message = error.to_string();
    match path {
        Some(path)
            if message.contains("lock hold by current process") || message.contains("While lock file") =>
        {
            Error::Locked { path: path.into() }
        }
        _ => Error::library(engine, message),
    }
}

impl Engine for RocksDb {
    fn info(&self) -> &'static Info {
        self.info
    }

    fn is_memory_only(&self) -> bool {
        self.path.is_none()
    }

    fn read(&self, keys: &[&[u8]], visit: &mut VisitValue<'_>) -> Result<()> {
        if let [key] = keys {
            let value = self.db.get_pinned(key).map_err(|error| self.fail(error).of_value(0, key, false))?;
            let _ = visit(0, value.as_deref());
            return Ok(());
        }
        let Some(family) = self.db.cf_handle(DEFAULT_COLUMN_FAMILY_NAME) else {
            return Err(Error::library(self.info.name, "it has no default column family"));
        };
        let snapshot = self.db.snapshot();
        let mut options = ReadOptions::default();
        options.set_snapshot(&snapshot);
        for (first, keys) in (0..).step_by(READS).zip(keys.chunks(READS)) {
            let values = self.db.batched_multi_get_cf_opt(&family, keys.iter().copied(), false, &options);
            for ((index, key), value) in (first..).zip(keys).zip(values) {
                let value = value.map_err(|error| self.fail(error).of_value(index, key, false))?;
                if let ControlFlow::Break(()) = visit(index, value.as_deref()) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn write(&self, batch: &Batch<'_>, sync: bool) -> Result<()> {
        batch.check_keys(self.info.name, self.key_limits())?;
        let mut options = WriteOptions::default();
        // In memory there is nothing to sync, and RocksDB may reject the option.
        options.set_sync(sync && self.path.is_some());
        let converted = self.convert(batch)?;
        let write = || self.db.write_opt(converted, &options);
        let written = match &self.watch {
            Some(watch) => watch.run(write),
            None => write(),
        };
        written.map_err(|error| self.fail(error))
    }

    fn sync(&self) -> Result<()> {
        if self.path.is_none() {
            return Ok(());
        }
        self.db.flush_wal(true).map_err(|error| self.fail(error))
    }

    fn quiesce(&self) -> Result<()> {
        self.sync()?;
        let mut options = WaitForCompactOptions::default();
        options.set_flush(true);
        self.db.wait_for_compact(&options).map_err(|error| self.fail(error))
    }

    fn scan(&self, range: KeyRange<'_>, visit: &mut VisitPair<'_>) -> Result<()> {
        if range.is_empty() {
            return Ok(());
        }
        let mut options = ReadOptions::default();
        match range.end {
            Bound::Included(end) => options.set_iterate_upper_bound([end, &[0]].concat()),
            Bound::Excluded(end) => options.set_iterate_upper_bound(end),
            Bound::Unbounded => {}
        }
        let mut iterator = self.db.raw_iterator_opt(options);
        match range.start {
            Bound::Included(start) => iterator.seek(start),
            Bound::Excluded(start) => iterator.seek([start, &[0]].concat()),
            Bound::Unbounded => iterator.seek_to_first(),
        }
        while let Some((key, value)) = iterator.item() {
            if let ControlFlow::Break(()) = visit(key, value) {
                return Ok(());
            }
            iterator.next();
        }
        iterator.status().map_err(|error| self.fail(error))
    }

    fn count(&self) -> Result<u64> {
        let mut options = ReadOptions::default();
        // Each block is read once; caching it would evict blocks that are in use.
        options.fill_cache(false);
        let mut iterator = self.db.raw_iterator_opt(options);
        let mut count = 0;
        iterator.seek_to_first();
        while iterator.valid() {
            count += 1;
            iterator.next();
        }
        iterator.status().map_err(|error| self.fail(error))?;
        Ok(count)
    }

    fn disk_size(&self) -> Result<u64> {
        self.path.as_deref().map_or(Ok(0), files::disk_size)
    }

    fn gauges(&self) -> Vec<Gauge> {
        let gauge = |name, help, value| Gauge { name, help, value, is_backlog: BACKLOGS.contains(&name) };
        let known = PROPERTIES.iter().filter_map(|(property, name, help)| {
            Some(gauge(*name, *help, self.db.property_int_value(*property).ok()??))
        });
        let level_0 = self.db.property_value(num_files_at_level(0)).ok().flatten();
        let level_0 = level_0
            .and_then(|count| Some(gauge(LEVEL_0_FILES, "Table files in level 0.", count.parse().ok()?)));
        known.chain(level_0).collect()
    }

    fn compact(self: Box<Self>) -> Result<()> {
        if self.path.is_none() {
            return Err(Error::no_files(self.info.name));
        }
        // The compaction would flush the memtable too, but only this call returns errors.
        self.db.flush().map_err(|error| self.fail(error))?;
        let mut options = CompactOptions::default();
        options.set_bottommost_level_compaction(BottommostLevelCompaction::ForceOptimized);
        self.db.compact_range_opt(None::<&[u8]>, None::<&[u8]>, &options);
        let errors = self.db.property_int_value(BACKGROUND_ERRORS).map_err(|error| self.fail(error))?;
        if let Some(errors @ 1..) = errors {
            return Err(Error::library(
                self.info.name,
                format!("{errors} errors of background work; see its LOG"),
            ));
        }
        self.close()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Fsync, Location};
    use std::fs;

    /// Returns the value of the option `name` in the newest of the files in which RocksDB records the options of a
    /// database.
    fn option(directory: &Path, name: &str) -> u64 {
        let files = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
        let last = files.filter(|path| path.to_string_lossy().contains("OPTIONS-")).max().unwrap();
        let text = fs::read_to_string(last).unwrap();
        let line =
            text.lines().find_map(|line| line.trim().strip_prefix(&format!("{name}=")).map(str::to_owned));
        line.unwrap().parse().unwrap()
    }

    #[test]
    fn text_log_is_bounded_while_a_store_is_open() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("store");
        let engine = open(&OpenOptions::new(Location::Path(path.clone()), Fsync::No)).unwrap();
        let bound = option(&path, "max_log_file_size") * option(&path, "keep_log_file_num");
        assert!((1 << 20..=32 << 20).contains(&bound), "{bound}");
        engine.close().unwrap();
    }

    /// The sizes of SST files and of level L1 follow that of the memtable. With RocksDB's defaults, memtables of 4 MiB
    /// (16 MiB of cache) would be followed by an L1 of 256 MiB.
    #[test]
    fn sizes_of_levels_and_files_fit_the_memtable() {
        // The default of `--cache-size` is 256 MiB, the reference run has 16 MiB.
        for (cache, memtable) in
            [(4 << 20, 1 << 20), (16 << 20, 4 << 20), (256 << 20, 64 << 20), (1 << 30, 64 << 20)]
        {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("store");
            let location = Location::Path(path.clone());
            let options = OpenOptions { cache_size: cache, ..OpenOptions::new(location, Fsync::No) };
            let engine = open(&options).unwrap();
            let found = ["write_buffer_size", "target_file_size_base", "max_bytes_for_level_base"];
            assert_eq!(
                found.map(|name| option(&path, name)),
                [memtable, memtable, 4 * memtable],
                "cache {cache}"
            );
            // A report shows the same settings.
            let shown = (KIND.settings)(&options);
            for (name, bytes) in [("memtable", memtable), ("table file", memtable), ("L1", 4 * memtable)] {
                assert!(shown.contains(&(name, Setting::Bytes(bytes))), "{name}: {shown:?}");
            }
            // A first level has as many flushes as start a compaction, and memtables have at most half of the budget.
            assert_eq!(option(&path, "level0_file_num_compaction_trigger"), FLUSHES_TO_L1);
            assert!(option(&path, "max_write_buffer_number") * memtable <= cache / 2, "cache {cache}");
            assert_eq!(option(&path, "memtable_max_range_deletions"), u64::from(RANGE_DELETIONS));
            engine.close().unwrap();
        }
    }
}

//! Calibration engine: its costs and files are configured, so that every metric of a result can be compared with a
//! known expected value. It keeps its pairs in memory and, record by record, in a log.

mod config;
mod cost;
mod known_file_writes;

use crate::engine::{
    Batch, Capabilities, Caveat, Check, CheckReport, Compression, Engine, Error, Family, FsyncSupport, Gauge,
    Info, KeyRange, Kind, Loss, OpenFiles, OpenOptions, Result, Status, VisitPair, VisitValue, WriteOp,
    Writers, key_value_headers, mutex::lock,
};
pub use config::{CALIBRATION, Call, CallKind, Cost, PAGE, Part, ProcessMemory, Record, Span, Stall, Truth};
pub use cost::no_known_loop;
use cost::{Meter, execute_instructions};
pub use known_file_writes::PIECE;
use known_file_writes::{Files, ReadFile};
use std::{
    collections::BTreeMap,
    fs,
    ops::{Bound, ControlFlow},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError, RwLock},
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// Registration of the calibration engine, which is in no list of engines.
pub const KIND: Kind = Kind::new(&INFO, open, recognise, Check::InPlace(check));

pub(super) static INFO: Info = Info {
    name: CALIBRATION,
    library: "none",
    own_format: None,
    family: Family::Lsm,
    status: Status::Synthetic,
    needs: &[],
    capabilities: Capabilities {
        ordered: true,
        constant_count: true,
        counts_allocations: true,
        ..Capabilities::NONE
    },
    compression: &[Compression::None],
    cache: "not used",
    writers: Writers::One,
    fsync: FsyncSupport::FixedAtOpen,
    key_length: (0, MAX_KEY),
    open_files: OpenFiles::always(8),
    cluster_flag: None,
    loss: [Loss::NOTHING; 3],
    caveats: &[Caveat::new("takes known times and sizes, to check what is measured")],
    same_design: &[],
    log_targets: &[],
};

/// Name of an empty file that a close creates and the next open removes.
const CLOSED: &str = "closed";
/// Maximum length of a key in bytes; the record of a pair must fit into the configured bytes per write.
const MAX_KEY: usize = 512;

struct Calibration {
    truth: Truth,
    path: PathBuf,
    pairs: RwLock<BTreeMap<Vec<u8>, Vec<u8>>>,
    meter: Mutex<Meter>,
    files: Mutex<Files>,
    record: Mutex<Record>,
    reads: Option<ReadFile>,
    /// Memory that the calibration engine allocates only to use the amount that its configuration says.
    _memory: Vec<u8>,
}

fn recognise(path: &Path) -> bool {
    known_file_writes::log(path).is_file()
}

/// Fails, because the calibration engine's files belong to one measurement and cannot be checked.
fn check(_: &Path) -> Result<CheckReport> {
    Err(Error::Unsupported { engine: CALIBRATION, what: "has nothing to be checked".into() })
}

fn open(options: &OpenOptions) -> Result<Box<dyn Engine>> {
    let (begin, memory_before) = (cost::now(), cost::memory());
    let path = options.location.on_disk(CALIBRATION)?;
    let place = Truth::place(path);
    let text = fs::read(&place).map_err(Error::io("read the truth in", &place))?;
    let truth: Truth = serde_json::from_slice(&text).map_err(|error| Error::library(CALIBRATION, error))?;
    let mut pairs = BTreeMap::new();
    let mut files = Files::open(path, &truth)?;
    let was_closed = fs::remove_file(path.join(CLOSED)).is_ok();
    let writes = files.replay(&mut pairs)?;
    if writes > 0 {
        thread::sleep(Duration::from_millis(truth.recovery_ms));
    }
    if !was_closed {
        thread::sleep(Duration::from_micros(writes * truth.replay_us));
    }
    let memory = vec![1; usize::try_from(truth.memory_bytes).unwrap_or(0)];
    let record = Record { open: (begin, cost::now()), memory: memory_before, ..Record::default() };
    let meter = Meter::new(&truth);
    Ok(Box::new(Calibration {
        path: path.into(),
        pairs: RwLock::new(pairs),
        meter: Mutex::new(meter),
        files: Mutex::new(files),
        record: Mutex::new(record),
        reads: ReadFile::open(path, &truth)?,
        _memory: memory,
        truth,
    }))
}

/// Returns `true` if the header of a stored value has an expiration time that has passed.
fn has_expired(stored: &[u8]) -> bool {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    let deadline = key_value_headers::entry(stored).deadline;
    deadline != 0 && u128::from(deadline) <= now
}

impl Calibration {
    /// Returns the total size of all existing keys and values, in bytes.
    fn alive_bytes(&self) -> u64 {
        let pairs = self.pairs.read().unwrap_or_else(PoisonError::into_inner);
        pairs.iter().map(|(key, value)| (key.len() + value.len()) as u64).sum()
    }

    /// Allocates and frees the memory that is configured for the first write of a span (the operations between two
    /// quiesces): none, or more than 32 MiB, so that the allocator does not retain it. `spans` is the number of spans
    /// that have ended: with 0, the memory is that of the load.
    fn surge(&self, spans: usize) {
        let bytes = if spans == 0 { self.truth.load_surge_bytes } else { self.truth.surge_bytes };
        std::hint::black_box(vec![1_u8; usize::try_from(bytes).unwrap_or(0)]);
    }

    /// Allocates and frees the memory blocks that are configured for each read.
    fn allocate(&self) {
        for _ in 0..self.truth.read_blocks {
            let bytes = usize::try_from(self.truth.block_bytes).unwrap_or(0);
            std::hint::black_box(Vec::<u8>::with_capacity(bytes));
        }
    }

    fn kind_of(&self, op: &WriteOp<'_>) -> CallKind {
        let pairs = self.pairs.read().unwrap_or_else(PoisonError::into_inner);
        match op {
            WriteOp::Put { key, .. } if pairs.contains_key(*key) => CallKind::Update,
            WriteOp::Put { .. } => CallKind::Insert,
            WriteOp::Delete { .. } | WriteOp::Clear => CallKind::Delete,
        }
    }

    fn apply(&self, op: &WriteOp<'_>) -> u64 {
        let mut pairs = self.pairs.write().unwrap_or_else(PoisonError::into_inner);
        let bytes = match *op {
            WriteOp::Put { key, value } => {
                pairs.insert(key.into(), value.into());
                key.len() + value.len()
            }
            WriteOp::Delete { key } => key.len() + pairs.remove(key).map_or(0, |value| value.len()),
            WriteOp::Clear => {
                pairs.clear();
                0
            }
        };
        bytes as u64
    }
}

impl Engine for Calibration {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn read(&self, keys: &[&[u8]], visit: &mut VisitValue<'_>) -> Result<()> {
        for (index, key) in keys.iter().enumerate() {
            // The server reads marker records at start, which is not part of a measurement.
            if key_value_headers::needs_header(key) {
                if visit(index, None).is_break() {
                    break;
                }
                continue;
            }
            let turn = lock(&self.meter).read();
            let taken = turn.take();
            lock(&self.meter).add(taken, CallKind::Read, None);
            self.allocate();
            execute_instructions(self.truth.read_instructions);
            self.reads.as_ref().map_or(Ok(()), ReadFile::read)?;
            let pairs = self.pairs.read().unwrap_or_else(PoisonError::into_inner);
            let stored = pairs.get(*key).map(Vec::as_slice);
            lock(&self.meter).add_read(stored.is_some_and(|stored| !has_expired(stored)));
            if visit(index, stored).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn write(&self, batch: &Batch<'_>, sync: bool) -> Result<()> {
        let mut files = lock(&self.files);
        let commit = lock(&self.meter).commit();
        for op in batch.ops() {
            let (first, turn) = lock(&self.meter).write();
            if first {
                self.surge(lock(&self.record).spans.len());
            }
            let taken = turn.take();
            files.put(op)?;
            let kind = self.kind_of(op);
            lock(&self.meter).add(taken, kind, Some(commit)).user_bytes += self.apply(op);
            if matches!(op, WriteOp::Delete { .. }) {
                lock(&self.meter).add_delete();
            }
        }
        files.append()?;
        if sync { files.sync() } else { Ok(()) }
    }

    fn sync(&self) -> Result<()> {
        lock(&self.files).sync()?;
        lock(&self.meter).add_sync();
        Ok(())
    }

    fn quiesce(&self) -> Result<()> {
        // In this order, as in `write`, and not in one statement, which would hold both locks.
        let mut files = lock(&self.files);
        let mut span = lock(&self.meter).take();
        let begin = cost::now();
        span.memory = cost::memory();
        let before = files.size();
        thread::sleep(Duration::from_millis(self.truth.settle_ms));
        span.written_bytes = files.settle()?;
        let after = files.size();
        (span.length_bytes, span.used_bytes) = ((before.0, after.0), (before.1, after.1));
        span.alive_bytes = self.alive_bytes();
        span.settle = (begin, cost::now());
        lock(&self.record).spans.push(span);
        lock(&self.meter).begin();
        Ok(())
    }

    fn scan(&self, range: KeyRange<'_>, visit: &mut VisitPair<'_>) -> Result<()> {
        let turn = lock(&self.meter).scan();
        let taken = turn.take();
        lock(&self.meter).add(taken, CallKind::Scan, None);
        if range.is_empty() {
            return Ok(());
        }
        let pairs = self.pairs.read().unwrap_or_else(PoisonError::into_inner);
        let found = pairs.range::<[u8], (Bound<&[u8]>, Bound<&[u8]>)>((range.start, range.end));
        for (key, value) in found {
            if let ControlFlow::Break(()) = visit(key, value) {
                break;
            }
        }
        Ok(())
    }

    fn count(&self) -> Result<u64> {
        Ok(self.pairs.read().unwrap_or_else(PoisonError::into_inner).len() as u64)
    }

    fn disk_size(&self) -> Result<u64> {
        Ok(lock(&self.files).size().1)
    }

    fn gauges(&self) -> Vec<Gauge> {
        let value = lock(&self.meter).operations();
        vec![Gauge {
            name: "operations",
            help: "Operations since the last quiesce.",
            value,
            is_backlog: false,
        }]
    }

    fn close(&self) -> Result<()> {
        let begin = cost::now();
        let rest = Span { settle: (begin, begin), ..lock(&self.meter).take() };
        thread::sleep(Duration::from_millis(self.truth.close_ms));
        lock(&self.files).close()?;
        let closed = self.path.join(CLOSED);
        fs::File::create(&closed).map_err(Error::io("create", &closed))?;
        let mut record = lock(&self.record);
        if !rest.calls.is_empty() {
            record.spans.push(rest);
        }
        record.close = (begin, cost::now());
        let line = serde_json::to_string(&*record).map_err(|error| Error::library(CALIBRATION, error))?;
        known_file_writes::append_line(&self.truth.record, &line).map_err(Error::io("write", &self.path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Fsync, Location};
    use std::sync::mpsc;

    /// While the engine quiesces, active expiration goes on to write.
    #[test]
    fn a_write_during_a_quiesce_and_the_quiesce_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("store");
        let truth = Truth { write_bytes: PAGE, record: dir.path().join("record"), ..Truth::default() };
        fs::write(Truth::place(&path), serde_json::to_vec(&truth).unwrap()).unwrap();
        let engine = open(&OpenOptions::new(Location::Path(path), Fsync::No)).unwrap();
        let (ended, end) = mpsc::channel();
        // Not joined, because a thread in a deadlock does not end.
        thread::spawn(move || {
            thread::scope(|scope| {
                let write = || {
                    let mut batch = Batch::default();
                    batch.put(b"key", b"value");
                    engine.write(&batch, false).unwrap();
                };
                scope.spawn(move || (0..3000).for_each(|_| write()));
                (0..3000).for_each(|_| engine.quiesce().unwrap());
            });
            ended.send(()).unwrap();
        });
        end.recv_timeout(Duration::from_secs(60)).expect("deadlock of a write and a quiesce");
    }
}

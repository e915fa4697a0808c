//! `tiny`: a sorted map in memory, and a log of batches. An example of an engine from outside of kvbench.

use kvbench::engine::{
    Batch, Capabilities, Caveat, Check, CheckReport, Compression, Engine, Error, Family, FsyncSupport, Info,
    KeyRange, Kind, Location, Loss, LossBound, LossClass, OpenFiles, OpenOptions, Result, Status, VisitPair,
    VisitValue, WriteOp, Writers,
    files::{FirstFile, disk_size, open_locked, read_start},
};
use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{Seek, SeekFrom, Write},
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError, RwLock},
};

/// What `kvbench::main` and the tests are given.
pub static KINDS: &[Kind] = &[Kind::new(&INFO, Tiny::open, recognise, Check::OnCopy(check_copy))];

static INFO: Info = Info {
    name: "tiny",
    library: "own-engine 0.1.0",
    own_format: None,
    family: Family::MemoryBTree,
    status: Status::Experimental,
    needs: &[],
    capabilities: Capabilities {
        ordered: true,
        memory_resident: true,
        constant_count: true,
        counts_allocations: true,
        ..Capabilities::NONE
    },
    writers: Writers::One,
    fsync: FsyncSupport::Changeable,
    key_length: (0, 512 << 20),
    compression: &[Compression::None],
    cache: "not used: all data are in memory",
    open_files: OpenFiles::always(4),
    cluster_flag: None,
    loss: [
        Loss::NOTHING,
        Loss::power_cut(LossBound::seconds("about a second")),
        Loss::power_cut(LossBound::new(LossClass::Unwritten, "what the system had not written")),
    ],
    caveats: &[
        Caveat::new("The log grows with every write, and nothing makes it shorter."),
        Caveat::new("Writes wait while a scan runs."),
        Caveat::new("Damage in the log is not found: it is taken for the end of the log."),
    ],
    same_design: &[],
    log_targets: &[],
};

/// What a log begins with. Behind it are records: length and checksum of a batch, and the batch.
const MAGIC: &[u8] = b"tiny log";

type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

struct Tiny {
    pairs: RwLock<Pairs>,
    /// At its end, and locked.
    log: Mutex<File>,
    path: PathBuf,
}

fn recognise(path: &Path) -> bool {
    read_start(path, MAGIC.len()) == MAGIC
}

fn check_copy(path: &Path) -> Result<CheckReport> {
    CheckReport::by_scan(Tiny::open(&OpenOptions::for_check(path))?)
}

impl Tiny {
    fn open(options: &OpenOptions) -> Result<Box<dyn Engine>> {
        let Location::Path(path) = &options.location else {
            return Err(Error::Unsupported { engine: INFO.name, what: "needs a --path on disk".into() });
        };
        if let Some(first) = FirstFile::begin(path)? {
            let written = File::create(first.path()).and_then(|mut file| {
                file.write_all(MAGIC)?;
                file.sync_all()
            });
            written.map_err(Error::io("create", path))?;
            first.end()?;
        }
        let mut log = open_locked(path, path)?;
        let bytes = fs::read(path).map_err(Error::io("read", path))?;
        let (pairs, end) = replay(&bytes);
        // What a crash left of a batch.
        let cut = log.set_len(end).and_then(|()| log.seek(SeekFrom::End(0)));
        cut.map_err(Error::io("cut off the end of", path))?;
        Ok(Box::new(Self { pairs: RwLock::new(pairs), log: Mutex::new(log), path: path.clone() }))
    }

    fn append(&self, batch: &Batch<'_>, sync: bool) -> std::io::Result<()> {
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        log.write_all(&record(batch))?;
        if sync { log.sync_data() } else { Ok(()) }
    }
}

/// A batch as the log has it. Its lengths have 32 bits.
fn record(batch: &Batch<'_>) -> Vec<u8> {
    let mut record = vec![0; 8];
    let mut push = |tag: u8, parts: &[&[u8]]| {
        record.push(tag);
        for part in parts {
            record.extend((part.len() as u32).to_le_bytes());
            record.extend_from_slice(part);
        }
    };
    for op in batch.ops() {
        match op {
            WriteOp::Put { key, value } => push(b'+', &[key, value]),
            WriteOp::Delete { key } => push(b'-', &[key]),
            WriteOp::Clear => push(b'0', &[]),
        }
    }
    let body = record.split_off(8);
    let head = [(body.len() as u32).to_le_bytes(), crc32fast::hash(&body).to_le_bytes()];
    [head.concat(), body].concat()
}

/// What a log holds, and where the last whole batch of it ends.
fn replay(bytes: &[u8]) -> (Pairs, u64) {
    let mut pairs = Pairs::new();
    let mut rest = bytes.get(MAGIC.len()..).unwrap_or_default();
    while let Some((body, behind)) = split_record(rest) {
        apply(body, &mut pairs);
        rest = behind;
    }
    (pairs, (bytes.len() - rest.len()) as u64)
}

fn split_record(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, bytes) = bytes.split_first_chunk()?;
    let (sum, bytes) = bytes.split_first_chunk()?;
    let (body, behind) = bytes.split_at_checked(u32::from_le_bytes(*len) as usize)?;
    // A hole that a power cut left is of zeros, as is the checksum of nothing.
    let is_whole = !body.is_empty() && crc32fast::hash(body) == u32::from_le_bytes(*sum);
    is_whole.then_some((body, behind))
}

fn apply(mut body: &[u8], pairs: &mut Pairs) {
    let part = |body: &mut &[u8]| {
        let (len, rest) = body.split_first_chunk()?;
        let (part, rest) = rest.split_at_checked(u32::from_le_bytes(*len) as usize)?;
        *body = rest;
        Some(part.to_vec())
    };
    while let Some((tag, rest)) = body.split_first() {
        body = rest;
        match tag {
            b'+' => {
                let (key, value) = (part(&mut body), part(&mut body));
                key.zip(value).map(|(key, value)| pairs.insert(key, value));
            }
            b'-' => {
                part(&mut body).map(|key| pairs.remove(&key));
            }
            _ => pairs.clear(),
        }
    }
}

impl Engine for Tiny {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn read(&self, keys: &[&[u8]], visit: &mut VisitValue<'_>) -> Result<()> {
        let pairs = self.pairs.read().unwrap_or_else(PoisonError::into_inner);
        for (index, key) in keys.iter().enumerate() {
            if let ControlFlow::Break(()) = visit(index, pairs.get(*key).map(Vec::as_slice)) {
                break;
            }
        }
        Ok(())
    }

    fn write(&self, batch: &Batch<'_>, sync: bool) -> Result<()> {
        batch.check_keys(INFO.name, self.key_limits())?;
        if batch.is_empty() {
            return if sync { self.sync() } else { Ok(()) };
        }
        self.append(batch, sync).map_err(Error::io("write", &self.path))?;
        let mut pairs = self.pairs.write().unwrap_or_else(PoisonError::into_inner);
        for op in batch.ops() {
            match op {
                WriteOp::Put { key, value } => drop(pairs.insert(key.to_vec(), value.to_vec())),
                WriteOp::Delete { key } => drop(pairs.remove(*key)),
                WriteOp::Clear => pairs.clear(),
            }
        }
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        let log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        log.sync_data().map_err(Error::io("sync", &self.path))
    }

    fn scan(&self, range: KeyRange<'_>, visit: &mut VisitPair<'_>) -> Result<()> {
        if range.is_empty() {
            return Ok(());
        }
        let pairs = self.pairs.read().unwrap_or_else(PoisonError::into_inner);
        for (key, value) in pairs.range::<[u8], _>((range.start, range.end)) {
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
        disk_size(&self.path)
    }
}

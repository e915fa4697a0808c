//! `tikv`: TiKV through its own client. Ranges of keys (regions) on several machines, each range replicated by Raft, and
//! transactions over all of them by two-phase commit after Percolator
//! (<https://tikv.org/deep-dive/distributed-transaction/percolator/>).

mod call;
mod pages;

use super::{
    Batch, Caveat, Check, Compression, Engine, Error, Family, Info, KeyRange, Kind, Location, Loss, Op,
    OpenFiles, OpenOptions, Result, Transaction, VisitPair, VisitValue, Writers,
};
use call::{Calls, TIMEOUT, conflict, is_in_the_way, is_too_large, is_write_conflict, unavailable};
use pages::{Keys, Pages};
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    time::{Duration, Instant},
};
use tikv_client::{
    CheckLevel, Config, Snapshot, Timestamp, Transaction as Inner, TransactionClient,
    TransactionOptions,
};

/// The engine's row in the list.
pub const KIND: Kind =
    Kind { info: &INFO, open: Tikv::open, recognise: |_| false, check: Check::Reading(|_| Err(no_files())) };

const NAME: &str = "tikv";

static INFO: Info = Info {
    name: NAME,
    library: "tikv-client 0.4.0",
    family: Family::Cluster,
    ordered: true,
    in_memory: false,
    constant_count: false,
    allocates_in_rust: true,
    has_map_size: false,
    has_direct_reads: false,
    writers: Writers::Together,
    compression: &[Compression::None],
    cache: "none here; the cluster has its own",
    // Connections to its nodes.
    open_files: OpenFiles::always(64),
    loss: [Loss::NOTHING; 3],
    caveats: &[
        Caveat::new(
            "Every command waits for the network: a read for a timestamp and one node, a commit for a timestamp, two \
            rounds of the nodes that have its keys, and a majority of the replicas of each.",
        ),
        Caveat::new(
            "A commit is acknowledged when a majority of the replicas has it; whether they have synced it is the \
            cluster's setting (raftstore sync-log of old versions; now always).",
        ),
        Caveat::new(
            "Several servers may use the same prefix. What they write at the same time to the same keys, one of them does \
            again.",
        ),
        Caveat::new(
            "EXEC after WATCH takes a value that was changed and changed back for unchanged, where another server did \
            so.",
        ),
        Caveat::new(
            "FLUSHALL removes key by key, 2,000 in a transaction: of more keys others may see a part meanwhile. DBSIZE \
            visits all keys.",
        ),
        Caveat::new(
            "A transaction has at most 20,000 writes: each of the client's requests for it carries the list of all its \
            keys.",
        ),
        Caveat::new("A value has at most 6 MiB: TiKV refuses larger entries of its log, by default above 8 MiB."),
        Caveat::new(
            "When a node is lost, its ranges of keys answer again after an election; commands wait for that up to 10 \
            seconds and then fail. After such an error it may be unknown whether a write took effect; it says so.",
        ),
        Caveat::new(
            "Versions that were overwritten are kept until the server removes them, every ten minutes. It does so for \
            the whole cluster, as TiDB does, also for what other programs have there.",
        ),
    ],
};

/// Longest key, in bytes, with the prefix: TiKV's default limit, less what it adds itself.
const MAX_KEY: usize = 4000;

/// Longest value, in bytes: with room for what stands beside it in an entry of TiKV's log.
const MAX_VALUE: usize = 6 << 20;

/// Most writes of one transaction.
const MOST_WRITES: usize = 20_000;

/// Keys that are removed together when all are.
const CLEARED: usize = 2000;

/// Keys that are asked for in one call.
const TOGETHER: usize = 64;

/// Largest answer of a node.
const LARGEST_ANSWER: usize = 1 << 30;

/// Versions older than this are removed, every time it has passed. TiDB's default.
const OLD: Duration = Duration::from_secs(600);

/// What stands before every value, because TiKV's interface does not promise to keep empty ones.
const VALUE: u8 = b'v';

fn no_files() -> Error {
    Error::Unsupported { engine: NAME, what: "has no files here to check".into() }
}

struct Tikv {
    client: TransactionClient,
    keys: Keys,
    calls: Calls,
}

impl Tikv {
    fn open(options: &OpenOptions) -> Result<Box<dyn Engine>> {
        let Location::Cluster { nodes, prefix } = &options.location else { return Err(no_files()) };
        let calls = Calls::new()?;
        let config = Config::default().with_grpc_max_decoding_message_size(LARGEST_ANSWER);
        let (nodes, begin) = (nodes.clone(), Instant::now());
        let place = nodes.join(",");
        let client = calls.read(begin, move || {
            let (nodes, config) = (nodes.clone(), config.clone());
            async move { TransactionClient::new_with_config(nodes, config).await }
        });
        let client = client.map_err(|error| {
            let cause = call::cause(&error);
            Error::library(NAME, format!("no cluster answers at --pd {place}: {cause}; is it running?"))
        })?;
        let engine = Self { client, keys: Keys::new(prefix), calls };
        engine.remove_old_versions();
        Ok(Box::new(engine))
    }

    /// Has the cluster forget overwritten versions, for as long as this is open.
    fn remove_old_versions(&self) {
        let client = self.client.clone();
        self.calls.keep_doing(OLD, move || {
            let client = client.clone();
            async move {
                let now = client.current_timestamp().await?;
                let physical = now.physical - i64::try_from(OLD.as_millis()).unwrap_or(i64::MAX);
                client.gc(Timestamp { physical, ..now }).await.map(drop)
            }
        });
    }

    /// A moment that is not before any write that was acknowledged.
    fn now(&self, begin: Instant) -> Result<Timestamp> {
        let client = self.client.clone();
        self.calls.read(begin, move || {
            let client = client.clone();
            async move { client.current_timestamp().await }
        })
    }

    /// The values of stored keys at a moment.
    fn values(&self, keys: Vec<Vec<u8>>, at: &Timestamp, begin: Instant) -> Result<HashMap<Vec<u8>, Vec<u8>>> {
        let (client, at) = (self.client.clone(), at.clone());
        self.calls.read(begin, move || {
            let (mut snapshot, keys) = (snapshot(&client, &at), keys.clone());
            async move {
                let found = snapshot.batch_get(keys).await?;
                Ok(found.map(|pair| (pair.0.into(), pair.1)).collect())
            }
        })
    }

    fn read_at(&self, keys: &[&[u8]], at: &Timestamp, visit: &mut VisitValue<'_>) -> Result<()> {
        let (mut index, most) = (0, self.key_limits().1);
        for together in keys.chunks(TOGETHER) {
            let begin = Instant::now();
            let wanted: HashSet<_> = together.iter().filter(|key| key.len() <= most).collect();
            let wanted = wanted.into_iter().map(|key| self.keys.stored(key)).collect();
            let found = self.values(wanted, at, begin)?;
            for key in together {
                let value = found.get(&self.keys.stored(key)).map(|stored| value(stored)).transpose()?;
                if visit(index, value).is_break() {
                    return Ok(());
                }
                index += 1;
            }
        }
        Ok(())
    }

    /// Visits the pairs of `range` at a moment, page by page.
    fn scan_at(&self, range: KeyRange<'_>, at: &Timestamp, visit: &mut VisitPair<'_>) -> Result<()> {
        if range.is_empty() {
            return Ok(());
        }
        let mut pages = Pages::new(self.keys.bounds(range));
        while let Some((range, limit)) = pages.next() {
            let (client, at) = (self.client.clone(), at.clone());
            let page: Vec<(Vec<u8>, Vec<u8>)> = self.calls.read(Instant::now(), move || {
                let (mut snapshot, range) = (snapshot(&client, &at), range.clone());
                async move {
                    let found = snapshot.scan(range, limit).await?;
                    Ok(found.map(|pair| (pair.0.into(), pair.1)).collect())
                }
            })?;
            pages.note(page.len(), page.iter().map(|(_, value)| value.len()).sum(), page.last().map(|(key, _)| key));
            for (stored, bytes) in &page {
                if visit(self.keys.key(stored), value(bytes)?).is_break() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// The stored keys at a moment, `most` and one at most.
    fn stored_keys(&self, at: &Timestamp, most: usize) -> Result<Vec<Vec<u8>>> {
        let mut keys = Vec::new();
        let mut pages = Pages::of_keys(self.keys.bounds(KeyRange::ALL));
        while let Some((range, limit)) = pages.next()
            && keys.len() <= most
        {
            let (client, at) = (self.client.clone(), at.clone());
            let mut page: Vec<Vec<u8>> = self.calls.read(Instant::now(), move || {
                let (mut snapshot, range) = (snapshot(&client, &at), range.clone());
                async move { Ok(snapshot.scan_keys(range, limit).await?.map(Vec::from).collect()) }
            })?;
            pages.note(page.len(), 0, page.last());
            keys.append(&mut page);
        }
        Ok(keys)
    }

    fn start(&self) -> Result<Running<'_>> {
        let client = self.client.clone();
        let inner = self.calls.read(Instant::now(), move || {
            let client = client.clone();
            // It is dropped when nothing is to be written.
            let options = TransactionOptions::new_optimistic().drop_check(CheckLevel::None);
            async move { client.begin_with_options(options).await }
        })?;
        Ok(Running { engine: self, at: inner.start_timestamp(), inner, seen: HashSet::new(), failed: false })
    }

    /// Removes all keys, in several transactions.
    fn clear(&self) -> Result<()> {
        let mut removed = 0;
        loop {
            let mut keys = self.stored_keys(&self.now(Instant::now())?, CLEARED)?;
            keys.truncate(CLEARED);
            if keys.is_empty() {
                return Ok(());
            }
            let count = keys.len();
            let none: Changes = keys.into_iter().map(|key| (key, None)).collect();
            self.again(|transaction| transaction.write(none.clone())).map_err(|error| match removed {
                0 => error,
                _ => Error::Unknown { engine: NAME, detail: format!("{removed} keys were removed, then: {error}") },
            })?;
            removed += count;
        }
    }

    /// Does something again on what others leave, when they are in the way.
    fn again(&self, write: impl Fn(Running<'_>) -> Result<()>) -> Result<()> {
        let begin = Instant::now();
        loop {
            match write(self.start()?) {
                Err(Error::Conflict { .. }) if begin.elapsed() < TIMEOUT => {}
                outcome => return outcome,
            }
        }
    }

    /// Fails when a transaction cannot hold these writes.
    fn check(&self, ops: &[Op<'_>]) -> Result<()> {
        let refuse = |what| Err(Error::Unsupported { engine: NAME, what });
        if ops.len() > MOST_WRITES {
            return refuse(format!("takes at most {MOST_WRITES} writes in a transaction, and these are {}", ops.len()));
        }
        let (min, max) = self.key_limits();
        for op in ops {
            match *op {
                Op::Put { value, .. } if value.len() > MAX_VALUE => {
                    return refuse(format!("takes values of at most {MAX_VALUE} bytes, and this has {}", value.len()));
                }
                Op::Put { key, .. } | Op::Delete { key } if key.len() > max => {
                    return Err(Error::KeyLength { engine: NAME, len: key.len(), min, max });
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// What writes leave of each key.
    fn changes(&self, ops: &[Op<'_>]) -> Changes {
        let change = |op: &Op<'_>| match *op {
            Op::Put { key, value } => Some((self.keys.stored(key), Some([&[VALUE], value].concat()))),
            Op::Delete { key } => Some((self.keys.stored(key), None)),
            Op::Clear => None,
        };
        ops.iter().filter_map(change).collect()
    }
}

/// What the cluster had at a moment. It remembers what it has read, so it is for one call.
fn snapshot(client: &TransactionClient, at: &Timestamp) -> Snapshot {
    client.snapshot(at.clone(), TransactionOptions::new_optimistic().drop_check(CheckLevel::None))
}

fn value(stored: &[u8]) -> Result<&[u8]> {
    stored.strip_prefix(&[VALUE]).ok_or_else(|| {
        let message = "there is a value under this prefix that kvbench did not write; choose another --prefix";
        Error::library(NAME, message)
    })
}

impl Engine for Tikv {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn key_limits(&self) -> (usize, usize) {
        (0, MAX_KEY.saturating_sub(self.keys.prefix()))
    }

    fn is_memory_only(&self) -> bool {
        false
    }

    fn read(&self, keys: &[&[u8]], visit: &mut VisitValue<'_>) -> Result<()> {
        if keys.is_empty() {
            return Ok(());
        }
        let now = self.now(Instant::now())?;
        self.read_at(keys, &now, visit)
    }

    /// Always synced. Done again on what others leave, when they are in the way.
    fn write(&self, batch: &Batch<'_>, _sync: bool) -> Result<()> {
        self.again(|transaction| transaction.apply(batch))
    }

    fn begin(&self) -> Result<Option<Box<dyn Transaction + '_>>> {
        Ok(Some(Box::new(self.start()?)))
    }

    /// Nothing is acknowledged before.
    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn scan(&self, range: KeyRange<'_>, visit: &mut VisitPair<'_>) -> Result<()> {
        let now = self.now(Instant::now())?;
        self.scan_at(range, &now, visit)
    }

    fn count(&self) -> Result<u64> {
        let now = self.now(Instant::now())?;
        Ok(self.stored_keys(&now, usize::MAX - 1)?.len() as u64)
    }

    /// Not known: the files are elsewhere.
    fn disk_size(&self) -> Result<u64> {
        Ok(0)
    }

    fn close(&self) -> Result<()> {
        Ok(())
    }
}

/// Stored keys, and their new values or nothing.
type Changes = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// A transaction in progress.
struct Running<'e> {
    engine: &'e Tikv,
    inner: Inner,
    at: Timestamp,
    /// Stored keys that were read.
    seen: HashSet<Vec<u8>>,
    /// Whether a read has waited in vain: no other need.
    failed: bool,
}

impl Running<'_> {
    fn check(&self) -> Result<()> {
        match self.failed {
            true => Err(unavailable("it did not answer the read before")),
            false => Ok(()),
        }
    }

    fn apply(self, batch: &Batch<'_>) -> Result<()> {
        self.check()?;
        let engine = self.engine;
        engine.check(batch.ops())?;
        let (clear, ops) = batch.after_clear();
        let mut changes = Changes::new();
        if clear {
            let keys = engine.stored_keys(&self.at, CLEARED)?;
            if keys.len() > CLEARED {
                engine.clear()?;
            } else {
                changes.extend(keys.into_iter().map(|key| (key, None)));
            }
        }
        changes.extend(engine.changes(ops));
        self.write(changes)
    }

    /// Commits the changes. What fails is rolled back, which also decides what is not known.
    fn write(self, changes: Changes) -> Result<()> {
        let Self { engine, mut inner, mut seen, .. } = self;
        if changes.is_empty() {
            return Ok(());
        }
        seen.retain(|key| !changes.contains_key(key));
        let commit = async move {
            for (key, value) in changes {
                match value {
                    Some(value) => inner.put(key, value).await?,
                    None => inner.delete(key).await?,
                }
            }
            // A key that was read conflicts with others' writes, as if it were written.
            inner.lock_keys(seen).await?;
            let outcome = call::in_time(inner.commit()).await;
            let Err(error) = outcome else { return Ok(Ok(())) };
            let undone = call::in_time(inner.rollback()).await;
            Ok(Err((error, undone)))
        };
        match engine.calls.wait(commit)?.map_err(|error: tikv_client::Error| unavailable(error))? {
            Ok(()) => Ok(()),
            // Told by the first phase alone.
            Err((error, _)) if is_write_conflict(&error) => Err(conflict(error)),
            Err((error, Ok(()))) if is_in_the_way(&error) => Err(conflict(error)),
            Err((error, Ok(()))) if is_too_large(&error) => {
                Err(Error::Full { engine: NAME, detail: "the transaction is too large for an entry of the log".into() })
            }
            Err((error, Ok(()))) => Err(unavailable(error)),
            Err((error, Err(_))) => Err(Error::Unknown { engine: NAME, detail: call::words(error) }),
        }
    }
}

impl Transaction for Running<'_> {
    fn read(&mut self, keys: &[&[u8]], visit: &mut VisitValue<'_>) -> Result<()> {
        self.check()?;
        let most = self.engine.key_limits().1;
        let stored = keys.iter().filter(|key| key.len() <= most).map(|key| self.engine.keys.stored(key));
        self.seen.extend(stored);
        let outcome = self.engine.read_at(keys, &self.at, visit);
        self.failed = outcome.is_err();
        outcome
    }

    fn scan(&mut self, range: KeyRange<'_>, visit: &mut VisitPair<'_>) -> Result<()> {
        self.check()?;
        let outcome = self.engine.scan_at(range, &self.at, visit);
        self.failed = outcome.is_err();
        outcome
    }

    fn commit(self: Box<Self>, batch: &Batch<'_>) -> Result<()> {
        self.apply(batch)
    }
}


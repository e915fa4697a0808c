//! The keys of one prefix in a cluster, and what it takes to read them.

use super::{
    async_client::{self, Calls, message},
    info::{MAX_KEY, NAME},
    page_scan::{Keys, Pages},
};
use crate::engine::{ClusterAccess, Error, KeyRange, Result, VisitPair, VisitValue, WriteOp, access::pem};
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    future::Future,
    ops::ControlFlow,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};
use tikv_client::{
    CheckLevel, Config, Error as Cause, Snapshot, Timestamp, Transaction, TransactionClient,
    TransactionOptions,
};
use tokio::time;

/// Longest value, in bytes: with room for what stands beside it in an entry of TiKV's log.
const MAX_VALUE: usize = 6 << 20;

/// Most writes of one transaction.
const MOST_WRITES: usize = 20_000;

/// Number of keys in the first call of a read of many keys, and maximum number in a later call: of the largest values,
/// 384 MiB and 3 GiB.
const KEYS_PER_CALL: (usize, usize) = (64, 512);

/// Size of the values in a response, in bytes, from which on later calls read fewer keys.
const LARGE_RESPONSE: usize = 4 << 20;

/// Time limit of a grouped read. It is short, because the group may contain reads of regions that have a leader beside
/// reads of one that elects its leader.
const GROUPED_READ_TIMEOUT: Duration = Duration::from_millis(500);

/// Maximum total size of the values that a grouped read copies, in bytes. A value is copied for each occurrence of its
/// key.
const MAX_COPIED: usize = 64 << 20;

/// Time after a failed grouped read in which each client's read is a call of its own.
const UNGROUPED: Duration = Duration::from_secs(1);

/// Largest answer of a node.
const LARGEST_ANSWER: usize = 1 << 30;

/// Versions older than this are removed, every time it has passed. TiDB's default.
const OLD: Duration = Duration::from_secs(600);

/// What stands before every value, because TiKV's interface does not promise to keep empty ones.
const VALUE: u8 = b'v';

/// Stored keys with their values.
type Found = HashMap<Vec<u8>, Vec<u8>>;

/// Stored keys, and their new values or nothing.
pub(super) type Changes = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

pub(super) struct Cluster {
    client: TransactionClient,
    keys: Keys,
    calls: Calls,
    /// Time of the last grouped read that failed.
    failed: Mutex<Option<Instant>>,
}

impl Cluster {
    /// Connects to the cluster of these placement drivers.
    pub fn open(nodes: &[String], prefix: &[u8], access: &ClusterAccess) -> Result<Self> {
        Self::open_since(Instant::now(), nodes, prefix, access)
    }

    /// Connects until it is too late since `begin`.
    fn open_since(begin: Instant, nodes: &[String], prefix: &[u8], access: &ClusterAccess) -> Result<Self> {
        let config = login(access)?.with_grpc_max_decoding_message_size(LARGEST_ANSWER);
        let flags = match access.ca {
            Some(_) => {
                ", and do the certificates of --cluster-tls-ca and --cluster-tls-cert fit? The log says more"
            }
            None => "?",
        };
        let (calls, place) = (Calls::new()?, nodes.join(","));
        let nodes = nodes.to_vec();
        let client = calls.read(begin, move || {
            let (nodes, config) = (nodes.clone(), config.clone());
            async move { TransactionClient::new_with_config(nodes, config).await }
        });
        let client = client.map_err(|error| {
            let cause = async_client::cause(&error);
            Error::library(NAME, format!("no cluster answers at --pd {place}: {cause}; is it running{flags}"))
        })?;
        Ok(Self { client, keys: Keys::new(prefix), calls, failed: Mutex::default() })
    }

    pub fn key_limits(&self) -> (usize, usize) {
        (0, MAX_KEY.saturating_sub(self.keys.prefix()))
    }

    pub fn stored(&self, key: &[u8]) -> Vec<u8> {
        self.keys.stored(key)
    }

    /// Waits for what the client does.
    pub fn wait<T: Send + 'static>(&self, future: impl Future<Output = T> + Send + 'static) -> Result<T> {
        self.calls.wait(future)
    }

    /// Begins a transaction. It may be dropped when nothing is to be written.
    pub fn begin(&self) -> Result<Transaction> {
        let client = self.client.clone();
        self.calls.read(Instant::now(), move || {
            let client = client.clone();
            // Not `try_one_pc`, by which version 0.4 asks each region to commit its part by itself, nor `use_async_commit`,
            // where it takes 0, which a region refuses it by, for the commit timestamp.
            let options = TransactionOptions::new_optimistic().drop_check(CheckLevel::None);
            async move { client.begin_with_options(options).await }
        })
    }

    /// Has the cluster forget overwritten versions, for as long as this is open.
    pub fn remove_old_versions(&self) {
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
    pub fn now(&self) -> Result<Timestamp> {
        let client = self.client.clone();
        self.calls.read(Instant::now(), move || {
            let client = client.clone();
            async move { client.current_timestamp().await }
        })
    }

    /// Returns the stored form of each of `keys` that can exist, once.
    fn wanted(&self, keys: &[&[u8]]) -> Vec<Vec<u8>> {
        let most = self.key_limits().1;
        let wanted: HashSet<_> = keys.iter().filter(|key| key.len() <= most).collect();
        wanted.into_iter().map(|key| self.keys.stored(key)).collect()
    }

    /// Reads keys at `at`, or at the current timestamp if that is `None`. The first call reads few keys, later calls
    /// more while the values are small. Calls `take` with the keys and the values of each call until it breaks.
    fn read_in_calls<'k>(
        &self,
        keys: &[&'k [u8]],
        mut at: Option<Timestamp>,
        mut take: impl FnMut(&[&'k [u8]], &Found) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        let (mut rest, mut many) = (keys, KEYS_PER_CALL.0);
        while !rest.is_empty() {
            let (together, later) = rest.split_at(many.min(rest.len()));
            let (client, wanted) = (self.client.clone(), self.wanted(together));
            let read = move || fetch(client.clone(), wanted.clone(), at.clone());
            let (moment, found) = self.calls.read(Instant::now(), read)?;
            if take(together, &found)?.is_break() {
                break;
            }
            many = match found.values().map(Vec::len).sum::<usize>() {
                0..LARGE_RESPONSE => (many * 2).min(KEYS_PER_CALL.1),
                _ => (many / 2).max(1),
            };
            (rest, at) = (later, Some(moment));
        }
        Ok(())
    }

    pub fn read_at(&self, keys: &[&[u8]], at: Option<Timestamp>, visit: &mut VisitValue<'_>) -> Result<()> {
        let mut index = 0;
        self.read_in_calls(keys, at, |together, found| {
            for key in together {
                let value = found.get(&self.keys.stored(key)).map(|stored| value(stored)).transpose()?;
                if visit(index, value).is_break() {
                    return Ok(ControlFlow::Break(()));
                }
                index += 1;
            }
            Ok(ControlFlow::Continue(()))
        })
    }

    /// Returns the values of keys at `at`, `None` for those that are absent. Stops when the values are many bytes.
    pub fn prefetch(&self, keys: &[&[u8]], at: &Timestamp) -> Result<HashMap<Vec<u8>, Option<Vec<u8>>>> {
        let (mut all, mut bytes) = (HashMap::new(), 0);
        self.read_in_calls(keys, Some(at.clone()), |together, found| {
            for key in together {
                let value = found.get(&self.keys.stored(key)).map(|stored| value(stored)).transpose()?;
                bytes += value.map_or(0, <[u8]>::len);
                all.insert(key.to_vec(), value.map(Vec::from));
            }
            Ok(if bytes < LARGE_RESPONSE { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
        })?;
        Ok(all)
    }

    /// Returns the current values of keys, read in one call: `None` for each key if it fails or takes long, and for keys
    /// whose values exceed [`MAX_COPIED`].
    pub fn values_now(&self, keys: &[&[u8]]) -> Vec<Option<Option<Vec<u8>>>> {
        let lock = || self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        let none = || keys.iter().map(|_| None).collect();
        if lock().is_some_and(|failed| failed.elapsed() < UNGROUPED) {
            return none();
        }
        let read = fetch(self.client.clone(), self.wanted(keys), None);
        let found = self.calls.wait(async move { time::timeout(GROUPED_READ_TIMEOUT, read).await });
        let found = match found {
            Ok(Ok(Ok((_, found)))) => found,
            failure => {
                let cause = failure.map(|outcome| outcome.map(|read| read.err().map(message)));
                log::debug!("{NAME}: no grouped reads for {UNGROUPED:?}: {cause:?}");
                *lock() = Some(Instant::now());
                return none();
            }
        };
        copies(keys.iter().map(|key| found.get(&self.keys.stored(key)).map(Vec::as_slice)), MAX_COPIED)
    }

    /// Visits the pairs of `range` at a moment, page by page.
    pub fn scan_at(&self, range: KeyRange<'_>, at: &Timestamp, visit: &mut VisitPair<'_>) -> Result<()> {
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
            pages.note(
                page.len(),
                page.iter().map(|(_, value)| value.len()).sum(),
                page.last().map(|(key, _)| key),
            );
            for (stored, bytes) in &page {
                if visit(self.keys.key(stored), value(bytes)?).is_break() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// The stored keys at a moment, page by page, until `visit` has enough.
    fn key_pages(
        &self,
        at: &Timestamp,
        mut visit: impl FnMut(Vec<Vec<u8>>) -> ControlFlow<()>,
    ) -> Result<()> {
        let mut pages = Pages::of_keys(self.keys.bounds(KeyRange::ALL));
        while let Some((range, limit)) = pages.next() {
            let (client, at) = (self.client.clone(), at.clone());
            let page: Vec<Vec<u8>> = self.calls.read(Instant::now(), move || {
                let (mut snapshot, range) = (snapshot(&client, &at), range.clone());
                async move { Ok(snapshot.scan_keys(range, limit).await?.map(Vec::from).collect()) }
            })?;
            pages.note(page.len(), 0, page.last());
            if visit(page).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Number of keys now.
    pub fn count(&self) -> Result<u64> {
        let mut count = 0;
        self.key_pages(&self.now()?, |page| {
            count += page.len() as u64;
            ControlFlow::Continue(())
        })?;
        Ok(count)
    }

    /// The first stored keys at a moment, `most` at most, and whether these are all.
    pub fn first_keys(&self, at: &Timestamp, most: usize) -> Result<(Vec<Vec<u8>>, bool)> {
        let mut keys = Vec::new();
        self.key_pages(at, |mut page| {
            keys.append(&mut page);
            if keys.len() > most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        let are_all = keys.len() <= most;
        keys.truncate(most);
        Ok((keys, are_all))
    }

    /// Fails when a transaction cannot hold these writes.
    pub fn check(&self, ops: &[WriteOp<'_>]) -> Result<()> {
        let refuse = |what| Err(Error::Unsupported { engine: NAME, what });
        if ops.len() > MOST_WRITES {
            return refuse(format!(
                "takes at most {MOST_WRITES} writes in a transaction, and these are {}",
                ops.len()
            ));
        }
        let (min, max) = self.key_limits();
        for op in ops {
            match *op {
                WriteOp::Put { value, .. } if value.len() > MAX_VALUE => {
                    return refuse(format!(
                        "takes values of at most {MAX_VALUE} bytes, and this has {}",
                        value.len()
                    ));
                }
                WriteOp::Put { key, .. } | WriteOp::Delete { key } if key.len() > max => {
                    return Err(Error::KeyLength { engine: NAME, len: key.len(), min, max });
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// What writes leave of each key.
    pub fn changes(&self, ops: &[WriteOp<'_>]) -> Changes {
        let change = |op: &WriteOp<'_>| match *op {
            WriteOp::Put { key, value } => Some((self.keys.stored(key), Some([&[VALUE], value].concat()))),
            WriteOp::Delete { key } => Some((self.keys.stored(key), None)),
            WriteOp::Clear => None,
        };
        ops.iter().filter_map(change).collect()
    }
}

/// Returns how to connect as `access` says.
fn login(access: &ClusterAccess) -> Result<Config> {
    let refuse = |what: &str| Err(Error::Unsupported { engine: NAME, what: what.into() });
    if access.user.is_some() || access.password_file.is_some() {
        return refuse(
            "has no passwords: it knows clients by certificates; use --cluster-tls-ca and --cluster-tls-cert",
        );
    }
    let Some(ca) = &access.ca else { return Ok(Config::default()) };
    let Some((cert, key)) = &access.identity else {
        return refuse(
            "with --cluster-tls-ca needs --cluster-tls-cert and --cluster-tls-key, too: its nodes want to know clients",
        );
    };
    for (flag, path) in [("--cluster-tls-ca", ca), ("--cluster-tls-cert", cert), ("--cluster-tls-key", key)] {
        pem(NAME, flag, path)?;
    }
    Ok(Config::default().with_security(ca, cert, key))
}

/// What the cluster had at a moment. It remembers what it has read, so it is for one call.
fn snapshot(client: &TransactionClient, at: &Timestamp) -> Snapshot {
    client.snapshot(at.clone(), TransactionOptions::new_optimistic().drop_check(CheckLevel::None))
}

/// Returns the values of stored keys at `at`, or at the current timestamp if that is `None`, with that timestamp.
async fn fetch(
    client: TransactionClient,
    keys: Vec<Vec<u8>>,
    at: Option<Timestamp>,
) -> Result<(Timestamp, Found), Cause> {
    let at = match at {
        Some(at) => at,
        None => client.current_timestamp().await?,
    };
    let found = snapshot(&client, &at).batch_get(keys).await?;
    Ok((at, found.map(|pair| (pair.0.into(), pair.1)).collect()))
}

/// Returns a copy of each of `values`: `None` for a value that kvbench did not write, and for one with which the copies
/// would exceed `most` bytes.
fn copies<'v>(
    values: impl Iterator<Item = Option<&'v [u8]>>,
    mut most: usize,
) -> Vec<Option<Option<Vec<u8>>>> {
    let copy = |stored: Option<&'v [u8]>| {
        let value = stored.map(value).transpose().ok()?;
        most = most.checked_sub(value.map_or(0, <[u8]>::len))?;
        Some(value.map(Vec::from))
    };
    values.map(copy).collect()
}

fn value(stored: &[u8]) -> Result<&[u8]> {
    stored.strip_prefix(&[VALUE]).ok_or_else(|| {
        let message =
            "there is a value under this prefix that kvbench did not write; choose another --prefix";
        Error::library(NAME, message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, net::TcpListener, path::PathBuf, thread};

    fn open(begin: Instant, node: &str, access: &ClusterAccess) -> String {
        let outcome = Cluster::open_since(begin, &[node.into()], b"p/", access);
        outcome.map(drop).unwrap_err().to_string()
    }

    #[test]
    fn grouped_read_copies_values_up_to_a_total_size() {
        let some = |value: &[u8]| Some(Some(value.to_vec()));
        let stored = [Some(&b"vab"[..]), None, Some(b"foreign"), Some(b"vabc"), Some(b"vab"), Some(b"v")];
        let found = copies(stored.into_iter(), 4);
        assert_eq!(found, [some(b"ab"), Some(None), None, None, some(b"ab"), some(b"")]);
    }

    #[test]
    fn access_that_a_cluster_of_tikv_does_not_have_is_refused() {
        let some = || Some(PathBuf::from("none.pem"));
        let none = ClusterAccess::default;
        for (access, words) in [
            (ClusterAccess { password_file: some(), ..none() }, "has no passwords"),
            (ClusterAccess { ca: some(), ..none() }, "--cluster-tls-cert and --cluster-tls-key, too"),
            (
                ClusterAccess { ca: some(), identity: some().zip(some()), ..none() },
                "--cluster-tls-ca none.pem cannot be read",
            ),
        ] {
            let error = open(Instant::now(), "127.0.0.1:1", &access);
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn cluster_that_does_not_speak_tls_is_told_with_the_flags() {
        let dir = tempfile::tempdir().unwrap();
        let signed = rcgen::generate_simple_self_signed(["localhost".into()]).unwrap();
        let file = |name: &str, text: String| {
            let path = dir.path().join(name);
            fs::write(&path, text).unwrap();
            path
        };
        let cert = file("cert", signed.cert.pem());
        let key = file("key", signed.signing_key.serialize_pem());
        let access =
            ClusterAccess { ca: Some(cert.clone()), identity: Some((cert, key)), ..ClusterAccess::default() };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        thread::spawn(move || listener.incoming().for_each(drop));
        let begin = Instant::now().checked_sub(async_client::TIMEOUT - Duration::from_secs(1)).unwrap();
        let error = open(begin, &address, &access);
        assert!(error.contains(&address) && error.contains("--cluster-tls-ca"), "{error}");
    }
}

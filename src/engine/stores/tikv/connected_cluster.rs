//! Connection to the TiKV cluster, and reads and scans of the keys of a store.

use super::{
    blocking_calls::{self, Calls, message},
    description::{MAX_KEY, NAME},
    page_scan::{Keys, Pages},
};
use crate::engine::{
    ClusterAccess, Error, KeyRange, Result, VisitPair, VisitValue, WriteOp, cluster_access::pem,
};
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

/// Maximum length of a value, in bytes. With the rest of its entry it must fit into TiKV's Raft log, by default 8 MiB.
const MAX_VALUE: usize = 6 << 20;

/// Maximum number of writes of a TiKV transaction.
const MAX_WRITES: usize = 20_000;

/// Number of keys in the first of the calls to the cluster that read many keys, and maximum number in a later call.
/// With values of the maximum length these are 384 MiB and 3 GiB.
const KEYS_PER_CALL: (usize, usize) = (64, 512);

/// Size of the values in a response, in bytes, from which the next call to the cluster reads half as many keys. Also
/// the total size of the values from which a prefetch leaves out the remaining keys.
const LARGE_RESPONSE: usize = 4 << 20;

/// Time limit of a grouped read: one call to the cluster that reads keys for several clients. It is short, because the
/// group may contain reads of regions that have a leader beside reads of one that elects its leader.
const GROUPED_READ_TIMEOUT: Duration = Duration::from_millis(500);

/// Maximum total size of the values that a grouped read (for several clients) copies, in bytes. A value is copied for
/// each occurrence of its key.
const MAX_COPIED: usize = 64 << 20;

/// Time after a failed grouped read (for several clients) in which each client's read is a call of its own.
const UNGROUPED_TIME: Duration = Duration::from_secs(1);

/// Maximum length of a reply of a TiKV node, in bytes.
const MAX_REPLY: usize = 1 << 30;

/// Age from which overwritten versions of values are removed from TiKV, and interval of their removal. It is TiDB's
/// default.
const VERSION_LIFETIME: Duration = Duration::from_secs(600);

/// First byte of every stored value. It makes empty values possible, which TiKV's interface does not guarantee.
const VALUE_TAG: u8 = b'v';

/// Stored values by stored key.
type Found = HashMap<Vec<u8>, Vec<u8>>;

/// New stored value of each written key, by stored key; `None` for removed keys.
pub(super) type Changes = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// Connection to a TiKV cluster, for the keys of one store.
pub(super) struct Cluster {
    client: TransactionClient,
    keys: Keys,
    calls: Calls,
    /// Time of the last grouped read (one call for several clients) that failed; `None` if none has failed.
    failed: Mutex<Option<Instant>>,
}

impl Cluster {
    /// Connects to the cluster of the placement drivers `nodes`.
    ///
    /// # Errors
    ///
    /// Fails if `access` is not usable with TiKV, or if no cluster replies within [`TIMEOUT`](blocking_calls::TIMEOUT).
    pub fn open(nodes: &[String], prefix: &[u8], access: &ClusterAccess) -> Result<Self> {
        Self::open_since(Instant::now(), nodes, prefix, access)
    }

    /// Connects like [`Self::open`], with the time limit counted from `begin`.
    fn open_since(begin: Instant, nodes: &[String], prefix: &[u8], access: &ClusterAccess) -> Result<Self> {
        let config = login(access)?.with_grpc_max_decoding_message_size(MAX_REPLY);
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
            let cause = blocking_calls::cause(&error);
            Error::library(NAME, format!("no cluster answers at --pd {place}: {cause}; is it running{flags}"))
        })?;
        Ok(Self { client, keys: Keys::new(prefix), calls, failed: Mutex::default() })
    }

    /// Returns the minimum and maximum length of a key, in bytes.
    pub fn key_limits(&self) -> (usize, usize) {
        (0, MAX_KEY.saturating_sub(self.keys.prefix()))
    }

    /// Returns the stored form of a key: the store's prefix, then the key.
    pub fn stored(&self, key: &[u8]) -> Vec<u8> {
        self.keys.stored(key)
    }

    /// Runs `future` on the threads of TiKV's client, and blocks until it has returned. Fails if it panics.
    pub fn wait<T: Send + 'static>(&self, future: impl Future<Output = T> + Send + 'static) -> Result<T> {
        self.calls.wait(future)
    }

    /// Begins a transaction. If it has no writes, it may be dropped without a commit.
    pub fn begin(&self) -> Result<Transaction> {
        let client = self.client.clone();
        self.calls.read(Instant::now(), move || {
            let client = client.clone();
            // Two options have errors in version 0.4 of the client. With `try_one_pc` each region commits its part
            // separately. With `use_async_commit` a region that refuses it replies 0, which the client takes for the
            // commit timestamp.
            let options = TransactionOptions::new_optimistic().drop_check(CheckLevel::None);
            async move { client.begin_with_options(options).await }
        })
    }

    /// Removes overwritten versions that are older than [`VERSION_LIFETIME`] from the whole cluster, also those of keys
    /// of other programs. Does so in the background, first after [`VERSION_LIFETIME`] and again after each such time,
    /// until `self` is dropped.
    pub fn remove_old_versions(&self) {
        let client = self.client.clone();
        self.calls.run_periodically(VERSION_LIFETIME, move || {
            let client = client.clone();
            async move {
                let now = client.current_timestamp().await?;
                let physical = now.physical - i64::try_from(VERSION_LIFETIME.as_millis()).unwrap_or(i64::MAX);
                client.gc(Timestamp { physical, ..now }).await.map(drop)
            }
        });
    }

    /// Returns the current timestamp of the cluster. A snapshot at it contains all acknowledged writes.
    pub fn now(&self) -> Result<Timestamp> {
        let client = self.client.clone();
        self.calls.read(Instant::now(), move || {
            let client = client.clone();
            async move { client.current_timestamp().await }
        })
    }

    /// Returns the stored forms of `keys`, in no particular order, without duplicates and without keys that exceed the
    /// maximum length.
    fn wanted(&self, keys: &[&[u8]]) -> Vec<Vec<u8>> {
        let most = self.key_limits().1;
        let wanted: HashSet<_> = keys.iter().filter(|key| key.len() <= most).collect();
        wanted.into_iter().map(|key| self.keys.stored(key)).collect()
    }

    /// Reads `keys` under one snapshot, at the timestamp `at` or, if that is `None`, at the current one, in several
    /// calls to the cluster. Later calls read more keys while the values are small. Passes the keys of each call and
    /// their stored values to `take` until it breaks.
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

    /// Reads `keys` at the timestamp `at`, or at the current one if `at` is `None`, and calls `visit` for each, in
    /// order, until it breaks.
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

    /// Returns the values of `keys` at the timestamp `at`, by key; `None` for absent keys. Leaves out the remaining
    /// keys once the values have [`LARGE_RESPONSE`] bytes.
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

    /// Returns the current values of `keys`, read in one call; `Some(None)` for absent keys. Returns `None` for every
    /// key if the call fails or takes longer than [`GROUPED_READ_TIMEOUT`], or if one did in the last
    /// [`UNGROUPED_TIME`]; and for each key whose value kvbench did not write, or with whose value the copies would
    /// exceed [`MAX_COPIED`].
    pub fn values_now(&self, keys: &[&[u8]]) -> Vec<Option<Option<Vec<u8>>>> {
        let lock = || self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        let none = || keys.iter().map(|_| None).collect();
        if lock().is_some_and(|failed| failed.elapsed() < UNGROUPED_TIME) {
            return none();
        }
        let read = fetch(self.client.clone(), self.wanted(keys), None);
        let found = self.calls.wait(async move { time::timeout(GROUPED_READ_TIMEOUT, read).await });
        let found = match found {
            Ok(Ok(Ok((_, found)))) => found,
            failure => {
                let cause = failure.map(|outcome| outcome.map(|read| read.err().map(message)));
                log::debug!("{NAME}: no grouped reads for {UNGROUPED_TIME:?}: {cause:?}");
                *lock() = Some(Instant::now());
                return none();
            }
        };
        copies(keys.iter().map(|key| found.get(&self.keys.stored(key)).map(Vec::as_slice)), MAX_COPIED)
    }

    /// Visits the pairs of `range` under the snapshot at the timestamp `at`, in order, until `visit` breaks.
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

    /// Calls `visit` with the stored keys of this store at the timestamp `at`, in order, one page in each call, until
    /// it breaks.
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

    /// Returns the current number of keys, by a scan of all keys.
    pub fn count(&self) -> Result<u64> {
        let mut count = 0;
        self.key_pages(&self.now()?, |page| {
            count += page.len() as u64;
            ControlFlow::Continue(())
        })?;
        Ok(count)
    }

    /// Returns the first stored keys of this store at the timestamp `at`, at most `most`, and `true` if these are all
    /// keys.
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

    /// Checks that one transaction can execute `ops`.
    ///
    /// # Errors
    ///
    /// Fails for more than [`MAX_WRITES`] writes, and for a key or value that is too long.
    pub fn check(&self, ops: &[WriteOp<'_>]) -> Result<()> {
        let refuse = |what| Err(Error::Unsupported { engine: NAME, what });
        if ops.len() > MAX_WRITES {
            return refuse(format!(
                "takes at most {MAX_WRITES} writes in a transaction, and these are {}",
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

    /// Returns the new stored value of each key that `ops` put or delete, by stored key; `None` for deletes. The last
    /// write of a key counts. `Clear` is left out.
    pub fn changes(&self, ops: &[WriteOp<'_>]) -> Changes {
        let change = |op: &WriteOp<'_>| match *op {
            WriteOp::Put { key, value } => {
                Some((self.keys.stored(key), Some([&[VALUE_TAG], value].concat())))
            }
            WriteOp::Delete { key } => Some((self.keys.stored(key), None)),
            WriteOp::Clear => None,
        };
        ops.iter().filter_map(change).collect()
    }
}

/// Returns the configuration of TiKV's client for `access`.
///
/// # Errors
///
/// Fails if `access` has a user or a password, or a CA certificate without a client certificate, or if a file cannot be
/// read.
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

/// Returns a snapshot of the cluster at the timestamp `at`. It caches all values that it reads, so it is used for one
/// call only.
fn snapshot(client: &TransactionClient, at: &Timestamp) -> Snapshot {
    client.snapshot(at.clone(), TransactionOptions::new_optimistic().drop_check(CheckLevel::None))
}

/// Reads stored keys at the timestamp `at`, or at the current one if `at` is `None`. Returns the timestamp and the
/// stored values.
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

/// Returns copies of `values`, without the byte [`VALUE_TAG`]; `Some(None)` for absent ones. Returns `None` for a value
/// that kvbench did not write, and for one with which the copies would exceed `most` bytes.
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

/// Returns a stored value without its first byte, [`VALUE_TAG`].
///
/// # Errors
///
/// Fails if the stored value does not begin with [`VALUE_TAG`]: kvbench did not write it.
fn value(stored: &[u8]) -> Result<&[u8]> {
    stored.strip_prefix(&[VALUE_TAG]).ok_or_else(|| {
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
    fn cluster_without_tls_gets_an_error_that_names_the_flags() {
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
        let begin = Instant::now().checked_sub(blocking_calls::TIMEOUT - Duration::from_secs(1)).unwrap();
        let error = open(begin, &address, &access);
        assert!(error.contains(&address) && error.contains("--cluster-tls-ca"), "{error}");
    }
}

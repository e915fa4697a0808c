//! Optimistic transactions of the TiKV cluster. A commit locks the keys that were read, so that it detects changes of
//! them.

use super::{
    blocking_calls::{TIMEOUT, unavailable},
    commit_outcome,
    connected_cluster::{Changes, Cluster},
    description::NAME,
};
use crate::engine::{Batch, Error, KeyRange, Result, Transaction, VisitPair, VisitValue};
use std::{
    collections::{HashMap, HashSet},
    time::Instant,
};
use tikv_client::{Timestamp, Transaction as Inner};

/// Maximum number of keys that one transaction removes when all keys of a store are removed.
const KEYS_PER_REMOVAL: usize = 2000;

/// Optimistic TiKV transaction in progress.
pub(super) struct OptimisticTransaction<'e> {
    cluster: &'e Cluster,
    inner: Inner,
    /// Timestamp of the snapshot that the transaction reads.
    at: Timestamp,
    /// Stored keys that the transaction has read. The commit locks them, so that it detects changes of them.
    read_keys: HashSet<Vec<u8>>,
    /// Prefetched values by key, `None` for absent keys.
    prefetched: HashMap<Vec<u8>, Option<Vec<u8>>>,
    /// Text of the error of the transaction's first read that the cluster did not answer in time, or `None`. Later
    /// reads then fail without a wait, and so does the commit. Other errors are not recorded: they concern one key, and
    /// not the other clients whose requests are in the same transaction.
    failed: Option<String>,
}

impl<'e> OptimisticTransaction<'e> {
    pub fn begin(cluster: &'e Cluster) -> Result<Self> {
        let inner = cluster.begin()?;
        let at = inner.start_timestamp();
        Ok(Self { cluster, inner, at, read_keys: HashSet::new(), prefetched: HashMap::new(), failed: None })
    }

    fn check(&self) -> Result<()> {
        self.failed.as_ref().map_or(Ok(()), |cause| Err(unavailable(cause)))
    }

    /// Returns `outcome`, the result of a read of the transaction. If it is [`Error::Unavailable`], records the cause:
    /// all later reads and the commit then fail at once.
    fn note<T>(&mut self, outcome: Result<T>) -> Result<T> {
        if let Err(Error::Unavailable { detail, .. }) = &outcome {
            self.failed = Some(detail.clone());
        }
        outcome
    }

    /// Commits a write batch, and ends the transaction. A clear of more than [`KEYS_PER_REMOVAL`] keys is not atomic.
    ///
    /// # Errors
    ///
    /// Fails with [`Error::Conflict`] if another client has changed a key of the transaction, if the batch has too many
    /// writes or a key or value that is too long, and if the cluster refuses or does not reply.
    pub fn apply(self, batch: &Batch<'_>) -> Result<()> {
        self.check()?;
        let cluster = self.cluster;
        cluster.check(batch.ops())?;
        let (clear, ops) = batch.after_clear();
        let mut changes = Changes::new();
        if clear {
            let (keys, are_all) = cluster.first_keys(&self.at, KEYS_PER_REMOVAL)?;
            if !are_all {
                remove_all(cluster)?;
                // This transaction began before the removal, and would conflict with it: so a new one writes the rest.
                let rest = if self.read_keys.is_empty() { Self::begin(cluster) } else { Ok(self) };
                return rest.and_then(|rest| rest.write(cluster.changes(ops))).map_err(after_removal);
            }
            changes.extend(keys.into_iter().map(|key| (key, None)));
        }
        changes.extend(cluster.changes(ops));
        self.write(changes)
    }

    /// Commits `changes` and ends the transaction. Without changes, does nothing, not even a check of the keys that
    /// were read.
    fn write(self, changes: Changes) -> Result<()> {
        let Self { cluster, mut inner, mut read_keys, .. } = self;
        if changes.is_empty() {
            return Ok(());
        }
        read_keys.retain(|key| !changes.contains_key(key));
        let commit = async move {
            for (key, value) in changes {
                match value {
                    Some(value) => inner.put(key, value).await?,
                    None => inner.delete(key).await?,
                }
            }
            // Locks the keys that were read, so that writes of other clients to them conflict as with a written key.
            inner.lock_keys(read_keys).await?;
            Ok(commit_outcome::commit(&mut inner, TIMEOUT).await)
        };
        cluster.wait(commit)?.map_err(|error: tikv_client::Error| unavailable(error))?
    }
}

impl Transaction for OptimisticTransaction<'_> {
    fn read(&mut self, keys: &[&[u8]], visit: &mut VisitValue<'_>) -> Result<()> {
        self.check()?;
        let most = self.cluster.key_limits().1;
        let stored = keys.iter().filter(|key| key.len() <= most).map(|key| self.cluster.stored(key));
        self.read_keys.extend(stored);
        let prefetched = keys.iter().map(|key| self.prefetched.get(*key)).collect::<Option<Vec<_>>>();
        if let Some(values) = prefetched {
            let mut values = values.into_iter().enumerate();
            let _stopped_early = values.try_for_each(|(index, value)| visit(index, value.as_deref()));
            return Ok(());
        }
        self.note(self.cluster.read_at(keys, Some(self.at.clone()), visit))
    }

    fn prefetch(&mut self, keys: &[&[u8]]) {
        match self.note(self.cluster.prefetch(keys, &self.at)) {
            Ok(values) => self.prefetched = values,
            // If the value was not written by kvbench, the read of its key returns the error.
            Err(error) => log::debug!("{NAME}: {error}"),
        }
    }

    fn scan(&mut self, range: KeyRange<'_>, visit: &mut VisitPair<'_>) -> Result<()> {
        self.check()?;
        self.note(self.cluster.scan_at(range, &self.at, visit))
    }

    fn commit(self: Box<Self>, batch: &Batch<'_>) -> Result<()> {
        self.apply(batch)
    }
}

/// Converts the error of a batch's writes that failed after all keys of the store had been removed, so that it does not
/// say that nothing was written. A transaction conflict stays one.
fn after_removal(error: Error) -> Error {
    match error {
        Error::Conflict { .. } => error,
        error => error.after_removal(NAME, "all keys"),
    }
}

/// Removes all keys of this store, in several transactions.
///
/// # Errors
///
/// Fails if a transaction fails, or the search for further keys; the error then says how many keys were removed.
fn remove_all(cluster: &Cluster) -> Result<()> {
    let first_keys = || {
        let found = cluster.now().and_then(|now| cluster.first_keys(&now, KEYS_PER_REMOVAL));
        found.map(|(keys, _)| keys)
    };
    remove_in_steps(first_keys, |none| with_retries(cluster, |transaction| transaction.write(none.clone())))
}

/// Calls `remove` with deletes of the stored keys that `first_keys` returns, until it returns none.
///
/// # Errors
///
/// Fails with the first error of either; if keys were removed before, the error says how many.
fn remove_in_steps(
    first_keys: impl Fn() -> Result<Vec<Vec<u8>>>,
    remove: impl Fn(&Changes) -> Result<()>,
) -> Result<()> {
    let mut removed = 0;
    let mut remove_each = || -> Result<()> {
        loop {
            let none: Changes = first_keys()?.into_iter().map(|key| (key, None)).collect();
            if none.is_empty() {
                return Ok(());
            }
            remove(&none)?;
            removed += none.len();
        }
    };
    let outcome = remove_each();
    outcome.map_err(|error| error.after_removing(NAME, removed))
}

/// Calls `write` with a new transaction, and again while it fails with a transaction conflict, until [`TIMEOUT`] after
/// the first call. Returns the last outcome.
pub(super) fn with_retries(
    cluster: &Cluster,
    write: impl Fn(OptimisticTransaction<'_>) -> Result<()>,
) -> Result<()> {
    let begin = Instant::now();
    loop {
        match write(OptimisticTransaction::begin(cluster)?) {
            Err(Error::Conflict { .. }) if begin.elapsed() < TIMEOUT => {}
            outcome => return outcome,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    fn fail<T>() -> Result<T> {
        Err(unavailable("a test"))
    }

    /// Removes the keys that are found in `steps`, and returns the outcome. An empty step stands for an error of the
    /// search for keys. The removal of the key `bad` fails.
    fn remove(steps: &[&[&str]]) -> Result<()> {
        let steps = RefCell::new(steps.iter());
        let first_keys = || match steps.borrow_mut().next() {
            None => Ok(Vec::new()),
            Some([]) => fail(),
            Some(keys) => Ok(keys.iter().map(|key| key.as_bytes().to_vec()).collect()),
        };
        remove_in_steps(first_keys, |none| if none.contains_key(&b"bad"[..]) { fail() } else { Ok(()) })
    }

    /// [`Error::Unavailable`] says that nothing was written, which is wrong after a removal.
    #[test]
    fn outcome_is_unknown_if_a_removal_of_all_keys_fails_after_some() {
        remove(&[]).unwrap();
        remove(&[&["a", "b"], &["c"]]).unwrap();
        for outcome in [remove(&[&[]]), remove(&[&["bad"]])] {
            let error = outcome.unwrap_err();
            assert!(matches!(error, Error::Unavailable { .. }), "{error}");
        }
        for outcome in [remove(&[&["a", "b"], &[]]), remove(&[&["a", "b"], &["bad"]])] {
            let error = outcome.unwrap_err();
            assert!(matches!(error, Error::Unknown { .. }), "{error}");
            assert!(error.to_string().contains("2 keys were removed, then: "), "{error}");
        }
    }
}

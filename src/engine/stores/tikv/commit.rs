//! One transaction of the cluster: optimistic, with the keys that were read locked at its commit.

use super::{
    async_client::{TIMEOUT, unavailable},
    info::NAME,
    outcome,
    reads::{Changes, Cluster},
};
use crate::engine::{Batch, Error, KeyRange, Result, Transaction, VisitPair, VisitValue};
use std::{
    collections::{HashMap, HashSet},
    time::Instant,
};
use tikv_client::{Timestamp, Transaction as Inner};

/// Keys that are removed together when all are.
const CLEARED: usize = 2000;

/// A transaction in progress.
pub(super) struct Running<'e> {
    cluster: &'e Cluster,
    inner: Inner,
    at: Timestamp,
    /// Stored keys that were read.
    seen: HashSet<Vec<u8>>,
    /// Prefetched values by key, `None` for absent keys.
    prefetched: HashMap<Vec<u8>, Option<Vec<u8>>>,
    /// Cause of a read that the cluster did not answer in time. No other read needs to wait then, and the commit fails.
    /// Other errors concern one key, and not the other clients of the commit group.
    failed: Option<String>,
}

impl<'e> Running<'e> {
    pub fn begin(cluster: &'e Cluster) -> Result<Self> {
        let inner = cluster.begin()?;
        let at = inner.start_timestamp();
        Ok(Self { cluster, inner, at, seen: HashSet::new(), prefetched: HashMap::new(), failed: None })
    }

    fn check(&self) -> Result<()> {
        self.failed.as_ref().map_or(Ok(()), |cause| Err(unavailable(cause)))
    }

    /// Returns `outcome`, and records that the cluster is not available if it says so.
    fn note<T>(&mut self, outcome: Result<T>) -> Result<T> {
        if let Err(Error::Unavailable { detail, .. }) = &outcome {
            self.failed = Some(detail.clone());
        }
        outcome
    }

    /// Applies a batch, after which this has ended.
    pub fn apply(self, batch: &Batch<'_>) -> Result<()> {
        self.check()?;
        let cluster = self.cluster;
        cluster.check(batch.ops())?;
        let (clear, ops) = batch.after_clear();
        let mut changes = Changes::new();
        if clear {
            let (keys, are_all) = cluster.first_keys(&self.at, CLEARED)?;
            if !are_all {
                remove_all(cluster)?;
                // This one began before, and would find that somebody has written.
                let rest = if self.seen.is_empty() { Self::begin(cluster) } else { Ok(self) };
                return rest.and_then(|rest| rest.write(cluster.changes(ops))).map_err(after_removal);
            }
            changes.extend(keys.into_iter().map(|key| (key, None)));
        }
        changes.extend(cluster.changes(ops));
        self.write(changes)
    }

    /// Commits the changes.
    fn write(self, changes: Changes) -> Result<()> {
        let Self { cluster, mut inner, mut seen, .. } = self;
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
            Ok(outcome::commit(&mut inner, TIMEOUT).await)
        };
        cluster.wait(commit)?.map_err(|error: tikv_client::Error| unavailable(error))?
    }
}

impl Transaction for Running<'_> {
    fn read(&mut self, keys: &[&[u8]], visit: &mut VisitValue<'_>) -> Result<()> {
        self.check()?;
        let most = self.cluster.key_limits().1;
        let stored = keys.iter().filter(|key| key.len() <= most).map(|key| self.cluster.stored(key));
        self.seen.extend(stored);
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

/// Returns the error of the writes that follow the removal of all keys: it is not true of them that nothing was written.
fn after_removal(error: Error) -> Error {
    match error {
        Error::Conflict { .. } => error,
        error => error.after_removal(NAME, "all keys"),
    }
}

/// Removes all keys, in several transactions.
fn remove_all(cluster: &Cluster) -> Result<()> {
    let mut removed = 0;
    loop {
        let (keys, _) = cluster.first_keys(&cluster.now()?, CLEARED)?;
        if keys.is_empty() {
            return Ok(());
        }
        let count = keys.len();
        let none: Changes = keys.into_iter().map(|key| (key, None)).collect();
        again(cluster, |transaction| transaction.write(none.clone()))
            .map_err(|error| error.after_removing(NAME, removed))?;
        removed += count;
    }
}

/// Does something again on what others leave, when they are in the way.
pub(super) fn again(cluster: &Cluster, write: impl Fn(Running<'_>) -> Result<()>) -> Result<()> {
    let begin = Instant::now();
    loop {
        match write(Running::begin(cluster)?) {
            Err(Error::Conflict { .. }) if begin.elapsed() < TIMEOUT => {}
            outcome => return outcome,
        }
    }
}

//! Transactions in one hash slot: a script compares the values that were read, and writes if they are unchanged.

use super::{
    all_masters::Changes,
    description::NAME,
    node::Refusal,
    routing::{Cluster, Effect, refused, unavailable},
    scripts::COMMIT,
};
use crate::engine::{Batch, Error, KeyRange, Result, Transaction, VisitPair, VisitValue, WriteOp};
use redis::{Cmd, Value, cmd};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum length of a value, in bytes: the default of Redis' `proto-max-bulk-len`.
const MAX_VALUE: usize = 512 << 20;

/// Maximum number of keys of a transaction, because a request to a node has at most 1,048,576 arguments. Also the
/// maximum number of writes of a part of a pipelined batch.
const MAX_KEYS: usize = 200_000;

/// Optimistic transaction on keys of one hash slot of a Redis Cluster, in progress.
pub(super) struct OptimisticTransaction<'e> {
    cluster: &'e Cluster,
    /// Hash slot of all keys of the transaction; `None` before the first key.
    slot: Option<u16>,
    /// `true` if a key of another slot was requested: the commit then fails.
    crossed: bool,
    /// Values that the transaction has read, by stored key; `None` for absent keys.
    seen: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
}

impl<'e> OptimisticTransaction<'e> {
    pub fn begin(cluster: &'e Cluster) -> Self {
        Self { cluster, slot: None, crossed: false, seen: BTreeMap::new() }
    }

    /// Makes the hash slot of the first key the slot of the transaction; all later keys must be in it.
    ///
    /// # Errors
    ///
    /// Fails with [`Error::CrossSlot`] if `key` or an earlier key is in another slot than the first key.
    fn fix_slot(&mut self, key: &[u8]) -> Result<()> {
        let slot = self.cluster.keys.slot(key);
        self.crossed |= *self.slot.get_or_insert(slot) != slot;
        if self.crossed { Err(Error::CrossSlot) } else { Ok(()) }
    }

    /// Writes a batch if the values that the transaction has read are unchanged, and ends the transaction. A clear is
    /// executed first, and is not atomic. Without writes, a single value that was read is not compared.
    ///
    /// # Errors
    ///
    /// Fails with [`Error::Conflict`] if another client has changed a value, with [`Error::CrossSlot`] if the keys are
    /// in several slots, and with [`Error::Unsupported`] if the transaction has read a key before a batch that clears.
    /// Also fails if there are too many keys, if a key or value is too long, and if a node refuses or does not reply.
    pub fn apply(mut self, batch: &Batch<'_>) -> Result<()> {
        check(self.cluster, batch.ops())?;
        let (clear, ops) = batch.after_clear();
        let keys = ops.iter().filter_map(|op| match op {
            WriteOp::Put { key, .. } | WriteOp::Delete { key } => Some(key),
            WriteOp::Clear => None,
        });
        for key in keys {
            self.fix_slot(key)?;
        }
        if self.crossed {
            return Err(Error::CrossSlot);
        }
        let changes = self.cluster.changes(ops);
        if clear {
            if !self.seen.is_empty() {
                let what = "cannot remove all keys together with what else MULTI and EXEC do".into();
                return Err(Error::Unsupported { engine: NAME, what });
            }
            check_count(changes.len())?;
            self.cluster.clear()?;
            return self.write(&changes).map_err(|error| error.after_removal(NAME, "all keys"));
        }
        // A transaction without writes that has read at most one key needs no comparison.
        if changes.is_empty() && self.seen.len() < 2 {
            return Ok(());
        }
        self.write(&changes)
    }

    fn write(&self, changes: &Changes<'_>) -> Result<()> {
        let Some(slot) = self.slot else { return Ok(()) };
        let keys: BTreeSet<&Vec<u8>> = self.seen.keys().chain(changes.keys()).collect();
        check_count(keys.len())?;
        let request = |mut request: Cmd| {
            request.arg(keys.len());
            for key in &keys {
                request.arg(key.as_slice());
            }
            for key in &keys {
                let (check, value) = match self.seen.get(*key) {
                    None => ("", &b""[..]),
                    Some(None) => ("a", &b""[..]),
                    Some(Some(value)) => ("h", value.as_slice()),
                };
                request.arg(check).arg(value);
                let (change, value) = match changes.get(*key) {
                    None => ("", &b""[..]),
                    Some(None) => ("d", &b""[..]),
                    Some(Some(value)) => ("s", *value),
                };
                request.arg(change).arg(value);
            }
            request.get_packed_command()
        };
        let send = |request: Vec<u8>| self.cluster.follow(slot, &request, Effect::Writes);
        let mut answer = send(request(cmd("EVALSHA").arg(&self.cluster.commit).take()))?.value;
        if let Err(Refusal::NoScript) = answer {
            answer = send(request(cmd("EVAL").arg(COMMIT).take()))?.value;
        }
        match answer {
            Ok(Value::Int(1)) => Ok(()),
            Ok(Value::Int(0)) => {
                let detail = "a value is not what it was when it was read".into();
                Err(Error::Conflict { engine: NAME, detail })
            }
            Ok(other) => Err(unavailable(format!("a node answered {other:?}"))),
            Err(refusal) => Err(refused(refusal)),
        }
    }
}

impl Transaction for OptimisticTransaction<'_> {
    fn read(&mut self, keys: &[&[u8]], visit: &mut VisitValue<'_>) -> Result<()> {
        let most = self.cluster.key_limits().1;
        let fitting = || keys.iter().filter(|key| key.len() <= most);
        for key in fitting() {
            self.fix_slot(key)?;
        }
        let stored = |key: &[u8]| self.cluster.keys.stored(key);
        let unseen: Vec<_> =
            fitting().filter(|key| !self.seen.contains_key(&stored(key))).map(|key| key.to_vec()).collect();
        let found = self.cluster.values(&unseen)?;
        for (key, value) in unseen.into_iter().zip(found) {
            self.seen.insert(self.cluster.keys.stored(&key), value);
        }
        for (index, key) in keys.iter().enumerate() {
            let value = self.seen.get(&self.cluster.keys.stored(key)).and_then(Option::as_deref);
            if visit(index, value).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Visits the pairs of all slots. The commit does not check them: it compares keys of one slot only.
    fn scan(&mut self, range: KeyRange<'_>, visit: &mut VisitPair<'_>) -> Result<()> {
        self.cluster.scan(range, visit)
    }

    fn commit(self: Box<Self>, batch: &Batch<'_>) -> Result<()> {
        self.apply(batch)
    }
}

/// Checks that a transaction, or a part of a pipelined batch, may have `keys` keys.
///
/// # Errors
///
/// Fails with [`Error::Unsupported`] for more than [`MAX_KEYS`] keys.
pub(super) fn check_count(keys: usize) -> Result<()> {
    if keys > MAX_KEYS {
        let what = format!("takes at most {MAX_KEYS} keys in a transaction, and these are {keys}");
        return Err(Error::Unsupported { engine: NAME, what });
    }
    Ok(())
}

/// Checks the lengths of the keys and values of `ops`.
///
/// # Errors
///
/// Fails if a key or a value is longer than the cluster allows.
pub(super) fn check(cluster: &Cluster, ops: &[WriteOp<'_>]) -> Result<()> {
    let (min, max) = cluster.key_limits();
    for op in ops {
        match *op {
            WriteOp::Put { key, .. } | WriteOp::Delete { key } if key.len() > max => {
                return Err(Error::KeyLength { engine: NAME, len: key.len(), min, max });
            }
            WriteOp::Put { value, .. } if value.len() > MAX_VALUE => {
                let what = format!("takes values of at most {MAX_VALUE} bytes, and this has {}", value.len());
                return Err(Error::Unsupported { engine: NAME, what });
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{
        super::fake::{FakeNode, Reply},
        *,
    };

    /// Commits a write batch of a clear and of puts of `keys`, and returns the result. The fake node replies that it
    /// has removed its only key, and replies to the puts with `answer`.
    fn clear_and_set(node: &FakeNode, keys: &[Vec<u8>], answer: &str) -> Result<()> {
        let cluster = node.cluster(b"{p}");
        let lines = ["*1\r\n$4\r\n{p}a", ":1", answer];
        node.answer(lines.map(Reply::line));
        let mut batch = Batch::default();
        batch.clear();
        keys.iter().for_each(|key| batch.put(key, b"v"));
        OptimisticTransaction::begin(&cluster).apply(&batch)
    }

    /// If the writes after a removal of all keys are refused, the outcome is unknown: the error of a refused write
    /// would say that nothing was written.
    #[test]
    fn outcome_is_unknown_if_the_write_after_a_removal_of_all_keys_is_refused() {
        for refusal in ["-OOM a test", "-ERR a test", "+strange"] {
            let error = clear_and_set(&FakeNode::start(), &[b"b".to_vec()], refusal).unwrap_err();
            assert!(matches!(error, Error::Unknown { .. }), "{refusal}: {error}");
            let text = error.to_string();
            assert!(text.contains("all keys were removed, then: "), "{text}");
            assert!(!text.contains("nothing was written"), "{text}");
        }
        clear_and_set(&FakeNode::start(), &[b"b".to_vec()], ":1").unwrap();
    }

    #[test]
    fn removal_of_all_keys_with_too_many_writes_removes_nothing() {
        let (node, keys) = (FakeNode::start(), (0..=MAX_KEYS).map(|number| number.to_string().into_bytes()));
        let error = clear_and_set(&node, &keys.collect::<Vec<_>>(), ":1").unwrap_err();
        assert!(matches!(error, Error::Unsupported { .. }), "{error}");
        assert_eq!(node.seen(), Vec::<String>::new());
    }
}

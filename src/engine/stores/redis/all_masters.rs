//! Reads, scans and removal of the keys of a `redis` store, over all masters of the cluster.

use super::{
    description::MAX_KEY,
    key_encoding::SLOTS,
    request_encoding,
    routing::{Cluster, Effect, unavailable},
    scripts::LIST_SLOT,
};
use crate::engine::{Error, KeyRange, Result, VisitKey, VisitPair, WriteOp};
use redis::{Value, cmd};
use std::{
    collections::BTreeMap,
    ops::{ControlFlow, Range},
};

/// Number of hash slots whose keys a scan lists at a time: at first, and at most.
const SLOTS_PER_STEP: (u16, u16) = (16, 512);

/// Number of keys, listed at a time by a scan, from which it next lists half as many slots. Also the maximum number of
/// keys in one request of a scan that reads values, or of a removal of all keys; the MGET for a client's read has no
/// such limit.
const MAX_STEP_KEYS: usize = 1000;

/// Hash slot of a key, index of the key in the caller's list, and the key.
type IndexedKey<'k> = (u16, usize, &'k [u8]);

/// Hash slot, and the keys of the store in this slot.
type SlotKeys = (u16, Vec<Vec<u8>>);

/// New value of each written key, by stored key (with prefix and hash tag); `None` for removed keys.
pub(super) type Changes<'b> = BTreeMap<Vec<u8>, Option<&'b [u8]>>;

impl Cluster {
    pub fn key_limits(&self) -> (usize, usize) {
        (0, MAX_KEY.saturating_sub(self.keys.head()))
    }

    /// Returns the new value of each key that `ops` put or delete, by stored key; `None` for deletes. The last write of
    /// a key counts. `Clear` is left out.
    pub fn changes<'b>(&self, ops: &[WriteOp<'b>]) -> Changes<'b> {
        let change = |op: &WriteOp<'b>| match *op {
            WriteOp::Put { key, value } => Some((self.keys.stored(key), Some(value))),
            WriteOp::Delete { key } => Some((self.keys.stored(key), None)),
            WriteOp::Clear => None,
        };
        ops.iter().filter_map(change).collect()
    }

    /// Returns the values of `keys`, in their order; `None` for absent keys. The keys of a slot are read atomically.
    ///
    /// # Errors
    ///
    /// Fails if a node refuses a read or does not reply in time.
    pub fn values<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Vec<u8>>>> {
        let found = self.values_now(keys);
        if found.iter().all(Option::is_some) {
            return Ok(found.into_iter().flatten().collect());
        }
        let order =
            self.by_slot(keys.iter().enumerate().filter(|(index, _)| found.get(*index) == Some(&None)));
        let mut found: Vec<_> = found.into_iter().map(Option::flatten).collect();
        for keys in order.chunk_by(|one, next| one.0 == next.0) {
            let (slot, request) = self.get(keys);
            let answer = self.call(slot, &request, Effect::None)?;
            let Value::Array(values) = answer else { return Err(unexpected_reply(&answer)) };
            for ((_, index, _), value) in keys.iter().zip(values) {
                if let (Value::BulkString(value), Some(found)) = (value, found.get_mut(*index)) {
                    *found = Some(value);
                }
            }
        }
        Ok(found)
    }

    /// Returns the values of `keys`, in their order, after one attempt: `None` for keys of a slot whose read must be
    /// repeated, `Some(None)` for absent keys and for keys that exceed the maximum length.
    pub fn values_now<K: AsRef<[u8]>>(&self, keys: &[K]) -> Vec<Option<Option<Vec<u8>>>> {
        let most = self.key_limits().1;
        let fits = |key: &K| key.as_ref().len() <= most;
        let order = self.by_slot(keys.iter().enumerate().filter(|(_, key)| fits(key)));
        let of_slot = || order.chunk_by(|one, next| one.0 == next.0);
        let requests: Vec<_> = of_slot().map(|keys| self.get(keys)).collect();
        let mut found: Vec<_> = keys.iter().map(|key| if fits(key) { None } else { Some(None) }).collect();
        for (keys, answer) in of_slot().zip(self.call_each(&requests)) {
            let Some(Value::Array(values)) = answer else { continue };
            for ((_, index, _), value) in keys.iter().zip(values) {
                if let Some(found) = found.get_mut(*index) {
                    *found = Some(if let Value::BulkString(value) = value { Some(value) } else { None });
                }
            }
        }
        found
    }

    /// Returns `keys`, each with its hash slot and its index, sorted by slot.
    fn by_slot<'k, K: AsRef<[u8]> + 'k>(
        &self,
        keys: impl Iterator<Item = (usize, &'k K)>,
    ) -> Vec<IndexedKey<'k>> {
        let mut order: Vec<_> =
            keys.map(|(index, key)| (self.keys.slot(key.as_ref()), index, key.as_ref())).collect();
        order.sort_unstable();
        order
    }

    /// Returns the hash slot of `keys`, which must all be in one, and the encoded MGET request that reads them.
    fn get(&self, keys: &[IndexedKey<'_>]) -> (u16, Vec<u8>) {
        let mut request = Vec::new();
        request_encoding::begin(&mut request, 1 + keys.len(), "MGET");
        keys.iter().for_each(|(slot, _, key)| request_encoding::key(&mut request, &self.keys, *slot, key));
        (keys.first().map_or(0, |(slot, ..)| *slot), request)
    }

    /// Returns the keys of this store in each of `slots`, in the order of the slots.
    fn list(&self, slots: Range<u16>) -> Result<Vec<Vec<Vec<u8>>>> {
        let requests: Vec<_> = slots
            .map(|slot| {
                let mut request = cmd("EVAL");
                request.arg(LIST_SLOT).arg(1).arg(self.keys.name_in(slot)).arg(slot);
                (slot, request.get_packed_command())
            })
            .collect();
        let mut all = Vec::new();
        for ((slot, request), answer) in requests.iter().zip(self.call_each(&requests)) {
            let mut keys = Vec::new();
            match answer {
                Some(answer) => self.take_keys(&answer, &mut keys)?,
                None => self.list_moving(*slot, request, &mut keys)?,
            }
            all.push(keys);
        }
        Ok(all)
    }

    /// Appends the keys of this store in `slot`, which may be migrating, to `keys`: first those on the node that has
    /// the slot, then those that have arrived at the other node. `request` lists the keys of the slot.
    fn list_moving(&self, slot: u16, request: &[u8], keys: &mut Vec<Vec<u8>>) -> Result<()> {
        let answer = self.follow(slot, request, Effect::None)?;
        if let Some(from) = answer.moving {
            let count = i32::MAX;
            let left = cmd("CLUSTER").arg("GETKEYSINSLOT").arg(slot).arg(count).get_packed_command();
            let left = self.node(&from).call(&left, 1).map_err(|silence| unavailable(silence.message()))?;
            left.iter().try_for_each(|left| self.take_keys(left, keys))?;
            self.take_keys(&self.call(slot, request, Effect::None)?, keys)?;
            keys.sort_unstable();
            keys.dedup();
            return Ok(());
        }
        let value = answer.value.map_err(super::routing::refused)?;
        self.take_keys(&value, keys)
    }

    /// Decodes those of the stored keys in the reply `answer` that belong to this store, and appends them to `keys`.
    /// Stored keys of other programs are skipped.
    fn take_keys(&self, answer: &Value, keys: &mut Vec<Vec<u8>>) -> Result<()> {
        let Value::Array(stored) = answer else { return Err(unexpected_reply(answer)) };
        keys.extend(stored.iter().filter_map(|stored| match stored {
            Value::BulkString(stored) => self.keys.key(stored).map(Vec::from),
            _ => None,
        }));
        Ok(())
    }

    /// Calls `visit` with the keys of this store in several hash slots at a time, from slot `first` on, until `visit`
    /// breaks.
    fn steps(
        &self,
        first: u16,
        visit: &mut dyn FnMut(Vec<SlotKeys>) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        let Range { start, end } = self.keys.slots();
        let (mut next, mut step) = (first.max(start), SLOTS_PER_STEP.0);
        while next < end {
            let until = next.saturating_add(step).min(end);
            let all = self.list(next..until)?;
            let many = all.iter().map(Vec::len).sum::<usize>() >= MAX_STEP_KEYS;
            if visit((next..until).zip(all).collect())?.is_break() {
                break;
            }
            next = until;
            step = if many { (step / 2).max(1) } else { (step * 2).min(SLOTS_PER_STEP.1) };
        }
        Ok(())
    }

    /// Visits the pairs of this store slot by slot, from hash slot `first` on. After `visit` breaks, visits the rest of
    /// the slot and returns the next slot; returns 0 at the end. Every key that exists throughout the scan is visited,
    /// also if its slot migrates.
    pub fn scan_step(&self, first: u16, visit: &mut VisitPair<'_>) -> Result<u16> {
        self.scan_slots(first, |keys: &[Vec<u8>]| {
            let mut paused = ControlFlow::Continue(());
            for keys in keys.chunks(MAX_STEP_KEYS) {
                let values = self.values(keys)?;
                for (key, value) in keys.iter().zip(&values) {
                    if let Some(value) = value
                        && visit(key, value).is_break()
                    {
                        paused = ControlFlow::Break(());
                    }
                }
            }
            Ok(paused)
        })
    }

    /// Visits the keys of the slots that [`Cluster::scan_step`] visits, without reading their values.
    pub fn scan_step_keys(&self, first: u16, visit: &mut VisitKey<'_>) -> Result<u16> {
        self.scan_slots(first, |keys: &[Vec<u8>]| {
            let mut paused = ControlFlow::Continue(());
            for key in keys {
                if visit(key).is_break() {
                    paused = ControlFlow::Break(());
                }
            }
            Ok(paused)
        })
    }

    /// Calls `visit` with the keys of each hash slot of this store, from slot `first` on, until `visit` breaks. Returns
    /// the next slot, or 0 at the end.
    fn scan_slots(
        &self,
        first: u16,
        mut visit: impl FnMut(&[Vec<u8>]) -> Result<ControlFlow<()>>,
    ) -> Result<u16> {
        let mut reached = 0;
        self.steps(first, &mut |slots| {
            for (slot, keys) in slots {
                if visit(&keys)?.is_break() {
                    reached = (slot + 1) % self.keys.slots().end;
                    return Ok(ControlFlow::Break(()));
                }
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(reached)
    }

    /// Visits the pairs of `range` until `visit` breaks, in no particular order and not under one snapshot.
    pub fn scan(&self, range: KeyRange<'_>, visit: &mut VisitPair<'_>) -> Result<()> {
        self.steps(0, &mut |slots| {
            let keys: Vec<_> = slots.into_iter().flat_map(|(_, keys)| keys).collect();
            let wanted: Vec<_> = keys.into_iter().filter(|key| range.contains(key)).collect();
            for keys in wanted.chunks(MAX_STEP_KEYS) {
                let values = self.values(keys)?;
                for (key, value) in keys.iter().zip(&values) {
                    if let Some(value) = value
                        && visit(key, value).is_break()
                    {
                        return Ok(ControlFlow::Break(()));
                    }
                }
            }
            Ok(ControlFlow::Continue(()))
        })
    }

    /// Returns the number of keys of this store, by listing the keys of all hash slots.
    pub fn count(&self) -> Result<u64> {
        let mut count = 0;
        self.steps(0, &mut |slots| {
            count += slots.iter().map(|(_, keys)| keys.len() as u64).sum::<u64>();
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(count)
    }

    /// Removes all keys of this store, slot by slot.
    ///
    /// # Errors
    ///
    /// Fails if a node refuses or does not reply in time; keys may have been removed then, as the error says.
    pub fn clear(&self) -> Result<()> {
        let mut removed = 0;
        let outcome = self.steps(0, &mut |slots| {
            for (slot, keys) in slots {
                self.remove(slot, &keys, &mut removed)?;
            }
            Ok(ControlFlow::Continue(()))
        });
        outcome.map_err(|error| error.after_removing(super::description::NAME, removed))
    }

    /// Removes `keys`, all of hash slot `slot`, in requests of at most [`MAX_STEP_KEYS`] keys. Adds the number of keys
    /// of each successful request to `removed`, whether or not the keys existed.
    pub fn remove(&self, slot: u16, keys: &[Vec<u8>], removed: &mut usize) -> Result<()> {
        for keys in keys.chunks(MAX_STEP_KEYS) {
            let mut request = cmd("UNLINK");
            for key in keys {
                request.arg(self.keys.stored(key));
            }
            self.call(slot, &request.get_packed_command(), Effect::Writes)?;
            *removed += keys.len();
        }
        Ok(())
    }
}

/// Returns [`Error::Unavailable`] for a node's reply of an unexpected type.
fn unexpected_reply(answer: &Value) -> Error {
    unavailable(format!("a node answered {answer:?}"))
}

const _: () = assert!(SLOTS < u16::MAX);

#[cfg(test)]
mod tests {
    use super::{
        super::fake::{FakeNode, Reply},
        *,
    };

    #[test]
    fn values_of_many_slots_are_in_the_order_of_the_keys() {
        let node = FakeNode::start();
        let cluster = node.cluster(b"p/");
        // {b} is in slot 3,300, {a} in 15,495.
        node.answer([Reply::line("*2\r\n$1\r\n1\r\n$1\r\n1"), Reply::line("*2\r\n$-1\r\n$1\r\n2")]);
        let long = vec![b'k'; MAX_KEY];
        let keys: [&[u8]; 5] = [b"{a}none", b"{b}one", &long, b"{a}two", b"{b}one"];
        let values = cluster.values(&keys).unwrap();
        let text = |value: &Option<Vec<u8>>| value.clone().map(|value| String::from_utf8(value).unwrap());
        let values: Vec<_> = values.iter().map(text).collect();
        assert_eq!(
            values.iter().map(Option::as_deref).collect::<Vec<_>>(),
            [None, Some("1"), None, Some("2"), Some("1")]
        );
        assert_eq!(node.seen().len(), 2);
    }

    #[test]
    fn grouped_read_returns_none_only_for_keys_of_a_silent_node() {
        let node = FakeNode::start();
        let cluster = node.cluster(b"p/");
        node.answer([Reply::line("-CLUSTERDOWN a test"), Reply::line("*1\r\n$1\r\n2")]);
        assert_eq!(cluster.values_now(&[b"{a}two", b"{b}one"]), [Some(Some(b"2".to_vec())), None]);
        node.answer([Reply::Close]);
        assert_eq!(cluster.values_now(&[b"{a}two"]), [None]);
        // The next grouped read does not send to that node, which has not replied.
        assert_eq!(cluster.values_now(&[b"{a}two"]), [None]);
        assert_eq!(node.seen().len(), 3);
        // A read of one client sends to the node all the same.
        node.answer([Reply::line("*1\r\n$1\r\n2")]);
        assert_eq!(cluster.values(&[b"{a}two"]).unwrap(), [Some(b"2".to_vec())]);
        assert_eq!(node.seen().len(), 4);
    }
}

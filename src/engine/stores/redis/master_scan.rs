//! Reading and walking over the keys of one prefix.

use super::{
    info::MAX_KEY,
    key_encoding::SLOTS,
    packed,
    routing::{Cluster, Effect, unavailable},
    scripts::LIST,
};
use crate::engine::{Error, KeyRange, Result, VisitPair, WriteOp};
use redis::{Value, cmd};
use std::{
    collections::BTreeMap,
    ops::{ControlFlow, Range},
};

/// Slots of the first step of a walk, and most of any.
const STEP: (u16, u16) = (16, 512);

/// A step of so many keys is long enough.
const MAX_STEP_KEYS: usize = 1000;

/// A key with its slot and its place among others.
type Placed<'k> = (u16, usize, &'k [u8]);

/// A slot and keys in it.
type InSlot = (u16, Vec<Vec<u8>>);

/// Stored keys, and their new values or nothing.
pub(super) type Changes<'b> = BTreeMap<Vec<u8>, Option<&'b [u8]>>;

impl Cluster {
    pub fn key_limits(&self) -> (usize, usize) {
        (0, MAX_KEY.saturating_sub(self.keys.head()))
    }

    /// What writes leave of each key.
    pub fn changes<'b>(&self, ops: &[WriteOp<'b>]) -> Changes<'b> {
        let change = |op: &WriteOp<'b>| match *op {
            WriteOp::Put { key, value } => Some((self.keys.stored(key), Some(value))),
            WriteOp::Delete { key } => Some((self.keys.stored(key), None)),
            WriteOp::Clear => None,
        };
        ops.iter().filter_map(change).collect()
    }

    /// Returns the values of keys, in the order of the keys. All keys of a slot are read at the same time.
    pub fn values<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Vec<u8>>>> {
        let found = self.values_now(keys);
        if found.iter().all(Option::is_some) {
            return Ok(found.into_iter().flatten().collect());
        }
        let order =
            self.in_slots(keys.iter().enumerate().filter(|(index, _)| found.get(*index) == Some(&None)));
        let mut found: Vec<_> = found.into_iter().map(Option::flatten).collect();
        for keys in order.chunk_by(|one, next| one.0 == next.0) {
            let (slot, request) = self.get(keys);
            let answer = self.call(slot, &request, Effect::None)?;
            let Value::Array(values) = answer else { return Err(strange(&answer)) };
            for ((_, index, _), value) in keys.iter().zip(values) {
                if let (Value::BulkString(value), Some(found)) = (value, found.get_mut(*index)) {
                    *found = Some(value);
                }
            }
        }
        Ok(found)
    }

    /// Returns the values of keys, in the order of the keys, after one attempt: `None` for the keys of a slot that needs
    /// another. A key that is longer than a key can be has no value.
    pub fn values_now<K: AsRef<[u8]>>(&self, keys: &[K]) -> Vec<Option<Option<Vec<u8>>>> {
        let most = self.key_limits().1;
        let fits = |key: &K| key.as_ref().len() <= most;
        let order = self.in_slots(keys.iter().enumerate().filter(|(_, key)| fits(key)));
        let of_slot = || order.chunk_by(|one, next| one.0 == next.0);
        let requests: Vec<_> = of_slot().map(|keys| self.get(keys)).collect();
        let mut found: Vec<_> = keys.iter().map(|key| if fits(key) { None } else { Some(None) }).collect();
        for (keys, answer) in of_slot().zip(self.together(&requests)) {
            let Some(Value::Array(values)) = answer else { continue };
            for ((_, index, _), value) in keys.iter().zip(values) {
                if let Some(found) = found.get_mut(*index) {
                    *found = Some(if let Value::BulkString(value) = value { Some(value) } else { None });
                }
            }
        }
        found
    }

    /// Returns keys with their slots and places, sorted by slot.
    fn in_slots<'k, K: AsRef<[u8]> + 'k>(
        &self,
        keys: impl Iterator<Item = (usize, &'k K)>,
    ) -> Vec<Placed<'k>> {
        let mut order: Vec<_> =
            keys.map(|(index, key)| (self.keys.slot(key.as_ref()), index, key.as_ref())).collect();
        order.sort_unstable();
        order
    }

    /// Returns the slot of `keys`, and the request that reads them.
    fn get(&self, keys: &[Placed<'_>]) -> (u16, Vec<u8>) {
        let mut request = Vec::new();
        packed::begin(&mut request, 1 + keys.len(), "MGET");
        keys.iter().for_each(|(slot, _, key)| packed::key(&mut request, &self.keys, *slot, key));
        (keys.first().map_or(0, |(slot, ..)| *slot), request)
    }

    /// The keys in these slots, slot by slot.
    fn list(&self, slots: Range<u16>) -> Result<Vec<Vec<Vec<u8>>>> {
        let requests: Vec<_> = slots
            .map(|slot| {
                let mut request = cmd("EVAL");
                request.arg(LIST).arg(1).arg(self.keys.name_in(slot)).arg(slot);
                (slot, request.get_packed_command())
            })
            .collect();
        let mut all = Vec::new();
        for ((slot, request), answer) in requests.iter().zip(self.together(&requests)) {
            let mut keys = Vec::new();
            match answer {
                Some(answer) => self.take_keys(&answer, &mut keys)?,
                None => self.list_moving(*slot, request, &mut keys)?,
            }
            all.push(keys);
        }
        Ok(all)
    }

    /// The keys of a slot that may be on its way to another node: those that are still there, then those that have
    /// arrived.
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

    /// Takes the keys of this store from those of a slot.
    fn take_keys(&self, answer: &Value, keys: &mut Vec<Vec<u8>>) -> Result<()> {
        let Value::Array(stored) = answer else { return Err(strange(answer)) };
        keys.extend(stored.iter().filter_map(|stored| match stored {
            Value::BulkString(stored) => self.keys.key(stored).map(Vec::from),
            _ => None,
        }));
        Ok(())
    }

    /// Goes over the slots from `first` on, some at a time, until `visit` has enough. It gets each slot with its keys.
    fn steps(&self, first: u16, visit: &mut dyn FnMut(Vec<InSlot>) -> Result<ControlFlow<()>>) -> Result<()> {
        let Range { start, end } = self.keys.slots();
        let (mut next, mut step) = (first.max(start), STEP.0);
        while next < end {
            let until = next.saturating_add(step).min(end);
            let all = self.list(next..until)?;
            let many = all.iter().map(Vec::len).sum::<usize>() >= MAX_STEP_KEYS;
            if visit((next..until).zip(all).collect())?.is_break() {
                break;
            }
            next = until;
            step = if many { (step / 2).max(1) } else { (step * 2).min(STEP.1) };
        }
        Ok(())
    }

    /// Visits pairs slot by slot, from a slot on. Returns the slot to go on with after a pause that `visit` asked for, 0 at
    /// the end. A key stays in its slot, so a key that is there all the time is visited, whoever has the slot.
    pub fn walk(&self, first: u16, visit: &mut VisitPair<'_>) -> Result<u16> {
        let mut reached = 0;
        self.steps(first, &mut |slots| {
            for (slot, keys) in slots {
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
                if paused.is_break() {
                    reached = (slot + 1) % self.keys.slots().end;
                    return Ok(paused);
                }
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(reached)
    }

    /// Visits the pairs of `range`, in no order and at no one moment.
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

    pub fn count(&self) -> Result<u64> {
        let mut count = 0;
        self.steps(0, &mut |slots| {
            count += slots.iter().map(|(_, keys)| keys.len() as u64).sum::<u64>();
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(count)
    }

    /// Removes all keys, slot by slot.
    pub fn clear(&self) -> Result<()> {
        let mut removed = 0;
        let outcome = self.steps(0, &mut |slots| {
            for (slot, keys) in slots {
                self.remove(slot, &keys, &mut removed)?;
            }
            Ok(ControlFlow::Continue(()))
        });
        outcome.map_err(|error| error.after_removing(super::info::NAME, removed))
    }

    /// Removes keys of one slot.
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

fn strange(answer: &Value) -> Error {
    unavailable(format!("a node answered {answer:?}"))
}

const _: () = assert!(SLOTS < u16::MAX);

#[cfg(test)]
mod tests {
    use super::{
        super::fake::{Answer, Fake},
        *,
    };

    fn line(line: &str) -> Answer {
        Answer::Line(line.into())
    }

    #[test]
    fn values_of_many_slots_are_in_the_order_of_the_keys() {
        let node = Fake::start();
        let cluster = node.cluster(b"p/");
        // {b} is in slot 3,300, {a} in 15,495.
        node.answer([line("*2\r\n$1\r\n1\r\n$1\r\n1"), line("*2\r\n$-1\r\n$1\r\n2")]);
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
    fn read_that_waits_for_a_node_leaves_out_only_its_keys() {
        let node = Fake::start();
        let cluster = node.cluster(b"p/");
        node.answer([line("-CLUSTERDOWN a test"), line("*1\r\n$1\r\n2")]);
        assert_eq!(cluster.values_now(&[b"{a}two", b"{b}one"]), [Some(Some(b"2".to_vec())), None]);
        node.answer([Answer::Close]);
        assert_eq!(cluster.values_now(&[b"{a}two"]), [None]);
        // The next read of many clients does not wait for that node.
        assert_eq!(cluster.values_now(&[b"{a}two"]), [None]);
        assert_eq!(node.seen().len(), 3);
        // A read of one client waits for it.
        node.answer([line("*1\r\n$1\r\n2")]);
        assert_eq!(cluster.values(&[b"{a}two"]).unwrap(), [Some(b"2".to_vec())]);
        assert_eq!(node.seen().len(), 4);
    }
}

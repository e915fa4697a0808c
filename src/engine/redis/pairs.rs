//! Reading and walking over the keys of one prefix.

use super::{
    cluster::{Cluster, Effect, unavailable},
    keys::SLOTS,
    scripts::LIST,
};
use crate::engine::{Error, KeyRange, Op, Result, VisitPair};
use redis::{Value, cmd};
use std::{
    collections::{BTreeMap, HashMap},
    ops::{ControlFlow, Range},
};

/// Longest key, in bytes, with what stands before it.
const MAX_KEY: usize = 65_535;

/// Slots of the first step of a walk, and most of any.
const STEP: (u16, u16) = (16, 512);

/// A step of so many keys is long enough.
const MANY: usize = 1000;

/// A slot and keys in it.
type InSlot = (u16, Vec<Vec<u8>>);

/// Stored keys, and their new values or nothing.
pub(super) type Changes<'b> = BTreeMap<Vec<u8>, Option<&'b [u8]>>;

impl Cluster {
    pub fn key_limits(&self) -> (usize, usize) {
        (0, MAX_KEY.saturating_sub(self.keys.head()))
    }

    /// What writes leave of each key.
    pub fn changes<'b>(&self, ops: &[Op<'b>]) -> Changes<'b> {
        let change = |op: &Op<'b>| match *op {
            Op::Put { key, value } => Some((self.keys.stored(key), Some(value))),
            Op::Delete { key } => Some((self.keys.stored(key), None)),
            Op::Clear => None,
        };
        ops.iter().filter_map(change).collect()
    }

    /// The values of keys. Those of one slot are read at one moment.
    pub fn values(&self, keys: &[Vec<u8>]) -> Result<HashMap<Vec<u8>, Vec<u8>>> {
        let mut of_slot: BTreeMap<u16, Vec<&Vec<u8>>> = BTreeMap::new();
        for key in keys {
            of_slot.entry(self.keys.slot(key)).or_default().push(key);
        }
        let requests: Vec<_> = of_slot
            .iter()
            .map(|(slot, keys)| {
                let mut request = cmd("MGET");
                for key in keys {
                    request.arg(self.keys.stored(key));
                }
                (*slot, request)
            })
            .collect();
        let mut found = HashMap::new();
        for (((slot, request), keys), answer) in
            requests.iter().zip(of_slot.values()).zip(self.together(&requests))
        {
            let answer = match answer {
                Some(answer) => answer,
                None => self.call(*slot, &request.get_packed_command(), Effect::None)?,
            };
            let Value::Array(values) = answer else { return Err(strange(&answer)) };
            for (key, value) in keys.iter().zip(values) {
                if let Value::BulkString(value) = value {
                    found.insert((*key).clone(), value);
                }
            }
        }
        Ok(found)
    }

    /// The keys in these slots, slot by slot.
    fn list(&self, slots: Range<u16>) -> Result<Vec<Vec<Vec<u8>>>> {
        let requests: Vec<_> = slots
            .map(|slot| {
                let request = cmd("EVAL").arg(LIST).arg(1).arg(self.keys.name_in(slot)).arg(slot).take();
                (slot, request)
            })
            .collect();
        let mut all = Vec::new();
        for ((slot, request), answer) in requests.iter().zip(self.together(&requests)) {
            let mut keys = Vec::new();
            match answer {
                Some(answer) => self.take_keys(&answer, &mut keys)?,
                None => self.list_moving(*slot, &request.get_packed_command(), &mut keys)?,
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
            let left = self.node(&from).call(&left, 1).map_err(|silence| unavailable(silence.words()))?;
            left.iter().try_for_each(|left| self.take_keys(left, keys))?;
            self.take_keys(&self.call(slot, request, Effect::None)?, keys)?;
            keys.sort_unstable();
            keys.dedup();
            return Ok(());
        }
        let value = answer.value.map_err(super::cluster::refused)?;
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
            let many = all.iter().map(Vec::len).sum::<usize>() >= MANY;
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
                for keys in keys.chunks(MANY) {
                    let values = self.values(keys)?;
                    for key in keys {
                        if let Some(value) = values.get(key)
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
            for keys in wanted.chunks(MANY) {
                let values = self.values(keys)?;
                for key in keys {
                    if let Some(value) = values.get(key)
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
        outcome.map_err(|error| part_done(removed, error))
    }

    /// Removes keys of one slot.
    pub fn remove(&self, slot: u16, keys: &[Vec<u8>], removed: &mut usize) -> Result<()> {
        for keys in keys.chunks(MANY) {
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

/// The error of what was done in part.
fn part_done(removed: usize, error: Error) -> Error {
    match removed {
        0 => error,
        _ => {
            let detail = format!("{removed} keys were removed, then: {error}");
            Error::Unknown { engine: super::info::NAME, detail }
        }
    }
}

fn strange(answer: &Value) -> Error {
    unavailable(format!("a node answered {answer:?}"))
}

const _: () = assert!(SLOTS < u16::MAX);

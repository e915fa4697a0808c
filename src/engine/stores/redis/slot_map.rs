//! Slot map: the master of each hash slot, from the reply to CLUSTER SLOTS.

use super::{key_encoding::SLOTS, node::text};
use redis::Value;
use std::{collections::BTreeSet, sync::Arc};

/// Slot map of a Redis Cluster: the address of the master of each slot, and the addresses of all nodes.
#[derive(Default)]
pub(super) struct Slots {
    /// Address of the master of each slot; `None` if no node has the slot.
    owners: Vec<Option<Arc<str>>>,
    /// Addresses of all nodes in the slot map, including replicas.
    pub nodes: BTreeSet<Arc<str>>,
}

impl Slots {
    /// Parses the reply of the node `asked` to CLUSTER SLOTS. Returns `None` if that has no slot with a node.
    pub fn of(answer: &Value, asked: &str) -> Option<Self> {
        let Value::Array(ranges) = answer else { return None };
        let mut slots = Self { owners: vec![None; SLOTS.into()], nodes: BTreeSet::new() };
        for range in ranges {
            let Value::Array(range) = range else { continue };
            let [Value::Int(first), Value::Int(last), nodes @ ..] = range.as_slice() else { continue };
            let mut nodes = nodes.iter().filter_map(|node| address(node, asked));
            let Some(master) = nodes.next() else { continue };
            slots.nodes.extend(nodes);
            slots.nodes.insert(master.clone());
            let (Ok(first), Ok(last)) = (u16::try_from(*first), u16::try_from(*last)) else { continue };
            (first..=last).for_each(|slot| slots.set(slot, master.clone()));
        }
        (!slots.nodes.is_empty()).then_some(slots)
    }

    pub fn owner(&self, slot: u16) -> Option<Arc<str>> {
        self.owners.get(usize::from(slot))?.clone()
    }

    pub fn set(&mut self, slot: u16, owner: Arc<str>) {
        if let Some(place) = self.owners.get_mut(usize::from(slot)) {
            *place = Some(owner);
        }
    }

    pub fn masters(&self) -> BTreeSet<Arc<str>> {
        self.owners.iter().flatten().cloned().collect()
    }
}

/// Returns the address of `node`, a part of the reply of the node `asked` to CLUSTER SLOTS, or `None` if it is
/// malformed. A node without a host has the host of `asked`.
fn address(node: &Value, asked: &str) -> Option<Arc<str>> {
    let Value::Array(parts) = node else { return None };
    let [host, Value::Int(port), ..] = parts.as_slice() else { return None };
    let told = text(host).filter(|host| !host.is_empty() && host != "?");
    let host = told.or_else(|| asked.rsplit_once(':').map(|(host, _)| host.to_owned()))?;
    Some(format!("{host}:{port}").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(host: &str, port: i64) -> Value {
        Value::Array(vec![Value::BulkString(host.into()), Value::Int(port), Value::BulkString(b"id".into())])
    }

    #[test]
    fn masters_are_the_first_of_each_range() {
        let range = |first, last, nodes: Vec<Value>| {
            Value::Array([Value::Int(first), Value::Int(last)].into_iter().chain(nodes).collect())
        };
        let answer = Value::Array(vec![
            range(0, 9, vec![node("a", 1), node("b", 2)]),
            range(10, 16_383, vec![node("", 3)]),
        ]);
        let slots = Slots::of(&answer, "asked:7").unwrap();
        let owner = |slot| slots.owner(slot).map(|owner| owner.to_string());
        assert_eq!((owner(9).as_deref(), owner(10).as_deref()), (Some("a:1"), Some("asked:3")));
        assert_eq!((slots.masters().len(), slots.nodes.len(), owner(SLOTS)), (2, 3, None));
        assert!(Slots::of(&Value::Array(vec![]), "asked:7").is_none());
    }
}

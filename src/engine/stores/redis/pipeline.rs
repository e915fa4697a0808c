//! Pipelined writes: sends the writing requests of many clients to all nodes at the same time, one pipeline per node.
//!
//! A node executes the requests of a connection in order, so writes of the same key stay in order. A request that a
//! node has refused was not executed. After a temporary refusal (redirections included) it is sent again in the next
//! round, unless a later write of the same key was executed, or may have been: that write would have overwritten the
//! value. A request that was sent and got no reply is never sent again.

use super::{
    description::NAME,
    node::{NoReply, Node, Refusal, Sent},
    optimistic_transaction::{check, check_count},
    request_encoding,
    routing::{ASKING, Cluster, Redirected, Route, refused, unavailable},
};
use crate::engine::{Batch, Error, Result, WriteOp};
use hashbrown::HashMap;
use redis::Value;
use std::{collections::BTreeMap, mem, sync::Arc, time::Instant};

/// Part of a batch: the writes of one client's request. They have not been executed yet, and are sent to a node as one
/// SET, MSET or DEL.
#[derive(Clone)]
struct Part<'b> {
    /// Index of this part among the parts of the batch ([`Batch::end_part`]).
    index: usize,
    ops: &'b [WriteOp<'b>],
    route: Route,
}

/// Outcome of a request that was sent to a node.
enum Outcome {
    Done,
    Failed(Error),
    /// The node has refused the request, or the request could not be sent ([`Refusal::Later`]): it was not executed.
    Refused(Refusal),
    /// There is no reply; with the text of the error.
    Unknown(String),
}

/// Requests that were sent at the same time, each with the address of its node and with its outcome.
type Ended<'b> = Vec<(Part<'b>, Arc<str>, Outcome)>;

/// Next action for a [`Part`] after an attempt to execute its writes.
enum Next {
    End(Result<()>),
    SendAgain,
    /// Send again after a pause, because of the temporary error with this text.
    Pause(String),
}

impl<'b> Part<'b> {
    fn keys(&self) -> impl Iterator<Item = &'b [u8]> + use<'b> {
        self.ops.iter().filter_map(|op| match *op {
            WriteOp::Put { key, .. } | WriteOp::Delete { key } => Some(key),
            WriteOp::Clear => None,
        })
    }

    /// Returns the key of these writes if there is only one write, otherwise `None`.
    fn only_key(&self) -> Option<&'b [u8]> {
        if self.ops.len() == 1 { self.keys().next() } else { None }
    }
}

impl Cluster {
    /// Sends each part of `batch` ([`Batch::end_part`]) as one SET, MSET or DEL to the node of its hash slot, again after
    /// temporary refusals, and returns the outcomes in the order of the parts. A part with keys of several slots fails.
    /// Returns `None`, and writes nothing, if a part is neither puts only nor deletes only.
    pub fn write_parts(&self, batch: &Batch<'_>) -> Option<Vec<Result<()>>> {
        if !batch.parts().all(is_simple) {
            return None;
        }
        let begin = Instant::now();
        let mut outcomes: Vec<Result<()>> = batch.parts().map(|_| Ok(())).collect();
        let mut left = Vec::new();
        for ((index, ops), outcome) in batch.parts().enumerate().zip(&mut outcomes) {
            match self.slot_of(ops) {
                Ok(Some(slot)) => left.push(Part { index, ops, route: Route::new(slot) }),
                Ok(None) => {}
                Err(error) => *outcome = Err(error),
            }
        }
        while !left.is_empty() {
            let (now, later) = split_rounds(mem::take(&mut left));
            let ended = end_overwritten(self.round(now));
            left = self.collect_retries(ended, begin, &mut outcomes);
            left.extend(later);
            left.sort_unstable_by_key(|part| part.index);
        }
        Some(outcomes)
    }

    /// Returns the hash slot of the keys of `ops`, the writes of one part, or `None` if they have no keys.
    ///
    /// # Errors
    ///
    /// Fails if the keys are in several slots, or if a key, a value or the number of keys is too large.
    fn slot_of(&self, ops: &[WriteOp<'_>]) -> Result<Option<u16>> {
        check(self, ops)?;
        check_count(ops.len())?;
        let mut slots = ops.iter().filter_map(|op| match op {
            WriteOp::Put { key, .. } | WriteOp::Delete { key } => Some(self.keys.slot(key)),
            WriteOp::Clear => None,
        });
        let first = slots.next();
        if slots.any(|slot| Some(slot) != first) { Err(Error::CrossSlot) } else { Ok(first) }
    }

    /// Sends each of `parts` as one request, in one pipeline per node, and then receives the replies. Returns the
    /// outcome of each.
    fn round<'b>(&self, parts: Vec<Part<'b>>) -> Ended<'b> {
        let mut ended = Vec::with_capacity(parts.len());
        let mut of_node: BTreeMap<Arc<str>, Vec<Part<'b>>> = BTreeMap::new();
        for part in parts {
            match part.route.asking.clone().or_else(|| self.owner(part.route.slot)) {
                Some(at) => of_node.entry(at).or_default().push(part),
                None => {
                    let words = format!("no node has slot {}", part.route.slot);
                    ended.push((part, "".into(), Outcome::Refused(Refusal::Later(words))));
                }
            }
        }
        let nodes: Vec<_> = of_node.into_iter().map(|(at, parts)| (self.node(&at), parts)).collect();
        let sent = nodes.iter().map(|(node, parts)| {
            let (mut packed, mut answers) = (Vec::new(), 0);
            for part in parts {
                answers += self.pack(part, &mut packed);
            }
            node.send(&packed, answers)
        });
        let sent: Vec<_> = sent.collect();
        for ((node, parts), sent) in nodes.iter().zip(sent) {
            let outcomes = self.receive(node, parts, sent);
            ended.extend(
                parts
                    .iter()
                    .zip(outcomes)
                    .map(|(part, outcome)| (part.clone(), node.address().clone(), outcome)),
            );
        }
        ended
    }

    /// Receives the replies of `node` to the requests of `parts`, and returns the outcome of each, in order.
    fn receive(&self, node: &Node, parts: &[Part<'_>], sent: Result<Sent<'_>, NoReply>) -> Vec<Outcome> {
        let at = node.address();
        let (values, missing) = match sent {
            Ok(sent) => sent.receive(),
            Err(NoReply::NotAnswered(words)) => (Vec::new(), Some(words)),
            Err(NoReply::NotSent(words)) => {
                let refused = |_| Outcome::Refused(Refusal::Later(words.clone()));
                return parts.iter().map(refused).collect();
            }
        };
        match missing {
            None => self.note_answer(at),
            Some(_) => self.note_silence(at),
        }
        let (mut values, words) = (values.into_iter(), missing.unwrap_or_default());
        let outcome = |part: &Part<'_>| {
            // The reply to ASKING comes first, and is skipped.
            let answer = values.nth(part.route.asking.is_some().into());
            answer.map_or_else(|| Outcome::Unknown(words.clone()), |value| outcome_of(value, at))
        };
        parts.iter().map(outcome).collect()
    }

    /// Appends the encoded request of `part`, with `ASKING` if needed, to `packed`. Returns the number of replies that
    /// it will get.
    fn pack(&self, part: &Part<'_>, packed: &mut Vec<u8>) -> usize {
        if part.route.asking.is_some() {
            packed.extend_from_slice(ASKING);
        }
        let (name, words) = match part.ops {
            [WriteOp::Put { .. }] => ("SET", 3),
            [WriteOp::Put { .. }, ..] => ("MSET", 1 + 2 * part.ops.len()),
            _ => ("DEL", 1 + part.ops.len()),
        };
        request_encoding::begin(packed, words, name);
        for op in part.ops {
            match *op {
                WriteOp::Put { key, value } => {
                    request_encoding::key(packed, &self.keys, part.route.slot, key);
                    request_encoding::argument(packed, value);
                }
                WriteOp::Delete { key } => request_encoding::key(packed, &self.keys, part.route.slot, key),
                WriteOp::Clear => {}
            }
        }
        1 + usize::from(part.route.asking.is_some())
    }

    /// Stores the final outcomes in `outcomes`, by the index of the part. Returns the parts to send again, after a
    /// pause for each node that has replied with a temporary error or could not be reached. Such failures are final if
    /// [`Self::pause`], whose limit counts from `begin`, fails.
    fn collect_retries<'b>(
        &self,
        ended: Ended<'b>,
        begin: Instant,
        outcomes: &mut [Result<()>],
    ) -> Vec<Part<'b>> {
        let (mut left, mut paused) = (Vec::new(), HashMap::<Arc<str>, bool>::new());
        for (mut part, at, outcome) in ended {
            let end = match self.next(&mut part, &at, outcome) {
                Next::End(end) => end,
                Next::SendAgain => {
                    left.push(part);
                    continue;
                }
                Next::Pause(words) => {
                    let pause = || self.pause(&at, begin, words.clone()).is_ok();
                    if *paused.entry(at.clone()).or_insert_with(pause) {
                        left.push(part);
                        continue;
                    }
                    Err(unavailable(words))
                }
            };
            if let Some(outcome) = outcomes.get_mut(part.index) {
                *outcome = end;
            }
        }
        left
    }

    /// Returns the next action for `part`, whose request had this outcome at the node `at`. Notes a redirection in
    /// `part` or in the slot map.
    fn next(&self, part: &mut Part<'_>, at: &Arc<str>, outcome: Outcome) -> Next {
        let refusal = match outcome {
            Outcome::Done => return Next::End(Ok(())),
            Outcome::Failed(error) => return Next::End(Err(error)),
            Outcome::Unknown(detail) => return Next::End(Err(Error::Unknown { engine: NAME, detail })),
            Outcome::Refused(refusal) => refusal,
        };
        match self.redirect(&mut part.route, at, refusal) {
            Redirected::SendAgain => Next::SendAgain,
            Redirected::Pause(words) => Next::Pause(words),
            Redirected::End(refusal) => Next::End(Err(refused(refusal))),
        }
    }
}

/// Returns `true` if one SET, MSET or DEL can execute all of `ops`.
fn is_simple(ops: &[WriteOp<'_>]) -> bool {
    ops.iter().all(|op| matches!(op, WriteOp::Put { .. }))
        || ops.iter().all(|op| matches!(op, WriteOp::Delete { .. }))
}

/// Splits parts into those to send now and those to send after the replies. Parts that write the same key are sent at
/// the same time only if they write that key alone and go to the same node: otherwise a refused one could be partly
/// overwritten.
fn split_rounds(parts: Vec<Part<'_>>) -> (Vec<Part<'_>>, Vec<Part<'_>>) {
    // By key, the only node to which its writes may be sent in this round; the outer `None` forbids further ones.
    let mut taken: HashMap<&[u8], Option<Option<Arc<str>>>> = HashMap::with_capacity(parts.len());
    let (mut now, mut later) = (Vec::with_capacity(parts.len()), Vec::new());
    for part in parts {
        let way = part.only_key().map(|_| part.route.asking.clone());
        // A part may write one of its own keys twice.
        let fits = part.keys().all(|key| taken.get(key).is_none_or(|other| way.is_some() && *other == way));
        // Parts behind one that does not fit must wait, too, if they write one of its keys.
        let next = if fits { way } else { None };
        taken.extend(part.keys().map(|key| (key, next.clone())));
        if fits { now.push(part) } else { later.push(part) }
    }
    (now, later)
}

/// Returns the outcome of a request from `value`, the reply of the node `at`.
fn outcome_of(value: Value, at: &str) -> Outcome {
    match value {
        Value::ServerError(error) => Outcome::Refused(Refusal::of(&error, at)),
        Value::Okay | Value::Int(_) => Outcome::Done,
        other => Outcome::Failed(unavailable(format!("{at} answered {other:?}"))),
    }
}

/// Ends temporarily refused writes of one key that a later write of the key has overwritten: a retry would come after
/// that one. They count as done if the later write was executed, and as unknown if its outcome is unknown.
fn end_overwritten(mut ended: Ended<'_>) -> Ended<'_> {
    ended.sort_unstable_by_key(|(part, ..)| part.index);
    if !ended.iter().any(|(.., outcome)| matches!(outcome, Outcome::Refused(_))) {
        return ended;
    }
    // By key, why the outcome of the next write is unknown; `None` if it was executed.
    let mut after: HashMap<&[u8], Option<String>> = HashMap::new();
    for (part, _, outcome) in ended.iter_mut().rev() {
        let Some(key) = part.only_key() else { continue };
        match outcome {
            Outcome::Done => drop(after.insert(key, None)),
            Outcome::Unknown(words) => drop(after.insert(key, Some(words.clone()))),
            Outcome::Refused(refusal) if refusal.is_temporary() => match after.get(key) {
                None => {}
                Some(None) => *outcome = Outcome::Done,
                Some(Some(words)) => *outcome = Outcome::Unknown(words.clone()),
            },
            Outcome::Refused(_) | Outcome::Failed(_) => {}
        }
    }
    ended
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            fake::{FakeNode, Reply},
            routing::MAX_REDIRECTIONS,
        },
        *,
    };

    /// Key prefix of the tests, with a hash tag: all keys are in the tag's hash slot, and are stored as prefix and key.
    const PREFIX: &[u8] = b"{p}";

    /// Writes the keys of each element of `parts` as one part of a batch, with the index of the element as the value.
    /// Returns the outcome of each, as a word.
    fn write(cluster: &Cluster, parts: &[&[&'static str]]) -> Vec<&'static str> {
        let numbers: Vec<String> = (0..parts.len()).map(|number| number.to_string()).collect();
        let mut batch = Batch::default();
        for (keys, number) in parts.iter().zip(&numbers) {
            keys.iter().for_each(|key| batch.put(key.as_bytes(), number.as_bytes()));
            batch.end_part();
        }
        let word = |outcome| match outcome {
            Ok(()) => "done",
            Err(Error::Unknown { .. }) => "unknown",
            Err(Error::Full { .. }) => "full",
            Err(_) => "failed",
        };
        cluster.write_parts(&batch).unwrap().into_iter().map(word).collect()
    }

    #[test]
    fn writes_are_sent_together_in_their_order() {
        let node = FakeNode::start();
        let cluster = node.cluster(PREFIX);
        assert_eq!(write(&cluster, &[&["a"], &["b"], &["a"], &["c", "d"]]), ["done"; 4]);
        assert_eq!(node.seen(), ["SET {p}a 0", "SET {p}b 1", "SET {p}a 2", "MSET {p}c 3 {p}d 3"]);
    }

    #[test]
    fn refused_write_is_sent_again_where_the_refusal_points() {
        for (refusal, seen) in [("MOVED", &["SET {p}a 0"][..]), ("ASK", &["ASKING", "SET {p}a 0"])] {
            let (node, other) = (FakeNode::start(), FakeNode::start());
            let cluster = node.cluster(PREFIX);
            node.answer([Reply::line(&format!("-{refusal} 1 {}", other.address))]);
            assert_eq!(write(&cluster, &[&["a"]]), ["done"], "{refusal}");
            assert_eq!(
                (node.seen().len(), other.seen()),
                (1, seen.iter().map(ToString::to_string).collect())
            );
        }
    }

    #[test]
    fn redirection_is_followed_after_many_temporary_errors() {
        let (node, other) = (FakeNode::start(), FakeNode::start());
        let cluster = node.cluster(PREFIX);
        let busy = (0..MAX_REDIRECTIONS).map(|_| Reply::line("-TRYAGAIN a test"));
        node.answer(busy.chain([Reply::line(&format!("-MOVED 1 {}", other.address))]));
        assert_eq!(write(&cluster, &[&["a"]]), ["done"]);
        assert_eq!((node.seen().len(), other.seen()), (MAX_REDIRECTIONS + 1, vec!["SET {p}a 0".to_owned()]));
    }

    /// After too many redirections the write pauses, and then goes where the last of them pointed.
    #[test]
    fn last_redirection_before_a_pause_changes_the_slot_map() {
        let (node, other) = (FakeNode::start(), FakeNode::start());
        let cluster = node.cluster(PREFIX);
        for (from, to) in [(&node, &other), (&other, &node)] {
            from.answer((0..3).map(|_| Reply::line(&format!("-MOVED 1 {}", to.address))));
        }
        assert_eq!(write(&cluster, &[&["a"]]), ["done"]);
        assert_eq!((node.seen().len(), other.seen().len()), (4, 3));
    }

    /// A refused write is not sent again after a later write of the same key was executed, which the retry would
    /// overwrite.
    #[test]
    fn refused_write_is_not_sent_again_after_a_later_one_of_the_same_key() {
        let node = FakeNode::start();
        let cluster = node.cluster(PREFIX);
        node.answer([
            Reply::line("-CLUSTERDOWN a test"),
            Reply::line("-TRYAGAIN a test"),
            Reply::line("+OK"),
        ]);
        assert_eq!(write(&cluster, &[&["a"], &["b"], &["a"]]), ["done"; 3]);
        assert_eq!(node.seen(), ["SET {p}a 0", "SET {p}b 1", "SET {p}a 2", "SET {p}b 1"]);
    }

    #[test]
    fn write_without_an_answer_is_unknown_and_is_not_sent_again() {
        let node = FakeNode::start();
        let cluster = node.cluster(PREFIX);
        node.answer([Reply::line("+OK"), Reply::line("-TRYAGAIN a test"), Reply::Close]);
        // The second write is refused, but it is unknown whether the third one has overwritten its key.
        assert_eq!(
            write(&cluster, &[&["a"], &["b"], &["b"], &["c"]]),
            ["done", "unknown", "unknown", "unknown"]
        );
        assert_eq!(node.seen(), ["SET {p}a 0", "SET {p}b 1", "SET {p}b 2"]);
        assert_eq!(write(&cluster, &[&["c"]]), ["done"]);
    }

    /// A write of several keys is not sent together with another write of one of them: if only the first was refused,
    /// its retry would overwrite the second.
    #[test]
    fn write_of_several_keys_is_not_sent_together_with_another_of_one_of_them() {
        let node = FakeNode::start();
        let cluster = node.cluster(PREFIX);
        node.answer([Reply::line("-TRYAGAIN a test")]);
        assert_eq!(write(&cluster, &[&["a", "b"], &["b"], &["c"], &["b"]]), ["done"; 4]);
        let first = ["MSET {p}a 0 {p}b 0", "SET {p}c 2"];
        let then = ["MSET {p}a 0 {p}b 0", "SET {p}b 1", "SET {p}b 3"];
        assert_eq!(node.seen(), [&first[..], &then].concat());
    }

    #[test]
    fn write_of_one_key_twice_is_sent() {
        let node = FakeNode::start();
        let cluster = node.cluster(PREFIX);
        assert_eq!(write(&cluster, &[&["a", "a"], &["a"]]), ["done"; 2]);
        assert_eq!(node.seen(), ["MSET {p}a 0 {p}a 0", "SET {p}a 1"]);
    }

    #[test]
    fn final_refusal_fails_its_write_alone() {
        let node = FakeNode::start();
        let cluster = node.cluster(PREFIX);
        node.answer([Reply::line("-OOM a test"), Reply::line("-ERR a test"), Reply::line("+OK")]);
        assert_eq!(write(&cluster, &[&["a"], &["b"], &["a"]]), ["full", "failed", "done"]);
        assert_eq!(node.seen().len(), 3);
    }

    #[test]
    fn part_of_too_many_keys_is_refused_by_itself() {
        let node = FakeNode::start();
        let cluster = node.cluster(PREFIX);
        let many = vec!["a"; 200_001];
        assert_eq!(write(&cluster, &[&many, &["b"]]), ["failed", "done"]);
        assert_eq!(node.seen(), ["SET {p}b 1"]);
    }

    #[test]
    fn part_of_two_slots_is_refused_by_itself() {
        let node = FakeNode::start();
        let cluster = node.cluster(b"p/");
        let mut batch = Batch::default();
        for keys in [&["a", "b"][..], &["{a}c", "{a}d"], &[]] {
            keys.iter().for_each(|key| batch.delete(key.as_bytes()));
            batch.end_part();
        }
        let outcomes = cluster.write_parts(&batch).unwrap();
        assert!(matches!(&outcomes[..], [Err(Error::CrossSlot), Ok(()), Ok(())]), "{outcomes:?}");
        assert_eq!(node.seen().len(), 1);
    }
}

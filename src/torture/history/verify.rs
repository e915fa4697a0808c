//! History checker: decides whether the data of a store are a state that the replies allow.

use super::{
    client_history::{BUDGET, History},
    keys::{BIG, FIRST_COUNTER, KEYS, deadline, groups, key},
    request::{Change, ObservedValue, RequestOutcome, Sent, State, after},
    value::Content,
};
use crate::torture::allowed_loss::AllowedLoss;
use std::{collections::BTreeSet, time::Duration};

/// Maximum number of failures that are reported for each client.
const MAX_REPORTED: usize = 4;

/// Result of the check of one client's keys against its requests.
#[derive(Default)]
pub(in super::super) struct Verdict {
    pub acknowledged: u64,
    pub lost: u64,
    /// Time from the acknowledgement of the oldest lost write to the kill or power cut.
    pub oldest: Option<Duration>,
    /// Descriptions of states that the replies and the loss bound do not allow.
    pub faults: Vec<String>,
}

impl History {
    /// Checks the values that a store holds against the requests and replies, and makes them the base of the next
    /// load. `promise` is the allowed loss, `fault_at` the time from the start of the load to the kill or power cut.
    pub fn settle(
        &mut self,
        found: &[Option<ObservedValue>],
        promise: AllowedLoss,
        fault_at: Duration,
    ) -> Verdict {
        let mut verdict = Verdict::default();
        let found = self.recognise(found, &mut verdict.faults);
        let is_acknowledged = |sent: &&Sent| matches!(sent.fate, RequestOutcome::Acknowledged(_));
        verdict.acknowledged = self.sent.iter().filter(is_acknowledged).count() as u64;
        if self.certain {
            self.judge_by_order(&found, promise, fault_at, &mut verdict);
        } else {
            self.judge_by_key(&found, promise, fault_at, &mut verdict);
        }
        if promise == AllowedLoss::Anything {
            verdict.faults.clear();
        }
        verdict.faults.truncate(MAX_REPORTED);
        self.base.clone_from(&found);
        self.ahead = found;
        self.sent.clear();
        self.certain = true;
        self.budget = BUDGET;
        verdict
    }

    /// Identifies the value of each key among those that it held at the last check or that were written since. Adds a
    /// failure to `faults` for a value that no client wrote, and for a wrong expiration time.
    fn recognise(&self, found: &[Option<ObservedValue>], faults: &mut Vec<String>) -> State {
        let mut candidates: Vec<Vec<Content>> =
            self.base.iter().map(|base| base.iter().copied().collect()).collect();
        for (index, change) in self.sent.iter().flat_map(|sent| &sent.changes) {
            if let (Some(known), Change::To(Some(content))) = (candidates.get_mut(*index), change) {
                known.push(*content);
            }
        }
        let known = found.iter().zip(candidates).enumerate();
        known
            .map(|(index, (held, candidates))| {
                let held = held.as_ref()?;
                let bytes = &*held.value;
                let number = || str::from_utf8(bytes).ok()?.parse().ok().map(Content::Number);
                let counted = if (FIRST_COUNTER..BIG).contains(&index) { number() } else { None };
                let content =
                    counted.or_else(|| candidates.into_iter().rev().find(|content| content.is(bytes)));
                if content.is_none() {
                    let start = bytes.get(..24).unwrap_or(bytes).escape_ascii();
                    let key = key(self.client, index);
                    faults.push(format!("{key} holds a value nobody wrote: {} bytes, {start}", bytes.len()));
                }
                let content = content.unwrap_or(Content::Foreign);
                let (expires, wanted) = (held.deadline, deadline(index, content));
                if content != Content::Foreign && expires.is_some_and(|expires| expires != wanted) {
                    let (key, expires) = (key(self.client, index), expires.unwrap_or_default());
                    faults.push(format!(
                        "{key} expires at {expires}, not at {wanted} (milliseconds since 1970, -1 is never)"
                    ));
                }
                Some(content)
            })
            .collect()
    }

    /// Looks for the largest number of the client's first requests after which the keys have the state `found`.
    /// Reports a failure if there is none, or if more acknowledged writes are lost than allowed.
    fn judge_by_order(&self, found: &State, promise: AllowedLoss, fault_at: Duration, verdict: &mut Verdict) {
        let acknowledged = verdict.acknowledged as usize;
        let mut state = self.base.clone();
        let mut wrong: BTreeSet<usize> =
            (0..KEYS).filter(|index| state.get(*index) != found.get(*index)).collect();
        let mut wrong_then = wrong.clone();
        let mut executed = wrong.is_empty().then_some(0);
        for (done, sent) in self.sent.iter().enumerate() {
            for (index, change) in &sent.changes {
                let Some(slot) = state.get_mut(*index) else { continue };
                *slot = after(*slot, *change);
                if Some(&*slot) == found.get(*index) {
                    wrong.remove(index);
                } else {
                    wrong.insert(*index);
                }
            }
            if done + 1 == acknowledged {
                wrong_then.clone_from(&wrong);
            }
            if wrong.is_empty() {
                executed = Some(done + 1);
            }
        }
        let Some(executed) = executed else {
            verdict.lost = wrong_then.len() as u64;
            verdict.faults.push(self.describe_mismatch(found, &wrong_then, acknowledged));
            return;
        };
        verdict.lost = acknowledged.saturating_sub(executed) as u64;
        if verdict.lost == 0 {
            return;
        }
        verdict.oldest = self.sent.get(executed).map(|sent| fault_at.saturating_sub(sent.at));
        let is_too_old = match promise {
            AllowedLoss::Nothing => true,
            AllowedLoss::Within(time) => verdict.oldest > Some(time),
            AllowedLoss::Tail | AllowedLoss::Anything => false,
        };
        if is_too_old {
            let before = verdict.oldest.unwrap_or_default().as_millis();
            verdict.faults.push(format!(
                "client {}: {} of {acknowledged} acknowledged writes are lost, the first of them {before} ms \
                 before the fault",
                self.client, verdict.lost
            ));
        }
    }

    /// Returns the failure text for keys whose state is that after no number of the client's first requests. `wrong`
    /// are the keys that differ from the state after the `acknowledged` requests; at most six of them are named, with
    /// what they hold.
    fn describe_mismatch(&self, found: &State, wrong: &BTreeSet<usize>, acknowledged: usize) -> String {
        let some = wrong.iter().take(6).map(|index| {
            let held = match found.get(*index).copied().flatten() {
                None => "is absent".to_owned(),
                Some(content) => match content.request() {
                    Some(request) => format!("is of request {request}"),
                    None => format!("is {content:?}"),
                },
            };
            format!("{} {held}", key(self.client, *index))
        });
        format!(
            "client {}: its keys are as no first requests of its {} left them ({acknowledged} acknowledged); \
             compared with those, {} keys differ: {}",
            self.client,
            self.sent.len(),
            wrong.len(),
            some.collect::<Vec<_>>().join(", ")
        )
    }

    /// Checks, after refused requests or unknown outcomes, that each key holds the value of its last acknowledged
    /// write, or one that a later request may have written, and that the keys of each group are all equal. Reports a
    /// failure if not, except for a loss that `promise` allows.
    fn judge_by_key(&self, found: &State, promise: AllowedLoss, fault_at: Duration, verdict: &mut Verdict) {
        let (possible, acknowledged) = self.possible();
        let keys = found.iter().zip(possible.iter().zip(&acknowledged)).enumerate();
        for (index, (found, (possible, acknowledged))) in keys {
            if possible.contains(found) {
                continue;
            }
            verdict.lost += 1;
            let age = acknowledged.map(|at| fault_at.saturating_sub(at));
            verdict.oldest = verdict.oldest.max(age);
            let is_too_old = match promise {
                AllowedLoss::Nothing => true,
                // A value of the last check is older than any write since.
                AllowedLoss::Within(time) => age.is_none_or(|age| age > time),
                AllowedLoss::Tail | AllowedLoss::Anything => false,
            };
            if is_too_old {
                let key = key(self.client, index);
                let when = age.map_or("before this load".to_owned(), |age| {
                    format!("{} ms before the fault", age.as_millis())
                });
                verdict.faults.push(format!("{key} lost a write acknowledged {when}: it holds {found:?}"));
            }
        }
        for group in groups() {
            let mut held = found.get(group.clone()).unwrap_or_default().to_vec();
            held.dedup();
            if held.len() > 1 {
                let key = key(self.client, group.start);
                verdict.faults.push(format!("the group of {key} is half there: {held:?}"));
            }
        }
    }

    /// Returns for each key the values that it may hold if nothing is lost, and the time at which its last write
    /// was acknowledged; `None` if there was none since the last check.
    fn possible(&self) -> (Vec<BTreeSet<Option<Content>>>, Vec<Option<Duration>>) {
        let mut acknowledged = vec![None; self.base.len()];
        let mut possible: Vec<BTreeSet<Option<Content>>> =
            self.base.iter().map(|base| BTreeSet::from([*base])).collect();
        for sent in &self.sent {
            for (index, change) in &sent.changes {
                let Some(set) = possible.get_mut(*index) else { continue };
                let then: BTreeSet<_> = set.iter().map(|content| after(*content, *change)).collect();
                let Some(last) = acknowledged.get_mut(*index) else { continue };
                match sent.fate {
                    RequestOutcome::Acknowledged(number) if matches!(change, Change::Add) => {
                        (*set, *last) = (BTreeSet::from([Some(Content::Number(number))]), Some(sent.at));
                    }
                    // The reply to DEL identifies the deleted keys only if it counts all of them. The other keys
                    // were absent when DEL was executed, but that makes their absence not durable.
                    RequestOutcome::Acknowledged(deleted)
                        if matches!(change, Change::To(None)) && deleted != sent.changes.len() as i64 =>
                    {
                        set.extend(then);
                    }
                    RequestOutcome::Acknowledged(_) => (*set, *last) = (then, Some(sent.at)),
                    RequestOutcome::Unknown | RequestOutcome::Refused => set.extend(then),
                }
            }
        }
        (possible, acknowledged)
    }
}

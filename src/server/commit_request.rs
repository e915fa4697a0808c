//! Commit request of a connection: consecutive requests with writes that are executed together (a step).

use super::{
    request_batch::{REPLY_SIZE, RequestBatch},
    step_planner::Step,
    transaction::{SelectRequest, Transaction, append_stored},
};
use crate::{
    command::{Done, KeyHits, Lookup, Progress, execute, flags::WHOLE_KEYSPACE},
    store::{self, Store, Txn, Work},
};
use std::mem;
use tokio::sync::oneshot;

/// Maximum number of keys of a commit request that are prefetched.
const MAX_PREFETCHED: usize = 1024;

/// Consecutive requests of a connection (a step) that a commit thread executes together. If reads wait for the
/// network, steps of reads travel in this form to the threads that read for all connections.
pub(super) struct CommitRequest {
    pub batch: Box<RequestBatch>,
    pub step: Step,
    /// Progress of the next request, if it takes several commits, as a DEL of many keys does.
    pub progress: Progress,
    /// Transaction of the client, if the request is WATCH or EXEC.
    pub transaction: Option<Box<Transaction>>,
    /// Worker and connection to which another thread returns the requests and their replies; `None` if the worker or
    /// one of its blocking threads commits the request.
    pub reply_to: Option<ReplyTo>,
    /// Progress of the step's first request (its keys that earlier commits have processed) when the step began; a step
    /// that is executed again starts from there.
    first_progress: Progress,
    /// Length of the reply buffer in bytes when the step began.
    reply_start: usize,
    /// Positions in the reply buffer at which the replies of the step end, without the last one, if each request is
    /// committed by itself.
    reply_ends: Vec<usize>,
}

/// Worker and connection that wait for a commit request.
pub(super) struct ReplyTo {
    pub worker: usize,
    pub connection: oneshot::Sender<CommitRequest>,
}

impl CommitRequest {
    pub fn new(
        batch: Box<RequestBatch>,
        step: Step,
        progress: Progress,
        transaction: Option<Box<Transaction>>,
    ) -> Self {
        let (reply_start, reply_ends) = (batch.reply.len(), Vec::new());
        let (first_progress, reply_to) = (progress, None);
        Self { batch, step, progress, transaction, reply_to, first_progress, reply_start, reply_ends }
    }

    /// Appends to `keys` the stored keys that the next commit of these requests uses, of those requests for which
    /// `select` returns `true`.
    fn list_keys(&self, select: SelectRequest, keys: &mut Vec<Vec<u8>>) {
        let (database, mut progress) = (self.step.database, self.first_progress);
        for index in self.step.requests.clone() {
            let Some(args) = self.batch.args(index) else { break };
            match (&self.transaction, self.batch.lookups.get(index)) {
                (Some(transaction), _) => transaction.list_keys(args, database, select, keys),
                (None, Some(Lookup::Known(spec, _))) => {
                    let (next, completes) = mem::take(&mut progress).next_keys(spec, args);
                    if select(spec, args) {
                        append_stored(next, database, keys);
                    }
                    if !completes {
                        break;
                    }
                }
                (None, _) => {}
            }
        }
    }

    /// Discards the replies, the counted hits and the progress of an earlier call of `run`.
    fn reset(&mut self) {
        self.transaction.iter_mut().for_each(|transaction| transaction.reset());
        self.progress = self.first_progress;
        self.reply_ends.clear();
        self.batch.hits = KeyHits::default();
        self.batch.reply.truncate(self.reply_start);
        self.batch.next = self.step.requests.start;
    }
}

impl Work for CommitRequest {
    fn run<'g>(&'g mut self, txn: &mut Txn<'g>) {
        self.reset();
        let Self { batch, step, progress, transaction, reply_ends, .. } = self;
        let RequestBatch { input, requests, reply, lookups, next, hits, .. } = &mut **batch;
        let (requests, data) = (&*requests, input.bytes());
        txn.select(step.database);
        if let (Some(transaction), Some(args)) = (transaction, requests.get(*next, data)) {
            transaction.run(args, step.database, txn, reply);
            *next += 1;
            return;
        }
        while step.requests.contains(next)
            && let (Some(Lookup::Known(spec, _)), Some(args)) =
                (lookups.get(*next), requests.get(*next, data))
        {
            if *next > step.requests.start && txn.end_request() {
                reply_ends.push(reply.len());
            }
            if execute(spec, args, txn, progress, hits, reply) == Done::MoreKeys {
                break;
            }
            *next += 1;
            if reply.len() >= REPLY_SIZE || txn.has_reached_limit() {
                break;
            }
        }
    }

    fn split(&mut self) -> bool {
        let Self { batch, step, transaction, .. } = self;
        let is_several = transaction.is_none() && step.requests.len() > 1;
        if is_several {
            batch.is_split = true;
            step.requests.end = step.requests.start + 1;
        }
        is_several
    }

    fn fail(&mut self, error: &store::Error) {
        let end = self.batch.next.max(self.step.requests.start + 1);
        self.reset();
        self.progress = Progress::default();
        self.transaction.iter_mut().for_each(|transaction| transaction.job = None);
        while self.batch.next < end {
            self.batch.reply.error(error.to_string());
            self.batch.next += 1;
        }
    }

    fn fail_some(&mut self, outcomes: &[Result<(), store::Error>]) {
        if let [Err(error)] = outcomes {
            return self.fail(error);
        }
        let reply = &mut self.batch.reply;
        let mut written = reply.aside();
        written.append(reply);
        let mut start = self.reply_start;
        reply.truncate(start);
        let ends = self.reply_ends.iter().copied().chain([written.len()]);
        for (outcome, end) in outcomes.iter().zip(ends) {
            match outcome {
                Ok(()) => reply.append_part(&written, start..end),
                Err(error) => reply.error(error.to_string()),
            }
            start = end;
        }
    }

    fn bytes(&self) -> usize {
        self.transaction.as_ref().map_or(0, |transaction| transaction.bytes()) + self.batch.input.len()
    }

    fn slot(&self, store: &Store) -> u16 {
        let index = self.step.requests.start;
        let (Some(Lookup::Known(spec, _)), Some(args)) =
            (self.batch.lookups.get(index), self.batch.args(index))
        else {
            return 0;
        };
        let first = match &self.transaction {
            Some(transaction) => transaction.first_key(args),
            None => spec.keys_of(args).next(),
        };
        first.map_or(0, |key| store.slot(key))
    }

    fn keys_to_read(&self, keys: &mut Vec<Vec<u8>>) {
        let first = keys.len();
        self.list_keys(|spec, args| !spec.is_blind(args), keys);
        keys.truncate(first + MAX_PREFETCHED);
    }

    fn keys(&self) -> Option<Vec<Vec<u8>>> {
        let may_use_any = match &self.transaction {
            Some(transaction) => transaction.uses_all_keys(),
            None => matches!(
                self.batch.lookups.get(self.step.requests.start),
                Some(Lookup::Known(spec, _)) if spec.has(WHOLE_KEYSPACE)
            ),
        };
        if may_use_any {
            return None;
        }
        let mut keys = Vec::new();
        self.list_keys(|_, _| true, &mut keys);
        Some(keys)
    }

    fn is_blind(&self) -> bool {
        match &self.transaction {
            Some(transaction) => transaction.is_blind(),
            None => self.step.requests.clone().all(|index| self.batch.is_blind(index)),
        }
    }
}

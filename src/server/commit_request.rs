//! Execution of a step of writes, and of the reads between them, as a commit request.

use super::{
    each::Progress,
    read_batch::KeyHits,
    request_batch::{LARGE, REPLY_SIZE, RequestBatch},
    through::read_through,
    transaction::{ListKeys, list_all_keys, list_keys_to_read},
};
use crate::{
    command::{Handler, Lookup, Write},
    store::{self, Store, Txn, Work},
};

/// Weight in bytes of a request on a large value; it exceeds what a commit group takes in addition to one
/// commit request.
const LARGE_WEIGHT: usize = 64 << 20;

/// Maximum number of keys of a step that are prefetched.
const MAX_PREFETCHED: usize = 1024;

impl RequestBatch {
    /// Appends the keys of the current step that `list` selects.
    fn list_keys_of_step(&self, list: ListKeys, keys: &mut Vec<Vec<u8>>) {
        for index in self.next..self.end {
            let Some(args) = self.args(index) else { break };
            match (&self.transaction, self.lookups.get(index)) {
                (Some(transaction), _) => transaction.list_keys(args, self.space, list, keys),
                (None, Some(Lookup::Known(spec))) => list(spec, args, self.space, keys),
                (None, _) => {}
            }
        }
    }

    /// Sets up to which size the transaction may lend values without copying them.
    fn lend(&self, txn: &mut Txn<'_>) {
        if self.is_next_large() {
            txn.lend_patiently();
        } else if self.transaction.is_none() || txn.is_memory_only() {
            // On other stores the commit thread executes transactions; only other writes wait for it.
            txn.lend_up_to(LARGE);
        }
    }
}

impl Work for Box<RequestBatch> {
    fn run<'g>(&'g mut self, txn: &mut Txn<'g>) {
        self.lend(txn);
        let RequestBatch {
            input,
            requests,
            reply,
            lookups,
            next,
            end,
            each,
            begin,
            found_large,
            space,
            transaction,
            found,
            reply_ends,
            ..
        } = &mut **self;
        reply_ends.clear();
        let (requests, data) = (&*requests, input.bytes());
        txn.select(*space);
        if let (Some(transaction), Some(args)) = (transaction, requests.get(*next, data)) {
            transaction.run(args, *space, txn, reply);
            *next += 1;
            return;
        }
        while *next < *end {
            let (Some(Lookup::Known(spec)), Some(args)) = (lookups.get(*next), requests.get(*next, data))
            else {
                break;
            };
            let start = reply.len();
            if *next > begin.1 && txn.end_request() {
                reply_ends.push(start);
            }
            let outcome = match spec.action {
                Handler::Write(
                    Write::Blind(run)
                    | Write::BlindWithoutOptions(run)
                    | Write::Seeing(run)
                    | Write::All(run),
                ) => run(args, txn, reply),
                Handler::Write(Write::Each(write)) => match each.write(write, args, txn, reply) {
                    Ok(true) => Ok(()),
                    Ok(false) => break,
                    Err(error) => Err(error),
                },
                Handler::Read(read) => read_through(read, args, txn, found, reply).map_err(Into::into),
                _ => break,
            };
            if let Err(error) = outcome {
                reply.truncate(start);
                *found_large = error.is_long();
                if *found_large {
                    break;
                }
                *each = Progress::default();
                error.write(reply);
            }
            *next += 1;
            if reply.len() >= REPLY_SIZE {
                break;
            }
        }
    }

    fn rewind(&mut self) {
        let (reply_start, first, each) = self.begin;
        self.transaction.iter_mut().for_each(|transaction| transaction.rewind());
        self.each = each;
        self.found_large = false;
        self.found = KeyHits::default();
        self.reply.truncate(reply_start);
        self.next = first;
    }

    fn fail(&mut self, error: &store::Error) {
        let end = self.next;
        self.rewind();
        self.found_large = matches!(error, store::Error::Long);
        if self.found_large {
            return;
        }
        self.each = Progress::default();
        self.transaction.iter_mut().for_each(|transaction| transaction.task = None);
        while self.next < end.max(self.begin.1 + 1) {
            self.reply.error(error.to_string());
            self.next += 1;
        }
    }

    fn fail_some(&mut self, outcomes: &[Result<(), store::Error>]) {
        if let [Err(error)] = outcomes {
            return self.fail(error);
        }
        let mut written = self.reply.aside();
        written.append(&self.reply);
        let mut start = self.begin.0;
        self.reply.truncate(start);
        let ends = self.reply_ends.iter().copied().chain([written.len()]);
        for (outcome, end) in outcomes.iter().zip(ends) {
            match outcome {
                Ok(()) => self.reply.append_part(&written, start..end),
                Err(error) => self.reply.error(error.to_string()),
            }
            start = end;
        }
    }

    fn bytes(&self) -> usize {
        let transaction = self.transaction.as_ref().map_or(0, |transaction| transaction.weight());
        let value = if self.works_on_large { LARGE_WEIGHT } else { 0 };
        transaction + self.input.len() + value
    }

    fn slot(&self, store: &Store) -> u16 {
        let Some(Lookup::Known(spec)) = self.lookups.get(self.next) else { return 0 };
        let Some(args) = self.requests.get(self.next, self.input.bytes()) else { return 0 };
        let first = match &self.transaction {
            Some(transaction) => transaction.first_key(args),
            None => spec.keys_of(args).next(),
        };
        first.map_or(0, |key| store.slot(key))
    }

    fn keys_to_read(&self, keys: &mut Vec<Vec<u8>>) {
        let first = keys.len();
        self.list_keys_of_step(list_keys_to_read, keys);
        keys.truncate(first + MAX_PREFETCHED);
    }

    fn keys(&self) -> Option<Vec<Vec<u8>>> {
        let is_of_all = match &self.transaction {
            Some(transaction) => transaction.is_long(),
            None => self.is_next_of_all_keys(),
        };
        let mut keys = Vec::new();
        self.list_keys_of_step(list_all_keys, &mut keys);
        (!is_of_all).then_some(keys)
    }

    fn is_blind(&self) -> bool {
        if let Some(transaction) = &self.transaction {
            return transaction.is_blind();
        }
        (self.next..self.end).all(|index| self.is_blind_at(index))
    }
}

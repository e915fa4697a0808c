//! Execution of consecutive read requests (a step) under one snapshot.

use super::{
    commit_request::CommitRequest,
    request_batch::{REPLY_SIZE, RequestBatch},
    step_planner::Step,
};
use crate::{
    command::{Handler, Lookup, Read, ReadLimits, Spec, StepReader},
    engine::VisitValue,
    resp::{Args, Reply},
    store::{self, Database, Store},
};
use bumpalo::Bump;
use std::{
    mem,
    panic::{self, AssertUnwindSafe},
};

/// Maximum number of bytes of values that a worker copies for a read request, including the values that earlier
/// requests of its step such as BITCOUNT have read as a whole; a request beyond it is left to a blocking thread.
const MAX_COPY_ON_WORKER: usize = 2 << 20;

/// Size of the reply buffer, in bytes, from which the remaining read requests are left to the next step, which reads
/// their values again. For stores whose reads wait for the network, and clients without an output buffer limit;
/// otherwise the size is [`REPLY_SIZE`].
const SHARED_REPLY_SIZE: usize = 16 << 20;

/// Maximum number of keys of one connection's read requests that are read together with those of other connections.
const MAX_GROUPED_KEYS: usize = 128;

/// Maximum number of read requests of a connection that are answered under one snapshot.
const MAX_READS_PER_STEP: usize = 1024;

/// Executes the read requests of `step` on the worker, at most [`MAX_READS_PER_STEP`] of them, until one would copy
/// more than [`MAX_COPY_ON_WORKER`] bytes, or the reply buffer has [`REPLY_SIZE`] bytes. Returns the number of answered
/// requests, and `true` if the next request is too large for a worker.
pub(super) fn read_on_worker(batch: &mut RequestBatch, step: &Step, store: &Store) -> (usize, bool) {
    let limits = ReadLimits { copy: MAX_COPY_ON_WORKER, reply: REPLY_SIZE };
    answer(batch, step, limits, |keys, visit| store.read(keys, visit))
}

/// Executes the read requests of `step` on a blocking thread, at most [`MAX_READS_PER_STEP`] of them, until the size of
/// the reply buffer reaches its limit. Returns the number of answered requests.
pub(super) fn read(batch: &mut RequestBatch, step: &Step, store: &Store) -> usize {
    let limits = limits_off_worker(&batch.reply, store);
    answer(batch, step, limits, |keys, visit| store.read_long(keys, visit)).0
}

/// Returns the limits for read requests that are not executed on a worker: values of any size may be copied.
fn limits_off_worker(reply: &Reply, store: &Store) -> ReadLimits {
    let is_long = store.is_shared() && !reply.is_limited();
    ReadLimits { copy: usize::MAX, reply: if is_long { SHARED_REPLY_SIZE } else { REPLY_SIZE } }
}

/// Executes the read steps of several connections at once, for a store in which each read waits for the network, as far
/// as no read waits for a node that does not respond. A step with a key of such a node is left unexecuted, and a step
/// of more than [`MAX_GROUPED_KEYS`] keys, too: the engine reads them in several calls, and only as many of them as fit
/// into the reply.
pub(super) fn read_group(group: &mut [CommitRequest], store: &Store) {
    let keys = group.iter().map(|CommitRequest { batch, step, .. }| {
        let keys: Vec<_> = key_chunks(batch, step, 1).into_iter().flatten().collect();
        if keys.len() > MAX_GROUPED_KEYS { Vec::new() } else { keys }
    });
    let keys: Vec<Vec<Vec<u8>>> = keys.collect();
    let all: Vec<&[u8]> = keys.iter().flatten().map(Vec::as_slice).collect();
    // After a panic all steps are left unexecuted. A read that panics does so again where it is executed for its own
    // connection.
    let found = panic::catch_unwind(AssertUnwindSafe(|| store.read_now(&all)));
    let mut found = found.unwrap_or_default().into_iter();
    for (request, keys) in group.iter_mut().zip(&keys) {
        let values: Vec<_> = found.by_ref().take(keys.len()).collect();
        if keys.is_empty() || values.len() < keys.len() || values.iter().any(Option::is_none) {
            continue;
        }
        let limits = limits_off_worker(&request.batch.reply, store);
        answer(&mut request.batch, &request.step, limits, |keys, visit| {
            let found = values.iter().flatten().map(Option::as_deref).take(keys.len());
            let _stopped = found.enumerate().try_for_each(|(index, value)| visit(index, value));
            Ok(())
        });
    }
}

/// Returns the stored keys that the first [`MAX_READS_PER_STEP`] read requests of `step` use, in at most `most` chunks
/// (0 counts as 1).
pub(super) fn key_chunks(batch: &RequestBatch, step: &Step, most: usize) -> Vec<Vec<Vec<u8>>> {
    let (mut keys, arena) = (Vec::new(), Bump::new());
    let requests = batch.requests.from(step.requests.start, batch.input.bytes());
    let lookups = batch.lookups.get(step.requests.clone()).unwrap_or_default();
    let lookups = lookups.get(..MAX_READS_PER_STEP).unwrap_or(lookups);
    list_keys(lookups, requests, step.database, &arena, &mut keys);
    let length = keys.len().div_ceil(most.max(1)).max(1);
    keys.chunks(length).map(|chunk| chunk.iter().map(|key| key.to_vec()).collect()).collect()
}

/// Answers a read step with the values that `read` passes to its second argument. Answers the requests of a step in
/// order until one would copy more than `limits.copy` bytes, the replies have `limits.reply` bytes, or the maximum
/// number is reached. Returns the number of answered requests, and `true` if the next one would exceed `limits.copy`.
/// If `read` fails for more than one value, all remaining requests of the step are answered with the error.
fn answer(
    batch: &mut RequestBatch,
    step: &Step,
    limits: ReadLimits,
    mut read: impl FnMut(&[&[u8]], &mut VisitValue<'_>) -> Result<(), store::Error>,
) -> (usize, bool) {
    let (first, arena) = (batch.next, Bump::new());
    let mut keys = recycle(mem::take(&mut batch.keys));
    let RequestBatch { lookups, requests, input, reply, .. } = batch;
    let (lookups, data) = (&**lookups, input.bytes());
    // The keys that a full reply leaves over are listed again in the next step.
    let listed = lookups.get(first..step.requests.end.min(first + MAX_READS_PER_STEP)).unwrap_or_default();
    list_keys(listed, requests.from(first, data), step.database, &arena, &mut keys);
    let mut reader = StepReader::new(first, lookups, requests, data, reply, limits);
    let mut first_key = 0;
    let outcome = loop {
        let keys = keys.get(first_key..).unwrap_or_default();
        let outcome = read(keys, &mut |_, value| reader.visit(value));
        // A value that cannot be read fails only its own request. The requests after it see a later snapshot.
        match &outcome {
            Err(error)
                if let Some(index) = error.index_of_value()
                    && let Some(skipped) = reader.fail(error) =>
            {
                first_key += index + 1 + skipped;
            }
            _ => break outcome,
        }
    };
    let done = reader.finish();
    batch.keys = recycle(keys);
    batch.next = done.next;
    batch.hits.add(done.hits);
    if let Err(error) = outcome {
        batch.reply.truncate(done.reply_len);
        while batch.next < step.requests.end {
            batch.reply.error(error.to_string());
            batch.next += 1;
        }
    }
    (batch.next - first, done.is_too_large)
}

/// Appends the stored keys that read requests use to `keys`.
fn list_keys<'b>(
    lookups: &[Lookup],
    requests: impl Iterator<Item = Args<'b>>,
    database: Database,
    arena: &'b Bump,
    keys: &mut Vec<&'b [u8]>,
) {
    for (lookup, args) in lookups.iter().zip(requests) {
        match lookup {
            Lookup::Known(Spec { handler: Handler::Read(Read::One(_) | Read::Entry(_)), .. }, _) => {
                keys.push(database.encode_key(args.get(1), arena));
            }
            Lookup::Known(Spec { handler: Handler::Read(_), .. }, _) => {
                keys.extend(args.from(1).map(|key| database.encode_key(key, arena)));
            }
            _ => {}
        }
    }
}

/// Empties a vector of borrowed keys, and returns its memory as a vector of keys with another lifetime; the closure is
/// never called.
fn recycle<'b>(mut keys: Vec<&[u8]>) -> Vec<&'b [u8]> {
    keys.clear();
    keys.into_iter().map(|_| &[][..]).collect()
}

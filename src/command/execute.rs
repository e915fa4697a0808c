//! Execution of commands that read or write keys, in a commit or under a snapshot.

use super::{
    error::{self, Error},
    flags::WHOLE_VALUE,
    spec::{DeleteCommand, Handler, Lookup, Read, Spec},
};
use crate::{
    resp::{Args, Reply, Requests},
    store::{self, Entry, ExpirationClock, Txn},
};
use std::{mem, ops::ControlFlow};

/// Numbers of keys that read requests looked up: those that were found and those that were not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyHits {
    /// Number of keys that read requests looked up and found.
    pub hits: u64,
    /// Number of keys that read requests looked up and did not find.
    pub misses: u64,
}

impl KeyHits {
    #[inline]
    fn count(&mut self, is_found: bool) {
        let counter = if is_found { &mut self.hits } else { &mut self.misses };
        *counter += 1;
    }

    /// Adds the hits and misses of `other`.
    pub fn add(&mut self, other: Self) {
        self.hits += other.hits;
        self.misses += other.misses;
    }
}

/// Maximum number of keys of a DEL or UNLINK that one call of [`execute`] removes. Outside of EXEC, a commit ends after
/// a call that leaves keys; EXEC repeats the call within one commit.
const KEYS_PER_COMMIT: usize = 1024;

/// Progress of a request such as DEL ([`Handler::DeleteEach`]) that may take several calls of [`execute`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress {
    /// Number of the request's keys that have been processed so far, by all calls.
    keys: usize,
    /// Number of processed keys that count for the reply: those for which the command's function returned `true`.
    count: i64,
}

impl Progress {
    /// Returns `true` if some keys of a request were processed and others remain.
    pub fn has_begun(&self) -> bool {
        self.keys > 0
    }

    /// Returns the keys of a request that its next commit uses, and `true` if that commit completes the request.
    pub fn next_keys<'a>(self, spec: &Spec, args: Args<'a>) -> (impl Iterator<Item = &'a [u8]>, bool) {
        let most = if let Handler::DeleteEach(_) = spec.handler { KEYS_PER_COMMIT } else { usize::MAX };
        let completes = args.len() <= most.saturating_add(1 + self.keys);
        (spec.keys_of(args).skip(self.keys).take(most), completes)
    }
}

/// Part of a request that a call of [`execute`] has executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// The whole request was executed. Its reply is written.
    Whole,
    /// Only some keys of the request were processed; the others need further calls. No reply is written yet.
    MoreKeys,
}

/// Executes a request on keys within a transaction and writes its reply, which may be an error. A request for a command
/// that does not use keys (such as [`Handler::Session`]) has no effect and no reply here. `progress` is that of the
/// request. `hits` counts the keys that a [`Handler::Read`] command has found and not found, and no others.
pub fn execute<'g>(
    spec: &Spec,
    args: Args<'g>,
    txn: &mut Txn<'g>,
    progress: &mut Progress,
    hits: &mut KeyHits,
    reply: &mut Reply,
) -> Done {
    let start = reply.len();
    let outcome = match spec.handler {
        Handler::Write(run) => run(args, txn, reply).map(|()| Done::Whole),
        Handler::DeleteEach(delete) => delete_each(delete, args, txn, progress, reply),
        Handler::Read(read) => {
            execute_read(read, args, txn, hits, reply).map(|()| Done::Whole).map_err(Error::from)
        }
        Handler::Keyspace(run) => run(txn, args, reply).map(|()| Done::Whole),
        Handler::Session(_)
        | Handler::Commands(_)
        | Handler::Blocking(_)
        | Handler::Transaction(_)
        | Handler::Subcommands => Ok(Done::Whole),
    };
    outcome.unwrap_or_else(|error| {
        *progress = Progress::default();
        reply.truncate(start);
        error.write(reply);
        Done::Whole
    })
}

/// Removes the next [`KEYS_PER_COMMIT`] keys of a DEL or UNLINK, and writes the reply after the last key.
fn delete_each<'g>(
    delete: DeleteCommand,
    args: Args<'g>,
    txn: &mut Txn<'g>,
    progress: &mut Progress,
    reply: &mut Reply,
) -> Result<Done, Error> {
    for key in args.from(1 + progress.keys).take(KEYS_PER_COMMIT) {
        progress.count += i64::from(delete(key, txn)?);
        progress.keys += 1;
    }
    if progress.keys + 1 < args.len() {
        return Ok(Done::MoreKeys);
    }
    reply.integer(mem::take(progress).count);
    Ok(Done::Whole)
}

/// Executes a read request within the transaction of the writes before and after it in the pipeline, or within EXEC. A
/// request that fails counts neither hits nor misses.
fn execute_read(
    read: Read,
    args: Args<'_>,
    txn: &mut Txn<'_>,
    hits: &mut KeyHits,
    reply: &mut Reply,
) -> Result<(), store::Error> {
    let mut call = ReadCall::default();
    for key in args.from(1).take(read.keys(args)) {
        match txn.entry(key, |entry| call.answer(read, args, entry, reply)) {
            Err(error) if read.counts_unreadable(&error) => call.answer(read, args, UNREADABLE, reply),
            outcome => outcome?,
        };
        // Nothing more of a reply that exceeded its limit is needed.
        if reply.has_overflowed() {
            break;
        }
    }
    hits.add(call.hits);
    Ok(())
}

/// Value that commands see in place of one that exists, but cannot be read.
const UNREADABLE: Option<Entry<'_>> = Some(Entry { value: &[], deadline: 0 });

impl Read {
    /// Returns the number of keys that a read request has.
    fn keys(self, args: Args<'_>) -> usize {
        if let Self::Each(_) | Self::Count(_) = self { args.len() - 1 } else { 1 }
    }

    /// Returns `true` if the error of a value does not matter, because the request needs only the existence of keys.
    fn counts_unreadable(self, error: &store::Error) -> bool {
        matches!(self, Self::Count(_)) && error.is_unreadable_value()
    }
}

/// Progress of a read request: the values of its keys that it has got so far.
#[derive(Clone, Copy, Default)]
struct ReadCall {
    /// Number of values of the request's keys that it has got so far.
    keys: usize,
    /// Number of values so far for which the function of `Read::Count` returned `true`.
    count: i64,
    hits: KeyHits,
}

impl ReadCall {
    /// Passes the value of the next key to the command's function. Returns `true` if it was the last key of the
    /// request, whose reply is then complete.
    #[inline]
    fn answer(&mut self, read: Read, args: Args<'_>, entry: Option<Entry<'_>>, reply: &mut Reply) -> bool {
        self.hits.count(entry.is_some());
        self.keys += 1;
        let (keys, value) = (args.len() - 1, entry.map(|entry| entry.value));
        match read {
            Read::One(answer) => answer(args, value, reply),
            Read::Entry(answer) => {
                error::answer(reply, |reply| answer(args, entry, reply));
            }
            Read::Each(answer) => {
                if self.keys == 1 {
                    reply.array(keys);
                }
                answer(value, reply);
                return self.keys == keys;
            }
            Read::Count(holds) => {
                self.count += i64::from(holds(value));
                if self.keys < keys {
                    return false;
                }
                reply.integer(self.count);
            }
        }
        true
    }
}

/// Sizes in bytes at which the execution of read requests under one snapshot ([`StepReader`]) stops.
#[derive(Clone, Copy, Debug)]
pub struct ReadLimits {
    /// Maximum size in bytes of the values in the reply of one request, together with the values that earlier
    /// commands such as BITCOUNT have read.
    pub copy: usize,
    /// Size of the reply buffer, in bytes, from which no further request is answered.
    pub reply: usize,
}

/// Answers read requests under one snapshot, from the values of their keys, which the engine passes to
/// [`StepReader::visit`] one by one.
pub struct StepReader<'r> {
    lookups: &'r [Lookup],
    requests: &'r Requests,
    data: &'r [u8],
    reply: &'r mut Reply,
    limits: ReadLimits,
    clock: ExpirationClock,
    /// Index of the read request to which the next value belongs that the engine passes.
    next: usize,
    /// Progress of the read request to which the next value belongs that the engine passes.
    call: ReadCall,
    /// Position in the reply buffer at which the reply begins to the read request that is being executed.
    reply_start: usize,
    /// Numbers of keys that the completed read requests have found and not found.
    hits: KeyHits,
    /// Size in bytes of the values that commands with whole values, such as BITCOUNT, have read in this step. It
    /// counts towards [`ReadLimits::copy`].
    read_bytes: usize,
    is_too_large: bool,
}

/// Result of the execution of read requests by a [`StepReader`].
#[derive(Clone, Copy, Debug)]
pub struct ReadOutcome {
    /// Index of the first request that was not answered: a limit was reached, or it is no read, or there are no more
    /// requests.
    pub next: usize,
    /// Length in bytes of the reply buffer up to the end of the replies of the answered requests.
    pub reply_len: usize,
    /// Numbers of keys that the answered requests have found and not found.
    pub hits: KeyHits,
    /// `true` if a value exceeded [`ReadLimits::copy`].
    pub is_too_large: bool,
}

impl<'r> StepReader<'r> {
    /// Creates a reader that answers consecutive read requests, the first of which has the index `first` in `requests`.
    /// `lookups` has the command of each request, and `data` the bytes of their arguments.
    pub fn new(
        first: usize,
        lookups: &'r [Lookup],
        requests: &'r Requests,
        data: &'r [u8],
        reply: &'r mut Reply,
        limits: ReadLimits,
    ) -> Self {
        let reply_start = reply.len();
        let (clock, call, hits) = Default::default();
        Self {
            lookups,
            requests,
            data,
            reply,
            limits,
            clock,
            next: first,
            call,
            reply_start,
            hits,
            read_bytes: 0,
            is_too_large: false,
        }
    }

    /// Returns the read request to which the next value belongs, or `None` if the next request is no read or there is
    /// none.
    #[inline]
    fn current(&self) -> Option<(&'static Spec, Read, Args<'r>)> {
        let Lookup::Known(spec, _) = *self.lookups.get(self.next)? else { return None };
        let Handler::Read(read) = spec.handler else { return None };
        Some((spec, read, self.requests.get(self.next, self.data)?))
    }

    /// Answers the current request with the stored value of its next key (`None`: absent). Returns `Break` if no
    /// request is left, if the replies have reached [`ReadLimits::reply`], or if the reply buffer has overflowed: the
    /// request whose reply exceeded the limit is then complete. Returns `Break` too if the value would exceed
    /// [`ReadLimits::copy`]; the incomplete reply is then discarded.
    #[inline]
    pub fn visit(&mut self, stored: Option<&[u8]>) -> ControlFlow<()> {
        let (len, copied) =
            (stored.map_or(0, <[u8]>::len), self.read_bytes + self.reply.len() - self.reply_start);
        if len > self.limits.copy.saturating_sub(copied) {
            self.is_too_large = true;
            self.reply.truncate(self.reply_start);
            return ControlFlow::Break(());
        }
        let Some((spec, read, args)) = self.current() else { return ControlFlow::Break(()) };
        // GET is the most frequent read, so this path does no more than GET needs.
        if let Read::One(answer) = read {
            let value = self.clock.unexpired(stored);
            self.hits.count(value.is_some());
            answer(args, value, self.reply);
            self.end_request();
        } else {
            if spec.has(WHOLE_VALUE) {
                self.read_bytes += len;
            }
            let is_complete = self.call.answer(read, args, self.clock.entry(stored), self.reply);
            // Nothing more of a reply that exceeded its limit is needed: its request ends.
            if !is_complete && !self.reply.has_overflowed() {
                return ControlFlow::Continue(());
            }
            self.hits.add(mem::take(&mut self.call).hits);
            self.end_request();
        }
        match self.reply.has_overflowed() || self.reply.len() >= self.limits.reply {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }

    #[inline]
    fn end_request(&mut self) {
        self.next += 1;
        self.reply_start = self.reply.len();
    }

    /// Handles an error of the engine in reading the next key: writes the error as the reply to the current request,
    /// or counts the key if the request needs only the existence of keys. Returns the number of keys to skip: those
    /// that the request does not need any more. Returns `None` if no request is left.
    #[cold]
    pub fn fail(&mut self, error: &store::Error) -> Option<usize> {
        let (_, read, args) = self.current()?;
        if read.counts_unreadable(error) {
            if self.call.answer(read, args, UNREADABLE, self.reply) {
                self.hits.add(mem::take(&mut self.call).hits);
                self.end_request();
            }
            return Some(0);
        }
        let keys = mem::take(&mut self.call).keys + 1;
        self.reply.truncate(self.reply_start);
        self.reply.error(error.to_string());
        self.end_request();
        Some(read.keys(args) - keys)
    }

    /// Returns the result of the requests that were answered so far.
    pub fn finish(self) -> ReadOutcome {
        let Self { next, reply_start: reply_len, hits, is_too_large, .. } = self;
        ReadOutcome { next, reply_len, hits, is_too_large }
    }
}

//! Accounting for requests that were executed together (a step): counters, entries of SLOWLOG, lines for MONITOR.

use super::{
    request_batch::RequestBatch,
    step_planner::{Step, StepKind},
    worker_state::WorkerState,
};
use crate::{
    command::{
        Client, KeyHits, Lookup, Refusal, ReplyMode, Session, Spec, StatsIndex,
        flags::{ADMIN, FAST, NO_AUTH, SECRET_ARGS, SKIP_SLOWLOG},
        state::stats::CommandStats,
    },
    resp::{Args, reply_len},
};
use std::{
    mem, ptr,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

/// Time, positions and handling of requests when the execution of consecutive requests (a step) begins, to account
/// for them when it has ended.
#[derive(Clone, Copy)]
pub(super) struct StepStart {
    /// Index in the request batch of the first request of the step.
    first: usize,
    /// Length of the reply buffer in bytes at the start of the step.
    reply: usize,
    time: Instant,
    /// Part of the first request that earlier steps have executed; `None` if it was not begun.
    begun: Option<Begun>,
    kind: Admission,
}

/// Handling of requests in the current state of the connection: executed, queued or refused.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Admission {
    /// Requests are executed.
    Run,
    /// Requests are queued, to be executed by EXEC.
    Queue,
    /// Requests are refused until the client authenticates, except for a few commands.
    Locked,
}

/// Request of which earlier steps have executed a part.
#[derive(Clone, Copy)]
pub(super) struct Begun {
    /// Start of the step in which the request was begun.
    start: Instant,
    /// Part of the time of these steps that counts for the request.
    share: Duration,
}

impl StepStart {
    /// Returns the length of the reply buffer in bytes at the start of the step.
    pub fn reply_len(self) -> usize {
        self.reply
    }

    /// Returns the length of the reply buffer in bytes at the start of the step, whose replies the caller sends, so that
    /// the replies of the step are the first of the buffer.
    pub fn take_reply_len(&mut self) -> usize {
        mem::take(&mut self.reply)
    }

    /// Returns the start of `step`, which begins now. `is_admitted` is `true` if the client may use all commands, `begun`
    /// the result of [`account`](Self::account) for the step before.
    pub fn of(step: &Step, batch: &RequestBatch, is_admitted: bool, begun: Option<Begun>) -> Self {
        let kind = match (&step.kind, is_admitted) {
            (StepKind::Queue, _) => Admission::Queue,
            (_, false) => Admission::Locked,
            (_, true) => Admission::Run,
        };
        Self { first: batch.next, reply: batch.reply.len(), time: Instant::now(), begun, kind }
    }

    /// Updates counters, SLOWLOG, LATENCY and MONITOR for the requests that were answered since the start of the step.
    /// `is_midway` is `true` if a part of the request after them was executed too: it has its share of the time of the
    /// step, and what was done of it is returned for the next step. Also returns the time of the step.
    pub fn account(
        self,
        local: &WorkerState,
        session: &Session,
        batch: &mut RequestBatch,
        is_midway: bool,
    ) -> (Option<Begun>, Duration) {
        let now = Instant::now();
        let ran = batch.next.saturating_sub(self.first);
        let time = now.saturating_duration_since(self.time);
        let each = time / u32::try_from((ran + usize::from(is_midway)).max(1)).unwrap_or(u32::MAX);
        let begun = is_midway.then(|| match self.begun.filter(|_| ran == 0) {
            Some(begun) => Begun { share: begun.share + time, ..begun },
            None => Begun { start: self.time, share: each },
        });
        if ran == 0 {
            return (begun, time);
        }
        let end = self.first + ran;
        let mut at = self.first;
        let mut last = None;
        let mut first_share = each;
        if let Some(earlier) = self.begun {
            first_share += earlier.share;
            let (lookup, next) = span_of_same_command(batch, at, at + 1);
            last = self.count(local, lookup, 1, (first_share, now.saturating_duration_since(earlier.start)));
            at = next;
        }
        while at < end {
            let (lookup, next) = span_of_same_command(batch, at, end);
            last = self.count(local, lookup, (next - at) as u64, (each, time)).or(last);
            at = next;
        }
        count_key_hits(local, mem::take(&mut batch.hits));
        session.client().note(last, usize::from(session.space.number()), now);
        if batch.reply.has_errors() {
            self.count_errors(local, batch);
        }
        let context = &local.shared.context;
        let is_noted =
            context.slow.wants(first_share) || context.spikes.wants(first_share) || context.monitors.any();
        if self.kind != Admission::Queue && is_noted {
            for index in self.first..end {
                if let (Some(Lookup::Known(spec, _)), Some(args)) =
                    (batch.lookups.get(index), batch.args(index))
                    && self.runs(spec)
                {
                    let share = if index == self.first { first_share } else { each };
                    log_request(local, session.client(), (spec, args), share);
                }
            }
        }
        (begun, time)
    }

    /// Returns `true` if requests for the command are executed in the current state of the session, neither queued
    /// nor refused.
    fn runs(self, spec: &Spec) -> bool {
        self.kind == Admission::Run || self.kind == Admission::Locked && spec.has(NO_AUTH)
    }

    /// Counts `count` adjacent requests of one command as executed or as rejected; requests that were queued for EXEC,
    /// and those with an unknown command or subcommand, are not counted. Each request has the time `share` of its step,
    /// and was answered `latency` after its execution began. Returns the index of the command's counters if the
    /// requests were executed or queued.
    fn count(
        self,
        local: &WorkerState,
        lookup: Lookup,
        count: u64,
        (share, latency): (Duration, Duration),
    ) -> Option<usize> {
        match lookup {
            Lookup::Known(spec, index) if self.runs(spec) => {
                local.stats().command(index.get())?.note(count, share, latency);
                return Some(index.get());
            }
            // CLIENT LIST shows a queued command as the last one.
            Lookup::Known(_, index) if self.kind == Admission::Queue => return Some(index.get()),
            Lookup::Refused(_, _, Refusal::Subcommand) | Lookup::Unknown => {}
            Lookup::Known(_, index) | Lookup::Refused(_, index, _) => {
                add(local, index, |stats| &stats.rejected, count);
            }
        }
        None
    }

    /// Counts the error replies of the step, by their code and by their command. The replies are parsed only if
    /// there are errors, which is rare.
    #[cold]
    fn count_errors(self, local: &WorkerState, batch: &mut RequestBatch) {
        let context = &local.shared.context;
        for place in batch.reply.take_errors() {
            let line = batch.reply.bytes().get(place..).unwrap_or_default();
            context.errors.note(line.split(|byte| *byte == b'\r').next().unwrap_or_default());
        }
        let mut rest = batch.reply.bytes().get(self.reply..).unwrap_or_default();
        for index in self.first..batch.next {
            if let (Some(b'-'), Some(Lookup::Known(spec, place))) = (rest.first(), batch.lookups.get(index)) {
                if self.runs(spec) {
                    add(local, *place, |stats| &stats.failed, 1);
                } else if self.kind == Admission::Queue {
                    add(local, *place, |stats| &stats.rejected, 1);
                }
            }
            rest = reply_len(rest).and_then(|len| rest.get(len..)).unwrap_or_default();
        }
    }
}

/// Adds the hits and misses of a read to the worker's counters.
pub(super) fn count_key_hits(local: &WorkerState, found: KeyHits) {
    if found != KeyHits::default() {
        let stats = local.stats();
        stats.keyspace_hits.fetch_add(found.hits, Ordering::Relaxed);
        stats.keyspace_misses.fetch_add(found.misses, Ordering::Relaxed);
    }
}

/// Updates counters, SLOWLOG, LATENCY and MONITOR for one request that EXEC has executed in `time`.
pub(super) fn count_exec_request(
    local: &WorkerState,
    session: &Session,
    ((spec, index), args): ((&'static Spec, StatsIndex), Args<'_>),
    failed: bool,
    time: Duration,
) {
    if let Some(stats) = local.stats().command(index.get()) {
        stats.note(1, time, time);
        stats.failed.fetch_add(failed.into(), Ordering::Relaxed);
    }
    let client = session.client();
    client.database.store(session.space.number().into(), Ordering::Relaxed);
    log_request(local, client, (spec, args), time);
}

/// Reports an executed request to LATENCY and SLOWLOG if it was slow, and to MONITOR unless it is an
/// administrative command. SLOWLOG shows the requests that EXEC executed instead of EXEC, as in Redis.
fn log_request(
    local: &WorkerState,
    client: &Client,
    (spec, args): (&'static Spec, Args<'_>),
    time: Duration,
) {
    let context = &local.shared.context;
    if context.spikes.wants(time) {
        // Redis, too, reports fast commands as an event of their own.
        context.spikes.note(if spec.has(FAST) { "fast-command" } else { "command" }, time);
    }
    if context.slow.wants(time) && !spec.has(SKIP_SLOWLOG) {
        context.slow.add(without_secrets(spec, args), time, &client.peer, &client.labels().name);
    }
    if context.monitors.any() && !spec.has(ADMIN) {
        context.monitors.show(client, without_secrets(spec, args));
    }
}

/// Returns the arguments of a request, with passwords replaced as in Redis. The arguments are produced one by
/// one, because there may be millions.
fn without_secrets<'a>(spec: &Spec, args: Args<'a>) -> impl ExactSizeIterator<Item = &'a [u8]> {
    let (has_secrets, mut secret, mut is_name) = (spec.has(SECRET_ARGS), 0, false);
    args.from(0).map(move |arg| {
        if secret > 0 {
            secret -= 1;
            return &b"(redacted)"[..];
        }
        // A client may be named like an option of HELLO.
        if mem::take(&mut is_name) {
            return arg;
        }
        is_name = spec.name == "hello" && arg.eq_ignore_ascii_case(b"setname");
        // A name and a password follow AUTH, and a password the setting.
        secret = match arg {
            _ if !has_secrets => 0,
            arg if arg.eq_ignore_ascii_case(b"auth") => 2,
            arg => arg.eq_ignore_ascii_case(b"requirepass").into(),
        };
        arg
    })
}

/// Returns the looked-up command of request `at`, and the index of the first later request, up to `end`, with
/// another command.
fn span_of_same_command(batch: &RequestBatch, at: usize, end: usize) -> (Lookup, usize) {
    let rest = batch.lookups.get(at..end).unwrap_or_default();
    let Some((first, others)) = rest.split_first() else { return (Lookup::Unknown, end) };
    if batch.is_single_command {
        return (*first, end);
    }
    let is_other = |other: &Lookup| match (first, other) {
        (Lookup::Known(one, _), Lookup::Known(other, _)) => !ptr::eq(*one, *other),
        _ => true,
    };
    let next = others.iter().position(is_other).map_or(end, |index| at + 1 + index);
    (*first, next)
}

fn add(local: &WorkerState, index: StatsIndex, counter: impl Fn(&CommandStats) -> &AtomicU64, count: u64) {
    if let Some(stats) = local.stats().command(index.get()) {
        counter(stats).fetch_add(count, Ordering::Relaxed);
    }
}

/// Removes the replies of the requests since `begin` if CLIENT REPLY suppresses them, and ends the effect of CLIENT
/// REPLY SKIP after the skipped request. `is_midway` is `true` if the last of these requests is incomplete and will go
/// on.
pub(super) fn apply_reply_mode(
    session: &mut Session,
    batch: &mut RequestBatch,
    begin: StepStart,
    is_midway: bool,
) {
    match session.replies {
        ReplyMode::On => return,
        ReplyMode::Off => {}
        // The next request is the one to skip.
        ReplyMode::SkipNext => session.replies = ReplyMode::Skip,
        ReplyMode::Skip if is_midway => {}
        ReplyMode::Skip => session.replies = ReplyMode::On,
    }
    batch.reply.truncate(begin.reply);
    // CLIENT REPLY in a transaction: the replies before EXEC, which the client does get, were discarded too.
    if begin.reply == 0 {
        batch.reply.clear_overflow();
    }
}

//! Answering a run of reads, value by value.

use super::through::answer_entry;
use crate::{
    command::{Action, Lookup, Read, Spec},
    resp::{Args, Reply, Requests},
    store::Moment,
};

/// The shape and the arguments of request `index`, when it reads.
#[inline]
pub(super) fn reading<'a>(
    lookups: &[Lookup],
    requests: &'a Requests,
    data: &'a [u8],
    index: usize,
) -> Option<(Read, Args<'a>)> {
    let Lookup::Known(Spec { action: Action::Read(read), .. }) = lookups.get(index)? else { return None };
    Some((*read, requests.get(index, data)?))
}

/// Position in a read run: values come one by one, commands take one or several.
pub(super) struct ReadCursor {
    /// The request that takes the next value.
    pub at: usize,
    /// How many values it has taken.
    pub key: usize,
    /// Values counted by `Read::Count`.
    count: i64,
    /// Where its reply begins.
    pub reply_start: usize,
}

impl ReadCursor {
    /// Before request `at`, whose reply begins there.
    pub fn new(at: usize, reply_start: usize) -> Self {
        Self { at, key: 0, count: 0, reply_start }
    }

    #[inline]
    pub fn answer(
        &mut self,
        read: Read,
        args: Args<'_>,
        stored: Option<&[u8]>,
        moment: &Moment,
        reply: &mut Reply,
    ) {
        // First of all GET, and for that no more than it needs.
        if let Read::One(answer) = read {
            answer(args, moment.live(stored), reply);
            return self.finish(reply);
        }
        let (keys, value) = (args.len() - 1, moment.live(stored));
        match read {
            Read::Entry(answer) => {
                answer_entry(answer, args, moment.entry(stored), reply);
                return self.finish(reply);
            }
            Read::Each(answer) => {
                if self.key == 0 {
                    reply.array(keys);
                }
                answer(value, reply);
            }
            Read::Count(holds) => self.count += i64::from(holds(value)),
            Read::One(_) => {}
        }
        self.key += 1;
        if self.key == keys {
            if let Read::Count(_) = read {
                reply.integer(self.count);
            }
            self.finish(reply);
        }
    }

    #[inline]
    fn finish(&mut self, reply: &Reply) {
        *self = Self { at: self.at + 1, key: 0, count: 0, reply_start: reply.len() };
    }
}

//! Answering a step of reads, value by value.

use crate::{
    command::{self, Error, Handler, Lookup, Read, Spec},
    resp::{Args, Reply, Requests},
    store::{self, Entry, ExpirationClock},
};

/// Returns the kind of read and the arguments of request `index`, or `None` if it is not a read.
#[inline]
pub(super) fn reading<'a>(
    lookups: &[Lookup],
    requests: &'a Requests,
    data: &'a [u8],
    index: usize,
) -> Option<(Read, Args<'a>)> {
    let Lookup::Known(Spec { action: Handler::Read(read), .. }) = lookups.get(index)? else { return None };
    Some((*read, requests.get(index, data)?))
}

/// Answers a read whose function may reject its arguments.
pub(super) fn answer_entry(
    answer: fn(Args<'_>, Option<Entry<'_>>, &mut Reply) -> Result<(), Error>,
    args: Args<'_>,
    entry: Option<Entry<'_>>,
    reply: &mut Reply,
) {
    command::answer(reply, |reply| answer(args, entry, reply));
}

/// Numbers of keys that reads looked up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct KeyHits {
    /// Number of keys that were found.
    pub hits: u64,
    /// Number of keys that were not found.
    pub misses: u64,
}

impl KeyHits {
    /// Counts one key as a hit or a miss.
    #[inline]
    pub fn note(&mut self, is_there: bool) {
        let counter = if is_there { &mut self.hits } else { &mut self.misses };
        *counter += 1;
    }

    pub fn add(&mut self, other: Self) {
        self.hits += other.hits;
        self.misses += other.misses;
    }
}

/// Position in a step of reads. Values arrive one by one, and each request takes one or several.
pub(super) struct ReadCursor {
    /// Index of the request that takes the next value.
    pub at: usize,
    /// Number of values that the current request has taken.
    pub key: usize,
    /// Number of values that `Read::Count` has counted for the current request.
    count: i64,
    /// Position in the reply buffer at which the reply of the current request begins.
    pub reply_start: usize,
    /// Hits and misses of the current request.
    now: KeyHits,
    /// Hits and misses of the completed requests.
    pub found: KeyHits,
}

impl ReadCursor {
    /// Creates a cursor before request `at`, whose reply begins at `reply_start`.
    pub fn new(at: usize, reply_start: usize) -> Self {
        let (now, found) = Default::default();
        Self { at, key: 0, count: 0, reply_start, now, found }
    }

    #[inline]
    pub fn answer(
        &mut self,
        read: Read,
        args: Args<'_>,
        stored: Option<&[u8]>,
        moment: &ExpirationClock,
        reply: &mut Reply,
    ) {
        // GET is the most frequent read, so this path does no more than GET needs.
        if let Read::One(answer) = read {
            let value = moment.unexpired(stored);
            self.found.note(value.is_some());
            answer(args, value, reply);
            self.at += 1;
            self.reply_start = reply.len();
            return;
        }
        let (keys, value) = (args.len() - 1, moment.unexpired(stored));
        self.now.note(value.is_some());
        match read {
            Read::Entry(answer) | Read::Whole(answer) => {
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

    /// Handles a value that cannot be read. `Read::Count` counts the key if it exists; every other request gets
    /// the error as its reply. Returns the number of values to skip: those of the request that are not needed
    /// any more.
    #[cold]
    pub fn fail(&mut self, read: Read, args: Args<'_>, error: &store::Error, reply: &mut Reply) -> usize {
        let keys = if let Read::Each(_) | Read::Count(_) = read { args.len() - 1 } else { 1 };
        self.key += 1;
        let left = keys - self.key;
        if let Read::Count(_) = read
            && error.is_unreadable_value()
        {
            self.now.note(true);
            self.count += 1;
            if left == 0 {
                reply.integer(self.count);
                self.finish(reply);
            }
            return 0;
        }
        reply.truncate(self.reply_start);
        reply.error(error.to_string());
        self.now = KeyHits::default();
        self.finish(reply);
        left
    }

    #[inline]
    fn finish(&mut self, reply: &Reply) {
        self.found.add(self.now);
        let (now, found) = (KeyHits::default(), self.found);
        *self = Self { at: self.at + 1, key: 0, count: 0, reply_start: reply.len(), now, found };
    }
}

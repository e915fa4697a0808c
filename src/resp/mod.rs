//! The Redis serialization protocol, RESP: requests in, replies out.
//!
//! Specification: <https://redis.io/docs/latest/develop/reference/protocol-spec/>. Where it is
//! silent, redis-server 7.0 is the reference: the wording of its protocol errors, inline commands
//! and their quotes, and which lengths it takes.

#[cfg(feature = "client")]
mod client;
mod decoder;
mod foreign;
mod inline;
mod input;
mod integer;
mod reply;

#[cfg(feature = "client")]
pub use client::{Client, encode_request};
pub use decoder::{Decoder, Limits, ProtocolError};
pub use foreign::Foreign;
pub use input::Input;
pub use integer::parse_integer;
pub use reply::{Protocol, Reply, reply_len};

/// Where one argument lies in the input buffer.
#[derive(Clone, Copy, Debug, Default)]
struct ArgRange {
    start: u32,
    len: u32,
}

/// Complete requests of one input buffer, as positions in it: no allocation per request.
#[derive(Default)]
pub struct Requests {
    spans: Vec<ArgRange>,
    /// For each request, the end of its arguments in `spans`.
    ends: Vec<u32>,
}

impl Requests {
    /// Number of complete requests.
    #[inline]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether no request is complete.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The arguments of request `index`, whose bytes are in `data`.
    #[inline]
    pub fn get<'a>(&'a self, index: usize, data: &'a [u8]) -> Option<Args<'a>> {
        let end = *self.ends.get(index)? as usize;
        Some(Args { data, spans: self.spans.get(self.start(index)..end)? })
    }

    /// The arguments of request `first` and of each after it, whose bytes are in `data`.
    #[inline]
    pub fn from<'a>(&'a self, first: usize, data: &'a [u8]) -> impl Iterator<Item = Args<'a>> {
        let mut start = self.start(first);
        self.ends.get(first..).unwrap_or_default().iter().map_while(move |end| {
            let spans = self.spans.get(start..*end as usize)?;
            start = *end as usize;
            Some(Args { data, spans })
        })
    }

    /// Where the arguments of request `index` begin.
    #[inline]
    fn start(&self, index: usize) -> usize {
        index.checked_sub(1).and_then(|before| self.ends.get(before)).map_or(0, |end| *end as usize)
    }

    /// About how many bytes request `index` has.
    pub fn size(&self, index: usize) -> usize {
        let end = |index: usize| {
            let last = (*self.ends.get(index)? as usize).checked_sub(1)?;
            self.spans.get(last).map(|span| span.start as usize + span.len as usize)
        };
        let before = index.checked_sub(1).and_then(end).unwrap_or(0);
        end(index).map_or(0, |end| end.saturating_sub(before))
    }

    /// Forgets the complete requests and keeps the arguments of one that is not complete yet.
    fn retire(&mut self) {
        let done = self.ends.last().copied().unwrap_or(0) as usize;
        self.spans.drain(..done);
        self.ends.clear();
    }

    /// Memory held, in bytes.
    pub fn capacity(&self) -> usize {
        self.spans.capacity() * size_of::<ArgRange>() + self.ends.capacity() * size_of::<u32>()
    }
}

/// The beginning of a request whose rest has not arrived, apart from the buffer it was read into.
pub struct Partial {
    bytes: Box<[u8]>,
    spans: Box<[ArgRange]>,
}

impl Partial {
    /// Empties buffers that hold no complete request.
    pub fn take(input: &mut Input, requests: &mut Requests) -> Self {
        let partial = Self { bytes: input.bytes().into(), spans: requests.spans.as_slice().into() };
        input.consume(input.len());
        requests.spans.clear();
        partial
    }

    /// Puts the bytes back into empty buffers.
    pub fn restore(self, input: &mut Input, requests: &mut Requests) {
        input.extend(&self.bytes);
        requests.spans.extend_from_slice(&self.spans);
    }
}

/// The arguments of one request, the command's name first.
#[derive(Clone, Copy)]
pub struct Args<'a> {
    data: &'a [u8],
    spans: &'a [ArgRange],
}

impl<'a> Args<'a> {
    /// Number of arguments, the command's name included.
    #[inline]
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Whether there is no argument; the decoder makes no such request.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Argument `index`; empty when there is none. The command table has checked the arity by the
    /// time a command looks at its arguments.
    #[inline]
    pub fn get(&self, index: usize) -> &'a [u8] {
        self.spans.get(index).map_or(&[], |span| self.slice(*span))
    }

    /// The arguments from `first` on.
    #[inline]
    pub fn from(self, first: usize) -> impl ExactSizeIterator<Item = &'a [u8]> {
        self.spans.get(first..).unwrap_or_default().iter().map(move |span| self.slice(*span))
    }

    #[inline]
    fn slice(&self, span: ArgRange) -> &'a [u8] {
        let start = span.start as usize;
        self.data.get(start..start + span.len as usize).unwrap_or_default()
    }
}

/// Requests that are kept, apart from the buffer they were read into.
#[derive(Default)]
pub struct OwnedRequests {
    bytes: Vec<u8>,
    requests: Requests,
}

impl OwnedRequests {
    /// Adds a request, unless they then have more than `limit` bytes (0 is no limit but that of positions).
    pub fn push(&mut self, args: Args<'_>, limit: usize) -> bool {
        let most = if limit == 0 { u32::MAX as usize } else { limit.min(u32::MAX as usize) };
        let more: usize = args.from(0).map(<[u8]>::len).sum();
        let spans = (self.requests.spans.len() + args.len()) * size_of::<ArgRange>();
        if self.bytes.len() + more + spans > most {
            return false;
        }
        for arg in args.from(0) {
            self.requests.spans.push(ArgRange { start: self.bytes.len() as u32, len: arg.len() as u32 });
            self.bytes.extend_from_slice(arg);
        }
        self.requests.ends.push(self.requests.spans.len() as u32);
        true
    }

    /// The arguments of request `index`.
    pub fn get(&self, index: usize) -> Option<Args<'_>> {
        self.requests.get(index, &self.bytes)
    }

    /// Bytes of all requests.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }
}

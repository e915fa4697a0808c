//! The Redis serialization protocol, RESP: requests in, replies out.
//!
//! Specification: <https://redis.io/docs/latest/develop/reference/protocol-spec/>. Where it is
//! silent, redis-server 7.0 is the reference: the wording of its protocol errors, inline commands
//! and their quotes, and which lengths it takes.

#[cfg(feature = "client")]
mod client;
mod decoder;
mod foreign_protocol;
mod inline;
mod input;
mod integer;
mod reply;

#[cfg(feature = "client")]
pub use client::{Client, encode_request};
pub use decoder::{Decoder, Limits, ProtocolError};
pub use foreign_protocol::Foreign;
pub use input::Input;
pub use integer::parse_integer;
pub use reply::{Protocol, Reply, reply_len};

/// Position of one argument of a request in the read buffer: start and length in bytes.
#[derive(Clone, Copy, Debug, Default)]
struct ArgRange {
    start: u32,
    len: u32,
}

/// Complete requests of one input buffer, stored as positions in that buffer, without an allocation per
/// request.
#[derive(Default)]
pub struct Requests {
    spans: Vec<ArgRange>,
    /// Number of arguments up to the end of each complete request: the index in `spans` behind its last argument.
    ends: Vec<u32>,
}

impl Requests {
    /// Returns the number of complete requests in the list.
    #[inline]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns `true` if the list contains no complete request.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns the arguments of request `index`, whose bytes are in `data`; `None` if there is no such request.
    #[inline]
    pub fn get<'a>(&'a self, index: usize, data: &'a [u8]) -> Option<Args<'a>> {
        let end = *self.ends.get(index)? as usize;
        Some(Args { data, spans: self.spans.get(self.start(index)..end)? })
    }

    /// Returns the arguments of request `first` and of each later request, whose bytes are in `data`.
    #[inline]
    pub fn from<'a>(&'a self, first: usize, data: &'a [u8]) -> impl Iterator<Item = Args<'a>> {
        let mut start = self.start(first);
        self.ends.get(first..).unwrap_or_default().iter().map_while(move |end| {
            let spans = self.spans.get(start..*end as usize)?;
            start = *end as usize;
            Some(Args { data, spans })
        })
    }

    /// Returns the index in `spans` of the first argument of the request `index`.
    #[inline]
    fn start(&self, index: usize) -> usize {
        index.checked_sub(1).and_then(|before| self.ends.get(before)).map_or(0, |end| *end as usize)
    }

    /// Returns the approximate size of request `index`, in bytes.
    pub fn size(&self, index: usize) -> usize {
        let end = |index: usize| {
            let last = (*self.ends.get(index)? as usize).checked_sub(1)?;
            self.spans.get(last).map(|span| span.start as usize + span.len as usize)
        };
        let before = index.checked_sub(1).and_then(end).unwrap_or(0);
        end(index).map_or(0, |end| end.saturating_sub(before))
    }

    /// Removes the complete requests and keeps the arguments of an incomplete one.
    fn retire(&mut self) {
        let done = self.ends.last().copied().unwrap_or(0) as usize;
        self.spans.drain(..done);
        self.ends.clear();
    }

    /// Returns the allocated memory of the positions, in bytes.
    pub fn capacity(&self) -> usize {
        self.spans.capacity() * size_of::<ArgRange>() + self.ends.capacity() * size_of::<u32>()
    }
}

/// Received part of an incomplete request, copied out of the read buffer of an idle connection.
pub struct Partial {
    bytes: Box<[u8]>,
    spans: Box<[ArgRange]>,
}

impl Partial {
    /// Moves an incomplete request out of buffers that hold no complete request, and empties the buffers.
    pub fn take(input: &mut Input, requests: &mut Requests) -> Self {
        let partial = Self { bytes: input.bytes().into(), spans: requests.spans.as_slice().into() };
        input.consume(input.len());
        requests.spans.clear();
        partial
    }

    /// Moves the incomplete request back into empty buffers.
    pub fn restore(self, input: &mut Input, requests: &mut Requests) {
        input.extend(&self.bytes);
        requests.spans.extend_from_slice(&self.spans);
    }
}

/// Arguments of one request, starting with the command name.
#[derive(Clone, Copy)]
pub struct Args<'a> {
    data: &'a [u8],
    spans: &'a [ArgRange],
}

impl<'a> Args<'a> {
    /// Returns the number of arguments, including the command name.
    #[inline]
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Returns `true` if there are no arguments; the decoder never produces such a request.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Returns the arguments from index `first` to the last as if they were a request.
    pub fn skip(&self, first: usize) -> Self {
        Self { data: self.data, spans: self.spans.get(first..).unwrap_or_default() }
    }

    /// Returns argument `index`, or an empty slice if there is none. The arity has been checked before a
    /// command reads its arguments.
    #[inline]
    pub fn get(&self, index: usize) -> &'a [u8] {
        self.spans.get(index).map_or(&[], |span| self.slice(*span))
    }

    /// Returns the arguments from index `first` to the last.
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

/// Memory in bytes that a queued request takes besides its arguments: the position of its end, and its command.
const REQUEST_BYTES: usize = 20;

/// Requests copied out of the read buffer, as MULTI queues them.
#[derive(Default)]
pub struct OwnedRequests {
    bytes: Vec<u8>,
    requests: Requests,
}

impl OwnedRequests {
    /// Appends a copy of the request and returns `true`. Returns `false` without a change if the requests would
    /// then exceed `limit` bytes (0: no limit but the 4 GiB of positions), including 8 bytes for each argument and
    /// [`REQUEST_BYTES`] for each request.
    pub fn push(&mut self, args: Args<'_>, limit: usize) -> bool {
        let most = if limit == 0 { u32::MAX as usize } else { limit.min(u32::MAX as usize) };
        let more: usize = args.from(0).map(<[u8]>::len).sum();
        let spans = (self.requests.spans.len() + args.len()) * size_of::<ArgRange>();
        let requests = (self.requests.ends.len() + 1) * REQUEST_BYTES;
        if self.bytes.len() + more + spans + requests > most {
            return false;
        }
        for arg in args.from(0) {
            self.requests.spans.push(ArgRange { start: self.bytes.len() as u32, len: arg.len() as u32 });
            self.bytes.extend_from_slice(arg);
        }
        self.requests.ends.push(self.requests.spans.len() as u32);
        true
    }

    /// Returns the arguments of request `index`, or `None` if there is no such request.
    pub fn get(&self, index: usize) -> Option<Args<'_>> {
        self.requests.get(index, &self.bytes)
    }

    /// Returns the total size of the arguments of all requests, in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }
}

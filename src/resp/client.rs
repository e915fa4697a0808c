//! Blocking RESP2 client for tools that inspect servers, and for requests that the benchmark does not measure. Measured
//! requests have a client of their own.

use redis_protocol::resp2::{decode::decode, types::OwnedFrame};
use std::{
    io::{self, Read, Write},
    net::{TcpStream, ToSocketAddrs},
    time::Duration,
};

/// Number of bytes per read from the socket.
const PIECE: usize = 64 << 10;

/// A connection to a server that speaks RESP2.
pub struct Client {
    stream: TcpStream,
    buffer: Vec<u8>,
    /// Number of bytes at the start of `buffer` that belong to replies which were already returned.
    done: usize,
}

impl Client {
    /// Connects to `server`. `patience` is the timeout of each read and each write; `None`: no timeout.
    pub fn connect(server: impl ToSocketAddrs, patience: Option<Duration>) -> io::Result<Self> {
        let stream = TcpStream::connect(server)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(patience)?;
        stream.set_write_timeout(patience)?;
        Ok(Self { stream, buffer: Vec::new(), done: 0 })
    }

    /// Sends a request, and waits for its reply and returns it.
    pub fn call<A: AsRef<[u8]>>(&mut self, args: &[A]) -> io::Result<OwnedFrame> {
        let mut bytes = Vec::new();
        encode_request(args, &mut bytes);
        self.send(&bytes)?;
        self.reply()
    }

    /// Sends encoded requests without waiting for replies.
    pub fn send(&mut self, requests: &[u8]) -> io::Result<()> {
        self.stream.write_all(requests)
    }

    /// Waits for the next reply. Bytes that are not RESP are an error of the kind `InvalidData`.
    pub fn reply(&mut self) -> io::Result<OwnedFrame> {
        let foreign = |error| io::Error::new(io::ErrorKind::InvalidData, error);
        loop {
            let rest = self.buffer.get(self.done..).unwrap_or_default();
            if let Some((frame, len)) = decode(rest).map_err(foreign)? {
                self.done += len;
                return Ok(frame);
            }
            self.buffer.drain(..self.done);
            self.done = 0;
            let mut piece = [0; PIECE];
            match self.stream.read(&mut piece) {
                // The process was stopped (SIGSTOP) and continued.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(len) => self.buffer.extend_from_slice(piece.get(..len).unwrap_or_default()),
            }
        }
    }
}

/// Appends a request, encoded as an array of bulk strings, to `bytes`.
pub fn encode_request<A: AsRef<[u8]>>(args: &[A], bytes: &mut Vec<u8>) {
    bytes.extend_from_slice(format!("*{}\r\n", args.len()).as_bytes());
    for arg in args.iter().map(AsRef::as_ref) {
        bytes.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
        bytes.extend_from_slice(arg);
        bytes.extend_from_slice(b"\r\n");
    }
}

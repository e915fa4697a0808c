//! Single requests, outside of the measured time.

use crate::resp::Client;
use bytes::BytesMut;
use redis_protocol::resp2::{
    encode::extend_encode_borrowed,
    types::{BorrowedFrame, OwnedFrame},
};
use std::{io, net::SocketAddr, time::Duration};

/// How long a server may be silent in a call that is not measured.
pub(super) const PATIENCE: Duration = Duration::from_secs(120);

/// Appends a request.
pub(super) fn encode(output: &mut BytesMut, parts: &[&[u8]]) {
    let mut frames = [const { BorrowedFrame::Null }; 3];
    for (frame, part) in frames.iter_mut().zip(parts) {
        *frame = BorrowedFrame::BulkString(part);
    }
    let request = BorrowedFrame::Array(frames.get(..parts.len()).unwrap_or_default());
    // It makes the room that it needs.
    let _ = extend_encode_borrowed(output, &request, false);
}

/// One request and its reply, outside of the measured time.
fn call(address: SocketAddr, parts: &[&str]) -> io::Result<OwnedFrame> {
    ask(address, parts, Some(PATIENCE))
}

fn ask(address: SocketAddr, parts: &[&str], patience: Option<Duration>) -> io::Result<OwnedFrame> {
    match Client::connect(address, patience)?.call(parts)? {
        OwnedFrame::Error(text) => Err(io::Error::other(text)),
        frame => Ok(frame),
    }
}

/// How many keys the server holds.
pub(super) fn count_keys(address: SocketAddr) -> io::Result<u64> {
    match call(address, &["DBSIZE"])? {
        OwnedFrame::Integer(keys) => u64::try_from(keys).map_err(io::Error::other),
        other => Err(io::Error::other(format!("DBSIZE was answered with {other:?}"))),
    }
}

/// Removes every key.
pub(super) fn flush(address: SocketAddr) -> io::Result<()> {
    call(address, &["FLUSHDB"]).map(drop)
}

/// Makes one of our own servers do what it has put off.
pub(super) fn settle_store(address: SocketAddr) -> io::Result<()> {
    // Compactions may take an hour.
    ask(address, &["DEBUG", "SETTLE"], None).map(drop)
}

/// Makes one of our own servers sync what it has accepted, however long that takes.
pub(super) fn sync(address: SocketAddr) -> io::Result<()> {
    ask(address, &["WAITAOF", "1", "0", "0"], None).map(drop)
}

/// Asks the server to end; it may do so without a reply.
pub(super) fn shut_down(address: SocketAddr) {
    let _ = call(address, &["SHUTDOWN"]);
}

/// Whether a server answers, and is the process that is meant, not another one which took its port meanwhile.
pub(super) fn is_ready(address: SocketAddr, pid: u32) -> bool {
    // While Redis reads its files, it answers DBSIZE with an error.
    let info = || match call(address, &["INFO", "server"]) {
        Ok(OwnedFrame::BulkString(text)) => String::from_utf8(text).ok(),
        _ => None,
    };
    let its =
        |text: String| text.lines().find_map(|line| line.strip_prefix("process_id:")?.trim().parse().ok());
    count_keys(address).is_ok() && info().and_then(its) == Some(pid)
}

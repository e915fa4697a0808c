//! Single requests to a server, such as DBSIZE, that are not part of a measurement.

use crate::resp::Client;
use bytes::BytesMut;
use redis_protocol::resp2::{
    encode::extend_encode_borrowed,
    types::{BorrowedFrame, OwnedFrame},
};
use std::{io, net::SocketAddr, str::FromStr, time::Duration};

/// Maximum time to wait for the reply to a request that is not measured, and that takes no longer with more keys.
const CALL_TIMEOUT: Duration = Duration::from_secs(120);

/// Time after which a server that sends nothing, although a client of the benchmark waits for replies, counts as failed.
/// Longer than any commit, stall, count or removal of keys of a server that works.
pub(super) const REPLY_TIMEOUT: Duration = Duration::from_secs(600);

/// Appends a request of at most five arguments, encoded in RESP, to `output`.
pub(super) fn encode(output: &mut BytesMut, parts: &[&[u8]]) {
    let mut frames = [const { BorrowedFrame::Null }; 5];
    for (frame, part) in frames.iter_mut().zip(parts) {
        *frame = BorrowedFrame::BulkString(part);
    }
    let request = BorrowedFrame::Array(frames.get(..parts.len()).unwrap_or_default());
    // The encoder reserves the space that it needs.
    let _ = extend_encode_borrowed(output, &request, false);
}

/// Sends one request over a new connection, unmeasured, and returns the reply; an error reply is returned as an error.
fn call(address: SocketAddr, parts: &[&str]) -> io::Result<OwnedFrame> {
    ask(address, parts, Some(CALL_TIMEOUT))
}

fn ask(address: SocketAddr, parts: &[&str], patience: Option<Duration>) -> io::Result<OwnedFrame> {
    match Client::connect(address, patience)?.call(parts)? {
        OwnedFrame::Error(text) => Err(io::Error::other(text)),
        frame => Ok(frame),
    }
}

/// Returns the number of keys on the server (DBSIZE). `patience` is the maximum time to wait for the reply; `None`: no
/// limit.
pub(super) fn count_keys(address: SocketAddr, patience: Option<Duration>) -> io::Result<u64> {
    match ask(address, &["DBSIZE"], patience)? {
        OwnedFrame::Integer(keys) => u64::try_from(keys).map_err(io::Error::other),
        other => Err(io::Error::other(format!("DBSIZE was answered with {other:?}"))),
    }
}

/// Removes all keys from the server (FLUSHDB).
pub(super) fn flush(address: SocketAddr) -> io::Result<()> {
    ask(address, &["FLUSHDB"], Some(REPLY_TIMEOUT)).map(drop)
}

/// Makes a kvbench server do its deferred work (`DEBUG SETTLE`), and waits for it without a time limit.
pub(super) fn settle_store(address: SocketAddr) -> io::Result<()> {
    // Without a timeout, since compactions may take an hour.
    ask(address, &["DEBUG", "SETTLE"], None).map(drop)
}

/// Makes a kvbench server sync all accepted writes, however long that takes.
pub(super) fn sync(address: SocketAddr) -> io::Result<()> {
    ask(address, &["WAITAOF", "1", "0", "0"], None).map(drop)
}

/// Returns the number of syncs that a kvbench server has made by its timer (fsync policy `everysec`), from INFO.
pub(super) fn timer_syncs(address: SocketAddr) -> io::Result<u64> {
    let field = info_field(call(address, &["INFO", "persistence"])?, "timer_syncs:");
    field.ok_or_else(|| io::Error::other("INFO has no timer_syncs"))
}

/// Returns the number of expired keys that a server has removed, or `None` if it does not report the number.
pub(super) fn expired_keys(address: SocketAddr) -> Option<u64> {
    info_field(call(address, &["INFO", "stats"]).ok()?, "expired_keys:")
}

/// Returns the number in the line of an INFO reply that starts with `name`, or `None` if there is none.
fn info_field<N: FromStr>(reply: OwnedFrame, name: &str) -> Option<N> {
    let OwnedFrame::BulkString(text) = reply else { return None };
    String::from_utf8(text).ok()?.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
}

/// Asks the server to shut down; it may do so without a reply.
pub(super) fn shut_down(address: SocketAddr) {
    let _ = call(address, &["SHUTDOWN"]);
}

/// Returns `true` if the server replies to requests, and `false` if it does not yet. Fails if the server is not the process
/// `pid`, but another one that took over its port.
pub(super) fn is_ready(address: SocketAddr, pid: u32) -> Result<bool, String> {
    // While Redis loads its files, it replies to DBSIZE with an error.
    if count_keys(address, Some(CALL_TIMEOUT)).is_err() {
        return Ok(false);
    }
    let reply = call(address, &["INFO", "server"]).ok();
    match reply.and_then(|reply| info_field::<u32>(reply, "process_id:")) {
        Some(other) if other != pid => {
            Err(format!("{address} is served by process {other}, not by the process {pid} that was started"))
        }
        found => Ok(found.is_some()),
    }
}

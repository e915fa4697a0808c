//! Errors at the start and at the end of a server.

use crate::store;
use std::{io, path::PathBuf};

/// Error that prevented a server from starting or from stopping cleanly.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum Error {
    #[error("cannot listen on {address}: {source}{hint}")]
    Listen { address: String, source: io::Error, hint: String },
    #[error("cannot read the address of a socket: {0}")]
    Address(#[source] io::Error),
    #[error("{} is not a socket; choose another --unixsocket", .0.display())]
    NotASocket(PathBuf),
    #[error("cannot start a thread: {0}")]
    Thread(#[source] io::Error),
    #[error("cannot wait for signals: {0}")]
    Signal(#[source] io::Error),
    #[error("cannot close the store: {0}")]
    Close(#[source] store::Error),
    #[error("a write failed, and all later writes were refused; mend the cause and restart: {0}")]
    Fault(String),
}

//! TLS: certificates and handshakes. For a connection, an encrypted stream is like any other stream.

#[cfg(not(feature = "tls"))]
mod absent;
#[cfg(feature = "tls")]
mod present;

#[cfg(not(feature = "tls"))]
pub(super) use absent::Acceptor;
#[cfg(feature = "tls")]
pub(super) use present::Acceptor;

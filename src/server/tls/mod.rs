//! TLS: certificates and handshakes. What is encrypted looks like any other stream to a connection.

#[cfg(not(feature = "tls"))]
mod absent;
#[cfg(feature = "tls")]
mod present;

#[cfg(not(feature = "tls"))]
pub(super) use absent::Acceptor;
#[cfg(feature = "tls")]
pub(super) use present::Acceptor;

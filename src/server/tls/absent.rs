//! Replacement for TLS in a build without the feature.

use crate::{config::Tls, server::access_error::AccessError};
use std::io;
use tokio::net::TcpStream;

/// TLS acceptor; never created in a build without TLS.
pub enum Acceptor {}

impl Acceptor {
    pub fn load(_: &Tls) -> Result<Self, AccessError> {
        Err(AccessError::NoTls)
    }

    pub async fn accept(&self, _: TcpStream) -> io::Result<TcpStream> {
        match *self {}
    }
}

//! TLS: certificates and handshakes. For a connection, an encrypted stream is like any other stream.

use crate::engine::LONGEST_PASSWORD as LONGEST;
use std::{io, path::PathBuf};

#[cfg(not(feature = "tls"))]
pub(super) use absent::Acceptor;
#[cfg(feature = "tls")]
pub(super) use present::Acceptor;

/// Error in a setting for access control, with which no client could be served safely. Each text names the flag.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum AccessError {
    #[error("cannot read --password-file {}: {source}", .path.display())]
    PasswordFile { path: PathBuf, source: io::Error },
    #[error("--password-file {} can be read by others (mode {mode:o}); chmod 600 it", .path.display())]
    PasswordShared { path: PathBuf, mode: u32 },
    #[error("--password-file {} holds no password of 1 to {LONGEST} bytes", .0.display())]
    PasswordLength(PathBuf),
    #[error("cannot use {flag} {}: {reason}", .path.display())]
    Certificate { flag: &'static str, path: PathBuf, reason: String },
    #[error("--tls-port does not work in this build; build it with --features tls")]
    NoTls,
}

/// Replacement for TLS in a build without the feature `tls`, with which every start with `--tls-port` fails.
#[cfg(not(feature = "tls"))]
mod absent {
    use super::AccessError;
    use crate::config::Tls;
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
}

/// TLS with rustls.
#[cfg(feature = "tls")]
mod present {
    use super::AccessError;
    use crate::config::{AuthClients, Tls};
    use std::{io, path::Path, sync::Arc};
    use tokio::net::TcpStream;
    use tokio_rustls::{
        TlsAcceptor,
        rustls::{
            self, RootCertStore, ServerConfig,
            crypto::ring,
            pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
            server::{WebPkiClientVerifier, danger::ClientCertVerifier},
        },
        server::TlsStream,
    };

    /// Acceptor of TLS connections, with the certificate of the server.
    pub struct Acceptor(TlsAcceptor);

    impl Acceptor {
        /// Reads the files with the certificates and the private key that `options` name.
        pub fn load(options: &Tls) -> Result<Self, AccessError> {
            let cert = |reason: rustls::Error| refused("--tls-cert", &options.cert, reason);
            let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
                .with_safe_default_protocol_versions()
                .map_err(cert)?;
            let builder = match client_verifier(options)? {
                Some(verifier) => builder.with_client_cert_verifier(verifier),
                None => builder.with_no_client_auth(),
            };
            let key = PrivateKeyDer::from_pem_file(&options.key)
                .map_err(|reason| refused("--tls-key", &options.key, reason))?;
            let config =
                builder.with_single_cert(certificates("--tls-cert", &options.cert)?, key).map_err(cert)?;
            Ok(Self(TlsAcceptor::from(Arc::new(config))))
        }

        /// Performs the TLS handshake on an accepted connection. Returns the encrypted stream.
        pub async fn accept(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
            self.0.accept(stream).await
        }
    }

    fn refused(flag: &'static str, path: &Path, reason: impl ToString) -> AccessError {
        AccessError::Certificate { flag, path: path.into(), reason: reason.to_string() }
    }

    /// Reads the certificates of a PEM file; a file without a certificate is an error.
    fn certificates(flag: &'static str, path: &Path) -> Result<Vec<CertificateDer<'static>>, AccessError> {
        let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        match read {
            Ok(found) if found.is_empty() => Err(refused(flag, path, "it holds no certificate in PEM")),
            Ok(found) => Ok(found),
            Err(reason) => Err(refused(flag, path, reason)),
        }
    }

    /// Returns the verifier of client certificates, or `None` if the server requests none from its clients: without
    /// `--tls-ca`, or with `--tls-auth-clients no`.
    fn client_verifier(options: &Tls) -> Result<Option<Arc<dyn ClientCertVerifier>>, AccessError> {
        let Some(path) = options.ca.as_deref().filter(|_| options.auth_clients != AuthClients::No) else {
            return Ok(None);
        };
        let mut roots = RootCertStore::empty();
        for certificate in certificates("--tls-ca", path)? {
            roots.add(certificate).map_err(|reason| refused("--tls-ca", path, reason))?;
        }
        let provider = Arc::new(ring::default_provider());
        let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
        let builder = match options.auth_clients {
            AuthClients::Optional => builder.allow_unauthenticated(),
            AuthClients::Yes | AuthClients::No => builder,
        };
        let verifier = builder.build().map_err(|reason| refused("--tls-ca", path, reason))?;
        Ok(Some(verifier))
    }
}

//! Connections to nodes of a Redis Cluster, with a password and TLS if `--cluster-password-file` and `--cluster-tls-ca`
//! are set.

use super::description::NAME;
use crate::engine::{ClusterAccess, Result};
use redis::{
    Client, Connection, ConnectionAddr, ConnectionInfo, ErrorKind, IntoConnectionInfo, RedisError,
    RedisResult,
};
use std::time::Duration;

/// Time limit of connecting to a node of a Redis Cluster.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// Time limit of sending a request to a node, and of waiting for its reply.
const REPLY_TIMEOUT: Duration = Duration::from_secs(5);

/// User, password and certificates of every connection to a node.
#[derive(Default)]
pub(super) struct Login {
    user: Option<String>,
    password: Option<String>,
    tls: tls::Tls,
}

impl Login {
    /// Reads the password and certificates from the files that `access` names.
    ///
    /// # Errors
    ///
    /// Fails if a file cannot be read or has no valid content, if other users can read the password file, or if
    /// certificates are given to a build without TLS.
    pub fn load(access: &ClusterAccess) -> Result<Self> {
        let (user, password) = (access.user.clone(), access.password(NAME)?);
        Ok(Self { user, password, tls: tls::Tls::load(access)? })
    }

    /// Connects to the node at `address` (`host:port`), and authenticates.
    pub fn connect(&self, address: &str) -> RedisResult<Connection> {
        let (host, port) = address.rsplit_once(':').unwrap_or((address, "6379"));
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let info = self.tls.address(host, port.parse().unwrap_or(6379)).into_connection_info()?;
        let mut settings = info.redis_settings().clone().set_skip_set_lib_name();
        if let Some(user) = &self.user {
            settings = settings.set_username(user);
        }
        if let Some(password) = &self.password {
            settings = settings.set_password(password);
        }
        let tcp = info.tcp_settings().clone().set_nodelay(true);
        let client = self.tls.client(info.set_redis_settings(settings).set_tcp_settings(tcp))?;
        let connection = client.get_connection_with_timeout(CONNECT_TIMEOUT)?;
        connection.set_read_timeout(Some(REPLY_TIMEOUT))?;
        connection.set_write_timeout(Some(REPLY_TIMEOUT))?;
        Ok(connection)
    }

    pub fn is_encrypted(&self) -> bool {
        self.tls.is_on()
    }

    /// Returns the text of a connection error, with the advice to check a command-line flag if that is probably wrong.
    pub fn message(error: &RedisError) -> String {
        let flag = match error.kind() {
            ErrorKind::AuthenticationFailed => "; check --cluster-password-file and --cluster-user",
            _ if error.to_string().contains("certificate") => "; check --cluster-tls-ca",
            _ => "",
        };
        format!("{error}{flag}")
    }
}

#[cfg(feature = "tls")]
mod tls {
    use super::{Client, ClusterAccess, ConnectionAddr, ConnectionInfo, NAME, RedisResult, Result};
    use crate::engine::cluster_access::pem;
    use redis::{ClientTlsConfig, TlsCertificates};
    use std::path::PathBuf;

    /// Certificates for TLS; `None` if connections are not encrypted.
    #[derive(Default)]
    pub(super) struct Tls(Option<TlsCertificates>);

    impl Tls {
        pub fn load(access: &ClusterAccess) -> Result<Self> {
            let Some(ca) = &access.ca else { return Ok(Self(None)) };
            let root_cert = Some(pem(NAME, "--cluster-tls-ca", ca)?);
            let identity = |(cert, key): &(PathBuf, PathBuf)| {
                let client_cert = pem(NAME, "--cluster-tls-cert", cert)?;
                Ok(ClientTlsConfig { client_cert, client_key: pem(NAME, "--cluster-tls-key", key)? })
            };
            let client_tls = access.identity.as_ref().map(identity).transpose()?;
            Ok(Self(Some(TlsCertificates { client_tls, root_cert })))
        }

        pub fn is_on(&self) -> bool {
            self.0.is_some()
        }

        pub fn address(&self, host: String, port: u16) -> ConnectionAddr {
            match self.0 {
                Some(_) => ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None },
                None => ConnectionAddr::Tcp(host, port),
            }
        }

        pub fn client(&self, info: ConnectionInfo) -> RedisResult<Client> {
            match &self.0 {
                Some(certificates) => Client::build_with_tls(info, certificates.clone()),
                None => Client::open(info),
            }
        }
    }
}

#[cfg(not(feature = "tls"))]
mod tls {
    use super::{Client, ClusterAccess, ConnectionAddr, ConnectionInfo, NAME, RedisResult, Result};
    use crate::engine::Error;

    /// Stand-in for TLS in a build without it: connections are never encrypted.
    #[derive(Default)]
    pub(super) struct Tls;

    impl Tls {
        pub fn load(access: &ClusterAccess) -> Result<Self> {
            let what =
                "cannot use --cluster-tls-ca: this build has no TLS; build it with --features redis,tls";
            match access.ca {
                Some(_) => Err(Error::Unsupported { engine: NAME, what: what.into() }),
                None => Ok(Self),
            }
        }

        pub fn is_on(&self) -> bool {
            false
        }

        pub fn address(&self, host: String, port: u16) -> ConnectionAddr {
            ConnectionAddr::Tcp(host, port)
        }

        pub fn client(&self, info: ConnectionInfo) -> RedisResult<Client> {
            Client::open(info)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::fake::FakeNode, *};
    use crate::engine::{
        Batch, WriteOp,
        stores::redis::{key_encoding::Keys, routing::Cluster},
    };
    use std::{fs, os::unix::fs::PermissionsExt, path::PathBuf};
    use tempfile::TempDir;

    fn file(dir: &TempDir, name: &str, text: &str) -> PathBuf {
        let path = dir.path().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
        path
    }

    /// Opens a cluster that consists of `node`, and writes a key. Returns the text of the error on a failure.
    fn open(node: &FakeNode, access: &ClusterAccess) -> std::result::Result<(), String> {
        let login = Login::load(access).map_err(|error| error.to_string())?;
        let keys = Keys::new(b"{p}").unwrap();
        let cluster = Cluster::open(std::slice::from_ref(&node.address), keys, login)
            .map_err(|error| error.to_string())?;
        let mut batch = Batch::of(&[WriteOp::Put { key: b"a", value: b"b" }]);
        batch.end_part();
        cluster.write_parts(&batch).unwrap().remove(0).map_err(|error| error.to_string())
    }

    fn assert_refused(outcome: std::result::Result<(), String>, words: &[&str]) {
        let error = outcome.unwrap_err();
        assert!(words.iter().all(|word| error.contains(word)), "{error:?} is to contain {words:?}");
        assert!(!error.contains("running") && !error.contains("secret"), "{error}");
    }

    #[test]
    fn password_is_given_to_each_node_and_a_wrong_one_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let with = |name: &str, text: &str, user: Option<&str>| ClusterAccess {
            password_file: Some(file(&dir, name, text)),
            user: user.map(String::from),
            ..ClusterAccess::default()
        };
        let node = FakeNode::with_password("AUTH secret");
        assert_eq!(open(&node, &with("right", "secret\n", None)), Ok(()));
        assert_refused(
            open(&node, &with("wrong", "a secret\n", None)),
            &[&node.address, "check --cluster-password-file"],
        );
        assert_refused(
            open(&node, &ClusterAccess::default()),
            &[&node.address, "give --cluster-password-file"],
        );
        let node = FakeNode::with_password("AUTH bench secret");
        assert_eq!(open(&node, &with("right", "secret", Some("bench"))), Ok(()));
        assert_refused(open(&node, &with("right", "secret", None)), &["--cluster-user"]);
    }

    #[test]
    fn password_file_that_others_can_read_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = file(&dir, "shared", "secret");
        fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
        for (path, word) in [
            (path, "chmod 600"),
            (file(&dir, "empty", "\n"), "no password"),
            (dir.path().join("none"), "cannot be read"),
        ] {
            let access = ClusterAccess { password_file: Some(path), ..ClusterAccess::default() };
            assert_refused(
                Login::load(&access).map(drop).map_err(|error| error.to_string()),
                &["--cluster-password-file", word],
            );
        }
    }

    #[cfg(feature = "tls")]
    #[test]
    fn nodes_are_reached_by_tls_and_a_wrong_authority_is_told() {
        use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
        let dir = tempfile::tempdir().unwrap();
        let authority = || {
            let mut params = CertificateParams::default();
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
        };
        let (ca, other, key) = (authority(), authority(), KeyPair::generate().unwrap());
        let certificate = CertificateParams::new(["127.0.0.1".into()]).unwrap().signed_by(&key, &ca).unwrap();
        let node = FakeNode::with_tls(&certificate.pem(), &key.serialize_pem());
        let with = |name: &str, pem: &str| ClusterAccess {
            ca: Some(file(&dir, name, pem)),
            ..ClusterAccess::default()
        };
        assert_eq!(open(&node, &with("ca", &ca.pem())), Ok(()));
        assert_refused(
            open(&node, &with("other", &other.pem())),
            &[&node.address, "invalid peer certificate", "check --cluster-tls-ca"],
        );
        assert!(open(&node, &ClusterAccess::default()).is_err(), "it was reached without TLS");
        assert_refused(open(&node, &with("text", "text")), &["--cluster-tls-ca", "PEM"]);
    }
}

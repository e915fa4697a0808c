//! Options of the sockets and of access to them.

use crate::command::Password;
use clap::ValueEnum;
use std::{
    net::{IpAddr, Ipv4Addr},
    path::PathBuf,
    time::Duration,
};

/// Options of the sockets, of access to them, and of the limits for each client.
#[derive(Clone, Debug)]
pub struct Network {
    /// `--bind`: address to listen on.
    pub bind: IpAddr,
    /// `--port`; 0 picks a free port, `None` disables plain TCP.
    pub port: Option<u16>,
    /// `--tls-port` and the other TLS options; `None` disables TLS.
    pub tls: Option<Tls>,
    /// `--unixsocket`: path of the Unix socket; `None` for none.
    pub unix_socket: Option<PathBuf>,
    /// `--unixsocket-perm`: permissions of the Unix socket; `None` for those that the umask leaves.
    pub unix_mode: Option<u32>,
    /// `--tcp-backlog`: maximum number of connections that wait to be accepted.
    pub backlog: u32,
    /// `--tcp-keepalive`: time without data after which keep-alive probes are sent; `None` for never.
    pub keepalive: Option<Duration>,
    /// `--maxclients`: maximum number of clients, at least 1.
    pub max_clients: usize,
    /// `--requirepass`: password that clients must send; `None` for none.
    pub password: Option<Password>,
    /// `--password-file`: file from which the password is read; `None` for none.
    pub password_file: Option<PathBuf>,
    /// `--protected-mode`: `true` if, without a password, only clients of this machine are served.
    pub protected_mode: bool,
    /// Limits for each client: size of an incomplete request, size of unread replies, and idle time.
    pub client: ClientLimits,
    /// `--shutdown-timeout`: maximum time that a shutdown waits for commits.
    pub shutdown_timeout: Duration,
}

/// Limits for each client: size of an incomplete request, size of unread replies, and idle time.
#[derive(Clone, Copy, Debug)]
pub struct ClientLimits {
    /// `--client-query-buffer-limit`: maximum size of an incomplete request in bytes, below 4 GiB; also the maximum memory
    /// of the requests that a client queues after MULTI, and of the keys that it watches.
    pub query: usize,
    /// `--client-output-buffer-limit`: maximum size of unread replies in bytes; 0 for no limit.
    pub output: usize,
    /// `--timeout`: time after which an idle connection is closed; `None` for never.
    pub idle: Option<Duration>,
}

/// Options of the TLS port.
#[derive(Clone, Debug)]
pub struct Tls {
    /// `--tls-port`; 0 picks a free port.
    pub port: u16,
    /// `--tls-cert`: file with the certificate of the server, followed by its chain.
    pub cert: PathBuf,
    /// `--tls-key`: file with the private key of the certificate.
    pub key: PathBuf,
    /// `--tls-ca`: file with the certificates of the authorities that sign client certificates; `None` if the server
    /// does not verify clients.
    pub ca: Option<PathBuf>,
    /// `--tls-auth-clients`: policy on client certificates.
    pub auth_clients: AuthClients,
}

/// Policy on client certificates (`--tls-auth-clients`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AuthClients {
    /// A client must present a certificate.
    Yes,
    /// A client may present a certificate, which must be valid.
    Optional,
    /// Certificates are not requested.
    No,
}

impl AuthClients {
    /// Returns the value of `--tls-auth-clients` that selects this policy.
    pub fn word(self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::Optional => "optional",
            Self::No => "no",
        }
    }
}

impl Default for Network {
    /// Returns a free port of this machine only, and the defaults of the command line for the rest.
    fn default() -> Self {
        Self {
            bind: Ipv4Addr::LOCALHOST.into(),
            port: Some(0),
            tls: None,
            unix_socket: None,
            unix_mode: None,
            backlog: 511,
            keepalive: Some(Duration::from_mins(5)),
            max_clients: 10_000,
            password: None,
            password_file: None,
            protected_mode: true,
            client: ClientLimits { query: 1 << 30, output: 1 << 30, idle: None },
            shutdown_timeout: Duration::from_mins(1),
        }
    }
}

/// Formats a time in seconds; `None` is 0, as in Redis.
fn seconds(time: Option<Duration>) -> String {
    time.map_or(0, |time| time.as_secs()).to_string()
}

impl Network {
    /// Returns the names and values that CONFIG GET reports. The password is not among them: the server stores
    /// only its hash.
    pub(super) fn settings(&self) -> Vec<(&'static str, String)> {
        let path = |path: Option<&PathBuf>| path.map(|path| path.display().to_string()).unwrap_or_default();
        let tls = self.tls.as_ref();
        let auth_clients = tls.map_or(AuthClients::No, |tls| tls.auth_clients);
        vec![
            ("bind", self.bind.to_string()),
            ("shutdown-timeout", self.shutdown_timeout.as_secs().to_string()),
            ("tcp-backlog", self.backlog.to_string()),
            ("tcp-keepalive", seconds(self.keepalive)),
            ("tls-auth-clients", auth_clients.word().into()),
            ("tls-ca-cert-file", path(tls.and_then(|tls| tls.ca.as_ref()))),
            ("tls-cert-file", path(tls.map(|tls| &tls.cert))),
            ("tls-key-file", path(tls.map(|tls| &tls.key))),
            ("unixsocket", path(self.unix_socket.as_ref())),
            ("unixsocketperm", self.unix_mode.map_or_else(|| "0".into(), |mode| format!("{mode:o}"))),
        ]
    }
}

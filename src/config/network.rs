//! Options of the sockets and of who may use them.

use crate::command::Password;
use std::{
    net::{IpAddr, Ipv4Addr},
    path::PathBuf,
    time::Duration,
};

/// Where clients come in, which ones, and what one may cost.
#[derive(Clone, Debug)]
pub struct Network {
    /// `--bind`
    pub bind: IpAddr,
    /// `--port`; 0 picks a free one, `None` is no plain TCP.
    pub port: Option<u16>,
    /// `--tls-port` and what belongs to it.
    pub tls: Option<Tls>,
    /// `--unixsocket`
    pub unix_socket: Option<PathBuf>,
    /// `--unixsocket-perm`
    pub unix_mode: Option<u32>,
    /// `--tcp-backlog`: connections that wait to be accepted.
    pub backlog: u32,
    /// `--tcp-keepalive`
    pub keepalive: Option<Duration>,
    /// `--maxclients`, at least 1.
    pub max_clients: usize,
    /// `--requirepass`
    pub password: Option<Password>,
    /// `--password-file`
    pub password_file: Option<PathBuf>,
    /// `--protected-mode`
    pub protected_mode: bool,
    /// What one client may cost.
    pub client: ClientLimits,
    /// `--shutdown-timeout`
    pub shutdown_timeout: Duration,
}

/// What one client may cost.
#[derive(Clone, Copy, Debug)]
pub struct ClientLimits {
    /// `--client-query-buffer-limit`: bytes of a request that is not complete, below 4 GiB.
    pub query: usize,
    /// `--client-output-buffer-limit`: bytes of replies that wait; 0 is no limit.
    pub output: usize,
    /// `--timeout`: how long nothing may move.
    pub idle: Option<Duration>,
}

/// A port that speaks TLS.
#[derive(Clone, Debug)]
pub struct Tls {
    /// `--tls-port`; 0 picks a free one.
    pub port: u16,
    /// `--tls-cert`: the server's certificate, and those up to the one clients know.
    pub cert: PathBuf,
    /// `--tls-key`
    pub key: PathBuf,
    /// `--tls-ca`: who signs the certificates of clients.
    pub ca: Option<PathBuf>,
    /// `--tls-auth-clients`
    pub auth_clients: AuthClients,
}

/// Whether clients show certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthClients {
    /// They have to.
    Yes,
    /// They need not; one that is shown must be good.
    Optional,
    /// They are not asked.
    No,
}

impl AuthClients {
    /// The word on the command line.
    pub fn word(self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::Optional => "optional",
            Self::No => "no",
        }
    }
}

impl Default for Network {
    /// A free port of this machine only, and the command line's defaults for the rest.
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

/// Seconds, where Redis has 0 for none.
fn seconds(time: Option<Duration>) -> String {
    time.map_or(0, |time| time.as_secs()).to_string()
}

impl Network {
    /// CONFIG GET's names and values. The password is not among them: the server does not know it.
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

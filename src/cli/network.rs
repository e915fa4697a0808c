//! Flags of `serve` on sockets and on access to them.

use super::{
    units::{TimeUnit, count, size, time},
    value_parsers::YesNo,
};
use crate::{
    command::{self, Password},
    config::{self, AuthClients, ClientLimits},
    resp::Limits,
};
use bytesize::ByteSize;
use clap::{
    Args,
    builder::{PossibleValuesParser, TypedValueParser},
};
use std::{net::IpAddr, path::PathBuf, time::Duration};

/// Options of `kvbench serve`.
#[derive(Args, Debug)]
pub(super) struct Network {
    /// TCP port; 0 picks a free port and prints it; off opens none (with --tls-port or --unixsocket)
    #[arg(short, long, default_value = "6380", value_parser = port, help_heading = "Network")]
    port: Port,
    /// Address to listen on; read --protected-mode before you listen on a network
    #[arg(long, default_value = "127.0.0.1", help_heading = "Network")]
    bind: IpAddr,
    /// Unix socket to listen on as well
    #[arg(long, value_name = "PATH", help_heading = "Network")]
    unixsocket: Option<PathBuf>,
    /// Permissions of the Unix socket, such as 700 [default: what the umask leaves]
    #[arg(long, alias = "unixsocketperm", value_name = "MODE", value_parser = mode, requires = "unixsocket", help_heading = "Network")]
    unixsocket_perm: Option<u32>,
    /// Maximum number of clients at once
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = count::<u64>(1..=1_000_000), help_heading = "Network")]
    maxclients: u64,
    /// Connections that may wait to be accepted; the system may have a lower limit
    #[arg(long, visible_alias = "backlog", value_name = "N", default_value_t = 511, value_parser = count::<u32>(1..=65_535), help_heading = "Network")]
    tcp_backlog: u32,
    /// Time without data after which TCP keep-alive probes are sent to a client; 0 for never
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = time(TimeUnit::Seconds, 0..=MAX_KEEPALIVE), help_heading = "Network")]
    tcp_keepalive: u64,
    /// Close a connection that has been idle for this long; 0 for never
    #[arg(long, value_name = "SECONDS", default_value_t = 0, value_parser = time(TimeUnit::Seconds, 0..=MAX_TIMEOUT), help_heading = "Network")]
    timeout: u64,
    /// Close a client when an incomplete request grows beyond this; also limits the memory of the requests that
    /// it queues with MULTI, and that of the keys that it watches
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = query_limit, help_heading = "Network")]
    client_query_buffer_limit: ByteSize,
    /// Close a client when the replies that it has not read grow beyond this; 0 for no limit
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = size, help_heading = "Network")]
    client_output_buffer_limit: ByteSize,
    /// At shutdown, wait at most this long for commits that have begun
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = seconds(), help_heading = "Network")]
    shutdown_timeout: u64,

    /// Password that clients must give (AUTH). Every user of this machine can read it in the list of
    /// processes: --password-file is safer
    #[arg(long, value_name = "PASSWORD", value_parser = password, help_heading = "Access")]
    requirepass: Option<Password>,
    /// File that contains the password; only its owner may be able to read it
    #[arg(long, value_name = "FILE", conflicts_with = "requirepass", help_heading = "Access")]
    password_file: Option<PathBuf>,
    /// Without a password, serve clients of this machine only, whatever --bind says
    #[arg(long, value_enum, value_name = "YES|NO", default_value = "yes", help_heading = "Access")]
    protected_mode: YesNo,
    /// Command that no client may use; may be repeated
    #[arg(long, value_name = "NAME", value_parser = command_parser(), ignore_case = true, hide_possible_values = true, help_heading = "Access")]
    disable_command: Vec<&'static str>,
    /// Port for TLS; 0 picks a free port and prints it
    #[arg(long, value_name = "PORT", requires = "tls_cert", requires = "tls_key", help_heading = "Access")]
    tls_port: Option<u16>,
    /// Certificate of the server, in PEM, followed by its chain
    #[arg(
        long,
        alias = "tls-cert-file",
        value_name = "FILE",
        requires = "tls_port",
        help_heading = "Access"
    )]
    tls_cert: Option<PathBuf>,
    /// Private key of that certificate, in PEM
    #[arg(long, alias = "tls-key-file", value_name = "FILE", requires = "tls_port", help_heading = "Access")]
    tls_key: Option<PathBuf>,
    /// Certificates of the authorities that sign the clients' certificates, in PEM
    #[arg(
        long,
        alias = "tls-ca-cert-file",
        value_name = "FILE",
        requires = "tls_port",
        help_heading = "Access"
    )]
    tls_ca: Option<PathBuf>,
    /// Whether clients need a certificate [default: yes with --tls-ca, else no]
    #[arg(long, value_enum, value_name = "YES|NO|OPTIONAL", requires = "tls_port", help_heading = "Access")]
    tls_auth_clients: Option<AuthClients>,
}

/// Longest time in seconds before a keep-alive probe that Linux allows: its `MAX_TCP_KEEPIDLE`.
const MAX_KEEPALIVE: u64 = 32_767;

/// Maximum of `--timeout` in seconds, the one of CONFIG SET.
const MAX_TIMEOUT: u64 = i32::MAX.cast_unsigned() as u64;

/// Value of `--port`: the TCP port, or `None` for `off`.
#[derive(Clone, Copy, Debug)]
struct Port(Option<u16>);

fn port(text: &str) -> Result<Port, String> {
    match text {
        "off" => Ok(Port(None)),
        _ => text.parse().map(|port| Port(Some(port))).map_err(|_| "it must be 0 to 65535, or off".into()),
    }
}

fn mode(text: &str) -> Result<u32, String> {
    match u32::from_str_radix(text, 8) {
        Ok(mode @ 0..=0o777) => Ok(mode),
        _ => Err("it must be up to three octal digits, such as 700".into()),
    }
}

/// Returns the parser of times from 0 to a year, as a whole number of seconds.
fn seconds() -> impl Fn(&str) -> Result<u64, String> + Clone {
    time(TimeUnit::Seconds, 0..=31_536_000)
}

/// Parses `--client-query-buffer-limit`: at least 1 MiB, Redis' minimum, and at most
/// [`Limits::MAX_QUERY_BUFFER`].
fn query_limit(text: &str) -> Result<ByteSize, String> {
    let size = size(text)?;
    match (1 << 20..=u64::from(Limits::MAX_QUERY_BUFFER)).contains(&size.as_u64()) {
        true => Ok(size),
        false => Err("it must be 1 MiB to 4095 MiB, such as 64MiB".into()),
    }
}

fn password(text: &str) -> Result<Password, String> {
    Password::new(text.as_bytes()).ok_or_else(|| "it is empty; leave the flag out for no password".into())
}

fn command_parser() -> impl TypedValueParser<Value = &'static str> {
    PossibleValuesParser::new(command::table().map(|spec| spec.name))
        .try_map(|name| command::find(&name).map(|spec| spec.name).ok_or("there is no such command"))
}

fn duration(seconds: u64) -> Option<Duration> {
    (seconds > 0).then(|| Duration::from_secs(seconds))
}

fn bytes(size: ByteSize) -> usize {
    usize::try_from(size.as_u64()).unwrap_or(usize::MAX)
}

impl Network {
    /// Returns the network part of the server's configuration, and the names of the disabled commands.
    pub(super) fn config(self) -> (config::Network, Vec<&'static str>) {
        let tls = self.tls();
        let network = config::Network {
            bind: self.bind,
            port: self.port.0,
            tls,
            unix_socket: self.unixsocket,
            unix_mode: self.unixsocket_perm,
            backlog: self.tcp_backlog,
            keepalive: duration(self.tcp_keepalive),
            max_clients: usize::try_from(self.maxclients).unwrap_or(usize::MAX),
            password: self.requirepass,
            password_file: self.password_file,
            protected_mode: self.protected_mode == YesNo::Yes,
            client: ClientLimits {
                query: bytes(self.client_query_buffer_limit),
                output: bytes(self.client_output_buffer_limit),
                idle: duration(self.timeout),
            },
            shutdown_timeout: Duration::from_secs(self.shutdown_timeout),
        };
        (network, self.disable_command)
    }

    fn tls(&self) -> Option<config::Tls> {
        Some(config::Tls {
            port: self.tls_port?,
            cert: self.tls_cert.clone()?,
            key: self.tls_key.clone()?,
            ca: self.tls_ca.clone(),
            auth_clients: self.tls_auth_clients.unwrap_or(match self.tls_ca {
                Some(_) => AuthClients::Yes,
                None => AuthClients::No,
            }),
        })
    }
}

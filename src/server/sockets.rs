//! Creation of listening sockets and their options.

use super::error::Error;
use crate::config::Network;
use socket2::{SockRef, TcpKeepalive};
use std::{
    fs::{self, Permissions},
    io,
    net::SocketAddr,
    os::unix::{
        fs::{FileTypeExt, PermissionsExt},
        net::UnixStream,
    },
    path::Path,
    time::Duration,
};
use tokio::net::{TcpListener, TcpSocket, UnixListener, UnixSocket};

/// Listens on a TCP port; `flag` is the option that chose the port.
pub(super) fn bind_tcp(config: &Network, port: u16, flag: &str) -> Result<TcpListener, Error> {
    let address = SocketAddr::new(config.bind, port);
    let bind = || {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        // Allows a port to be reused while old connections are in the state TIME_WAIT.
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(config.backlog)
    };
    bind().map_err(|source: io::Error| {
        let hint = match source.kind() {
            io::ErrorKind::AddrInUse => format!("; stop what listens there or choose another {flag}"),
            io::ErrorKind::AddrNotAvailable => "; choose an address of this machine for --bind".into(),
            io::ErrorKind::PermissionDenied => {
                format!("; ports below 1024 need privileges, choose another {flag}")
            }
            _ => String::new(),
        };
        Error::Listen { address: address.to_string(), source, hint }
    })
}

/// Listens on a Unix socket. A socket file without a listener is left over from a killed process and is
/// replaced.
pub(super) fn bind_unix(path: &Path, config: &Network) -> Result<UnixListener, Error> {
    let failed = |source| Error::Listen { address: path.display().to_string(), source, hint: String::new() };
    if let Ok(metadata) = fs::symlink_metadata(path) {
        if !metadata.file_type().is_socket() {
            return Err(Error::NotASocket(path.into()));
        }
        if UnixStream::connect(path).is_ok() {
            return Err(failed(io::ErrorKind::AddrInUse.into()));
        }
        fs::remove_file(path).map_err(failed)?;
    }
    let listen = || {
        let socket = UnixSocket::new_stream()?;
        socket.bind(path)?;
        // No client can connect before `listen`, and then the socket has its final permissions.
        if let Some(mode) = config.unix_mode {
            fs::set_permissions(path, Permissions::from_mode(mode))?;
        }
        socket.listen(config.backlog)
    };
    listen().map_err(failed)
}

/// Enables TCP keepalive: the kernel probes the machine of a silent client after `time`, then three more times
/// in the same time, as in Redis.
pub(super) fn keep_alive(stream: &std::net::TcpStream, time: Duration) -> io::Result<()> {
    let options = TcpKeepalive::new().with_time(time).with_interval((time / 3).max(Duration::from_secs(1)));
    #[cfg(not(target_os = "openbsd"))]
    let options = options.with_retries(3);
    SockRef::from(stream).set_tcp_keepalive(&options)
}

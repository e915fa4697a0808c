//! Sockets with the options they need.

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

/// Listens on a TCP port, which `flag` chose.
pub(super) fn bind_tcp(config: &Network, port: u16, flag: &str) -> Result<TcpListener, Error> {
    let address = SocketAddr::new(config.bind, port);
    let bind = || {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        // A port whose last connections are not forgotten yet can be taken again.
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

/// Listens on a Unix socket. A socket file that nobody listens on is left over from a process that was
/// killed, and replaced.
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
        // Nobody can connect before it listens, and then it has the permissions it shall have.
        if let Some(mode) = config.unix_mode {
            fs::set_permissions(path, Permissions::from_mode(mode))?;
        }
        socket.listen(config.backlog)
    };
    listen().map_err(failed)
}

/// Has the system ask the machine of a client that says nothing whether it is still there: after `time`, then
/// three times more in as long again, as Redis does.
pub(super) fn keep_alive(stream: &std::net::TcpStream, time: Duration) -> io::Result<()> {
    let options = TcpKeepalive::new().with_time(time).with_interval((time / 3).max(Duration::from_secs(1)));
    #[cfg(not(target_os = "openbsd"))]
    let options = options.with_retries(3);
    SockRef::from(stream).set_tcp_keepalive(&options)
}

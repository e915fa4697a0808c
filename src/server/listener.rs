//! Listening sockets and their options: accepting connections, and stopping on a signal.

use super::{
    access_control::PROTECTED_MODE_ERROR,
    error::Error,
    shared_state::{AcceptedStream, ConnectionSenders, Shared},
};
use crate::{
    command::as_size,
    config::{Config, Network, Ports},
};
use socket2::{SockRef, TcpKeepalive};
use std::{
    fs::{self, Permissions},
    future::pending,
    io::{self, Write},
    net::SocketAddr,
    os::unix::{
        fs::{FileTypeExt, PermissionsExt},
        net::UnixStream,
    },
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};
use tokio::{
    net::{TcpListener, TcpSocket, UnixListener, UnixSocket},
    signal::unix::{Signal, SignalKind, signal},
    sync::Notify,
    time::sleep,
};

/// Listening sockets of a server.
pub(super) struct Listener {
    tcp: Option<(TcpListener, SocketAddr)>,
    tls: Option<(TcpListener, SocketAddr)>,
    unix: Option<(UnixListener, PathBuf)>,
}

impl Listener {
    pub fn bind(config: &Network) -> Result<Self, Error> {
        let bind = |port, flag| {
            let listener = bind_tcp(config, port, flag)?;
            let address = listener.local_addr().map_err(Error::Address)?;
            Ok((listener, address))
        };
        let tcp = config.port.map(|port| bind(port, "--port")).transpose()?;
        let tls = config.tls.as_ref().map(|tls| bind(tls.port, "--tls-port")).transpose()?;
        let unix = match &config.unix_socket {
            Some(path) => Some((bind_unix(path, config)?, path.clone())),
            None => None,
        };
        Ok(Self { tcp, tls, unix })
    }

    pub fn ports(&self) -> Ports {
        let port =
            |listener: &Option<(_, SocketAddr)>| listener.as_ref().map_or(0, |(_, address)| address.port());
        Ports { plain: port(&self.tcp), tls: port(&self.tls) }
    }

    /// Returns the addresses of all listening sockets, for display.
    pub fn address(&self) -> String {
        let tcp = self.tcp.iter().map(|(_, address)| address.to_string());
        let tls = self.tls.iter().map(|(_, address)| format!("tls://{address}"));
        let unix = self.unix.iter().map(|(_, path)| path.display().to_string());
        tcp.chain(tls).chain(unix).collect::<Vec<_>>().join(" and ")
    }

    /// Accepts TCP, TLS and Unix connections until `stop` completes. Refuses those above `--maxclients` and those
    /// that protected mode forbids; gives each other one to the worker with the fewest connections.
    pub async fn accept_until(
        &self,
        stop: impl Future<Output = ()>,
        shared: &Shared,
        inlets: &ConnectionSenders,
    ) {
        tokio::pin!(stop);
        // Connections are numbered in the order of acceptance; workers start them in any order.
        let mut id = 0;
        let mut failing = false;
        loop {
            let accepted = tokio::select! {
                () = &mut stop => return,
                accepted = self.accept() => accepted,
            };
            match accepted {
                Ok(incoming) => {
                    failing = false;
                    match admission_error(&incoming, shared) {
                        Some(reason) => {
                            shared.context.rejected.fetch_add(1, Ordering::Relaxed);
                            turn_away(incoming, reason);
                        }
                        None => {
                            id += 1;
                            assign(id, incoming, shared, inlets);
                        }
                    }
                }
                Err(error) => {
                    // Most likely the process is out of descriptors; connections that end will free some. Until
                    // then new clients wait, and only the first failure is logged.
                    if !failing {
                        log::warn!("cannot accept a connection, and will try again when one ends: {error}");
                    }
                    failing = true;
                    sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }

    async fn accept(&self) -> io::Result<AcceptedStream> {
        tokio::select! {
            tcp = accept_tcp(self.tcp.as_ref()) => tcp.map(|(stream, peer)| AcceptedStream::Tcp(stream, peer)),
            tls = accept_tcp(self.tls.as_ref()) => tls.map(|(stream, peer)| AcceptedStream::Tls(stream, peer)),
            unix = accept_unix(self.unix.as_ref()) => unix,
        }
    }
}

async fn accept_tcp(
    listener: Option<&(TcpListener, SocketAddr)>,
) -> io::Result<(std::net::TcpStream, SocketAddr)> {
    let Some((listener, _)) = listener else { return pending().await };
    let (stream, peer) = listener.accept().await?;
    Ok((stream.into_std()?, peer))
}

async fn accept_unix(listener: Option<&(UnixListener, PathBuf)>) -> io::Result<AcceptedStream> {
    let Some((listener, path)) = listener else { return pending().await };
    let (stream, _) = listener.accept().await?;
    Ok(AcceptedStream::Unix(stream.into_std()?, path.display().to_string().into()))
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some((_, path)) = &self.unix {
            // Best effort: the next start finds a socket file without a listener and replaces it.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Sends a connection to the worker with the fewest connections. The connection is counted here and not by the
/// worker, so that the next assignment already includes it.
fn assign(id: u64, incoming: AcceptedStream, shared: &Shared, inlets: &ConnectionSenders) {
    let load =
        |index: usize| shared.context.stats.get(index).map(|stats| stats.connections.load(Ordering::Relaxed));
    let Some(worker) = (0..inlets.len()).min_by_key(|&index| load(index)) else { return };
    if let (Some(stats), Some(inlet)) = (shared.context.stats.get(worker), inlets.get(worker)) {
        stats.accepted.fetch_add(1, Ordering::Relaxed);
        stats.connections.fetch_add(1, Ordering::Relaxed);
        if inlet.send((id, incoming)).is_err() {
            stats.connections.fetch_sub(1, Ordering::Relaxed);
            log::error!("worker {worker} has ended unexpectedly");
        }
    }
}

/// Returns Redis' error if `--maxclients` or protected mode refuses the client, otherwise `None`.
fn admission_error(incoming: &AcceptedStream, shared: &Shared) -> Option<&'static str> {
    let live = &shared.context.live;
    if shared.context.connections() >= as_size(&live.max_clients) {
        return Some("-ERR max number of clients reached\r\n");
    }
    match incoming {
        AcceptedStream::Tcp(_, peer) | AcceptedStream::Tls(_, peer) if live.denies(peer.ip()) => {
            log::debug!("protected mode refuses {peer}");
            Some(PROTECTED_MODE_ERROR)
        }
        _ => None,
    }
}

/// Sends `reason` to a refused client; over TLS nothing is sent, because it would need a handshake.
fn turn_away(incoming: AcceptedStream, reason: &str) {
    let outcome = match incoming {
        AcceptedStream::Tcp(mut stream, _) => stream.write_all(reason.as_bytes()),
        AcceptedStream::Tls(..) => Ok(()),
        AcceptedStream::Unix(mut stream, _) => stream.write_all(reason.as_bytes()),
    };
    if let Err(error) = outcome {
        log::debug!("cannot refuse a client: {error}");
    }
}

/// Handler of SIGINT and SIGTERM; the signals are caught from its creation on.
pub(super) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    pub fn new() -> io::Result<Self> {
        let signals =
            Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? };
        ARE_RECEIVED.store(true, Ordering::Relaxed);
        Ok(signals)
    }

    /// Completes on SIGINT, SIGTERM or the command SHUTDOWN.
    pub async fn stop(mut self, shutdown: &Notify) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            () = shutdown.notified() => {}
        }
    }
}

/// `true` once [`Signals`] receives SIGINT and SIGTERM.
static ARE_RECEIVED: AtomicBool = AtomicBool::new(false);

/// Lets SIGINT and SIGTERM end process 1, which a server in a container is, before its store is open, like SIGKILL, and
/// with the exit code that a shell reports for the signal. The kernel discards these signals to process 1 while it has no
/// handler for them. Other processes need none.
pub fn end_at_signals() {
    extern "C" fn end(signal: libc::c_int) {
        // Called before the handler of `Signals` too, once that is installed.
        if !ARE_RECEIVED.load(Ordering::Relaxed) {
            end_at_once(signal);
        }
    }
    if process::id() == 1 {
        handle(libc::SIGINT, end);
        handle(libc::SIGTERM, end);
    }
}

/// Lets the next SIGINT end the process at once, like SIGKILL: a store can take very long to stop, or never stop. SIGTERM
/// does not, because a service manager may send it twice.
pub(super) fn end_at_next_interrupt() {
    handle(libc::SIGINT, end_at_once);
}

/// Ends the process with the exit code that a shell reports for `signal`.
extern "C" fn end_at_once(signal: libc::c_int) {
    #[expect(unsafe_code, reason = "a system call that no crate in use wraps")]
    // SAFETY: a signal handler may make the call, which ends the process at once.
    unsafe {
        libc::_exit(128 + signal);
    }
}

/// Calls `handler`, which makes only calls that a signal handler may make, at each `signal` from now on.
fn handle(signal: libc::c_int, handler: extern "C" fn(libc::c_int)) {
    #[expect(unsafe_code, reason = "a system call that no crate in use wraps")]
    // SAFETY: `handler` has the type of a signal handler, and makes only calls that such a handler may make.
    unsafe {
        libc::signal(signal, handler as *const () as libc::sighandler_t);
    }
}

/// Checks that the server can listen on the addresses of `config`, without listening: an address in use is then
/// reported before the store creates files.
///
/// # Errors
///
/// Fails if an address is in use or cannot be bound, or if the path of the Unix socket is that of another kind of file
/// or of a socket on which a process listens.
pub fn check_addresses(config: &Config) -> Result<(), Error> {
    let network = &config.network;
    let tls = network.tls.as_ref().map(|tls| (tls.port, "--tls-port"));
    let ports = network.port.map(|port| (port, "--port")).into_iter().chain(tls);
    let ports = ports.map(|(port, flag)| (SocketAddr::new(network.bind, port), flag));
    let addresses: Vec<_> = ports.chain(config.metrics.map(|address| (address, "--metrics"))).collect();
    for (index, (address, flag)) in addresses.iter().enumerate() {
        // A socket that does not listen excludes no other one.
        let earlier = addresses.iter().take(index).find(|(other, _)| overlap(*other, *address));
        if let Some((_, other)) = earlier {
            let source = io::Error::new(io::ErrorKind::AddrInUse, format!("it is that of {other}"));
            let hint = format!("; choose another {flag}");
            return Err(Error::Listen { address: address.to_string(), source, hint });
        }
    }
    for (address, flag) in addresses {
        on_tcp(address, flag, |_| Ok(()))?;
    }
    network.unix_socket.as_deref().map_or(Ok(()), |path| is_stale_socket(path).map(drop))
}

/// Returns `true` if only one socket can listen on two addresses of the same family.
fn overlap(one: SocketAddr, other: SocketAddr) -> bool {
    let is_same_ip = one.ip() == other.ip() || one.ip().is_unspecified() || other.ip().is_unspecified();
    one.port() != 0 && one.port() == other.port() && one.is_ipv4() == other.is_ipv4() && is_same_ip
}

/// Listens on a TCP port of `--bind`; `flag` is the option that chose the port, for errors.
fn bind_tcp(config: &Network, port: u16, flag: &str) -> Result<TcpListener, Error> {
    on_tcp(SocketAddr::new(config.bind, port), flag, |socket| socket.listen(config.backlog))
}

/// Binds a TCP socket to `address` and calls `then` with it; `flag` is the option that chose the port, for errors.
fn on_tcp<T>(
    address: SocketAddr,
    flag: &str,
    then: impl FnOnce(TcpSocket) -> io::Result<T>,
) -> Result<T, Error> {
    let bind = || {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        // Allows a port to be reused while old connections are in the state TIME_WAIT.
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        then(socket)
    };
    bind().map_err(|source: io::Error| {
        let hint = match source.kind() {
            io::ErrorKind::AddrInUse => format!("; stop what listens there or choose another {flag}"),
            io::ErrorKind::AddrNotAvailable => {
                let flag = if flag == "--metrics" { flag } else { "--bind" };
                format!("; choose an address of this machine for {flag}")
            }
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
fn bind_unix(path: &Path, config: &Network) -> Result<UnixListener, Error> {
    let failed = unix_error(path);
    if is_stale_socket(path)? {
        fs::remove_file(path).map_err(&failed)?;
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

/// Returns `true` if there is a socket file without a listener at `path`, and `false` if there is nothing. Fails if
/// there is something else, or if a process listens on the socket or may do so.
fn is_stale_socket(path: &Path) -> Result<bool, Error> {
    let Ok(metadata) = fs::symlink_metadata(path) else { return Ok(false) };
    if !metadata.file_type().is_socket() {
        return Err(Error::NotASocket(path.into()));
    }
    is_stale(UnixStream::connect(path).map(drop)).map_err(unix_error(path))
}

/// Returns `true` if no program listens at a socket file, and `false` if the file has gone, according to the result of an
/// attempt to connect to it. Fails if a program listens there, or may do so, such as one of another user.
fn is_stale(connected: io::Result<()>) -> io::Result<bool> {
    let Err(error) = connected else { return Err(io::ErrorKind::AddrInUse.into()) };
    match error.kind() {
        io::ErrorKind::ConnectionRefused => Ok(true),
        io::ErrorKind::NotFound => Ok(false),
        _ => Err(error),
    }
}

fn unix_error(path: &Path) -> impl Fn(io::Error) -> Error {
    let hint = "; choose another --unixsocket";
    move |source| Error::Listen { address: path.display().to_string(), source, hint: hint.into() }
}

/// Enables TCP keepalive as in Redis: after `time` without traffic the kernel probes the machine of the client three
/// times, at intervals of a third of `time` (at least a second), and closes the connection if no probe is answered. On
/// OpenBSD the system chooses the number of probes.
pub(super) fn keep_alive(stream: &std::net::TcpStream, time: Duration) -> io::Result<()> {
    let options = TcpKeepalive::new().with_time(time).with_interval((time / 3).max(Duration::from_secs(1)));
    #[cfg(not(target_os = "openbsd"))]
    let options = options.with_retries(3);
    SockRef::from(stream).set_tcp_keepalive(&options)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::{UnixDatagram, UnixListener};

    #[test]
    fn only_a_refused_connection_shows_that_a_socket_is_stale() {
        use io::ErrorKind::{
            AddrInUse, ConnectionRefused, Interrupted, NotFound, Other, PermissionDenied, TimedOut,
            WouldBlock,
        };
        for (kind, expected) in [(ConnectionRefused, true), (NotFound, false)] {
            assert_eq!(is_stale(Err(kind.into())).unwrap(), expected, "{kind:?}");
        }
        for kind in [PermissionDenied, WouldBlock, Interrupted, TimedOut, Other] {
            assert_eq!(is_stale(Err(kind.into())).unwrap_err().kind(), kind);
        }
        assert_eq!(is_stale(Ok(())).unwrap_err().kind(), AddrInUse);
    }

    #[test]
    fn a_socket_that_another_program_uses_is_not_stale() {
        let directory = tempfile::tempdir().unwrap();
        let [none, stream, datagram] = ["none", "stream", "datagram"].map(|name| directory.path().join(name));
        assert!(!is_stale_socket(&none).unwrap());
        let listener = UnixListener::bind(&stream).unwrap();
        let _socket = UnixDatagram::bind(&datagram).unwrap();
        for path in [&stream, &datagram] {
            let error = is_stale_socket(path).unwrap_err().to_string();
            assert!(error.contains(path.to_str().unwrap()) && error.contains("--unixsocket"), "{error}");
        }
        drop(listener);
        assert!(is_stale_socket(&stream).unwrap());
    }
}

//! Accepting connections, and knowing when to stop.

use super::{Error, Inlets, Shared, worker::Incoming};
use crate::config::Config;
use std::{
    io::{self, Write},
    net::SocketAddr,
    path::PathBuf,
    sync::atomic::Ordering,
    time::Duration,
};
use tokio::{
    net::{TcpListener, UnixListener},
    signal::unix::{Signal, SignalKind, signal},
    sync::Notify,
    time::sleep,
};

/// Files the server needs beside its connections.
const OWN_FILES: u64 = 64;

/// The sockets that take connections.
pub(super) struct Listener {
    tcp: TcpListener,
    address: SocketAddr,
    unix: Option<(UnixListener, PathBuf)>,
}

impl Listener {
    pub fn bind(config: &Config) -> Result<Self, Error> {
        let address = SocketAddr::new(config.bind, config.port);
        let listen = |address: String| {
            move |source: io::Error| {
                let hint = match source.kind() {
                    io::ErrorKind::AddrInUse => "; stop what listens there or choose another --port",
                    io::ErrorKind::AddrNotAvailable => "; choose an address of this machine for --bind",
                    io::ErrorKind::PermissionDenied => {
                        "; ports below 1024 need privileges, choose another --port"
                    }
                    _ => "",
                };
                Error::Listen { address, source, hint }
            }
        };
        let tcp = std::net::TcpListener::bind(address)
            .and_then(|tcp| tcp.set_nonblocking(true).map(|()| tcp))
            .and_then(TcpListener::from_std)
            .map_err(listen(address.to_string()))?;
        let address = tcp.local_addr().map_err(listen(address.to_string()))?;
        let unix = match &config.unix_socket {
            Some(path) => Some((bind_unix(path)?, path.clone())),
            None => None,
        };
        Ok(Self { tcp, address, unix })
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// The addresses, for people.
    pub fn address(&self) -> String {
        match &self.unix {
            Some((_, path)) => format!("{} and {}", self.address, path.display()),
            None => self.address.to_string(),
        }
    }

    /// Hands each connection to the worker that has the fewest, until `stop` is done.
    pub async fn accept_until(
        &self,
        stop: impl Future<Output = ()>,
        shared: &Shared,
        inlets: &Inlets,
        max_clients: usize,
    ) {
        tokio::pin!(stop);
        // Numbered in the order in which they came; workers take them up in any.
        let mut id = 0;
        loop {
            let accepted = tokio::select! {
                () = &mut stop => return,
                accepted = self.accept() => accepted,
            };
            match accepted {
                Ok(incoming) if shared.context.connections() >= max_clients => refuse(incoming),
                Ok(incoming) => {
                    id += 1;
                    assign(id, incoming, shared, inlets);
                }
                Err(error) => {
                    // Out of files, most likely: connections that end will free some.
                    log::warn!("cannot accept a connection: {error}");
                    sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }

    async fn accept(&self) -> io::Result<Incoming> {
        let tcp = async {
            let (stream, peer) = self.tcp.accept().await?;
            Ok(Incoming::Tcp(stream.into_std()?, peer))
        };
        match &self.unix {
            None => tcp.await,
            Some((unix, path)) => tokio::select! {
                tcp = tcp => tcp,
                accepted = unix.accept() => {
                    Ok(Incoming::Unix(accepted?.0.into_std()?, path.display().to_string().into()))
                }
            },
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some((_, path)) = &self.unix {
            // Best effort: the next start finds a dead socket and replaces it.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Counted here and not by the worker, so that the next connection already sees it.
fn assign(id: u64, incoming: Incoming, shared: &Shared, inlets: &Inlets) {
    let load =
        |index: usize| shared.context.stats.get(index).map(|stats| stats.connections.load(Ordering::Relaxed));
    let Some(worker) = (0..inlets.len()).min_by_key(|&index| load(index)) else { return };
    if let (Some(stats), Some(inlet)) = (shared.context.stats.get(worker), inlets.get(worker)) {
        stats.accepted.fetch_add(1, Ordering::Relaxed);
        stats.connections.fetch_add(1, Ordering::Relaxed);
        if inlet.send((id, incoming)).is_err() {
            stats.connections.fetch_sub(1, Ordering::Relaxed);
            log::error!("worker {worker} is gone");
        }
    }
}

/// Tells a client in excess why it is not served.
fn refuse(incoming: Incoming) {
    const TOO_MANY: &[u8] = b"-ERR max number of clients reached\r\n";
    let outcome = match incoming {
        Incoming::Tcp(mut stream, _) => stream.write_all(TOO_MANY),
        Incoming::Unix(mut stream, _) => stream.write_all(TOO_MANY),
    };
    if let Err(error) = outcome {
        log::debug!("cannot refuse a client: {error}");
    }
}

/// Binds the Unix socket. A socket file that nobody listens on is left over from a process that was
/// killed, and replaced.
fn bind_unix(path: &std::path::Path) -> Result<UnixListener, Error> {
    use std::os::unix::{fs::FileTypeExt, net::UnixStream};
    let listen = |source| Error::Listen { address: path.display().to_string(), source, hint: "" };
    if let Ok(metadata) = std::fs::symlink_metadata(path) {
        if !metadata.file_type().is_socket() {
            return Err(Error::NotASocket(path.into()));
        }
        if UnixStream::connect(path).is_ok() {
            return Err(listen(io::ErrorKind::AddrInUse.into()));
        }
        std::fs::remove_file(path).map_err(listen)?;
    }
    UnixListener::bind(path).map_err(listen)
}

/// Lets the process open a file for each of `max_clients`, or tells how many clients it can have.
pub(super) fn raise_file_limit(max_clients: usize) -> usize {
    let wanted = max_clients as u64 + OWN_FILES;
    match rlimit::increase_nofile_limit(wanted) {
        Ok(granted) if granted < wanted => {
            let clients = granted.saturating_sub(OWN_FILES).max(1) as usize;
            log::warn!(
                "--maxclients is {clients}, not {max_clients}: raise the limit of open files (ulimit -n)"
            );
            clients
        }
        Ok(_) => max_clients,
        Err(error) => {
            log::warn!("cannot raise the limit of open files: {error}");
            max_clients
        }
    }
}

/// SIGINT and SIGTERM, caught from the moment this exists.
pub(super) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    pub fn new() -> io::Result<Self> {
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    /// Done at a signal or at SHUTDOWN.
    pub async fn stop(mut self, shutdown: &Notify) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            () = shutdown.notified() => {}
        }
    }
}

//! A network of its own in which the machines of a TiKV cluster have the addresses that they have outside, but are
//! reached through proxies.

use crate::cluster::machines;
use nix::sched::{CloneFlags, unshare};
use std::{
    io,
    net::{SocketAddr, TcpListener},
    panic::resume_unwind,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split},
    net::TcpStream,
    runtime::Builder,
    sync::watch,
    try_join,
};

/// Which bytes are held back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Late {
    Requests,
    Replies,
}

/// Requests that contain one text and not another, or the replies to them, are held back.
pub struct Hold {
    pub late: Late,
    pub with: Vec<u8>,
    pub without: Vec<u8>,
    /// Number of requests that were held back, or whose replies were.
    held: AtomicUsize,
    over: watch::Sender<bool>,
}

impl Hold {
    pub fn new(late: Late, with: &str, without: &str) -> Arc<Self> {
        let (with, without) = (with.into(), without.into());
        Arc::new(Self { late, with, without, held: AtomicUsize::new(0), over: watch::Sender::new(false) })
    }

    /// Returns the number of requests that were held back, or whose replies were, and holds back no more.
    pub fn end(&self) -> usize {
        self.over.send_replace(true);
        self.held.load(Ordering::Relaxed)
    }

    fn is_of(&self, bytes: &[u8]) -> bool {
        let has = |text: &[u8]| bytes.windows(text.len()).any(|bytes| bytes == text);
        let is_of = has(&self.with) && !has(&self.without);
        self.held.fetch_add(is_of.into(), Ordering::Relaxed);
        is_of
    }

    async fn wait(&self) {
        let mut over = self.over.subscribe();
        drop(over.wait_for(|over| *over).await);
    }
}

/// What the proxies do with connections.
#[derive(Clone, Default)]
pub struct Proxy {
    pub hold: Option<Arc<Hold>>,
    #[cfg(feature = "tls")]
    pub tls: Option<tokio_rustls::TlsAcceptor>,
}

impl Proxy {
    /// Runs `test` on a thread in a network of its own, where proxies stand for the machines of the cluster.
    pub fn run<T: Send>(self, test: impl FnOnce() -> T + Send) -> T {
        let (machines, (bound, listeners)) = (machines(), mpsc::channel());
        thread::scope(|scope| {
            let addresses = machines.clone();
            let inside = scope.spawn(move || {
                unshare(CloneFlags::CLONE_NEWNET).expect("a network of its own needs the rights of root");
                assert!(Command::new("ip").args(["link", "set", "lo", "up"]).status().unwrap().success());
                let bind = |address: &SocketAddr| TcpListener::bind(address).unwrap();
                bound.send(addresses.iter().map(bind).collect::<Vec<_>>()).unwrap();
                test()
            });
            if let Ok(listeners) = listeners.recv() {
                // On a thread of the network that the machines are in.
                thread::spawn(move || self.serve(listeners, machines));
            }
            inside.join().unwrap_or_else(|panic| resume_unwind(panic))
        })
    }

    fn serve(self, listeners: Vec<TcpListener>, machines: Vec<SocketAddr>) {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        runtime.block_on(async {
            for (listener, machine) in listeners.into_iter().zip(machines) {
                listener.set_nonblocking(true).unwrap();
                let listener = tokio::net::TcpListener::from_std(listener).unwrap();
                let proxy = self.clone();
                tokio::spawn(async move {
                    while let Ok((stream, _)) = listener.accept().await {
                        tokio::spawn(proxy.clone().accept(stream, machine));
                    }
                });
            }
            std::future::pending().await
        })
    }

    async fn accept(self, stream: TcpStream, machine: SocketAddr) -> io::Result<()> {
        stream.set_nodelay(true)?;
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls {
            return self.forward(tls.accept(stream).await?, machine).await;
        }
        self.forward(stream, machine).await
    }

    async fn forward(&self, stream: impl AsyncRead + AsyncWrite, machine: SocketAddr) -> io::Result<()> {
        let node = TcpStream::connect(machine).await?;
        node.set_nodelay(true)?;
        let (mut from_client, mut to_client) = split(stream);
        let (mut from_node, mut to_node) = node.into_split();
        let is_held = watch::Sender::new(false);
        let requests = async {
            let mut piece = vec![0; 64 << 10];
            loop {
                let len = from_client.read(&mut piece).await?;
                let bytes = piece.get(..len).unwrap_or_default();
                if let Some(hold) = &self.hold
                    && hold.is_of(bytes)
                {
                    match hold.late {
                        Late::Requests => hold.wait().await,
                        Late::Replies => drop(is_held.send_replace(true)),
                    }
                }
                to_node.write_all(bytes).await?;
                if len == 0 {
                    return to_node.shutdown().await;
                }
            }
        };
        let replies = async {
            let mut piece = vec![0; 64 << 10];
            loop {
                let len = from_node.read(&mut piece).await?;
                if let Some(hold) = self.hold.as_ref().filter(|_| *is_held.borrow()) {
                    hold.wait().await;
                }
                to_client.write_all(piece.get(..len).unwrap_or_default()).await?;
                to_client.flush().await?;
                if len == 0 {
                    return to_client.shutdown().await;
                }
            }
        };
        try_join!(requests, replies).map(drop)
    }
}

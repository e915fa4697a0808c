//! `--metrics`: statistics of the server over HTTP, in the text format of Prometheus.

mod text;

use super::error::Error;
use crate::command::ServerState;
use std::{collections::VecDeque, io, net::SocketAddr, sync::Arc, time::Duration};
use text::PrometheusText;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::Mutex,
    task::{JoinHandle, spawn_blocking},
    time::{sleep, timeout},
};

/// Maximum time that a client may take to send its request, and to read the reply.
const IO_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum number of connections. One more closes the oldest, so that idle clients do not keep other clients out.
const MAX_CONNECTIONS: usize = 16;

/// Maximum size of the head of an HTTP request, in bytes.
const HEAD: usize = 16 << 10;

/// Listening socket for metrics requests.
pub(super) struct Metrics(TcpListener);

impl Metrics {
    pub async fn bind(address: SocketAddr) -> Result<Self, Error> {
        let hint = "; choose another --metrics".to_owned();
        let failed = |source| Error::Listen { address: address.to_string(), source, hint };
        TcpListener::bind(address).await.map(Self).map_err(failed)
    }

    /// Returns the address for display.
    pub fn address(&self) -> String {
        self.0.local_addr().map(|address| address.to_string()).unwrap_or_default()
    }

    /// Serves requests forever. The thread that accepts connections runs this, so nothing here may block.
    pub async fn serve(&self, context: &Arc<ServerState>) {
        let (mut connections, scrape) = (VecDeque::<JoinHandle<()>>::new(), Arc::new(Mutex::new(())));
        loop {
            match self.0.accept().await {
                Ok((stream, peer)) => {
                    connections.retain(|connection| !connection.is_finished());
                    if connections.len() >= MAX_CONNECTIONS
                        && let Some(oldest) = connections.pop_front()
                    {
                        oldest.abort();
                    }
                    let (context, scrape) = (context.clone(), scrape.clone());
                    connections.push_back(tokio::spawn(async move {
                        if let Err(error) = answer(stream, context, scrape).await {
                            log::debug!("metrics for {peer}: {error}");
                        }
                    }));
                }
                Err(error) => {
                    log::debug!("cannot accept one who asks for metrics: {error}");
                    sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }
}

async fn answer(mut stream: TcpStream, context: Arc<ServerState>, scrape: Arc<Mutex<()>>) -> io::Result<()> {
    let head = timeout(IO_TIMEOUT, read_head(&mut stream)).await??;
    let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let (status, body) = match line.split(|byte| *byte == b' ').collect::<Vec<_>>()[..] {
        [b"GET", b"/metrics", _] => ("200 OK", text(context, scrape).await?),
        [b"GET", ..] => ("404 Not Found", "there is only /metrics\n".to_owned()),
        _ => ("405 Method Not Allowed", "ask by GET\n".to_owned()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        body.len()
    );
    let reply = async {
        stream.write_all(head.as_bytes()).await?;
        stream.write_all(body.as_bytes()).await?;
        stream.shutdown().await
    };
    timeout(IO_TIMEOUT, reply).await?
}

async fn read_head(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        if stream.read_buf(&mut head).await? == 0 || head.len() > HEAD {
            return Err(io::ErrorKind::InvalidData.into());
        }
    }
    Ok(head)
}

/// Returns the metrics. The engine may read its directory for them, so a blocking thread reads them; only one
/// request at a time, because on a disk that hangs every scrape would otherwise block another thread.
async fn text(context: Arc<ServerState>, scrape: Arc<Mutex<()>>) -> io::Result<String> {
    let alone = scrape.lock_owned().await;
    let read = spawn_blocking(move || {
        let text = PrometheusText::of(&context).finish();
        drop(alone);
        text
    });
    Ok(read.await?)
}

//! `--metrics`: what the server counts, over HTTP, in the text format of Prometheus.

mod text;

use super::{error::Error, shared::Shared};
use std::{io, net::SocketAddr, time::Duration};
use text::Text;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::{sleep, timeout},
};

/// How long one who asks may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Longest head of a request.
const HEAD: usize = 16 << 10;

/// Where metrics are asked for.
pub(super) struct Metrics(TcpListener);

impl Metrics {
    pub async fn bind(address: SocketAddr) -> Result<Self, Error> {
        let hint = "; choose another --metrics".to_owned();
        let failed = |source| Error::Listen { address: address.to_string(), source, hint };
        TcpListener::bind(address).await.map(Self).map_err(failed)
    }

    /// The address, for people.
    pub fn address(&self) -> String {
        self.0.local_addr().map(|address| address.to_string()).unwrap_or_default()
    }

    /// Answers one after the other, for ever.
    pub async fn serve(&self, shared: &Shared) {
        loop {
            match self.0.accept().await {
                Ok((stream, peer)) => {
                    let answered = timeout(PATIENCE, answer(stream, shared)).await;
                    if let Ok(Err(error)) = answered {
                        log::debug!("metrics for {peer}: {error}");
                    }
                }
                Err(error) => {
                    log::debug!("cannot accept one who asks for metrics: {error}");
                    sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }
}

async fn answer(mut stream: TcpStream, shared: &Shared) -> io::Result<()> {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        if stream.read_buf(&mut head).await? == 0 || head.len() > HEAD {
            return Ok(());
        }
    }
    let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let (status, body) = match line.split(|byte| *byte == b' ').collect::<Vec<_>>()[..] {
        [b"GET", b"/metrics", _] => ("200 OK", Text::of(&shared.context).finish()),
        [b"GET", ..] => ("404 Not Found", "there is only /metrics\n".to_owned()),
        _ => ("405 Method Not Allowed", "ask by GET\n".to_owned()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    stream.shutdown().await
}

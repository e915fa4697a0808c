//! `--metrics`: statistics of the server over HTTP, in the text format of Prometheus
//! (<https://prometheus.io/docs/instrumenting/exposition_formats/>).

use super::error::Error;
use crate::{
    command::{
        ServerState, process_usage,
        state::stats::{CommandTotal, HistogramSnapshot},
    },
    store::KeyStats,
};
use std::{
    collections::VecDeque,
    fmt::{Display, Write},
    io,
    net::SocketAddr,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::Mutex,
    task::{JoinHandle, spawn_blocking},
    time::{sleep, timeout},
};

/// Maximum time that an HTTP client may take to send its request, and again to read the reply.
const IO_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum number of open connections for metrics. One more closes the oldest, so that idle clients do not keep
/// other clients out.
const MAX_CONNECTIONS: usize = 16;

/// Maximum size of the request line and headers of an HTTP request for metrics, in bytes.
const HEAD: usize = 16 << 10;

/// Listening socket for HTTP requests for metrics (`--metrics`).
pub(super) struct Metrics(TcpListener);

impl Metrics {
    pub async fn bind(address: SocketAddr) -> Result<Self, Error> {
        let hint = "; choose another --metrics".to_owned();
        let failed = |source| Error::Listen { address: address.to_string(), source, hint };
        TcpListener::bind(address).await.map(Self).map_err(failed)
    }

    /// Returns the address at which metrics are served, for display.
    pub fn address(&self) -> String {
        self.0.local_addr().map(|address| address.to_string()).unwrap_or_default()
    }

    /// Serves HTTP requests for metrics forever. The thread that accepts connections runs this, so nothing here may
    /// block.
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

/// Metrics in the text format of Prometheus, as far as they are written.
#[derive(Default)]
struct PrometheusText(String);

impl PrometheusText {
    /// Returns the text with the current values of all metrics of the server.
    pub fn of(context: &ServerState) -> Self {
        let mut text = Self::default();
        text.server(context);
        text.commands(context);
        text.commits(context);
        text.process();
        text.engine(context);
        text
    }

    pub fn finish(self) -> String {
        self.0
    }

    fn server(&mut self, context: &ServerState) {
        let info = context.store.info();
        let labels = [
            ("version", env!("CARGO_PKG_VERSION")),
            ("store", info.name),
            ("library", info.library),
            ("fsync", context.store.fsync().as_str()),
        ];
        self.family("info", "gauge", "What this server is; always 1.");
        self.sample("info", &labels, 1);
        self.gauge("uptime_seconds", "Time since the start.", context.started.elapsed().as_secs_f64());
        self.gauge("connected_clients", "Open connections.", context.connections());
        self.gauge("max_clients", "Most connections.", context.live.max_clients.load(Ordering::Relaxed));
        for (name, help, value) in [
            (
                "connections_received",
                "Connections that were accepted.",
                context.total(|stats| &stats.accepted),
            ),
            ("connections_rejected", "Connections turned away.", context.rejected.load(Ordering::Relaxed)),
            ("requests", "Requests, of whatever kind.", context.total(|stats| &stats.commands)),
            ("keyspace_hits", "Keys that reads found.", context.total(|stats| &stats.keyspace_hits)),
            (
                "keyspace_misses",
                "Keys that reads did not find.",
                context.total(|stats| &stats.keyspace_misses),
            ),
            ("net_received_bytes", "Bytes received.", context.total(|stats| &stats.received)),
            ("net_sent_bytes", "Bytes sent.", context.total(|stats| &stats.sent)),
        ] {
            self.counter(name, help, value);
        }
        self.family("errors_total", "counter", "Error replies, by their first word.");
        for (code, count) in context.errors.counts() {
            self.sample("errors_total", &[("code", &code)], count);
        }
    }

    fn commands(&mut self, context: &ServerState) {
        let used: Vec<_> = context.used_commands().collect();
        type Figure = fn(&CommandTotal) -> f64;
        let figures: [(&str, &str, Figure); 4] = [
            ("commands_total", "Commands that ran.", |total| total.calls as f64),
            ("commands_failed_total", "Commands whose reply was an error.", |total| total.failed as f64),
            ("commands_rejected_total", "Commands refused before they ran.", |total| total.rejected as f64),
            ("command_seconds_total", "Time that commands took, each its share of its run.", |total| {
                total.nanos as f64 / 1e9
            }),
        ];
        for (name, help, figure) in figures {
            self.family(name, "counter", help);
            for (command, total) in &used {
                self.sample(name, &[("command", command)], figure(total));
            }
        }
        let name = "command_latency_seconds";
        self.family(name, "histogram", "From a command's turn to its reply, commit and sync included.");
        for (command, total) in &used {
            self.histogram(name, &[("command", command)], &total.latency, 1e9, |power| power);
        }
    }

    fn commits(&mut self, context: &ServerState) {
        let groups = &context.groups;
        let name = "commit_group_size";
        self.family(name, "histogram", "Clients whose writes shared a commit.");
        // A bound belongs to its bucket, and the sizes are whole numbers: the largest one below the power.
        self.histogram(name, &[], &groups.size.counts(), 1024.0, |power| power - 1.0);
        for (name, help, counts) in [
            ("commit_seconds", "Time of a commit; under always with its sync.", groups.commit.counts()),
            ("sync_seconds", "Time of a sync of everysec.", groups.sync.counts()),
        ] {
            self.family(name, "histogram", help);
            self.histogram(name, &[], &counts, 1e9, |power| power);
        }
        let store = &context.store;
        self.gauge(
            "writes_refused",
            "1 after a write or sync that failed.",
            u8::from(store.read_only_cause().is_some()),
        );
        if let Some(state) = store.sync_state() {
            let age = state.oldest_unsynced.unwrap_or_default().as_secs_f64();
            self.gauge("oldest_unsynced_seconds", "Age of the oldest write that is not synced.", age);
            self.counter("writes_delayed_by_sync", "How often writes waited for a sync.", state.delays);
        }
    }

    fn process(&mut self) {
        let memory = process_usage::memory();
        for (name, help, bytes) in [
            ("memory_used_bytes", "Heap and stacks.", memory.used),
            ("memory_resident_bytes", "Physical memory, mapped files included.", memory.resident),
            ("memory_peak_bytes", "The most physical memory there was.", memory.peak),
        ] {
            if let Some(bytes) = bytes {
                self.gauge(name, help, bytes);
            }
        }
        if let Some((system, user)) = process_usage::processor() {
            self.family("cpu_seconds_total", "counter", "Processor time.");
            self.sample("cpu_seconds_total", &[("mode", "system")], system.as_secs_f64());
            self.sample("cpu_seconds_total", &[("mode", "user")], user.as_secs_f64());
        }
    }

    /// Writes the metrics of the engine and of its store: size of the files, keys by database, counters of expired keys
    /// and corrupt reads, and the gauges that the engine itself reports. A size or a number of keys that cannot be read
    /// is left out, and so are numbers of keys that the engine does not know or that take too long to count.
    fn engine(&mut self, context: &ServerState) {
        let store = &context.store;
        if let Ok(bytes) = store.disk_size() {
            self.gauge("disk_bytes", "Size of the engine's files.", bytes);
        }
        if let Ok(Some(counts)) = store.key_counts() {
            type Figure = fn(&KeyStats) -> u64;
            let figures: [(&str, &str, Figure); 2] = [
                ("keys", "Keys, by database.", |count| count.keys),
                ("keys_expiring", "Keys that expire, by database.", |count| count.expires),
            ];
            for (name, help, figure) in figures {
                self.family(name, "gauge", help);
                for (database, count) in &counts {
                    self.sample(name, &[("db", &database.to_string())], figure(count));
                }
            }
        }
        self.counter("expired_keys", "Keys that have expired and were removed.", store.expiry().removed());
        self.counter("corrupt_reads", "Reads that failed because data are corrupt.", store.corrupt_reads());
        for figure in store.figures() {
            self.gauge(&format!("engine_{}", figure.name), figure.help, figure.value);
        }
    }

    fn gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.family(name, "gauge", help);
        self.sample(name, &[], value);
    }

    fn counter(&mut self, name: &str, help: &str, value: u64) {
        let name = format!("{name}_total");
        self.family(&name, "counter", help);
        self.sample(&name, &[], value);
    }

    fn family(&mut self, name: &str, kind: &str, help: &str) {
        self.write(format_args!("# HELP kvbench_{name} {help}\n# TYPE kvbench_{name} {kind}\n"));
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        self.write(format_args!("kvbench_{name}"));
        for (index, (label, value)) in labels.iter().enumerate() {
            let begin = if index == 0 { '{' } else { ',' };
            let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            self.write(format_args!("{begin}{label}=\"{value}\""));
        }
        let end = if labels.is_empty() { "" } else { "}" };
        self.write(format_args!("{end} {value}\n"));
    }

    /// Writes a histogram with a bucket per power of two; `unit` is the number of recorded units in one unit of the
    /// output, such as 1e9 for nanoseconds in seconds. `bound` returns the largest value of a bucket, in units of the
    /// output, from the power of two that is above it.
    fn histogram(
        &mut self,
        name: &str,
        labels: &[(&str, &str)],
        counts: &HistogramSnapshot,
        unit: f64,
        bound: fn(f64) -> f64,
    ) {
        let bucket = format!("{name}_bucket");
        let mut step = |end: &str, count: u64| {
            let labels: Vec<_> = labels.iter().copied().chain([("le", end)]).collect();
            self.sample(&bucket, &labels, count);
        };
        let count = counts.count();
        // The last bucket also holds all larger values.
        let powers: Vec<_> = counts.cumulative_buckets().collect();
        for (value, below) in powers.split_last().map_or(&[][..], |(_, powers)| powers) {
            step(&bound(*value as f64 / unit).to_string(), *below);
        }
        step("+Inf", count);
        self.sample(&format!("{name}_sum"), labels, counts.sum() as f64 / unit);
        self.sample(&format!("{name}_count"), labels, count);
    }

    fn write(&mut self, text: std::fmt::Arguments<'_>) {
        // Writing to a String cannot fail.
        let _ = self.0.write_fmt(text);
    }
}

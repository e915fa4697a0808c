#![allow(missing_docs, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "a benchmark")]
//! The whole way of a request over loopback: one connection, SET and GET in pipelines of several
//! depths, to a server over `map` in memory. Every reply is compared with what it must be.

#[path = "support/mod.rs"]
mod support;

use criterion::Throughput;
use kvbench::{
    config::{Config, Network},
    engine::{Compression, Fsync, Kind, Location, ReadAhead},
    server::{self, Access},
    store::{MAX_UNSYNCED, Store},
};
use std::{
    io::{Read, Write},
    net::TcpStream,
    sync::mpsc,
    thread::{self, JoinHandle},
};
use support::Values;

/// Bytes of a value.
const VALUE: usize = 64;

/// A server on a thread, and a connection to it.
struct Wire {
    server: JoinHandle<()>,
    stream: TcpStream,
    /// Received last.
    buffer: Vec<u8>,
}

impl Wire {
    fn open() -> Self {
        let (ready, address) = mpsc::channel();
        let server = thread::spawn(move || {
            let config = config();
            let store = Store::new(config.open(u64::MAX).expect("opens"), config.fsync);
            let report = |address: &str| ready.send(address.to_owned()).expect("someone waits");
            let access = Access::load(&config).expect("needs no file");
            let clients = config.network.max_clients;
            server::serve(store, &config, access, clients, report).expect("serves until it is told to stop");
        });
        let address = address.recv().expect("the server starts");
        let stream = TcpStream::connect(address).expect("connects");
        stream.set_nodelay(true).expect("sets an option");
        Self { server, stream, buffer: Vec::new() }
    }

    /// Sends a pipeline and fails unless exactly `replies` come back.
    fn exchange(&mut self, requests: &[u8], replies: &[u8]) {
        self.stream.write_all(requests).expect("sends");
        self.buffer.resize(replies.len(), 0);
        self.stream.read_exact(&mut self.buffer).expect("receives");
        assert!(self.buffer == replies, "other replies: {}", self.buffer.escape_ascii());
    }

    fn close(mut self) {
        self.stream.write_all(b"*1\r\n$8\r\nSHUTDOWN\r\n").expect("sends");
        self.server.join().expect("the server ends");
    }
}

fn config() -> Config {
    Config {
        kind: Kind::DEFAULT,
        location: Location::Memory,
        fsync: Fsync::No,
        max_unsynced: MAX_UNSYNCED,
        cache_size: 256 << 20,
        map_size: 1 << 30,
        read_ahead: ReadAhead::Auto,
        compression: Compression::None,
        direct_reads: false,
        network: Network::default(),
        metrics: None,
        file: None,
        slowness: Default::default(),
        disabled_commands: Vec::new(),
        threads: 1,
    }
}

/// Requests one after the other, and the replies to them.
struct Pipeline {
    requests: Vec<u8>,
    replies: Vec<u8>,
}

fn set(values: &Values, depth: usize) -> Pipeline {
    let mut pipeline = Pipeline { requests: Vec::new(), replies: b"+OK\r\n".repeat(depth) };
    for index in 0..depth {
        let start = format!("*3\r\n$3\r\nSET\r\n$16\r\n{}\r\n", support::key(index).escape_ascii());
        pipeline.requests.extend_from_slice(start.as_bytes());
        bulk(values.get(index as u64, VALUE), &mut pipeline.requests);
    }
    pipeline
}

fn get(values: &Values, depth: usize) -> Pipeline {
    let mut pipeline = Pipeline { requests: Vec::new(), replies: Vec::new() };
    for index in 0..depth {
        let request = format!("*2\r\n$3\r\nGET\r\n$16\r\n{}\r\n", support::key(index).escape_ascii());
        pipeline.requests.extend_from_slice(request.as_bytes());
        bulk(values.get(index as u64, VALUE), &mut pipeline.replies);
    }
    pipeline
}

fn bulk(value: &[u8], bytes: &mut Vec<u8>) {
    bytes.extend_from_slice(format!("${}\r\n", value.len()).as_bytes());
    bytes.extend_from_slice(value);
    bytes.extend_from_slice(b"\r\n");
}

fn main() {
    let mut criterion = support::criterion();
    let values = Values::new();
    let mut wire = Wire::open();
    // What GET reads.
    let load = set(&values, 256);
    wire.exchange(&load.requests, &load.replies);
    for (name, pipeline) in [("SET", set as fn(&Values, usize) -> Pipeline), ("GET", get)] {
        let mut group = criterion.benchmark_group(format!("loopback/{name}"));
        for depth in [1, 16, 64, 256] {
            let Pipeline { requests, replies } = pipeline(&values, depth);
            group.throughput(Throughput::Elements(depth as u64));
            group.bench_function(format!("depth {depth}"), |bencher| {
                bencher.iter(|| wire.exchange(&requests, &replies));
            });
        }
        group.finish();
    }
    wire.close();
    criterion.final_summary();
}

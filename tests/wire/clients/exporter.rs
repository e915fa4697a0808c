//! redis_exporter, by which Prometheus sees a Redis server.

use super::{has_go, installed, output};
use crate::{
    every_store::{Running, on_every_store},
    support::{PATIENCE, on_free_port},
};
use std::{
    io::{self, Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// Killed when dropped.
struct Exporter {
    process: Child,
    address: SocketAddr,
}

impl Exporter {
    fn start(program: &Path, running: &Running, port: u16) -> Self {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let server = format!("redis://{}", running.server.address);
        let mut command = Command::new(program);
        command.args(["-redis.addr", &server, "-web.listen-address", &address.to_string()]);
        let process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        Self { process, address }
    }

    /// What it has scraped. An error if it has ended, as it does if another process has its port. That process may answer
    /// until then.
    fn metrics(&mut self) -> Result<String, String> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.process.try_wait().unwrap() {
                return Err(format!("redis_exporter on {}: {status}", self.address));
            }
            match self.answer() {
                Ok(text) if text.starts_with("HTTP/1.0 200") => return Ok(text),
                answer => assert!(Instant::now() < deadline, "{answer:?}"),
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn answer(&self) -> io::Result<String> {
        let mut stream = TcpStream::connect(self.address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n")?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        Ok(text)
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Figures that it must have found, by their beginnings.
const FIGURES: &[&str] = &[
    "redis_up 1",
    "redis_exporter_last_scrape_error{err=\"\"} 0",
    "redis_instance_info{",
    "redis_connected_clients ",
    "redis_memory_used_bytes ",
    "redis_memory_max_bytes 0",
    "redis_commands_total{cmd=\"set\"} 3",
    "redis_commands_processed_total ",
    "redis_commands_failed_calls_total{cmd=\"incr\"} 1",
    "redis_commands_latencies_usec_count{cmd=\"set\"} 3",
    "redis_errors_total{err=\"ERR\"} ",
    "redis_cpu_user_seconds_total ",
    "redis_net_input_bytes_total ",
    "redis_keyspace_hits_total 0",
    "redis_keyspace_misses_total 1",
    "redis_expired_keys_total 0",
    "redis_slowlog_length ",
    "redis_uptime_in_seconds ",
    "redis_aof_enabled ",
    "redis_config_maxclients ",
];

#[test]
fn redis_exporter_scrapes_without_errors() {
    if !has_go(25, "redis_exporter") {
        return;
    }
    let dir = installed("exporter", &["go.mod", "go.sum"], |dir| {
        let build = ["build", "-o", "redis_exporter", "github.com/oliver006/redis_exporter"];
        output(Command::new("go").args(build).current_dir(dir), b"");
    });
    on_every_store(|running| {
        let mut client = running.connect();
        for words in
            [&["SET", "a", "1"][..], &["SET", "b", "x"], &["SET", "c", "3"], &["INCR", "b"], &["GET", "none"]]
        {
            client.call(words);
        }
        let program = dir.join("redis_exporter");
        let (metrics, _) = on_free_port(|port| Exporter::start(&program, running, port).metrics());
        for figure in FIGURES {
            assert!(metrics.lines().any(|line| line.starts_with(figure)), "no {figure} in {metrics}");
        }
    });
}

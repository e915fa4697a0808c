//! A redis-server of our own.

use crate::support::{Client, PATIENCE};
use std::{
    fs,
    net::{SocketAddr, TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// The password of servers that have one.
pub const PASSWORD: &str = "a long secret";

/// Killed when dropped.
pub struct Redis {
    process: Child,
    pub address: SocketAddr,
    _dir: TempDir,
}

impl Redis {
    /// Starts redis-server without persistence, and waits until it answers.
    pub fn start() -> Self {
        Self::start_on(None, &[])
    }

    /// The same with more arguments. A password among them is [`PASSWORD`].
    pub fn start_with(args: &[&str]) -> Self {
        Self::start_on(None, args)
    }

    /// The same on a copy of an append-only file.
    pub fn start_on(log: Option<&Path>, args: &[&str]) -> Self {
        let deadline = Instant::now() + PATIENCE;
        loop {
            // Redis takes no port 0, and between this and its start another may take the port.
            let address = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).unwrap();
            let mut redis = Self::spawn(address, log, args);
            while redis.process.try_wait().unwrap().is_none() {
                if redis.answers() {
                    return redis;
                }
                assert!(Instant::now() < deadline, "redis-server does not answer");
                thread::sleep(Duration::from_millis(10));
            }
            assert!(Instant::now() < deadline, "redis-server does not start");
        }
    }

    fn spawn(address: SocketAddr, log: Option<&Path>, args: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        if let Some(log) = log {
            // The name that Redis gave its only file before version 7, which later ones take over.
            fs::copy(log, dir.path().join("appendonly.aof")).unwrap();
        }
        let process = Command::new("redis-server")
            .args(["--port", &address.port().to_string(), "--bind", "127.0.0.1", "--databases", "16"])
            .args(["--save", "", "--appendonly", if log.is_some() { "yes" } else { "no" }])
            .args(args)
            .current_dir(dir.path())
            .stdout(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start redis-server ({error}); run `make setup`"));
        Self { process, address, _dir: dir }
    }

    /// Whether it is this process that answers at the port.
    fn answers(&self) -> bool {
        if TcpStream::connect(self.address).is_err() {
            return false;
        }
        let mut client = self.connect();
        // An error where there is no password.
        crate::frames::ask(&mut client, &["AUTH", PASSWORD]);
        let info = crate::frames::ask(&mut client, &["INFO"]);
        let info = String::from_utf8_lossy(&info);
        let process = format!("process_id:{}\r\n", self.process.id());
        // From the line's begin: there is an `async_loading` too.
        info.contains(&process) && info.contains("\nloading:0\r\n")
    }

    pub fn connect(&self) -> Client {
        Client::connect(self.address)
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

//! A server for each store.

use crate::support::{Client, KVBENCH, Server, info, on_free_port, stores};
use kvbench::engine::Info;
use std::{path::PathBuf, process::Command};
use tempfile::TempDir;

/// A running server over one store.
pub struct Running {
    pub store: &'static str,
    path: &'static str,
    /// Declared before its directory, so that it ends before that goes.
    pub server: Server,
    dir: TempDir,
}

impl Running {
    /// Serves `store` at `path` (`:memory:` or a name in a new directory) without syncs, which say
    /// nothing about the protocol.
    pub fn start(store: &'static str, path: &'static str, more: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let server = serve(store, path, &dir, more);
        Self { store, path, server, dir }
    }

    /// Serves `store` with `--metrics` at a port of this machine, which is returned.
    pub fn start_with_metrics(store: &'static str, path: &'static str, more: &[&str]) -> (Self, u16) {
        let dir = tempfile::tempdir().unwrap();
        let (server, port) = on_free_port(|port| {
            let mut command = command(store, path, &dir, more);
            Server::try_start_command(command.args(["--metrics", &format!("127.0.0.1:{port}")]))
        });
        (Self { store, path, server, dir }, port)
    }

    /// Starts another server over the data of one that has ended.
    pub fn restart(self) -> Self {
        let Self { store, path, server, dir } = self;
        drop(server);
        let server = serve(store, path, &dir, &[]);
        Self { store, path, server, dir }
    }

    /// Where the data are.
    pub fn data(&self) -> PathBuf {
        self.dir.path().join(self.path)
    }

    pub fn is_in_memory(&self) -> bool {
        self.path == ":memory:"
    }

    pub fn has_append_only_file(&self) -> bool {
        self.info().capabilities.rewrites_log && !self.is_in_memory()
    }

    /// What the engine says of itself.
    pub fn info(&self) -> &'static Info {
        info(self.store)
    }

    /// Shortest and longest key, if the store does not take all keys that a test would send.
    pub fn key_limits(&self) -> Option<(usize, usize)> {
        let (least, longest) = self.info().key_length;
        (least > 0 || longest <= 1 << 16).then_some((least, longest))
    }

    pub fn connect(&self) -> Client {
        self.server.connect()
    }
}

fn serve(store: &str, path: &str, dir: &TempDir, more: &[&str]) -> Server {
    Server::start_command(&mut command(store, path, dir, more))
}

fn command(store: &str, path: &str, dir: &TempDir, more: &[&str]) -> Command {
    let mut command = Command::new(KVBENCH);
    command.args(["--store", store, "--path", path, "--fsync", "no", "--threads", "2"]);
    command.current_dir(dir.path()).args(more);
    command
}

/// A server whose store cannot be what a test is about.
pub fn in_memory(more: &[&str]) -> Running {
    Running::start("map", ":memory:", more)
}

/// Calls `check` with each store at a path. Those that can also live in memory do so once more: the
/// server then runs writes on the connection's own thread.
pub fn with_every_store(check: impl Fn(Running)) {
    for store in stores() {
        let able = info(store).capabilities.in_memory;
        let paths: &[&str] = if able { &["data", ":memory:"] } else { &["data"] };
        for path in paths {
            // Shown when the test fails.
            println!("--store {store} --path {path}");
            check(Running::start(store, path, &[]));
        }
    }
}

/// The same for a check that leaves the server running.
pub fn on_every_store(check: impl Fn(&Running)) {
    with_every_store(|running| check(&running));
}

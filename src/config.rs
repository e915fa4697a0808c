//! Typed options of the server, and the checks of each against the others.

use crate::engine::{Compression, Engine, Fsync, KINDS, Kind, Location, OpenOptions, ReadAhead};
use std::{net::IpAddr, path::PathBuf};

/// Everything `kvbench serve` can be told.
#[derive(Clone, Debug)]
pub struct Config {
    /// `--store`
    pub kind: &'static Kind,
    /// `--path`
    pub location: Location,
    /// `--fsync`
    pub fsync: Fsync,
    /// `--cache-size`, in bytes.
    pub cache_size: u64,
    /// `--map-size`, in bytes.
    pub map_size: u64,
    /// `--read-ahead`
    pub read_ahead: ReadAhead,
    /// `--compression`
    pub compression: Compression,
    /// `--bind`
    pub bind: IpAddr,
    /// `--port`; 0 picks a free one.
    pub port: u16,
    /// `--unixsocket`
    pub unix_socket: Option<PathBuf>,
    /// `--threads`: workers, at least 1.
    pub threads: usize,
    /// `--maxclients`, at least 1.
    pub max_clients: usize,
}

/// Options that do not go together. Each text names the flag and what to choose instead.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum Error {
    #[error("--path :memory: does not work with --store {store}; stores that can: {able}")]
    NoMemory { store: &'static str, able: String },
    #[error("--compression {compression} does not work with --store {store}; stores that can: {able}")]
    NoCompression { store: &'static str, compression: Compression, able: String },
}

impl Config {
    /// Checks the options against what the store can do.
    pub fn check(&self) -> Result<(), Error> {
        let info = self.kind.info;
        if self.location == Location::Memory && !info.in_memory {
            return Err(Error::NoMemory { store: info.name, able: names(|kind| kind.info.in_memory) });
        }
        if !info.compression.contains(&self.compression) {
            let able = names(|kind| kind.info.compression.contains(&self.compression));
            return Err(Error::NoCompression { store: info.name, compression: self.compression, able });
        }
        Ok(())
    }

    /// Opens the store's engine.
    pub fn open(&self) -> crate::engine::Result<Box<dyn Engine>> {
        self.kind.open(&OpenOptions {
            location: self.location.clone(),
            fsync: self.fsync,
            cache_size: self.cache_size,
            map_size: self.map_size,
            read_ahead: self.read_ahead,
            compression: self.compression,
        })
    }

    /// The path as it was given.
    pub fn path(&self) -> String {
        match &self.location {
            Location::Memory => ":memory:".into(),
            Location::Path(path) => path.display().to_string(),
        }
    }

    /// CONFIG GET's names and values: Redis' where it has one for the thing, else our flag's name.
    pub fn settings(&self, port: u16, max_clients: usize) -> Vec<(&'static str, String)> {
        let logged = match self.location {
            Location::Memory => "no",
            Location::Path(_) => "yes",
        };
        let unix_socket = self.unix_socket.as_ref().map(|path| path.display().to_string());
        let mut settings = vec![
            ("appendfsync", self.fsync.to_string()),
            ("appendonly", logged.into()),
            ("bind", self.bind.to_string()),
            ("cache-size", self.cache_size.to_string()),
            ("compression", self.compression.to_string()),
            ("databases", "1".into()),
            ("map-size", self.map_size.to_string()),
            ("maxclients", max_clients.to_string()),
            ("maxmemory", "0".into()),
            ("maxmemory-policy", "noeviction".into()),
            ("path", self.path()),
            ("port", port.to_string()),
            ("read-ahead", self.read_ahead.to_string()),
            ("save", String::new()),
            ("store", self.kind.info.name.into()),
            ("threads", self.threads.to_string()),
            ("timeout", "0".into()),
            ("unixsocket", unix_socket.unwrap_or_default()),
        ];
        settings.sort_unstable();
        settings
    }
}

fn names(able: impl Fn(&Kind) -> bool) -> String {
    KINDS.iter().filter(|kind| able(kind)).map(|kind| kind.info.name).collect::<Vec<_>>().join(", ")
}

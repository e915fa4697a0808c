//! Typed options of the server, and checks of their combinations.

mod network;

use crate::engine::{
    self, Compression, DISTRIBUTED, Engine, Fsync, Kind, Location, OpenOptions, ReadAhead, files, kinds,
};
use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

pub use network::{AuthClients, ClientLimits, Network, Tls};

/// Creates the missing directories above `path`, durably.
fn create_parents(path: &Path) -> engine::Result<()> {
    let above = path.ancestors().skip(1).filter(|directory| !directory.as_os_str().is_empty());
    let missing: Vec<_> = above.take_while(|directory| !directory.exists()).collect();
    missing.into_iter().rev().try_for_each(files::create_dir)
}

/// Returns `false` if `path` is neither a regular file nor a directory, so that no store has data there. Opening such a
/// file, as a named pipe, may block.
pub fn may_hold_data(path: &Path) -> bool {
    fs::metadata(path).map_or(true, |found| found.is_file() || found.is_dir())
}

/// Default of `--map-size`, in bytes.
const DEFAULT_MAP_SIZE: u64 = 256 << 30;

/// Options of `kvbench serve`.
#[derive(Clone, Debug)]
pub struct Config {
    /// `--store`: engine.
    pub kind: &'static Kind,
    /// `--path`, or the cluster that holds the data.
    pub location: Location,
    /// `--fsync`: fsync policy.
    pub fsync: Fsync,
    /// `--max-unsynced`: age of an unsynced write from which `everysec` delays new writes.
    pub max_unsynced: Duration,
    /// `--cache-size`: memory for the engine's cache in bytes.
    pub cache_size: u64,
    /// `--map-size`: maximum size of the data file of LMDB and MDBX in bytes.
    pub map_size: u64,
    /// `--read-ahead`: read-ahead of the operating system in memory-mapped files.
    pub read_ahead: ReadAhead,
    /// `--compression`: compression of the engine's data.
    pub compression: Compression,
    /// `--direct-reads`: `true` if RocksDB reads its files past the page cache.
    pub direct_reads: bool,
    /// Options of the sockets and of access to them.
    pub network: Network,
    /// `--config`: the file to which CONFIG REWRITE writes.
    pub file: Option<PathBuf>,
    /// Options of SLOWLOG and LATENCY.
    pub slowness: Slowness,
    /// `--metrics`: address at which metrics are served; `None` for none.
    pub metrics: Option<SocketAddr>,
    /// `--disable-command`: names of disabled commands, as in the command table.
    pub disabled_commands: Vec<&'static str>,
    /// `--threads`: number of workers, at least 1.
    pub threads: usize,
}

/// Options of SLOWLOG and LATENCY.
#[derive(Clone, Copy, Debug)]
pub struct Slowness {
    /// `--slowlog-log-slower-than`, in microseconds; negative: no command is recorded.
    pub log_from: i64,
    /// `--slowlog-max-len`: maximum number of entries.
    pub log_length: usize,
    /// `--latency-monitor-threshold`, in milliseconds; 0: no event is recorded.
    pub latency_threshold_ms: i64,
}

impl Default for Slowness {
    /// Returns the defaults of the command line, which are those of Redis.
    fn default() -> Self {
        Self { log_from: 10_000, log_length: 128, latency_threshold_ms: 0 }
    }
}

/// Ports on which the server listens; 0 for none.
#[derive(Clone, Copy, Debug)]
pub struct Ports {
    /// Port for plain TCP.
    pub plain: u16,
    /// Port for TLS.
    pub tls: u16,
}

/// Invalid combination of options. Each message names the flag and an alternative.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum Error {
    #[error("--path {} holds something that is no regular file; choose another --path", .0.display())]
    NoFile(PathBuf),
    #[error("--path :memory: does not work with --store {store}; it works with {able}")]
    NoMemory { store: &'static str, able: String },
    #[error("--compression {compression} does not work with --store {store}; it works with {able}")]
    NoCompression { store: &'static str, compression: Compression, able: String },
    #[error("--direct-reads yes does not work with --store {store}; it works with {able}")]
    NoDirectReads { store: &'static str, able: String },
    #[error("{flag} does not work with --store {store}; it works with {able}")]
    NoMemoryMap { store: &'static str, flag: String, able: String },
    #[error("--store {store} needs {flag}")]
    NoNodes { store: &'static str, flag: &'static str },
    #[error(
        "--pd, --nodes, --prefix and --cluster-... do not work with --store {store}; they work with {able}"
    )]
    NoCluster { store: &'static str, able: String },
    #[error(
        "--path does not work with --store {store}, whose data are on other machines; use --prefix and {flag}"
    )]
    NoPath { store: &'static str, flag: &'static str },
    #[error(
        "--fsync {fsync} does not work with --store {store}: the cluster decides when a write is acknowledged, which is \
        after a majority of the replicas has it; leave --fsync out"
    )]
    ClusterSyncs { store: &'static str, fsync: Fsync },
    #[error("--port off: no client could connect; add --tls-port or --unixsocket")]
    NoWayIn,
    #[error(
        "--tls-auth-clients {0} needs --tls-ca, the certificate of the authority that signs client certificates"
    )]
    NoClientCa(&'static str),
}

impl Config {
    /// Checks that the store supports the options of `kvbench serve`, and that clients can connect to the server.
    pub fn check(&self) -> Result<(), Error> {
        let info = self.kind.info;
        self.check_cluster()?;
        if let Location::Path(path) = &self.location
            && !may_hold_data(path)
        {
            return Err(Error::NoFile(path.clone()));
        }
        if self.location == Location::Memory && !info.capabilities.in_memory {
            return Err(Error::NoMemory {
                store: info.name,
                able: names(|kind| kind.info.capabilities.in_memory),
            });
        }
        if !info.compression.contains(&self.compression) {
            let able = names(|kind| kind.info.compression.contains(&self.compression));
            return Err(Error::NoCompression { store: info.name, compression: self.compression, able });
        }
        if self.direct_reads && !info.capabilities.direct_reads {
            let able = names(|kind| kind.info.capabilities.direct_reads);
            return Err(Error::NoDirectReads { store: info.name, able });
        }
        self.check_memory_map()?;
        self.check_network()
    }

    /// Fails if a flag about the memory map has another value than its default, and the store has no memory map.
    fn check_memory_map(&self) -> Result<(), Error> {
        let flag = match (self.map_size, self.read_ahead) {
            _ if self.kind.info.capabilities.map_size => return Ok(()),
            (DEFAULT_MAP_SIZE, ReadAhead::Auto) => return Ok(()),
            (DEFAULT_MAP_SIZE, read_ahead) => format!("--read-ahead {read_ahead}"),
            (map_size, _) => format!("--map-size {map_size}"),
        };
        let able = names(|kind| kind.info.capabilities.map_size);
        let able = if able.is_empty() { "no store of this build".into() } else { able };
        Err(Error::NoMemoryMap { store: self.kind.info.name, flag, able })
    }

    fn check_cluster(&self) -> Result<(), Error> {
        let (store, info) = (self.kind.info.name, self.kind.info);
        match (&self.location, info.cluster_flag) {
            (Location::Cluster { nodes, .. }, Some(flag)) if nodes.is_empty() => {
                Err(Error::NoNodes { store, flag })
            }
            (Location::Cluster { .. }, None) => {
                let able = DISTRIBUTED.iter().map(|kind| kind.info.name).collect::<Vec<_>>();
                let able = if able.is_empty() { "no store of this build".into() } else { able.join(", ") };
                Err(Error::NoCluster { store, able })
            }
            (Location::Path(_) | Location::Memory, Some(flag)) => Err(Error::NoPath { store, flag }),
            _ if !info.supports(self.fsync) => Err(Error::ClusterSyncs { store, fsync: self.fsync }),
            _ => Ok(()),
        }
    }

    fn check_network(&self) -> Result<(), Error> {
        let Network { port, tls, unix_socket, .. } = &self.network;
        if port.is_none() && tls.is_none() && unix_socket.is_none() {
            return Err(Error::NoWayIn);
        }
        match tls {
            Some(Tls { ca: None, auth_clients, .. }) if *auth_clients != AuthClients::No => {
                Err(Error::NoClientCa(auth_clients.word()))
            }
            _ => Ok(()),
        }
    }

    /// Opens the engine of the store, in a directory that is created if it is missing. `max_files` is the maximum
    /// number of files that it may have open.
    ///
    /// # Errors
    ///
    /// Returns an error if the directory cannot be created, and the engine's errors.
    pub fn open(&self, max_files: u64) -> crate::engine::Result<Box<dyn Engine>> {
        if let Location::Path(path) = &self.location {
            create_parents(path)?;
        }
        self.kind.open(&OpenOptions {
            location: self.location.clone(),
            fsync: self.fsync,
            cache_size: self.cache_size,
            map_size: self.map_size,
            read_ahead: self.read_ahead,
            compression: self.compression,
            direct_reads: self.direct_reads,
            max_files,
        })
    }

    /// Returns the path of the data as given, `:memory:`, or the nodes of the cluster.
    pub fn path(&self) -> String {
        match &self.location {
            Location::Memory => ":memory:".into(),
            Location::Path(path) => path.display().to_string(),
            Location::Cluster { nodes, .. } => nodes.join(","),
        }
    }

    /// Returns the names and values of settings that CONFIG GET reports and CONFIG SET cannot change. The names
    /// are those of Redis, or of the flag if Redis has no such setting.
    pub fn settings(&self, ports: Ports) -> Vec<(&'static str, String)> {
        let logged = match self.location {
            Location::Memory => "no",
            Location::Path(_) | Location::Cluster { .. } => "yes",
        };
        let mut settings = self.network.settings();
        settings.extend([
            ("appendonly", logged.into()),
            ("cache-size", self.cache_size.to_string()),
            ("compression", self.compression.to_string()),
            ("databases", "16".into()),
            ("direct-reads", if self.direct_reads { "yes" } else { "no" }.into()),
            ("map-size", self.map_size.to_string()),
            ("max-unsynced", self.max_unsynced.as_secs().to_string()),
            ("maxmemory", "0".into()),
            ("maxmemory-policy", "noeviction".into()),
            ("path", self.path()),
            ("port", ports.plain.to_string()),
            ("read-ahead", self.read_ahead.to_string()),
            ("save", String::new()),
            ("store", self.kind.info.name.into()),
            ("threads", self.threads.to_string()),
            ("tls-port", ports.tls.to_string()),
        ]);
        settings.sort_unstable();
        settings
    }
}

fn names(able: impl Fn(&Kind) -> bool) -> String {
    kinds().filter(|kind| able(kind)).map(|kind| kind.info.name).collect::<Vec<_>>().join(", ")
}

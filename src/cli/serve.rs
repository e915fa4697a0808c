//! `kvbench serve`: flags to a [`Config`].

use super::{
    cluster, network,
    units::{TimeUnit, count, positive_size, time},
    value_parsers::{KindParser, YesNo},
};
use crate::{
    cli::logging,
    config::{self, Config},
    engine::{Compression, Fsync, Kind, Location, ReadAhead},
    store::MAX_UNSYNCED,
};
use bytesize::ByteSize;
use clap::{
    Args,
    builder::{PossibleValuesParser, TypedValueParser},
};
use log::LevelFilter;
use std::{net::SocketAddr, path::PathBuf, thread, time::Duration};

/// Options of `kvbench serve`.
#[derive(Args, Debug)]
pub struct Serve {
    /// Engine that holds the data [default: the one whose data are at --path, else map]
    #[arg(long, value_parser = KindParser, help_heading = "Store")]
    store: Option<&'static Kind>,
    /// File or directory of the data, or :memory: to keep nothing on disk [default: STORE.db]
    #[arg(long, value_name = "PATH|:memory:", help_heading = "Store")]
    path: Option<PathBuf>,
    /// The cluster that holds the data.
    #[command(flatten)]
    cluster: cluster::Cluster,
    /// When a write is acknowledged. always (true): after it is synced to stable storage. everysec: at once, with a sync every
    /// second. no (false): at once, and the engine or the operating system decides when to sync
    #[arg(long, value_enum, default_value = "always", help_heading = "Store")]
    fsync: Fsync,
    /// Under everysec, writes wait for the disk while the oldest unsynced write is older than this
    #[arg(long, value_name = "SECONDS", default_value_t = MAX_UNSYNCED.as_secs(), value_parser = time(TimeUnit::Seconds, 1..=3600), help_heading = "Store")]
    max_unsynced: u64,
    /// Memory for the engine's cache (`kvbench stores NAME` says how the engine uses it)
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = positive_size, help_heading = "Store")]
    cache_size: ByteSize,
    /// Largest size of the data file of LMDB and MDBX; reserves address space, not memory or disk
    #[arg(long, value_name = "SIZE", default_value = "256GiB", value_parser = positive_size, help_heading = "Store")]
    map_size: ByteSize,
    /// Whether the kernel reads ahead in the memory map of LMDB and MDBX; auto: only while the data are small enough
    /// for the memory
    #[arg(long, value_enum, default_value = "auto", help_heading = "Store")]
    read_ahead: ReadAhead,
    /// Compression of blocks on disk
    /// (`kvbench stores NAME` says if a store supports it)
    #[arg(long, value_enum, default_value = "none", help_heading = "Store")]
    compression: Compression,
    /// Read the files of RocksDB past the kernel's page cache: what is not in --cache-size is read from the disk
    #[arg(long, value_enum, default_value = "no", help_heading = "Store")]
    direct_reads: YesNo,

    /// Sockets, and who may use them.
    #[command(flatten)]
    network: network::Network,

    /// Worker threads [default: the number of cores]
    #[arg(long, value_name = "N", value_parser = count::<u16>(1..=1024), help_heading = "Process")]
    threads: Option<u16>,
    /// Log messages of this level and above to standard error
    #[arg(long, default_value = "info", value_parser = log_level(), help_heading = "Process")]
    pub(super) log_level: LevelFilter,
    /// Format of the log: plain text, or one JSON object per line
    #[arg(long, value_enum, default_value = "plain", help_heading = "Process")]
    pub(super) log_format: logging::Format,
    /// Serve metrics for Prometheus at http://ADDRESS/metrics. There is no password: bind a private address
    #[arg(long, value_name = "ADDRESS", help_heading = "Process")]
    metrics: Option<SocketAddr>,
    /// Read flags from a file with lines NAME VALUE; flags on the command line take precedence
    #[arg(long, value_name = "FILE", help_heading = "Process")]
    config: Option<PathBuf>,
    /// What is remembered of slow commands.
    #[command(flatten)]
    slowness: Slowness,
}

/// What is remembered of slow commands; all of it changes with CONFIG SET.
#[derive(Args, Clone, Copy, Debug)]
struct Slowness {
    /// Record commands in SLOWLOG that take at least this long; -1 for never
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 10_000, allow_negative_numbers = true, value_parser = slower_than, help_heading = "Process")]
    slowlog_log_slower_than: i64,
    /// Maximum number of entries of SLOWLOG
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = count::<usize>(0..=i64::MAX.cast_unsigned()), help_heading = "Process")]
    slowlog_max_len: usize,
    /// Record commands, commits, syncs and removals of expired keys in LATENCY that take at least this long; 0 for never
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 0, value_parser = time(TimeUnit::Milliseconds, 0..=i64::MAX.cast_unsigned()), help_heading = "Process")]
    latency_monitor_threshold: u64,
}

/// Parses `--slowlog-log-slower-than`, in microseconds; -1: no command is recorded in SLOWLOG.
fn slower_than(text: &str) -> Result<i64, String> {
    match text {
        "-1" => Ok(-1),
        _ => time(TimeUnit::Microseconds, 0..=i64::MAX.cast_unsigned())(text).map(u64::cast_signed),
    }
}

impl Slowness {
    fn config(self) -> config::Slowness {
        config::Slowness {
            log_from: self.slowlog_log_slower_than,
            log_length: self.slowlog_max_len,
            latency_threshold_ms: self.latency_monitor_threshold.cast_signed(),
        }
    }
}

/// Returns the parser of `--log-level`.
fn log_level() -> impl TypedValueParser<Value = LevelFilter> {
    PossibleValuesParser::new(["error", "warn", "info", "debug", "trace"])
        .try_map(|word| word.parse::<LevelFilter>())
}

impl Serve {
    /// Returns the engine of `--store`, or else the one whose data are at `--path`, or else the default.
    fn kind(&self) -> &'static Kind {
        let owner = || self.path.as_deref().filter(|path| config::may_hold_data(path)).and_then(Kind::owner);
        self.store.or_else(owner).unwrap_or(Kind::DEFAULT)
    }

    /// Returns the location of the data of the engine `kind`: a cluster, memory, or the path `--path` (default:
    /// `STORE.db`).
    fn location(&self, kind: &Kind) -> Location {
        if let Some(location) = self.cluster.location(kind.info, self.path.is_some()) {
            return location;
        }
        match &self.path {
            Some(path) if path.as_os_str() == ":memory:" => Location::Memory,
            Some(path) => Location::Path(path.clone()),
            None => Location::Path(format!("{}.db", kind.info.name).into()),
        }
    }

    /// Returns the server's configuration. Defaults that depend on other flags or on the machine are filled in.
    pub fn config(self) -> Config {
        let kind = self.kind();
        let location = self.location(kind);
        let (network, disabled_commands) = self.network.config();
        let cores = || thread::available_parallelism().map_or(1, usize::from);
        Config {
            file: self.config,
            slowness: self.slowness.config(),
            kind,
            location,
            fsync: self.fsync,
            max_unsynced: Duration::from_secs(self.max_unsynced),
            cache_size: self.cache_size.as_u64(),
            map_size: self.map_size.as_u64(),
            read_ahead: self.read_ahead,
            compression: self.compression,
            direct_reads: self.direct_reads == YesNo::Yes,
            network,
            metrics: self.metrics,
            disabled_commands,
            threads: self.threads.map_or_else(cores, usize::from),
        }
    }
}

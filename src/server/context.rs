//! Creation of the [`ServerState`] when a server starts.

use super::{access_control::Access, listener::Listener};
use crate::{
    command::{
        ClientRegistry, CommandTable, ConfigFile, CounterSnapshot, MonitorHub, Pause, RuntimeSettings,
        ServerState, Stats, state::stats,
    },
    config::Config,
    store::Store,
};
use std::{
    hash::{BuildHasher, Hasher, RandomState},
    sync::{Arc, Mutex, atomic::AtomicU64},
    time::Instant,
};

pub(super) fn context(
    store: Store,
    config: &Config,
    commands: &CommandTable,
    access: &Access,
    listener: &Listener,
    max_clients: usize,
) -> ServerState {
    let (ports, started) = (listener.ports(), Instant::now());
    let names = commands.names();
    let limits = config.network.client;
    ServerState {
        store: Arc::new(store),
        settings: config.settings(ports),
        file: ConfigFile::new(config.file.clone()),
        live: RuntimeSettings::new(access.password.clone(), config.network.protected_mode, max_clients)
            .with_limits(limits.output, limits.query, limits.idle),
        clients: Arc::new(ClientRegistry::default()),
        pause: Pause::default(),
        monitors: MonitorHub::default(),
        slow: stats::SlowLog::new(config.slowness.log_from, config.slowness.log_length),
        spikes: stats::LatencyEvents::new(config.slowness.latency_threshold_ms),
        errors: stats::ErrorStats::default(),
        groups: stats::CommitStats::default(),
        run_id: run_id(),
        rejected: AtomicU64::new(0),
        expired: AtomicU64::new(0),
        seen: Mutex::new([CounterSnapshot::new(started); 2]),
        port: ports.plain,
        started,
        stats: (0..config.threads).map(|_| Stats::new(names.len()).into()).collect(),
        names,
    }
}

/// Returns a random identifier of the form that Redis uses.
fn run_id() -> String {
    let number = || RandomState::new().build_hasher().finish();
    format!("{:016x}{:016x}{:08x}", number(), number(), number() as u32)
}

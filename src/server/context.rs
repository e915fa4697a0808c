//! What commands see of a server that starts.

use super::{access::Access, listener::Listener};
use crate::{
    command::{Clients, Commands, Context, Live, Monitors, Pause, Seen, Stats, stats},
    config::Config,
    store::Store,
};
use std::{
    sync::{Arc, Mutex, atomic::AtomicU64},
    time::Instant,
};

pub(super) fn context(
    store: Store,
    config: &Config,
    commands: &Commands,
    access: &Access,
    listener: &Listener,
    max_clients: usize,
) -> Context {
    let (ports, started) = (listener.ports(), Instant::now());
    let names = commands.names();
    let limits = config.network.client;
    Context {
        store: Arc::new(store),
        settings: config.settings(ports),
        live: Live::new(access.password.clone(), config.network.protected_mode, max_clients).with_limits(
            limits.output,
            limits.query,
            limits.idle,
        ),
        clients: Arc::new(Clients::default()),
        pause: Pause::default(),
        monitors: Monitors::default(),
        slow: stats::SlowLog::default(),
        errors: stats::ErrorStats::default(),
        groups: stats::GroupStats::default(),
        rejected: AtomicU64::new(0),
        seen: Mutex::new([Seen::new(started); 2]),
        port: ports.plain,
        started,
        stats: (0..config.threads).map(|_| Stats::new(names.len()).into()).collect(),
        names,
    }
}

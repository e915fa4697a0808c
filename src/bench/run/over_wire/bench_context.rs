//! State that the clients of one server share.

use crate::bench::{
    data::{Data, key_ledger::KeyLedger},
    result::Workload,
    run::pace::Clock,
};
use std::{
    net::SocketAddr,
    sync::{
        Arc, Barrier,
        atomic::{AtomicBool, AtomicU32},
    },
};

/// Server under measurement: its address, and the pairs that it should hold.
#[derive(Clone)]
pub(super) struct WireBench {
    pub address: SocketAddr,
    pub data: Arc<Data>,
    pub live: Arc<KeyLedger>,
    /// `true` while the keys are loaded: loaded values expire evenly over the time to live.
    pub is_load: bool,
}

/// State that all threads of the load generator share.
pub(super) struct Shared {
    pub bench: WireBench,
    pub clock: Clock,
    pub workloads: Vec<Arc<Workload>>,
    pub threads: u32,
    pub barrier: Barrier,
    /// Number of clients of the first workload that still run; with the last of them all workloads end.
    pub leaders: AtomicU32,
    /// `true` when all clients of the first workload have ended, a client has panicked, or a thread has failed: clients
    /// of other workloads then stop.
    pub stop: AtomicBool,
}

/// Limits at which a client stops; the first that is reached applies.
#[derive(Clone, Copy)]
pub(super) struct End {
    /// Time at which the client stops, in nanoseconds of the clock; `u64::MAX` without a time limit.
    pub time: u64,
    pub operations: u64,
    pub role: Role,
}

/// Role of a client, which determines what stops it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// Client in a warm-up or in a slice of a comparison, which stops at its own limits.
    Alone,
    /// Client of the first workload: when all of these have stopped, the measurement ends.
    Leader,
    /// Client of another workload, which stops, after at least one operation, when [`Shared::stop`] is `true`.
    Follower,
}

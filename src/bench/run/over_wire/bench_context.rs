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

/// A server under measurement, with its expected contents.
#[derive(Clone)]
pub(super) struct WireBench {
    pub address: SocketAddr,
    pub data: Arc<Data>,
    pub live: Arc<KeyLedger>,
    /// `true` for the load, whose values expire evenly over the time to live.
    pub is_load: bool,
}

/// State that all load threads share.
pub(super) struct Shared {
    pub bench: WireBench,
    pub clock: Clock,
    pub workloads: Vec<Arc<Workload>>,
    pub threads: u32,
    pub barrier: Barrier,
    /// Number of clients of the first workload that still run.
    pub leaders: AtomicU32,
    /// `true` when all clients of the first workload have ended.
    pub stop: AtomicBool,
}

/// Limits at which a client stops; the first that is reached applies.
#[derive(Clone, Copy)]
pub(super) struct End {
    /// Nanoseconds of the clock.
    pub time: u64,
    pub operations: u64,
    pub role: Role,
}

/// Role of a client in a phase.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    WarmUp,
    /// Clients of the first workload, which together determine the end of the measurement.
    Leader,
    /// Client that stops when all leaders have stopped.
    Follower,
}

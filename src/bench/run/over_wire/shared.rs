//! What the clients of one server share.

use crate::bench::{
    data::{Data, key_ledger::KeyLedger},
    result::Workload,
    run::clock::Clock,
};
use std::{
    net::SocketAddr,
    sync::{
        Arc, Barrier,
        atomic::{AtomicBool, AtomicU32},
    },
};

/// A server under measurement and what is known of its content.
#[derive(Clone)]
pub(super) struct WireBench {
    pub address: SocketAddr,
    pub data: Arc<Data>,
    pub live: Arc<KeyLedger>,
}

/// What all load threads share.
pub(super) struct Shared {
    pub bench: WireBench,
    pub clock: Clock,
    pub workloads: Vec<Arc<Workload>>,
    pub threads: u32,
    pub barrier: Barrier,
    /// Clients of the first workload that still run.
    pub leaders: AtomicU32,
    /// Set when they have ended.
    pub stop: AtomicBool,
}

/// When a client stops, whichever comes first.
#[derive(Clone, Copy)]
pub(super) struct End {
    /// Nanoseconds of the clock.
    pub time: u64,
    pub operations: u64,
    pub role: Role,
}

/// What a client's round is to the others.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    WarmUp,
    /// All of them together end the measured time.
    Leader,
    /// Stops with the leaders.
    Follower,
}

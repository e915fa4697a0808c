//! The engine that the threads call.

use crate::{
    bench::data::{Data, live::Live},
    engine::Engine,
};
use std::sync::Mutex;

/// An engine under measurement and what is known of its content.
pub struct Bench<'e> {
    /// The engine.
    pub engine: &'e dyn Engine,
    /// The pairs.
    pub data: &'e Data,
    /// Those that are there.
    pub live: &'e Live,
    /// Whether a write returns only when it is on stable storage.
    pub sync: bool,
    /// Whether something syncs every second.
    pub sync_every_second: bool,
    /// Held by the thread that writes: an engine takes one write at a time.
    pub(super) commits: Mutex<()>,
}

impl<'e> Bench<'e> {
    /// An engine that holds what `live` says.
    pub fn new(engine: &'e dyn Engine, data: &'e Data, live: &'e Live) -> Self {
        Self { engine, data, live, sync: false, sync_every_second: false, commits: Mutex::default() }
    }
}

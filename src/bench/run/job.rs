//! What a process of its own measures: the cells of one group.

use crate::{
    bench::result::{Cell, Outcome, Target},
    engine::Fsync,
};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// What a child process measures.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job {
    /// The cells, in order.
    pub cells: Vec<Cell>,
    /// A directory of its own, which it makes and removes.
    pub directory: PathBuf,
    /// Largest size of LMDB's data file, in bytes.
    pub map_size: u64,
    /// Arguments that make this program serve the store that is measured over the wire.
    pub server_arguments: Vec<String>,
    /// The same while its keys are loaded: under the policy `no`.
    pub load_arguments: Vec<String>,
    /// Whether a foreign server that holds keys is emptied first.
    pub flush_target: bool,
    /// Whether the page cache is emptied of the store's files before its cells.
    #[serde(default)]
    pub cold: bool,
    /// Values that are compared at the end; of more keys so many are drawn by chance.
    pub verified: u64,
    /// Processors of a server of ours.
    #[serde(default)]
    pub server_cpus: Option<Vec<usize>>,
    /// Process of a foreign server of this machine.
    pub target_pid: Option<u32>,
}

/// What came of one cell.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// [`Cell::id`].
    pub cell: String,
    /// What came of it.
    pub outcome: Outcome,
}

/// A target as its keys are loaded: under `no`, or an engine that keeps its policy from when it is opened would sync
/// each batch, and the others only the end.
pub fn unsynced(target: &Target) -> Target {
    Target { fsync: Some(Fsync::No.to_string()), ..target.clone() }
}

impl Job {
    /// The cells by what runs at the same time.
    pub fn steps(&self) -> impl Iterator<Item = &[Cell]> {
        self.cells.chunk_by(|_, next| next.together)
    }
}

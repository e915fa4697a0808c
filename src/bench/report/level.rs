//! What may stand in one table: cells that are reached in the same way and promise the same.

use crate::bench::result::{Access, Target};
use std::fmt;

/// Access and durability of a cell. Figures of different levels answer different questions, so they are
/// never compared and never share a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level<'a> {
    access: Access,
    durability: Durability<'a>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Durability<'a> {
    /// Nothing on disk.
    Memory,
    /// The word of `--fsync`.
    Fsync(&'a str),
    /// A server that cannot be asked.
    Unknown,
}

impl<'a> Level<'a> {
    /// The level of a target.
    pub fn of(target: &'a Target) -> Self {
        let durability = match (&target.fsync, target.persistent) {
            (None, _) => Durability::Unknown,
            // A store without files keeps no promise, whatever its `--fsync` says.
            (Some(_), false) => Durability::Memory,
            (Some(word), true) => Durability::Fsync(word),
        };
        Self { access: target.access, durability }
    }

    /// Whether an acknowledged write is on stable storage.
    pub fn is_durable(&self) -> bool {
        self.durability == Durability::Fsync("always")
    }

    /// How operations reach the engine, for people.
    pub fn access(&self) -> &'static str {
        match self.access {
            Access::InProcess => "in process",
            Access::Wire => "over the wire",
        }
    }

    /// What a write promises, for people.
    pub fn durability(&self) -> String {
        match self.durability {
            Durability::Memory => "in memory".to_owned(),
            Durability::Fsync(word) => format!("fsync {word}"),
            Durability::Unknown => "durability unknown".to_owned(),
        }
    }
}

impl fmt::Display for Level<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.access(), self.durability())
    }
}

//! Level and loss bound of a cell, which decide whether two cells may be compared.

use super::{Access, Commits, Loses, Target};
use crate::engine::{Durability, Fsync, synthetic};
use std::fmt;

/// Access, fsync policy and commit path of a cell. Metrics of different levels are never compared and never
/// share a table, because they answer different questions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    /// Access to the engine: in process or over the wire.
    pub access: Access,
    /// Commit path of writes in process: each thread by itself, or kvbench's group commit.
    pub commits: Commits,
    /// Durability of an acknowledged write; `None` for a server whose fsync policy cannot be determined.
    pub durability: Option<Durability>,
}

impl Level {
    /// Returns the level of a target.
    pub fn of(target: &Target) -> Self {
        let named = |fsync: &Fsync| target.fsync.as_deref() == Some(fsync.as_str());
        let durability = match Fsync::ALL.into_iter().find(named) {
            None => None,
            // Without files nothing is durable, whatever the fsync policy is.
            Some(_) if !target.persistent => Some(Durability::Memory),
            Some(fsync) => Some(Durability::Files(fsync)),
        };
        Self { access: target.access, commits: target.commits, durability }
    }

    /// Returns `true` if an acknowledged write is durable.
    pub fn is_durable(self) -> bool {
        self.durability == Some(Durability::Files(Fsync::Always))
    }

    /// Returns the access to the engine and its commit path as text for people.
    pub fn access_words(self) -> &'static str {
        match (self.access, self.commits) {
            (Access::InProcess, Commits::Own) => "in process",
            (Access::InProcess, Commits::Groups) => "in process, kvbench groups",
            (Access::Wire, _) => "over the wire",
        }
    }

    /// Returns the durability of an acknowledged write as text for people.
    pub fn durability_words(self) -> String {
        match self.durability {
            Some(Durability::Memory) => "in memory".into(),
            Some(Durability::Files(fsync)) => format!("fsync {fsync}"),
            None => "durability unknown".into(),
        }
    }

    /// Returns the name of the durability that is part of a cell's id.
    pub fn durability_word(self) -> &'static str {
        self.durability.map_or("unknown", Durability::word)
    }
}

/// Returns `true` if the metrics of two targets may be ranked: the level is equal and, for work that writes
/// (`writes`), the loss bound. Under fsync policy `no`, one engine loses the writes that the kernel had not
/// yet written to the disk, another all since its start. Reads lose nothing.
pub fn may_be_ranked(one: &Target, other: &Target, writes: bool) -> bool {
    Level::of(one) == Level::of(other) && (!writes || one.loses == other.loses)
}

/// Returns the loss bound of a target from the result file or, without one, from this build's engine of that
/// name. Returns `None` if neither is known.
pub fn loses(target: &Target) -> Option<Loses> {
    let known = || {
        let info = synthetic::info(&target.store).filter(|_| target.address.is_none())?;
        Some(info.loss_at(Level::of(target).durability?).into())
    };
    target.loses.or_else(known)
}

/// Returns the loss bound from the result file as text, or `None` if the file has none.
pub fn loses_words(target: &Target) -> Option<String> {
    let Loses { kill, power_cut } = target.loses?;
    Some(match kill == power_cut {
        true => format!("a kill or a power cut loses {kill}"),
        false => format!("a kill loses {kill}, a power cut {power_cut}"),
    })
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.access_words(), self.durability_words())
    }
}

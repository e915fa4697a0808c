//! What a figure may be compared with: cells that are reached in the same way and promise the same.

use super::{Access, Commits, Loses, Target};
use crate::engine::{Durability, Fsync, synthetic};
use std::fmt;

/// Access, durability and way to commit of a cell. Figures of different levels answer different questions, so they are
/// never compared and never share a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    /// How operations reach the engine.
    pub access: Access,
    /// Who commits.
    pub commits: Commits,
    /// What a write promises; `None` of a server that cannot be asked.
    pub durability: Option<Durability>,
}

impl Level {
    /// The level of a target.
    pub fn of(target: &Target) -> Self {
        let named = |fsync: &Fsync| target.fsync.as_deref() == Some(fsync.as_str());
        let durability = match Fsync::ALL.into_iter().find(named) {
            None => None,
            // A store without files keeps no promise, whatever its `--fsync` says.
            Some(_) if !target.persistent => Some(Durability::Memory),
            Some(fsync) => Some(Durability::Files(fsync)),
        };
        Self { access: target.access, commits: target.commits, durability }
    }

    /// Whether an acknowledged write is on stable storage.
    pub fn is_durable(self) -> bool {
        self.durability == Some(Durability::Files(Fsync::Always))
    }

    /// How operations reach the engine, for people.
    pub fn access_words(self) -> &'static str {
        match (self.access, self.commits) {
            (Access::InProcess, Commits::Own) => "in process",
            (Access::InProcess, Commits::Groups) => "in process, kvbench groups",
            (Access::Wire, _) => "over the wire",
        }
    }

    /// What a write promises, for people.
    pub fn durability_words(self) -> String {
        match self.durability {
            Some(Durability::Memory) => "in memory".into(),
            Some(Durability::Files(fsync)) => format!("fsync {fsync}"),
            None => "durability unknown".into(),
        }
    }

    /// What a write promises, as a part of a cell's id.
    pub fn durability_word(self) -> &'static str {
        self.durability.map_or("unknown", Durability::word)
    }
}

/// Whether figures of one target and of the other may be ranked: they are of one level, and a fault takes as
/// much of both. Under `no` one engine loses what the system had not written, another all since it started.
pub fn may_be_ranked(one: &Target, other: &Target) -> bool {
    Level::of(one) == Level::of(other) && one.loses == other.loses
}

/// What a fault takes of a target; of a result that does not say, what this build knows of its engine.
pub fn loses(target: &Target) -> Option<Loses> {
    let known = || {
        let info = synthetic::info(&target.store).filter(|_| target.address.is_none())?;
        Some(info.loss_at(Level::of(target).durability?).into())
    };
    target.loses.or_else(known)
}

/// What a result says of it, in words.
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

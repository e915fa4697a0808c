//! Level (access, commit path and fsync policy) and loss bound of a cell, which decide whether two cells may be
//! compared.

use super::{Access, Commits, Loses, Target};
use crate::engine::{Durability, Fsync, LossClass, synthetic};
use std::fmt;

/// Level of a cell: access, commit path and fsync policy. Metrics of different levels are never compared and never
/// share a table, because they answer different questions. If the same `--may-lose` chose the policies of two cells,
/// different policies make no different levels.
#[derive(Clone, Copy, Debug)]
pub struct Level {
    /// Access to the engine: in process or over the wire.
    pub access: Access,
    /// Commit path of writes in process: each thread by itself, or kvbench's group commit.
    pub commits: Commits,
    /// Place of acknowledged writes: memory, or files that are synced by an fsync policy; `None` for a server whose
    /// fsync policy is not known.
    pub durability: Option<Durability>,
    /// Allowed loss by which the fsync policy was chosen (`--may-lose`); `None` without the flag.
    pub may_lose: Option<Loses>,
}

impl PartialEq for Level {
    fn eq(&self, other: &Self) -> bool {
        (self.access, self.commits, self.may_lose) == (other.access, other.commits, other.may_lose)
            && (self.may_lose.is_some() || self.durability == other.durability)
    }
}

impl Eq for Level {}

impl Level {
    /// Returns the level (access, commit path and fsync policy) of a cell's target.
    pub fn of(target: &Target) -> Self {
        let durability = target.fsync.map(|fsync| match target.persistent {
            true => Durability::Files(fsync),
            // Without files nothing is durable, whatever the fsync policy is.
            false => Durability::Memory,
        });
        Self { access: target.access, commits: target.commits, durability, may_lose: target.may_lose }
    }

    /// Returns `true` if acknowledged writes are durable: the store has files and the fsync policy `always`.
    pub fn is_durable(self) -> bool {
        self.durability == Some(Durability::Files(Fsync::Always))
    }

    /// Returns `true` if the store has files and the fsync policy `everysec`.
    pub fn is_everysec(self) -> bool {
        self.durability == Some(Durability::Files(Fsync::EverySec))
    }

    /// Returns the access to the engine and its commit path as text for people: "in process, group commit".
    pub fn access_words(self) -> &'static str {
        match (self.access, self.commits) {
            (Access::InProcess, Commits::Own) => "in process",
            (Access::InProcess, Commits::Groups) => "in process, group commit",
            (Access::Wire, _) => "over the wire",
        }
    }

    /// Returns the access and the commit path as they are in the ids of cells (`in-process`), which are the same in
    /// every version.
    pub fn access_id(self) -> &'static str {
        match (self.access, self.commits) {
            (Access::InProcess, Commits::Own) => "in-process",
            (Access::InProcess, Commits::Groups) => "in-process-kvbench-groups",
            (Access::Wire, _) => "over-the-wire",
        }
    }

    /// Returns the fsync policy as text for people ("fsync always", "in memory"), or the allowed loss if `--may-lose`
    /// chose the policy.
    pub fn durability_words(self) -> String {
        if let Some(most) = self.may_lose {
            return at_most(most);
        }
        match self.durability {
            Some(Durability::Memory) => "in memory".into(),
            Some(Durability::Files(fsync)) => format!("fsync {fsync}"),
            None => "durability unknown".into(),
        }
    }

    /// Returns the part of a cell's id for its durability: the fsync policy, `memory` without files, or `unknown`.
    pub fn durability_word(self) -> &'static str {
        self.durability.map_or("unknown", Durability::word)
    }
}

/// Returns `true` if the metrics of two targets may be ranked: access, commit path and fsync policy are equal and, for
/// work that writes (`writes`), the loss bound. If both targets have the policy that `--may-lose` chose, policy and
/// loss bound may differ. Under fsync policy `no`, one engine loses the writes that the kernel had not yet written to
/// the disk, another all since its start. Reads lose nothing.
pub fn may_be_ranked(one: &Target, other: &Target, writes: bool) -> bool {
    let loses_the_same = one.may_lose.is_some() || one.loses == other.loses;
    Level::of(one) == Level::of(other) && (!writes || loses_the_same)
}

/// Returns an upper bound on the lost writes as text: "loses at most a second".
pub fn at_most(most: Loses) -> String {
    let words = |class| match class {
        LossClass::Nothing => "nothing",
        LossClass::Seconds => "at most a second",
        LossClass::Unwritten => "at most what the system had not written",
        LossClass::Buffer => "at most the engine's buffer",
        LossClass::Everything => "possibly everything",
    };
    match most.kill == most.power_cut {
        true => format!("loses {}", words(most.kill)),
        false => {
            format!("a kill loses {}, a power cut {}", words(most.kill), words(most.power_cut))
        }
    }
}

/// Returns the class of a loss in few words, for a column of a table: "a second".
pub fn brief(class: LossClass) -> &'static str {
    match class {
        LossClass::Nothing => "nothing",
        LossClass::Seconds => "a second",
        LossClass::Unwritten => "unwritten pages",
        LossClass::Buffer => "engine's buffer",
        LossClass::Everything => "everything",
    }
}

/// Returns the loss that a fsync policy is meant to allow: nothing under `always`, a second under `everysec`, what the
/// system had not written under `no`; everything without files.
pub fn of_policy(durability: Durability) -> Loses {
    let both = |class| Loses { kill: class, power_cut: class };
    match durability {
        Durability::Files(Fsync::Always) => both(LossClass::Nothing),
        Durability::Files(Fsync::EverySec) => both(LossClass::Seconds),
        Durability::Files(Fsync::No) => both(LossClass::Unwritten),
        Durability::Memory => both(LossClass::Everything),
    }
}

impl Loses {
    /// Returns `true` if the loss is at most `most`, both after a kill and after a power cut.
    pub fn is_within(self, most: Self) -> bool {
        self.kill <= most.kill && self.power_cut <= most.power_cut
    }

    /// Returns the reason why the loss exceeds `most`: "a power cut may lose the whole database". Empty if the loss is
    /// within `most`.
    pub fn excess(self, most: Self) -> String {
        let (what, class) = match (self.power_cut > most.power_cut, self.kill > most.kill) {
            (true, true) if self.kill == self.power_cut => ("a kill or a power cut", self.kill),
            (true, _) => ("a power cut", self.power_cut),
            (false, true) => ("a kill", self.kill),
            (false, false) => return String::new(),
        };
        let words = match class {
            LossClass::Nothing => "nothing",
            LossClass::Seconds => "the last second",
            LossClass::Unwritten => "what the system had not written",
            LossClass::Buffer => "the engine's buffer",
            LossClass::Everything => "the whole database",
        };
        format!("{what} may lose {words}")
    }
}

/// Returns the loss bound of a target: the one in the result file or, without it and unless the target is an external
/// server, that of this build's engine of the target's name. Returns `None` if neither is known.
pub fn loses(target: &Target) -> Option<Loses> {
    let known = || {
        let info = synthetic::info(&target.store).filter(|_| target.address.is_none())?;
        Some(info.loss_at(Level::of(target).durability?).into())
    };
    target.loses.or_else(known)
}

/// Returns the loss bound in the result file as text: "a kill or a power cut loses nothing". `None` if the file has
/// none.
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

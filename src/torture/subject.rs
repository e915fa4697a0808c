//! Who is tortured, by what, and how long.

use super::{disk::Cut, promise::AllowedLoss};
use std::{fmt, path::PathBuf, time::Duration};

/// What strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The process is killed.
    Kill,
    /// The machine loses its power.
    Power,
    /// The disk is full for a while.
    Full,
    /// Writes and syncs fail for a while, then the machine loses its power.
    Eio,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Kill => "kill",
            Self::Power => "power",
            Self::Full => "full",
            Self::Eio => "eio",
        })
    }
}

/// A server to be tortured.
#[derive(Clone, Debug)]
pub struct Subject {
    /// Store, or name of the program.
    pub name: String,
    /// The library behind it, or the format of its log; empty for a program.
    pub library: String,
    /// The policy; empty for a program.
    pub fsync: String,
    /// The program, and its words; `{dir}` and `{port}` in them are filled in.
    pub program: PathBuf,
    /// Its words.
    pub arguments: Vec<String>,
    /// Whether it is kvbench: then its first start is struck too, and it must not end by itself.
    pub is_ours: bool,
    /// What a kill may take.
    pub kill: AllowedLoss,
    /// What a power cut may take.
    pub power_cut: AllowedLoss,
    /// The command that plays a round of it again: what stands before mode and seed,
    pub repeat_command: String,
    /// and behind.
    pub command_line: String,
}

/// What to do.
#[derive(Clone, Debug)]
pub struct Options {
    /// Each by itself.
    pub subjects: Vec<Subject>,
    /// Each for every subject.
    pub modes: Vec<Mode>,
    /// Rounds of each.
    pub rounds: u64,
    /// No round starts later than this.
    pub time: Option<Duration>,
    /// Of the first round; each further one has the next number.
    pub seed: u64,
    /// Clients that write.
    pub clients: u32,
    /// Kinds of power cuts.
    pub cuts: Vec<Cut>,
    /// Where rounds are, and those that failed remain.
    pub directory: PathBuf,
    /// The result file.
    pub output: Option<PathBuf>,
}

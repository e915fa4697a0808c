//! Options of a crash test: the servers under test, the faults, and the duration.

use super::{allowed_loss::AllowedLoss, disk::Cut};
use clap::ValueEnum;
use std::{fmt, path::PathBuf, time::Duration};

/// Injected fault (`--mode`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// The server process is killed.
    Kill,
    /// The disk loses its power.
    Power,
    /// The disk is full for a while, then the process is killed or the disk loses its power.
    Full,
    /// Writes and syncs fail for a while, then the disk loses its power.
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

/// Server under test.
#[derive(Clone, Debug)]
pub struct Subject {
    /// Name of the store, or of another program.
    pub name: String,
    /// Library of the engine, or format of its AOF; empty for another program.
    pub library: String,
    /// Fsync policy; empty for another program.
    pub fsync: String,
    /// Path of the program.
    pub program: PathBuf,
    /// Arguments of the program, in which `{dir}` and `{port}` are replaced.
    pub arguments: Vec<String>,
    /// `true` for kvbench, whose starts are interrupted too, and which must not exit by itself.
    pub is_ours: bool,
    /// Loss that a kill may cause.
    pub kill: AllowedLoss,
    /// Loss that a power cut may cause.
    pub power_cut: AllowedLoss,
    /// Command that repeats a round of this subject, up to the flags of mode and seed.
    pub repeat_command: String,
    /// Rest of that command, after the flags of mode and seed.
    pub command_line: String,
}

/// Options of a crash test.
#[derive(Clone, Debug)]
pub struct Options {
    /// Servers under test, one after the other.
    pub subjects: Vec<Subject>,
    /// Injected faults; every subject is tested with each.
    pub modes: Vec<Mode>,
    /// Number of rounds for each subject and mode.
    pub rounds: u64,
    /// Time for each subject and mode after which no round starts; `None` for no limit.
    pub time: Option<Duration>,
    /// Seed of the first round; each further round has the next number.
    pub seed: u64,
    /// Number of clients that write.
    pub clients: u32,
    /// Kinds of power cuts, of which each cut is a random one.
    pub cuts: Vec<Cut>,
    /// Directory of the rounds; the files of failed rounds are kept there.
    pub directory: PathBuf,
    /// Result file; `None` for none.
    pub output: Option<PathBuf>,
}

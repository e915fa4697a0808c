//! Options of a crash test: the servers under test, the faults, and the duration.

use super::{allowed_loss::AllowedLoss, disk::Cut};
use clap::ValueEnum;
use std::{fmt, path::PathBuf, time::Duration};

/// Fault that a crash test injects (`--mode`).
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

/// Server under test: kvbench with a store, or another program.
#[derive(Clone, Debug)]
pub struct Subject {
    /// Name of the store under test, or of another program.
    pub name: String,
    /// Library of the store's engine, or format of its AOF; empty for another program.
    pub library: String,
    /// Fsync policy of the store under test; empty for another program.
    pub fsync: String,
    /// Path of the program of the server under test.
    pub program: PathBuf,
    /// Arguments of the program, in which `{dir}` and `{port}` are replaced by the directory and the port of the round.
    pub arguments: Vec<String>,
    /// `true` for kvbench, whose starts are interrupted too, and which must not exit by itself.
    pub is_ours: bool,
    /// Acknowledged writes that the server under test may lose by a kill.
    pub kill: AllowedLoss,
    /// Acknowledged writes that the server under test may lose by a power cut.
    pub power_cut: AllowedLoss,
    /// First part of the command that repeats a failed round of this server; the flags of fault and seed follow it.
    pub repeat_command: String,
    /// Last part of the command that repeats a failed round, behind the flags of fault and seed.
    pub command_line: String,
}

/// Options of `kvbench torture`: servers under test, faults, rounds and files.
#[derive(Clone, Debug)]
pub struct Options {
    /// Servers under test, one after the other.
    pub subjects: Vec<Subject>,
    /// Injected faults; every server under test is tested with each.
    pub modes: Vec<Mode>,
    /// Number of rounds of each server under test with each injected fault.
    pub rounds: u64,
    /// Time for each server under test and injected fault after which no round starts; `None` for no limit.
    pub time: Option<Duration>,
    /// Seed of the first round of each server and fault; each further round has the next number.
    pub seed: u64,
    /// Number of clients that write to the server at the same time.
    pub clients: u32,
    /// Kinds of power cuts, of which each cut is a random one.
    pub cuts: Vec<Cut>,
    /// Directory in which each round has a directory; those of failed rounds are kept.
    pub directory: PathBuf,
    /// File to which results are added; `None` for none.
    pub output: Option<PathBuf>,
}

#[cfg(test)]
impl Subject {
    /// Returns a server under test that may lose nothing and cannot be started.
    pub(super) fn for_tests() -> Self {
        Self {
            name: "subject".into(),
            library: String::new(),
            fsync: String::new(),
            program: PathBuf::new(),
            arguments: Vec::new(),
            is_ours: true,
            kill: AllowedLoss::Nothing,
            power_cut: AllowedLoss::Nothing,
            repeat_command: String::new(),
            command_line: String::new(),
        }
    }
}

#[cfg(test)]
impl Options {
    /// Returns the options of one round in `directory`, without servers under test.
    pub(super) fn for_tests(directory: &std::path::Path) -> Self {
        Self {
            subjects: Vec::new(),
            modes: Vec::new(),
            rounds: 1,
            time: None,
            seed: 1,
            clients: 1,
            cuts: Cut::ALL.to_vec(),
            directory: directory.into(),
            output: None,
        }
    }
}

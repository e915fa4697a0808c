//! Programs that `kvbench duel` compares.

use super::Side;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Description that a kvbench program prints of itself (`kvbench describe-build`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BuildDescription {
    /// Version of the messages between a run and the process that measures a job. Programs with different versions
    /// cannot be measured together.
    pub protocol: u32,
    /// Version of kvbench.
    pub version: String,
    /// Git commit of the program, with `+` if the sources had uncommitted changes.
    pub commit: Option<String>,
    /// Version of the compiler.
    pub rustc: Option<String>,
    /// Library and version of each engine of the program, by the engine's name.
    pub libraries: BTreeMap<String, String>,
}

/// One of the programs of a duel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Program {
    /// Absolute path of the program.
    pub path: String,
    /// CRC-32 of the file.
    pub checksum: u32,
    /// Crate whose version was chosen for this program, with that version: `redb 4.3.0`. Absent for a program that was
    /// named by its path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chosen: Option<String>,
    /// Description that the program printed of itself.
    pub build: BuildDescription,
}

/// Programs of a duel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Duel {
    /// The program before a change.
    pub old: Program,
    /// The program after the change.
    pub new: Program,
}

impl Duel {
    /// Returns the program of a side.
    pub fn program(&self, side: Side) -> &Program {
        match side {
            Side::Old => &self.old,
            Side::New => &self.new,
        }
    }
}

//! `kvbench duel`: decides whether a change made a store slower.
//!
//! Two kvbench programs are compared in blocks and slices, as stores are in an interleaved comparison: an instance is
//! a process of one of the programs with its own load. `programs` checks that both understand the messages of this
//! program, or `crate_versions` builds them; [`run`](crate::bench::run) measures, `finding` tests each metric, `gate` those
//! that hardly vary, and `answer` and `text` say what was found.

mod answer;
mod crate_source;
mod crate_versions;
mod finding;
mod gate;
mod programs;
mod text;

pub use answer::{Answer, answer};
pub use crate_source::CrateSource;
pub use crate_versions::{CrateVersions, stores_of_crate};
pub use programs::{Error, check_programs_of, check_stores, common_stores, describe};
pub use text::text;

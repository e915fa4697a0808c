//! Description of a kvbench program: what it measures, and which messages it understands.

use super::job_messages::PROTOCOL;
use crate::{
    bench::result::BuildDescription,
    engine::{FAULTY, kinds},
};

/// Name of the hidden subcommand that prints the description of a program.
pub const SUBCOMMAND: &str = "describe-build";

/// Describes this program.
pub fn describe_this_program() -> BuildDescription {
    let own = kinds().filter(|kind| kind.program.is_none());
    let stores = own.chain(FAULTY).map(|kind| kind.info);
    BuildDescription {
        protocol: PROTOCOL,
        version: env!("CARGO_PKG_VERSION").into(),
        commit: option_env!("KVBENCH_COMMIT").map(Into::into),
        rustc: option_env!("KVBENCH_RUSTC").map(Into::into),
        libraries: stores.map(|info| (info.name.into(), info.library.into())).collect(),
    }
}

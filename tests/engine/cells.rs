//! The engines of this build under every policy.

use kvbench::{engine::KINDS, testing::engine_case};

pub use kvbench::testing::engine_case::{EngineCase, Open, error_at, names, open_at, options, scratch};

/// Runs `test` over every engine that has files, under every policy.
pub fn for_each_on_disk(mut test: impl FnMut(EngineCase)) {
    KINDS.iter().for_each(|kind| engine_case::for_each_on_disk(kind, &mut test));
}

/// Runs `test` over every engine, also in memory where it can.
pub fn for_each(mut test: impl FnMut(EngineCase)) {
    KINDS.iter().for_each(|kind| engine_case::for_each(kind, &mut test));
}

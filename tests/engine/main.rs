//! What every engine must do, run over all of this build, under every policy, on disk and in memory
//! where it can. An engine that is added to `KINDS` is tested without a line changed here.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "this crate is all tests; clippy sees only the functions with #[test]"
)]

mod cells;
mod compaction;
mod info;
mod limits;
mod paths;

kvbench::engine_tests!(kvbench::engine::KINDS);

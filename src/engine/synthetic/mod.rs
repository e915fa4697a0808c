//! Synthetic engines of the benchmark and of tests. They are in no list of stores, but can be selected by name.

#[cfg(all(feature = "bench", target_os = "linux"))]
pub mod calibration;
#[cfg(feature = "bench")]
mod expected_data;
#[cfg(feature = "fault-injection")]
mod faulty;
#[cfg(feature = "bench")]
mod noop;
#[cfg(feature = "bench")]
mod open;
#[cfg(all(feature = "fault-injection", feature = "sled"))]
mod sled_flush_only;
#[cfg(all(feature = "bench", feature = "fault-injection"))]
mod slowed;
#[cfg(feature = "fault-injection")]
mod twins;

#[cfg(feature = "bench")]
pub use expected_data::Expected;
#[cfg(feature = "bench")]
pub use noop::NOTHING;
#[cfg(feature = "bench")]
pub use open::{info, is_reference, kind, open};

use crate::engine::Kind;

/// Engines for tests, which are in no list of stores: engines that fail, wait, panic or lose writes on purpose, and
/// engines of the build under a second name. Empty without the feature `fault-injection`.
pub const FAULTY: &[Kind] = &[
    #[cfg(feature = "fault-injection")]
    faulty::FAILING,
    #[cfg(feature = "fault-injection")]
    faulty::WRONG_VALUE,
    #[cfg(feature = "fault-injection")]
    faulty::FORGETFUL,
    #[cfg(feature = "fault-injection")]
    faulty::SLOW_SYNC,
    #[cfg(feature = "fault-injection")]
    faulty::SLOW_SCAN,
    #[cfg(feature = "fault-injection")]
    faulty::SLOW_READ,
    #[cfg(feature = "fault-injection")]
    faulty::PANICKING,
    #[cfg(feature = "fault-injection")]
    twins::BTREE,
    #[cfg(all(feature = "fault-injection", feature = "redb"))]
    twins::REDB,
    #[cfg(all(feature = "fault-injection", feature = "sled"))]
    sled_flush_only::KIND,
];

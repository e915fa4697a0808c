//! Synthetic engines of the benchmark and of tests. They are in no list of stores, but can be selected by name.

#[cfg(all(feature = "bench", target_os = "linux"))]
pub mod calibration;
#[cfg(feature = "bench")]
mod expected;
#[cfg(feature = "fault-injection")]
pub(super) mod faulty;
#[cfg(feature = "bench")]
mod noop;
#[cfg(feature = "bench")]
mod open;
#[cfg(all(feature = "fault-injection", feature = "sled"))]
pub(super) mod sled_flush_only;
#[cfg(all(feature = "bench", feature = "fault-injection"))]
mod slowed;

#[cfg(feature = "bench")]
pub use {
    expected::Expected,
    noop::NOTHING,
    open::{info, is_reference, kind, open},
};

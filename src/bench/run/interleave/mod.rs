//! Interleaved comparison: stores take turns, and while one runs all others are stopped.

pub mod slice;
pub mod stop;

//! Interleaved comparison: stores take turns, and while one runs all others are stopped.

pub mod block;
pub mod instance;
pub mod pilot;
pub mod slice;
pub mod stop;

//! What the user wants, as cells.
//!
//! [`options`] are the user's, typed; [`suites`] turn them into cells; [`ability`] says which of these there
//! cannot be; [`workload`] is what one cell does.

pub mod ability;
pub mod options;
pub mod suites;
pub mod workload;

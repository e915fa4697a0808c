//! The cells that a user's options ask for.
//!
//! [`options`] are the user's, typed; [`suites`] turns them into cells; [`ability`] finds the cells that a
//! target cannot run; [`workload`] defines the operations of one cell.

pub mod ability;
pub mod options;
pub mod suites;
pub mod workload;

//! Plan of a benchmark run: the cells (one engine, one workload, one setting each) that a user's options ask for.
//!
//! [`options`] are the user's, typed; [`suites`] turns them into cells; [`unsupported`] finds the cells that a
//! target cannot run; [`workload`] defines the operations of one cell.

pub mod options;
pub mod suites;
pub mod unsupported;
pub mod workload;

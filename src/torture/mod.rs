//! Crash tests (`kvbench torture`): a server under load is killed, or its disk loses power or fails, and the
//! acknowledged writes are looked for afterwards.
//!
//! In the order in which a run passes them:
//!
//! - [`run`]: the rounds of each server under test with each injected fault; [`results`] holds their results.
//! - `round`: a store from its first start through its injected faults.
//! - `test_directory` and [`disk`]: the directory of the data, and a file system that can lose unsynced data, be
//!   full, or fail.
//! - `server` and `load_client`: the process, and the clients that write to it.
//! - `history`: the states of the store that the replies allow, within the [`allowed_loss`].
//!
//! The module starts server processes and speaks RESP to them; it knows nothing of their inside, so that it can
//! test any program. [`results`] is in every build, all other modules need the feature `torture` and Linux.

#[cfg(all(feature = "torture", target_os = "linux"))]
pub mod allowed_loss;
#[cfg(all(feature = "torture", target_os = "linux"))]
pub mod disk;
#[cfg(all(feature = "torture", target_os = "linux"))]
mod history;
#[cfg(all(feature = "torture", target_os = "linux"))]
mod load_client;
#[cfg(all(feature = "torture", target_os = "linux"))]
mod options;
pub mod results;
#[cfg(all(feature = "torture", target_os = "linux"))]
mod round;
#[cfg(all(feature = "torture", target_os = "linux"))]
mod rounds;
#[cfg(all(feature = "torture", target_os = "linux"))]
mod server;
#[cfg(all(feature = "torture", target_os = "linux"))]
mod test_directory;

#[cfg(all(feature = "torture", target_os = "linux"))]
pub use options::{Mode, Options, Subject};
#[cfg(all(feature = "torture", target_os = "linux"))]
pub use rounds::{Error, run};

//! Crash tests (`kvbench torture`): a server under load is killed, or its disk loses power or fails, and the acknowledged
//! writes are looked for afterwards.
//!
//! In the order in which a run passes them:
//!
//! - [`run`]: the rounds of each subject in each mode; [`results`] keeps what came of them.
//! - `round`: a store from its first start through some faults.
//! - `test_directory` and [`disk`]: where its data are; a file system that can lose what was not synced, be full, or fail.
//! - `server` and `load_client`: the process, and the clients that write to it.
//! - `history`: which states of the store the replies allow, as far as [`promise`] says.
//!
//! It starts server processes and speaks RESP to them; it knows nothing of what is inside, so that it can be aimed at any
//! program. [`results`] is in every build, all others are behind the feature `torture`.

#[cfg(all(feature = "torture", target_os = "linux"))]
pub mod disk;
#[cfg(all(feature = "torture", target_os = "linux"))]
mod history;
#[cfg(all(feature = "torture", target_os = "linux"))]
mod load_client;
#[cfg(all(feature = "torture", target_os = "linux"))]
pub mod promise;
pub mod results;
#[cfg(all(feature = "torture", target_os = "linux"))]
mod round;
#[cfg(all(feature = "torture", target_os = "linux"))]
mod rounds;
#[cfg(all(feature = "torture", target_os = "linux"))]
mod server;
#[cfg(all(feature = "torture", target_os = "linux"))]
mod subject;
#[cfg(all(feature = "torture", target_os = "linux"))]
mod test_directory;

#[cfg(all(feature = "torture", target_os = "linux"))]
pub use rounds::{Error, run};
#[cfg(all(feature = "torture", target_os = "linux"))]
pub use subject::{Mode, Options, Subject};

//! kvbench: one Redis-protocol server in front of many embedded key-value engines, and one benchmark over the same
//! engines.
//!
//! Most users need only the program (see README.md). The crate is for programs that embed an engine behind one
//! interface, add an engine of their own, or measure one.
//!
//! # Open an engine
//!
//! [`engine`] has the trait [`Engine`](engine::Engine), the list [`KINDS`](engine::KINDS) of the engines in this
//! build, and the loss bounds of each engine:
//!
//! ```
//! use kvbench::engine::{Batch, Fsync, Kind, Location, OpenOptions};
//! use std::ops::ControlFlow;
//!
//! let kind = Kind::find("btree").expect("it is in every build");
//! assert_eq!(kind.info.loss(Fsync::Always).power_cut.words, "nothing");
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path().join("try.db");
//! let engine = kind.open(&OpenOptions::new(Location::Path(path), Fsync::Always))?;
//!
//! let mut batch = Batch::default();
//! batch.put(b"city", b"Praha");
//! batch.put(b"river", b"Vltava");
//! engine.write(&batch, true)?; // durable from here on
//!
//! let mut found = Vec::new();
//! engine.read(&[b"city", b"hill"], &mut |index, value| {
//!     found.push((index, value.map(<[u8]>::to_vec)));
//!     ControlFlow::Continue(())
//! })?;
//! assert_eq!(found, [(0, Some(b"Praha".to_vec())), (1, None)]);
//! engine.close()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Embed the store
//!
//! [`store`] commits the writes of many threads together, with one sync for all waiting threads. The reads and
//! writes of a commit are atomic on every engine. A thread's commit request is a [`Work`](store::Work):
//!
//! ```
//! use kvbench::{
//!     engine::{Fsync, Kind, Location, OpenOptions},
//!     store::{Error, Store, Txn, Work},
//! };
//!
//! /// Appends a letter to the value of a key.
//! struct Append {
//!     letter: u8,
//!     outcome: Result<(), Error>,
//! }
//!
//! impl Work for Append {
//!     fn run<'g>(&'g mut self, txn: &mut Txn<'g>) {
//!         let letter = self.letter;
//!         self.outcome = (|| {
//!             let mut value = txn.read(b"word", |value| value.unwrap_or_default().to_vec())?;
//!             value.push(letter);
//!             let value = txn.copy_to_arena(&value);
//!             txn.put(b"word", value)
//!         })();
//!     }
//!     fn fail(&mut self, error: &Error) {
//!         self.outcome = Err(Error::ReadOnly(error.to_string()));
//!     }
//!     fn bytes(&self) -> usize {
//!         8
//!     }
//! }
//!
//! let engine = Kind::find("map").expect("it is in every build");
//! let engine = engine.open(&OpenOptions::new(Location::Memory, Fsync::No))?;
//! let store = Store::new(engine, Fsync::No);
//! let mut group = (*b"abc").map(|letter| Append { letter, outcome: Ok(()) });
//! store.commit(&mut group); // one batch of the engine; a `CommitQueue` gathers such groups from many threads
//! assert!(group.iter().all(|work| work.outcome.is_ok()));
//! store.read(&[b"word"], &mut |_, value| {
//!     assert_eq!(value, Some(&b"abc"[..]));
//!     std::ops::ControlFlow::Continue(())
//! })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The modules
//!
//! The modules from `server` to [`engine`] are listed in the order in which a request passes through them. A module
//! uses only modules below it, with these exceptions: `server` uses `config`, `command` uses `resp`, and the modules
//! below [`engine`] use modules from `resp` to [`engine`]. Modules without a link belong to the program. They are
//! public only because the program, its tests and its fuzz targets are separate crates, and they change without notice.
//!
//! - `cli`: the command line and its subcommands.
//! - `config`: the validated settings of a server.
//! - `server`: sockets, workers and connections; an orderly start and shutdown.
//! - `resp`: decoder of requests and encoder of replies.
//! - `command`: the table of commands, and a small function for each.
//! - [`store`]: which reads and writes are executed together, when writes are synced, when the store becomes read-only.
//! - [`engine`]: the storage engines, behind one trait.
//! - `bench` (feature `bench`): benchmark of the engines, in process or through the server.
//! - `torture` (feature `torture`, on Linux): crash tests of a server under load, and their results.
//! - `top`: monitor of a server, over its protocol.
//! - `interrupt`: the signals that end `bench` and `torture` in order.
//! - [`testing`]: conformance tests that every engine must pass.
//!
//! Crates with an engine of their own use [`main`], [`engine`], [`testing`] and [`engine_tests!`]: see
//! `docs/own-engine.md`. Before 1.0, a new minor version may change these items.

#[cfg(not(unix))]
compile_error!("kvbench needs Unix: files that are replaced while they are open, and Unix sockets");

#[cfg(feature = "bench")]
pub mod bench;
#[doc(hidden)]
pub mod cli;
#[doc(hidden)]
pub mod command;
#[doc(hidden)]
pub mod config;
pub mod engine;
#[cfg(any(feature = "bench", all(feature = "torture", target_os = "linux")))]
mod interrupt;
#[doc(hidden)]
pub mod resp;
#[doc(hidden)]
pub mod server;
pub mod store;
pub mod testing;
#[cfg(feature = "top")]
#[doc(hidden)]
pub mod top;
#[doc(hidden)]
pub mod torture;

pub use cli::dispatch::main;

//! Measuring: workloads over the engines, in process or over the wire, with results a sceptic can check.
//!
//! A pipeline; each stage uses only those below it:
//!
//! - [`compare`] and [`report`]: what it means. Two runs cell by cell; tables, charts, answers.
//! - [`reproduce`]: experiments of others, done again, beside what they published.
//! - [`calibrate`]: whether it can be believed. Every column of a result against a known truth.
//! - [`run`]: doing it. Goes over the cells, a process of its own for each group of them, threads over an
//!   engine or clients over a connection, and records what came of it.
//! - [`plan`]: what the user wants, as cells.
//! - [`data`]: what to write, and what to expect of a read.
//! - [`result`]: the format of all that, its files and the figures in them.
//!
//! A benchmark drives any [`Engine`](crate::engine::Engine), and compares every value that it reads with what was
//! written:
//!
//! ```
//! use kvbench::{
//!     bench::{
//!         data::{Data, key_ledger::KeyLedger},
//!         result::{Operation, Workload},
//!         run::{in_process::driver::Bench, process::Usage},
//!     },
//!     engine::{Fsync, Kind, Location, OpenOptions},
//! };
//!
//! let engine = Kind::find("map").expect("it is in every build");
//! let engine = engine.open(&OpenOptions::new(Location::Memory, Fsync::No))?;
//! let workload = Workload::of([(Operation::Get, 0.9), (Operation::Update, 0.1)], 5000);
//!
//! let data = Data::new(&workload)?;
//! let live = KeyLedger::new(data.capacity());
//! let bench = InProcessBench::new(&*engine, &data, &live);
//! bench.run(&[&workload.load()], ProcessUsage::default);
//! for phase in bench.run(&[&workload], ProcessUsage::of_self) {
//!     let measured = phase.measurement(&workload, 1);
//!     assert!(measured.is_sound(), "{:?}", measured.first_fault);
//!     assert_eq!(measured.operations, 5000);
//!     println!("{:.0} operations/s, p99 {} us", measured.throughput, measured.latency.p99_us);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#[cfg(target_os = "linux")]
pub mod calibrate;
pub mod compare;
pub mod data;
pub mod plan;
pub mod report;
pub mod reproduce;
pub mod result;
pub mod run;

/// The JSON schema of result files, published as `docs/result.schema.json`.
pub fn schema() -> String {
    let schema = schemars::schema_for!(result::Run);
    serde_json::to_string_pretty(&schema).unwrap_or_default() + "\n"
}

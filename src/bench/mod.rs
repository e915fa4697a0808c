//! Benchmarks: workloads over the engines, in process or over the wire, with results that a sceptical reader
//! can check.
//!
//! The modules form a pipeline; each stage uses only those below it:
//!
//! - [`compare`] and [`report`]: interpretation of results. Comparison of two runs cell by cell; tables, charts.
//! - [`duel`]: two kvbench programs, measured by turns.
//! - [`reproduce`]: published experiments, run again, with the published numbers beside the new ones.
//! - [`calibrate`]: check of every metric of a result against an engine with known costs.
//! - [`run`]: execution. One process for each job (cells that use the same data), threads over an engine or clients
//!   over connections, and records of the measurements.
//! - [`plan`]: the cells (one engine, one workload, one setting each) that the user's options ask for.
//! - [`data`]: pairs to write, and the values that a read may return.
//! - [`result`]: format of result files, and the metrics in them.
//!
//! A benchmark drives any [`Engine`](crate::engine::Engine), and compares every value that it reads with what was
//! written:
//!
//! ```
//! use kvbench::{
//!     bench::{
//!         data::{Data, key_ledger::KeyLedger},
//!         result::{Operation, Workload},
//!         run::{in_process::driver::InProcessBench, process_usage::ProcessUsage},
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
pub mod duel;
pub mod plan;
pub mod report;
pub mod reproduce;
pub mod result;
pub mod run;

/// Returns the JSON schema of result files, published as `docs/result.schema.json`.
pub fn schema() -> String {
    let schema = schemars::schema_for!(result::Run);
    serde_json::to_string_pretty(&schema).unwrap_or_default() + "\n"
}

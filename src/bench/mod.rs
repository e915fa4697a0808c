//! Measuring: workloads over the engines, in process or over the wire, with results a sceptic can check.
//!
//! In the order in which a run passes them:
//!
//! - [`options`] and [`suites`]: what the user wants, as cells.
//! - [`level`]: which figures may be compared at all; [`ability`]: which there cannot be.
//! - [`run`]: goes over the cells, keeps the result file; [`environment`] says where.
//! - [`job`]: a process of its own for each group of cells; [`process`] says what that used.
//! - `local` and `wire`: the cells of a job in process, and over a connection.
//! - [`driver`]: threads over an engine; [`workload`], [`keys`], [`data`] and [`live`] tell them what to
//!   do and what to expect, [`recorder`] what came of it.
//! - [`result`]: the format of all that. [`table`]: the same for people.
//! - [`files`] reads results back, [`measure`] and [`spread`] are the figures in them over the repetitions,
//!   [`report`] (tables, charts, answers) and [`compare`] (two runs, cell by cell) tell what they mean.
//! - [`mod@reference`]: the engine that does nothing, for the price of the harness.

pub mod ability;
pub mod compare;
pub mod data;
pub mod driver;
pub mod environment;
pub mod files;
pub mod job;
pub mod keys;
pub mod level;
pub mod live;
mod local;
pub mod measure;
pub mod numbers;
pub mod options;
pub mod process;
pub mod recorder;
pub mod reference;
pub mod report;
pub mod result;
pub mod run;
pub mod spread;
pub mod suites;
pub mod table;
mod wire;
pub mod workload;

/// The JSON schema of result files, published as `docs/result.schema.json`.
pub fn schema() -> String {
    let schema = schemars::schema_for!(result::Run);
    serde_json::to_string_pretty(&schema).unwrap_or_default() + "\n"
}

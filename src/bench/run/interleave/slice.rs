//! Slices of a store's running time, and the messages about them between a comparison and the process of a store.
//!
//! The comparison writes a [`Request`] as a line of JSON to the standard input of the process, which answers with a
//! [`Reply`] as a line of JSON on its standard output.

use crate::bench::result::Workload;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::{
    io::{self, BufRead, Write},
    sync::{
        Mutex, OnceLock, PoisonError,
        mpsc::{self, Receiver},
    },
    thread,
};

/// Width of a bin of [`SliceReport::bins`], in nanoseconds: one millisecond.
pub const BIN: u64 = 1_000_000;

/// Limits of a slice of a store's running time; the first that is reached applies.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Slice {
    /// Maximum length of the slice in nanoseconds.
    pub nanoseconds: u64,
    /// Maximum number of operations in the slice, of all threads together; `None` without such a limit.
    pub operations: Option<u64>,
    /// `true` for a warm-up slice: its operations are not measured, and keys are neither inserted nor deleted.
    pub is_warm_up: bool,
    /// `true` if the store does its deferred work after the slice and syncs its files, before another store runs.
    pub writes_back: bool,
    /// `true` if no other store runs until the device is idle, as always after write-back.
    #[serde(default)]
    pub awaits_device: bool,
}

impl Slice {
    /// Returns the maximum number of operations that one thread or client of a workload executes in the slice.
    pub fn operations_of(&self, workload: &Workload, thread: u32) -> u64 {
        let share = |all: u64| Workload { operations: Some(all), ..workload.clone() }.share(thread);
        self.operations.and_then(share).unwrap_or(u64::MAX)
    }
}

/// Measurement of a slice of a store's running time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SliceReport {
    /// Time from the start of the slice to the end of its last operation, in nanoseconds.
    pub nanoseconds: u64,
    /// Number of operations that ended in each millisecond of the slice.
    pub bins: Vec<u64>,
    /// Duration of the store's longest operation in all slices so far, without warm-ups, in nanoseconds; in the report
    /// of a warm-up, of that warm-up alone.
    pub longest: u64,
    /// `true` if an operation, the deferred work or the sync failed, so that the store is not measured further.
    pub has_failed: bool,
    /// Time of the deferred work and of the sync after the slice, in nanoseconds; `None` if none followed.
    pub write_back: Option<u64>,
    /// `true` if the device was still busy when the time to wait for it after the slice (`--quiet-wait`) was over.
    pub left_device_busy: bool,
    /// Mean number of CPUs that the store's processes kept busy in the slice and in the deferred work after it; `None` if it is
    /// not known. The controller adds it.
    #[serde(skip)]
    pub busy_cpus: Option<f64>,
}

impl SliceReport {
    /// Returns the number of operations of the slice.
    pub fn operations(&self) -> u64 {
        self.bins.iter().sum()
    }
}

/// Request from a comparison to the process of a store.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Request {
    /// Request to run the store for a slice of time, and then to wait for the next request.
    Slice(Slice),
    /// Request to end the measurement: the process verifies the data, closes the store and writes the reports of its
    /// cells.
    Finish,
}

/// Reply of the process of a store to a request. The reports of its cells follow the last reply.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Reply {
    /// Reply that the store is loaded and waits for its first slice of time.
    Ready,
    /// Reply to a request for a slice: the store has run for it, and all threads of the driver wait again.
    Slice(SliceReport),
}

/// Requests to this process that [`listen`] has read.
static REQUESTS: OnceLock<Mutex<Receiver<Request>>> = OnceLock::new();

/// Reads requests from `lines` until its end, on the thread of the caller. [`next_request`] returns them.
pub fn listen(lines: impl BufRead) {
    let (sender, receiver) = mpsc::channel();
    let _set_once = REQUESTS.set(Mutex::new(receiver));
    for line in lines.lines().map_while(Result::ok) {
        if let Ok(request) = serde_json::from_str(&line) {
            // Fails if the job is over; the end of the lines still ends the process.
            let _ = sender.send(request);
        }
    }
}

/// Waits for the next request that [`listen`] reads. Does not return if its input has ended: the thread that listened then
/// ends the process.
pub fn next_request() -> Request {
    let requests = REQUESTS.wait().lock().unwrap_or_else(PoisonError::into_inner);
    requests.recv().unwrap_or_else(|_| {
        loop {
            thread::park();
        }
    })
}

/// Writes a message to the stream as a line of JSON, with one write call. Returns the number of its bytes.
///
/// # Errors
///
/// Returns the error of the stream.
pub fn send(mut to: impl Write, message: &impl Serialize) -> io::Result<u64> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    to.write_all(&line)?;
    to.flush()?;
    Ok(line.len() as u64)
}

/// Returns the message of type `M` in a line of JSON, or `None` if the line holds another message or text.
pub fn parse<M: DeserializeOwned>(line: &str) -> Option<M> {
    serde_json::from_str(line).ok()
}

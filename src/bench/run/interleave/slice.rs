//! Slices of a store's running time, and the messages about them between a comparison and the process of a store.
//!
//! The comparison writes a [`Request`] as a line of JSON to the standard input of the process, which answers with a
//! [`Reply`] as a line of JSON on its standard output.

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::{
    io::{self, BufRead, Write},
    sync::{
        Mutex, OnceLock, PoisonError,
        mpsc::{self, Receiver},
    },
};

/// Width of a bin of [`SliceReport::bins`], in nanoseconds.
pub const BIN: u64 = 1_000_000;

/// Limits of a slice; the first that is reached applies.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Slice {
    /// Maximum length in nanoseconds.
    pub nanoseconds: u64,
    /// Maximum number of operations of all threads together; `None` without such a limit.
    pub operations: Option<u64>,
    /// `true` for a warm-up: its operations are not measured, and keys are neither inserted nor deleted.
    pub is_warm_up: bool,
}

/// Measurement of a slice.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SliceReport {
    /// Time from the start to the end of the last operation, in nanoseconds.
    pub nanoseconds: u64,
    /// Number of operations that ended in each millisecond of the slice.
    pub bins: Vec<u64>,
    /// Time of the longest operation of all slices so far, in nanoseconds.
    pub longest: u64,
    /// `true` if an operation failed, so that the store is not measured further.
    pub has_failed: bool,
}

impl SliceReport {
    /// Returns the number of operations of the slice.
    pub fn operations(&self) -> u64 {
        self.bins.iter().sum()
    }
}

/// Request to the process of a store.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Request {
    /// Runs for a slice.
    Slice(Slice),
    /// Ends the measurement, verifies the data and closes the store.
    Finish,
}

/// Answer of the process of a store. The reports of its cells follow the last one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Reply {
    /// The store is loaded, and waits for its first slice.
    Ready,
    /// All threads of the driver are parked after a slice.
    Slice(SliceReport),
}

/// Requests that [`listen`] has read.
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

/// Waits for a request. Returns [`Request::Finish`] if nothing is read any more.
pub fn next_request() -> Request {
    let requests = REQUESTS.wait().lock().unwrap_or_else(PoisonError::into_inner);
    requests.recv().unwrap_or(Request::Finish)
}

/// Writes a message as a line.
///
/// # Errors
///
/// Returns the error of the stream.
pub fn send(mut to: impl Write, message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    to.write_all(&line)?;
    to.flush()
}

/// Returns the message of a line, or `None` if the line is another message.
pub fn parse<M: DeserializeOwned>(line: &str) -> Option<M> {
    serde_json::from_str(line).ok()
}

//! Cells over the wire: kvbench's load generator against a server process, of kvbench or of any program that
//! speaks RESP.

mod bench_context;
mod clients;
mod other_program;
mod pacing_timer;
mod pipelined_client;
mod server;
mod slices;
mod unmeasured_requests;

use super::{
    job_messages::{Job, Report, unsynced},
    phase_result,
    process_usage::{Memory, ProcessUsage},
    resource_meter::{IN_TURNS, Meter, NOT_AWAITED, drop_unequal_sizes},
    verification::{Verified, compare_count},
};
use crate::bench::{
    data::{Data, key_ledger::KeyLedger},
    result::{Cell, CellKind, Measurement, Outcome, Target, Workload},
};
use bench_context::WireBench;
pub(super) use other_program::{find as find_program, version as program_version};
use server::Server;
pub(super) use server::{check_target, empty_target, kill_server};
use std::{sync::Arc, time::Instant};

/// Largest pipeline depth of each client while keys are loaded or verified; [`LOAD_CLIENTS`] is the number of clients.
const LOAD_PIPELINE: u32 = 256;
const LOAD_CLIENTS: u32 = 8;

/// Measures the cells of a job over the wire. Returns a report for each, or the text of an error that leaves all cells
/// unmeasured.
pub(super) fn measure(job: &Job) -> Result<Vec<Report>, String> {
    let Some(first) = job.cells.first() else { return Ok(Vec::new()) };
    let data = Data::new(&first.workload).map_err(|error| format!("cannot read the data: {error}"))?;
    let data = Arc::new(data);
    let live = KeyLedger::new(data.capacity()).with_ttl(first.workload.ttl_ms, first.workload.keys);
    let live = Arc::new(live);
    let (server, load_seconds) = loaded(job, first, &data, &live)?;
    let bench = WireBench { address: server.address, data, live: Arc::clone(&live), is_load: false };
    let mut measurements = Vec::new();
    for cells in job.steps() {
        measurements.extend(step(&server, &bench, cells, job.in_slices)?);
    }
    let reopens = can_start_again(&first.target);
    let mut verified = if reopens { None } else { Some(bench.verify(&first.workload, job.verified)?) };
    let stopped = server.stop()?;
    let mut reopen_seconds = None;
    if reopens {
        let begin = Instant::now();
        let server = Server::start(job, &first.target, &job.server_arguments)?;
        // The time to open an empty store says nothing about recovery.
        reopen_seconds = Some(begin.elapsed().as_secs_f64()).filter(|_| live.count() > 0);
        verified =
            Some(WireBench { address: server.address, ..bench }.verify(&first.workload, job.verified)?);
        server.stop()?;
    }
    let last = job.steps().last().unwrap_or_default();
    // Each step has one measurement for each of its cells.
    for (measurement, cell) in measurements.iter_mut().zip(&job.cells) {
        measurement.load_seconds = load_seconds;
        phase_result::warn_of_long_load(measurement, &cell.workload);
        measurement.close_seconds = stopped.seconds;
        measurement.reopen_seconds = reopen_seconds;
        measurement.closed_size = stopped.size.filter(|_| last.contains(cell));
        measurement.warnings.extend(stopped.warning.clone());
        if let Some(verified) = &verified {
            verified.add_to(measurement);
        }
    }
    // In a comparison all stores write equally often.
    if !job.in_slices {
        drop_unequal_sizes(measurements.iter_mut().zip(&job.cells));
    }
    let reports = job.cells.iter().zip(measurements);
    Ok(reports.map(|(cell, measurement)| Report::of(cell, Outcome::Measured(measurement))).collect())
}

/// Measures cells that run at the same time on one server; with `in_slices` one cell, in the slices that another process
/// requests. Returns one measurement for each cell.
fn step(
    server: &Server,
    bench: &WireBench,
    cells: &[Cell],
    in_slices: bool,
) -> Result<Vec<Measurement>, String> {
    if cells.iter().any(|cell| cell.workload.step != CellKind::Operations) {
        return Err("over the wire only operations can be measured".into());
    }
    let workloads: Vec<_> = cells.iter().map(|cell| &cell.workload).collect();
    let (live, keys_before) = (&bench.live, bench.live.count());
    let settle = || server.settle();
    let meter = Meter::new(server.pid, server.files.as_ref(), &settle, Memory::default());
    let not_own_settling = if server.settles() { in_slices.then_some(IN_TURNS) } else { Some(NOT_AWAITED) };
    let meter = meter.without_settle_time(not_own_settling);
    let usage = || {
        let used = meter.read();
        let timer_syncs = cells.first().and_then(|cell| server.timer_syncs(&cell.target));
        let expires = bench.live.expirations.is_some();
        let expired_keys = expires.then(|| unmeasured_requests::expired_keys(server.address)).flatten();
        ProcessUsage { timer_syncs, expired_keys, ..used }
    };
    let phases = match (in_slices, workloads.as_slice()) {
        (true, [workload]) => vec![bench.serve_slices(workload, &meter, &usage)?],
        _ => bench.run(&workloads, &usage)?,
    };
    let usage = phases.first().map(|phase| phase.usage.clone()).unwrap_or_default();
    // Before the count: a store that scans all keys to count them does a part of its deferred work meanwhile.
    let used = meter.finish(&usage)?;
    let keys = server.count_keys();
    let exact = cells.iter().all(|cell| cell.workload.has_exact_keys());
    let alive = match (&live.expirations, &keys) {
        (Some(_), Ok(keys)) => *keys,
        _ => live.count(),
    };
    let mut measurements = Vec::new();
    for (phase, cell) in phases.into_iter().zip(cells) {
        // In a comparison, the slower stores need longer for equal work.
        let seconds = cell.workload.seconds.filter(|_| !in_slices);
        let workload = Workload { seconds, ..cell.workload.clone() };
        let mut measurement = phase.measurement(&workload, cells.len());
        (measurement.keys_before, measurement.keys_after) = (Some(keys_before), Some(alive));
        // The outcome of a failed write is unknown; the failure is counted already.
        if keys.is_err() || (exact && measurement.errors == 0) {
            compare_count(&mut measurement, &keys, live.count());
        }
        measurements.push(measurement);
    }
    used.charge(&mut measurements, cells, alive);
    Ok(measurements)
}

/// Returns `true` if the job starts the server itself, and its store has files, so that a new server can open them.
fn can_start_again(target: &Target) -> bool {
    target.persistent && target.address.is_none()
}

/// Returns a server that holds the keys of the first cell, and the seconds of their load (`None` without keys). If the
/// job starts the server and the store has files, the load runs under the fsync policy `no`, as in process: by a server
/// that ends before the server with the cells' policy starts. Otherwise the returned server itself is loaded.
fn loaded(
    job: &Job,
    first: &Cell,
    data: &Arc<Data>,
    live: &Arc<KeyLedger>,
) -> Result<(Server, Option<f64>), String> {
    let (target, workload) = (&first.target, &first.workload);
    let start = || Server::start(job, target, &job.server_arguments);
    if workload.keys == 0 {
        return Ok((start()?, None));
    }
    let again = can_start_again(target);
    let server = if again { Server::start(job, &unsynced(target), &job.load_arguments)? } else { start()? };
    let (data, live) = (Arc::clone(data), Arc::clone(live));
    let bench = WireBench { address: server.address, data, live, is_load: true };
    let begin = Instant::now();
    bench.load(workload)?;
    server.sync()?;
    let seconds = Some(begin.elapsed().as_secs_f64());
    if !again {
        return Ok((server, seconds));
    }
    server.stop().map_err(|error| format!("after the load, {error}"))?;
    Ok((start()?, seconds))
}

/// Returns the pipeline depth of each client while the keys of `workload` are loaded or verified: the pipelines of all
/// clients together have no more bytes than a batch of the load in process.
fn load_pipeline(workload: &Workload) -> u32 {
    (workload.pairs_of_load_batch() / f64::from(LOAD_CLIENTS)).clamp(1.0, f64::from(LOAD_PIPELINE)) as u32
}

impl WireBench {
    /// Reads values that the server should hold, at most `most` of them chosen at random, and compares them.
    fn verify(&self, workload: &Workload, most: u64) -> Result<Verified, String> {
        if self.live.count() == 0 {
            return Ok(Verified::default());
        }
        let reads = workload.verification(self.live.span(), most);
        let reads = Workload { threads: LOAD_CLIENTS, batch: load_pipeline(workload), ..reads };
        Ok(Verified::of(self.run(&[&reads], &ProcessUsage::default)?))
    }

    fn load(&self, workload: &Workload) -> Result<(), String> {
        let batch = load_pipeline(workload);
        let load = Workload { threads: LOAD_CLIENTS, batch, ..workload.load() };
        for phase in self.run(&[&load], &ProcessUsage::default)? {
            if let Some(fault) = phase.recorder.measurement(phase.start).first_fault {
                return Err(format!("load: {fault}"));
            }
        }
        Ok(())
    }
}

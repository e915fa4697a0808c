//! Opening and loading of the store of a job.

use super::{noop_data, opened_store::Opened};
use crate::{
    bench::{
        data::{Data, key_ledger::KeyLedger},
        result::{Cell, Target, Workload},
        run::{job_messages::Job, process_usage},
    },
    engine::{Engine, Fsync, Location, OpenOptions, synthetic},
};
use std::{sync::Arc, time::Instant};

pub(super) fn open_options(job: &Job, target: &Target) -> OpenOptions {
    let location = match target.persistent {
        true => Location::Path(job.directory.join("store")),
        false => Location::Memory,
    };
    OpenOptions {
        cache_size: target.cache_bytes,
        map_size: job.map_size,
        max_files: u64::MAX,
        compression: target.compression,
        read_ahead: target.read_ahead.unwrap_or_default(),
        ..OpenOptions::new(location, fsync(target))
    }
}

/// Returns the fsync policy to open the store with; `no` in memory.
pub(super) fn fsync(target: &Target) -> Fsync {
    target.fsync.filter(|_| target.persistent).unwrap_or(Fsync::No)
}

/// Opens the store of a cell, which has files, and loads its keys. Returns the engine, opened again under `options`.
pub(super) fn load_open_store(
    options: &OpenOptions,
    cell: &Cell,
    data: &Arc<Data>,
    live: &Arc<KeyLedger>,
) -> Result<Box<dyn Engine>, String> {
    let expected = noop_data::of(data, live);
    let open = |options: &OpenOptions| {
        synthetic::open(&cell.target.store, options, &expected).map_err(|error| format!("open: {error}"))
    };
    Ok(loaded(&open, options, data, live, &cell.workload)?.0)
}

/// Function that opens the store of a job with the given options, which may differ from those of its cells.
type OpenAs<'s> = &'s dyn Fn(&OpenOptions) -> Result<Box<dyn Engine>, String>;

/// Opens a store and loads its keys. The load runs under the fsync policy `no`, whatever the policy of the cells:
/// otherwise an engine that fixes its policy when it is opened would sync each batch, and other engines only the end.
/// Returns the engine, closed and opened again under `options`, and the seconds of the load. A store in memory is not
/// opened again; without keys nothing is loaded, and the seconds are `None`.
pub(super) fn loaded(
    open: OpenAs<'_>,
    options: &OpenOptions,
    data: &Data,
    live: &KeyLedger,
    workload: &Workload,
) -> Result<(Box<dyn Engine>, Option<f64>), String> {
    if workload.keys == 0 {
        return Ok((open(options)?, None));
    }
    let engine = open(&OpenOptions { fsync: Fsync::No, ..options.clone() })?;
    let opened = Opened::new(engine, live, Fsync::No);
    let seconds = Some(load(&opened, data, live, workload)?);
    let engine = opened.into_engine();
    if engine.is_memory_only() {
        return Ok((engine, seconds));
    }
    // Reopens under every policy, so that cells of all policies find the engine in the same state.
    engine.close().map_err(|error| format!("after the load, close: {error}"))?;
    drop(engine);
    process_usage::give_back_memory();
    Ok((open(options)?, seconds))
}

/// Inserts all keys of `workload` into an open store, with one sync at the end. Returns the time that this took, in
/// seconds.
fn load(opened: &Opened, data: &Data, live: &KeyLedger, workload: &Workload) -> Result<f64, String> {
    let (load, begin) = (workload.load(), Instant::now());
    let mut bench = opened.bench(data, live);
    bench.is_load = true;
    let phase = bench.run_here(&load);
    if let Some(fault) = phase.recorder.measurement(phase.start).first_fault {
        return Err(format!("load: {fault}"));
    }
    opened.engine().sync().map_err(|error| format!("load: {error}"))?;
    Ok(begin.elapsed().as_secs_f64())
}

//! Cells in process: the driver's threads call the engine.

use super::{
    data::Data,
    driver::{Bench, Phase},
    job::Job,
    level::Level,
    live::Live,
    process::Usage,
    reference,
    result::{Cell, Measurement, Operation, Outcome, Step, Target, Workload},
};
use crate::engine::{Compression, Durability, Engine, Error, Fsync, Location, OpenOptions};
use std::{hint, path::Path, sync::Arc, time::Instant};

/// Measures the cells of a job; the text of an error that leaves none of them measured.
pub(super) fn measure(job: &Job) -> Result<Vec<Outcome>, String> {
    let Some(first) = job.cells.first() else { return Ok(Vec::new()) };
    let data = Data::new(&first.workload).map_err(|error| in_file(&first.workload, &error))?;
    let data = Arc::new(data);
    if first.workload.step == Step::SourceScan {
        return Ok(vec![Outcome::Measured(source_scan(&first.workload)?)]);
    }
    let limit = first.workload.key_limit.unwrap_or(u64::MAX).min(data.capacity());
    let live = Live::new(limit);
    let options = open_options(job, &first.target)?;
    let open =
        || reference::open(&first.target.store, &options, &data).map_err(|error| format!("open: {error}"));
    let engine = open()?;
    let load_seconds = load(&*engine, &data, &live, &first.workload)?;
    let mut measurements = Vec::new();
    for cells in job.steps() {
        measurements.extend(step(&*engine, &data, &live, cells)?);
    }
    let end = End::of(engine, &live, open)?;
    for (measurement, cell) in measurements.iter_mut().zip(&job.cells) {
        measurement.load_seconds = load_seconds;
        end.add_to(measurement, cell);
    }
    Ok(measurements.into_iter().map(Outcome::Measured).collect())
}

fn in_file(workload: &Workload, error: &dyn std::fmt::Display) -> String {
    format!("cannot read {}: {error}", workload.data.as_deref().unwrap_or("the data"))
}

fn open_options(job: &Job, target: &Target) -> Result<OpenOptions, String> {
    Ok(OpenOptions {
        location: match target.persistent {
            true => Location::Path(job.directory.join("store")),
            false => Location::Memory,
        },
        fsync: fsync(target),
        cache_size: target.cache_bytes,
        map_size: job.map_size,
        compression: match target.compression.as_str() {
            "none" => Compression::None,
            "lz4" => Compression::Lz4,
            other => return Err(format!("no compression {other}")),
        },
    })
}

/// The policy it is opened with; in memory there is nothing to sync.
fn fsync(target: &Target) -> Fsync {
    match Level::of(target).durability {
        Some(Durability::Files(fsync)) => fsync,
        Some(Durability::Memory) | None => Fsync::No,
    }
}

/// Loads the keys that the first cell wants, unsynced until its end. The time it took, if there are any.
fn load(engine: &dyn Engine, data: &Data, live: &Live, workload: &Workload) -> Result<Option<f64>, String> {
    if workload.keys == 0 {
        return Ok(None);
    }
    let (load, begin) = (workload.load(), Instant::now());
    let phases = Bench::new(engine, data, live).run(&[&load], Usage::default);
    for phase in phases {
        let measurement = phase.recorder.measurement(phase.start);
        if let Some(fault) = measurement.first_fault {
            return Err(format!("load: {fault}"));
        }
    }
    engine.sync().map_err(|error| format!("load: {error}"))?;
    Ok(Some(begin.elapsed().as_secs_f64()))
}

/// Measures the cells that run at the same time.
fn step(engine: &dyn Engine, data: &Data, live: &Live, cells: &[Cell]) -> Result<Vec<Measurement>, String> {
    let Some(first) = cells.first() else { return Ok(Vec::new()) };
    match first.workload.step {
        Step::Operations => {}
        Step::Count => return Ok(vec![count(engine, live)]),
        Step::DiskSize | Step::SourceScan => return Ok(vec![once(1, Instant::now())]),
    }
    let mut bench = Bench::new(engine, data, live);
    bench.sync = fsync(&first.target) == Fsync::Always;
    bench.sync_every_second = fsync(&first.target) == Fsync::EverySec;
    let workloads: Vec<_> = cells.iter().map(|cell| &cell.workload).collect();
    let phases = bench.run(&workloads, Usage::of_self);
    let mut measurements: Vec<_> = phases
        .into_iter()
        .zip(cells)
        .map(|(phase, cell)| measurement(phase, &cell.workload, cells.len()))
        .collect();
    for (cell, measurement) in cells.iter().zip(&mut measurements) {
        let wrote = cell
            .workload
            .kinds()
            .any(|kind| !matches!(kind, Operation::Get | Operation::GetMiss | Operation::Scan));
        if wrote && !first.target.persistent {
            measurement.written_bytes = None;
        }
    }
    Ok(measurements)
}

/// The numbers of a phase, of `concurrent` that ran at the same time.
pub(super) fn measurement(phase: Phase, workload: &Workload, concurrent: usize) -> Measurement {
    let Phase { recorder, start, usage } = phase;
    let mut measurement = recorder.measurement(start);
    measurement.peak_memory_bytes = usage.peak_memory_bytes;
    measurement.written_bytes = usage.written_bytes;
    // Who of several used the processor, nobody knows.
    if concurrent == 1 && measurement.operations > 0 {
        measurement.cpu_us_per_operation = usage.cpu_us.map(|us| us as f64 / measurement.operations as f64);
    }
    if measurement.user_bytes > 0 {
        let user_bytes = measurement.user_bytes as f64;
        measurement.write_amplification = measurement.written_bytes.map(|bytes| bytes as f64 / user_bytes);
    }
    if let Some(rate) = workload.rate.filter(|rate| measurement.throughput < 0.98 * rate) {
        measurement.warnings.push(format!(
            "{rate} operations in a second were asked for, {:.0} were done: latency is that of a queue that grows",
            measurement.throughput
        ));
    }
    measurement
}

fn count(engine: &dyn Engine, live: &Live) -> Measurement {
    let begin = Instant::now();
    let counted = engine.count();
    let mut measurement = once(1, begin);
    match counted {
        Ok(keys) if keys == live.count() => {}
        Ok(keys) => {
            measurement.wrong_values = 1;
            measurement.first_fault = Some(format!("counted {keys} keys, but {} are there", live.count()));
        }
        Err(error) => {
            measurement.errors = 1;
            measurement.first_fault = Some(format!("count: {error}"));
        }
    }
    measurement
}

fn once(operations: u64, begin: Instant) -> Measurement {
    let seconds = begin.elapsed().as_secs_f64();
    let throughput = if seconds > 0.0 { operations as f64 / seconds } else { 0.0 };
    Measurement { operations, seconds, throughput, ..Measurement::default() }
}

fn source_scan(workload: &Workload) -> Result<Measurement, String> {
    let path = workload.data.as_deref().ok_or("no file of pairs to scan")?;
    let begin = Instant::now();
    let data = Data::read(Path::new(path)).map_err(|error| in_file(workload, &error))?;
    let (mut key, mut value) = (Vec::new(), Vec::new());
    for index in 0..data.capacity() {
        data.key(index, &mut key);
        data.value(index, 0, &mut value);
        hint::black_box((&key, &value));
    }
    Ok(once(data.capacity(), begin))
}

/// What the engine's end has shown.
struct End {
    disk_bytes: u64,
    close_seconds: f64,
    reopen_seconds: Option<f64>,
    fault: Option<String>,
    live: u64,
}

impl End {
    /// Closes the engine. Opens it again where it has files, to see how long that takes and whether the
    /// keys are still there.
    fn of(
        engine: Box<dyn Engine>,
        live: &Live,
        open: impl FnOnce() -> Result<Box<dyn Engine>, String>,
    ) -> Result<Self, String> {
        let words = |error: Error| format!("close: {error}");
        let persistent = !engine.is_memory_only();
        let disk_bytes = engine.disk_size().map_err(words)?;
        let begin = Instant::now();
        engine.close().map_err(words)?;
        drop(engine);
        let close_seconds = begin.elapsed().as_secs_f64();
        let mut end =
            Self { disk_bytes, close_seconds, reopen_seconds: None, fault: None, live: live.count() };
        if persistent {
            let begin = Instant::now();
            let engine = open().map_err(|error| format!("again, {error}"))?;
            end.reopen_seconds = Some(begin.elapsed().as_secs_f64());
            let keys = engine.count().map_err(words)?;
            if keys != end.live {
                end.fault = Some(format!("opened again, it has {keys} keys; {} were there", end.live));
            }
            engine.close().map_err(words)?;
        }
        Ok(end)
    }

    fn add_to(&self, measurement: &mut Measurement, cell: &Cell) {
        measurement.close_seconds = Some(self.close_seconds);
        measurement.reopen_seconds = self.reopen_seconds;
        if cell.target.persistent {
            measurement.disk_bytes = Some(self.disk_bytes);
            let alive = self.live as f64 * cell.workload.pair_bytes();
            measurement.space_amplification = (alive > 0.0).then(|| self.disk_bytes as f64 / alive);
        }
        // A write that failed may or may not be there: it is counted already.
        let exact = measurement.errors == 0 && cell.workload.has_exact_keys();
        if let Some(fault) = self.fault.as_ref().filter(|_| exact) {
            measurement.misses += 1;
            measurement.first_fault.get_or_insert_with(|| fault.clone());
        }
    }
}

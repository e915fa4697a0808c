//! Cells in process: the driver's threads call the engine.

mod bench_context;
mod close_reopen;
pub mod driver;
mod group_commit;
mod input_file_reads;
mod noop_data;
mod open;
mod opened_store;
pub(super) mod recovery;
mod retain_pop;
mod slices;
mod soak_recorder;
mod worker;

use super::{
    cold,
    disk_usage::Files,
    job_messages::{Job, Report},
    panics,
    phase_result::{self, PhaseResult},
    process_usage::{Memory, ProcessUsage},
    resource_meter::{self, Meter},
    verification::{Verified, compare_count},
};
use crate::{
    bench::{
        data::{Data, key_ledger::KeyLedger},
        result::{Cell, CellKind, Commits, Measurement, Operation, Outcome, Workload, comparability::Level},
    },
    engine::{Engine, Fsync, OpenOptions, page_cache, synthetic},
};
use close_reopen::{CloseReport, once};
use driver::InProcessBench;
use open::{fsync, loaded, open_options};
use opened_store::Opened;
use soak_recorder::SoakRecorder;
use std::{sync::Arc, time::Instant};

/// Measures the cells of a job in this process. Returns a report for each, or the text of an error that leaves all
/// cells unmeasured.
pub(super) fn measure(job: &Job) -> Result<Vec<Report>, String> {
    let Some(first) = job.cells.first() else { return Ok(Vec::new()) };
    if first.workload.step == CellKind::Recovery {
        return recovery::measure(job, first).map(|outcome| vec![Report::of(first, outcome)]);
    }
    // Checked first: these cells need a file that this process has not read yet.
    if let Some(outcome) = input_file_reads::measure(&first.workload) {
        return Ok(vec![Report::of(first, Outcome::Measured(outcome?))]);
    }
    let data =
        Data::new(&first.workload).map_err(|error| input_file_reads::in_file(&first.workload, &error))?;
    let data = Arc::new(data);
    let live = Arc::new(ledger(job, first, &data));
    let options = open_options(job, &first.target);
    let expected = noop_data::of(&data, &live);
    let open_as = |options: &OpenOptions| {
        synthetic::open(&first.target.store, options, &expected).map_err(|error| format!("open: {error}"))
    };
    let open_under = |policy| open_as(&OpenOptions { fsync: policy, ..options.clone() });
    let open = || open_as(&options);
    let files = first.target.persistent.then(|| Files::of(&job.directory));
    // The pairs and the ledger of their versions are prepared: memory used from here on is the engine's.
    let base = ProcessUsage::of_self().memory;
    let (engine, load_seconds) = loaded(&open_as, &options, &data, &live, &first.workload)?;
    let mut session = MeasuredStore {
        opened: Opened::new(engine, &live, options.fsync),
        open_under: &open_under,
        policy: options.fsync,
        data: &data,
        live: &live,
        files: files.as_ref(),
        base,
        reports: Vec::new(),
        uncompacted: None,
        in_slices: job.in_slices,
    };
    for cells in job.steps() {
        session = session.under_policy_of(cells)?;
        session = session.with_cold_cache(job, cells)?;
        session = session.step(cells)?;
    }
    let MeasuredStore { opened, mut reports, .. } = session;
    let check = |engine: &dyn Engine| match synthetic::is_reference(&first.target.store) {
        true => Verified::default(),
        false => verify(engine, &data, &live, &first.workload, job.verified),
    };
    let close = || CloseReport::of(opened.into_engine(), &live, files.as_ref(), &open, &check);
    let end = panics::caught(close)
        .unwrap_or_else(Err)
        .map(Some)
        .or_else(|error| add_to_soak(reports.iter_mut().filter_map(measurement_of), error).map(|()| None))?;
    add_load_and_end(&mut reports, job, load_seconds, end.as_ref());
    // In a comparison all stores write equally often.
    if !job.in_slices {
        drop_unequal_sizes(&mut reports, job);
    }
    Ok(reports)
}

/// Returns the ledger of a store that is empty, with the memory for the keys of the job, of which `first` is the first
/// cell.
fn ledger(job: &Job, first: &Cell, data: &Data) -> KeyLedger {
    let updated = job.cells.iter().map(|cell| &cell.workload).filter(|workload| workload.updates());
    let updated = updated.map(Workload::most_keys).max().unwrap_or_default();
    KeyLedger::new(data.capacity())
        .with_ttl(first.workload.ttl_ms, first.workload.keys)
        .with_versions(updated)
}

/// Returns the measurement of a report, or `None` if the report has none.
fn measurement_of(report: &mut Report) -> Option<&mut Measurement> {
    match &mut report.outcome {
        Outcome::Measured(measurement) => Some(measurement),
        Outcome::Failed(_) | Outcome::Unsupported(_) => None,
    }
}

/// Adds `error`, which was met after the last operation, to the soak among the measurements: it fails, but keeps the
/// seconds that were recorded. Returns the error if there is no soak.
fn add_to_soak<'m>(
    measurements: impl IntoIterator<Item = &'m mut Measurement>,
    error: String,
) -> Result<(), String> {
    let soak = measurements.into_iter().find(|measurement| measurement.soak.is_some());
    let Some(soak) = soak else { return Err(error) };
    soak.errors += 1;
    soak.first_fault.get_or_insert(error);
    Ok(())
}

/// Adds to each measured cell of a job the time of the load in seconds, and what was found at the end of the job: by
/// the close, the verification and the reopening. `end` is `None` if one of these failed after a soak.
fn add_load_and_end(reports: &mut [Report], job: &Job, load_seconds: Option<f64>, end: Option<&CloseReport>) {
    let last = job.steps().last().unwrap_or_default();
    for cell in &job.cells {
        let report = reports.iter_mut().find(|report| report.cell == cell.id);
        if let Some(measurement) = report.and_then(measurement_of) {
            measurement.load_seconds = load_seconds;
            phase_result::warn_of_long_load(measurement, &cell.workload);
            if let Some(end) = end {
                end.add_to(measurement, cell, last.iter().any(|last| last.id == cell.id));
            }
        }
    }
}

/// Removes from the reports the sizes on disk of cells that did unequal work, because they cannot be compared.
fn drop_unequal_sizes(reports: &mut [Report], job: &Job) {
    resource_meter::drop_unequal_sizes(reports.iter_mut().filter_map(|report| {
        let Outcome::Measured(measurement) = &mut report.outcome else { return None };
        Some((measurement, job.cells.iter().find(|cell| cell.id == report.cell)?))
    }));
}

/// Open store of a job in process, with the reports of the cells measured so far.
struct MeasuredStore<'s> {
    opened: Opened,
    open_under: OpenUnder<'s>,
    /// The fsync policy under which the job's store is open now.
    policy: Fsync,
    data: &'s Data,
    live: &'s KeyLedger,
    files: Option<&'s Files>,
    /// Memory of this process before the engine was opened.
    base: Memory,
    /// Reports of the cells measured so far.
    reports: Vec<Report>,
    /// Reason why the engine cannot compact its files, set by a cell that should have compacted them.
    uncompacted: Option<String>,
    /// `true` if the store runs only in slices of time that another process requests (interleaved comparison).
    in_slices: bool,
}

impl MeasuredStore<'_> {
    /// Measures cells that run at the same time, and adds their reports.
    fn step(mut self, cells: &[Cell]) -> Result<Self, String> {
        let Some(first) = cells.first() else { return Ok(self) };
        match first.workload.step {
            CellKind::Operations => {
                let measurements = self.counted(cells)?.into_iter().map(Outcome::Measured);
                let reports = cells.iter().zip(measurements).map(|(cell, outcome)| Report::of(cell, outcome));
                self.reports.extend(reports);
            }
            CellKind::Count => {
                self.push_step(first, count(self.opened.engine(), self.live), self.live.count())
            }
            CellKind::Recovery => return Err("a kill needs a process of its own".into()),
            CellKind::SourceScan | CellKind::SourceGet => return Err("a file is read without a store".into()),
            CellKind::Retain => self.removed(first, retain_pop::retain)?,
            CellKind::Pop => self.removed(first, retain_pop::pop)?,
            CellKind::DiskSize => {
                resource_meter::settle(self.files, &settle(self.opened.engine()))?;
                if let Some(reason) = &self.uncompacted {
                    self.reports.push(Report::of(first, Outcome::Unsupported(reason.clone())));
                    return Ok(self);
                }
                let mut measurement = once(Instant::now());
                if let Some(files) = self.files {
                    resource_meter::charge_size(&mut measurement, first, files.size(), self.live.count());
                }
                self.push_step(first, measurement, self.live.count());
            }
            CellKind::Compact => return self.compact(first),
        }
        Ok(self)
    }

    /// Measures cells of operations that run at the same time. Compares the store's number of keys with the expected
    /// one before, if the engine counts keys in constant time, and after, if it does or the cells insert or delete
    /// keys. A difference is a fault, unless the cells do not determine the number or an operation failed.
    fn counted(&self, cells: &[Cell]) -> Result<Vec<Measurement>, String> {
        let (engine, live) = (self.opened.engine(), self.live);
        let real = !cells.iter().any(|cell| cell.reference || synthetic::is_reference(&cell.target.store));
        let keys_before = live.count();
        // A panic after a soak leaves its seconds.
        let count =
            || panics::caught(|| engine.count().map_err(|error| error.to_string())).unwrap_or_else(Err);
        let before = (real && engine.info().capabilities.constant_count).then(|| (count(), keys_before));
        let mut measurements = self.operations(cells)?;
        // Some engines scan to count, so the keys are counted only if their number may have changed.
        let worth = engine.info().capabilities.constant_count
            || cells.iter().any(|cell| cell.workload.changes_keys());
        let after = (real && worth).then(|| (count(), live.count()));
        let exact = cells.iter().all(|cell| cell.workload.has_exact_keys());
        for measurement in &mut measurements {
            measurement.keys_before = Some(keys_before);
            // The outcome of a failed write is unknown; the failure is counted already.
            if !exact || measurement.errors > 0 {
                continue;
            }
            for (found, expected) in before.iter().chain(&after) {
                compare_count(measurement, found, *expected);
            }
        }
        Ok(measurements)
    }

    fn operations(&self, cells: &[Cell]) -> Result<Vec<Measurement>, String> {
        let Some(first) = cells.first() else { return Ok(Vec::new()) };
        let engine = self.opened.engine();
        let mut bench = self.opened.bench(self.data, self.live);
        bench.sync = fsync(&first.target) == Fsync::Always;
        bench.in_groups = first.target.commits == Commits::Groups;
        bench.is_reference = synthetic::is_reference(&first.target.store);
        bench.counts = cells.iter().any(|cell| cell.workload.counts_allocations);
        bench.sync_every_second = Level::of(&first.target).is_everysec();
        let soak =
            first.workload.soak.then(|| SoakRecorder::new(engine, self.files, self.base, &first.workload));
        bench.soak = soak.as_ref();
        let workloads: Vec<_> = cells.iter().map(|cell| &cell.workload).collect();
        let settle = settle(engine);
        let meter = Meter::new(Some(std::process::id()), self.files, &settle, self.base)
            .without_settle_time(self.in_slices.then_some(resource_meter::IN_TURNS));
        let phases = match self.in_slices {
            true => vec![slices::serve(&bench, &first.workload, &meter)],
            false => bench.run(&workloads, || meter.read()),
        };
        let usage = phases.first().map(|phase| phase.usage.clone()).unwrap_or_default();
        let measurement = |(phase, cell): (PhaseResult, &Cell)| {
            // In a comparison, the slower stores need longer for equal work.
            let seconds = cell.workload.seconds.filter(|_| !self.in_slices);
            phase.measurement(&Workload { seconds, ..cell.workload.clone() }, cells.len())
        };
        let mut measurements: Vec<_> = phases.into_iter().zip(cells).map(measurement).collect();
        drop(bench);
        if let Some((soak, measurement)) = soak.zip(measurements.first_mut()) {
            measurement.soak = Some(soak.into_soak());
        }
        let finish = || meter.finish(&usage).and_then(|used| Ok((used, self.opened.count(self.live)?)));
        match panics::caught(finish).unwrap_or_else(Err) {
            Ok((used, keys)) => {
                measurements.iter_mut().for_each(|measurement| measurement.keys_after = Some(keys));
                used.charge(&mut measurements, cells, keys);
            }
            Err(error) => add_to_soak(&mut measurements, error)?,
        }
        for measurement in measurements.iter_mut().filter(|measurement| measurement.soak.is_some()) {
            let seconds = measurement.seconds + measurement.settle_seconds.unwrap_or(0.0);
            measurement.throughput = measurement.operations as f64 / seconds;
        }
        Ok(measurements)
    }

    /// Opens a store with files again without these files in the page cache, if `--cold` is given or the cells count
    /// the reads of a device of their own. Otherwise leaves the store as it is.
    fn with_cold_cache(mut self, job: &Job, cells: &[Cell]) -> Result<Self, String> {
        let own_device = reads_own_device(cells);
        if self.files.is_none() || !(job.cold || own_device) {
            return Ok(self);
        }
        // Deferred compactions would read the files back into memory.
        resource_meter::settle(self.files, &settle(self.opened.engine()))?;
        let again = || (self.open_under)(self.policy);
        // On a device of its own, only reads of the store's files are counted.
        let evict = if own_device { page_cache::evict_files } else { cold::evict };
        let engine = cold::reopened(self.opened.into_engine(), &again, &job.directory, evict)?;
        self.opened = Opened::new(engine, self.live, self.policy);
        Ok(self)
    }

    /// Opens the store again if the next cells have another fsync policy: some engines fix their policy when
    /// they are opened.
    fn under_policy_of(mut self, cells: &[Cell]) -> Result<Self, String> {
        let target = cells.first().map(|cell| &cell.target).filter(|target| target.persistent);
        if let Some(policy) = target.map(fsync).filter(|policy| *policy != self.policy) {
            self.opened.engine().close().map_err(|error| format!("close: {error}"))?;
            drop(self.opened);
            self.opened = Opened::new((self.open_under)(policy)?, self.live, policy);
            self.policy = policy;
        }
        Ok(self)
    }

    /// Measures a cell that removes keys by `remove`, compares the number of remaining keys with the expected one, and
    /// adds the cell's report.
    fn removed(&mut self, cell: &Cell, remove: retain_pop::Remove) -> Result<(), String> {
        let content = retain_pop::Content::new(self.data, self.live, self.policy);
        let before = self.live.count();
        let mut measurement = remove(self.opened.engine(), &content, &cell.workload)?;
        // The store may be closed next, which must not take the time of its deferred work.
        resource_meter::settle(self.files, &settle(self.opened.engine()))?;
        compare_count(&mut measurement, &self.opened.engine().count(), self.live.count());
        self.push_step(cell, measurement, before);
        Ok(())
    }

    /// Adds the report of a cell whose measurement began with `before` keys in the store.
    fn push_step(&mut self, cell: &Cell, measurement: Measurement, before: u64) {
        let (keys_before, keys_after) = (Some(before), Some(self.live.count()));
        let outcome = Outcome::Measured(Measurement { keys_before, keys_after, ..measurement });
        self.reports.push(Report::of(cell, outcome));
    }

    fn compact(self, cell: &Cell) -> Result<Self, String> {
        let open = || (self.open_under)(self.policy);
        let (outcome, engine) = close_reopen::compact(self.opened.into_engine(), self.live, &open)?;
        let mut session = Self { opened: Opened::new(engine, self.live, self.policy), ..self };
        match outcome {
            Outcome::Measured(measurement) => session.push_step(cell, measurement, session.live.count()),
            other => {
                if let Outcome::Unsupported(reason) = &other {
                    session.uncompacted = Some(reason.clone());
                }
                session.reports.push(Report::of(cell, other));
            }
        }
        Ok(session)
    }
}

/// Reads the values that the engine should hold, of keys like those of `workload`, all or a random sample of `most`, and
/// compares them.
fn verify(engine: &dyn Engine, data: &Data, live: &KeyLedger, workload: &Workload, most: u64) -> Verified {
    if live.count() == 0 {
        return Verified::default();
    }
    let reads = workload.verification(live.span(), most);
    Verified::of(InProcessBench::new(engine, data, live).run(&[&reads], ProcessUsage::default))
}

fn settle(engine: &dyn Engine) -> impl Fn() -> Result<(), String> {
    || engine.quiesce().map_err(|error| error.to_string())
}

/// Returns `true` if all cells only GET, from a device of their own whose reads are counted: then the page cache must
/// be cold, because a GET from it reads nothing from the device.
fn reads_own_device(cells: &[Cell]) -> bool {
    cells
        .iter()
        .all(|cell| cell.own_device.is_some() && cell.workload.kinds().all(|kind| kind == Operation::Get))
}

/// Function that opens the store under an fsync policy.
type OpenUnder<'s> = &'s dyn Fn(Fsync) -> Result<Box<dyn Engine>, String>;

fn count(engine: &dyn Engine, live: &KeyLedger) -> Measurement {
    let begin = Instant::now();
    let counted = engine.count();
    let mut measurement = once(begin);
    compare_count(&mut measurement, &counted, live.count());
    measurement
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        bench::{result::Size, run::process_usage},
        engine::{Batch, Kind, Location, WriteOp},
    };
    use std::cell::RefCell;

    #[test]
    fn a_load_syncs_at_its_end_only_whatever_the_policy() {
        let directory = tempfile::tempdir().unwrap();
        let options = OpenOptions::new(Location::Path(directory.path().join("store")), Fsync::Always);
        let opened = RefCell::new(Vec::new());
        let open = |options: &OpenOptions| {
            opened.borrow_mut().push(options.fsync);
            Kind::find("map").unwrap().open(options).map_err(|error| error.to_string())
        };
        let json = r#"{"name": "get", "mix": {"get": 1}, "keys": 3000, "key_bytes": {"fixed": 16},
            "value_bytes": {"fixed": 9}, "order": "uniform", "threads": 1, "batch": 1, "seconds": 1.0,
            "operations": null, "warmup_seconds": 0, "rate": null, "scan_length": 1, "seed": 1}"#;
        let workload: Workload = serde_json::from_str(json).unwrap();
        assert_eq!(workload.value_bytes, Size::Fixed(9));
        let data = Data::new(&workload).unwrap();
        let live = KeyLedger::new(data.capacity());
        let (engine, seconds) = loaded(&open, &options, &data, &live, &workload).unwrap();
        assert_eq!(*opened.borrow(), [Fsync::No, Fsync::Always]);
        assert!(seconds.is_some());
        assert_eq!((engine.count().unwrap(), live.count()), (3000, 3000));
    }

    /// Numbers of popped keys lie among those of the others, and the last key is lost.
    #[test]
    fn after_pops_every_key_that_is_left_is_read() {
        let workload = Workload { keys: 100, ..Workload::of([(Operation::Get, 1.0)], 1) };
        let data = Data::new(&workload).unwrap();
        let live = KeyLedger::new(data.capacity());
        let options = OpenOptions::new(Location::Memory, Fsync::No);
        let engine = Kind::find("btree").unwrap().open(&options).unwrap();
        InProcessBench::new(&*engine, &data, &live).run(&[&workload.load()], ProcessUsage::default);
        let mut key = Vec::new();
        let mut remove = |index| {
            data.key(index, &mut key);
            engine.write(&Batch::of(&[WriteOp::Delete { key: &key }]), false).unwrap();
        };
        let popped: Vec<u64> = (1..60).collect();
        popped.iter().copied().for_each(&mut remove);
        live.mark_removed(&popped);
        let found = || {
            let mut measurement = Measurement::default();
            verify(&*engine, &data, &live, &workload, u64::MAX).add_to(&mut measurement);
            (measurement.verified_values, measurement.wrong_values)
        };
        assert_eq!(found(), (Some(41), 0));
        remove(99);
        assert_eq!(found(), (Some(40), 1));
    }

    /// A cell that scans the data file reads it once: nothing else reads the file before or after.
    #[test]
    #[cfg(target_os = "linux")]
    fn a_source_scan_reads_its_file_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("blocks");
        crate::bench::data::generate(&path, 5000, 1, 1.0).unwrap();
        let cell = serde_json::json!({
            "id": "scan", "table": "", "row": "", "column": "",
            "target": {"access": "in-process", "store": "file", "persistent": true, "fsync": "no", "cache_bytes": 0,
                "compression": "none", "address": null, "caveats": []},
            "workload": {"name": "scan", "mix": {}, "keys": 0, "key_bytes": {"fixed": 32}, "value_bytes": {"fixed": 512},
                "order": "uniform", "threads": 1, "batch": 1, "seconds": null, "operations": null, "warmup_seconds": 0,
                "rate": null, "scan_length": 1, "seed": 1, "step": "source-scan", "data": path.to_str()},
        });
        let job = Job {
            loads_until_killed: false,
            cells: vec![serde_json::from_value(cell).unwrap()],
            directory: directory.path().into(),
            map_size: 0,
            server_arguments: Vec::new(),
            load_arguments: Vec::new(),
            flush_target: false,
            cold: false,
            in_slices: false,
            verified: u64::MAX,
            server_cpus: None,
            target_pid: None,
            program: None,
        };
        let read = || {
            let text = std::fs::read_to_string("/proc/thread-self/io").unwrap();
            process_usage::field(&text, "rchar:").unwrap()
        };
        let before = read();
        assert!(matches!(measure(&job).unwrap()[..], [Report { outcome: Outcome::Measured(_), .. }]));
        let (length, bytes) = (std::fs::metadata(&path).unwrap().len(), read() - before);
        assert!((length..2 * length).contains(&bytes), "{bytes} bytes read of {length}");
    }
}

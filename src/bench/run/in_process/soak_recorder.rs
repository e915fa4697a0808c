//! Recorder of a soak: reads once in a second what the process and the store use.

use crate::{
    bench::{
        result::{
            Workload,
            soak::{ANONYMOUS, CPU, ENGINE, FILES, MAX, OPERATIONS, P50, P99, RESIDENT, Soak, WRITTEN},
        },
        run::{
            disk_usage::Files,
            pace::{Clock, Pace},
            process_usage::{self, Memory, ProcessUsage},
            second_latencies::{SecondLatencies, ThreadSeconds},
        },
    },
    engine::{Engine, Gauge},
};
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

const SECOND_NS: u64 = 1_000_000_000;

/// Recorder of a soak.
pub struct SoakRecorder<'s> {
    engine: &'s dyn Engine,
    /// Files of the store; `None` if it has none.
    files: Option<&'s Files>,
    /// Memory of the process before it opened the engine, which is subtracted.
    base: Memory,
    /// `true` if the work keeps the number of keys, so that files that grow are a backlog.
    keeps_keys: bool,
    /// Operations and latencies of each second.
    latencies: Arc<SecondLatencies>,
    /// Number of whole seconds of the measurement.
    seconds: u64,
    /// Readings at the start and at the end of each second.
    readings: Mutex<Vec<Reading>>,
}

/// Resources that the process has used so far, and values of the store at one moment.
#[derive(Debug)]
struct Reading {
    usage: ProcessUsage,
    /// CPU time in milliseconds by the name of the threads.
    cpu_ms: BTreeMap<String, f64>,
    file_bytes: Option<u64>,
    gauges: Vec<Gauge>,
}

impl<'s> SoakRecorder<'s> {
    /// Creates the recorder of a measurement of `workload`. `base` is the memory of the process before it opened the
    /// engine.
    pub fn new(engine: &'s dyn Engine, files: Option<&'s Files>, base: Memory, workload: &Workload) -> Self {
        Self {
            engine,
            files,
            base,
            keeps_keys: !workload.changes_keys(),
            latencies: Arc::new(SecondLatencies::new(workload.threads as usize)),
            seconds: workload.seconds.map_or(0, |seconds| seconds as u64),
            readings: Mutex::default(),
        }
    }

    /// Returns the record of the latencies of a thread whose measurement begins at `start`, in nanoseconds of the clock.
    pub fn thread(&self, start: u64) -> ThreadSeconds {
        ThreadSeconds::new(Arc::clone(&self.latencies), start)
    }

    /// Reads now, and then at the end of each whole second of the measurement. Ends earlier, after a reading, if `stop`
    /// is set.
    pub fn run(&self, clock: &Clock, stop: &AtomicBool) {
        process_usage::name_thread(c"sampler");
        let start = clock.now();
        for second in 0..=self.seconds {
            Pace::wait(clock, start + second * SECOND_NS);
            self.read();
            if stop.load(Ordering::SeqCst) {
                break;
            }
        }
    }

    fn read(&self) {
        let reading = Reading {
            usage: ProcessUsage::of_self(),
            cpu_ms: process_usage::cpu_ms_by_thread_name(),
            file_bytes: self.files.map(|files| files.size().used_bytes),
            gauges: self.engine.gauges(),
        };
        self.readings.lock().unwrap_or_else(PoisonError::into_inner).push(reading);
    }

    /// Returns the series of all whole seconds that were read.
    pub fn into_soak(self) -> Soak {
        let readings = self.readings.into_inner().unwrap_or_else(PoisonError::into_inner);
        let seconds: Vec<_> =
            readings.windows(2).filter_map(|pair| Some((pair.first()?, pair.last()?))).collect();
        let mut series: BTreeMap<String, Vec<Option<f64>>> = BTreeMap::new();
        let mut backlogs = vec![ANONYMOUS.to_owned()];
        backlogs.extend(self.keeps_keys.then(|| FILES.to_owned()));
        let latencies = self.latencies.summaries(seconds.len());
        let mut add = |name: &str, values: Vec<Option<f64>>| series.insert(name.to_owned(), values);
        add(OPERATIONS, latencies.iter().map(|second| Some(second.operations as f64)).collect());
        add(P50, latencies.iter().map(|second| second.p50_us).collect());
        add(P99, latencies.iter().map(|second| second.p99_us).collect());
        add(MAX, latencies.iter().map(|second| second.max_us).collect());
        let real = |value: u64| value as f64;
        let memory = |of: fn(&Memory) -> Option<u64>| {
            let at_end = seconds.iter().map(|(_, end)| of(&end.usage.memory.beyond(&self.base)).map(real));
            at_end.collect::<Vec<_>>()
        };
        add(ANONYMOUS, memory(|memory| memory.anonymous));
        add(RESIDENT, memory(|memory| memory.resident));
        let written =
            |(begin, end): &(&Reading, &Reading)| end.usage.since(&begin.usage).written_bytes.map(real);
        add(WRITTEN, seconds.iter().map(written).collect());
        if self.files.is_some() {
            add(FILES, seconds.iter().map(|(_, end)| end.file_bytes.map(real)).collect());
        }
        for name in readings.iter().flat_map(|reading| reading.cpu_ms.keys()) {
            let at = |reading: &Reading| reading.cpu_ms.get(name).copied().unwrap_or(0.0);
            // A thread that has ended takes its time with it.
            let used = |(begin, end): &(&Reading, &Reading)| Some((at(end) - at(begin)).max(0.0));
            series.entry(format!("{CPU}{name}")).or_insert_with(|| seconds.iter().map(used).collect());
        }
        for gauge in readings.iter().flat_map(|reading| &reading.gauges) {
            let name = format!("{ENGINE}{}", gauge.name);
            let value = |(_, end): &(&Reading, &Reading)| {
                end.gauges.iter().find(|other| other.name == gauge.name).map(|gauge| real(gauge.value))
            };
            if gauge.is_backlog && !backlogs.contains(&name) {
                backlogs.push(name.clone());
            }
            series.entry(name).or_insert_with(|| seconds.iter().map(value).collect());
        }
        Soak { series, backlogs }
    }
}

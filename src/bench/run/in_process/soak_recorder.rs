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
            process_usage::{self, Memory, ProcessUsage, ThreadCpu},
            second_latencies::{SECOND_NS, SecondLatencies, ThreadSeconds},
        },
    },
    engine::Engine,
};
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

/// Recorder of a soak.
pub struct SoakRecorder<'s> {
    engine: &'s dyn Engine,
    /// Files of the store; `None` if it has none.
    files: Option<&'s Files>,
    /// Memory of the process before it opened the engine, which is subtracted.
    base: Memory,
    /// `true` if the work keeps the number of keys, so that files and memory that grow are a backlog.
    keeps_keys: bool,
    /// Operations and latencies of each second.
    latencies: Arc<SecondLatencies>,
    /// Number of whole seconds of the measurement.
    seconds: usize,
    readings: Mutex<Readings>,
    /// Signal that `Readings::has_ended` was set.
    end: Condvar,
}

/// Values of the seconds that have ended, and what is needed for those of the next one.
#[derive(Debug, Default)]
struct Readings {
    /// Bytes written until the latest reading, and CPU time of the threads; `None` before the first.
    latest: Option<(Option<u64>, BTreeMap<u32, ThreadCpu>)>,
    /// Values of all seconds by the name of the series. A series has its full length from the first second on, so that
    /// the memory of the recorder does not seem to be a store's that grows.
    series: BTreeMap<String, Vec<Option<f64>>>,
    /// Names of the series of gauges that are backlogs.
    backlogs: Vec<String>,
    /// Number of seconds that were read.
    seconds: usize,
    /// `true` after the last reading.
    has_ended: bool,
}

impl<'s> SoakRecorder<'s> {
    /// Creates the recorder of a measurement of `workload`. `base` is the memory of the process before it opened the
    /// engine.
    pub fn new(engine: &'s dyn Engine, files: Option<&'s Files>, base: Memory, workload: &Workload) -> Self {
        let seconds = workload.seconds.map_or(0, |seconds| seconds as usize);
        Self {
            engine,
            files,
            base,
            keeps_keys: !workload.changes_keys(),
            latencies: Arc::new(SecondLatencies::new(workload.threads as usize, seconds)),
            seconds,
            readings: Mutex::default(),
            end: Condvar::new(),
        }
    }

    /// Returns the record of the latencies of a thread whose measurement begins at `start`, in nanoseconds of the clock.
    pub fn thread(&self, start: u64) -> ThreadSeconds {
        ThreadSeconds::new(Arc::clone(&self.latencies), start)
    }

    /// Reads now, and then at the end of each whole second of the measurement. Ends earlier, after a reading, if `stop`
    /// is set.
    pub fn run(&self, clock: &Clock, stop: &AtomicBool) {
        // The driver's threads wait for the end, so it must come after a panic of the engine too.
        let _end = EndsAtDrop(self);
        process_usage::name_thread(c"sampler");
        let start = clock.now();
        for second in 0..=self.seconds {
            Pace::wait(clock, start + second as u64 * SECOND_NS);
            self.read();
            if stop.load(Ordering::SeqCst) {
                break;
            }
        }
    }

    /// Waits until the last reading was made: a thread that has ended has no CPU time.
    pub fn wait_for_end(&self) {
        let mut readings = self.lock();
        while !readings.has_ended {
            readings = self.end.wait(readings).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Reads what the process and the store use, for the second that ends now.
    fn read(&self) {
        let usage = ProcessUsage::of_self();
        let threads = process_usage::cpu_by_thread();
        let gauges = self.engine.gauges();
        let file_bytes = self.files.map(|files| files.size().used_bytes);
        let mut readings = self.lock();
        let Some((written, before)) = readings.latest.replace((usage.written_bytes, threads.clone())) else {
            return;
        };
        let memory = usage.memory.beyond(&self.base);
        let written = usage.written_bytes.zip(written).map(|(now, before)| now.saturating_sub(before));
        self.add(&mut readings, ANONYMOUS, memory.anonymous);
        self.add(&mut readings, RESIDENT, memory.resident);
        self.add(&mut readings, WRITTEN, written);
        if file_bytes.is_some() {
            self.add(&mut readings, FILES, file_bytes);
        }
        let mut cpu_ms: BTreeMap<&str, u64> = BTreeMap::new();
        for (thread, cpu) in &threads {
            let earlier = before.get(thread).map_or(0, |cpu| cpu.ms);
            *cpu_ms.entry(&cpu.name).or_default() += cpu.ms.saturating_sub(earlier);
        }
        for (name, ms) in cpu_ms {
            self.add(&mut readings, &format!("{CPU}{name}"), Some(ms));
        }
        for gauge in gauges {
            let name = format!("{ENGINE}{}", gauge.name);
            self.add(&mut readings, &name, Some(gauge.value));
            if gauge.is_backlog && !readings.backlogs.contains(&name) {
                readings.backlogs.push(name);
            }
        }
        readings.seconds += 1;
    }

    /// Sets the value of a series in the second that ends now.
    fn add(&self, readings: &mut Readings, name: &str, value: Option<u64>) {
        let second = readings.seconds;
        let series = readings.series.entry(name.to_owned()).or_insert_with(|| vec![None; self.seconds]);
        if let Some(slot) = series.get_mut(second) {
            *slot = value.map(|value| value as f64);
        }
    }

    /// Returns the series of all whole seconds that were read.
    pub fn into_soak(self) -> Soak {
        let Readings { mut series, backlogs, seconds, .. } =
            self.readings.into_inner().unwrap_or_else(PoisonError::into_inner);
        series.values_mut().for_each(|values| values.truncate(seconds));
        let latencies = self.latencies.summaries(seconds);
        let mut add = |name: &str, values: Vec<Option<f64>>| series.insert(name.to_owned(), values);
        add(OPERATIONS, latencies.iter().map(|second| Some(second.operations as f64)).collect());
        add(P50, latencies.iter().map(|second| second.p50_us).collect());
        add(P99, latencies.iter().map(|second| second.p99_us).collect());
        add(MAX, latencies.iter().map(|second| second.max_us).collect());
        let growing =
            [ANONYMOUS, FILES].into_iter().filter(|name| self.keeps_keys && series.contains_key(*name));
        let backlogs = growing.map(str::to_owned).chain(backlogs).collect();
        Soak { series, backlogs }
    }

    fn lock(&self) -> MutexGuard<'_, Readings> {
        self.readings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tells the threads that wait for the end of the readings that it has come.
struct EndsAtDrop<'r, 's>(&'r SoakRecorder<'s>);

impl Drop for EndsAtDrop<'_, '_> {
    fn drop(&mut self) {
        self.0.lock().has_ended = true;
        self.0.end.notify_all();
    }
}

//! Runs that look like real ones, the same every time.

use clap::ValueEnum;
use kvbench::{
    bench::result::{
        Access, Cell, Environment, Figure, Latency, Measurement, Operation, Outcome, Run, SCHEMA_VERSION,
        Sample, Size, Target, Workload,
        interleaved_comparison::{Comparison, End, PairVerdict, PilotRate, Slicing, VerdictKind, Work},
        statistics::margin::Margin,
    },
    engine::Fsync,
};
use std::{collections::BTreeMap, fs, path::Path};

/// A store whose name and error try to become markup.
pub const HOSTILE: &str = "<script>alert(1)</script>";

/// Writes a run file.
pub fn save(run: &Run, path: &Path) {
    fs::write(path, serde_json::to_vec(run).unwrap()).unwrap();
}

/// A run without cells.
pub fn run(suite: &str, repetitions: u32) -> Run {
    let libraries = [("lmdb", "LMDB 0.9.70"), ("redb", "redb 4.4.0"), ("rocksdb", "RocksDB 10.4.2")];
    Run {
        schema: SCHEMA_VERSION,
        version: "0.1.0".to_owned(),
        started: "2026-02-03T04:05:06Z".to_owned(),
        command: ["bench", "--suite", suite, "--dir", "/data/two words"].map(str::to_owned).to_vec(),
        suite: Some(suite.to_owned()),
        environment: Environment {
            cpu: Some("AMD EPYC 7763".to_owned()),
            cores: 8,
            memory_bytes: Some(32 << 30),
            system: "Linux 6.1.0".to_owned(),
            governor: Some("performance".to_owned()),
            directory: "/data".to_owned(),
            file_system: Some("ext4".to_owned()),
            device: Some("nvme0n1".to_owned()),
            fsync_us: Some(412.0),
            read_ahead_kib: Some(128),
            random_read_us: None,
            random_read_after_us: None,
            load_average: Some(0.12),
            commit: Some("0123abc".to_owned()),
            program: None,
            programs: BTreeMap::new(),
            rustc: Some("rustc 1.95.0".to_owned()),
            libraries: libraries.map(|(engine, library)| (engine.to_owned(), library.to_owned())).into(),
            memory_limit_bytes: None,
            driver_memory_bytes: None,
            foreign_limit: None,
            cold: None,
            cpus: None,
            no_instruction_counts: None,
            calibration: None,
            warnings: vec!["The data fit in memory; use more keys to measure the device.".to_owned()],
        },
        row_heading: String::new(),
        cells: Vec::new(),
        left_out: Vec::new(),
        repetitions,
        samples: Vec::new(),
        comparisons: Vec::new(),
        duel: None,
        finished: true,
    }
}

/// In process, with files.
pub fn target(store: &str, fsync: &str) -> Target {
    Target {
        persistent: true,
        fsync: Some(Fsync::from_str(fsync, false).unwrap()),
        cache_bytes: 256 << 20,
        ..Target::new(Access::InProcess, store)
    }
}

/// A million pairs, one thread.
pub fn workload(name: &str, mix: &[(Operation, f64)]) -> Workload {
    Workload {
        name: name.to_owned(),
        keys: 1_000_000,
        key_bytes: Size::Fixed(9),
        value_bytes: Size::Fixed(256),
        seconds: Some(10.0),
        operations: None,
        warmup_seconds: 1.0,
        seed: 42,
        hashed_keys: false,
        ..Workload::of(mix.iter().copied().collect::<BTreeMap<_, _>>(), 0)
    }
}

/// A cell whose id tells all that differs here.
pub fn cell(table: &str, row: &str, column: &str, target: Target, workload: Workload) -> Cell {
    let fsync = target.fsync.map_or("unknown", Fsync::as_str);
    let access = if target.access == Access::Wire { "wire" } else { "local" };
    let id = format!("{}/{}/{access}/{fsync}/{row}/{column}", workload.name, target.store);
    let (table, row, column) = (table.to_owned(), row.to_owned(), column.to_owned());
    let (group, together, figure, reference) = (None, false, Figure::Throughput, false);
    let own_device = None;
    Cell { id, table, row, column, target, workload, group, together, figure, reference, own_device }
}

/// Figures of so many operations each second.
pub fn measurement(throughput: f64) -> Measurement {
    let latency = |factor: f64| factor * 1e6 / throughput;
    Measurement {
        operations: (throughput * 10.0) as u64 + 1,
        seconds: 10.0,
        throughput,
        latency: Latency {
            count: (throughput * 10.0) as u64,
            mean_us: latency(1.0),
            p50_us: latency(0.9),
            p90_us: latency(1.4),
            p99_us: latency(4.0),
            p999_us: latency(20.0),
            p9999_us: Some(latency(100.0)),
            max_us: latency(300.0) + 900.0,
            histogram: None,
        },
        by_operation: BTreeMap::new(),
        ..Measurement::default()
    }
}

/// Adds a cell with a repetition for each throughput.
pub fn add(run: &mut Run, cell: Cell, throughputs: &[f64]) {
    let outcomes = throughputs.iter().map(|throughput| Outcome::Measured(measurement(*throughput)));
    add_outcomes(run, cell, outcomes.collect());
}

/// Makes a run of two stores an interleaved one, with a verdict on the first store and a margin of 5%. The verdict is
/// from planned looks; one look at all repetitions may give another.
pub fn judge(run: &mut Run, verdict: VerdictKind, ratio: f64) {
    let ids: Vec<String> = run.cells.iter().map(|cell| cell.id.clone()).collect();
    let pair = PairVerdict {
        first: ids[0].clone(),
        second: ids[1].clone(),
        ratio,
        low: ratio * 0.9,
        high: ratio * 1.1,
        blocks: 5,
        verdict,
        needed: None,
    };
    run.comparisons = vec![Comparison {
        margin: Margin::new(0.05).unwrap(),
        verdicts: vec![pair],
        end: Some(End::Planned),
        ..Comparison::new(run.cells[0].table.clone(), ids)
    }];
}

/// What a pilot of two stores has chosen: the first store was as fast in turns as alone, the second one slower.
pub fn pilot_with_a_slower_store() -> Slicing {
    let rate = |store, in_turn| PilotRate { store, alone: 100.0, in_turn, ..PilotRate::default() };
    Slicing {
        slice_seconds: 0.1,
        discarded_seconds: 0.01,
        work: Work::Seconds(1.0),
        less_work: Vec::new(),
        pilot: vec![rate(0, 102.0), rate(1, 90.0)],
        is_like_alone: false,
        awaits_device: false,
        seconds: 1.0,
        load_seconds: 0.0,
        warm_up_seconds: 0.0,
    }
}

/// Adds a cell with these outcomes.
pub fn add_outcomes(run: &mut Run, cell: Cell, outcomes: Vec<Outcome>) {
    for (repetition, outcome) in (0..).zip(outcomes) {
        run.samples.push(Sample { cell: cell.id.clone(), repetition, outcome, disturbance: None });
    }
    run.cells.push(cell);
}

/// What a store does in a second: get, set without and with sync, scan, bytes on disk for a byte.
type Profile = (&'static str, f64, f64, f64, f64, f64, &'static str);

const PROFILES: [Profile; 6] = [
    (
        "map",
        5_200_000.0,
        910_000.0,
        2_350.0,
        0.0,
        1.4,
        "Every key and value is in memory; the file is a log.",
    ),
    (
        "btree",
        2_100_000.0,
        640_000.0,
        2_310.0,
        61_000.0,
        1.4,
        "Every key and value is in memory; the file is a log.",
    ),
    (
        "rocksdb",
        640_000.0,
        301_000.0,
        2_280.0,
        21_000.0,
        1.1,
        "A kill loses nothing under no, a power cut the unsynced log.",
    ),
    ("lmdb", 1_900_000.0, 95_000.0, 1_150.0, 58_000.0, 1.7, "One writer at a time; its file never shrinks."),
    ("sled", 820_000.0, 160_000.0, 1_480.0, 17_000.0, 2.9, "Beta software, by its authors' words."),
    (
        "redb",
        1_300_000.0,
        41_000.0,
        1_090.0,
        44_000.0,
        2.2,
        "Without sync, its file grows until the next one.",
    ),
];

/// A generator of noise that is the same everywhere (Knuth's MMIX constants).
struct Noise(u64);

impl Noise {
    /// Near 1, within a part.
    fn near_one(&mut self, part: f64) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        1.0 + part * ((self.0 >> 33) as f64 / f64::from(1u32 << 30) - 1.0)
    }
}

fn full_measurement(throughput: f64, space: f64, writes: bool, noise: &mut Noise) -> Measurement {
    let throughput = throughput * noise.near_one(0.05);
    let alive = 265_000_000.0;
    let user_bytes = if writes { (throughput * 2650.0) as u64 } else { 0 };
    let amplification = space * 1.8;
    Measurement {
        timeline: (0..40)
            .map(|slice| {
                let dip = if writes && slice % 9 == 7 { 0.55 } else { 1.0 };
                (throughput / 4.0 * dip * noise.near_one(0.08)) as u64
            })
            .collect(),
        timeline_slice_seconds: 0.25,
        cpu_us_per_operation: Some(0.8e6 / throughput),
        peak_memory_bytes: Some((3e8 * noise.near_one(0.2)) as u64),
        user_bytes,
        written_bytes: writes.then_some((user_bytes as f64 * amplification) as u64),
        write_amplification: writes.then_some(amplification),
        disk_bytes: Some((alive * space * noise.near_one(0.01)) as u64),
        space_amplification: Some(space * noise.near_one(0.01)),
        load_seconds: Some(2.4 * noise.near_one(0.1)),
        close_seconds: Some(0.05),
        reopen_seconds: Some(0.03 * noise.near_one(0.3)),
        ..measurement(throughput)
    }
}

/// Name, mix, operations each second.
type Case = (&'static str, Vec<(Operation, f64)>, f64);

/// Splits a measurement by the mix; writes take longer.
fn by_kind(mut measurement: Measurement, mix: &[(Operation, f64)]) -> Measurement {
    for (place, (operation, part)) in mix.iter().enumerate() {
        let factor = 1.0 + 3.0 * place as f64;
        let all = &measurement.latency;
        let latency = Latency {
            count: (all.count as f64 * part) as u64,
            p50_us: all.p50_us * factor,
            p99_us: all.p99_us * factor,
            ..all.clone()
        };
        measurement.by_operation.insert(*operation, latency);
    }
    measurement
}

/// What a store is made to do.
fn cases(profile: &Profile, fsync: &str) -> Vec<Case> {
    use Operation::{Delete, Get, Insert, Scan, Update};
    let &(_, get, set, durable, scan, ..) = profile;
    let set = if fsync == "always" { durable } else { set };
    let mixed = 2.0 / (1.0 / get + 1.0 / set);
    vec![
        ("set", vec![(Insert, 1.0)], set),
        ("get", vec![(Get, 1.0)], get),
        ("mixed", vec![(Get, 0.5), (Update, 0.5)], mixed),
        ("del", vec![(Delete, 1.0)], set * 1.1),
        ("scan", vec![(Scan, 0.95), (Insert, 0.05)], scan.min(set * 20.0)),
    ]
}

/// A run in process of six stores at two levels, with every kind of trouble in it.
pub fn in_process() -> Run {
    let mut noise = Noise(7);
    let mut result = run("smallnest", 3);
    for fsync in ["no", "always"] {
        for (position, profile) in PROFILES.iter().enumerate() {
            for (row, mix, throughput) in cases(profile, fsync).into_iter().filter(|case| case.2 > 0.0) {
                let mut target = target(profile.0, fsync);
                target.caveats.push(profile.6.to_owned());
                let table = format!("smallnest, fsync {fsync}");
                let cell = cell(&table, row, profile.0, target, workload(row, &mix));
                let mut outcomes: Vec<_> = (0..3)
                    .map(|_| full_measurement(throughput, profile.5, row != "get", &mut noise))
                    .map(|measurement| Outcome::Measured(by_kind(measurement, &mix)))
                    .collect();
                match (position, row, fsync) {
                    (4, "del", "always") => {
                        outcomes[1] = Outcome::Failed("the process ended by signal 9".to_owned())
                    }
                    (5, "get", "no") => outcomes[2] = Outcome::Measured(wrong_value(throughput)),
                    (3, "scan", "always") => outcomes.clear(),
                    _ => {}
                }
                add_outcomes(&mut result, cell, outcomes);
            }
        }
    }
    result
}

/// As many cells as all suites have together: six stores at three levels, with 22 workloads each.
pub fn large() -> Run {
    let mut noise = Noise(11);
    let mut result = run("large", 3);
    for level in ["no", "everysec", "always"] {
        for profile in &PROFILES {
            for number in 0..22 {
                let (name, mix, throughput) = cases(profile, level).swap_remove(number % 4);
                let name = format!("{name}-{number}");
                let table = format!("large, fsync {level}, {}", number / 10);
                let cell = cell(&table, &name, profile.0, target(profile.0, level), workload(&name, &mix));
                let outcomes = (0..3).map(|_| full_measurement(throughput, profile.5, true, &mut noise));
                let outcomes = outcomes.map(|measured| Outcome::Measured(by_kind(measured, &mix))).collect();
                add_outcomes(&mut result, cell, outcomes);
            }
        }
    }
    result
}

/// A measurement that found a value which was not written, and says so in markup.
pub fn wrong_value(throughput: f64) -> Measurement {
    Measurement {
        wrong_values: 3,
        first_fault: Some(format!("key 17 has another value {HOSTILE}")),
        ..measurement(throughput)
    }
}

/// A run over the wire in the layout of kvbench's own suite.
pub fn over_the_wire() -> Run {
    let mut noise = Noise(9);
    let mut result = run("kvbench", 3);
    result.started = "2026-02-03T05:00:00Z".to_owned();
    result.row_heading = "Store | Pipeline | Clients | Persist | Fsync".to_owned();
    let stores = [("map", 1.0), ("rocksdb", 0.7), ("redis", 0.6), (HOSTILE, 0.1)];
    for (pipeline, clients, rate) in [(1, 1, 40_000.0), (1, 256, 110_000.0), (256, 256, 2_300_000.0)] {
        for (store, speed) in stores {
            let row = format!("{store} | {pipeline} | {clients} | yes | no");
            for (column, kind, part) in
                [("SET/sec", Operation::Update, 0.6), ("GET/sec", Operation::Get, 1.0)]
            {
                let mut target = target(store, "no");
                target.access = Access::Wire;
                if store == "redis" {
                    target.address = Some("127.0.0.1:6379".to_owned());
                    target.cache_bytes = 0;
                }
                let mut work = workload(&column[..3], &[(kind, 1.0)]);
                (work.threads, work.batch) = (clients, pipeline);
                let throughput = rate * speed * part;
                let measured: Vec<_> = (0..3)
                    .map(|_| full_measurement(throughput, 1.3, part < 1.0, &mut noise))
                    .map(Outcome::Measured)
                    .collect();
                add_outcomes(&mut result, cell("kvbench", &row, column, target, work), measured);
            }
        }
    }
    result
}

/// Two stores, two workloads, three repetitions at most: small enough to read in a test.
pub fn small() -> Run {
    let mut result = run("tiny", 3);
    result.row_heading = "Workload".to_owned();
    for (store, get) in [("lmdb", 2000.0), ("rocksdb", 1000.0)] {
        let mut target = target(store, "no");
        target.caveats.push(format!("{store} has a *caveat*."));
        let row = cell("tiny", "get", store, target.clone(), workload("get", &[(Operation::Get, 1.0)]));
        add(&mut result, row, &[get, get * 1.5, get * 0.75]);
        let row = cell("tiny", "set", store, target, workload("set", &[(Operation::Update, 1.0)]));
        let outcomes = if store == "lmdb" {
            vec![Outcome::Failed("disk | full".to_owned())]
        } else {
            vec![Outcome::Measured(measurement(123_456.0))]
        };
        add_outcomes(&mut result, row, outcomes);
    }
    result
}

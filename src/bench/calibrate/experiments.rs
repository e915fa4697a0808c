//! Experiments of a calibration: costs of the calibration engine, and the cells that measure them.

use crate::{
    bench::result::{
        Access, Cell, CellKind, Commits, Figure, Operation, OwnDevice, Size, Target, Workload,
        latency_goal::{LatencyGoal, Percentile},
    },
    engine::{
        Fsync,
        synthetic::calibration::{CALIBRATION, Cost, PAGE, Part, Stall, Truth},
    },
};

const MIB: u64 = 1 << 20;
const MS: u64 = 1_000_000;
/// Number of keys of experiments whose reads take milliseconds, because every value is read again at the end.
const FEW_KEYS: u64 = 50;

/// Group of metrics that an experiment of the calibration checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    /// The experiment checks counts, throughput and latency of a closed loop.
    Latency,
    /// The experiment checks counts, throughput, and latencies from the 99.9th percentile up of a closed loop.
    Tail,
    /// The experiment checks throughput and latency of an open loop with a fixed number of operations.
    OpenLoop,
    /// The experiment checks the throughput of an open loop with a fixed duration.
    Window,
    /// The experiment checks the number of missed operations of an open loop, and its latency.
    Overload,
    /// The experiment checks number and size of the engine's memory allocations.
    Allocations,
    /// The experiment checks the number of instructions in user space, where the processor counts them.
    Instructions,
    /// The experiment checks count and latency of each kind of operation.
    Kinds,
    /// The experiment checks counts and throughput of several threads that mix kinds of operation, in batches.
    Crowd,
    /// The experiment checks counts, throughput and latency of threads whose writes are committed together.
    Groups,
    /// The experiment checks the rate that a search finds.
    FoundRate,
    /// The experiment checks the series of a soak, and its throughput with the deferred work.
    Soak,
    /// The experiment checks the number of syncs by the timer of the fsync policy `everysec`.
    TimerSyncs,
    /// The experiment checks the numbers of reads of values that expire, and of removals of expired keys.
    Expiration,
    /// The experiment checks counts and latency of several threads that read at the same time.
    Threads,
    /// The experiment checks the CPU time of each operation.
    Processor,
    /// The experiment checks the number of bytes that the engine has written by write calls.
    Written,
    /// The experiment checks the number of bytes written to a block device that only this cell uses.
    DeviceWrites,
    /// The experiment checks the numbers of bytes and of requests read from a block device that only this cell uses.
    DeviceReads,
    /// The experiment checks the time to open a store whose process was killed.
    Recovery,
    /// The experiment checks bytes, sizes, memory, and the times of load, quiesce phase, close and reopening.
    Bytes,
}

/// Costs of the calibration engine, and the cells of one job that measure them.
#[derive(Clone, Debug)]
pub(super) struct Experiment {
    pub name: String,
    pub subject: Subject,
    pub access: Access,
    pub truth: Truth,
    pub cells: Vec<Cell>,
    /// `true` if the calibrating process also writes to a file in the directory of the calibration during the
    /// measurement, as another program would: on the disk of the store, but not on a cell's own device.
    pub foreign_writes: bool,
    /// Limit of memory and page cache of the measuring process, in bytes; `None` without a limit.
    pub memory_limit: Option<u64>,
}

/// Returns all experiments, in process and over the wire.
pub(super) fn all() -> Vec<Experiment> {
    let of = |access| {
        let times = [latency(access), tail(access), stalls(access), window(access), overload(access)];
        let others = [kinds(access), crowd(access), timer(access), processor(access), bytes(access)];
        times.into_iter().chain(others).chain([expiration(access)])
    };
    // A server's allocations are not counted, and it always commits in groups. It hides which operation a call of
    // its engine belongs to, and adds the writes of its sockets to those of the engine.
    let in_process = [
        groups(),
        allocations(),
        instructions(),
        other_kinds(),
        threads(),
        warm_up(),
        in_place(),
        appends(),
        soak(),
        found_rate(),
    ];
    let devices = [device_writes(), device_reads(), memory_limit()];
    let recoveries = [200, 800].map(recovery);
    let others = in_process.into_iter().chain(devices).chain(recoveries);
    [Access::InProcess, Access::Wire].into_iter().flat_map(of).chain(others).collect()
}

/// Returns the factor for the durations of the engine's calls: 1 in process, `times` over the wire, where a request
/// passes several threads and a busy machine lets each of them wait for milliseconds.
fn duration_factor(access: Access, times: u64) -> u64 {
    match access {
        Access::InProcess => 1,
        Access::Wire => times,
    }
}

/// Returns an experiment with a latency distribution whose percentiles are far apart.
fn latency(access: Access) -> Experiment {
    let times = duration_factor(access, 4);
    let part = |count, ms| Part { count, cost: Cost { cpu_ns: 0, sleep_ns: ms * times * MS } };
    let reads = vec![part(850, 1), part(130, 4), part(14, 12), part(4, 40), part(2, 120)];
    let truth = Truth { reads, write_bytes: PAGE, ..Truth::default() };
    let read = Workload { keys: FEW_KEYS, ..workload("latency", Operation::Get, 1000) };
    experiment("latency", Subject::Latency, access, truth, vec![read])
}

/// Returns an experiment with enough reads for a 99.99th percentile of the latency. Most reads take no time, because
/// `latency` verifies the percentiles up to the 99th.
fn tail(access: Access) -> Experiment {
    let part = |count, ms| Part { count, cost: Cost { cpu_ns: 0, sleep_ns: ms * MS } };
    let reads = vec![part(9945, 0), part(50, 4), part(5, 40)];
    let truth = Truth { reads, write_bytes: PAGE, ..Truth::default() };
    let read = workload("tail", Operation::Get, 10_000);
    experiment("tail", Subject::Tail, access, truth, vec![read])
}

/// Returns an experiment in which the engine stalls for 250 ms of every second.
fn stalls(access: Access) -> Experiment {
    let cost = Cost { cpu_ns: 0, sleep_ns: MS };
    let truth = Truth {
        reads: vec![Part { count: 1, cost }],
        stall: Some(Stall { every_ms: 1000, length_ms: 250 }),
        write_bytes: PAGE,
        ..Truth::default()
    };
    let read = Workload { rate: Some(400.0), ..workload("open loop", Operation::Get, 1000) };
    experiment("open loop", Subject::OpenLoop, access, truth, vec![read])
}

/// Returns an experiment of 20 operations in one second, of which the last one ends before the second does.
fn window(access: Access) -> Experiment {
    let cost = Cost { cpu_ns: 0, sleep_ns: MS };
    let truth = Truth { reads: vec![Part { count: 1, cost }], write_bytes: PAGE, ..Truth::default() };
    let read = Workload {
        rate: Some(20.0),
        seconds: Some(1.0),
        operations: None,
        ..workload("window", Operation::Get, 0)
    };
    experiment("window", Subject::Window, access, truth, vec![read])
}

/// Returns an experiment with a rate of 200 operations per second, twice what the engine can do.
fn overload(access: Access) -> Experiment {
    let cost = Cost { cpu_ns: 0, sleep_ns: 10 * MS };
    let truth = Truth { reads: vec![Part { count: 1, cost }], write_bytes: PAGE, ..Truth::default() };
    let read = Workload {
        keys: FEW_KEYS,
        rate: Some(200.0),
        seconds: Some(1.0),
        operations: None,
        ..workload("overload", Operation::Get, 0)
    };
    experiment("overload", Subject::Overload, access, truth, vec![read])
}

/// Returns an experiment with three allocations for each read.
fn allocations() -> Experiment {
    let truth = Truth { read_blocks: 3, block_bytes: 1000, write_bytes: PAGE, ..Truth::default() };
    let read = Workload { counts_allocations: true, ..workload("allocations", Operation::Get, 1000) };
    experiment("allocations", Subject::Allocations, Access::InProcess, truth, vec![read])
}

/// Returns an experiment with ten million instructions for each read, so that those of the driver are few.
fn instructions() -> Experiment {
    let truth = Truth { read_instructions: 10_000_000, write_bytes: PAGE, ..Truth::default() };
    let read = Workload {
        keys: FEW_KEYS,
        counts_instructions: true,
        ..workload("instructions", Operation::Get, 200)
    };
    experiment("instructions", Subject::Instructions, Access::InProcess, truth, vec![read])
}

/// Returns an experiment with four threads (over the wire: clients) that read and write in batches (over the wire:
/// pipelines) of eight.
fn crowd(access: Access) -> Experiment {
    let cost = Cost { cpu_ns: 0, sleep_ns: MS / 10 };
    let reads = vec![Part { count: 1, cost }];
    let truth = Truth { reads, write: cost, write_bytes: PAGE, ..Truth::default() };
    let mixed = Workload {
        mix: [(Operation::Get, 0.5), (Operation::Update, 0.5)].into(),
        threads: 4,
        batch: 8,
        ..workload("crowd", Operation::Get, 4000)
    };
    experiment("crowd", Subject::Crowd, access, truth, vec![mixed])
}

/// Returns an experiment that searches for the highest rate of an engine that can do a hundred operations per second.
fn found_rate() -> Experiment {
    let cost = Cost { cpu_ns: 0, sleep_ns: 10 * MS };
    let truth = Truth { reads: vec![Part { count: 1, cost }], write_bytes: PAGE, ..Truth::default() };
    let read = Workload {
        keys: FEW_KEYS,
        seconds: Some(0.5),
        operations: None,
        rate_goal: Some(LatencyGoal { of: Percentile::P99, below_us: 500_000.0 }),
        ..workload("found rate", Operation::Get, 0)
    };
    experiment("found rate", Subject::FoundRate, Access::InProcess, truth, vec![read])
}

/// Returns an experiment that records three seconds, with deferred work of half a second after them.
fn soak() -> Experiment {
    let cost = Cost { cpu_ns: MS, sleep_ns: 4 * MS };
    let truth = Truth {
        reads: vec![Part { count: 1, cost }],
        write: cost,
        write_bytes: PAGE,
        memory_bytes: 64 * MIB,
        mapped_bytes: 16 * MIB,
        settle_ms: 500,
        ..Truth::default()
    };
    let mixed = Workload {
        mix: [(Operation::Get, 0.5), (Operation::Update, 0.5)].into(),
        seconds: Some(3.0),
        operations: None,
        soak: true,
        ..workload("soak", Operation::Get, 0)
    };
    experiment("soak", Subject::Soak, Access::InProcess, truth, vec![mixed])
}

/// Returns an experiment under the fsync policy `everysec` that lasts for several syncs.
fn timer(access: Access) -> Experiment {
    let cost = Cost { cpu_ns: 0, sleep_ns: MS };
    let truth = Truth { write: cost, write_bytes: PAGE, ..Truth::default() };
    let updates = Workload {
        rate: Some(50.0),
        seconds: Some(2.5),
        operations: None,
        ..workload("timer", Operation::Update, 0)
    };
    let mut experiment = experiment("timer", Subject::TimerSyncs, access, truth, vec![updates]);
    for cell in &mut experiment.cells {
        cell.target.fsync = Some(Fsync::EverySec);
    }
    experiment
}

/// Returns an experiment in which about half of the keys exist: each is updated about every half second, and its value
/// expires after 400 ms.
fn expiration(access: Access) -> Experiment {
    let cost = Cost { cpu_ns: 0, sleep_ns: MS };
    let reads = vec![Part { count: 1, cost }];
    // While the engine quiesces, removals that have ended are counted.
    let truth = Truth { reads, write: cost, write_bytes: PAGE, settle_ms: 50, ..Truth::default() };
    let mixed = Workload {
        mix: [(Operation::Get, 0.5), (Operation::Update, 0.5)].into(),
        ttl_ms: Some(400),
        ..workload("expiration", Operation::Get, 1600)
    };
    let mut experiment = experiment("expiration", Subject::Expiration, access, truth, vec![mixed]);
    if access == Access::InProcess {
        experiment.cells.iter_mut().for_each(|cell| cell.target.commits = Commits::Groups);
    }
    experiment
}

/// Returns an experiment in which one thread reads and writes, with different latencies.
fn kinds(access: Access) -> Experiment {
    let times = duration_factor(access, 6);
    let cost = |us| Cost { cpu_ns: 0, sleep_ns: us * times * MS / 1000 };
    let part = |count, us| Part { count, cost: cost(us) };
    let reads = vec![part(880, 400), part(105, 2500), part(15, 12_000)];
    let truth = Truth { reads, write: cost(800), write_bytes: PAGE, ..Truth::default() };
    // Enough operations of each kind for a percentile of one in a thousand.
    let mixed = Workload {
        keys: FEW_KEYS,
        mix: [(Operation::Get, 0.5), (Operation::Update, 0.5)].into(),
        ..workload("kinds", Operation::Get, 2200)
    };
    experiment("kinds", Subject::Kinds, access, truth, vec![mixed])
}

/// Returns an experiment in which one thread inserts, deletes, scans, and reads and writes a key.
fn other_kinds() -> Experiment {
    let cost = |us| Cost { cpu_ns: 0, sleep_ns: us * MS / 1000 };
    let reads = vec![Part { count: 850, cost: cost(400) }, Part { count: 150, cost: cost(2000) }];
    let truth = Truth { reads, write: cost(500), scan: cost(1000), ..Truth::default() };
    let kinds = [Operation::Insert, Operation::Delete, Operation::Scan, Operation::ReadModifyWrite]
        .map(|kind| (kind, 0.25));
    // Enough operations of each kind for a percentile of one in a thousand.
    let mixed = Workload { mix: kinds.into(), keys: 2000, ..workload("other kinds", Operation::Scan, 4600) };
    experiment("other kinds", Subject::Kinds, Access::InProcess, truth, vec![mixed])
}

/// Returns an experiment with four threads that read at the same time.
fn threads() -> Experiment {
    let part = |count, us| Part { count, cost: Cost { cpu_ns: 0, sleep_ns: us * MS / 1000 } };
    let reads = vec![part(900, 1000), part(80, 4000), part(20, 15_000)];
    let truth = Truth { reads, ..Truth::default() };
    let read = Workload { threads: 4, ..workload("threads", Operation::Get, 3000) };
    experiment("threads", Subject::Threads, Access::InProcess, truth, vec![read])
}

/// Returns an experiment whose warm-up does the same operations as the measurement, which must not include them.
fn warm_up() -> Experiment {
    let part = |count, us| Part { count, cost: Cost { cpu_ns: 0, sleep_ns: us * MS / 1000 } };
    let truth = Truth { reads: vec![part(90, 1000), part(10, 7000)], ..Truth::default() };
    let read = Workload { warmup_seconds: 0.3, ..workload("warm-up", Operation::Get, 400) };
    experiment("warm-up", Subject::Latency, Access::InProcess, truth, vec![read])
}

/// Returns an experiment in which each write overwrites the same pages and appends one, while the calibrating process
/// writes too, as another program would.
fn in_place() -> Experiment {
    let truth = Truth { overwrite_bytes: 6 * PAGE, ..Truth::default() };
    let update = workload("in place", Operation::Update, 500);
    Experiment {
        foreign_writes: true,
        ..experiment("in place", Subject::Written, Access::InProcess, truth, vec![update])
    }
}

/// Returns an experiment of appends that are small parts of a page, each with a sync.
fn appends() -> Experiment {
    let truth = Truth { write_bytes: 256, ..Truth::default() };
    let update = workload("small appends", Operation::Update, 500);
    let mut experiment =
        experiment("small appends", Subject::Written, Access::InProcess, truth, vec![update]);
    experiment.cells.iter_mut().for_each(|cell| cell.target.fsync = Some(Fsync::Always));
    Experiment { foreign_writes: true, ..experiment }
}

/// Returns an experiment of writes in place, each with a sync, on a device of its own, while another program writes to
/// the machine's device.
fn device_writes() -> Experiment {
    let truth = Truth { overwrite_bytes: 32 * PAGE, write_bytes: 2 * PAGE, ..Truth::default() };
    let update =
        Workload { value_bytes: Size::Fixed(4000), ..workload("device writes", Operation::Update, 300) };
    let mut experiment =
        experiment("device writes", Subject::DeviceWrites, Access::InProcess, truth, vec![update]);
    for cell in &mut experiment.cells {
        cell.target.fsync = Some(Fsync::Always);
        cell.own_device = Some(OwnDevice { read_ahead_kib: None });
    }
    Experiment { foreign_writes: true, ..experiment }
}

/// Returns an experiment of reads that each take 8 KiB from a file that was dropped from the page cache.
fn device_reads() -> Experiment {
    let truth = Truth { read_bytes: 2 * PAGE, read_file_bytes: 8 * MIB, ..Truth::default() };
    reads_of_device("device reads", truth, 1000)
}

/// Returns an experiment that reads a file twice, with too little memory to find it in the page cache at the second
/// time.
fn memory_limit() -> Experiment {
    let truth = Truth { read_bytes: 8 * PAGE, read_file_bytes: 128 * MIB, ..Truth::default() };
    Experiment { memory_limit: Some(48 * MIB), ..reads_of_device("memory limit", truth, 8192) }
}

fn reads_of_device(name: &str, truth: Truth, reads: u64) -> Experiment {
    let read = workload(name, Operation::Get, reads);
    let mut experiment = experiment(name, Subject::DeviceReads, Access::InProcess, truth, vec![read]);
    // Read-ahead by the device would not change a thing: each read says that it is alone.
    let own_device = Some(OwnDevice { read_ahead_kib: Some(128) });
    experiment.cells.iter_mut().for_each(|cell| cell.own_device = own_device);
    experiment
}

/// Returns an experiment in which a process loads `keys` keys, makes as many updates of keys that are chosen at random,
/// and goes on with updates until it is killed. To open its files takes a known time for each write in them.
fn recovery(keys: u64) -> Experiment {
    let write = Cost { cpu_ns: 0, sleep_ns: MS / 10 };
    let truth = Truth { write, write_bytes: PAGE, replay_us: 200, ..Truth::default() };
    let name = format!("recovery of {keys}");
    let kill = Workload { keys, step: CellKind::Recovery, ..workload(&name, Operation::Update, keys) };
    experiment(&name, Subject::Recovery, Access::InProcess, truth, vec![kill])
}

/// Returns an experiment with four threads whose writes are committed together: each write waits for the previous
/// commit.
fn groups() -> Experiment {
    let write = Cost { cpu_ns: 0, sleep_ns: 2 * MS };
    let truth = Truth { write, write_bytes: PAGE, ..Truth::default() };
    let updates = Workload {
        threads: 4,
        seconds: Some(1.0),
        operations: None,
        ..workload("groups", Operation::Update, 0)
    };
    let mut experiment = experiment("groups", Subject::Groups, Access::InProcess, truth, vec![updates]);
    experiment.cells.iter_mut().for_each(|cell| cell.target.commits = Commits::Groups);
    experiment
}

fn processor(access: Access) -> Experiment {
    let cost = Cost { cpu_ns: MS / 2, sleep_ns: 0 };
    let truth = Truth { reads: vec![Part { count: 1, cost }], write_bytes: PAGE, ..Truth::default() };
    experiment(
        "processor",
        Subject::Processor,
        access,
        truth,
        vec![workload("processor", Operation::Get, 1000)],
    )
}

/// Returns an experiment on sizes and memory. The load uses more memory and leaves more deferred work than the
/// cells after it, and no cell may include that.
fn bytes(access: Access) -> Experiment {
    let truth = Truth {
        write: Cost { cpu_ns: 0, sleep_ns: MS / 10 },
        write_bytes: 2 * PAGE,
        debt_bytes: 3 * PAGE,
        settled_bytes: 2 * MIB,
        closed_bytes: MIB,
        hole_bytes: 5 * MIB,
        reserved_bytes: 7 * MIB,
        memory_bytes: 96 * MIB,
        surge_bytes: 48 * MIB,
        load_surge_bytes: 192 * MIB,
        mapped_bytes: 24 * MIB,
        settle_ms: 80,
        close_ms: 60,
        recovery_ms: 70,
        ..Truth::default()
    };
    let large = |name, operation, operations| Workload {
        keys: 600,
        value_bytes: Size::Fixed(4000),
        ..workload(name, operation, operations)
    };
    let cells = vec![large("updates", Operation::Update, 500), large("deletes", Operation::Delete, 300)];
    experiment("bytes", Subject::Bytes, access, truth, cells)
}

fn workload(name: &str, operation: Operation, operations: u64) -> Workload {
    Workload {
        name: name.into(),
        keys: 200,
        scan_length: 1,
        seed: 42,
        ..Workload::of([(operation, 1.0)], operations)
    }
}

fn experiment(
    name: &str,
    subject: Subject,
    access: Access,
    truth: Truth,
    workloads: Vec<Workload>,
) -> Experiment {
    let target = Target { persistent: true, ..Target::new(access, CALIBRATION) };
    let cell = |workload: Workload| Cell {
        id: format!("calibrate/{}", workload.name),
        table: "calibrate".into(),
        row: workload.name.clone(),
        column: CALIBRATION.into(),
        target: target.clone(),
        workload,
        group: Some(name.into()),
        together: false,
        figure: Figure::Throughput,
        reference: true,
        own_device: None,
    };
    let cells = workloads.into_iter().map(cell).collect();
    Experiment { name: name.into(), subject, access, truth, cells, foreign_writes: false, memory_limit: None }
}

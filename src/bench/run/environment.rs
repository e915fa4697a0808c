//! Description of the machine of a run, from information that the system offers without user input, and
//! warnings about conditions that distort results.

use super::{
    affinity, cold, instruction_counter, interference::CpuWatch, over_wire::program_version, own_device,
    stored_calibration,
};
use crate::{
    bench::{
        plan::options::RunConditions,
        result::{Access, Cell, CellKind, Environment},
    },
    engine::{Kind, machine_memory::machine_bytes, synthetic},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    io::{self, Write},
    path::Path,
    thread,
    time::{Duration, Instant},
};

/// Number of cores from which on a server and its clients do not compete for CPU time.
const MANY_CORES: usize = 8;
/// Number of synced appends of 4 KiB, whose median time is the sync latency in results.
const SYNCS: usize = 50;

/// Describes the machine, the file system of `directory` and the run conditions, for the result file. Measures in
/// `directory` the latency of syncs and, if cells read from a cold cache, of random reads.
pub fn describe(directory: &Path, cells: &[Cell], conditions: &RunConditions) -> Environment {
    let read = |path: &str| fs::read_to_string(path).ok();
    let line = |path: &str| read(path).map(|text| text.trim().to_owned());
    let mount =
        fs::canonicalize(directory).ok().and_then(|path| mount(&read("/proc/self/mountinfo")?, &path));
    let (file_system, device) = mount.unzip();
    let mut environment = Environment {
        cpu: read("/proc/cpuinfo").as_deref().and_then(cpu),
        cores: thread::available_parallelism().map_or(1, usize::from),
        memory_bytes: machine_bytes(),
        system: format!(
            "{} {}",
            std::env::consts::OS,
            line("/proc/sys/kernel/osrelease").unwrap_or_default()
        ),
        governor: line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        directory: directory.display().to_string(),
        file_system,
        device,
        fsync_us: fsync_us(&directory.join("fsync-latency")).ok(),
        read_ahead_kib: own_device::read_ahead_kib(directory),
        random_read_us: reads_cold(cells, conditions).then(|| random_read_us(directory)).flatten(),
        random_read_after_us: None,
        load_average: read("/proc/loadavg").and_then(|text| text.split(' ').next()?.parse().ok()),
        commit: option_env!("KVBENCH_COMMIT").map(Into::into),
        program: stored_calibration::program().ok(),
        programs: programs(cells),
        rustc: option_env!("KVBENCH_RUSTC").map(Into::into),
        libraries: libraries(cells),
        memory_limit_bytes: conditions.memory_limit,
        driver_memory_bytes: None,
        foreign_limit: conditions.foreign_limit,
        cold: conditions.cold.then(cold::describe),
        cpus: affinity::describe(&conditions.cpus),
        no_instruction_counts: cells
            .iter()
            .any(|cell| cell.workload.counts_instructions)
            .then(instruction_counter::unavailable)
            .flatten(),
        calibration: stored_calibration::of_this_build(),
        warnings: Vec::new(),
    };
    environment.warnings = warnings(&environment, cells, conditions);
    environment
}

/// Returns the version of each store: of the program that was measured or, without one, of the engine's library.
fn libraries(cells: &[Cell]) -> BTreeMap<String, String> {
    let mut libraries = BTreeMap::new();
    for target in cells.iter().map(|cell| &cell.target) {
        if libraries.contains_key(&target.store) {
            continue;
        }
        // A program may have the name of an engine: `redis` is redis-server, or the engine for a Redis Cluster.
        let version = match &target.program {
            Some(program) => Some(program_version(program).unwrap_or_else(|| "version unknown".into())),
            None => synthetic::info(&target.store).map(|info| info.library.into()),
        };
        libraries.extend(version.map(|version| (target.store.clone(), version)));
    }
    libraries
}

/// Returns the CRC-32 of each other program that measures a store of `cells` in place of this one, by the store's name:
/// see [`Kind::in_program`]. Programs that cannot be read are left out.
pub(super) fn programs(cells: &[Cell]) -> BTreeMap<String, u32> {
    // The stores of a duel are measured by the two programs that it compares.
    let targets = cells.iter().map(|cell| &cell.target).filter(|target| target.side.is_none());
    let stores: BTreeSet<_> = targets.map(|target| target.store.as_str()).collect();
    let checksum = |store: &str| {
        let program = Kind::find(store)?.program?;
        Some((store.to_owned(), stored_calibration::checksum(program).ok()?))
    };
    stores.into_iter().filter_map(checksum).collect()
}

/// Returns `true` if measurements of both environments may be in one result: CPU model, number of cores, memory,
/// system, file system and device are equal.
pub fn is_same_machine(one: &Environment, other: &Environment) -> bool {
    (&one.cpu, one.cores, one.memory_bytes) == (&other.cpu, other.cores, other.memory_bytes)
        && (&one.system, &one.file_system, &one.device) == (&other.system, &other.file_system, &other.device)
}

fn cpu(text: &str) -> Option<String> {
    let named = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.split_once(": "));
    named("model name").or_else(|| named("Hardware")).map(|(_, model)| model.trim().to_owned())
}

/// Returns type and device of the file system of `path`, that of the longest mount point above `path`.
fn mount(mounts: &str, path: &Path) -> Option<(String, String)> {
    let above = mounts.lines().filter_map(|line| {
        // "36 35 98:0 /root /mount/point options optional... - type device options"
        let (mount, kind) = line.split_once(" - ")?;
        let point = mount.split(' ').nth(4)?.replace("\\040", " ");
        let mut kind = kind.split(' ');
        let described = (kind.next()?.to_owned(), kind.next()?.to_owned());
        path.starts_with(&point).then_some((point.len(), described))
    });
    above.max_by_key(|(length, _)| *length).map(|(_, described)| described)
}

fn fsync_us(path: &Path) -> io::Result<f64> {
    let mut file = File::create(path)?;
    let mut times = Vec::with_capacity(SYNCS);
    let outcome = (0..SYNCS).try_for_each(|_| {
        let begin = Instant::now();
        file.write_all(&[0x55; 4096])?;
        file.sync_data()?;
        times.push(begin.elapsed().as_secs_f64() * 1e6);
        Ok(())
    });
    fs::remove_file(path)?;
    times.sort_by(f64::total_cmp);
    outcome.map(|()| times.get(SYNCS / 2).copied().unwrap_or_default())
}

/// Returns `true` if a time that the run measures depends on random reads of the device: with `--cold`, or if a cell
/// measures recovery.
pub(super) fn reads_cold(cells: &[Cell], conditions: &RunConditions) -> bool {
    conditions.cold || cells.iter().any(|cell| cell.workload.step == CellKind::Recovery)
}

/// Returns the median time in microseconds of a read of 4 KiB at a random place of a new file of 64 MiB in `directory`,
/// past the page cache. `None` if that fails, for example because the file system has no direct reads.
#[cfg(target_os = "linux")]
pub(super) fn random_read_us(directory: &Path) -> Option<f64> {
    use rand::{Rng, SeedableRng, rngs::SmallRng};
    use std::os::unix::fs::{FileExt, OpenOptionsExt};
    const PAGE: usize = 4096;
    const PAGES: u64 = 16_384;
    const READS: usize = 200;
    let path = directory.join("read-latency");
    let measure = || -> io::Result<Vec<f64>> {
        let mut file = File::create(&path)?;
        (0..PAGES / 256).try_for_each(|_| file.write_all(&[0x55; 256 * PAGE]))?;
        file.sync_all()?;
        let file = File::options().read(true).custom_flags(libc::O_DIRECT).open(&path)?;
        let mut buffer = vec![0; 2 * PAGE];
        // Direct reads need a buffer that begins at a page.
        let start = buffer.as_ptr().align_offset(PAGE);
        let page = buffer.get_mut(start..start + PAGE).ok_or(io::ErrorKind::InvalidInput)?;
        let mut random = SmallRng::seed_from_u64(1);
        let time = |_| {
            let begin = Instant::now();
            file.read_exact_at(page, random.random_range(0..PAGES) * PAGE as u64)?;
            Ok(begin.elapsed().as_secs_f64() * 1e6)
        };
        (0..READS).map(time).collect()
    };
    let times = measure();
    let _ = fs::remove_file(&path);
    let mut times = times.ok()?;
    times.sort_by(f64::total_cmp);
    times.get(READS / 2).copied()
}

#[cfg(not(target_os = "linux"))]
pub(super) fn random_read_us(_: &Path) -> Option<f64> {
    None
}

/// Waits half a second. Returns `true` if other processes and virtual machines use more than a tenth of the CPUs
/// meanwhile, or if their use is not known. The load average alone covers the last minute, which may include an earlier
/// benchmark run.
fn is_busy() -> bool {
    const BUSY: f64 = 0.1;
    let watch = CpuWatch::start();
    thread::sleep(Duration::from_millis(500));
    watch.end().is_none_or(|disturbance| disturbance.part() > BUSY)
}

/// Returns warnings about conditions of the machine and the run that distort results, if the user did not ask for them
/// by a flag.
fn warnings(environment: &Environment, cells: &[Cell], conditions: &RunConditions) -> Vec<String> {
    let mut warnings = Vec::new();
    let cores = environment.cores;
    // An external server has no limit.
    let is_switched_off =
        conditions.foreign_limit.is_none() && cells.iter().all(|cell| cell.target.address.is_none());
    let other_load = environment.load_average.filter(|_| !is_switched_off);
    if let Some(load) = other_load.filter(|load| *load > cores as f64 * 0.25 && is_busy()) {
        warnings.push(format!(
            "the machine was busy at the start: load {load:.1} on {cores} cores; stop other programs"
        ));
    }
    if let Some(governor) = environment.governor.as_deref().filter(|governor| *governor != "performance") {
        warnings.push(format!(
            "the processor's clock changes with load (governor {governor}); to prevent it: `cpupower frequency-set \
            -g performance`"
        ));
    }
    let memory = environment.file_system.as_deref().is_some_and(|kind| matches!(kind, "tmpfs" | "ramfs"));
    if memory && cells.iter().any(|cell| cell.target.persistent) {
        warnings.push(format!(
            "{} is in memory: syncs cost nothing; choose --dir on a disk",
            environment.directory
        ));
    }
    let serves = |cell: &Cell| cell.target.access == Access::Wire && cell.target.address.is_none();
    if (2..MANY_CORES).contains(&cores) && environment.cpus.is_none() && cells.iter().any(serves) {
        warnings.push(format!(
            "over the wire, the clients take processor time from the server, which has the same {cores} cores; give each its \
             own: --cpus server=0/driver=1"
        ));
    }
    /// Usual read-ahead of a device in KiB.
    const USUAL: u64 = 128;
    let large = environment.read_ahead_kib.filter(|kib| *kib > USUAL && environment.cold.is_some());
    if let Some(kib) = large {
        warnings.push(format!(
            "the device reads up to {kib} KiB ahead, so that a cold read may bring its neighbours; to measure with \
             {USUAL} KiB too: blockdev --setra 256 on the device, and another --output"
        ));
    }
    warnings.extend(data_size_warnings(environment, cells, conditions));
    warnings
}

/// Returns a warning if the data of a cell take more than half of the memory, unless the user gave `--keys`, and one if
/// they exceed the engines' cache, unless the user gave `--keys` or `--cache-size`. Data of external servers do not count.
fn data_size_warnings(environment: &Environment, cells: &[Cell], conditions: &RunConditions) -> Vec<String> {
    let mut warnings = Vec::new();
    // Memory and cache of a server that was already running are not known.
    let cells = || cells.iter().filter(|cell| cell.target.address.is_none());
    let largest = cells().map(|cell| cell.workload.most_bytes()).fold(0.0, f64::max);
    if let Some(total) = environment
        .usable_memory_bytes()
        .filter(|total| !conditions.keys_are_explicit && largest > 0.5 * *total as f64)
    {
        warnings.push(format!(
            "the data ({:.1} GiB) take more than half of the memory ({:.1} GiB); fewer --keys keep them in \
             memory",
            gib(largest),
            gib(total as f64)
        ));
    }
    let cache = cells().filter(|cell| cell.target.persistent).map(|cell| cell.target.cache_bytes).max();
    let is_asked = conditions.keys_are_explicit || conditions.cache_is_explicit;
    if let Some(cache) = cache.filter(|cache| !is_asked && largest > *cache as f64) {
        warnings.push(format!(
            "the data ({:.2} GiB) are larger than the engines' cache ({:.2} GiB): reads depend on the system's page \
             cache; a larger --cache-size holds them",
            gib(largest), gib(cache as f64)
        ));
    }
    warnings
}

/// Adds a warning to those of a run. It replaces an earlier one of the same kind, which has the same words up to the
/// first colon: a run that goes on with `--resume` is warned again, with other numbers.
pub(super) fn add_warning(environment: &mut Environment, warning: String) {
    let kind = |text: &str| text.split(':').next().unwrap_or_default().to_owned();
    let mut known = environment.warnings.iter_mut();
    match known.find(|known| kind(known) == kind(&warning)) {
        Some(known) => *known = warning,
        None => environment.warnings.push(warning),
    }
}

fn gib(bytes: f64) -> f64 {
    bytes / f64::from(1 << 30)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::plan::{options::Options, suites};

    #[test]
    #[cfg(target_os = "linux")]
    fn random_reads_of_the_device_are_timed_before_cold_cells_only() {
        let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let times = random_read_us(directory.path());
        // A file system without direct reads has none.
        assert!(times.is_none_or(|us| us > 0.0), "{times:?}");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
        let described = |cold| {
            let conditions = RunConditions { cold, ..RunConditions::default() };
            describe(directory.path(), &[], &conditions).random_read_us.is_some()
        };
        assert!(!described(false));
        assert_eq!(described(true), times.is_some());
    }

    #[test]
    fn the_longest_mount_point_wins() {
        let mounts =
            "22 1 8:1 / / rw - ext4 /dev/root rw\n23 22 0:1 / /data\\040x rw,a shared:1 - xfs /dev/sdb rw\n";
        let at = |path: &str| mount(mounts, Path::new(path));
        assert_eq!(at("/data x/y"), Some(("xfs".into(), "/dev/sdb".into())));
        assert_eq!(at("/data"), Some(("ext4".into(), "/dev/root".into())));
    }

    /// A user who gave the number of keys gets no warning about the size of the data; a user who gave the cache size
    /// gets none that the data exceed the cache.
    #[test]
    fn flags_for_sizes_prevent_warnings_about_the_size_of_the_data() {
        let cells = suites::plan(&Options { keys: Some(10_000_000), ..Options::default() }).unwrap().cells;
        let environment = Environment { cores: 1, memory_bytes: Some(1 << 30), ..Environment::default() };
        let count = |conditions| warnings(&environment, &cells, &conditions).len();
        assert_eq!(count(RunConditions::default()), 2);
        assert_eq!(count(RunConditions { cache_is_explicit: true, ..RunConditions::default() }), 1);
        assert_eq!(count(RunConditions { keys_are_explicit: true, ..RunConditions::default() }), 0);
    }

    #[test]
    fn data_of_an_external_server_need_no_memory_of_this_machine() {
        let mut cells =
            suites::plan(&Options { keys: Some(10_000_000), ..Options::default() }).unwrap().cells;
        cells.iter_mut().for_each(|cell| cell.target.address = Some("127.0.0.1:1".into()));
        let environment = Environment { cores: 1, memory_bytes: Some(1 << 30), ..Environment::default() };
        assert_eq!(warnings(&environment, &cells, &RunConditions::default()), [""; 0]);
    }

    #[test]
    fn a_warning_that_is_given_again_replaces_the_earlier_one() {
        let mut environment = Environment::default();
        for warning in [
            "the machine was busy at the start: load 3.1 on 2 cores; stop other programs",
            "--memory-limit does not limit swap (memory.swap.max: denied)",
            "the machine was busy at the start: load 2.2 on 2 cores; stop other programs",
            "--memory-limit does not limit swap (memory.swap.max: denied)",
        ] {
            add_warning(&mut environment, warning.into());
        }
        assert_eq!(
            environment.warnings,
            [
                "the machine was busy at the start: load 2.2 on 2 cores; stop other programs",
                "--memory-limit does not limit swap (memory.swap.max: denied)",
            ]
        );
    }

    #[test]
    fn clients_that_share_few_cores_with_their_server_are_doubtful() {
        let plan = |wire| suites::plan(&Options { wire, ..Options::default() }).unwrap().cells;
        let warned = |cores, cpus: Option<&str>, wire| {
            let environment = Environment { cores, cpus: cpus.map(Into::into), ..Environment::default() };
            let conditions = RunConditions::default();
            warnings(&environment, &plan(wire), &conditions)
                .iter()
                .any(|text| text.contains("--cpus server=0/driver=1"))
        };
        assert!(warned(2, None, true) && warned(7, None, true));
        assert!(!warned(2, None, false), "in process there is no server");
        assert!(!warned(2, Some("server on 0, driver on 1"), true));
        assert!(!warned(1, None, true) && !warned(8, None, true));
    }
}

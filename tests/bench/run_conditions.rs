//! How a run is conducted: order, waiting, limits, what is refused.

use crate::{
    support::RunToEnd,
    support::bench::{bench, command, measurement, read, result_of, stderr},
};
use kvbench::{
    bench::{
        data,
        plan::suites,
        result::{Outcome, Run, Sample},
    },
    engine::page_cache,
    testing::skip_test::skip,
};
use std::fs;

/// Cells in the order in which a repetition measured them.
fn order(run: &Run, repetition: u32) -> Vec<&str> {
    let own = run.samples.iter().filter(|sample| sample.repetition == repetition);
    own.map(|sample| sample.cell.as_str()).collect()
}

const SHORT: [&str; 6] = ["--keys", "500", "--operations", "100", "--threads", "1"];

#[test]
fn each_repetition_has_an_order_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let flags = ["--stores", "map,btree", "--fsync", "always,everysec,no,memory", "--repetitions", "3"];
    let run = result_of(dir.path(), &[&SHORT[..], &flags].concat());
    let orders: Vec<_> = (0..3).map(|repetition| order(&run, repetition)).collect();
    assert!(orders[0] != orders[1] && orders[1] != orders[2], "{orders:?}");
    for order in &orders {
        let mut sorted = order.clone();
        sorted.sort_unstable();
        let mut cells: Vec<_> = run.cells.iter().map(|cell| cell.id.as_str()).collect();
        cells.sort_unstable();
        assert_eq!(sorted, cells);
    }
    fs::rename(dir.path().join("result.json"), dir.path().join("first.json")).unwrap();
    let again = result_of(dir.path(), &[&SHORT[..], &flags].concat());
    assert_eq!(order(&again, 1), orders[1], "the seed decides");
}

/// Bytes that the cell of `store` has on disk in each repetition.
fn sizes(run: &Run, store: &str) -> Vec<u64> {
    let mut of: Vec<_> = run.samples.iter().filter(|sample| sample.cell.contains(store)).collect();
    of.sort_by_key(|sample| sample.repetition);
    of.iter().map(|sample| measurement(&sample.outcome).disk_bytes.unwrap()).collect()
}

/// The sizes of the values are random.
#[test]
fn each_repetition_has_data_of_its_own_and_its_stores_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let flags = ["--stores", "btree,map", "--value-bytes", "100-9000", "--fsync", "no", "--repetitions", "3"];
    let run = result_of(dir.path(), &[&SHORT[..], &flags].concat());
    let (btree, map) = (sizes(&run, "btree"), sizes(&run, "map"));
    assert_eq!(btree, map, "both write the same log");
    assert!(btree.windows(2).all(|pair| pair[0] != pair[1]), "{btree:?}");
    fs::rename(dir.path().join("result.json"), dir.path().join("first.json")).unwrap();
    let again = result_of(dir.path(), &[&SHORT[..], &flags].concat());
    assert_eq!(sizes(&again, "btree"), btree, "the seed of the run decides");
}

#[test]
fn groups_stay_together() {
    let dir = tempfile::tempdir().unwrap();
    let flags = [
        "--suite",
        "smallnest",
        "--stores",
        "map,btree",
        "--fsync",
        "no",
        "--keys",
        "500",
        "--seconds",
        "0.02",
    ];
    let run = result_of(dir.path(), &[&flags[..], &["--repetitions", "2"]].concat());
    let group = |id: &str| run.cells.iter().find(|cell| cell.id == id).unwrap().group.clone();
    for repetition in 0..2 {
        let mut groups: Vec<_> = order(&run, repetition).into_iter().filter_map(group).collect();
        groups.dedup();
        let mut distinct = groups.clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(groups.len(), distinct.len(), "{groups:?}");
    }
}

/// Work that others do is in the result; where it is known.
#[test]
#[cfg(target_os = "linux")]
fn what_others_did_is_noted() {
    let dir = tempfile::tempdir().unwrap();
    let run = result_of(dir.path(), &[&SHORT[..], &["--stores", "map"]].concat());
    for sample in &run.samples {
        let found = sample.disturbance.expect("this system tells");
        assert!((0.0..=1.0).contains(&found.foreign) && (0.0..=1.0).contains(&found.stolen), "{found:?}");
    }
}

/// Measures reads while another program uses a CPU all the time. Returns the result, and what was printed.
#[cfg(target_os = "linux")]
fn disturbed(flags: &[&str]) -> (Run, String) {
    let dir = tempfile::tempdir().unwrap();
    let _busy = crate::support::bench::busy();
    let short = ["--stores", "map", "--keys", "500", "--threads", "1", "--foreign", "0.1"];
    let output = bench(dir.path(), &[&short[..], flags].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    (read(dir.path()), stderr(&output))
}

#[cfg(target_os = "linux")]
const AGAIN: &str = "; it is measured again";
#[cfg(target_os = "linux")]
const KEPT: &str = "; the least disturbed attempt is kept";

/// Once a cell was disturbed each time, the next one is measured once.
#[test]
#[cfg(target_os = "linux")]
fn a_disturbed_cell_is_measured_again_at_most_twice() {
    let (run, printed) = disturbed(&["--seconds", "0.2"]);
    let count = |words: &str| printed.matches(words).count();
    // The store, and the harness without one.
    assert_eq!(run.cells.len(), 2);
    assert_eq!((count(AGAIN), count(KEPT)), (2, 2), "{printed}");
}

/// One disturbed trial can decide the rate of a search.
#[test]
#[cfg(target_os = "linux")]
fn each_disturbed_trial_of_a_search_is_measured_again() {
    let flags = ["--mix", "get=1", "--seconds", "0.2", "--find-rate", "p50<1s"];
    let (run, printed) = disturbed(&flags);
    let count = |words: &str| printed.matches(words).count();
    // The cell of the harness overhead, if there is one, is measured once after a busy cell.
    assert!(count(KEPT) > 3 && count(AGAIN) + 2 >= 2 * count(KEPT), "{printed}");
    let searches = run.samples.iter().filter_map(|sample| match &sample.outcome {
        Outcome::Measured(measurement) => Some((sample, measurement.rate_search.as_ref()?)),
        Outcome::Failed(_) | Outcome::Unsupported(_) => None,
    });
    for (sample, search) in searches {
        assert!(sample.disturbance.is_some_and(|found| found.part() > 0.001), "{sample:?}");
        assert!(search.trials.iter().all(|trial| trial.disturbance.is_some()), "{search:?}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_disturbed_soak_is_measured_once() {
    let (run, printed) = disturbed(&["--minutes", "0.1"]);
    let soak = run.cells.iter().find(|cell| cell.workload.soak).unwrap();
    let own = format!("{}: other programs used ", soak.id);
    let lines: Vec<_> = printed.lines().filter(|line| line.contains(&own)).collect();
    assert!(lines.len() == 1 && lines[0].ends_with(KEPT), "{printed}");
}

#[test]
fn a_dry_run_tells_and_makes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let flags =
        ["--suite", "ycsb", "--stores", "map", "--fsync", "always", "--repetitions", "5", "--dry-run"];
    let output = bench(dir.path(), &flags);
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    for words in
        ["/map/always/", "5 repetitions", "time: about ", "disk: up to ", "are free", "result: result.json"]
    {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

/// The bound counts the cells that take no turns: here the load, and the harness overhead.
#[test]
fn a_dry_run_bounds_the_time_of_all_cells() {
    let dir = tempfile::tempdir().unwrap();
    let suite = ["--suite", "ycsb", "--stores", "map,btree", "--fsync", "always", "--dry-run"];
    let seconds = |flags: &[&str], before: &str| {
        let text = String::from_utf8(bench(dir.path(), &[&suite[..], flags].concat()).stdout).unwrap();
        let time = text.lines().find_map(|line| line.strip_prefix(before)).expect(before).to_owned();
        let (number, unit) = time.split(',').next().unwrap().split_once(' ').unwrap();
        number.parse::<f64>().unwrap() * if unit == "s" { 1.0 } else { 60.0 }
    };
    let turns = ["--detect", "3%", "--budget", "1"];
    let load = seconds(&["--workloads", "load"], "time: about ");
    let all = seconds(&turns, "time: at most ");
    assert!(all >= 0.9 * load, "{all} {load}");
    // Workload E inserts, which no number of operations bounds, so five are compared.
    assert!(all > seconds(&[&turns[..], &["--workloads", "c"]].concat(), "time: at most "), "{all}");
}

/// At a rate of 1 a second 900 operations take a quarter of an hour, however fast the store is.
#[test]
fn a_dry_run_knows_rates() {
    let dir = tempfile::tempdir().unwrap();
    let flags = ["--stores", "map", "--keys", "10", "--operations", "900", "--rate", "1", "--dry-run"];
    let text = String::from_utf8(bench(dir.path(), &flags).stdout).unwrap();
    assert!(text.contains("time: about 15 min"), "{text}");
}

/// To load and to settle long values takes longer, and so it does to read them from the disk at the end.
#[test]
fn a_dry_run_counts_bytes_and_the_verification() {
    let dir = tempfile::tempdir().unwrap();
    let seconds = |more: &[&str]| {
        let flags =
            ["--stores", "map", "--keys", "1000000", "--seconds", "1", "--repetitions", "1", "--dry-run"];
        let text = String::from_utf8(bench(dir.path(), &[&flags[..], more].concat()).stdout).unwrap();
        let time = text.lines().find_map(|line| line.strip_prefix("time: about ")).unwrap().to_owned();
        time.strip_suffix(" s").unwrap().parse::<f64>().unwrap()
    };
    let (short, long) = (seconds(&[]), seconds(&["--value-bytes", "1000"]));
    assert!(long > short + 2.0, "{long} {short}");
    let writing = seconds(&["--value-bytes", "1000", "--mix", "update=1", "--seconds", "10"]);
    let reading = seconds(&["--value-bytes", "1000", "--seconds", "10"]);
    assert!(writing > reading, "{writing} {reading}");
    assert!(short > 1_000_000.0 / 200_000.0 + 1.0, "{short}");
}

/// What must come from the disk is compared in part.
#[test]
fn of_cold_values_some_are_verified() {
    let dir = tempfile::tempdir().unwrap();
    let flags = ["--stores", "map", "--keys", "30000", "--operations", "100"];
    let verified = |more: &[&str]| {
        let run = result_of(dir.path(), &[&flags[..], more].concat());
        fs::remove_file(dir.path().join("result.json")).unwrap();
        let of = |sample: &Sample| measurement(&sample.outcome).verified_values;
        run.samples.iter().filter_map(of).max()
    };
    assert_eq!(verified(&[]), Some(30_000));
    assert_eq!(verified(&["--cold"]), Some(20_000));
}

#[test]
fn a_log_has_a_line_for_each_measurement() {
    let dir = tempfile::tempdir().unwrap();
    let output = bench(dir.path(), &[&SHORT[..], &["--stores", "map,btree", "--repetitions", "2"]].concat());
    let text = stderr(&output);
    let lines: Vec<_> = text.lines().filter(|line| line.contains(", repetition ")).collect();
    assert_eq!(lines.len(), 2 * read(dir.path()).cells.len(), "{text}");
    assert!(lines.iter().all(|line| line.contains("p99 ")), "{text}");
}

#[test]
fn quick_says_what_no_flag_says() {
    let dir = tempfile::tempdir().unwrap();
    let run = result_of(dir.path(), &["--quick", "--stores", "map", "--seconds", "0.05"]);
    assert_eq!(run.repetitions, 3);
    let work = &run.cells.iter().find(|cell| !cell.reference).unwrap().workload;
    assert_eq!((work.keys, work.seconds, work.warmup_seconds), (20_000, Some(0.05), 0.0));
}

#[test]
fn five_repetitions_and_a_warm_up_are_the_default() {
    let dir = tempfile::tempdir().unwrap();
    let mut plain = std::process::Command::new(crate::support::KVBENCH);
    let output = plain.current_dir(dir.path()).args(["bench", "--stores", "map", "--dry-run"]).run_to_end();
    assert!(String::from_utf8(output.stdout).unwrap().contains(" 5 repetitions"));
}

/// A flag that would change nothing is refused, whatever the suite.
#[test]
fn flags_that_a_suite_ignores_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    for (arguments, flag) in [
        (&["--suite", "redb", "--operations", "10"][..], "--operations"),
        (&["--suite", "kvbench", "--threads", "3"], "--threads"),
        (&["--suite", "redb", "--threads", "3"], "--threads"),
        (&["--suite", "redb", "--warm-up", "5"], "--warm-up"),
        (&["--suite", "redb", "--rates", "100"], "--rates"),
    ] {
        let output = bench(dir.path(), &[arguments, &["--stores", "map", "--dry-run"]].concat());
        assert!(
            stderr(&output).contains(&format!("{flag}: --suite {}", arguments[1])),
            "{arguments:?}: {}",
            stderr(&output)
        );
    }
    for arguments in [
        &["--cpus", "server=0"][..],
        &["--cpus", "driver=9999"],
        &["--cpus", "client=1"],
        &["--cpus", "server=0", "--target", "127.0.0.1:1"],
        // A server would inherit the driver's processors.
        &["--cpus", "driver=0", "--wire"],
        &["--cold", "--wire"],
        &["--foreign", "101"],
    ] {
        let stores: &[&str] = if arguments.contains(&"--target") { &[] } else { &["--stores", "map"] };
        let output = bench(dir.path(), &[stores, &["--dry-run"], arguments].concat());
        assert!(
            !output.status.success() && stderr(&output).contains(arguments[0]),
            "{arguments:?}: {}",
            stderr(&output)
        );
    }
}

#[test]
fn no_suite_but_xdag_reads_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let told = |suite: &[&str]| {
        stderr(&bench(dir.path(), &[suite, &["--stores", "map", "--data", "x", "--dry-run"]].concat()))
    };
    assert!(told(&[]).contains("--data: only --suite xdag reads a file"), "{}", told(&[]));
    for suite in suites::bench_suites() {
        let text = told(&["--suite", suite.name]);
        let is_read = text.contains("--data x: ");
        assert_eq!(is_read, suite.name == "xdag", "{}: {text}", suite.name);
        assert!(is_read || text.contains("--data: --suite "), "{}: {text}", suite.name);
    }
}

#[test]
#[cfg(target_os = "linux")]
fn the_driver_runs_where_it_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let run = result_of(dir.path(), &[&SHORT[..], &["--stores", "map", "--cpus", "driver=0"]].concat());
    assert_eq!(run.environment.cpus.as_deref(), Some("driver on 0"));
    let run_over_wire = ["--stores", "map", "--wire", "--cpus", "server=0/driver=0"];
    fs::remove_file(dir.path().join("result.json")).unwrap();
    let run = result_of(dir.path(), &[&SHORT[..], &run_over_wire].concat());
    assert_eq!(run.environment.cpus.as_deref(), Some("server on 0, driver on 0"));
}

#[test]
fn a_cold_run_says_how_it_is_cold_and_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let run =
        result_of(dir.path(), &[&SHORT[..], &["--stores", "map,btree", "--cold", "--mix", "get=1"]].concat());
    assert!(run.environment.cold.unwrap().contains("posix_fadvise"));
    // The device may be slower after the run than before; a file system without direct reads has neither time.
    let (before, after) = (run.environment.random_read_us, run.environment.random_read_after_us);
    assert_eq!(before.is_some(), after.is_some(), "{before:?} {after:?}");
    assert!(after.is_none_or(|us| us > 0.0), "{after:?}");
}

/// A warm-up reads back into memory what was just put out of it. Cold cells of LMDB run without and with read-ahead.
#[test]
#[cfg(feature = "lmdb")]
fn a_cold_run_is_not_warmed_up() {
    let dir = tempfile::tempdir().unwrap();
    let flags = ["--stores", "lmdb", "--cold", "--mix", "get=1", "--keys", "500", "--threads", "1"];
    let run =
        result_of(dir.path(), &[&flags[..], &["--full", "--repetitions", "1", "--seconds", "0.05"]].concat());
    let cells = run.cells.iter().filter(|cell| !cell.reference);
    assert_eq!(cells.map(|cell| cell.workload.warmup_seconds).collect::<Vec<_>>(), [0.0; 2]);
    let output = bench(dir.path(), &[&flags[..], &["--warm-up", "1", "--dry-run"]].concat());
    assert!(!output.status.success() && stderr(&output).contains("--warm-up: "), "{}", stderr(&output));
}

/// What has been read is in memory, and its next read is not cold.
#[test]
#[cfg(feature = "lmdb")]
fn a_cold_cell_ends_while_most_keys_are_still_on_the_disk() {
    let dir = tempfile::tempdir().unwrap();
    let flags = ["--stores", "lmdb", "--cold", "--keys", "10000", "--threads", "1", "--repetitions", "1"];
    let operations = |more: &[&str]| {
        let _ = fs::remove_file(dir.path().join("result.json"));
        let run = result_of(dir.path(), &[&flags[..], &["--seconds", "60"], more].concat());
        let is_ours =
            |sample: &&Sample| !run.cells.iter().any(|cell| cell.id == sample.cell && cell.reference);
        run.samples
            .iter()
            .filter(is_ours)
            .map(|sample| measurement(&sample.outcome).operations)
            .collect::<Vec<_>>()
    };
    assert_eq!(operations(&["--mix", "get=1"]), [500; 2]);
    assert_eq!(operations(&["--mix", "scan=1", "--scan-length", "4"]), [125; 2]);
    assert_eq!(operations(&["--mix", "get=1", "--operations", "700"]), [700; 2]);
}

/// Where control groups can be made the limit holds, else the error names the flag and the remedy; but where the
/// environment has KVBENCH_MUST_LIMIT they can.
#[test]
fn memory_is_limited_or_it_is_said_why_not() {
    let dir = tempfile::tempdir().unwrap();
    let limited = |size: &str, keys: &str| {
        let _ = fs::remove_file(dir.path().join("result.json"));
        let flags = ["--stores", "btree", "--operations", "100", "--threads", "1", "--value-bytes", "4000"];
        command(dir.path(), &[&flags[..], &["--memory-limit", size, "--keys", keys]].concat()).run_to_end()
    };
    let output = limited("1GiB", "1000");
    if !output.status.success() {
        let must = std::env::var_os("KVBENCH_MUST_LIMIT").is_some();
        assert!(!must, "KVBENCH_MUST_LIMIT is set, but {}", stderr(&output));
        assert!(
            stderr(&output).contains("--memory-limit: no control group can be made"),
            "{}",
            stderr(&output)
        );
        assert!(stderr(&output).contains("systemd-run"), "{}", stderr(&output));
        assert!(!dir.path().join("result.json").exists(), "a refused run leaves no result");
        return;
    }
    assert_eq!(read(dir.path()).environment.memory_limit_bytes, Some(1 << 30));
    // 400 MB of values that all have to be in memory are not tried. 66.6 MB are, and that they need more is a result.
    for (keys, reason) in
        [("100000", "its data are all in memory"), ("16650", "killed by the kernel at --memory-limit")]
    {
        let output = limited("64MiB", keys);
        assert!(output.status.success(), "{}", stderr(&output));
        let run = read(dir.path());
        let outcome = &run.samples.iter().find(|sample| sample.cell.contains("btree")).unwrap().outcome;
        assert!(
            matches!(outcome, Outcome::Unsupported(text) if text.contains(reason)),
            "{keys}: {outcome:?}"
        );
    }
}

/// The driver's own memory is no store's: a limit that is far too small for the driver is enough for the no-op engine, which
/// needs none.
#[test]
fn the_memory_of_the_driver_is_added_to_the_limit() {
    let dir = tempfile::tempdir().unwrap();
    let (limit, keys) = (4 << 20, 3_000_000);
    let keys_flag = keys.to_string();
    let flags = ["--stores", "nothing", "--memory-limit", "4MiB", "--keys", &keys_flag, "--threads", "1"];
    let output =
        bench(dir.path(), &[&flags[..], &["--mix", "update=1", "--operations", &keys_flag]].concat());
    if stderr(&output).contains("no control group can be made") {
        return skip("the_memory_of_the_driver_is_added_to_the_limit", "no control group can be made");
    }
    assert!(output.status.success(), "{}", stderr(&output));
    let run = read(dir.path());
    // A version of eight bytes for each key.
    let driver = run.environment.driver_memory_bytes.unwrap();
    assert!(driver > 8 * keys, "{driver}");
    assert_eq!(run.environment.memory_limit_bytes, Some(limit));
    assert_eq!(measurement(&run.samples[0].outcome).operations, keys);
}

/// The driver has a copy of the data file. The pages of the file itself, which nothing has read yet, are no memory of the
/// driver.
#[test]
fn the_page_cache_of_a_data_file_is_not_added_to_the_limit() {
    // Of a file system in memory no page can be dropped.
    let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    let file = dir.path().join("blocks");
    data::generate(&file, 100_000, 1, 1.0).unwrap();
    let bytes = fs::metadata(&file).unwrap().len();
    let flags = ["--suite", "xdag", "--stores", "map", "--seconds", "0.1", "--data", "blocks", "--force"];
    let mut found = Vec::new();
    // Another test may empty the page cache between the two reads of the file.
    while found.len() < 5 {
        page_cache::evict_files(dir.path()).unwrap();
        let output = bench(dir.path(), &[&flags[..], &["--memory-limit", "1GiB"]].concat());
        if stderr(&output).contains("no control group can be made") {
            let test = "the_page_cache_of_a_data_file_is_not_added_to_the_limit";
            return skip(test, "no control group can be made");
        }
        assert!(output.status.success(), "{}", stderr(&output));
        let driver = read(dir.path()).environment.driver_memory_bytes.unwrap();
        if (bytes..bytes * 17 / 10).contains(&driver) {
            return;
        }
        found.push(driver);
    }
    panic!("{found:?} bytes with a file of {bytes}");
}

/// Percentiles of several repetitions are those of all their operations, which only a histogram can tell.
#[test]
fn histograms_are_in_the_result() {
    let dir = tempfile::tempdir().unwrap();
    let flags = ["--stores", "map", "--keys", "500", "--operations", "20000", "--threads", "1"];
    let run = result_of(dir.path(), &flags);
    let latency = &run.measurements(&run.cells[0].id).next().unwrap().latency;
    let histogram = kvbench::bench::result::histogram::decode(latency.histogram.as_deref().unwrap()).unwrap();
    assert_eq!(histogram.len(), latency.count);
    assert_eq!(histogram.value_at_quantile(0.99) as f64 / 1e3, latency.p99_us);
    assert_eq!(Some(histogram.value_at_quantile(0.9999) as f64 / 1e3), latency.p9999_us);
}

//! Interleaved comparison: stores take turns in processes that are stopped in between.

use crate::{
    support::bench::{bench, busy, command, measurement, read, result_of, stderr},
    support::{KVBENCH, Program, RunToEnd, wait_until},
};
use kvbench::bench::result::{
    Access, Cell, Operation, Run, Sample,
    interleaved_comparison::{End, Work},
    spread::Spread,
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use std::{collections::BTreeSet, fs, path::Path, process::Command};

/// Reads of two stores in memory. The budget is used up after few blocks.
const READS: &[&str] = &[
    "--interleave",
    "--stores",
    "map,btree",
    "--fsync",
    "memory",
    "--keys",
    "1000",
    "--seconds",
    "0.3",
    "--threads",
    "1",
];

/// Checks what holds for each interleaved run.
fn check(run: &Run) {
    for comparison in &run.comparisons {
        assert!(!comparison.blocks.is_empty() && comparison.end.is_some(), "{comparison:?}");
        let slicing = comparison.slicing.as_ref().unwrap();
        assert_eq!(slicing.pilot.len(), comparison.cells.len(), "{slicing:?}");
        assert!(slicing.slice_seconds >= 9.9 * slicing.discarded_seconds, "{slicing:?}");
        assert!(
            slicing.pilot.iter().all(|rate| rate.busy_cpus.is_some_and(|busy| busy > 0.0)),
            "{slicing:?}"
        );
        for (number, cell) in comparison.cells.iter().enumerate() {
            let mut samples = run.samples.iter().filter(|sample| sample.cell == *cell);
            for (repetition, block) in (0..).zip(&comparison.blocks) {
                let sample = samples.next().unwrap();
                assert_eq!(sample.repetition, repetition);
                let measured = measurement(&sample.outcome);
                assert!(measured.is_sound(), "{cell}: {:?}", measured.first_fault);
                assert_eq!(Some(measured.throughput), block.rate(number), "{cell}");
                let own = block.slices.iter().filter(|slice| slice.store == number);
                let clock: f64 = own.clone().map(|slice| slice.seconds + slice.discarded_seconds).sum();
                let all: u64 = own.map(|slice| slice.operations + slice.discarded_operations).sum();
                assert_eq!(measured.operations, all, "{cell}");
                assert!((measured.seconds - clock).abs() < 1e-6, "{cell}: {} s, {clock} s", measured.seconds);
                // A thread does one operation after the other, so no latency contains a stop.
                let latencies = measured.latency.mean_us / 1e6 * measured.latency.count as f64;
                assert!(latencies < 1.01 * clock, "{cell}: {latencies} s of {clock} s");
            }
            assert!(samples.next().is_none(), "{cell}");
        }
        let mut seeds: Vec<u64> = comparison.blocks.iter().map(|block| block.seed).collect();
        seeds.dedup();
        assert_eq!(seeds.len(), comparison.blocks.len());
    }
}

#[test]
fn readers_take_turns_until_the_budget_is_used_up() {
    let dir = tempfile::tempdir().unwrap();
    let output = bench(dir.path(), &[READS, &["--budget", "14"]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let run = read(dir.path());
    check(&run);
    let [comparison] = run.comparisons.as_slice() else { panic!("{:?}", run.comparisons) };
    assert_eq!(comparison.slicing.as_ref().unwrap().work, Work::Seconds(0.3));
    assert_ne!(comparison.end, Some(End::Failed));
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(stdout.starts_with(&comparison.id), "{stdout}");
    let [heads, first] = [1, 2].map(|line| stdout.lines().nth(line).unwrap());
    assert!(heads.contains("A power cut loses") && heads.contains("Memory"), "{stdout}");
    assert!(first.contains(" everything ") && first.contains(" MiB"), "{stdout}");
    assert!(stderr(&output).contains("slices of"), "{}", stderr(&output));
    assert!(!dir.path().join("kvbench-bench.tmp").exists());
}

/// Without `--detect` a comparison has five blocks, and says what they can find.
#[test]
fn five_blocks_tell_what_a_smaller_difference_would_need() {
    let dir = tempfile::tempdir().unwrap();
    let output = bench(dir.path(), &[READS, &["--budget", "10m", "--warm-up", "0.1"]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let run = read(dir.path());
    check(&run);
    let comparison = &run.comparisons[0];
    assert_eq!(comparison.blocks.len(), 5);
    assert!(matches!(comparison.end, Some(End::Decided | End::FirstBlocks)), "{:?}", comparison.end);
    assert!(stderr(&output).contains("estimate: about 5 blocks ("), "{}", stderr(&output));
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(stdout.contains("the instances of a store vary by "), "{stdout}");
}

#[test]
fn writers_do_equal_work_in_every_block() {
    let dir = tempfile::tempdir().unwrap();
    let mut flags = READS.to_vec();
    flags[4] = "no";
    let mixed = [&flags, &["--mix", "get=1,update=1", "--value-bytes", "50-150"][..]].concat();
    let run = result_of(dir.path(), &[&mixed[..], &["--budget", "20"]].concat());
    check(&run);
    assert_eq!(run.comparisons[0].slicing.as_ref().unwrap().less_work, []);
    let Work::Operations(wanted) = run.comparisons[0].slicing.as_ref().unwrap().work else {
        panic!("{:?}", run.comparisons[0].slicing);
    };
    for sample in run.samples.iter().filter(|sample| run.comparisons[0].cells.contains(&sample.cell)) {
        let measured = measurement(&sample.outcome);
        assert_eq!(measured.operations, wanted, "{}", sample.cell);
        // These stores make one write call for each update, and few more when they rewrite their logs. The messages
        // between the processes do not count.
        if cfg!(target_os = "linux") {
            let updates = measured.by_operation[&Operation::Update].count;
            let calls = measured.write_calls.unwrap();
            assert!(
                (updates..=updates + updates / 1000).contains(&calls),
                "{calls} calls, {updates} updates"
            );
        }
        // Equal work makes files comparable.
        assert!(measurement(&sample.outcome).disk_bytes.is_some(), "{}", sample.cell);
    }
    assert_eq!(run.comparisons[0].end, Some(End::Budget));
    // Each block has data of its own, and both stores have the same.
    let [first, second] = [0, 1].map(|store| -> Vec<u64> {
        let own = run.samples.iter().filter(|sample| sample.cell == run.comparisons[0].cells[store]);
        own.map(|sample| measurement(&sample.outcome).user_bytes).collect()
    });
    assert_eq!(first, second);
    assert_eq!(first.iter().collect::<BTreeSet<_>>().len(), first.len(), "{first:?}");
}

/// Another program uses a CPU all the time. Of three attempts one is kept; the time of the block is that of all.
#[test]
fn a_disturbed_block_is_measured_again() {
    let dir = tempfile::tempdir().unwrap();
    let _busy = busy();
    let run = result_of(dir.path(), &[READS, &["--budget", "8", "--foreign", "0.1"]].concat());
    check(&run);
    let comparison = &run.comparisons[0];
    let (block, slicing) = (&comparison.blocks[0], comparison.slicing.as_ref().unwrap());
    assert!(block.disturbance.unwrap().part() > 0.001, "{block:?}");
    // Each attempt has as many slices, and none ends before its time.
    let attempt = block.slices.len() as f64 * slicing.slice_seconds;
    assert!(block.seconds >= 3.0 * attempt, "{slicing:?} {block:?}");
}

/// A store that is 50 times as slow does less work, and its files are not compared with those of others.
#[cfg(feature = "fault-injection")]
#[test]
fn a_store_that_is_far_slower_does_less_work() {
    let dir = tempfile::tempdir().unwrap();
    let mut flags = READS.to_vec();
    flags[4] = "no";
    let mut command =
        command(dir.path(), &[&flags, &["--mix", "get=1,update=1", "--budget", "15"][..]].concat());
    let output = command.env("KVBENCH_SLOWED", "btree=0.98").run_to_end();
    assert!(output.status.success(), "{}", stderr(&output));
    let run = read(dir.path());
    let [comparison] = run.comparisons.as_slice() else { panic!("{:?}", run.comparisons) };
    let slicing = comparison.slicing.as_ref().unwrap();
    let [less] = slicing.less_work[..] else { panic!("{slicing:?}") };
    assert_eq!(less.store, 1, "{slicing:?}");
    for (store, work) in [(0, slicing.work), (1, Work::Operations(less.operations))] {
        let own = run.samples.iter().filter(|sample| sample.cell == comparison.cells[store]);
        let measured: Vec<_> = own.map(|sample| measurement(&sample.outcome)).collect();
        assert_eq!(measured.len(), comparison.blocks.len());
        for measured in measured {
            assert_eq!(Work::Operations(measured.operations), work);
            assert_eq!(measured.disk_bytes.is_some(), store == 0, "{measured:?}");
        }
    }
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(stdout.contains("\n  operations in a block, in place of "), "{stdout}");
}

/// Stores take turns unless a flag sets the number of repetitions, or is for one store at a time.
#[test]
fn several_stores_take_turns_by_default() {
    let plan = |flags: &[&str]| {
        let dir = tempfile::tempdir().unwrap();
        let mut kvbench = Command::new(KVBENCH);
        let output = kvbench.current_dir(dir.path()).args(["bench", "--dry-run"]).args(flags).run_to_end();
        assert!(output.status.success(), "{flags:?}: {}", stderr(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    let stores = ["--stores", "map,btree"];
    for flags in [
        &[][..],
        &["--detect", "3%"],
        &["--suite", "ycsb"],
        &["--suite", "ycsb", "--workloads", "a,c"],
        &["--wire"],
    ] {
        let text = plan(&[&stores[..], flags].concat());
        assert!(text.contains("compared in blocks"), "{flags:?}: {text}");
    }
    for flags in [
        &["--repetitions", "2"][..],
        &["--quick"],
        &["--full"],
        &["--minutes", "1"],
        &["--find-rate", "p99<5ms"],
        &["--operations", "10"],
        &["--rate", "100"],
        &["--cold"],
        &["--mix", "insert=1", "--operations", "10"],
        &["--suite", "smallnest"],
        &["--suite", "kvbench"],
    ] {
        let text = plan(&[&stores[..], flags].concat());
        assert!(text.contains("repetitions"), "{flags:?}: {text}");
    }
    assert!(plan(&["--stores", "map"]).contains("repetitions"));
}

/// More memory than any machine has: without turns one store at a time is not checked.
#[test]
fn stores_that_do_not_fit_together_are_measured_one_by_one() {
    let dir = tempfile::tempdir().unwrap();
    let plan = |flags: &[&str]| {
        let stores = ["--stores", "map,btree", "--fsync", "memory", "--keys", "100000000000"];
        let mut kvbench = Command::new(KVBENCH);
        kvbench.current_dir(dir.path()).args(["bench", "--dry-run"]).args(stores).args(flags).run_to_end()
    };
    let output = plan(&[]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(text.contains("5 repetitions") && text.contains(", without turns: the stores of a"), "{text}");
    let asked = plan(&["--interleave"]);
    assert!(!asked.status.success() && stderr(&asked).contains("loaded at once"), "{}", stderr(&asked));
    assert!(plan(&["--interleave", "--no-space-check"]).status.success());
}

/// A run that goes on keeps its groups, though all stores would fit together here.
#[test]
fn stores_of_different_groups_are_compared_by_the_store_that_is_in_both() {
    let dir = tempfile::tempdir().unwrap();
    let mut flags = READS.to_vec();
    flags[2] = "map,btree,redb,sqlite";
    let flags = [&flags[..], &["--budget", "5m"]].concat();
    let mut run = result_of(dir.path(), &flags);
    let compared = run.comparisons[0].cells.clone();
    run.samples.retain(|sample| !compared.contains(&sample.cell));
    run.finished = false;
    let comparison = &mut run.comparisons[0];
    comparison.groups = vec![vec![1, 0], vec![1, 2, 3]];
    (comparison.slicing, comparison.looks, comparison.end) = (None, None, None);
    comparison.blocks.clear();
    comparison.verdicts.clear();
    fs::write(dir.path().join("result.json"), serde_json::to_string(&run).unwrap()).unwrap();
    let output = bench(dir.path(), &[&flags[..], &["--resume"]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(stdout.contains("2 groups are loaded one after the other, each with btree"), "{stdout}");
    let run = read(dir.path());
    let comparison = &run.comparisons[0];
    assert_eq!((comparison.blocks.len(), comparison.verdicts.len()), (5, 6), "{:?}", comparison.verdicts);
    assert_eq!(comparison.slicing.as_ref().unwrap().pilot.len(), 5);
    for (number, block) in (0..).zip(&comparison.blocks) {
        let ran =
            |group, store| block.slices.iter().any(|slice| (slice.group, slice.store) == (group, store));
        for (store, groups) in [(0, [true, false]), (1, [true; 2]), (2, [false, true]), (3, [false, true])] {
            assert_eq!([0, 1].map(|group| ran(group, store)), groups, "{store}: {block:?}");
        }
        for cell in &comparison.cells {
            let of = |sample: &&Sample| sample.cell == *cell && sample.repetition == number;
            assert_eq!(run.samples.iter().filter(of).count(), 1, "{cell}");
        }
    }
}

/// Over the wire, a store is stopped with its server, and its clients have no request under way then.
#[test]
fn servers_take_turns() {
    let dir = tempfile::tempdir().unwrap();
    let mut flags = READS.to_vec();
    flags[4] = "no";
    let flags = [&flags, &["--wire", "--mix", "get=0.8,update=0.2", "--budget", "15"][..]].concat();
    let output = bench(dir.path(), &flags);
    assert!(output.status.success(), "{}", stderr(&output));
    let run = read(dir.path());
    check(&run);
    assert!(run.cells.iter().all(|cell| cell.target.access == Access::Wire), "{:?}", run.cells);
    assert!(!dir.path().join("kvbench-bench.tmp").exists());
}

/// Each workload of YCSB is a comparison of its own. What is in none is measured by itself: the load, which only fills the
/// store, and the scans of the only store that can scan.
#[test]
fn workloads_of_a_suite_are_compared_one_by_one() {
    let dir = tempfile::tempdir().unwrap();
    // `map` does not scan.
    let flags = ["--suite", "ycsb", "--workloads", "load,a,c,e", "--stores", "map,lmdb", "--keys", "500"];
    let times = ["--seconds", "0.1", "--threads", "1", "--budget", "10"];
    let output = bench(dir.path(), &[&flags[..], &times].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let run = read(dir.path());
    check(&run);
    let ids: Vec<_> = run.comparisons.iter().map(|one| one.id.rsplit("; ").next().unwrap()).collect();
    assert_eq!(ids, ["a", "c"]);
    assert!(run.comparisons.iter().all(|one| one.cells.len() == 2), "{:?}", run.comparisons);
    let samples = |row: &str, store: &str| {
        let of = |cell: &&Cell| cell.row == row && cell.target.store == store;
        let id = &run.cells.iter().find(of).unwrap().id;
        run.samples.iter().filter(|sample| sample.cell == *id).count()
    };
    assert_eq!(
        [("load", "map"), ("load", "lmdb"), ("e", "lmdb")].map(|(row, store)| samples(row, store)),
        [5; 3]
    );
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(stdout.lines().next().unwrap().contains("; a: "), "{stdout}");
}

/// What a warm-up wrote is no part of the write amplification. Once it was: it added two thirds to these. There are too few
/// updates for a rewrite of the log, which on a busy machine copies much of what is written meanwhile.
#[test]
#[cfg(target_os = "linux")]
fn writes_of_a_warm_up_do_not_count() {
    let dir = tempfile::tempdir().unwrap();
    let amplifications = |flags: &[&str]| {
        let flags = [flags, &["--mix", "get=0.997,update=0.003", "--value-bytes", "200"]].concat();
        let run = result_of(dir.path(), &flags);
        fs::remove_file(dir.path().join("result.json")).unwrap();
        let real = |sample: &&Sample| run.cells.iter().any(|cell| cell.id == sample.cell && !cell.reference);
        let of = |sample: &Sample| measurement(&sample.outcome).write_amplification.unwrap();
        run.samples.iter().filter(real).map(of).collect::<Vec<_>>()
    };
    let store = ["--stores", "map", "--keys", "1000", "--threads", "1"];
    let [plain] = amplifications(&[&store[..], &["--operations", "3000000"]].concat())[..] else {
        panic!("not one sample")
    };
    let mut flags = READS.to_vec();
    flags[4] = "no";
    let interleaved = amplifications(&[&flags[..], &["--warm-up", "2", "--budget", "20"]].concat());
    assert!(interleaved.len() >= 2);
    for amplification in interleaved {
        assert!((amplification / plain - 1.0).abs() < 0.1, "{amplification}, and {plain} without turns");
    }
}

/// Under `everysec` slices last three seconds, so write-back follows each. Its time is part of the rate.
#[test]
fn long_writing_slices_are_written_back_before_the_next_store_runs() {
    let dir = tempfile::tempdir().unwrap();
    let mut flags = READS.to_vec();
    flags[4] = "everysec";
    let flags = [&flags, &["--mix", "get=1,update=1", "--budget", "30", "--quiet-wait", "1"][..]].concat();
    let output = bench(dir.path(), &flags);
    assert!(output.status.success(), "{}", stderr(&output));
    let run = read(dir.path());
    check(&run);
    let comparison = &run.comparisons[0];
    let slicing = comparison.slicing.as_ref().unwrap();
    assert!(slicing.slice_seconds >= 3.0 && slicing.pilot.iter().all(|rate| rate.write_back > 0.0));
    // The timer's clock stands still while a store is stopped: it makes no sync for that time.
    for (store, cell) in comparison.cells.iter().enumerate() {
        for sample in run.samples.iter().filter(|sample| sample.cell == *cell) {
            let block = &comparison.blocks[sample.repetition as usize];
            let own = block.slices.iter().filter(|slice| slice.store == store);
            let write_back: f64 = own.filter_map(|slice| slice.write_back_seconds).sum();
            let measured = measurement(&sample.outcome);
            let (syncs, seconds) = (measured.timer_syncs.unwrap() as f64, measured.seconds + write_back);
            assert!(syncs <= seconds + 1.0, "{syncs} in {seconds} s");
        }
    }
    for block in &comparison.blocks {
        assert!(block.slices.iter().all(|slice| slice.write_back_seconds.is_some_and(|time| time > 0.0)));
        for store in [0, 1] {
            assert!(block.rate(store) < block.rate_without_write_back(store), "{block:?}");
        }
    }
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(stdout.contains("operations/s without and with write-back: map "), "{stdout}");
    // A rate for latencies: 70% of that of the slower store, in two digits.
    let rate = stdout.split_once("closed loop: each store at its own highest rate. --rate ");
    let rate: f64 =
        rate.and_then(|(_, rest)| rest.split(' ').next()?.parse().ok()).unwrap_or_else(|| panic!("{stdout}"));
    let rates = [0, 1].map(|store| comparison.blocks.iter().filter_map(move |block| block.rate(store)));
    let slowest = rates.map(|rates| Spread::of(rates).unwrap().median).into_iter().fold(f64::MAX, f64::min);
    assert!(rate <= 0.7 * slowest && rate > 0.62 * slowest, "{rate} {slowest}\n{stdout}");
}

#[cfg(feature = "fault-injection")]
#[test]
fn a_store_that_fails_is_not_compared() {
    let dir = tempfile::tempdir().unwrap();
    let mut flags = READS.to_vec();
    flags[2] = "failing,map,btree";
    // Without --budget there are five blocks, however slow the machine is.
    let output = bench(dir.path(), &flags);
    assert!(!output.status.success());
    let run = read(dir.path());
    let failed: Vec<_> = run.cells.iter().filter(|cell| run.has_failed(&cell.id)).collect();
    assert!(failed.len() == 1 && failed[0].target.store == "failing", "{failed:?}");
    let verdicts = &run.comparisons[0].verdicts;
    assert!(verdicts.len() == 1 && ![&verdicts[0].first, &verdicts[0].second].contains(&&failed[0].id));
}

/// More keys are deleted in the pilot than in a block of the same stores without it.
#[test]
fn stores_that_fail_in_the_pilot_are_reported() {
    let dir = tempfile::tempdir().unwrap();
    let flags = ["--interleave", "--stores", "map,btree", "--fsync", "memory", "--threads", "1"];
    let work = ["--keys", "30k", "--value-bytes", "8", "--mix", "get=0.5,delete=0.5", "--warm-up", "0"];
    let output = bench(dir.path(), &[&flags[..], &work].concat());
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let run = read(dir.path());
    let [comparison] = run.comparisons.as_slice() else { panic!("{:?}", run.comparisons) };
    assert_eq!((comparison.end, comparison.blocks.len()), (Some(End::Failed), 0));
    assert!(comparison.cells.iter().all(|cell| run.has_failed(cell)), "{:?}", run.samples);
    assert!(run.finished && comparison.verdicts.is_empty());
}

/// Starts a comparison that goes on until it is stopped.
fn start(dir: &Path, flags: &[&str]) -> Program {
    Program::start(&mut command(dir, &[READS, &["--budget", "1h", "--detect", "0.01%"], flags].concat()))
}

/// Returns the state of a process and the id of its parent.
fn state(pid: i32) -> Option<(char, i32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

/// Returns the children of a process, each with its state.
fn children(parent: i32) -> Vec<(i32, char)> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    ids.filter_map(|pid| state(pid).filter(|(_, of)| *of == parent).map(|(state, _)| (pid, state))).collect()
}

/// Kills a comparison while one of its two stores is stopped and the other one is not, over the wire each with its server.
/// Both have been loaded, because both were stopped before. None of the processes is left, and none of the files.
fn killed(flags: &[&str], servers: usize, kill: impl FnOnce(&mut Program)) {
    let dir = tempfile::tempdir().unwrap();
    let mut comparison = start(dir.path(), flags);
    let id = i32::try_from(comparison.process.id()).unwrap();
    let mut instances: Vec<Vec<(i32, char)>> = Vec::new();
    let mut loaded = BTreeSet::new();
    wait_until("no two stores of which one is stopped", || {
        let with_servers = |child: (i32, char)| [vec![child], children(child.0)].concat();
        instances = children(id).into_iter().map(with_servers).collect();
        let is_stopped = |one: &Vec<(i32, char)>| one.iter().all(|(_, state)| *state == 'T');
        loaded.extend(instances.iter().filter(|one| is_stopped(one)).map(|one| one[0].0));
        instances.len() == 2
            && instances.iter().all(|one| loaded.contains(&one[0].0))
            && instances.iter().all(|one| one.len() == 1 + servers)
            && instances.iter().filter(|one| is_stopped(one)).count() == 1
    });
    kill(&mut comparison);
    comparison.process.wait().unwrap();
    wait_until("a process of a store is left", || {
        let has_ended = |pid: i32| state(pid).is_none_or(|(state, _)| state == 'Z');
        instances.iter().flatten().all(|(pid, _)| has_ended(*pid))
    });
    let stores = dir.path().join("kvbench-bench.tmp");
    let is_empty = || {
        fs::read_dir(&stores).is_ok_and(|mut entries| {
            entries.all(|entry| {
                fs::read_dir(entry.unwrap().path()).is_ok_and(|mut files| files.next().is_none())
            })
        })
    };
    wait_until("files of a store are left", || !stores.exists() || is_empty());
}

#[test]
fn a_killed_comparison_leaves_no_stopped_process() {
    killed(&[], 0, |comparison| comparison.process.kill().unwrap());
    killed(&["--wire"], 1, |comparison| comparison.process.kill().unwrap());
}

#[test]
fn a_stopped_comparison_leaves_no_server() {
    killed(&["--wire"], 1, |comparison| {
        let id = Pid::from_raw(i32::try_from(comparison.process.id()).unwrap());
        kill(id, Signal::SIGTERM).unwrap();
    });
}

#[test]
fn a_stopped_comparison_keeps_its_blocks_and_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let comparison = start(dir.path(), &[]);
    let result = dir.path().join("result.json");
    wait_until("no block is complete", || {
        result.exists() && read(dir.path()).comparisons.iter().any(|one| one.blocks.len() >= 6)
    });
    kill(Pid::from_raw(i32::try_from(comparison.process.id()).unwrap()), Signal::SIGTERM).unwrap();
    assert_eq!(comparison.output().status.code(), Some(128 + Signal::SIGTERM as i32));
    let before = read(dir.path());
    assert!(!before.finished && before.comparisons[0].end.is_none());

    // As if it had begun with a budget for some blocks more.
    let (seconds, kept) = (before.comparisons[0].seconds(), before.comparisons[0].blocks.len());
    let budget = (seconds + 5.0 + 10.0 * seconds / kept as f64).ceil().to_string();
    let mut edited = before.clone();
    *edited.command.iter_mut().find(|word| *word == "1h").unwrap() = budget.clone();
    fs::write(&result, serde_json::to_vec(&edited).unwrap()).unwrap();
    let flags = [READS, &["--budget", &budget, "--detect", "0.01%", "--resume"]].concat();
    let output = bench(dir.path(), &flags);
    assert!(output.status.success(), "{}", stderr(&output));
    let after = read(dir.path());
    assert_eq!(after.comparisons[0].end, Some(End::Budget));
    assert!(after.finished);
    // The saved blocks are complete, and those after them have data of their own.
    assert!(after.comparisons[0].blocks.len() > kept, "{}", stderr(&output));
    check(&after);
    assert_eq!(after.comparisons[0].blocks[..kept], before.comparisons[0].blocks[..]);
    assert_eq!(after.comparisons[0].slicing, before.comparisons[0].slicing);
}

#[test]
fn what_cannot_take_turns_is_refused_with_the_flag() {
    let dir = tempfile::tempdir().unwrap();
    for (flags, named) in [
        (&["--suite", "smallnest"][..], "this --suite"),
        (&["--rate", "1000"], "--rate"),
        (&["--operations", "1000"], "--operations"),
        (&["--mix", "insert=1"], "--mix"),
        (&["--suite", "ycsb", "--workloads", "load"], "--workloads"),
        (&["--mix", "scan=1"], "--stores that can be measured: map does not keep keys in order"),
        (&["--mix", "get=0.5,update=0.5", "--ttl", "1s"], "--ttl"),
        (&["--cold"], "--cold"),
        (&["--memory-limit", "1GiB"], "--memory-limit"),
        (&["--stores", "map"], "--stores"),
        (&["--detect", "0%"], "--detect"),
        (&["--detect", "3%", "--find-rate", "p99<5ms"], "--find-rate"),
        (&["--budget", "1h", "--minutes", "1"], "--minutes"),
        (&["--budget", "0"], "--budget"),
    ] {
        let stores = if named == "--stores" { &[][..] } else { &["--stores", "map,btree"] };
        let output = bench(dir.path(), &[&["--interleave"], stores, flags].concat());
        assert!(!output.status.success(), "{flags:?}");
        assert!(stderr(&output).contains(named), "{flags:?}: {}", stderr(&output));
        assert!(!dir.path().join("result.json").exists(), "{flags:?}");
    }
    for flags in [&["--interleave"][..], &["--detect", "1%"], &["--budget", "1"]] {
        let flags = [&["--stores", "map,btree", "--repetitions", "3"], flags].concat();
        let output = bench(dir.path(), &flags);
        assert!(stderr(&output).contains("--repetitions"), "{}", stderr(&output));
    }
}

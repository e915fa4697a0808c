//! How much is measured when no flag says so.

use clap::Parser;
use kvbench::{
    bench::{
        plan::{options::Options, suites},
        result::{Cell, Operation, Order, Size},
        run,
    },
    cli::{Cli, Command},
    engine::Fsync,
};
use std::collections::{BTreeMap, BTreeSet};

/// What a command line asks for.
fn options(words: &str) -> Options {
    let words = ["kvbench"].into_iter().chain(words.split(' '));
    match Cli::try_parse_from(words).unwrap().command {
        Some(Command::Bench(options)) => options.options().unwrap(),
        Some(Command::Reproduce(options)) => options.options().unwrap(),
        other => panic!("{other:?}"),
    }
}

/// The cells of its stores.
fn cells(words: &str) -> Vec<Cell> {
    let cells = suites::plan(&options(words).filled()).unwrap().cells;
    cells.into_iter().filter(|cell| !cell.reference).collect()
}

/// Operations by the name of their workload, of cells under a policy on disk.
fn operations(cells: &[Cell], fsync: Fsync) -> BTreeMap<&str, Option<u64>> {
    let under = |cell: &&Cell| cell.target.persistent && cell.target.fsync == Some(fsync);
    cells.iter().filter(under).map(|cell| (cell.workload.name.as_str(), cell.workload.operations)).collect()
}

/// What is different in some cells.
fn all<T: Ord>(cells: &[Cell], of: impl Fn(&Cell) -> T) -> Vec<T> {
    cells.iter().map(of).collect::<BTreeSet<_>>().into_iter().collect()
}

/// Keys, milliseconds, and milliseconds of warm-up.
fn lengths(cell: &Cell) -> (u64, Option<u64>, u64) {
    let milliseconds = |seconds: f64| (seconds * 1e3).round() as u64;
    let work = &cell.workload;
    (work.keys, work.seconds.map(milliseconds), milliseconds(work.warmup_seconds))
}

#[test]
fn a_run_has_five_repetitions_a_warm_up_and_the_length_of_its_preset() {
    for (flags, repetitions, expected) in [
        ("", 5, (1_000_000, Some(10_000), 500)),
        (" --quick", 3, (20_000, Some(500), 0)),
        (" --full", 5, (1_000_000, Some(30_000), 5_000)),
        (" --full --keys 70 --seconds 2 --warm-up 1", 5, (70, Some(2_000), 1_000)),
    ] {
        let words = format!("bench --stores map{flags}");
        assert_eq!(options(&words).repetitions, repetitions, "{words}");
        assert_eq!(all(&cells(&words), lengths), [expected], "{words}");
        // Those of YCSB that end by the clock.
        let words = format!("bench --suite ycsb --stores map{flags}");
        let steady: Vec<_> =
            cells(&words).into_iter().filter(|cell| cell.workload.seconds.is_some()).collect();
        // Its policies include everysec, whose timer syncs once a second.
        let (keys, milliseconds, warm_up) = expected;
        let expected = (keys, milliseconds.max(Some(3_000)), warm_up);
        assert_eq!(all(&steady, lengths), [expected], "{words}");
    }
    let conditions = options("bench --stores map").conditions;
    assert_eq!((conditions.quiet_wait, conditions.foreign_limit), (10.0, Some(0.1)));
}

#[test]
fn cases_that_read_last_as_long_as_in_the_publication() {
    let gets: Vec<_> = cells("bench --suite smallnest --stores map").into_iter().filter(reads).collect();
    assert_eq!(all(&gets, lengths), [(1_000_000, Some(60_000), 500)]);
    let kvbench = cells("bench --suite kvbench --stores map");
    assert_eq!(all(&kvbench, lengths), [(1_000_000, Some(10_000), 500)]);
}

fn reads(cell: &Cell) -> bool {
    cell.workload.mix.contains_key(&Operation::Get)
}

/// Without `--keys` a policy decides how many keys are written one by one, but not how many are read.
#[test]
fn gets_find_as_many_keys_under_every_policy() {
    for suite in ["--fsync always,no,memory", "--suite smallnest", "--suite ycsb", "--suite kvbench"] {
        let cells = cells(&format!("bench --stores map,btree {suite}"));
        let mut found: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        for job in run::jobs(&cells) {
            for cell in job.iter().filter(|cell| reads(cell)) {
                let work = &cell.workload;
                let name = (cell.target.store.clone(), work.name.clone(), work.threads, work.batch);
                // The first of a group loads them.
                let policy = (cell.target.persistent, cell.target.fsync.map(Fsync::as_str));
                found.entry(name).or_default().insert((job[0].workload.keys, policy));
            }
        }
        assert!(found.len() >= 2, "{suite}: {found:?}");
        for (name, found) in found {
            let keys: BTreeSet<_> = found.iter().map(|(keys, _)| *keys).collect();
            assert_eq!((found.len(), keys), (3, [1_000_000].into()), "{suite}: {name:?}");
        }
    }
}

#[test]
fn kvbench_is_repeated_with_a_million_requests() {
    let cells = cells("reproduce kvbench --stores map");
    assert_eq!(all(&cells, |cell| cell.workload.operations), [Some(1_000_000)]);
    let loads = all(&cells, |cell| (cell.workload.batch, cell.workload.threads));
    assert_eq!(loads, [(1, 1), (1, 256), (256, 256)]);
    assert_eq!(all(&cells, |cell| cell.workload.keys), [0], "from an empty store on");
}

#[test]
fn kvstore_bench_is_repeated_with_a_hundred_thousand_keys() {
    let cells = cells("reproduce kvstore-bench --stores map");
    let (free, synced) = (operations(&cells, Fsync::No), operations(&cells, Fsync::Always));
    for bytes in [64, 128, 256, 512] {
        let name = format!("PutValue{bytes}B");
        assert_eq!((free[&*name], synced[&*name]), (Some(100_000), Some(20_000)), "{name}");
        assert_eq!(free[&*format!("{name} allocations")], Some(10_000));
    }
    assert_eq!(
        (free["Get"], free["RangeScans"], free["PrefixScans"]),
        (Some(1_000_000), Some(100_000), Some(100_000))
    );
    assert_eq!(all(&cells, |cell| cell.workload.threads), [1]);
    // Its keys are `key_0000000` and on; each size after the first overwrites them, in their order.
    let keys = |cell: &Cell| (cell.workload.key_bytes, cell.workload.hashed_keys);
    assert!(cells.iter().all(|cell| keys(cell) == (Size::Fixed(11), false)));
    let of = |name: &str| &cells.iter().find(|cell| cell.workload.name == name).unwrap().workload;
    assert_eq!(of("PutValue64B").kinds().collect::<Vec<_>>(), [Operation::Insert]);
    for name in ["PutValue128B", "PutValue256B", "PutValue512B"] {
        assert_eq!(of(name).kinds().collect::<Vec<_>>(), [Operation::Update], "{name}");
        assert_eq!((of(name).order, Some(of(name).keys)), (Order::Sequential, of(name).operations));
    }
    // Gets and scans use one key of 10,000; a scan by range ends after two pairs, one by prefix after one.
    for (name, pairs) in [("Get", None), ("RangeScans", Some(2)), ("PrefixScans", Some(1))] {
        assert_eq!((of(name).keys, of(name).order), (10_000, Order::HotSet(0.0, 1.0)), "{name}");
        assert!(pairs.is_none_or(|pairs| of(name).scan_length == pairs), "{name}");
    }
}

#[test]
fn smallnest_is_repeated_with_a_million_keys_and_a_minute() {
    let cells = cells("reproduce smallnest --stores map");
    let (free, synced) = (operations(&cells, Fsync::No), operations(&cells, Fsync::Always));
    assert_eq!((free["set"], synced["set"]), (Some(1_000_000), Some(20_000)));
    let gets: Vec<_> = cells.into_iter().filter(reads).collect();
    assert_eq!(all(&gets, lengths), [(1_000_000, Some(60_000), 0)]);
}

#[test]
fn xdag_is_repeated_with_its_two_sizes() {
    let cells = cells("reproduce xdag --stores map");
    let sets: Vec<_> = cells.into_iter().filter(|cell| cell.workload.name == "set").collect();
    assert_eq!(all(&sets, |cell| cell.workload.operations), [Some(154_700), Some(483_296)]);
}

#[test]
fn redb_is_repeated_with_five_million_pairs_and_its_cache() {
    let cells = cells("reproduce redb --stores btree");
    let mut found = operations(&cells, Fsync::Always);
    found.append(&mut operations(&cells, Fsync::No));
    for (row, count) in [
        ("bulk load", 5_000_000),
        ("individual writes", 1_000),
        ("batch writes", 100_000),
        ("nosync writes", 50_000),
        ("random reads", 1_000_000),
        ("random range reads", 500_000),
        ("random reads (32 threads)", 5_151_000),
        ("removals", 2_575_500),
        ("refill", 1_287_750),
        ("pop", 500_000),
    ] {
        assert_eq!(found[row], Some(count), "{row}");
    }
    assert_eq!(all(&cells, |cell| cell.target.cache_bytes), [4 << 30]);
    for Cell { workload, .. } in &cells {
        let reads = workload.kinds().any(|kind| matches!(kind, Operation::Get | Operation::Scan));
        assert_eq!(workload.one_snapshot, reads, "{}", workload.name);
    }
    assert_eq!(options("reproduce ycsb").cache_bytes, 256 << 20);
}

#[test]
fn ycsb_scans_one_to_a_hundred_records_in_the_order_of_hashed_keys() {
    for command in ["bench --suite ycsb --stores btree", "reproduce ycsb --stores btree"] {
        let cells = cells(command);
        let of_e: Vec<_> = cells.iter().filter(|cell| cell.workload.name == "ycsb-e").collect();
        assert!(!of_e.is_empty());
        for cell in of_e {
            let work = &cell.workload;
            assert_eq!((work.scan_length, work.random_scan_length, work.hashed_keys), (100, true, true));
            assert!(cell.table.contains("updates write the whole record"), "{}", cell.table);
        }
    }
}

#[test]
fn ycsb_is_repeated_with_twenty_million_records() {
    let cells = cells("reproduce ycsb --stores map");
    assert_eq!(
        (operations(&cells, Fsync::No)["load"], operations(&cells, Fsync::Always)["load"]),
        (Some(20_000_000), Some(20_000))
    );
    let steady: Vec<_> = cells.into_iter().filter(reads).collect();
    assert_eq!(all(&steady, lengths), [(20_000_000, Some(10_000), 0)]);
}

#[test]
fn a_quick_repetition_has_five_thousand_keys_and_half_a_second() {
    for publication in ["smallnest", "ycsb"] {
        let cells = cells(&format!("reproduce {publication} --stores map --quick"));
        let steady: Vec<_> = cells.into_iter().filter(reads).collect();
        assert_eq!(all(&steady, lengths), [(5_000, Some(500), 0)], "{publication}");
    }
    for (publication, name) in
        [("kvbench", "set"), ("kvstore-bench", "RangeScans"), ("xdag", "set"), ("redb", "bulk load")]
    {
        let cells = cells(&format!("reproduce {publication} --stores btree --quick"));
        let found = cells.iter().find(|cell| cell.workload.name == name).unwrap();
        assert_eq!(found.workload.operations, Some(5_000), "{publication}");
    }
    assert_eq!(options("reproduce ycsb --quick").repetitions, 1);
}

/// What the user chose is no surprise, so no warning is due.
#[test]
fn explicit_keys_and_cache_are_known_as_such() {
    let explicit = |words: &str| {
        let conditions = options(words).conditions;
        (conditions.keys_are_explicit, conditions.cache_is_explicit)
    };
    for command in ["bench --stores map", "reproduce redb --stores map"] {
        assert_eq!(explicit(command), (false, false), "{command}");
        assert_eq!(explicit(&format!("{command} --keys 1000")), (true, false), "{command}");
        assert_eq!(explicit(&format!("{command} --cache-size 1GiB")), (false, true), "{command}");
    }
}

//! `kvbench reproduce`: each publication's layout, with what it published beside what was measured here.

use crate::support::bench::{measurement, stderr};
use crate::support::{KVBENCH, RunToEnd};
use kvbench::{
    bench::{
        plan::suites,
        result::{Cell, Disturbance, Outcome, Run},
    },
    engine::Fsync,
};
use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

/// `kvbench reproduce` in `dir`, as small as it goes.
fn reproduce(dir: &Path, arguments: &[&str]) -> Output {
    Command::new(KVBENCH)
        .current_dir(dir)
        .args(["reproduce", "--quick", "--quiet-wait", "0", "--foreign", "100", "--output", "result.json"])
        .args(arguments)
        .run_to_end()
}

/// The layout and the result of a run that must succeed.
fn done(dir: &Path, arguments: &[&str]) -> (String, Run) {
    let output = reproduce(dir, arguments);
    assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
    let run = serde_json::from_slice(&fs::read(dir.join("result.json")).unwrap()).unwrap();
    (String::from_utf8(output.stdout).unwrap(), run)
}

/// Parts of the line of a table whose first parts are these.
fn line<'t>(text: &'t str, start: &[&str]) -> Vec<&'t str> {
    let lines = text.lines().filter(|line| line.starts_with('|'));
    let mut parts = lines.map(|line| line.trim_matches('|').split('|').map(str::trim).collect::<Vec<_>>());
    parts.find(|parts| parts.starts_with(start)).unwrap_or_else(|| panic!("no line {start:?} in\n{text}"))
}

fn number(text: &str) -> f64 {
    text.replace(',', "").parse().unwrap_or_else(|_| panic!("{text} is no number"))
}

/// Operations of a cell, which was sound.
fn operations(run: &Run, is_it: impl Fn(&&Cell) -> bool) -> u64 {
    let cell = run.cells.iter().find(is_it).unwrap();
    let sample = run.samples.iter().find(|sample| sample.cell == cell.id).unwrap();
    assert!(measurement(&sample.outcome).is_sound(), "{}", cell.id);
    measurement(&sample.outcome).operations
}

#[test]
fn kvbench_has_redis_beside_our_stores() {
    let dir = tempfile::tempdir().unwrap();
    let (text, run) = done(dir.path(), &["kvbench", "--keys", "40", "--stores", "map,redis"]);
    for store in ["map", "redis"] {
        for (persist, fsync) in [("yes", "yes"), ("yes", "no"), ("no", "no")] {
            let line = line(&text, &[store, "256", "256", persist, fsync]);
            assert!(number(line[6]) > 0.0 && number(line[8]) > 0.0, "{line:?}");
        }
    }
    assert_eq!(line(&text, &["redis", "256", "256", "no", "no"])[5], "690,607");
    assert_eq!(
        line(&text, &["bolt", "1", "1", "yes", "yes"])[5..],
        ["4,061", "\u{2013}", "35,698", "\u{2013}"]
    );
    assert!(text.contains("MacBook Pro 15\" 2.8 GHz Intel Core i7, Go 1.7"), "{text}");
    assert!(text.contains("since kvbench has no such store: bolt, leveldb."), "{text}");
    assert!(
        run.environment.libraries["redis"].starts_with("Redis server v="),
        "{:?}",
        run.environment.libraries
    );
    // From an empty store on, each key once; then as many reads.
    let of_redis =
        |name: &str| operations(&run, |cell| cell.target.store == "redis" && cell.workload.name == name);
    assert_eq!((of_redis("set"), of_redis("get")), (40, 40));
    let loaded = run.cells.iter().filter(|cell| cell.workload.name == "set" && cell.workload.keys > 0);
    assert_eq!(loaded.count(), 0, "nothing is there before");
}

#[test]
fn a_missing_redis_is_an_error_that_says_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let missing = |arguments: &[&str]| {
        Command::new(KVBENCH).current_dir(dir.path()).args(arguments).env("PATH", "/nowhere").run_to_end()
    };
    let output = missing(&["reproduce", "kvbench", "--quick"]);
    assert!(!output.status.success());
    let text = stderr(&output);
    assert!(text.contains("redis-server is not in PATH") && text.contains("--stores"), "{text}");
    assert!(missing(&["reproduce", "kvbench", "--stores", "map", "--dry-run"]).status.success());
}

#[test]
fn kvstore_bench_has_allocations_of_each_operation() {
    let dir = tempfile::tempdir().unwrap();
    let (text, run) = done(dir.path(), &["kvstore-bench", "--keys", "400", "--stores", "map,btree"]);
    assert_eq!(line(&text, &["NutsDBGet", "README"])[2..], ["2000000", "781", "88", "3"]);
    assert_eq!(line(&text, &["NutsDBPutValue64B", "benchmarks.md"])[3], "53614");
    for name in ["PutValue64B", "PutValue128B", "PutValue256B", "PutValue512B"] {
        let line = line(&text, &[&format!("Btree{name}"), "ours, fsync always"]);
        // The first puts keep a key and a value each; later ones overwrite them, in memory that is there.
        let kept = if name == "PutValue64B" { 64.0 } else { 0.0 };
        assert!(number(line[3]) > 0.0 && number(line[4]) > kept && number(line[5]) >= 1.0, "{line:?}");
    }
    for name in ["Get", "RangeScans", "PrefixScans"] {
        assert_eq!(line(&text, &[&format!("Btree{name}"), "ours, fsync no"])[4..], ["0", "0.00"], "{name}");
    }
    assert_eq!(line(&text, &["MapRangeScans", "ours, fsync no"])[2..], ["n/a"; 4]);
    assert!(text.contains("n/a, RangeScans: map does not keep keys in order, so it cannot scan."), "{text}");
    assert_eq!(operations(&run, |cell| cell.workload.name == "Get" && cell.target.store == "btree"), 4000);
}

#[test]
fn kvstore_bench_has_latency_and_allocations_at_each_rate() {
    let dir = tempfile::tempdir().unwrap();
    let flags = ["kvstore-bench", "--keys", "400", "--stores", "btree", "--rates", "4000,8000"];
    let (text, run) = done(dir.path(), &flags);
    for row in ["Get at 4000/s", "Get at 8000/s"] {
        let is_it = |cell: &&Cell| cell.row == row && cell.target.fsync == Some(Fsync::No) && !cell.reference;
        let cell = run.cells.iter().find(is_it).unwrap();
        let line = line(&text, &[&format!("Btree{row}"), "ours, fsync no"]);
        let latency = run.measurements(&cell.id).next().unwrap().latency.mean_us * 1e3;
        assert!((number(line[3]) - latency).abs() < 1.0, "{line:?}, not {latency}");
        assert_eq!(line[4..], ["0", "0.00"], "{row}");
    }
}

/// The table marks figures of disturbed measurements, and the remarks name limits and doubts.
#[test]
fn conditions_and_doubts_of_a_run_stand_beside_its_figures() {
    let dir = tempfile::tempdir().unwrap();
    let flags =
        ["smallnest", "--keys", "100", "--seconds", "0.05", "--stores", "map", "--cache-size", "16MiB"];
    let (text, mut run) = done(dir.path(), &flags);
    assert!(text.contains("\n--cache-size: 16.0 MiB.\n"), "{text}");
    assert!(!text.contains("!:") && !text.contains("of it for each store"), "{text}");
    run.environment.memory_limit_bytes = Some(512 << 20);
    run.environment.foreign_limit = Some(0.1);
    for sample in &mut run.samples {
        sample.disturbance = Some(Disturbance { foreign: 0.4, stolen: 0.0 });
        if let Outcome::Measured(measurement) = &mut sample.outcome {
            measurement.warnings = vec!["latency is that of a queue".into()];
        }
    }
    let text = kvbench::bench::reproduce::text(&run).unwrap();
    assert!(text.contains(" of memory (512 MiB of it for each store), "), "{text}");
    let ours = line(&text, &["get", "ours"]);
    assert!(
        ours.iter().any(|part| part.strip_suffix('!').is_some_and(|rate| number(rate) > 0.0)),
        "{ours:?}"
    );
    assert!(text.contains("\nmap/memory, ours"), "no bar of ours: {text}");
    assert!(text.contains("- !: other programs or virtual machines took more of the CPUs"), "{text}");
    assert!(text.contains(": latency is that of a queue"), "{text}");
}

/// What is allocated in C is not seen; that is not "nothing".
#[test]
#[cfg(feature = "lmdb")]
fn allocations_in_c_are_not_published_as_none() {
    let dir = tempfile::tempdir().unwrap();
    let (text, _) = done(dir.path(), &["kvstore-bench", "--keys", "100", "--stores", "lmdb"]);
    let line = line(&text, &["LmdbGet", "ours, fsync no"]);
    assert!(number(line[3]) > 0.0, "{line:?}");
    assert_eq!(line[4..], ["n/a"; 2]);
}

#[test]
fn smallnests_time_is_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let flags = ["smallnest", "--keys", "200", "--seconds", "0.05", "--stores", "map"];
    let (text, run) = done(dir.path(), &flags);
    let counts =
        "Ours: 200 keys; the publication does not state its number. Our cells that end by time last 0.050 s.";
    assert!(text.contains(counts), "{text}");
    let heads = text.lines().filter(|line| line.starts_with("## ")).collect::<Vec<_>>();
    assert_eq!(heads.len(), 5, "four tables and remarks: {heads:?}");
    let of = |section: usize, from: &str, case: &str, column: &str| {
        let table = text.split("\n## ").nth(section).unwrap();
        let place = line(table, &["case"]).iter().position(|head| *head == column).unwrap();
        number(line(table, &[case, from])[place])
    };
    assert_eq!(of(3, "SSD", "set", "rocksdb"), 52700.0);
    assert_eq!(of(4, "hard disk", "setmixed", "rocksdb"), -1.0);
    let cores = run.environment.cores as f64;
    for (case, threads) in [("get", cores), ("setmixed", 1.0)] {
        let expected = 1e9 / of(1, "ours", case, "map/memory") / threads;
        let found = of(2, "ours", case, "map/memory");
        assert!((found - expected).abs() < 1.0 + expected / 100.0, "{case}: {found}, not {expected}");
    }
    assert!(text.contains("\nmap/memory, ours"), "no bar of ours: {text}");
    assert!(
        text.contains("since kvbench has no such store: badger, bbolt, bolt, leveldb, kv, buntdb"),
        "{text}"
    );
}

#[test]
fn xdag_has_two_sizes_and_the_file_itself() {
    let dir = tempfile::tempdir().unwrap();
    let (text, run) = done(dir.path(), &["xdag", "--keys", "50", "--stores", "btree"]);
    let sections: Vec<_> = text.split("\n## ").skip(1).take(4).collect();
    for (section, blocks) in
        sections.iter().zip(["; 50 blocks", "; 50 blocks", "; 156 blocks", "; 156 blocks"])
    {
        assert!(section.contains(blocks), "{section}");
        let column = line(section, &["case"]).iter().position(|head| *head == "XDAG").unwrap();
        for case in ["get", "get by key"] {
            assert!(number(line(section, &[case, "ours"])[column]) > 0.0, "{section}");
        }
    }
    // The publication has no figures of this case: it has no lines of dashes.
    let of_case = |section: &str| section.lines().filter(|line| line.starts_with("| get by key ")).count();
    assert_eq!(sections.iter().map(|section| of_case(section)).collect::<Vec<_>>(), [1; 4], "{text}");
    assert!(line(sections[0], &["get", "VirtualBox in laptop"]).contains(&"13905"));
    assert!(line(sections[2], &["get", "desktop #2"]).contains(&"130293"));
    assert_eq!(operations(&run, |cell| cell.row == "source get"), 50);
    let left: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["result.json"], "the blocks are gone");
}

/// No publication has rows of rates; those of this run follow its rows.
#[test]
fn cells_at_a_rate_have_rows_of_their_own() {
    for flags in [
        &["smallnest", "--keys", "100", "--seconds", "0.05", "--stores", "map"][..],
        &["xdag", "--keys", "50", "--stores", "btree"],
    ] {
        let dir = tempfile::tempdir().unwrap();
        let (text, _) = done(dir.path(), &[flags, &["--rates", "500"]].concat());
        for section in text.split("\n## ").skip(1).take(4) {
            for case in ["get at 500/s", "getmixed at 500/s", "setmixed at 500/s"] {
                let ours = line(section, &[case, "ours"]);
                assert!(
                    ours.iter().any(|part| part.parse().is_ok_and(|value: f64| value > 0.0)),
                    "{section}"
                );
            }
            assert!(!section.contains("| source "), "the file's rows are those of the same work: {section}");
        }
    }
}

#[test]
fn redbs_table_is_whole() {
    let dir = tempfile::tempdir().unwrap();
    let (text, run) = done(dir.path(), &["redb", "--keys", "2000", "--stores", "btree"]);
    assert!(line(&text, &["removals", "published"]).contains(&"23297ms"));
    assert!(line(&text, &["uncompacted size", "published"]).contains(&"893.18 MiB"));
    let of = |row: &str| operations(&run, |cell| cell.row == row && !cell.reference);
    let all = 2000 + 10 + 40 + 20;
    assert_eq!((of("nosync writes"), of("random reads (32 threads)")), (20, all));
    // What is left by the removals is halved; of the rest 200 are popped.
    assert_eq!((of("removals"), of("retain"), of("pop")), (all / 2, all / 4, 200));
    for row in ["nosync writes", "retain", "pop", "compaction"] {
        let ours = line(&text, &[row, "ours"]);
        assert!(ours.iter().any(|part| part.ends_with("ms")), "{ours:?}");
    }
    // So much less work is compared by operation: 17063 ms for 5 million pairs are 3.41 us for each.
    assert!(text.contains("Ours: 2,000 keys, 1/2,500 of theirs (5,000,000)"), "{text}");
    assert!(line(&text, &["bulk load", "published, each"]).contains(&"3.41 \u{b5}s"), "{text}");
    assert!(
        line(&text, &["bulk load", "ours, each"]).iter().any(|part| part.ends_with(" \u{b5}s")),
        "{text}"
    );
    let cell = |row: &str| run.cells.iter().find(|cell| cell.row == row && !cell.reference).unwrap();
    assert_eq!(cell("bulk load").target.cache_bytes, 4 << 30);
    let policies = ["individual writes", "nosync writes"].map(|row| cell(row).target.fsync.unwrap());
    assert_eq!(policies, [Fsync::Always, Fsync::No]);
    // A part is not rounded to a whole number.
    let mut larger = run.clone();
    larger.cells.iter_mut().for_each(|cell| cell.workload.keys = 3_000_000);
    let text = kvbench::bench::reproduce::text(&larger).unwrap();
    assert!(text.contains("1/1.67 of theirs (5,000,000)"), "{text}");
    larger.cells.iter_mut().for_each(|cell| cell.workload.keys = 10_000_000);
    let text = kvbench::bench::reproduce::text(&larger).unwrap();
    assert!(text.contains("10,002,000 keys, 2.00 times the number of theirs (5,000,000)"), "{text}");
    assert!(line(&text, &["bulk load", "published, each"]).contains(&"3.41 \u{b5}s"), "{text}");
}

#[test]
fn ycsb_says_that_it_published_no_figures() {
    let dir = tempfile::tempdir().unwrap();
    let flags = ["ycsb", "--keys", "200", "--seconds", "0.05", "--stores", "btree", "--rates", "500"];
    let (text, _) = done(dir.path(), &flags);
    assert_eq!(line(&text, &["b at 500/s"])[1..3], ["95% read, 5% update", "zipfian"]);
    assert!(number(line(&text, &["b at 500/s"])[3]) > 0.0);
    assert!(number(line(&text, &["f at 500/s", "read-modify-write"])[2]) > 0.0);
    assert!(text.contains("Figures read off a graph would be guesses"), "{text}");
}

#[test]
fn a_plan_is_printed_and_nothing_made() {
    let dir = tempfile::tempdir().unwrap();
    for publication in suites::publications() {
        let output = reproduce(dir.path(), &[publication.word(), "--dry-run"]);
        assert!(output.status.success(), "{}", stderr(&output));
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains("\ntime: about ") && text.contains("\ndisk: up to "), "{text}");
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    let output = reproduce(dir.path(), &["kvbench", "--seconds", "3"]);
    assert!(stderr(&output).contains("--seconds: reproduce kvbench has its own"), "{}", stderr(&output));
}

/// A build that lacks engines says so in each layout.
#[test]
#[cfg(not(feature = "rocksdb"))]
fn a_missing_engine_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let (text, _) = done(dir.path(), &["kvstore-bench", "--keys", "10"]);
    assert!(
        text.contains("Left out: rocksdb: this build has no such store (cargo feature rocksdb)."),
        "{text}"
    );
    let dir = tempfile::tempdir().unwrap();
    let (text, _) = done(dir.path(), &["smallnest", "--keys", "10", "--seconds", "0.05", "--stores", "map"]);
    let absent = text.lines().filter(|line| line.starts_with("- Published only, ")).collect::<Vec<_>>();
    assert!(!absent[0].contains("rocksdb") && absent[1].contains("rocksdb"), "{absent:?}");
}

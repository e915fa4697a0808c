//! The script of the reference run, with stores that every build has and at a scale that proves nothing but the script.

use crate::support::{KVBENCH, RunToEnd};
use kvbench::bench::result::{Outcome, Run};
use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

const EXPERIMENTS: [&str; 13] = [
    "cold",
    "durable",
    "durable-one",
    "large-values",
    "larger",
    "larger-durable",
    "latency",
    "storage",
    "write",
    "ycsb-a",
    "ycsb-b",
    "ycsb-c",
    "ycsb-e",
];

fn script(dir: &Path, mode: &[&str]) -> Command {
    let mut script = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/reference/run"));
    script.arg(dir).args(mode).env("KVBENCH", KVBENCH);
    script
}

fn tiny(dir: &Path, mode: &[&str], stores: &str) -> Output {
    let others = ["SORTED", "FILES", "FRUGAL"].map(|variable| (variable, "btree"));
    script(dir, mode).env("SCALE", "tiny").env("STORES", stores).envs(others).run_to_end()
}

fn results(dir: &Path) -> Vec<String> {
    let names = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.filter_map(|name| Some(name.strip_suffix(".json")?.to_owned())).collect();
    names.sort();
    names
}

#[test]
fn the_reference_run_measures_goes_on_and_compares() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path().join("reference");
    let first = tiny(&dir, &[], "map,btree");
    assert!(first.status.success(), "{}", String::from_utf8_lossy(&first.stderr));
    assert_eq!(results(&dir.join("first")), EXPERIMENTS);
    assert!(dir.join("report/report.html").exists());
    // What is there already is not measured once more, except what failed.
    let before = fs::read(dir.join("first/ycsb-a.json")).unwrap();
    let larger = dir.join("first/larger.json");
    let read = || -> Run { serde_json::from_slice(&fs::read(&larger).unwrap()).unwrap() };
    let mut failed = read();
    failed.samples[0].outcome = Outcome::Failed("killed".to_owned());
    fs::write(&larger, serde_json::to_vec(&failed).unwrap()).unwrap();
    assert!(tiny(&dir, &[], "map,btree").status.success());
    assert!(fs::read(dir.join("first/ycsb-a.json")).unwrap() == before);
    assert!(read().samples.iter().all(|sample| sample.outcome.failure().is_none()));
    // A soak, which only the first run has.
    fs::write(dir.join("first/soak-map.json"), &before).unwrap();
    let again = tiny(&dir, &["again"], "map,btree");
    let text = String::from_utf8_lossy(&again.stdout);
    // Whether they differ, and whether that can be told, is a matter of the machine.
    assert!(matches!(again.status.code(), Some(0..=2)), "{text}\n{}", String::from_utf8_lossy(&again.stderr));
    let compared = EXPERIMENTS.iter().filter(|name| text.contains(&format!("\n{name}:\n"))).count();
    assert!(compared >= EXPERIMENTS.len() - 1, "{text}");
    assert!(!text.contains("\nsoak-map:\n"), "{text}");
}

#[test]
fn soaks_and_found_rates_are_added_to_the_reference_run() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path().join("reference");
    let mut long = script(&dir, &["long"]);
    let long = long.env("SCALE", "tiny").env("FILES", "btree").env("FRUGAL", "map,btree").run_to_end();
    assert!(long.status.success(), "{}", String::from_utf8_lossy(&long.stderr));
    assert_eq!(results(&dir.join("first")), ["found-rate", "soak-btree", "soak-map"]);
    let report = fs::read_to_string(dir.join("report/report.md")).unwrap();
    for title in ["soak", "found-rate"] {
        assert!(report.contains(title), "{title}: {report}");
    }
    // One table for the soaks of all stores, which are in several files.
    let tables: Vec<_> = report.split("\n## ").filter(|part| part.starts_with("soak: ")).collect();
    let [table] = tables[..] else { panic!("{} tables: {report}", tables.len()) };
    let columns = table.lines().find(|line| line.starts_with("| Workload")).unwrap();
    assert!(["map", "btree"].iter().all(|store| columns.contains(store)), "{report}");
}

#[test]
fn an_unknown_mode_of_the_reference_run_is_refused() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path().join("reference");
    let output = tiny(&dir, &["agian"], "map");
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.starts_with("usage: ") && text.ends_with(" DIR [again|long|plan]\n"), "{text}");
    assert!(!dir.exists());
}

/// One that fails is named, and the others are measured.
#[test]
fn the_reference_run_goes_on_after_a_failure() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path().join("reference");
    let output = tiny(&dir, &[], "nonesuch");
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{text}");
    let failed = "not all of these was measured: ycsb-a ycsb-b ycsb-c latency write durable-one durable large-values\n";
    assert!(text.contains(failed), "{text}");
    assert_eq!(results(&dir.join("first")), ["cold", "larger", "larger-durable", "storage", "ycsb-e"]);
}

/// Every experiment says what it needs, and all of them together take no longer than the page says.
#[test]
fn the_reference_run_says_before_what_it_needs() {
    /// In which the script at its full scale measures everything once, as the page about it says.
    const MINUTES: f64 = 180.0;

    /// Minutes of a text such as `90 s`, `12 min` or `1.5 h`.
    fn minutes(text: &str) -> f64 {
        let (number, unit) = text.split_once(' ').unwrap();
        let each = [("s", 1.0 / 60.0), ("min", 1.0), ("h", 60.0)];
        number.parse::<f64>().unwrap() * each.iter().find(|(name, _)| *name == unit).unwrap().1
    }

    let temporary = tempfile::tempdir().unwrap();
    let plan = script(&temporary.path().join("reference"), &["plan"]).run_to_end();
    let text = String::from_utf8_lossy(&plan.stdout);
    assert_eq!(text.matches("\ndisk: up to ").count(), EXPERIMENTS.len(), "{text}");
    let times = text.lines().filter_map(|line| {
        let time = line.strip_prefix("time: about ").or_else(|| line.strip_prefix("time: at most "))?;
        Some(minutes(time.split(',').next().unwrap()))
    });
    let times: Vec<_> = times.collect();
    assert_eq!(times.len(), EXPERIMENTS.len(), "{text}");
    assert!(times.iter().sum::<f64>() <= MINUTES, "{text}");
}

/// A result says whether its program was calibrated, so another program in the same directory is calibrated too.
#[test]
fn the_reference_run_calibrates_each_program_once() {
    let temporary = tempfile::tempdir().unwrap();
    let (dir, program) = (temporary.path().join("reference"), temporary.path().join("program"));
    let calibrations = || {
        let names = fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().file_name());
        names.filter(|name| name.to_str().unwrap().starts_with("calibration-")).count()
    };
    for (version, expected) in [(1, 1), (1, 1), (2, 2)] {
        write_program(&program, &format!("# Version {version}"));
        let output = script(&dir, &[]).env("KVBENCH", &program).run_to_end();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(calibrations(), expected, "version {version}");
    }
}

/// The stores are measured all the same, and the next start calibrates again.
#[test]
fn the_reference_run_goes_on_after_a_failed_calibration() {
    let temporary = tempfile::tempdir().unwrap();
    let (dir, program) = (temporary.path().join("reference"), temporary.path().join("program"));
    write_program(&program, r#"[ "$1" != calibrate ] || exit 1"#);
    for start in ["first", "second"] {
        let output = script(&dir, &[]).env("KVBENCH", &program).run_to_end();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{start}: {text}");
        assert!(text.contains("calibrate failed; each result records that."), "{start}: {text}");
        assert!(String::from_utf8_lossy(&output.stdout).contains("ycsb-a: "), "{start}");
        let mut names = fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().file_name());
        assert!(names.all(|name| !name.to_str().unwrap().starts_with("calibration-")), "{start}");
    }
}

/// Writes a program that lists a store, carries out the line of shell and does nothing else.
fn write_program(path: &Path, line: &str) {
    let text = format!(
        r#"#!/bin/sh
[ "$1" != stores ] || echo '{{"name":"btree","status":"stable","memory_resident":false,"ordered":true}}'
{line}
"#
    );
    // By another process: a file that this one has open for writing cannot be started.
    let mut write = Command::new("sh");
    write.args(["-c", r#"printf %s "$2" > "$1" && chmod +x "$1""#, "sh"]).arg(path).arg(text);
    assert!(write.run_to_end().status.success());
}

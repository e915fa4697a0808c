//! The script of the reference run, with stores that every build has and at a scale that proves nothing but the script.

use crate::support::KVBENCH;
use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

const EXPERIMENTS: [&str; 5] = ["cold", "durable-insert", "durable-mixed", "larger", "ycsb"];

fn script(dir: &Path, mode: &[&str]) -> Output {
    let variables =
        [("KVBENCH", KVBENCH), ("SCALE", "tiny"), ("STORES", "map,btree"), ("FILES", "map,btree")];
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/reference/run");
    Command::new(script).arg(dir).args(mode).envs(variables).output().unwrap()
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
    let first = script(&dir, &[]);
    assert!(first.status.success(), "{}", String::from_utf8_lossy(&first.stderr));
    assert_eq!(results(&dir.join("first")), EXPERIMENTS);
    assert!(dir.join("report/report.html").exists());
    // What is there already is not measured once more.
    let before = fs::read(dir.join("first/ycsb.json")).unwrap();
    assert!(script(&dir, &[]).status.success());
    assert!(fs::read(dir.join("first/ycsb.json")).unwrap() == before);
    let again = script(&dir, &["again"]);
    let text = String::from_utf8_lossy(&again.stdout);
    // Whether they differ, and whether that can be told, is a matter of the machine.
    assert!(matches!(again.status.code(), Some(0..=2)), "{text}\n{}", String::from_utf8_lossy(&again.stderr));
    let compared = EXPERIMENTS.iter().filter(|name| text.contains(&format!("\n{name}:\n"))).count();
    assert!(compared >= 4, "{text}");
}

#[test]
fn the_reference_run_says_before_what_it_needs() {
    let temporary = tempfile::tempdir().unwrap();
    let plan = script(&temporary.path().join("reference"), &["plan"]);
    let text = String::from_utf8_lossy(&plan.stdout);
    assert_eq!(text.matches("\ntime: about ").count(), EXPERIMENTS.len(), "{text}");
    assert_eq!(text.matches("\ndisk: up to ").count(), EXPERIMENTS.len(), "{text}");
}

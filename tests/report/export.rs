//! `kvbench export`: results for services that track benchmarks.

use crate::{fixtures, kvbench, text};
use kvbench::bench::result::Outcome;
use serde_json::Value;

fn exported(arguments: &[&str]) -> Value {
    let dir = tempfile::tempdir().unwrap();
    fixtures::save(&fixtures::small(), &dir.path().join("run.json"));
    let output = kvbench(dir.path(), &[&["export"], arguments, &["run.json"]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn bencher_gets_throughput_and_latency_with_their_ranges() {
    let found = exported(&["bencher"]);
    let get = &found["get/lmdb/local/no/get/lmdb"];
    assert_eq!(get["throughput"]["value"], 2000.0, "{found}");
    assert_eq!(
        (&get["throughput"]["lower_value"], &get["throughput"]["upper_value"]),
        (&1500.0.into(), &3000.0.into())
    );
    // The fixture's p99 is four times the mean time: 2 ms.
    assert_eq!(get["latency"]["value"], 2_000_000.0, "in nanoseconds");
    assert!(found.get("set/lmdb/local/no/set/lmdb").is_none(), "a failed cell has no result: {found}");
}

#[test]
fn github_action_benchmark_gets_one_metric() {
    let found = exported(&["github-action-benchmark"]);
    let entry = &found.as_array().unwrap()[0];
    assert_eq!(
        (entry["name"].as_str(), entry["unit"].as_str()),
        (Some("get/lmdb/local/no/get/lmdb"), Some("operations/s"))
    );
    assert_eq!(entry["value"], 2000.0);
    assert!(entry["range"].as_str().unwrap().starts_with("\u{b1} 750"), "{entry}");
    let found = exported(&["github-action-benchmark", "--metric", "p99_us"]);
    assert_eq!((&found[0]["value"], found[0]["unit"].as_str()), (&2000.0.into(), Some("us")));
}

/// Two entries of one name would be two results of one benchmark.
#[test]
fn of_two_runs_of_a_cell_the_newer_one_is_exported() {
    let dir = tempfile::tempdir().unwrap();
    let mut newer = fixtures::small();
    newer.started = "2026-03-03T00:00:00Z".to_owned();
    newer.samples.retain(|sample| sample.repetition == 1);
    fixtures::save(&newer, &dir.path().join("a.json"));
    fixtures::save(&fixtures::small(), &dir.path().join("b.json"));
    let export = |format: &str| -> Value {
        let output = kvbench(dir.path(), &["export", format, "."]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let name = "get/lmdb/local/no/get/lmdb";
    let found = export("github-action-benchmark");
    let own: Vec<_> = found.as_array().unwrap().iter().filter(|entry| entry["name"] == name).collect();
    assert_eq!((own.len(), &own[0]["value"]), (1, &3000.0.into()), "{found}");
    assert_eq!(export("bencher")[name]["throughput"]["value"], 3000.0);
}

/// Its older value would look like that of a store that still works.
#[test]
fn a_cell_that_fails_in_the_newest_run_has_no_value() {
    let dir = tempfile::tempdir().unwrap();
    let mut newer = fixtures::small();
    newer.started = "2026-03-03T00:00:00Z".to_owned();
    let name = "get/lmdb/local/no/get/lmdb";
    for sample in newer.samples.iter_mut().filter(|sample| sample.cell == name) {
        sample.outcome = Outcome::Failed("it crashed".to_owned());
    }
    fixtures::save(&newer, &dir.path().join("a.json"));
    fixtures::save(&fixtures::small(), &dir.path().join("b.json"));
    for format in ["github-action-benchmark", "bencher"] {
        let output = kvbench(dir.path(), &["export", format, "."]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert!(!text(&output.stdout).contains(name), "{format}: {}", text(&output.stdout));
    }
}

#[test]
fn an_unknown_metric_is_named() {
    let dir = tempfile::tempdir().unwrap();
    fixtures::save(&fixtures::small(), &dir.path().join("run.json"));
    // The second is a column of the CSV.
    for metric in ["speed", "p99_us_median"] {
        let flags = ["export", "github-action-benchmark", "run.json", "--metric", metric];
        let output = kvbench(dir.path(), &flags);
        assert_eq!(output.status.code(), Some(2));
        let text = text(&output.stderr);
        assert!(
            text.contains(&format!("--metric {metric}: there is no such metric; choose one of ")),
            "{text}"
        );
        assert!(text.contains(", p99_us, "), "{text}");
    }
}

/// A service would record an empty export as if there were no benchmarks.
#[test]
fn an_export_without_a_value_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    fixtures::save(&fixtures::small(), &dir.path().join("run.json"));
    let mut failed = fixtures::small();
    for sample in &mut failed.samples {
        sample.outcome = Outcome::Failed("it crashed".to_owned());
    }
    fixtures::save(&failed, &dir.path().join("failed.json"));
    for (arguments, words) in [
        (
            &["github-action-benchmark", "run.json", "--metric", "device_bytes"][..],
            "no store in these results has a value of device_bytes",
        ),
        (&["github-action-benchmark", "failed.json"], "has a value of throughput_per_second"),
        (&["bencher", "failed.json"], "has a value of throughput_per_second"),
        (&["bencher", "run.json", "--metric", "p99_us"], "leave out --metric"),
    ] {
        let output = kvbench(dir.path(), &[&["export"], arguments].concat());
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {stderr}");
        assert!(stdout.is_empty() && stderr.contains(words), "{arguments:?}: {stdout}{stderr}");
    }
}

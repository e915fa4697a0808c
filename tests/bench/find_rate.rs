//! `--find-rate`: the highest rate of an open loop at which a latency is kept.

use crate::support::bench::{bench, measurement, read, stderr};
use kvbench::bench::result::{Outcome, latency_goal::Percentile, rate_search::RateLimit};

const WORK: [&str; 10] =
    ["--stores", "btree", "--mix", "get=1", "--keys", "500", "--threads", "1", "--seconds", "0.2"];

#[test]
fn a_rate_that_keeps_the_latency_is_found_and_verified() {
    let dir = tempfile::tempdir().unwrap();
    let output = bench(dir.path(), &[&WORK[..], &["--find-rate", "p50<1s"]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let run = read(dir.path());
    let cell = run.cells.iter().find(|cell| !cell.reference).unwrap();
    let sample = run.samples.iter().find(|sample| sample.cell == cell.id).unwrap();
    let found = measurement(&sample.outcome);
    let search = found.rate_search.as_ref().unwrap();
    assert_eq!((search.goal.of, search.goal.below_us), (Percentile::P50, 1e6));
    let last = search.trials.last().unwrap();
    assert!(last.limit.is_none() && last.rate == found.throughput && last.latency_us < 1e6, "{search:?}");
    assert!((last.seconds - 1.2).abs() < 1e-9 && (1.2..2.0).contains(&found.seconds), "{search:?}");
    assert!(found.throughput <= 0.951 * search.highest, "{search:?}");
    // The no-op engine was measured, and an open loop is not compared with it.
    assert!(run.cells.iter().any(|cell| cell.reference));
    assert_eq!(found.near_floor, None);
    // The last operation may end after the time of the trial.
    let completed = found.operations as f64 / last.seconds;
    assert!((0.98..1.01).contains(&(completed / found.throughput)), "{completed} of {}", found.throughput);
    assert!(
        search.trials.iter().rev().skip(1).any(|trial| trial.limit.is_none() && trial.rate == search.highest)
    );
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text
        .lines()
        .find(|line| line.starts_with("rate: btree, in process, fsync no: "))
        .unwrap_or_else(|| panic!("{text}"));
    assert!(line.contains(" keeps p50<1.00 s (verified for 1 s: p50 "), "{line}");
}

#[test]
fn a_store_that_never_keeps_the_latency_has_no_rate() {
    let dir = tempfile::tempdir().unwrap();
    let output = bench(dir.path(), &[&WORK[..], &["--find-rate", "max<0.000001ms"]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let run = read(dir.path());
    let reason = run.samples.iter().find_map(|sample| match &sample.outcome {
        Outcome::Unsupported(reason) => Some(reason.as_str()),
        _ => None,
    });
    let reason = reason.unwrap();
    assert!(
        reason.starts_with("no rate keeps max<")
            && reason.contains(&format!("limited by {}", RateLimit::Latency)),
        "{reason}"
    );
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains(reason), "{text}");
}

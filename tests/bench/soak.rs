//! `--minutes`: a long measurement that records each second.

use crate::{
    support::bench::{bench, measurement, read, stderr},
    support::{KVBENCH, RunToEnd},
};
use kvbench::bench::result::soak::{ANONYMOUS, FILES, MAX, OPERATIONS, P50, P99, RESIDENT, WRITTEN};
use std::{fs, process::Command};

const RATE: f64 = 300.0;

#[test]
fn each_second_of_a_soak_is_recorded() {
    let dir = tempfile::tempdir().unwrap();
    let flags = ["--minutes", "0.1", "--stores", "bitcask,map", "--mix", "get=0.5,update=0.5"];
    let size = ["--keys", "1000", "--value-bytes", "1000", "--threads", "1", "--rate", "300"];
    let output = bench(dir.path(), &[&flags[..], &size].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let run = read(dir.path());
    assert_eq!(run.repetitions, 1);
    let stores = run.cells.iter().filter(|cell| !cell.reference);
    for cell in stores.clone() {
        let sample = run.samples.iter().find(|sample| sample.cell == cell.id).unwrap();
        let measurement = measurement(&sample.outcome);
        let soak = measurement.soak.as_ref().unwrap();
        assert_eq!(soak.seconds(), 6, "{soak:?}");
        assert!(soak.series.values().all(|values| values.len() == 6), "{soak:?}");
        let values =
            |name: &str| -> Vec<f64> { soak.values(name).iter().map(|value| value.unwrap()).collect() };
        // An operation that begins at the end of the last second may end after it.
        let sum: f64 = values(OPERATIONS).iter().sum();
        assert!((measurement.operations as f64 - sum).abs() <= 2.0, "{sum} of {}", measurement.operations);
        assert!((6.0 * RATE - sum).abs() <= 0.1 * 6.0 * RATE, "{sum}");
        for second in 0..6 {
            let [p50, p99, max] = [P50, P99, MAX].map(|name| values(name)[second]);
            assert!(0.0 < p50 && p50 <= p99 && p99 <= max, "{p50} {p99} {max}");
        }
        // Half of the operations write a value.
        let written: f64 = values(WRITTEN).iter().sum();
        assert!(written > 0.4 * 1000.0 * sum, "{written}");
        // On a busy machine nothing may be written for a second or two.
        let files = values(FILES);
        assert!(files.is_sorted() && files.windows(4).all(|sizes| sizes[3] > sizes[0]), "{soak:?}");
        assert!(values(RESIDENT).iter().zip(values(ANONYMOUS)).all(|(all, part)| *all > 0.0 && part >= 0.0));
        assert!(soak.series.contains_key("cpu_ms/driver"), "{:?}", soak.series.keys());
        let seconds = measurement.seconds + measurement.settle_seconds.unwrap();
        assert!((measurement.throughput * seconds / measurement.operations as f64 - 1.0).abs() < 1e-9);
        let dead = soak.backlogs.contains(&"engine/dead_bytes".to_owned());
        assert_eq!(dead, cell.target.store == "bitcask", "{:?}", soak.backlogs);
        assert!(soak.backlogs.contains(&FILES.to_owned()), "{:?}", soak.backlogs);
    }
    assert_eq!(stores.count(), 2);
    let floor = run.cells.iter().find(|cell| cell.reference).unwrap();
    assert!(
        !floor.workload.soak && floor.workload.seconds < Some(1.0),
        "the harness is measured for a moment"
    );
    let text = String::from_utf8_lossy(&output.stdout);
    for store in ["bitcask", "map"] {
        let begin = format!("soak: {store}, in process, fsync no: ");
        let line = text.lines().find(|line| line.starts_with(&begin)).unwrap_or_else(|| panic!("{text}"));
        assert!(line.contains("over all, with the deferred work after the end; p99 "), "{line}");
        assert!(line.ends_with("; too short to tell when it is steady and what grows"), "{line}");
    }
    let mut report = Command::new(KVBENCH);
    let report =
        report.current_dir(dir.path()).args(["report", "result.json", "--output", "report"]).run_to_end();
    assert!(report.status.success(), "{}", stderr(&report));
    let markdown = fs::read_to_string(dir.path().join("report/report.md")).unwrap();
    assert!(markdown.contains("]: Soak: "), "{markdown}");
}

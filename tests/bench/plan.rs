//! What a run does in which order.

use crate::command::{measurement, read, result_of};
use kvbench::bench::{result::Step, run};
use std::collections::HashSet;

#[test]
fn repetitions_go_over_all_cells() {
    let dir = tempfile::tempdir().unwrap();
    let run = result_of(
        dir.path(),
        &[
            "--stores",
            "map,btree",
            "--operations",
            "500",
            "--keys",
            "100",
            "--repetitions",
            "3",
            "--fsync",
            "no,memory",
        ],
    );
    assert!(run.finished);
    assert_eq!(run.cells.len(), 5, "two stores, two levels and the harness floor");
    let order: Vec<_> = run.samples.iter().map(|sample| (sample.repetition, sample.cell.clone())).collect();
    let expected: Vec<_> = (0..3)
        .flat_map(|repetition| run.cells.iter().map(move |cell| (repetition, cell.id.clone())))
        .collect();
    assert_eq!(order, expected);
    assert!(run.samples.iter().all(|sample| measurement(&sample.outcome).is_sound()));
}

#[test]
fn cells_have_names_of_their_own_and_tables_one_durability() {
    let dir = tempfile::tempdir().unwrap();
    let suites: &[&[&str]] = &[
        &["--suite", "smallnest", "--seconds", "0.05", "--keys", "2000"],
        &["--suite", "ycsb", "--seconds", "0.05", "--keys", "2000"],
        &["--suite", "redb", "--keys", "2000"],
    ];
    for suite in suites {
        let arguments = [*suite, &["--stores", "map,btree"]].concat();
        let run = result_of(dir.path(), &arguments);
        let ids: HashSet<_> = run.cells.iter().map(|cell| &cell.id).collect();
        assert_eq!(ids.len(), run.cells.len(), "{suite:?}");
        for (cell, other) in
            run.cells.iter().flat_map(|cell| run.cells.iter().map(move |other| (cell, other)))
        {
            let level = |cell: &kvbench::bench::result::Cell| {
                (
                    cell.target.access,
                    cell.target.persistent,
                    cell.target.fsync.clone().filter(|_| cell.target.persistent),
                )
            };
            assert!(cell.table != other.table || level(cell) == level(other), "{} and {}", cell.id, other.id);
        }
        for job in run::jobs(&run.cells) {
            assert!(job.len() == 1 || job.iter().all(|cell| cell.group == job[0].group));
        }
        assert_eq!(run.samples.len(), run.cells.len());
        assert!(run.samples.iter().all(|sample| measurement(&sample.outcome).is_sound()), "{suite:?}");
        std::fs::remove_file(dir.path().join("result.json")).unwrap();
    }
}

#[test]
fn redbs_rows_count_what_they_say() {
    let dir = tempfile::tempdir().unwrap();
    result_of(dir.path(), &["--suite", "redb", "--keys", "5000", "--stores", "btree"]);
    let run = read(dir.path());
    let operations = |row: &str| {
        let cell = run.cells.iter().find(|cell| cell.row == row && !cell.reference).unwrap();
        let sample = run.samples.iter().find(|sample| sample.cell == cell.id).unwrap();
        measurement(&sample.outcome).operations
    };
    assert_eq!(operations("bulk load"), 5000);
    assert_eq!(operations("random reads"), 1000);
    assert_eq!(operations("random reads (8 threads)"), 1000);
    assert_eq!(operations("random range reads"), 500);
    assert_eq!(operations("removals"), 2500);
    let size = run.cells.iter().find(|cell| cell.workload.step == Step::DiskSize).unwrap();
    let sample = run.samples.iter().find(|sample| sample.cell == size.id).unwrap();
    assert!(measurement(&sample.outcome).disk_bytes.unwrap() > 5000 * 174);
}

//! What a run does in which order.

use crate::support::bench::{bench, measurement, result_of, stderr};
use kvbench::{
    bench::{
        plan::{
            options::{Durability, Options, Suite},
            suites::{self, Plan},
        },
        result::{Access, Cell, Commits, Outcome, comparability, run_file},
        run,
    },
    engine::Fsync,
};
use std::{collections::HashSet, iter, path::Path};

/// All stores of this build at the suite's levels, by default.
fn options(suite: Option<&'static Suite>, dir: &Path) -> Options {
    Options {
        suite,
        seed: 1,
        directory: dir.into(),
        output: dir.join("result.json"),
        cache_bytes: 1 << 20,
        map_bytes: 1 << 20,
        ..Options::default()
    }
}

fn name(suite: Option<&Suite>) -> &'static str {
    suite.map_or("no suite", |suite| suite.name)
}

fn check_ids(plan: &Plan, what: &str) {
    let mut ids = HashSet::new();
    let twice = plan.cells.iter().find(|cell| !ids.insert(&cell.id));
    assert!(twice.is_none(), "{what}: two cells are called {}", twice.unwrap().id);
}

#[test]
fn every_suite_is_found_by_its_name() {
    for suite in suites::SUITES {
        let found = suites::find(suite.name).unwrap();
        assert!(std::ptr::eq(found, suite), "two suites are called {}", suite.name);
        assert_eq!(suite.name.starts_with("reproduce-"), suite.published.is_some(), "{}", suite.name);
    }
}

/// For every suite and publication, and without one.
#[test]
fn no_two_cells_have_one_name_whatever_is_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let all = [Fsync::Always, Fsync::EverySec, Fsync::No].map(Durability::Files);
    for suite in iter::once(None).chain(suites::SUITES.iter().map(Some)) {
        let mut options = options(suite, dir.path());
        let name = name(suite);
        check_ids(&suites::plan(&options).unwrap(), name);
        // A word given twice is one word.
        options.stores = ["map", "map", "nothing", "btree", "nothing"].map(Into::into).into();
        if suite.is_some_and(|suite| suite.access == Some(Access::Wire)) {
            options.stores.retain(|store| store != "nothing");
        }
        options.durabilities = [&all[..], &[Durability::Memory], &all].concat();
        options.rates = vec![1000.0, 2000.0, 1000.0];
        let plan = suites::plan(&options).unwrap();
        check_ids(&plan, &format!("{name} of {:?}", options.stores));
        for store in ["map", "btree"] {
            let levels: HashSet<_> = plan
                .cells
                .iter()
                .filter(|cell| cell.target.store == store)
                .map(|cell| (cell.target.persistent, cell.target.fsync))
                .collect();
            // The sizes of files are measured of stores on disk only.
            let expected = if name == "storage" { 3 } else { 4 };
            assert_eq!(levels.len(), expected, "{name} measures {store} at {levels:?}");
        }
    }
}

/// The suite storage measures files, and cold reads are reads of files.
#[test]
fn memory_is_not_measured_by_default_where_files_are_measured() {
    let dir = tempfile::tempdir().unwrap();
    let storage = suites::plan(&options(suites::find("storage"), dir.path())).unwrap();
    let in_memory = storage.left_out.iter().find(|reason| reason.contains("in memory"));
    assert_eq!(in_memory, None, "no store has such cells");
    let mut cold = options(suites::find("smallnest"), dir.path());
    cold.conditions.cold = true;
    let plan = suites::plan(&cold).unwrap();
    let mut cells = plan.cells.iter().filter(|cell| !cell.reference);
    assert!(cells.all(|cell| cell.target.persistent), "memory is read as if it were cold");
}

#[test]
fn a_result_with_the_reference_at_several_levels_is_read_back() {
    let dir = tempfile::tempdir().unwrap();
    let arguments = ["--stores", "map,nothing", "--fsync", "no,everysec,memory"];
    let run = result_of(dir.path(), &[&arguments[..], &["--operations", "500", "--keys", "100"]].concat());
    let stores: Vec<_> = run.cells.iter().map(|cell| cell.target.store.as_str()).collect();
    assert_eq!(stores, ["map", "nothing", "map", "map"]);
    let result = dir.path().join("result.json");
    assert!(run_file::read(&result).is_ok(), "{:?}", run_file::read(&result));
}

#[test]
fn cells_carry_the_caveats_of_their_durability() {
    let dir = tempfile::tempdir().unwrap();
    for suite in ["smallnest", "kvbench"] {
        let plan = suites::plan(&options(suites::find(suite), dir.path())).unwrap();
        let says = |text: &'static str| {
            move |cell: &&Cell| cell.target.caveats.iter().any(|caveat| caveat.contains(text))
        };
        for cell in plan.cells.iter().filter(|cell| ["map", "btree"].contains(&cell.target.store.as_str())) {
            assert_eq!(says(":memory:")(&cell), !cell.target.persistent, "{}", cell.id);
            assert_eq!(says("replays the whole file")(&cell), cell.target.persistent, "{}", cell.id);
        }
        #[cfg(feature = "redb")]
        for cell in plan.cells.iter().filter(|cell| cell.target.store == "redb") {
            let unsynced = cell.target.persistent && cell.target.fsync != Some(Fsync::Always);
            assert_eq!(says("keeps commits in its own memory")(&cell), unsynced, "{}", cell.id);
        }
    }
}

#[test]
fn the_reference_is_no_server() {
    let dir = tempfile::tempdir().unwrap();
    for arguments in [&["--wire"][..], &["--suite", "kvbench"]] {
        let output = bench(dir.path(), &[arguments, &["--stores", "map,nothing"]].concat());
        assert!(!output.status.success());
        assert!(stderr(&output).contains("--stores nothing"), "{}", stderr(&output));
    }
}

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
    assert_eq!(run.cells.len(), 5, "two stores, two policies and the harness overhead");
    let mut order: Vec<_> =
        run.samples.iter().map(|sample| (sample.repetition, sample.cell.clone())).collect();
    assert!(order.is_sorted_by_key(|(repetition, _)| *repetition));
    let mut expected: Vec<_> = (0..3)
        .flat_map(|repetition| run.cells.iter().map(move |cell| (repetition, cell.id.clone())))
        .collect();
    order.sort();
    expected.sort();
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
            let level = |cell: &Cell| {
                (
                    cell.target.access,
                    cell.target.persistent,
                    cell.target.fsync.filter(|_| cell.target.persistent),
                )
            };
            assert!(cell.table != other.table || level(cell) == level(other), "{} and {}", cell.id, other.id);
        }
        for job in run::jobs(&run.cells) {
            assert!(job.len() == 1 || job.iter().all(|cell| cell.group == job[0].group));
        }
        assert_eq!(run.samples.len(), run.cells.len());
        let sound = |outcome: &Outcome| match outcome {
            Outcome::Unsupported(_) => true,
            other => measurement(other).is_sound(),
        };
        assert!(run.samples.iter().all(|sample| sound(&sample.outcome)), "{suite:?}");
        std::fs::remove_file(dir.path().join("result.json")).unwrap();
    }
}

/// What loses different things, or commits in another way, has no common winner.
#[test]
fn only_what_keeps_the_same_promise_is_ranked() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = options(None, dir.path());
    options.commits = vec![Commits::Own, Commits::Groups];
    options.durabilities = vec![Durability::Files(Fsync::No)];
    let plan = suites::plan(&options).unwrap();
    check_ids(&plan, "both ways to commit");
    let cell = |store: &str, commits| {
        let of = |cell: &&Cell| cell.target.store == store && cell.target.commits == commits;
        plan.cells.iter().find(of).unwrap_or_else(|| panic!("no {store}"))
    };
    let ranked = |one: &Cell, other: &Cell| comparability::may_be_ranked(&one.target, &other.target, true);
    let (own, groups) = (cell("map", Commits::Own), cell("map", Commits::Groups));
    assert!(!ranked(own, groups) && own.table != groups.table, "{} and {}", own.table, groups.table);
    assert!(groups.table.contains("group commit"), "{}", groups.table);
    assert!(ranked(own, cell("btree", Commits::Own)));
    #[cfg(all(feature = "redb", feature = "rocksdb", feature = "sled", feature = "lmdb"))]
    {
        let of = |store| cell(store, Commits::Own);
        assert!(ranked(own, of("rocksdb")), "under no, both lose what the system had not written");
        for (one, other) in
            [("map", "redb"), ("map", "sled"), ("map", "lmdb"), ("redb", "sled"), ("lmdb", "redb")]
        {
            assert!(!ranked(of(one), of(other)), "{one} and {other} lose different things");
        }
        options.durabilities = vec![Durability::Files(Fsync::Always)];
        let plan = suites::plan(&options).unwrap();
        let own: Vec<_> =
            plan.cells.iter().filter(|cell| !cell.reference && cell.target.commits == Commits::Own).collect();
        assert_eq!(own.len(), kvbench::engine::KINDS.len());
        for cell in own.iter().copied() {
            let loses_nothing = !["sled", "canopydb"].contains(&cell.target.store.as_str());
            assert_eq!(
                ranked(own[0], cell),
                loses_nothing,
                "under always only sled and canopydb may lose: {}",
                cell.target.store
            );
        }
    }
}

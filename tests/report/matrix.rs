//! The matrix at the top of the report: who is named, and who is not.

use crate::{fixtures, report};
use kvbench::{
    bench::result::{
        Access, Cell, CellKind, Commits, Loses, Measurement, Operation, Outcome, Run, Target, Workload,
        interleaved_comparison::VerdictKind,
        latency_goal::{LatencyGoal, Percentile},
        statistics::looks::Looks,
    },
    engine::{Fsync, LossClass},
};

/// Two stores that only get.
fn duel(first: &[f64], second: &[f64]) -> Run {
    let mut run = fixtures::run("duel", 5);
    for (store, figures) in [("lmdb", first), ("redb", second)] {
        let target = fixtures::target(store, "no");
        let work = fixtures::workload("get", &[(Operation::Get, 1.0)]);
        fixtures::add(&mut run, fixtures::cell("duel", "get", store, target, work), figures);
    }
    run
}

/// Verdict of a scenario in the Markdown: `lmdb`, without the work it is from.
fn verdict(run: Run, scenario: &str) -> String {
    let (_dir, markdown) = report(&[run], "report.md");
    let start = markdown.find(&format!("- **{scenario}** (")).expect("the scenario");
    let line = markdown[start..].lines().next().unwrap();
    line.split_once("): ").unwrap().1.to_owned()
}

/// A store's row of the matrix.
fn row(run: Run, store: &str) -> String {
    let (_dir, markdown) = report(&[run], "report.md");
    let matrix = markdown.split_once("## Compared with the best store").unwrap().1;
    let line = matrix.lines().find(|line| line.starts_with(&format!("| {store}"))).unwrap();
    line.split('|').map(str::trim).filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" | ")
}

const FAST: [f64; 5] = [200.0, 202.0, 201.0, 203.0, 199.0];
const SLOW: [f64; 5] = [100.0, 101.0, 100.5, 102.0, 100.0];

#[test]
fn a_clear_best_is_named_and_the_other_has_a_ratio_with_its_interval() {
    assert!(
        verdict(duel(&FAST, &SLOW), "Read-heavy")
            .starts_with("lmdb. In process, fsync no; reads lose nothing. get.")
    );
    assert_eq!(row(duel(&FAST, &SLOW), "lmdb"), "lmdb | **1.00**");
    assert_eq!(row(duel(&FAST, &SLOW), "redb"), "redb | 0.50 (0.50\u{2013}0.50)");
}

/// The answer comes first: verdicts, then a table for each scenario, the best store first, with what each costs.
#[test]
fn the_stores_of_a_scenario_are_ranked_with_their_price_before_the_matrix() {
    let mut run = duel(&SLOW, &FAST);
    for sample in &mut run.samples {
        let Outcome::Measured(measured) = &mut sample.outcome else { panic!() };
        measured.peak_memory_bytes = Some(43 << 20);
        measured.disk_bytes = Some(12 << 20);
        measured.reopen_seconds = Some(0.0041);
    }
    // Another experiment has killed one of them.
    let mut kills = fixtures::run("storage", 1);
    let mut work = fixtures::workload("kill", &[(Operation::Update, 1.0)]);
    work.step = CellKind::Recovery;
    let killed = fixtures::cell("storage", "kill", "lmdb", fixtures::target("lmdb", "no"), work);
    let recovered = Measurement { recovery_seconds: Some(4.5), ..fixtures::measurement(1000.0) };
    fixtures::add_outcomes(&mut kills, killed, vec![Outcome::Measured(recovered)]);
    let (_dir, markdown) = report(&[run.clone(), kills], "report.md");
    let (best, _) = markdown.split_once("## Compared with the best store").unwrap();
    let (verdicts, ranking) = best.split_once("### Read-heavy").expect("a ranking");
    assert!(verdicts.contains("- **Read-heavy** (at least 90% reads of single keys): redb. "), "{best}");
    let rows: Vec<Vec<_>> = ranking
        .lines()
        .filter(|line| line.starts_with('|') && !line.starts_with("| :"))
        .map(|line| line.split('|').map(str::trim).filter(|part| !part.is_empty()).collect())
        .collect();
    let heads = ["Store", "To the best (95%)", "Result", "Memory", "Disk", "Reopens in", "Recovers in"];
    assert_eq!(rows[0], heads, "{best}");
    assert_eq!((rows[1][0], rows[1][1], rows[2][0]), ("redb", "**1.00**", "lmdb"), "{best}");
    assert!(rows[2][1].starts_with("0.50 (") && rows[2][2].contains("/s, p99 "), "{best}");
    assert_eq!(rows[1][3..], ["43.0 MiB", "12.0 MiB", "4.10 ms"], "{best}");
    assert_eq!(rows[2][3..], ["43.0 MiB", "12.0 MiB", "4.10 ms", "4.50 s"], "{best}");
    // The page has the same, before its matrix.
    let (_dir, page) = report(&[run], "report.html");
    let (best, _) = page.split_once("id=\"matrix\"").unwrap();
    let (redb, lmdb) = (best.find(">redb</th>"), best.find(">lmdb</th>"));
    assert!(redb.is_some() && redb < lmdb && best.contains(">43.0 MiB</td>"), "{best}");
}

/// An interleaved run was judged at its planned looks. Another look at its blocks would say something else.
#[test]
fn a_column_of_an_interleaved_run_has_its_recorded_verdict() {
    for (kind, ratio, words) in [
        (VerdictKind::CannotTell, 2.0, "lmdb, redb: cannot tell. "),
        (VerdictKind::Equal, 1.01, "lmdb, redb: equal within 5%. "),
        (VerdictKind::Slower, 0.5, "redb. "),
        (VerdictKind::Faster, 2.0, "lmdb. "),
    ] {
        let mut run = duel(&FAST, &SLOW);
        fixtures::judge(&mut run, kind, ratio);
        let found = verdict(run.clone(), "Read-heavy");
        assert!(found.starts_with(words), "{kind:?}: {found}");
        for page in ["report.md", "report.html"] {
            let (_dir, text) = report(std::slice::from_ref(&run), page);
            assert!(text.contains("equal to the best within 5%"), "{page}");
        }
    }
}

/// What the whole machine does in a repetition says nothing of the stores.
#[test]
fn stores_are_compared_within_a_repetition() {
    let shaken = |figures: [f64; 5]| {
        let mut shaken = figures;
        shaken.iter_mut().zip([1.0, 0.4, 1.3, 0.7, 2.0]).for_each(|(figure, all)| *figure *= all);
        shaken
    };
    let run = duel(&shaken([110.0, 111.0, 109.0, 110.0, 110.5]), &shaken([100.0, 100.5, 99.0, 100.0, 101.0]));
    assert!(verdict(run, "Read-heavy").starts_with("lmdb. "));
}

#[test]
fn who_is_ahead_by_chance_is_not_named() {
    let found = verdict(
        duel(&[200.0, 180.0, 210.0, 190.0, 205.0], &[195.0, 190.0, 200.0, 185.0, 210.0]),
        "Read-heavy",
    );
    assert!(
        found.starts_with("lmdb, redb: cannot tell") || found.starts_with("redb, lmdb: cannot tell"),
        "{found}"
    );
}

/// A store that is 1% faster in each repetition is not the only winner.
#[test]
fn stores_within_the_margin_are_equal() {
    let nearly = FAST.map(|one| one * 0.99);
    let found = verdict(duel(&FAST, &nearly), "Read-heavy");
    assert!(found.starts_with("lmdb, redb: equal within 3%"), "{found}");
    assert_eq!(row(duel(&FAST, &nearly), "lmdb"), "lmdb | \u{2248}1.00");
    assert_eq!(row(duel(&FAST, &nearly), "redb"), "redb | \u{2248}0.99 (0.99\u{2013}0.99)");
    let uncertain = [200.0, 180.0, 210.0, 190.0, 205.0];
    assert!(row(duel(&FAST, &uncertain), "redb").starts_with("redb | ?0.9"));
}

#[test]
fn two_repetitions_name_nobody() {
    let found = verdict(duel(&[200.0; 2], &[100.0; 2]), "Read-heavy");
    assert!(found.starts_with("no verdict with fewer than 3 repetitions"), "{found}");
    assert_eq!(row(duel(&[200.0; 2], &[100.0; 2]), "redb"), "redb | 0.50");
}

/// Twenty stores of which none is better: one of them is ahead, as always.
#[test]
fn many_comparisons_need_more_than_one() {
    let mut run = fixtures::run("many", 5);
    for store in 0..20 {
        let figures: Vec<f64> =
            (0..5).map(|number| 100.0 + f64::from((store * 7 + number * 11) % 13)).collect();
        let name = format!("s{store}");
        let work = fixtures::workload("get", &[(Operation::Get, 1.0)]);
        fixtures::add(
            &mut run,
            fixtures::cell("many", "get", &name, fixtures::target(&name, "no"), work),
            &figures,
        );
    }
    assert!(verdict(run, "Read-heavy").contains(": cannot tell"));
}

#[test]
fn nine_tenths_of_one_kind_are_not_mixed() {
    let mut run = duel(&FAST, &SLOW);
    for cell in &mut run.cells {
        cell.workload.mix = [(Operation::Get, 0.9), (Operation::Update, 0.1)].into();
    }
    assert!(verdict(run.clone(), "Read-heavy").starts_with("lmdb"));
    assert!(verdict(run, "Mixed").starts_with("not measured"));
}

/// 265 MB of keys and values.
#[test]
fn data_larger_than_memory_have_scenarios_of_their_own() {
    let work = |fsync: Fsync, operation: Operation, memory: u64| {
        let mut run = duel(&FAST, &SLOW);
        run.environment.memory_limit_bytes = Some(memory);
        for cell in &mut run.cells {
            cell.target.fsync = Some(fsync);
            cell.workload.mix = [(operation, 1.0)].into();
        }
        run
    };
    for (fsync, operation, fitting, larger) in [
        (Fsync::No, Operation::Get, "Read-heavy", "Larger than memory"),
        (Fsync::Always, Operation::Get, "Read-heavy", "Larger than memory"),
        (Fsync::Always, Operation::Update, "Durable, one writer", "Durable, larger than memory"),
    ] {
        for (memory, one, other) in [(256 << 20, fitting, larger), (252 << 20, larger, fitting)] {
            let run = work(fsync, operation, memory);
            assert!(verdict(run.clone(), one).starts_with("lmdb. "), "{fsync:?} {memory} {one}");
            assert_eq!(verdict(run, other), "not measured.", "{fsync:?} {memory}");
        }
    }
    // What a power cut may lose of unsynced writes differs between the two.
    assert_ne!(verdict(work(Fsync::No, Operation::Update, 1 << 20), "Larger than memory"), "not measured.");
    // Scans are compared as scans.
    assert_eq!(verdict(work(Fsync::No, Operation::Scan, 1 << 20), "Larger than memory"), "not measured.");
    assert!(verdict(work(Fsync::No, Operation::Scan, 1 << 20), "Scan").starts_with("lmdb. "));
}

#[test]
fn what_nothing_fits_is_not_measured() {
    for scenario in ["Write-heavy", "Mixed", "Scan", "Cold", "Footprint", "Recovery", "Reopen"]
        .into_iter()
        .chain(["Durable, one writer", "Durable, many writers", "Durable, group commit"])
        .chain(["Larger than memory", "Durable, larger than memory"])
    {
        assert_eq!(verdict(duel(&FAST, &SLOW), scenario), "not measured.");
    }
}

/// Two results of other work, each with stores that the other lacks: one of them is ranked.
#[test]
fn stores_of_other_work_do_not_hide_a_ranking() {
    let other = |stores: [&str; 2]| {
        let mut run = fixtures::run("duel", 5);
        for (store, figures) in stores.into_iter().zip([FAST, SLOW]) {
            let work = Workload { threads: 8, ..fixtures::workload("get", &[(Operation::Get, 1.0)]) };
            let mut cell = fixtures::cell("duel", "get", store, fixtures::target(store, "no"), work);
            cell.id = format!("{}/t8", cell.id);
            fixtures::add(&mut run, cell, &figures);
        }
        run
    };
    for stores in [["sled", "fjall"], ["lmdb", "fjall"]] {
        let (_dir, markdown) = report(&[duel(&FAST, &SLOW), other(stores)], "report.md");
        let line = markdown.lines().find(|line| line.starts_with("- **Read-heavy** (")).unwrap();
        assert!(line.contains("): lmdb. ") || line.contains("): sled. "), "{stores:?}: {line}");
    }
}

#[test]
fn cold_reads_are_no_warm_ones() {
    let mut run = duel(&FAST, &SLOW);
    run.environment.cold = Some("fadvise".to_owned());
    assert!(verdict(run.clone(), "Cold").starts_with("lmdb"));
    assert!(verdict(run, "Read-heavy").starts_with("not measured"));
}

#[test]
fn the_smaller_footprint_is_the_better_one() {
    let mut run = duel(&FAST, &SLOW);
    for sample in &mut run.samples {
        if let Outcome::Measured(measured) = &mut sample.outcome {
            measured.space_amplification = Some(if sample.cell.contains("lmdb") { 2.0 } else { 1.0 });
        }
    }
    assert!(verdict(run.clone(), "Footprint").starts_with("redb"));
    assert_eq!(row(run, "lmdb").rsplit(" | ").next(), Some("0.50 (0.50\u{2013}0.50)"));
}

/// Adds a cell of each store, with this size on disk for each byte of keys and values.
fn add_sizes(run: &mut Run, row: &str, work: (Operation, Option<u64>), sizes: &[(&str, LossClass, f64)]) {
    for (store, power_cut, size) in sizes {
        let mut target = fixtures::target(store, "no");
        target.loses = Some(Loses { kill: LossClass::Nothing, power_cut: *power_cut });
        let mut workload = fixtures::workload(row, &[(work.0, 1.0)]);
        workload.operations = work.1;
        let measured = Measurement { space_amplification: Some(*size), ..fixtures::measurement(100.0) };
        let cell = fixtures::cell("sizes", row, store, target, workload);
        fixtures::add_outcomes(run, cell, vec![Outcome::Measured(measured); 3]);
    }
}

/// The size of a fresh load says little of a store that is in use. A size loses no writes, so the loss bounds do not
/// matter.
#[test]
fn the_footprint_after_overwrites_comes_before_that_of_a_fresh_load() {
    let scope = |run: &Run| {
        let (_dir, markdown) = report(std::slice::from_ref(run), "report.md");
        let line = markdown.lines().find(|line| line.starts_with("- **Footprint** (")).unwrap();
        line.split_once("values, ").unwrap().1.split_once("): ").unwrap().0.to_owned()
    };
    let sizes = |lmdb, redb| [("lmdb", LossClass::Everything, lmdb), ("redb", LossClass::Buffer, redb)];
    let loaded = (Operation::Insert, Some(1_000_000));
    let mut run = fixtures::run("sizes", 3);
    add_sizes(&mut run, "load", loaded, &sizes(2.0, 1.0));
    assert!(verdict(run.clone(), "Footprint").starts_with("redb. In process, fsync no. load."));
    assert_eq!(scope(&run), "of a freshly loaded store");
    add_sizes(&mut run, "update", (Operation::Update, None), &sizes(2.0, 3.0));
    assert!(verdict(run.clone(), "Footprint").starts_with("lmdb. In process, fsync no. update."));
    assert_eq!(scope(&run), "after values were overwritten or deleted");
    // As many values as there are keys: the same work in every run.
    add_sizes(&mut run, "overwrite", (Operation::Update, Some(1_000_000)), &sizes(4.0, 2.0));
    assert!(verdict(run.clone(), "Footprint").starts_with("redb. In process, fsync no. overwrite."));
    assert_eq!(scope(&run), "after at least as many values were overwritten as there are keys");
    assert_eq!(row(run.clone(), "lmdb").rsplit(" | ").next(), Some("0.50 (0.50\u{2013}0.50)"));
    // A store of which only the other size is known has done other work.
    add_sizes(&mut run, "load", loaded, &[("map", LossClass::Unwritten, 1.0)]);
    assert_eq!(row(run.clone(), "map").rsplit(" | ").next(), Some("other work"));
    // The matrix has one column of this name.
    let (_dir, markdown) = report(&[run], "report.md");
    assert_eq!(markdown.matches("- **Footprint** (").count(), 1, "{markdown}");
}

#[test]
fn sizes_and_times_to_open_of_cold_cells_are_left_out() {
    let mut run = fixtures::run("sizes", 3);
    let sizes = [("lmdb", LossClass::Everything, 2.0), ("redb", LossClass::Buffer, 1.0)];
    add_sizes(&mut run, "get", (Operation::Get, None), &sizes);
    for sample in &mut run.samples {
        let Outcome::Measured(measured) = &mut sample.outcome else { panic!() };
        measured.reopen_seconds = Some(if sample.cell.contains("lmdb") { 0.001 } else { 0.002 });
    }
    for (is_cold, footprint, reopen) in [(false, "redb", "lmdb"), (true, "not measured.", "not measured.")] {
        run.environment.cold = is_cold.then(|| "fadvise".to_owned());
        let found = ["Footprint", "Reopen"].map(|scenario| verdict(run.clone(), scenario));
        assert!(found[0].starts_with(footprint) && found[1].starts_with(reopen), "{found:?}");
    }
}

/// The cells of a group leave one set of files, which is one footprint.
#[test]
fn a_group_has_one_footprint() {
    let grouped = |kinds: &[Operation]| {
        let mut run = duel(&FAST, &SLOW);
        run.cells.clear();
        run.samples.clear();
        for store in ["lmdb", "redb"] {
            for kind in kinds {
                let row = format!("{kind:?}");
                let work = fixtures::workload(&row, &[(*kind, 1.0)]);
                let mut cell = fixtures::cell("duel", &row, store, fixtures::target(store, "no"), work);
                cell.group = Some(store.to_owned());
                let space = if store == "lmdb" { 2.0 } else { 3.0 };
                let measured =
                    Measurement { space_amplification: Some(space), ..fixtures::measurement(100.0) };
                fixtures::add_outcomes(&mut run, cell, vec![Outcome::Measured(measured); 3]);
            }
        }
        run
    };
    use Operation::{Delete, Get, Insert, Update};
    let found = verdict(grouped(&[Insert, Get, Update]), "Footprint");
    assert!(found.starts_with("lmdb. In process, fsync no. Insert."), "{found}");
    // What is left after deletes is some rest, and its size by byte alive says nothing.
    assert_eq!(verdict(grouped(&[Insert, Get, Delete]), "Footprint"), "not measured.");
}

#[test]
fn a_store_with_one_wrong_value_never_wins() {
    let mut run = duel(&[900.0; 5], &SLOW);
    run.samples[1].outcome = Outcome::Measured(fixtures::wrong_value(900.0));
    assert!(verdict(run.clone(), "Read-heavy").starts_with("redb only"));
    assert_eq!(row(run, "lmdb"), "lmdb | failed");
    // Its other work does not make up for it.
    let mut run = duel(&FAST, &SLOW);
    for (store, figures) in [("lmdb", FAST), ("redb", SLOW)] {
        let mut work = fixtures::workload("again", &[(Operation::Get, 1.0)]);
        work.keys = 2_000_000;
        fixtures::add(
            &mut run,
            fixtures::cell("duel", "again", store, fixtures::target(store, "no"), work),
            &figures,
        );
    }
    assert!(verdict(run.clone(), "Read-heavy").starts_with("lmdb. "));
    run.samples[10].outcome = Outcome::Measured(fixtures::wrong_value(900.0));
    assert!(verdict(run.clone(), "Read-heavy").starts_with("redb only"));
    assert_eq!(row(run, "lmdb"), "lmdb | failed");
}

/// Nobody is better than nobody: not when the others failed, and not when the others lose something else.
#[test]
fn a_store_that_stands_alone_is_not_called_best() {
    let mut run = duel(&FAST, &SLOW);
    run.samples[1].outcome = Outcome::Failed("disk full".to_owned());
    assert_eq!(row(run, "redb"), "redb | 1.00");
    let mut run = duel(&FAST, &SLOW);
    let loses = |power_cut| Some(Loses { kill: LossClass::Nothing, power_cut });
    run.cells[0].target.loses = loses(LossClass::Everything);
    run.cells[1].target.loses = loses(LossClass::Unwritten);
    run.cells.iter_mut().for_each(|cell| cell.workload.mix = [(Operation::Update, 1.0)].into());
    assert_eq!(row(run, "redb"), "redb | 1.00");
}

/// A store that would lose all its writes reads as well as one that would lose none.
#[test]
fn reads_rank_all_stores_whatever_their_writes_lose() {
    let mut run = duel(&FAST, &SLOW);
    let loses = |power_cut| Some(Loses { kill: LossClass::Nothing, power_cut });
    run.cells[0].target.loses = loses(LossClass::Everything);
    run.cells[1].target.loses = loses(LossClass::Unwritten);
    let mix = |run: &Run, mix: &[(Operation, f64)]| {
        let mut run = run.clone();
        run.cells.iter_mut().for_each(|cell| cell.workload.mix = mix.iter().copied().collect());
        run
    };
    for (scenario, operation) in
        [("Read-heavy", Operation::Get), ("Read-heavy", Operation::GetMiss), ("Scan", Operation::Scan)]
    {
        let reads = mix(&run, &[(operation, 1.0)]);
        let found = verdict(reads.clone(), scenario);
        assert!(
            found.starts_with("lmdb. In process, fsync no; reads lose nothing. get."),
            "{operation:?}: {found}"
        );
        assert_eq!(row(reads.clone(), "redb"), "redb | 0.50 (0.50\u{2013}0.50)");
        // On a cold cache, too.
        let mut cold = reads;
        cold.environment.cold = Some("fadvise".to_owned());
        assert!(
            verdict(cold, "Cold").starts_with("lmdb. In process, fsync no; reads lose nothing. get."),
            "{operation:?}"
        );
    }
    // A few writes lose what their store loses.
    let some = mix(&run, &[(Operation::Get, 0.95), (Operation::Update, 0.05)]);
    assert!(verdict(some, "Read-heavy").starts_with("redb only"), "writes were ranked");
    // So do those of a cell that runs at the same time.
    run.cells[1].together = true;
    assert!(!verdict(run, "Mixed").starts_with("lmdb."));
}

/// What is in memory is read there, whatever the page cache held.
#[test]
fn a_store_that_holds_all_in_memory_is_never_cold() {
    let mut run = duel(&FAST, &SLOW);
    for store in ["map", "btree"] {
        let work = fixtures::workload("get", &[(Operation::Get, 1.0)]);
        let cell = fixtures::cell("duel", "get", store, fixtures::target(store, "no"), work);
        fixtures::add(&mut run, cell, &FAST.map(|one| one * 10.0));
    }
    run.environment.cold = Some("fadvise".to_owned());
    assert!(verdict(run.clone(), "Cold").starts_with("lmdb. "), "{}", verdict(run.clone(), "Cold"));
    assert_eq!(row(run.clone(), "map"), "map | \u{2013}");
    // Nor is a store without files.
    run.cells[0].target.persistent = false;
    assert!(verdict(run.clone(), "Cold").starts_with("redb only"), "{}", verdict(run, "Cold"));
}

/// At a rate all stores do as many operations each second as they are asked for.
#[test]
fn what_is_done_at_a_rate_says_nothing_of_speed() {
    let mut run = duel(&FAST, &SLOW);
    run.cells.iter_mut().for_each(|cell| cell.workload.rate = Some(200.0));
    assert_eq!(verdict(run.clone(), "Read-heavy"), "not measured.");
    let (_dir, page) = report(&[run], "report.html");
    let (_, data) = page.split_once("\"contests\":").expect("the chooser's data");
    assert!(data.starts_with("[]"), "{}", &data[..80]);
}

/// Soaks and found rates are measured once, and for another question.
#[test]
fn soaks_and_found_rates_stay_out_of_the_scenarios() {
    let expected = row(duel(&FAST, &SLOW), "redb");
    let changes: [fn(&mut Workload); 2] = [
        |work| work.soak = true,
        |work| work.rate_goal = Some(LatencyGoal { of: Percentile::P99, below_us: 5000.0 }),
    ];
    for change in changes {
        let mut run = duel(&FAST, &SLOW);
        for mut cell in run.cells.clone() {
            (cell.id, cell.table) = (format!("{}/long", cell.id), "long".to_owned());
            change(&mut cell.workload);
            fixtures::add(&mut run, cell, &[120.0]);
        }
        assert_eq!(row(run, "redb"), expected);
    }
}

/// Several workloads, of which one ended at an early look, are judged as strictly as that look.
#[test]
fn a_column_of_several_works_is_as_strict_as_their_plans() {
    let mut run = duel(&[108.0, 110.0, 106.0, 109.0, 107.0], &[100.0; 5]);
    for mut cell in run.cells.clone() {
        (cell.id, cell.row) = (format!("{}/2", cell.id), "get 2".to_owned());
        cell.workload.name = "get 2".to_owned();
        cell.workload.keys = 7;
        let figures =
            if cell.target.store == "lmdb" { [109.0, 107.0, 110.0, 106.0, 108.0] } else { [100.0; 5] };
        fixtures::add(&mut run, cell, &figures);
    }
    assert!(verdict(run.clone(), "Read-heavy").starts_with("lmdb. "), "{}", verdict(run, "Read-heavy"));
    fixtures::judge(&mut run, VerdictKind::CannotTell, 1.08);
    run.comparisons[0].looks = Some(Looks::sized(80, 2));
    assert!(verdict(run.clone(), "Read-heavy").contains(": cannot tell. "), "{}", verdict(run, "Read-heavy"));
}

#[test]
fn the_harness_is_in_no_column() {
    let mut run = duel(&[900.0; 5], &SLOW);
    run.cells[0].reference = true;
    assert!(verdict(run, "Read-heavy").starts_with("redb only"));
}

#[test]
fn levels_are_never_compared() {
    let mut run = duel(&FAST, &SLOW);
    run.cells[0].target.fsync = Some(Fsync::Always);
    // What loses least is shown.
    assert!(
        verdict(run, "Read-heavy").starts_with("lmdb only. In process, fsync always; reads lose nothing.")
    );
}

#[test]
fn a_writer_beside_readers_is_mixed() {
    let mut run = duel(&FAST, &SLOW);
    run.cells[1].together = true;
    assert!(verdict(run.clone(), "Read-heavy").starts_with("not measured"));
    assert!(verdict(run, "Mixed").starts_with("lmdb"));
}

/// Under one word some stores lose more than others: those that lose as much are compared, the least loss first.
#[test]
fn stores_are_compared_with_those_that_lose_as_much() {
    let mut run = fixtures::run("classes", 5);
    let updates = [(Operation::Update, 1.0)];
    let least = Loses { kill: LossClass::Nothing, power_cut: LossClass::Unwritten };
    let all = Loses { kill: LossClass::Everything, power_cut: LossClass::Everything };
    for (store, loses, figures) in [
        ("sled", all, FAST),
        ("redb", all, FAST),
        ("rocksdb", least, SLOW),
        ("map", least, SLOW.map(|one| one / 2.0)),
    ] {
        let target = Target { loses: Some(loses), ..fixtures::target(store, "no") };
        let work = fixtures::workload("set", &updates);
        fixtures::add(&mut run, fixtures::cell("classes", "set", store, target, work), &figures);
    }
    let found = verdict(run.clone(), "Write-heavy");
    let losses = "a kill loses nothing, a power cut what the system had not written";
    assert!(found.starts_with(&format!("rocksdb. In process, fsync no; {losses}. set.")), "{found}");
    assert_eq!(row(run, "sled"), "sled | other loss bound");
}

/// The question is the loss, whatever policy each store has for it.
#[test]
fn one_loss_is_one_scenario_whatever_the_policies_are() {
    const DURABLE: &str = "Durable, one writer";
    let asked = |class| Loses { kill: class, power_cut: class };
    for (most, scenario, other) in
        [(LossClass::Seconds, "Write-heavy", DURABLE), (LossClass::Nothing, DURABLE, "Write-heavy")]
    {
        let mut run = duel(&FAST, &SLOW);
        for (cell, fsync) in run.cells.iter_mut().zip([Fsync::Always, Fsync::EverySec]) {
            cell.workload.mix = [(Operation::Update, 1.0)].into();
            cell.target.fsync = Some(fsync);
            cell.target.may_lose = Some(asked(most));
        }
        assert!(verdict(run.clone(), scenario).starts_with("lmdb. "), "{scenario}");
        assert_eq!(verdict(run, other), "not measured.");
    }
}

/// Adds cells of two stores that write at a level and with so many threads.
fn add_writers(run: &mut Run, fsync: &str, commits: Commits, threads: u32, figures: [&[f64]; 2]) {
    for (store, figures) in ["lmdb", "redb"].into_iter().zip(figures) {
        let target = Target { commits, ..fixtures::target(store, fsync) };
        let work = Workload { threads, ..fixtures::workload("set", &[(Operation::Update, 1.0)]) };
        let mut cell = fixtures::cell("writers", "set", store, target, work);
        cell.id = format!("{}/{commits:?}/{threads}", cell.id);
        fixtures::add(run, cell, figures);
    }
}

/// A group of eight commits costs as much as one: who is best at one is not who is best at the other.
#[test]
fn durable_writes_of_one_writer_of_many_and_in_groups_are_three_scenarios() {
    let mut run = fixtures::run("writers", 5);
    add_writers(&mut run, "always", Commits::Own, 1, [&FAST, &SLOW]);
    add_writers(&mut run, "always", Commits::Own, 8, [&SLOW, &FAST]);
    add_writers(&mut run, "always", Commits::Groups, 8, [&FAST, &SLOW]);
    for (scenario, words) in [
        ("Durable, one writer", "lmdb. In process, fsync always. set"),
        ("Durable, many writers", "redb. In process, fsync always. set"),
        ("Durable, group commit", "lmdb. In process, group commit, fsync always. set"),
    ] {
        let found = verdict(run.clone(), scenario);
        assert!(found.starts_with(words), "{scenario}: {found}");
    }
    // A server commits the writes of all clients in groups.
    let mut served = fixtures::run("writers", 5);
    add_writers(&mut served, "always", Commits::Own, 8, [&FAST, &SLOW]);
    served.cells.iter_mut().for_each(|cell| cell.target.access = Access::Wire);
    assert_eq!(verdict(served.clone(), "Durable, many writers"), "not measured.");
    assert!(verdict(served, "Durable, group commit").starts_with("lmdb. Over the wire, fsync always."));
}

/// Otherwise group commit would stand for both, because its cells come last.
#[test]
fn own_commits_are_shown_before_group_commit() {
    let mut run = fixtures::run("writers", 5);
    add_writers(&mut run, "no", Commits::Own, 8, [&FAST, &SLOW]);
    add_writers(&mut run, "no", Commits::Groups, 8, [&SLOW, &FAST]);
    let found = verdict(run, "Write-heavy");
    assert!(found.starts_with("lmdb. In process, fsync no. set"), "{found}");
}

/// What a store loses is no reason for a store that was measured in another way, least of all for reads.
#[test]
fn a_store_that_was_measured_elsewhere_says_where() {
    let get = |store: &str, change: fn(&mut Cell)| {
        let work = fixtures::workload("get", &[(Operation::Get, 1.0)]);
        let mut cell = fixtures::cell("elsewhere", "get", store, fixtures::target(store, "no"), work);
        change(&mut cell);
        cell
    };
    let mut run = duel(&FAST, &SLOW);
    fixtures::add(&mut run, get("rocksdb", |cell| cell.target.access = Access::Wire), &FAST);
    fixtures::add(&mut run, get("map", |cell| cell.target.persistent = false), &FAST);
    fixtures::add(&mut run, get("btree", |cell| cell.target.commits = Commits::Groups), &FAST);
    fixtures::add(&mut run, get("fjall", |cell| cell.workload.keys = 17), &FAST);
    let mut other = fixtures::run("elsewhere", 5);
    other.environment.cpu = Some("another".to_owned());
    other.started = "2026-03-03T00:00:00Z".to_owned();
    fixtures::add(&mut other, get("sled", |_| {}), &FAST);
    let (dir, markdown) = report(&[run, other], "report.md");
    let page = std::fs::read_to_string(dir.path().join("out/report.html")).unwrap();
    for (store, brief, clause) in [
        ("rocksdb", "over the wire", "other access, so not compared: over the wire"),
        ("btree", "in process, group commit", "other access, so not compared: in process, group commit"),
        ("map", "in memory", "other durability, so not compared: in memory"),
        ("sled", "environment 2", "measured in environment 2, so not compared"),
        ("fjall", "other work", "other work, so not compared"),
    ] {
        let line = markdown.lines().find(|line| line.starts_with(&format!("| {store} "))).unwrap();
        let cell = line.split('|').nth(2).unwrap().trim();
        assert_eq!(cell, brief, "{store}");
        assert!(page.contains(&format!("title=\"{clause}\"")), "{store}");
    }
}

#[test]
fn a_figure_near_the_floor_says_so() {
    let mut run = duel(&FAST, &SLOW);
    let Outcome::Measured(measured) = &mut run.samples[0].outcome else { panic!("not measured") };
    measured.near_floor = Some(true);
    let (_dir, markdown) = report(&[run], "report.md");
    assert!(markdown.contains("may be the benchmark's own cost"), "{markdown}");
}

/// A directory of runs is a history: what was measured last counts.
#[test]
fn of_two_runs_of_the_same_cells_the_newer_one_counts() {
    let (old, mut new) = (duel(&FAST, &SLOW), duel(&SLOW, &FAST));
    new.started = "2026-03-03T00:00:00Z".to_owned();
    let (_dir, markdown) = report(&[old, new], "report.md");
    assert!(
        markdown.contains(": redb. In process, fsync no, environment 2; reads lose nothing."),
        "{markdown}"
    );
}

/// In the work that the first run measured, both stores are equal. In the other work lmdb is 8% faster, but in a run of its
/// own, and two runs of one build differ by as much.
#[test]
fn stores_of_one_run_in_one_work_and_of_two_in_another_vary_as_two_runs() {
    let work = |name: &str| fixtures::workload(name, &[(Operation::Get, 1.0)]);
    let add = |run: &mut Run, name: &str, store: &str, figures: &[f64]| {
        fixtures::add(
            run,
            fixtures::cell("reads", name, store, fixtures::target(store, "no"), work(name)),
            figures,
        );
    };
    let faster = FAST.map(|figure| figure * 1.08);
    let runs = |times: [&str; 3]| {
        let mut runs: Vec<Run> = Vec::new();
        for (time, cells) in times.into_iter().zip([
            vec![("get", "lmdb", FAST), ("get", "redb", FAST)],
            vec![("read", "lmdb", faster)],
            vec![("read", "redb", FAST)],
        ]) {
            if runs.last().is_none_or(|run| run.started != time) {
                runs.push(Run { started: time.to_owned(), ..fixtures::run("reads", 5) });
            }
            let run = runs.last_mut().unwrap();
            cells.into_iter().for_each(|(name, store, figures)| add(run, name, store, &figures));
        }
        let (_dir, markdown) = report(&runs, "report.md");
        let line = markdown.lines().find(|line| line.starts_with("- **Read-heavy**")).unwrap();
        line.split_once("): ").unwrap().1.to_owned()
    };
    let [first, second, third] = ["2026-03-01T00:00:00Z", "2026-03-02T00:00:00Z", "2026-03-03T00:00:00Z"];
    let together = runs([first, first, first]);
    assert!(together.starts_with("lmdb. "), "{together}");
    let apart = runs([first, second, third]);
    assert!(apart.starts_with("lmdb, redb: cannot tell. "), "{apart}");
}

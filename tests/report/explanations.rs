//! What the report says of its own figures: where prices are from, what is doubtful, and what was compared.

use crate::{fixtures, ranking, report};
use kvbench::{
    bench::result::{
        CellKind, Commits, Disturbance, Loses, Measurement, Operation, Outcome, Run, Target, Workload,
        interleaved_comparison::{Block, VerdictKind},
    },
    engine::{Fsync, LossClass},
};

const CALM: [f64; 5] = [1000.0, 1010.0, 990.0, 1005.0, 995.0];

fn half() -> [f64; 5] {
    CALM.map(|one| one / 2.0)
}

/// Two stores that only get.
fn gets() -> Run {
    let mut run = fixtures::run("duel", 5);
    for (store, figures) in [("lmdb", CALM), ("redb", half())] {
        let work = fixtures::workload("get", &[(Operation::Get, 1.0)]);
        fixtures::add(
            &mut run,
            fixtures::cell("duel", "get", store, fixtures::target(store, "no"), work),
            &figures,
        );
    }
    run
}

/// Two stores that took turns, of which the second one was slower in turns than alone.
fn turns() -> Run {
    let mut run = ranking::mixed(&[("map", "always", &CALM), ("btree", "always", &half())], None);
    fixtures::judge(&mut run, VerdictKind::Faster, 2.0);
    run.comparisons[0].slicing = Some(fixtures::pilot_with_a_slower_store());
    run
}

/// The text below the heading of a scenario's ranking.
fn section(markdown: &str, scenario: &str) -> String {
    let (_, rest) = markdown.split_once(&format!("### {scenario}\n")).expect("a ranking");
    rest.split("\n#").next().unwrap().to_owned()
}

/// The cells of a store's row in the first table of a text.
fn row<'t>(text: &'t str, store: &str) -> Vec<&'t str> {
    let line = text.lines().find(|line| line.starts_with(&format!("| {store} "))).expect("a row");
    let mut cells: Vec<_> = line.split('|').skip(1).map(str::trim).collect();
    cells.pop();
    cells
}

/// Read-ahead makes most cold reads fast, and a few very slow.
#[test]
fn a_cold_ranking_shows_the_rare_latencies() {
    let mut run = gets();
    let result = |run: &Run, scenario: &str| {
        let (_dir, markdown) = report(std::slice::from_ref(run), "report.md");
        row(&section(&markdown, scenario), "lmdb")[2].to_owned()
    };
    assert_eq!(result(&run, "Read-heavy"), "1000/s, p99 4.00 ms");
    run.environment.cold = Some("fadvise".to_owned());
    assert_eq!(result(&run, "Cold"), "1000/s, p99.9 20.0 ms");
    let (_dir, markdown) = report(std::slice::from_ref(&run), "report.md");
    assert!(
        markdown.contains("(--cold); with data that fit in memory, read-ahead looks faster"),
        "{markdown}"
    );
    // With fewer operations the 99.9th percentile is the maximum.
    for sample in &mut run.samples {
        let Outcome::Measured(measured) = &mut sample.outcome else { panic!() };
        measured.latency.count = 999;
    }
    assert_eq!(result(&run, "Cold"), "1000/s, p99 4.00 ms");
}

/// A store that took no turns, or of which nothing is doubtful, is not "not known".
#[test]
fn a_run_without_doubts_about_turns_says_so_once() {
    let mut first = turns();
    first.environment.foreign_limit = Some(0.1);
    first.comparisons[0].blocks = vec![Block {
        seed: 1,
        slices: Vec::new(),
        disturbance: Some(Disturbance { foreign: 0.5, stolen: 0.0 }),
        attempts: 1,
        seconds: 1.0,
    }];
    let mut second = first.comparisons[0].clone();
    second.id = "another".to_owned();
    first.comparisons.push(second);
    let mut later = ranking::mixed(&[("map", "always", &CALM), ("btree", "always", &half())], None);
    later.started = "2026-02-04T04:05:06Z".to_owned();
    for cell in &mut later.cells {
        (cell.id, cell.table) = (format!("later/{}", cell.id), "later".to_owned());
        cell.workload.name = "later".to_owned();
    }
    later.samples.iter_mut().for_each(|sample| sample.cell.insert_str(0, "later/"));
    let (_dir, markdown) = report(&[first, later], "report.md");
    let (_, environment) =
        markdown.split_once("\n### custom, 2026-02-03T04:05:06Z\n").expect("the first run");
    let (before, after) = environment.split_once("\n### later, ").expect("the second run");
    assert_eq!(before.matches("\n- In turns: ").count(), 2, "{environment}");
    assert_eq!(after.matches("\n- In turns: nothing to report\n").count(), 1, "{environment}");
    assert!(!after.contains("not known"), "{environment}");
}

/// Both tables take the cell with the most data, though the time is longer in another one.
#[test]
fn the_time_to_recover_is_that_with_the_most_data() {
    let mut kills = fixtures::run("storage", 1);
    for (keys, seconds) in [(50_000, 0.0390), (200_000, 0.0356)] {
        let name = format!("kill-{keys}");
        let mut work = fixtures::workload(&name, &[(Operation::Update, 1.0)]);
        (work.step, work.keys) = (CellKind::Recovery, keys);
        let cell = fixtures::cell("storage", &name, "lmdb", fixtures::target("lmdb", "no"), work);
        let measured = Measurement { recovery_seconds: Some(seconds), ..fixtures::measurement(1000.0) };
        fixtures::add_outcomes(&mut kills, cell, vec![Outcome::Measured(measured)]);
    }
    let (_dir, markdown) = report(&[gets(), kills], "report.md");
    let ranking = section(&markdown, "Read-heavy");
    assert_eq!(row(&ranking, "lmdb")[3..], ["35.6 ms"], "{ranking}");
    let (_, promises) = markdown.split_once("## Promises, memory and recovery").unwrap();
    assert_eq!(row(promises, "lmdb")[4], "35.6 ms with 50.5 MiB of data", "{promises}");
}

#[test]
fn the_peak_memory_is_the_largest_of_all_cells() {
    let mut run = fixtures::run("peaks", 1);
    for (keys, memory) in [(100_000, 64 << 20), (1_000_000, 32 << 20)] {
        let name = format!("get-{keys}");
        let work = Workload { keys, ..fixtures::workload(&name, &[(Operation::Get, 1.0)]) };
        let measured = Measurement { peak_memory_bytes: Some(memory), ..fixtures::measurement(1000.0) };
        let cell = fixtures::cell("peaks", &name, "redb", fixtures::target("redb", "no"), work);
        fixtures::add_outcomes(&mut run, cell, vec![Outcome::Measured(measured)]);
    }
    let (_dir, markdown) = report(&[run], "report.md");
    let (_, promises) = markdown.split_once("## Promises, memory and recovery").unwrap();
    assert_eq!(row(promises, "redb")[3], "64.0 MiB with 25.3 MiB of data", "{promises}");
}

/// A store that lacks the size on disk in that work has none, although it has one in the other.
#[test]
fn prices_of_several_works_are_those_of_one_work() {
    let mut run = fixtures::run("works", 5);
    let nothing = Loses { kill: LossClass::Nothing, power_cut: LossClass::Nothing };
    for (name, keys, memory, disks) in [
        ("little", 100_000, 128 << 20, [Some(16 << 20), Some(16 << 20)]),
        ("much", 1_000_000, 64 << 20, [Some(32 << 20), None]),
    ] {
        for ((store, figures), disk) in [("map", CALM), ("btree", half())].into_iter().zip(disks) {
            let target = Target { loses: Some(nothing), ..fixtures::target(store, "always") };
            let mix = [(Operation::Get, 0.5), (Operation::Update, 0.5)];
            let work = Workload { keys, ..fixtures::workload(name, &mix) };
            let measured = |throughput| Measurement {
                peak_memory_bytes: Some(memory),
                disk_bytes: disk,
                ..fixtures::measurement(throughput)
            };
            let outcomes = figures.into_iter().map(|figure| Outcome::Measured(measured(figure))).collect();
            fixtures::add_outcomes(&mut run, fixtures::cell("works", name, store, target, work), outcomes);
        }
    }
    let (_dir, markdown) = report(std::slice::from_ref(&run), "report.md");
    let ranking = section(&markdown, "Mixed");
    assert_eq!(row(&ranking, "map")[3..], ["64.0 MiB", "32.0 MiB"], "{ranking}");
    assert_eq!(row(&ranking, "btree")[3..], ["64.0 MiB", ""], "{ranking}");
    let note = "Memory, disk and the time to reopen are those of much.";
    assert!(ranking.ends_with(&format!("\n{note}\n")), "{ranking}");
    let (_dir, page) = report(&[run], "report.html");
    assert!(page.contains(&format!("<p class=\"muted\">{note}</p>")), "{page}");
    // One work needs no name.
    let (_dir, markdown) = report(&[gets()], "report.md");
    assert!(!markdown.contains("Memory, disk and the time to reopen"), "{markdown}");
}

/// The verdict stands far above the environment of its run.
#[test]
fn doubts_about_turns_are_below_the_ranking() {
    let mut run = turns();
    let doubts = "Doubts about mix: in the pilot, a short run each, rates in turns relative to rates alone were: btree 0.90.";
    let (_dir, markdown) = report(std::slice::from_ref(&run), "report.md");
    let ranking = section(&markdown, "Read-heavy");
    assert!(ranking.ends_with(&format!("\n{doubts}\n")), "{ranking}");
    let (_dir, page) = report(std::slice::from_ref(&run), "report.html");
    assert!(page.contains(&format!("<p class=\"muted\">{doubts}</p>")), "{page}");
    // Long ones are only among the environments.
    run.cells[1].column = "b".repeat(300);
    let (_dir, markdown) = report(&[run], "report.md");
    let ranking = section(&markdown, "Read-heavy");
    let reference = "Doubts about mix: see \"In turns\" of the run of 2026-02-03T04:05:06Z below.";
    assert!(ranking.ends_with(&format!("\n{reference}\n")), "{ranking}");
}

/// A commit of each thread and one of all are other work, and only the level of the second one has a word for it.
#[test]
fn durable_writes_of_more_data_than_memory_say_how_they_are_committed() {
    let scope = |run: &Run| {
        let (_dir, markdown) = report(std::slice::from_ref(run), "report.md");
        let start = "- **Durable, larger than memory** (durable writes, alone or with reads, with more data than memory";
        let line = markdown.lines().find_map(|line| line.strip_prefix(start)).expect("the scenario");
        line.split_once("): ").unwrap().0.to_owned()
    };
    let mut run = gets();
    assert_eq!(scope(&run), "");
    run.environment.memory_limit_bytes = Some(1 << 20);
    for (commits, words) in [
        (Commits::Own, "; each thread commits its own writes"),
        (Commits::Groups, "; the writes of all threads or clients share a commit"),
    ] {
        for cell in &mut run.cells {
            (cell.target.fsync, cell.target.commits) = (Some(Fsync::Always), commits);
            cell.workload.mix = [(Operation::Update, 1.0)].into();
        }
        assert_eq!(scope(&run), words);
    }
}

/// Two ratios of one table can contradict its results: one is of means, the other of medians.
#[test]
fn the_page_says_why_ratio_and_result_differ() {
    let (_dir, page) = report(&[gets()], "report.html");
    let words = "The ratio is the mean over repetitions, the result the median; they can differ.";
    assert_eq!(page.matches(words).count(), 1, "{page}");
}

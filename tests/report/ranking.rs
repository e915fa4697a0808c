//! Verdicts of the terminal, and the ranked table of `--may-lose`.

use crate::{fixtures, rates::charts, report};
use kvbench::{
    bench::{
        report::terminal,
        result::{
            Cell, Commits, Disturbance, Loses, Operation, Outcome, Run, Target,
            interleaved_comparison::{Block, SliceRecord, VerdictKind},
            soak::Soak,
        },
    },
    engine::LossClass,
};

pub(crate) const SECOND: Loses = Loses { kill: LossClass::Seconds, power_cut: LossClass::Seconds };
const CALM: [f64; 5] = [1000.0, 1010.0, 990.0, 1005.0, 995.0];

fn times(factor: f64) -> Vec<f64> {
    CALM.iter().map(|value| value * factor).collect()
}

/// What a store loses under a policy. A power cut costs the one called lmdb more than a second under everysec.
fn loses(store: &str, fsync: &str) -> Loses {
    let power_cut = match (fsync, store) {
        ("always", _) => LossClass::Nothing,
        (_, "lmdb") => LossClass::Everything,
        ("everysec", _) => LossClass::Seconds,
        _ => LossClass::Unwritten,
    };
    Loses { kill: LossClass::Nothing, power_cut }
}

/// A run of a mix under policies, with a throughput for each repetition.
pub(crate) fn mixed(stores: &[(&str, &str, &[f64])], may_lose: Option<Loses>) -> Run {
    let mut run = fixtures::run("custom", u32::try_from(stores[0].2.len()).unwrap());
    (run.suite, run.row_heading) = (None, "Workload".to_owned());
    for (store, fsync, figures) in stores {
        let mut target = fixtures::target(store, fsync);
        target.may_lose = may_lose;
        target.loses = Some(loses(store, fsync));
        let work = fixtures::workload("mix", &[(Operation::Get, 0.9), (Operation::Update, 0.1)]);
        let column = if may_lose.is_some() { format!("{store} {fsync}") } else { (*store).to_owned() };
        let cell = fixtures::cell("custom", "mix", &column, target, work);
        fixtures::add(&mut run, cell, figures);
    }
    run
}

fn verdict(run: &Run) -> String {
    let text = terminal::text(run);
    let found: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("verdict: ")).collect();
    found.join("\n")
}

#[test]
fn the_verdict_names_the_winner_and_who_is_left_out() {
    let run = mixed(
        &[
            ("rocksdb", "everysec", &CALM),
            ("redb", "everysec", &times(0.5)),
            ("lmdb", "everysec", &times(3.0)),
        ],
        None,
    );
    let text = verdict(&run);
    assert!(
        text.starts_with(
            "rocksdb is fastest among stores that lose at most a second, 2.00 times as fast as redb (2.00 to 2.00)"
        ),
        "{text}"
    );
    assert!(text.ends_with("; lmdb is left out: a power cut may lose the whole database"), "{text}");
    // The winner of the sentence has the star, and each column says what it loses.
    let table = terminal::text(&run);
    let line = |start: &str| table.lines().find(|line| line.starts_with(start)).unwrap().to_owned();
    assert_eq!(line("mix ").matches(" *").count(), 1, "{table}");
    assert_eq!(
        line("a power cut loses").split('|').map(str::trim).collect::<Vec<_>>(),
        ["a power cut loses", "a second", "a second", "everything"]
    );
    assert!(line("a kill loses").contains("nothing"), "{table}");
}

/// Two stores that lose what the system had not written, and two slower ones that lose everything.
fn of_two_loss_bounds() -> Run {
    let figures = [times(3.0), times(2.0), times(0.5), times(0.2)];
    let stores = ["rocksdb", "redb", "lmdb", "sled"].into_iter().zip(&figures);
    let stores: Vec<(&str, &str, &[f64])> =
        stores.map(|(store, figures)| (store, "no", figures.as_slice())).collect();
    let mut run = mixed(&stores, None);
    run.cells[3].target.loses = Some(loses("lmdb", "no"));
    run
}

/// The best of the stores that lose more than the policy allows is slower than others beside it.
#[test]
fn the_page_marks_the_winner_of_the_ranking_only() {
    let (_dir, page) = report(&[of_two_loss_bounds()], "report.html");
    assert_eq!(page.matches("class=\"figure best\"").count(), 1, "{page}");
    assert!(page.contains("class=\"figure best\" data-value=\"3000\""), "{page}");
}

#[test]
fn charts_of_one_work_are_told_apart_by_the_loss_bound() {
    let charts = charts(&report(&[of_two_loss_bounds()], "report.html").1);
    let titles = charts.split("<figcaption>").skip(1).filter_map(|part| part.split('<').next());
    // The first two are those of the throughput.
    let titles: Vec<_> = titles.take(2).collect();
    let start = "mix, a kill loses nothing, a power cut ";
    assert!(titles.iter().all(|title| title.starts_with(start)) && titles[0] != titles[1], "{titles:?}");
}

/// The one called map loses least, but has no value.
#[test]
fn a_store_that_was_not_measured_sets_no_loss_bound() {
    let half = times(0.5);
    let stores: [(&str, &str, &[f64]); 3] =
        [("map", "no", &CALM), ("redb", "no", &CALM), ("lmdb", "no", &half)];
    let mut run = mixed(&stores, None);
    run.cells[1].target.loses = Some(loses("lmdb", "no"));
    let id = run.cells[0].id.clone();
    for outcome in [Outcome::Unsupported("no order".to_owned()), Outcome::Failed("disk full".to_owned())] {
        for sample in run.samples.iter_mut().filter(|sample| sample.cell == id) {
            sample.outcome = outcome.clone();
        }
        let text = verdict(&run);
        let winner = "redb is fastest among stores that lose possibly everything, 2.00 times as fast as lmdb";
        assert!(text.starts_with(winner) && text.contains("; map is left out: "), "{text}");
    }
}

/// An engine that is 20% slower is never named as the winner, and noise of that size names nobody.
#[test]
fn a_winner_is_named_only_outside_the_noise() {
    let noisy: [f64; 5] = [900.0, 1300.0, 700.0, 1150.0, 1000.0];
    let slow: [f64; 5] = [1000.0, 800.0, 900.0, 820.0, 790.0];
    let text = verdict(&mixed(&[("map", "always", &noisy), ("btree", "always", &slow)], None));
    assert_eq!(
        text,
        "no winner among stores that lose nothing: cannot tell which of map and btree is fastest; about 65 repetitions \
         would show a difference, and no budget decides equality within 3%"
    );
    for (first, second) in [("map", "btree"), ("btree", "map")] {
        let text = verdict(&mixed(&[(first, "always", &CALM), (second, "always", &times(0.8))], None));
        assert!(text.starts_with(&format!("{first} is fastest")), "{text}");
    }
}

/// Stores that differ by less than the margin win together, although one is faster in each repetition.
#[test]
fn stores_within_the_margin_win_together() {
    let nearly = times(0.99);
    let mut stores: Vec<(&str, &str, &[f64])> = vec![("map", "always", &CALM), ("btree", "always", &nearly)];
    let words = "map and btree are fastest among stores that lose nothing, equal within 3%; the first is ahead of \
                 btree by 1.0%";
    assert_eq!(verdict(&mixed(&stores, None)), words);
    let slow = times(0.5);
    stores.push(("bitcask", "always", &slow));
    let run = mixed(&stores, None);
    assert_eq!(verdict(&run), words);
    assert_eq!(terminal::text(&run).matches(" *").count(), 1, "only the legend has a star");
}

/// A store that was slower by the recorded verdict of its comparison has no star and no first place, whatever its
/// median.
#[test]
fn a_ranking_of_an_interleaved_run_has_its_recorded_verdicts() {
    for (kind, ratio, words) in [
        (
            VerdictKind::CannotTell,
            2.0,
            "no winner among stores that lose nothing: cannot tell which of map and btree",
        ),
        (
            VerdictKind::SlightlyFaster,
            1.04,
            "map and btree are fastest among stores that lose nothing, equal within 5%",
        ),
        (
            VerdictKind::Slower,
            0.5,
            "btree is fastest among stores that lose nothing, 2.00 times as fast as map",
        ),
    ] {
        let mut run = mixed(&[("map", "always", &CALM), ("btree", "always", &times(0.5))], None);
        fixtures::judge(&mut run, kind, ratio);
        let text = terminal::text(&run);
        assert!(text.starts_with(&format!("custom: {words}")), "{kind:?}: {text}");
        let stars = text.lines().filter(|line| line.starts_with("mix ") && line.contains(" *")).count();
        assert_eq!(stars, usize::from(kind == VerdictKind::Slower), "{text}");
    }
}

#[test]
fn the_first_lines_of_an_interleaved_run_name_the_winner_and_its_price() {
    let mut run = mixed(&[("map", "always", &CALM), ("btree", "always", &times(0.5))], None);
    fixtures::judge(&mut run, VerdictKind::Faster, 2.0);
    for sample in &mut run.samples {
        let Outcome::Measured(measured) = &mut sample.outcome else { panic!() };
        measured.peak_memory_bytes = Some(43 << 20);
        measured.disk_bytes = Some(12 << 20);
        measured.reopen_seconds = Some(0.0041);
    }
    let text = terminal::text(&run);
    let lines: Vec<_> = text.lines().take(5).collect();
    assert!(lines[0].starts_with("custom: map is fastest among stores that lose nothing, "), "{text}");
    let words = |line: &str| {
        line.split("  ").map(str::trim).filter(|word| !word.is_empty()).collect::<Vec<_>>().join("|")
    };
    assert_eq!(
        words(lines[1]),
        "Store|Policy|A kill loses|A power cut loses|Throughput (operations/s)|to the first (95%)|p99|Memory|Disk|Reopens in",
        "{text}"
    );
    let (map, btree) = (words(lines[2]), words(lines[3]));
    assert!(
        map.starts_with("map|always|nothing|nothing|") && map.ends_with("|43.0 MiB|12.0 MiB|4.10 ms"),
        "{text}"
    );
    assert!(btree.starts_with("btree|") && btree.contains("|0.50") && btree.ends_with("|4.10 ms"), "{text}");
    assert!(lines[4].starts_with("  0 blocks in "), "{text}");
    // Without a winner, each store that may be the best has a price.
    fixtures::judge(&mut run, VerdictKind::CannotTell, 1.0);
    let text = terminal::text(&run);
    let priced = text.lines().filter(|line| line.ends_with("  43.0 MiB  12.0 MiB     4.10 ms")).count();
    assert_eq!(priced, 2, "{text}");
    // What was not measured has no column.
    for sample in &mut run.samples {
        let Outcome::Measured(measured) = &mut sample.outcome else { panic!() };
        measured.disk_bytes = None;
    }
    let text = terminal::text(&run);
    assert!(words(text.lines().nth(1).unwrap()).ends_with("|Memory|Reopens in"), "{text}");
}

/// All blocks of an interleaved comparison count, so the verdict says what was wrong with them.
#[test]
fn an_interleaved_run_says_what_makes_it_doubtful() {
    let mut run = mixed(&[("map", "always", &CALM), ("btree", "always", &times(0.5))], None);
    fixtures::judge(&mut run, VerdictKind::Faster, 2.0);
    let block = |foreign| Block {
        seed: 1,
        slices: Vec::new(),
        disturbance: Some(Disturbance { foreign, stolen: 0.0 }),
        attempts: 1,
        seconds: 1.0,
    };
    run.comparisons[0].blocks = vec![block(0.5), block(0.0), block(0.2)];
    run.comparisons[0].slicing = Some(fixtures::pilot_with_a_slower_store());
    let told = |run: &Run| {
        let text = terminal::text(run);
        let disturbed = text.contains(
            "in 2 of 3 blocks other programs or virtual machines used more of the CPUs than --foreign allows",
        );
        (disturbed, text.contains("rates in turns relative to rates alone were: btree 0.90\n"))
    };
    assert_eq!(told(&run), (false, true), "without --foreign: {}", terminal::text(&run));
    run.environment.foreign_limit = Some(0.1);
    assert_eq!(told(&run), (true, true), "{}", terminal::text(&run));
    let slicing = run.comparisons[0].slicing.as_mut().unwrap();
    slicing.is_like_alone = true;
    slicing.pilot[1].stall_seconds = Some(30.0);
    run.comparisons[0].blocks = vec![block(0.0)];
    assert_eq!(told(&run), (false, false), "{}", terminal::text(&run));
    let stall =
        "slices of 100 ms are shorter than ten times the longest operations of stores alone: btree 30.0 s\n";
    assert!(terminal::text(&run).contains(stall), "{}", terminal::text(&run));
}

/// The slowest store of the loss class sets the rate at which latencies are compared: not lmdb, which loses more, and not
/// redb, at whose rate the others would be idle.
#[test]
fn latencies_are_compared_at_a_rate_of_the_ranked_stores() {
    let (half, little, least) = (times(0.52), times(0.1), times(0.03));
    let stores: [(&str, &str, &[f64]); 4] =
        [("map", "no", &CALM), ("btree", "no", &half), ("lmdb", "no", &little), ("redb", "no", &least)];
    let mut run = mixed(&stores, None);
    fixtures::judge(&mut run, VerdictKind::Faster, 2.0);
    let text = terminal::text(&run);
    assert!(text.contains("lmdb is left out: "), "{text}");
    let sentence = "--rate 360 (not with --detect or --budget) compares them at one rate, 70% of that of btree; redb \
                    cannot keep up: less than a tenth of the median rate\n";
    assert!(text.contains(sentence), "{text}");
    // Nobody is so slow.
    let mut run = mixed(&stores[..2], None);
    fixtures::judge(&mut run, VerdictKind::Faster, 2.0);
    let text = terminal::text(&run);
    assert!(text.contains("--rate 360 ") && text.contains("of that of btree\n"), "{text}");
}

/// Stores with policies of their own are in one table only: below the verdict, with the policies.
#[test]
fn a_comparison_of_several_policies_is_ranked_once() {
    let stores: [(&str, &str, &[f64]); 2] = [("rocksdb", "everysec", &CALM), ("lmdb", "always", &times(0.5))];
    let mut run = mixed(&stores, Some(SECOND));
    fixtures::judge(&mut run, VerdictKind::Faster, 2.0);
    let text = terminal::text(&run);
    let lines: Vec<_> = text.lines().collect();
    assert!(lines[0].contains("rocksdb (everysec) is fastest"), "{text}");
    assert!(lines[1].trim_start().starts_with("Store    Policy    A kill loses"), "{text}");
    assert!(lines[2].trim_start().starts_with("rocksdb  everysec"), "{text}");
    assert_eq!(text.matches("Policy").count(), 1, "{text}");
}

#[test]
fn too_few_repetitions_give_no_verdict() {
    let text = verdict(&mixed(&[("map", "always", &CALM[..2]), ("btree", "always", &[1.0, 1.0])], None));
    assert_eq!(text, "no verdict among stores that lose nothing: it takes 3 common repetitions");
}

#[test]
fn reads_lose_nothing_so_every_store_is_ranked() {
    let mut run = mixed(&[("lmdb", "no", &times(2.0)), ("rocksdb", "no", &CALM)], None);
    run.cells.iter_mut().for_each(|cell| cell.workload.mix = [(Operation::Get, 1.0)].into());
    let text = verdict(&run);
    assert!(text.starts_with("lmdb is fastest, 2.00 times as fast as rocksdb"), "{text}");
    assert!(text.ends_with("; reads lose nothing"), "{text}");
}

/// Reads beside a writer are no work that only reads.
#[test]
fn a_store_that_loses_more_is_left_out_beside_a_writer() {
    let mut run = mixed(&[("lmdb", "no", &times(2.0)), ("rocksdb", "no", &CALM)], None);
    run.cells.iter_mut().for_each(|cell| cell.workload.mix = [(Operation::Get, 1.0)].into());
    run.cells[1].together = true;
    assert_eq!(
        verdict(&run),
        "rocksdb is the only store among stores that lose at most what the system had not written; lmdb is left out: a \
         power cut may lose the whole database"
    );
}

/// Of two tables' work, one only reads: nobody is left out of that one.
#[test]
fn a_store_that_is_left_out_of_some_work_is_left_out_of_that_only() {
    let stores: [(&str, &str, &[f64]); 3] =
        [("rocksdb", "no", &CALM), ("lmdb", "no", &times(2.0)), ("map", "no", &times(3.0))];
    let mut run = mixed(&stores, None);
    for (store, fsync, figures) in stores {
        let mut target = fixtures::target(store, fsync);
        target.loses = Some(loses(store, fsync));
        let work = fixtures::workload("get", &[(Operation::Get, 1.0)]);
        fixtures::add(&mut run, fixtures::cell("custom", "get", store, target, work), figures);
    }
    let text = verdict(&run);
    let last = text.lines().last().unwrap();
    assert_eq!(last, "lmdb is left out of mix: a power cut may lose the whole database", "{text}");
    run.cells.iter_mut().for_each(|cell| cell.workload.mix = [(Operation::Update, 1.0)].into());
    let text = verdict(&run);
    let last = text.lines().last().unwrap();
    assert_eq!(last, "lmdb is left out: a power cut may lose the whole database", "{text}");
}

/// The mark of the harness floor is explained where it stands, and nowhere else.
#[test]
fn a_mark_of_the_floor_is_explained() {
    const NEAR: &str = "More than half of this time may be the benchmark's own cost.";
    let stores: [(&str, &str, &[f64]); 2] = [("rocksdb", "everysec", &CALM), ("map", "always", &CALM)];
    let mut run = mixed(&stores, Some(SECOND));
    assert!(!terminal::text(&run).contains("~"), "{}", terminal::text(&run));
    let Outcome::Measured(measured) = &mut run.samples[0].outcome else { panic!("not measured") };
    measured.near_floor = Some(true);
    let text = terminal::text(&run);
    let line = text.lines().find(|line| line.starts_with("rocksdb ")).unwrap();
    assert!(line.contains('~'), "{text}");
    assert_eq!(text.matches(&format!("~: {NEAR}")).count(), 1, "{text}");
    let (_dir, markdown) = report(&[run], "report.md");
    let section = markdown.split("\n## ").nth(1).unwrap();
    let line = section.lines().find(|line| line.starts_with("| rocksdb ")).unwrap();
    assert!(line.contains("\\~") && section.contains(&format!("\\~: {NEAR}")), "{section}");
}

/// A spreadsheet asks for the policy that ran, not for the question.
#[test]
fn csv_has_the_policy_that_may_lose_has_chosen() {
    let (_dir, csv) = report(
        &[mixed(&[("rocksdb", "everysec", &CALM), ("lmdb", "always", &CALM)], Some(SECOND))],
        "report.csv",
    );
    let lines: Vec<_> = csv.lines().collect();
    let column = lines[0].split(',').position(|head| head == "durability").unwrap();
    let found: Vec<_> = lines[1..].iter().map(|line| line.split(',').nth(column).unwrap()).collect();
    assert_eq!(found, ["fsync everysec", "fsync always"]);
}

/// Each store stands under its own policy in one table, everywhere.
#[test]
fn may_lose_ranks_stores_of_several_policies_in_one_table() {
    let stores: [(&str, &str, &[f64]); 3] =
        [("rocksdb", "everysec", &times(14.0)), ("lmdb", "always", &CALM), ("map", "everysec", &times(5.0))];
    let mut run = mixed(&stores, Some(SECOND));
    run.left_out = vec!["sled: a power cut may lose the whole database under each policy".to_owned()];
    let text = terminal::text(&run);
    let rows: Vec<Vec<_>> = text
        .lines()
        .skip_while(|line| !line.starts_with("Store "))
        .skip(1)
        .take(3)
        .map(|line| line.split_whitespace().take(2).collect())
        .collect();
    assert_eq!(rows, [["rocksdb", "everysec"], ["map", "everysec"], ["lmdb", "always"]], "{text}");
    let verdict = verdict(&run);
    assert!(
        verdict.starts_with(
            "rocksdb (everysec) is fastest among stores that lose at most a second, 2.80 times as fast as map \
             (everysec)"
        ),
        "{verdict}"
    );
    assert!(
        verdict.ends_with("; sled is left out: a power cut may lose the whole database under each policy")
    );
    assert_eq!(text.matches("left out").count(), 1, "said once: {text}");
    for file in ["report.md", "report.html"] {
        let (_dir, content) = report(&[run.clone()], file);
        assert!(
            content
                .contains("Verdict: rocksdb (everysec) is fastest among stores that lose at most a second"),
            "{file}: {content}"
        );
        let places: Vec<_> = ["rocksdb", "map", "lmdb"]
            .map(|store| content.find(&format!(">{store}<")).or(content.find(&format!("| {store} "))))
            .into();
        assert!(places.is_sorted() && places[0].is_some(), "{file}: {places:?}");
    }
    // No scenario calls them stores of another loss.
    let (_dir, page) = report(&[run], "report.html");
    assert!(!page.contains("other loss, so not compared"), "one class");
}

/// A suite may have workloads that cannot take turns, such as its load.
#[test]
fn workloads_without_turns_have_figures_and_a_verdict_beside_those_with_turns() {
    for may_lose in [None, Some(SECOND)] {
        let mut run = mixed(&[("rocksdb", "everysec", &CALM), ("redb", "everysec", &times(0.5))], may_lose);
        fixtures::judge(&mut run, VerdictKind::Faster, 2.0);
        let work = fixtures::workload("load", &[(Operation::Insert, 1.0)]);
        for (store, factor) in [("rocksdb", 3.0), ("redb", 1.0)] {
            let mut target = fixtures::target(store, "everysec");
            (target.may_lose, target.loses) = (may_lose, Some(loses(store, "everysec")));
            let column = run.cells.iter().find(|cell| cell.target.store == store).unwrap().column.clone();
            let cell = fixtures::cell("custom", "load", &column, target, work.clone());
            fixtures::add(&mut run, cell, &times(factor));
        }
        let (text, verdict) = (terminal::text(&run), verdict(&run));
        assert!(text.contains(" 3,000"), "{text}");
        assert!(verdict.contains("3.00 times as fast as redb"), "{text}");
        assert_eq!(verdict.lines().count(), 1, "{text}");
    }
}

/// Without write-back, which takes as long as the slices, the first two stores do 2,000 operations a second, the third
/// 3,000.
pub(crate) fn written_back(groups: Vec<Vec<usize>>) -> Run {
    let stores = ["rocksdb", "redb", "lmdb"];
    let mut run = mixed(&stores.map(|store| (store, "everysec", &CALM[..])), None);
    fixtures::judge(&mut run, VerdictKind::CannotTell, 1.0);
    let slice = |(group, store, operations): (usize, usize, u64)| SliceRecord {
        store,
        group,
        operations,
        seconds: 1.0,
        discarded_operations: 0,
        discarded_seconds: 0.0,
        write_back_seconds: Some(1.0),
        left_device_busy: false,
    };
    let slices = match groups.is_empty() {
        true => [(0, 0, 2000), (0, 1, 2000), (0, 2, 3000)].map(slice).to_vec(),
        // The machine is twice as fast while the second group is loaded.
        false => [(0, 0, 2000), (0, 1, 2000), (1, 0, 4000), (1, 2, 6000)].map(slice).to_vec(),
    };
    let block = Block { seed: 0, slices, disturbance: None, attempts: 1, seconds: 10.0 };
    (run.comparisons[0].groups, run.comparisons[0].blocks) = (groups, vec![block; CALM.len()]);
    run
}

#[test]
fn rates_without_write_back_are_not_shown_of_a_store_that_failed() {
    let mut run = written_back(Vec::new());
    let rates = "  operations/s without and with write-back: rocksdb 2,000 and 1,000; redb 2,000 and 1,000";
    let all = format!("{rates}; lmdb 3,000 and 1,500\n");
    // A table in Markdown, a sentence on the page.
    let sentence = "Throughput contains the write-back after the slices; without it: mix, rocksdb: 2.00 k/s; mix, redb: \
                    2.00 k/s";
    let row = |run: &Run| {
        let (_dir, markdown) = report(std::slice::from_ref(run), "report.md");
        let head = "### Without write-back (operations/s)\n\nThroughput contains the write-back after the slices; without \
                    it:\n\n";
        let (_, section) = markdown.split_once(head).unwrap_or_else(|| panic!("no table: {markdown}"));
        let row = section.lines().find(|line| line.starts_with("| mix ")).unwrap();
        row.split('|').map(|part| part.trim().to_owned()).collect::<Vec<_>>()
    };
    let page = |run: &Run| report(std::slice::from_ref(run), "report.html").1;
    let text = terminal::text(&run);
    assert!(text.contains(&all), "{text}");
    assert_eq!(row(&run), ["", "mix", "2,000", "2,000", "3,000", ""]);
    assert!(page(&run).contains(&format!("{sentence}; mix, lmdb: 3.00 k/s.")), "{}", page(&run));
    let last = run.samples.last_mut().unwrap();
    last.outcome = Outcome::Failed("disk full".to_owned());
    let text = terminal::text(&run);
    assert!(text.contains(&format!("{rates}\n")), "{text}");
    let row = row(&run);
    assert!(row[2..4] == ["2,000", "2,000"] && row[4].starts_with("**failed**"), "{row:?}");
    let page = page(&run);
    assert!(page.contains(&format!("{sentence}.")), "{page}");
    run.comparisons[0].blocks.clear();
    assert!(!report(&[run], "report.md").1.contains("### Without write-back"));
}

/// The throughput of a store that is loaded in a group is that of a machine of mean speed.
#[test]
fn rates_without_write_back_are_scaled_as_the_throughput_is() {
    let text = terminal::text(&written_back(vec![vec![0, 1], vec![0, 2]]));
    let rates = "rocksdb 2,828 and 1,414; redb 2,828 and 1,414; lmdb 4,243 and 2,121\n";
    assert!(text.contains(&format!("  operations/s without and with write-back: {rates}")), "{text}");
}

#[test]
fn a_bar_in_the_name_of_a_workload_shifts_no_value() {
    let half = times(0.5);
    let mut run = mixed(&[("map", "always", &CALM), ("btree", "always", &half)], None);
    run.cells.iter_mut().for_each(|cell| cell.row = "a | b".to_owned());
    let text = terminal::text(&run);
    let last_bar = |start: &str| text.lines().find(|line| line.starts_with(start)).unwrap().rfind(" | ");
    assert_eq!(last_bar("Workload "), last_bar("a | b "), "{text}");
}

/// Its later repetitions are not measured any more.
#[test]
fn a_store_that_failed_early_is_shown_as_failed() {
    let text = terminal::text(&fixtures::small());
    let line = text.lines().find(|line| line.starts_with("set ")).unwrap();
    assert_eq!(line.split('|').map(str::trim).collect::<Vec<_>>(), ["set", "failed", "-"]);
}

/// The latency of an operation in a batch lasts until the end of the batch, so it is not the time of an operation.
#[test]
fn the_harness_overhead_of_one_workload_is_called_a_latency() {
    let mut run = mixed(&[("rocksdb", "no", &CALM)], None);
    run.cells[0].reference = true;
    let text = terminal::text(&run);
    assert!(text.contains("\nharness overhead: mean latency 1000000 ns\n"), "{text}");
}

/// A difference that is shown has an interval that excludes 1 by its digits too.
#[test]
fn an_interval_beside_1_does_not_seem_to_touch_it() {
    let mut run = mixed(&[("rocksdb", "everysec", &CALM), ("redb", "everysec", &times(0.99))], None);
    fixtures::judge(&mut run, VerdictKind::Faster, 1.01);
    (run.comparisons[0].verdicts[0].low, run.comparisons[0].verdicts[0].high) = (1.003, 1.02);
    let text = terminal::text(&run);
    assert!(text.contains("1.01 times as fast as redb (1.003 to 1.02)"), "{text}");
    assert!(text.contains("0.99 (0.98 to 0.997)"), "{text}");
}

fn disturb(run: &mut Run, cell: usize, repetitions: std::ops::Range<u32>, foreign: f64) {
    let id = run.cells[cell].id.clone();
    for sample in run.samples.iter_mut().filter(|sample| sample.cell == id) {
        let foreign = if repetitions.contains(&sample.repetition) { foreign } else { 0.01 };
        sample.disturbance = Some(Disturbance { foreign, stolen: 0.0 });
    }
}

/// The disturbed repetitions would say 1.5 times, the others say 1.25.
#[test]
fn undisturbed_repetitions_are_preferred_and_others_are_marked() {
    let figures = [1500.0, 1510.0, 1250.0, 1260.0, 1240.0];
    let mut run = mixed(&[("map", "always", &figures), ("btree", "always", &CALM)], None);
    run.environment.foreign_limit = Some(0.1);
    disturb(&mut run, 0, 0..2, 0.76);
    let text = verdict(&run);
    assert!(text.contains("1.25 times as fast as btree"), "{text}");
    assert!(!terminal::text(&run).contains("!:"), "each value has undisturbed repetitions");
    disturb(&mut run, 0, 0..5, 0.76);
    let text = terminal::text(&run);
    let words = "!: Other programs or virtual machines disturbed every repetition of 1 of 2 cells: they used up to 76% \
                 of the CPUs in the least disturbed one. --foreign allows 10%.";
    assert!(text.contains(words), "{text}");
    let row = text.lines().find(|line| line.starts_with("mix ")).unwrap();
    assert_eq!(row.matches('!').count(), 1, "{text}");
    for file in ["report.md", "report.html"] {
        let (_dir, content) = report(&[run.clone()], file);
        assert!(
            content.contains(
                "Other programs or virtual machines disturbed every repetition of 1 of 2 cells: they used up to 76% of the"
            ),
            "{file}"
        );
    }
    // A result of before does not say the limit, so nothing is left out of it.
    run.environment.foreign_limit = None;
    disturb(&mut run, 0, 0..2, 0.76);
    assert!(verdict(&run).contains("map is fastest"));
    assert!(!verdict(&run).contains("1.25 times"), "all repetitions count");
}

/// A suite of one store has nothing to say about each of its workloads.
#[test]
fn a_store_without_a_rival_is_named_once_for_the_run() {
    let mut run = mixed(&[("map", "always", &CALM), ("map", "no", &CALM)], None);
    let target = run.cells[0].target.clone();
    let update = fixtures::workload("update", &[(Operation::Update, 1.0)]);
    fixtures::add(&mut run, fixtures::cell("custom", "update", "map", target.clone(), update), &CALM);
    assert_eq!(verdict(&run), "map is the only store: nothing to compare it with");
    let work = run.cells[2].workload.clone();
    let target = Target { store: "btree".to_owned(), ..target };
    fixtures::add(&mut run, fixtures::cell("custom", "update", "btree", target, work), &times(0.5));
    let text = verdict(&run);
    assert!(
        text.contains("map is fastest among stores that lose nothing, 2.00 times as fast as btree"),
        "{text}"
    );
    assert!(
        text.ends_with("\nmap is the only store of 2 of 3 workloads: nothing to compare it with"),
        "{text}"
    );
}

#[test]
fn a_failed_store_is_left_out_with_its_error() {
    let mut run = mixed(&[("map", "always", &CALM), ("btree", "always", &times(0.5))], None);
    run.samples[7].outcome = Outcome::Failed("disk full".to_owned());
    assert_eq!(
        verdict(&run),
        "map is the only store among stores that lose nothing; btree is left out: failed: disk full"
    );
}

/// `--commits own,groups` measures both, and the lines of soaks stand below all tables.
#[test]
fn the_line_of_a_soak_names_the_commit_mode() {
    let mut run = mixed(&[("redb", "always", &[100.0])], None);
    let mut groups = Cell { id: "groups".to_owned(), ..run.cells[0].clone() };
    groups.target.commits = Commits::Groups;
    fixtures::add(&mut run, groups, &[200.0]);
    for sample in &mut run.samples {
        let Outcome::Measured(measured) = &mut sample.outcome else { panic!("not measured") };
        measured.soak = Some(Soak::default());
    }
    let text = terminal::text(&run);
    for begin in
        ["soak: redb, in process, fsync always: ", "soak: redb, in process, group commit, fsync always: "]
    {
        assert_eq!(text.lines().filter(|line| line.starts_with(begin)).count(), 1, "{text}");
    }
}

//! Markdown, CSV and the text of the page.

use crate::{fixtures, kvbench, rates::charts, report, text};
use kvbench::bench::result::{
    Access, CellKind, Latency, Measurement, Operation, Outcome, Run, SCHEMA_VERSION, Sample, Workload,
    interleaved_comparison::Comparison, soak::Soak,
};
use std::fs;

/// What is promised is known of the stores of the build.
#[test]
#[cfg(all(feature = "lmdb", feature = "rocksdb"))]
fn markdown_of_a_small_run() {
    let (_dir, markdown) = report(&[fixtures::small()], "report.md");
    let expected = include_str!("small.md");
    assert_eq!(markdown, expected, "\n--- got ---\n{markdown}");
}

/// A device that became slower during a run has slowed its cold reads too.
#[test]
fn random_reads_are_shown_before_and_after_the_run() {
    let mut run = fixtures::small();
    (run.environment.random_read_us, run.environment.random_read_after_us) = (Some(105.0), Some(2100.0));
    let (_dir, markdown) = report(&[run.clone()], "report.md");
    let line = "- Random read of 4 KiB: 105 \u{b5}s before the run, 2.10 ms after it\n";
    assert!(markdown.contains(line), "{markdown}");
    run.environment.random_read_after_us = None;
    let (_dir, markdown) = report(&[run], "report.md");
    assert!(markdown.contains(": 105 \u{b5}s before the run, unknown after it\n"), "{markdown}");
}

#[test]
fn csv_has_a_row_for_each_cell_and_no_figure_of_a_faulty_one() {
    let (_dir, csv) = report(&[fixtures::small()], "report.csv");
    let lines: Vec<_> = csv.lines().collect();
    assert_eq!(lines.len(), 5);
    let column = |name: &str| lines[0].split(',').position(|head| head == name).unwrap();
    let field = |line: usize, name: &str| lines[line].split(',').nth(column(name)).unwrap();
    assert_eq!(field(1, "store"), "lmdb");
    assert_eq!(
        ["median", "min", "max"].map(|part| field(1, &format!("throughput_per_second_{part}"))),
        ["2000", "1500", "3000"]
    );
    assert_eq!(field(2, "state"), "faulty");
    assert_eq!(field(2, "fault"), "disk | full");
    assert_eq!(field(2, "throughput_per_second_median"), "");
    assert_eq!(field(4, "samples"), "1");
}

#[test]
fn page_is_well_formed_and_names_no_other_place() {
    let (_dir, page) = report(&[fixtures::in_process(), fixtures::over_the_wire()], "report.html");
    check_nesting(&page);
    // Packed charts are letters of any kind; what is in them is the page's own.
    let packed = |part: &str| part.split_once('"').map_or(String::new(), |(_, rest)| rest.to_owned());
    let mut parts = page.split(" data-packed=\"");
    let first = parts.next().unwrap().to_owned();
    let page = parts.map(packed).fold(first, |page, part| page + &part);
    for scheme in ["http:", "https:", "//", "@import", "url("] {
        let found = page.find(scheme).map(|at| &page[at.saturating_sub(80)..at + 40]);
        // A comment of the script is the only use of two slashes.
        assert!(found.is_none_or(|near| scheme == "//" && near.contains("\n//")), "{scheme}: {found:?}");
    }
}

#[test]
fn names_and_errors_from_outside_stay_text() {
    let runs = [fixtures::in_process(), fixtures::over_the_wire()];
    for file in ["report.html", "report.md"] {
        let (_dir, content) = report(&runs, file);
        assert!(!content.contains(fixtures::HOSTILE), "{file}");
        assert!(content.contains("alert(1)"), "{file}");
    }
}

#[test]
fn a_table_that_mixes_levels_is_split() {
    let mut run = fixtures::run("mixed", 3);
    let work = || fixtures::workload("get", &[(Operation::Get, 1.0)]);
    let mut wire = fixtures::target("lmdb", "no");
    wire.access = Access::Wire;
    let mut memory = fixtures::target("map", "no");
    memory.persistent = false;
    for target in [fixtures::target("lmdb", "no"), fixtures::target("lmdb", "always"), wire, memory] {
        let column = target.store.clone();
        fixtures::add(&mut run, fixtures::cell("all", "get", &column, target, work()), &[1.0, 2.0, 3.0]);
    }
    let (_dir, markdown) = report(&[run], "report.md");
    assert_eq!(markdown.matches("\n## all\n").count(), 4);
    for level in [
        "In process, fsync no. Data",
        "In process, fsync always. Data",
        "Over the wire, fsync no. Data",
        "In process, in memory. Data",
    ] {
        assert_eq!(markdown.matches(&format!("\n{level} ")).count(), 1, "{level} in\n{markdown}");
    }
    // One cell a level: nobody to be compared with. What loses least is shown.
    assert!(markdown.contains("lmdb only. In process, fsync always; reads lose nothing."), "{markdown}");
}

#[test]
fn what_cannot_be_measured_is_shown_with_the_reason() {
    let with_reason = || {
        let mut run = fixtures::small();
        run.samples.retain(|sample| !sample.cell.starts_with("set/lmdb"));
        let cell = run.cells.iter().find(|cell| cell.id.starts_with("set/lmdb")).unwrap().id.clone();
        let outcome = Outcome::Unsupported("lmdb has <no> such thing".to_owned());
        run.samples.push(Sample { cell, repetition: 0, outcome, disturbance: None });
        run.left_out = vec!["sled in memory: it keeps its data in files".to_owned()];
        run
    };
    let (_dir, markdown) = report(&[with_reason()], "report.md");
    assert!(markdown.contains("| set      |  n/a[^3] |"), "{markdown}");
    assert!(markdown.contains("[^3]: n/a: lmdb has &lt;no&gt; such thing."), "{markdown}");
    assert!(markdown.contains("- Left out: sled in memory"), "{markdown}");
    let (_dir, csv) = report(&[with_reason()], "report.csv");
    assert!(csv.contains(",0,unsupported,lmdb has <no> such thing,"), "{csv}");
    let (_dir, page) = report(&[with_reason()], "report.html");
    assert!(page.contains("<span class=\"instead\">n/a</span>"), "{page}");
    assert!(page.contains("n/a: lmdb has &#60;no&#62; such thing."), "{page}");
}

/// Most tables have the same stores, and most runs of a report the same machine.
#[test]
fn what_tables_and_runs_have_in_common_is_printed_once() {
    let mut later = fixtures::small();
    later.started = "2026-02-04T04:05:06Z".to_owned();
    later.suite = None;
    later.environment.load_average = Some(1.5);
    for cell in &mut later.cells {
        (cell.table, cell.id) = ("later".to_owned(), format!("later/{}", cell.id));
    }
    later.samples.retain(|sample| !sample.cell.starts_with("set"));
    later.samples.iter_mut().for_each(|sample| sample.cell.insert_str(0, "later/"));
    let mut earlier = fixtures::small();
    earlier.left_out = vec!["sled".to_owned()];
    let (_dir, markdown) = report(&[earlier, later], "report.md");
    assert_eq!(markdown.matches("has a \\*caveat\\*.").count(), 2, "{markdown}");
    let (_, tables) = markdown.split_once("## later").expect("a second table");
    assert!(tables.contains(" lmdb[^1] |") && tables.contains(" rocksdb[^2] |"), "{tables}");
    let (_, environment) = tables.split_once("### later, 2026-02-04T04:05:06Z\n\n").expect("a second run");
    let (facts, _) = environment.split_once("\n- **Warning**").unwrap();
    let others = "- File: run-1.json\n- Load average: 1.50\n- Left out: none\n- All else is as in tiny, 2026-02-03T04:05:06Z.";
    assert_eq!(facts, others, "{environment}");
}

/// A run without latencies, such as one of sizes on disk.
#[test]
fn a_table_of_latencies_has_some() {
    let mut run = fixtures::small();
    for cell in &mut run.cells {
        cell.workload.step = CellKind::DiskSize;
    }
    for sample in &mut run.samples {
        if let Outcome::Measured(measured) = &mut sample.outcome {
            measured.latency = Latency::default();
        }
    }
    let (_dir, markdown) = report(&[run], "report.md");
    assert!(markdown.contains("### Throughput") && !markdown.contains("### Latency"), "{markdown}");
    assert!(report(&[fixtures::small()], "report.md").1.contains("### Latency"));
}

#[test]
fn runs_of_two_machines_share_no_table() {
    let (one, mut other) = (fixtures::small(), fixtures::small());
    other.environment.cpu = Some("another".to_owned());
    other.cells.iter_mut().for_each(|cell| cell.id.push('2'));
    other.samples.iter_mut().for_each(|sample| sample.cell.push('2'));
    let (_dir, markdown) = report(&[one, other], "report.md");
    assert_eq!(markdown.matches("\n## tiny\n").count(), 2);
}

#[test]
fn stores_that_took_turns_share_no_table_with_others_of_the_same_work() {
    let (one, mut other) = (fixtures::small(), fixtures::small());
    other.cells.iter_mut().for_each(|cell| cell.id.push('2'));
    other.samples.iter_mut().for_each(|sample| sample.cell.push('2'));
    let tables =
        |other: &Run| report(&[one.clone(), other.clone()], "report.md").1.matches("\n## tiny\n").count();
    assert_eq!(tables(&other), 1);
    let row = &other.cells[0].row;
    let ids = other.cells.iter().filter(|cell| cell.row == *row).map(|cell| cell.id.clone()).collect();
    other.comparisons = vec![Comparison::new("tiny".to_owned(), ids)];
    assert_eq!(tables(&other), 2);
    assert!(report(&[one.clone(), other.clone()], "report.md").1.contains("environment 2"));
    // At another level they share no table anyway.
    other.cells.iter_mut().for_each(|cell| cell.target.access = Access::Wire);
    assert!(!report(&[one, other], "report.md").1.contains("environment 2"));
}

/// A latency of a closed loop is that of a store at its own highest rate, so it is not that of another store.
#[test]
fn latencies_say_how_operations_start() {
    let mut run = fixtures::in_process();
    let rates = [(None, "Closed loop: each store"), (Some(1000.0), "Open loop: at a given rate")];
    for (rate, words) in rates {
        run.cells.iter_mut().for_each(|cell| cell.workload.rate = rate);
        let (_dir, markdown) = report(&[run.clone()], "report.md");
        let section = markdown.split("### Latency (p50 / p99)\n\n").nth(1).unwrap();
        assert!(section.starts_with(words), "{section}");
        let (_dir, page) = report(&[run.clone()], "report.html");
        let caption = format!("data-caption=\"Latency p99, lower is better; {}", words.to_lowercase());
        assert!(page.contains(&caption), "{words}");
        assert!(
            !page.contains(&format!("Peak memory, lower is better; {}", words.to_lowercase())),
            "{words}"
        );
    }
}

#[test]
fn the_terminal_says_its_unit_the_p99_and_the_best() {
    let text = kvbench::bench::report::terminal::text(&fixtures::over_the_wire());
    let mut lines = text.lines();
    let head = lines.find(|line| line.starts_with("kvbench: ")).expect("a title");
    assert!(
        head.contains(
            "operations/s, then the 99th percentile of latency (closed loop: each store at its own highest rate); * is \
             better than all others of the same work"
        ),
        "{text}"
    );
    assert_eq!(lines.next(), Some("data 253 MiB : cache 256 MiB : memory 32.0 GiB"), "{text}");
    let row = |start: &str| text.lines().find(|line| line.starts_with(start)).unwrap().to_owned();
    let (map, redis) = (row("map     "), row("redis   "));
    assert_eq!(map.matches(" \u{b5}s *").count(), 2, "{text}");
    assert!(redis.contains(" \u{b5}s") && !redis.contains('*'), "{text}");
    assert!(map.contains("40,") || map.contains("39,"), "grouped: {text}");
}

/// Two stores that get, each so often.
fn two(first: &[f64], second: &[f64]) -> Run {
    let mut run = fixtures::run("two", u32::try_from(first.len()).unwrap());
    for (store, figures) in [("lmdb", first), ("redb", second)] {
        let work = fixtures::workload("get", &[(Operation::Get, 1.0)]);
        let cell = fixtures::cell("two", "get", store, fixtures::target(store, "no"), work);
        fixtures::add(&mut run, cell, figures);
    }
    run
}

/// Stars in the line of the terminal's table with the figures.
fn stars(run: &Run) -> usize {
    let text = kvbench::bench::report::terminal::text(run);
    text.lines().find(|line| line.starts_with("get ")).unwrap().matches(" *").count()
}

#[test]
fn the_terminal_names_no_best_by_chance() {
    assert_eq!(stars(&two(&[200.0, 202.0, 201.0], &[100.0, 101.0, 99.0])), 1);
    assert_eq!(stars(&two(&[200.0], &[100.0])), 0, "one repetition tells nothing");
    assert_eq!(stars(&two(&[200.0; 2], &[100.0; 2])), 0, "nor do two");
    assert_eq!(stars(&two(&[200.0, 100.0, 300.0], &[190.0, 150.0, 120.0])), 0, "nor do three that disagree");
}

/// At a rate throughput is the rate that was asked for; latency is what tells stores apart.
#[test]
fn paced_cells_are_judged_by_their_latency() {
    let mut run = two(&[200.0, 202.0, 201.0], &[100.0, 101.0, 99.0]);
    run.cells.iter_mut().for_each(|cell| cell.workload.rate = Some(200.0));
    for sample in &mut run.samples {
        let Outcome::Measured(measured) = &mut sample.outcome else { continue };
        // The one that does less is the quicker one.
        measured.latency.p99_us = if sample.cell.contains("redb") { 10.0 } else { 20.0 };
        measured.latency.p99_us += f64::from(sample.repetition) / 100.0;
    }
    let text = kvbench::bench::report::terminal::text(&run);
    let line = text.lines().find(|line| line.starts_with("get ")).unwrap();
    assert!(line.ends_with(" *") && line.matches(" *").count() == 1, "{text}");
}

/// Cells of a group work on the pairs that the first of them has put there, and what is opened again at the
/// end holds what the last of them has left.
#[test]
fn data_are_those_that_the_group_has_put_there() {
    let mut run = fixtures::run("grouped", 3);
    let of = |name: &str, kind, operations| Workload {
        keys: 0,
        seconds: None,
        operations: Some(operations),
        ..fixtures::workload(name, &[(kind, 1.0)])
    };
    let step = Workload { step: CellKind::DiskSize, mix: [].into(), ..of("size", Operation::Get, 1) };
    for work in [
        of("load", Operation::Insert, 1_000_000),
        of("read", Operation::Get, 200_000),
        of("removals", Operation::Delete, 500_000),
        step,
    ] {
        let row = work.name.clone();
        let mut cell = fixtures::cell("grouped", &row, "redb", fixtures::target("redb", "no"), work);
        cell.group = Some("one".to_owned());
        let measured = Measurement {
            reopen_seconds: Some(0.019),
            peak_memory_bytes: Some(1 << 20),
            ..fixtures::measurement(1000.0)
        };
        fixtures::add_outcomes(&mut run, cell, vec![Outcome::Measured(measured); 3]);
    }
    let (_dir, markdown) = report(&[run.clone()], "report.md");
    assert!(markdown.contains("19.0 ms with 126 MiB of data"), "{markdown}");
    assert!(markdown.contains("1.00 MiB with 253 MiB of data"), "{markdown}");
    let (_dir, page) = report(&[run], "report.html");
    let all_reads = page.split("\"reads\":1.0,\"data\":").nth(1).unwrap_or_default();
    assert!(all_reads.starts_with("265000000"), "{}", &all_reads[..all_reads.len().min(60)]);
}

/// Settings that depend on the policy say for which one they are.
#[test]
#[cfg(all(feature = "lmdb", feature = "fjall"))]
fn the_environment_has_the_settings_of_the_libraries() {
    let mut run = fixtures::run("settings", 3);
    for (store, fsync) in [("lmdb", "always"), ("lmdb", "everysec"), ("lmdb", "no"), ("fjall", "no")] {
        let work = fixtures::workload("get", &[(Operation::Get, 1.0)]);
        fixtures::add(
            &mut run,
            fixtures::cell("settings", "get", store, fixtures::target(store, fsync), work),
            &[1.0],
        );
    }
    let (_dir, markdown) = report(&[run], "report.md");
    for words in [
        "computes from them: fjall: block cache 128 MiB, memtable 32.0 MiB; ",
        "lmdb (always): MDB\\_NOSYNC off; ",
        "lmdb (everysec, no): MDB\\_NOSYNC on\n",
    ] {
        assert!(markdown.contains(words), "{words}: {markdown}");
    }
}

/// To open closed files again, which are in the page cache, is no recovery.
#[test]
fn a_clean_reopening_is_no_recovery() {
    let properties = |measured: Measurement| {
        let mut run = fixtures::run("tiny", 3);
        let mut cell = fixtures::cell(
            "tiny",
            "set",
            "redb",
            fixtures::target("redb", "no"),
            fixtures::workload("set", &[(Operation::Update, 1.0)]),
        );
        if measured.recovery_seconds.is_some() {
            cell.workload.step = CellKind::Recovery;
        }
        fixtures::add_outcomes(&mut run, cell, vec![Outcome::Measured(measured); 3]);
        let (_dir, markdown) = report(&[run], "report.md");
        let (_, section) = markdown.split_once("## Promises, memory and recovery").unwrap();
        let row = |start: &str| {
            let line = section.lines().find(|line| line.starts_with(start)).unwrap();
            line.split('|').skip(5).map(|part| part.trim().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(row("| Store")[..2], ["Recovery after a kill", "Reopen after a close"]);
        row("| redb")[..2].to_vec()
    };
    let measured = fixtures::measurement(1000.0);
    let reopened = Measurement { reopen_seconds: Some(0.019), ..measured.clone() };
    assert_eq!(properties(reopened), ["-", "19.0 ms with 253 MiB of data"]);
    let recovered = Measurement { recovery_seconds: Some(0.5), ..measured };
    assert_eq!(properties(recovered), ["500 ms with 253 MiB of data", "-"]);
}

/// Of the engine's gauges, those that show deferred work or a stall.
#[test]
fn a_soak_is_charted() {
    let mut run = fixtures::run("long", 1);
    let (target, mut work) =
        (fixtures::target("rocksdb", "no"), fixtures::workload("mix", &[(Operation::Update, 1.0)]));
    work.soak = true;
    let of = |name: &str, values: [f64; 4]| (name.to_owned(), values.map(Some).to_vec());
    let soak = Soak {
        series: [
            of("operations", [1000.0; 4]),
            of("p50_us", [9.0, 8.0, 9.0, 8.0]),
            of("p99_us", [90.0, 80.0, 90.0, 80.0]),
            of("resident_bytes", [1e6, 2e6, 3e6, 4e6]),
            of("cpu_ms/rocksdb:low", [500.0; 4]),
            of("engine/level_0_files", [3.0; 4]),
            of("engine/write_stopped", [0.0, 1.0, 1.0, 0.0]),
            of("engine/estimated_keys", [7.0, 8.0, 9.0, 9.0]),
            of("engine/background_errors", [0.0; 4]),
        ]
        .into(),
        backlogs: vec!["engine/level_0_files".to_owned()],
    };
    let measured = Measurement { soak: Some(soak), ..fixtures::measurement(1000.0) };
    let cell = fixtures::cell("long", "mix", "rocksdb", target, work);
    fixtures::add_outcomes(&mut run, cell, vec![Outcome::Measured(measured)]);
    let (_dir, page) = report(&[run], "report.html");
    let charts = charts(&page);
    for title in [
        "latency p50",
        "latency p99",
        "memory with mapped files",
        "level 0 files",
        "write stopped",
        "CPUs used by",
    ] {
        assert!(charts.contains(title), "no {title} in {charts}");
    }
    for title in ["estimated keys", "background errors", "size on disk"] {
        assert!(!charts.contains(title), "{title} in {charts}");
    }
}

#[test]
fn the_runs_are_beside_the_report() {
    let (dir, page) = report(&[fixtures::small()], "report.html");
    let copy = dir.path().join("out/results/run-0.json");
    assert_eq!(fs::read(copy).unwrap(), fs::read(dir.path().join("run-0.json")).unwrap());
    assert!(
        page.contains("<a href=\".&#x2F;results&#x2F;run-0.json\">")
            || page.contains("<a href=\"./results/run-0.json\">"),
        "{page}"
    );
}

/// The copy of a result in the report's own directory may be the only one: a copy onto itself would empty it.
#[test]
fn a_run_that_is_already_beside_the_report_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let results = dir.path().join("out/results");
    fs::create_dir_all(&results).unwrap();
    let run = results.join("run.json");
    fixtures::save(&fixtures::small(), &run);
    let content = fs::read(&run).unwrap();
    std::os::unix::fs::symlink("out", dir.path().join("other")).unwrap();
    std::os::unix::fs::symlink(&run, dir.path().join("run.json")).unwrap();
    let absolute = run.to_str().unwrap();
    for (file, output) in [
        ("out/results/run.json", "out"),
        ("out/results", "out"),
        ("./out/../out/results/run.json", "out"),
        (absolute, "out"),
        ("other/results/run.json", "out"),
        ("out/results/run.json", "other"),
        ("run.json", "out"),
    ] {
        let made = kvbench(dir.path(), &["report", file, "--output", output]);
        assert!(made.status.success(), "{file} {output}: {}", text(&made.stderr));
        assert_eq!(fs::read(&run).unwrap(), content, "{file} {output}");
        let page = fs::read_to_string(dir.path().join("out/report.html")).unwrap();
        assert!(page.contains("run.json\">"), "{file} {output}: no link");
    }
}

/// Values can be read without a click, and scenarios that no store was measured in take no space.
#[test]
fn the_matrix_of_the_page_has_values_and_measured_columns_only() {
    let (_dir, page) = report(&[fixtures::small()], "report.html");
    assert!(page.contains("<small class=\"value\">2.00 k/s, p99 2.00 ms</small>"), "{page}");
    assert!(page.contains(">Read-heavy<small>"), "{page}");
    for title in ["Scan", "Cold", "Durable, one writer"] {
        assert!(!page.contains(&format!(">{title}<small>")), "{title}");
    }
    // Labels of cells that a narrow page shows below each other; several tables can be open.
    for label in
        ["A kill loses", "A power cut loses", "Peak memory", "Recovery after a kill", "Reopen after a close"]
    {
        assert!(page.contains(&format!("<td data-name=\"{label}\">")), "{label}");
    }
    assert!(!page.contains("name=\"tables\""), "one open table would close the others");
}

#[test]
fn the_page_stays_below_a_megabyte() {
    let (_dir, page) = report(&[fixtures::large()], "report.html");
    assert!(page.len() < 1_000_000, "{} bytes", page.len());
}

#[test]
fn broken_files_are_all_named_and_nothing_is_written() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("torn.json"), "{\"schema\": 1, ").unwrap();
    fs::write(dir.path().join("later.json"), format!("{{\"schema\": {}}}", SCHEMA_VERSION + 1)).unwrap();
    fixtures::save(&fixtures::small(), &dir.path().join("good.json"));
    let output = kvbench(dir.path(), &["report", "."]);
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(error.contains("torn.json") && error.contains("later.json has schema"), "{error}");
    assert!(!error.contains("good.json"), "{error}");
    assert!(!dir.path().join("report.md").exists());
}

/// A command with --force cannot continue a run: it would replace the result.
#[test]
fn the_command_of_a_run_does_not_replace_its_result() {
    let mut run = fixtures::small();
    run.finished = false;
    run.command.push("--force".to_owned());
    for file in ["report.md", "report.html"] {
        let (_dir, content) = report(&[run.clone()], file);
        assert!(
            content.contains("repeat its command with --resume") && !content.contains("--force"),
            "{file}"
        );
    }
}

#[test]
fn the_command_of_a_run_can_be_copied_to_a_shell() {
    let (_dir, markdown) = report(&[fixtures::small()], "report.md");
    let block = "\n\n```sh\nkvbench bench --suite tiny --dir '/data/two words'\n```\n";
    // Only the footnotes follow.
    let (_, rest) = markdown.split_once(block).unwrap_or_else(|| panic!("{markdown}"));
    assert!(rest.starts_with("\n[^1]: ") && !rest.contains("```"), "{rest}");
    let (_dir, page) = report(&[fixtures::small()], "report.html");
    assert!(page.contains("<code>kvbench bench --suite tiny --dir "), "{page}");
}

/// A heading has the unit, because rates are shown without it.
#[test]
fn a_table_of_the_page_says_its_unit_and_what_is_bold() {
    let (_dir, page) = report(&[fixtures::small()], "report.html");
    for words in [
        "data-caption=\"Throughput (operations/s), higher is better\"",
        "<span class=\"what\">Throughput (operations/s), higher is better</span>",
        "bold</strong> is better than all others (95%) of the same work within the loss bound of the ranking.</caption>",
    ] {
        assert!(page.contains(words), "{words}: {page}");
    }
}

/// Runs of one suite measure the same overhead.
#[test]
fn the_harness_overhead_of_each_run_has_a_row() {
    let runs = [1000.0, 2000.0, 4000.0].map(|rate| {
        let mut run = fixtures::run("small", 1);
        run.started = format!("2026-02-03T04:05:0{}Z", rate / 1000.0);
        let work = fixtures::workload("get", &[(Operation::Get, 1.0)]);
        let mut cell =
            fixtures::cell("harness overhead", "get", "nothing", fixtures::target("nothing", "no"), work);
        cell.reference = true;
        fixtures::add(&mut run, cell, &[rate]);
        run
    });
    let (_dir, markdown) = report(&runs, "report.md");
    let (_, section) = markdown.split_once("\n## harness overhead\n").unwrap();
    let (section, _) = section.split_once("### Latency").unwrap();
    let rows: Vec<Vec<_>> = section
        .lines()
        .filter(|line| line.starts_with("| get"))
        .map(|line| line.split('|').map(str::trim).filter(|part| !part.is_empty()).collect())
        .collect();
    assert_eq!(
        rows,
        [["get", "1,000"], ["get (2026-02-03T04:05:02Z)", "2,000"], ["get (2026-02-03T04:05:04Z)", "4,000"]],
        "{markdown}"
    );
}

/// Stores that were measured with other work are not side by side, though its name is the same.
#[test]
fn other_work_of_the_same_name_has_a_row_of_its_own() {
    let works =
        [("2026-02-03T04:05:01Z", 8, ["lmdb", "redb"]), ("2026-02-03T04:05:02Z", 1, ["redb", "sled"])];
    let runs = works.map(|(started, threads, stores)| {
        let mut run = Run { started: started.into(), ..fixtures::run("small", 1) };
        for store in stores {
            let work = Workload { threads, ..fixtures::workload("get", &[(Operation::Get, 1.0)]) };
            let mut cell = fixtures::cell("small", "get", store, fixtures::target(store, "no"), work);
            cell.id = format!("{}/t{threads}", cell.id);
            fixtures::add(&mut run, cell, &[1000.0 * f64::from(threads)]);
        }
        run
    });
    let (_dir, markdown) = report(&runs, "report.md");
    let (_, section) = markdown.split_once("\n## small\n").unwrap();
    let rows: Vec<String> = section
        .lines()
        .skip_while(|line| !line.starts_with("| get"))
        .take_while(|line| line.starts_with("| get"))
        .map(|line| line.replace(' ', ""))
        .collect();
    assert_eq!(rows, ["|get|8,000|8,000||", "|get(2026-02-03T04:05:02Z)||1,000|1,000|"], "{markdown}");
}

#[test]
fn an_empty_directory_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let output = kvbench(dir.path(), &["report", "."]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("no .json file in ."));
}

#[test]
fn a_directory_of_a_report_that_cannot_be_made_is_named_with_its_flag() {
    let dir = tempfile::tempdir().unwrap();
    fixtures::save(&fixtures::small(), &dir.path().join("run.json"));
    fs::write(dir.path().join("file"), "").unwrap();
    let output = kvbench(dir.path(), &["report", "run.json", "--output", "file"]);
    let text = text(&output.stderr);
    assert!(!output.status.success(), "{text}");
    assert!(text.contains("--output file: cannot create the directory"), "{text}");
}

/// Fails unless every element that is opened is closed, in order.
fn check_nesting(page: &str) {
    const VOID: [&str; 4] = ["meta", "link", "input", "br"];
    let mut open: Vec<&str> = Vec::new();
    let mut rest = page.strip_prefix("<!DOCTYPE html>").expect("a document type");
    while let Some(at) = rest.find('<') {
        rest = &rest[at + 1..];
        let end = rest.find('>').expect("an end of the tag");
        let tag = &rest[..end];
        rest = &rest[end + 1..];
        let name = tag.split([' ', '\n', '/']).find(|part| !part.is_empty()).expect("a name");
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name), "before {:?}", &rest[..rest.len().min(80)]);
        } else if !tag.ends_with('/') && !VOID.contains(&name) {
            open.push(name);
            if name == "script" || name == "style" {
                rest = &rest[rest.find("</").expect("the end of a script")..];
            }
        }
    }
    assert_eq!(open, [""; 0]);
}

/// A result of 23 November 2026, cut to two stores and three repetitions: without blocks, comparisons and many metrics.
#[test]
fn a_result_of_an_older_version_is_read() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("old.json"), include_str!("schema-3.json")).unwrap();
    let output = kvbench(dir.path(), &["report", ".", "--output", "out"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let markdown = fs::read_to_string(dir.path().join("out/report.md")).unwrap();
    assert!(
        markdown.contains("lmdb, bitcask: cannot tell.") && markdown.contains("567a8d4a430f"),
        "{markdown}"
    );
    let output = kvbench(dir.path(), &["compare", "old.json", "old.json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stdout).starts_with("2 cells compared; 0 worse"), "{}", text(&output.stdout));
}

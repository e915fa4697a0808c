//! The page in a browser.

use crate::{fixtures, kvbench, ranking, report, text};
use kvbench::{
    bench::result::{
        Access, Cell, Commits, Disturbance, Operation, Order, Outcome, Run, Size,
        interleaved_comparison::VerdictKind,
        statistics::{looks::Looks, margin::Margin},
    },
    engine::Compression,
};
use serde_json::Value;
use std::{
    fs,
    path::Path,
    process::{Command, Output, Stdio},
};

/// Names under which systems have Chromium.
const BROWSERS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
const MAC: &str = "/Applications/Chromium.app/Contents/MacOS/Chromium";

fn browser() -> &'static str {
    let works = |name: &&str| {
        Command::new(name).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
    };
    BROWSERS
        .iter()
        .chain([&MAC])
        .copied()
        .find(|name| works(name))
        .expect("this test opens the report in Chromium, which is not installed: run `make setup`")
}

/// Opens a file and returns what the browser made of it.
fn open(page: &Path, profile: &Path, size: &str) -> Output {
    Command::new(browser())
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage"])
        // Console messages go to standard error.
        .args(["--enable-logging=stderr", "--log-level=0", "--virtual-time-budget=5000", "--dump-dom"])
        .arg(format!("--user-data-dir={}", profile.display()))
        .arg(format!("--window-size={size}"))
        .arg(page)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// The value of an attribute that the script of the test has left on the body.
fn left<'a>(dom: &'a str, name: &str) -> &'a str {
    let start = format!(" data-{name}=\"");
    let at = dom.find(&start).unwrap_or_else(|| panic!("the test's script left no {name}:\n{dom:.2000}"));
    let rest = &dom[at + start.len()..];
    &rest[..rest.find('"').unwrap()]
}

/// A copy of the report that tests itself with a script.
fn with_script(page: &str, script: &str) -> String {
    let errors = "<script>window.faults = [];
        addEventListener('error', (event) => faults.push(String(event.message)));
        addEventListener('unhandledrejection', (event) => faults.push(String(event.reason)));
        document.addEventListener('securitypolicyviolation', (event) => faults.push(event.blockedURI));
        </script>";
    let (head, body) = page.split_once("<title>").unwrap();
    let page = format!("{head}{errors}<title>{body}");
    let (before, after) = page.rsplit_once("</body>").unwrap();
    format!("{before}<script>{script}</script></body>{after}")
}

const USE: &str = include_str!("page.js");

fn answer(run: &Run, asked: &[(&str, &str)]) -> String {
    answer_of(std::slice::from_ref(run), asked)
}

/// Asks the chooser a question (`asked` by the name of each field), and leaves its answer on the body.
fn answer_of(runs: &[Run], asked: &[(&str, &str)]) -> String {
    let (dir, page) = report(runs, "report.html");
    let asked = asked
        .iter()
        .map(|(field, value)| format!("chooser.elements.namedItem('{field}').value = '{value}';"));
    let script = format!(
        "{{ const saw = document.body.dataset, chooser = document.getElementById('chooser');
        saw.hidden = chooser.hidden;
        saw.accesses = [...chooser.elements.namedItem('access').options].map((one) => one.value).join('; ');
        {}
        chooser.dispatchEvent(new Event('input'));
        for (const name of ['headline', 'reason', 'out', 'full', 'full-time'])
          document.body.setAttribute('data-' + name, chooser.querySelector('.' + name).textContent);
        saw.ranking = [...chooser.querySelectorAll('.ranking li')].map((one) => one.textContent).join('; ');
        saw.faults = window.faults.join('; '); }}",
        asked.collect::<String>()
    );
    let copy = dir.path().join("copy.html");
    fs::write(&copy, with_script(&page, &script)).unwrap();
    let output = open(&copy, &dir.path().join("profile"), "1200,900");
    let dom = text(&output.stdout);
    assert_eq!(left(&dom, "faults"), "");
    dom
}

/// The flags of each work of the chooser.
fn flags(run: &Run) -> Vec<String> {
    let (_dir, page) = report(std::slice::from_ref(run), "report.html");
    let (_, data) = page.split_once("id=\"figures\">").unwrap();
    let data: Value = serde_json::from_str(data.split_once("</script>").unwrap().0).unwrap();
    let works = data["contests"].as_array().unwrap();
    works.iter().map(|work| work["flags"].as_str().unwrap().to_owned()).collect()
}

/// Two stores of this build that get and update in equal parts.
fn mixed(figures: [&[f64]; 2]) -> Run {
    let mut run = fixtures::run("duel", u32::try_from(figures[0].len()).unwrap());
    for (store, figures) in ["map", "btree"].into_iter().zip(figures) {
        let work = fixtures::workload("mix", &[(Operation::Get, 0.5), (Operation::Update, 0.5)]);
        let cell = fixtures::cell("duel", "mix", store, fixtures::target(store, "everysec"), work);
        fixtures::add(&mut run, cell, figures);
    }
    run
}

const CALM: [f64; 5] = [1000.0, 1010.0, 990.0, 1005.0, 995.0];

/// Changes one repetition of the whole machine, which says nothing of the stores.
fn shaken(factor: f64) -> Vec<f64> {
    CALM.iter().zip([1.0, 0.4, 1.3, 0.7, 2.0]).map(|(value, all)| value * all * factor).collect()
}

#[test]
fn the_chooser_compares_stores_within_a_repetition() {
    let mut run = mixed([&shaken(1.1), &shaken(1.0)]);
    run.environment.foreign_limit = Some(0.1);
    run.samples[0].disturbance = Some(Disturbance { foreign: 0.8, stolen: 0.0 });
    let dom = answer(&run, &[]);
    assert_eq!(left(&dom, "headline"), "map");
    assert!(left(&dom, "reason").starts_with("1.10\u{d7} as fast as btree"), "{}", left(&dom, "reason"));
    // Two repetitions that both have are too few.
    run.samples[1].disturbance = Some(Disturbance { foreign: 0.8, stolen: 0.0 });
    run.samples[7].disturbance = Some(Disturbance { foreign: 0.8, stolen: 0.0 });
    assert_eq!(left(&answer(&run, &[]), "headline"), "Too few repetitions for a verdict");
}

/// Adds work of other values, in which btree is the faster store.
fn with_large_values(run: &mut Run) {
    for (store, factor) in [("map", 0.5), ("btree", 1.0)] {
        let mut work = fixtures::workload("large", &[(Operation::Get, 0.5), (Operation::Update, 0.5)]);
        work.value_bytes = Size::Fixed(4096);
        let cell = fixtures::cell("duel", "large", store, fixtures::target(store, "everysec"), work);
        fixtures::add(run, cell, &CALM.map(|one| one * factor));
    }
}

/// A store of small values may be slow with large ones.
#[test]
fn the_chooser_answers_by_work_on_values_of_about_the_asked_size() {
    let mut run = mixed([&CALM, &CALM.map(|one| one / 2.0)]);
    let dom = answer(&run, &[("value", "1000-2000")]);
    assert_eq!(left(&dom, "headline"), "Not measured with values of 1000 to 2000 bytes");
    assert_eq!(
        left(&dom, "reason"),
        "In work of 50% reads with values of 256 bytes: map, 2.00\u{d7} as fast as btree."
    );
    assert!(left(&dom, "full").contains(" --value-bytes 1000-2000 "), "{}", left(&dom, "full"));
    with_large_values(&mut run);
    for (bytes, store) in [("512", "map"), ("2048-8000", "btree")] {
        let dom = answer(&run, &[("value", bytes)]);
        assert_eq!((left(&dom, "headline"), left(&dom, "full")), (store, ""), "{bytes}");
    }
}

/// As in the matrix, a store that sometimes fails must not rank as fast.
#[test]
fn the_chooser_leaves_out_a_store_that_failed_in_a_part_of_the_work() {
    let mut run = mixed([&CALM, &CALM.map(|one| one / 2.0)]);
    for store in ["map", "btree"] {
        let mut work = fixtures::workload("again", &[(Operation::Get, 0.5), (Operation::Update, 0.5)]);
        work.keys = 2_000_000;
        let cell = fixtures::cell("duel", "again", store, fixtures::target(store, "everysec"), work);
        fixtures::add(&mut run, cell, &CALM);
    }
    assert_eq!(left(&answer(&run, &[]), "headline"), "map");
    run.samples[10].outcome = Outcome::Failed("disk full".to_owned());
    let dom = answer(&run, &[]);
    assert_eq!(left(&dom, "headline"), "btree only");
    assert!(left(&dom, "out").contains("failed in this work"), "{}", left(&dom, "out"));
}

/// A store that failed in all of the work under the policy that was asked for has figures under another one only.
#[test]
fn the_chooser_says_that_a_store_failed_under_the_policy_that_was_asked_for() {
    let mut run = mixed([&CALM, &CALM.map(|one| one / 2.0)]);
    let failed = run.cells[0].clone();
    for sample in run.samples.iter_mut().filter(|sample| sample.cell == failed.id) {
        sample.outcome = Outcome::Failed("disk full".to_owned());
    }
    let target = fixtures::target(&failed.target.store, "no");
    let cell = fixtures::cell("duel", &failed.row, &failed.target.store, target, failed.workload);
    fixtures::add(&mut run, cell, &CALM);
    let dom = answer(&run, &[("power", "1")]);
    assert_eq!(left(&dom, "headline"), "btree only");
    let out = left(&dom, "out");
    assert!(out.contains(&format!("{} is left out: failed in this work", failed.target.store)), "{out}");
}

/// Figures of two machines, or of two builds, have no common mean.
#[test]
fn the_chooser_compares_the_newest_environment() {
    let half = CALM.map(|one| one / 2.0);
    let (old, mut new) = (mixed([&CALM, &half]), mixed([&half, &CALM]));
    new.started = "2026-03-03T00:00:00Z".to_owned();
    assert_eq!(left(&answer_of(&[old, new], &[]), "headline"), "btree");
}

#[test]
fn the_chooser_shows_a_small_ratio_with_two_digits() {
    let dom = answer(&mixed([&CALM, &CALM.map(|one| one * 0.004)]), &[]);
    assert!(left(&dom, "ranking").contains("btree0.0040p99 "), "{}", left(&dom, "ranking"));
}

/// The page tests all pairs as the other reports do, and uses their words.
#[test]
fn the_chooser_calls_stores_equal_or_cannot_tell() {
    let dom = answer(&mixed([&CALM, &CALM.map(|one| one * 0.99)]), &[]);
    assert_eq!(left(&dom, "headline"), "map, btree");
    assert!(
        left(&dom, "reason").starts_with("Equal within 3% in work of 50% reads"),
        "{}",
        left(&dom, "reason")
    );
    let dom = answer(&mixed([&CALM, &[1200.0, 700.0, 1100.0, 800.0, 1000.0]]), &[]);
    assert_eq!(left(&dom, "headline"), "map, btree");
    assert!(left(&dom, "reason").starts_with("Cannot tell in work of 50% reads"), "{}", left(&dom, "reason"));
}

/// An early look of a long plan needs a larger difference, and each comparison has its own margin.
#[test]
fn the_chooser_is_as_strict_as_the_plan_of_a_comparison() {
    let near: [f64; 5] = [1080.0, 1100.0, 1060.0, 1090.0, 1070.0];
    let mut run = mixed([&near, &[1000.0; 5]]);
    assert_eq!(left(&answer(&run, &[]), "headline"), "map");
    fixtures::judge(&mut run, VerdictKind::CannotTell, 1.08);
    run.comparisons[0].looks = Some(Looks::sized(40, 2));
    let dom = answer(&run, &[]);
    assert_eq!(left(&dom, "headline"), "map, btree");
    assert!(left(&dom, "reason").starts_with("Cannot tell in work of"), "{}", left(&dom, "reason"));
    let mut run = mixed([&CALM.map(|one| one * 1.06), &CALM]);
    fixtures::judge(&mut run, VerdictKind::SlightlyFaster, 1.06);
    run.comparisons[0].margin = Margin::new(0.1).unwrap();
    let dom = answer(&run, &[]);
    assert!(left(&dom, "reason").starts_with("Equal within 10% in work of"), "{}", left(&dom, "reason"));
}

#[test]
fn the_chooser_opens_on_a_question_that_it_can_answer() {
    let mut run = mixed([&CALM, &CALM.map(|one| one / 2.0)]);
    run.cells.iter_mut().for_each(|cell| cell.target.commits = Commits::Groups);
    let dom = answer(&run, &[]);
    assert_eq!((left(&dom, "hidden"), left(&dom, "accesses")), ("false", "in process, group commit"));
    assert_eq!(left(&dom, "headline"), "map");
    // Reads of the disk alone answer no question of it.
    run.environment.cold = Some("fadvise".to_owned());
    assert_eq!(left(&answer(&run, &[]), "hidden"), "true");
}

type Change = fn(&mut Cell);

/// A command that the program would refuse is of no use.
#[test]
fn the_flags_of_a_work_are_accepted() {
    let run = mixed([&CALM, &CALM]);
    let changes: [(Change, &str); 7] = [
        (|cell| cell.workload.order = Order::HotSet(0.0, 1.0), "--stores map,btree --threads 1"),
        (|cell| cell.workload.order = Order::HotSet(0.1, 0.9), "--order hot:0.1:0.9"),
        (|cell| cell.workload.order = Order::Zipfian(0.99), "--order zipfian:0.99"),
        (|cell| cell.workload.key_bytes = Size::Uniform(16, 32), "--key-bytes 16-32"),
        (|cell| cell.target.commits = Commits::Groups, "--commits groups"),
        (|cell| cell.target.access = Access::Wire, "--wire"),
        (
            |cell| {
                cell.target.address = Some("127.0.0.1:6379".to_owned());
                cell.target.access = Access::Wire;
            },
            "--order uniform --threads 1 --key-bytes 9 --wire",
        ),
    ];
    for (change, expected) in changes {
        let mut run = run.clone();
        run.cells.iter_mut().for_each(change);
        let found = flags(&run);
        assert!(found.len() == 1 && found[0].contains(expected), "{expected}: {found:?}");
        let dir = tempfile::tempdir().unwrap();
        let words = ["bench", "--mix", "get=1", "--keys", "100", "--dry-run", "--stores", "map"];
        let words: Vec<_> =
            words.into_iter().take(if found[0].contains("--stores") { 6 } else { 8 }).collect();
        let output = kvbench(dir.path(), &[words, found[0].split(' ').collect()].concat());
        assert!(output.status.success(), "{found:?}: {}", text(&output.stderr));
    }
    let mut compressed = run;
    compressed.cells.iter_mut().for_each(|cell| cell.target.compression = Compression::Lz4);
    assert!(flags(&compressed)[0].ends_with(" --compression lz4"), "{:?}", flags(&compressed));
}

/// The command is of the access that is asked for, and its time counts each policy and each warm-up.
#[test]
fn the_chooser_suggests_a_command_with_its_time() {
    let mut run = mixed([&CALM, &CALM]);
    for mut cell in run.cells.clone() {
        (cell.target.access, cell.id) = (Access::Wire, format!("{}/wire", cell.id));
        fixtures::add(&mut run, cell, &CALM);
    }
    // Nothing is near reads alone. Two stores, five repetitions of 36 s, one policy or three.
    let far = [("reads", "100"), ("access", "over the wire"), ("kill", "1")];
    for (power, time) in [("1", "about 6 min"), ("2", "about 18 min")] {
        let dom = answer(&run, &[&far[..], &[("power", power)]].concat());
        assert!(left(&dom, "full").contains(" --wire "), "{}", left(&dom, "full"));
        assert_eq!(left(&dom, "full-time"), time, "{}", left(&dom, "full"));
    }
}

#[test]
fn the_chooser_says_why_a_store_is_left_out() {
    let mut run = mixed([&CALM, &CALM]);
    run.cells[0].target.persistent = false;
    run.cells[1].target.fsync = None;
    let nothing = [("power", "0"), ("kill", "0")];
    let dom = answer(&run, &nothing);
    let expected = "map is left out: a power cut may lose everything in memory\
                    btree is left out: its durability is not known";
    assert_eq!(left(&dom, "out"), expected);
    let ranking = left(&answer(&run, &[("power", "4"), ("kill", "4")]), "ranking").to_owned();
    assert!(ranking.contains(", in memory") && ranking.contains(", durability unknown"), "{ranking}");
}

#[test]
fn the_page_works_in_a_browser() {
    let (dir, page) = report(&[fixtures::in_process(), fixtures::over_the_wire()], "report.html");
    let copy = dir.path().join("copy.html");
    fs::write(&copy, with_script(&page, USE)).unwrap();
    let output = open(&copy, &dir.path().join("profile"), "1200,900");
    let (dom, log) = (text(&output.stdout), String::from_utf8_lossy(&output.stderr).into_owned());
    let console: Vec<_> = log.lines().filter(|line| line.contains("CONSOLE")).collect();
    assert_eq!(console, [""; 0]);
    assert_eq!(left(&dom, "faults"), "");
    assert_eq!(left(&dom, "scripts"), "3");

    // Highest first, then lowest first; the workload that failed is last both times.
    assert_eq!(left(&dom, "sorted"), "descending,ascending");
    assert_eq!(left(&dom, "ranks"), "4,3,2,1,none");
    assert_eq!(left(&dom, "ranks-again"), "1,2,3,4,none");
    // By latency the best comes first too, which is now the smallest.
    let caption = "Latency p99, lower is better; closed loop: each store at its own highest rate";
    assert_eq!(left(&dom, "caption"), caption);
    assert_eq!(left(&dom, "rows"), "del,get,mixed,scan,set");
    assert_eq!(left(&dom, "latency"), "ascending");
    assert_eq!(left(&dom, "restored"), "true true true");

    // The question that was measured first; then others, by the workloads that are near.
    assert_eq!(left(&dom, "opened"), "50 2 1 256");
    assert!(left(&dom, "opened-reason").contains(" in work of 50% reads"), "{}", left(&dom, "opened-reason"));
    let out = left(&dom, "opened-out");
    assert!(out.contains("sled is left out: a power cut may lose everything under fsync "), "{out}");
    assert_eq!(left(&dom, "far"), "No work within 10 points of 70% reads.");
    assert_eq!(left(&dom, "large"), "Not measured with data larger than memory");
    assert!(left(&dom, "large-out").starts_with("map is left out: needs "), "{}", left(&dom, "large-out"));
    let next = left(&dom, "large-next");
    assert!(next.starts_with("kvbench bench --mix get=0.5,update=0.5 --keys "), "{next}");
    for flag in
        ["--stores map,btree,rocksdb,", "--order uniform", "--threads 1", "--value-bytes 256", "--quick"]
    {
        assert!(next.contains(flag), "{flag}: {next}");
    }
    assert_eq!(left(&dom, "reads"), "map");
    assert_eq!(left(&dom, "reads-order"), "map,btree,lmdb,redb,sled,rocksdb");
    assert_eq!(left(&dom, "writes"), "map");
    assert_eq!(left(&dom, "writes-order"), "map,btree,rocksdb,sled,lmdb,redb");

    // What may lose little is chosen under a policy that does: LMDB and redb lose more under no, sled under each.
    assert_eq!(left(&dom, "loses-little"), "map no,btree no,rocksdb no,lmdb always,redb always");

    assert_eq!(left(&dom, "closed"), "0");
    assert!(left(&dom, "charts").parse::<usize>().unwrap() > 20);
    assert_eq!(left(&dom, "charts-without-words"), "0");
    assert_eq!(left(&dom, "charts-empty"), "0");

    // Two mixed workloads at two levels, each with a chart of throughput and one of latency.
    let kinds: Vec<_> = left(&dom, "kinds").lines().collect();
    let of = |start: &str| kinds.iter().filter(|words| words.starts_with(start)).collect::<Vec<_>>();
    assert_eq!((of("Latency p50 / p99 by kind of ").len(), of("Throughput by kind of ").len()), (4, 4));
    let latency = of("Latency p50 / p99 by kind of mixed: ")[0];
    assert!(latency.contains("50% get: map ") && latency.contains("; 50% update: map "), "{latency}");
    // What failed has no figure here either.
    let scan = of("Throughput by kind of scan, higher is better: ")[0];
    assert!(scan.contains("5% insert: ") && !scan.contains("map"), "{scan}");
}

#[test]
fn no_width_scrolls_sideways() {
    let mut ranked =
        ranking::mixed(&[("rocksdb", "everysec", &CALM), ("lmdb", "always", &CALM)], Some(ranking::SECOND));
    if let Outcome::Measured(measured) = &mut ranked.samples[0].outcome {
        measured.near_floor = Some(true);
    }
    let (dir, page) = report(&[fixtures::in_process(), fixtures::over_the_wire(), ranked], "report.html");
    fs::write(dir.path().join("copy.html"), with_script(&page, USE)).unwrap();
    for width in [320, 390, 420, 768, 1280, 1400, 2560] {
        // A window of a desktop browser has a least width; a frame has none.
        let frame = dir.path().join("frame.html");
        let script = "addEventListener('message', (event) => { document.body.dataset.width = event.data; });";
        let element =
            format!("<iframe src=\"copy.html\" style=\"width:{width}px;height:800px;border:0\"></iframe>");
        fs::write(&frame, format!("<body><script>{script}</script>{element}</body>")).unwrap();
        let output = open(&frame, &dir.path().join("profile"), "2600,900");
        assert_eq!(left(&text(&output.stdout), "width"), format!("window {width}, beyond 0, cut "));
    }
}

/// Once data larger than memory were measured, the engineer's question has an answer.
#[test]
fn the_chooser_names_a_store_where_the_data_say_so() {
    let mut run = fixtures::in_process();
    run.environment.memory_limit_bytes = Some(64 << 20);
    let (dir, page) = report(&[run], "report.html");
    let copy = dir.path().join("copy.html");
    fs::write(&copy, with_script(&page, USE)).unwrap();
    let output = open(&copy, &dir.path().join("profile"), "1200,900");
    let dom = text(&output.stdout);
    assert_eq!(left(&dom, "large"), "rocksdb");
    assert_eq!(left(&dom, "large-writes"), "rocksdb");
    assert!(left(&dom, "large-out").starts_with("map is left out: needs "), "{}", left(&dom, "large-out"));
}

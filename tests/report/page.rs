//! The page in a browser.

use crate::{fixtures, report, text};
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

/// A copy of the report that tests itself.
fn with_script(page: &str) -> String {
    let errors = "<script>window.faults = [];
        addEventListener('error', (event) => faults.push(String(event.message)));
        addEventListener('unhandledrejection', (event) => faults.push(String(event.reason)));
        document.addEventListener('securitypolicyviolation', (event) => faults.push(event.blockedURI));
        </script>";
    let (head, body) = page.split_once("<title>").unwrap();
    let page = format!("{head}{errors}<title>{body}");
    let (before, after) = page.rsplit_once("</body>").unwrap();
    format!("{before}<script>{}</script></body>{after}", include_str!("page.js"))
}

#[test]
fn the_page_works_in_a_browser() {
    let (dir, page) = report(&[fixtures::in_process(), fixtures::over_the_wire()], "report.html");
    let copy = dir.path().join("copy.html");
    fs::write(&copy, with_script(&page)).unwrap();
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
    assert_eq!(left(&dom, "caption"), "Latency p99, lower is better");
    assert_eq!(left(&dom, "rows"), "del,get,mixed,scan,set");
    assert_eq!(left(&dom, "latency"), "ascending");

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
    let (dir, page) = report(&[fixtures::in_process(), fixtures::over_the_wire()], "report.html");
    fs::write(dir.path().join("copy.html"), with_script(&page)).unwrap();
    for width in [320, 420, 768, 1280, 2560] {
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
    fs::write(&copy, with_script(&page)).unwrap();
    let output = open(&copy, &dir.path().join("profile"), "1200,900");
    let dom = text(&output.stdout);
    assert_eq!(left(&dom, "large"), "rocksdb");
    assert_eq!(left(&dom, "large-writes"), "rocksdb");
    assert!(left(&dom, "large-out").starts_with("map is left out: needs "), "{}", left(&dom, "large-out"));
}

//! `--metrics`: what Prometheus reads.

use super::text;
use crate::{
    clients::{output, python, source},
    every_store::{Running, on_every_store},
    frames::exchange,
    support::{PATIENCE, request},
};
#[cfg(feature = "rocksdb")]
use std::collections::BTreeSet;
use std::{
    io::{ErrorKind, Read, Write},
    net::TcpStream,
    process::Command,
};

fn ask(port: u16, request: &str) -> (String, String) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.into(), body.into())
}

/// The value of a sample, which is named with its labels as the server writes them.
fn sample<'b>(body: &'b str, name: &str) -> &'b str {
    let value = body.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.unwrap_or_else(|| panic!("no {name} in {body}"))
}

/// Another parser than ours reads them, and checks each histogram.
#[test]
fn metrics_are_what_prometheus_reads() {
    let Some(python) = python("metrics_are_what_prometheus_reads") else { return };
    on_every_store(|running| {
        let path = if running.is_in_memory() { ":memory:" } else { "other" };
        let (running, port) = Running::start_with_metrics(running.store, path, &[]);
        let mut client = running.connect();
        let pipeline = [request(&["SET", "k", "v"]).repeat(100), request(&["GET", "k"]).repeat(50)];
        exchange(&mut client, &pipeline.concat(), 150);
        text(&mut client, &["INCR", "k"]);
        let (head, body) = ask(port, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.contains("version=0.0.4"), "{head}");
        let read = output(Command::new(&python).arg(source("python/metrics.py")), body.as_bytes());
        for sample in [
            "kvbench_commands_total{command=set} 100",
            "kvbench_commands_total{command=get} 50",
            "kvbench_commands_failed_total{command=incr} 1",
            "kvbench_command_latency_seconds_count{command=get} 50",
            "kvbench_errors_total{code=ERR} 1",
            "kvbench_connected_clients{} 1",
        ] {
            assert!(read.lines().any(|line| line == sample), "no {sample} in {read}");
        }
        // INCR had its commit, in which nothing was written.
        let commits = if running.is_in_memory() { "0" } else { "2" };
        assert!(read.contains(&format!("kvbench_commit_seconds_count{{}} {commits}\n")), "{read}");
        let has_gauges = match running.store {
            "rocksdb" | "rocksdb-blob" | "bitcask" | "fjall" => true,
            // The length of the WAL, which is a file.
            "sqlite" => !running.is_in_memory(),
            _ => false,
        };
        assert_eq!(read.contains("kvbench_engine_"), has_gauges, "{read}");
    });
}

/// What stands between the `kvbench_` of a metric and the end of its name.
#[cfg(feature = "rocksdb")]
fn names(text: &str) -> BTreeSet<&str> {
    let rest = text.split("kvbench_").skip(1);
    rest.map(|rest| rest.split(|c: char| !c.is_ascii_lowercase() && c != '_').next().unwrap()).collect()
}

#[test]
#[cfg(feature = "rocksdb")]
fn the_dashboard_shows_metrics_that_there_are() {
    let (running, port) = Running::start_with_metrics("rocksdb", "data", &["--fsync", "everysec"]);
    text(&mut running.connect(), &["SET", "k", "v"]);
    let (_, body) = ask(port, "GET /metrics HTTP/1.1\r\n\r\n");
    let there = names(&body);
    let shown = names(include_str!("../../../docs/grafana.json"));
    assert!(shown.len() > 20, "{shown:?}");
    let missing: Vec<_> = shown.difference(&there).collect();
    assert!(missing.is_empty(), "{missing:?} not in {there:?}");
}

/// The sizes are whole numbers, and a bound belongs to its bucket.
#[test]
fn a_bucket_of_commit_groups_contains_its_bound() {
    let (running, port) = Running::start_with_metrics("map", "data", &[]);
    text(&mut running.connect(), &["SET", "k", "v"]);
    let (_, body) = ask(port, "GET /metrics HTTP/1.1\r\n\r\n");
    let count = |bound: &str| sample(&body, &format!("kvbench_commit_group_size_bucket{{le=\"{bound}\"}}"));
    assert_eq!(["0", "1", "3", "7", "+Inf"].map(count), ["0", "1", "1", "1", "1"]);
    assert_eq!(sample(&body, "kvbench_commit_group_size_sum"), "1");
}

/// A request for each 1,024 of whose keys there is a commit.
#[test]
fn the_time_of_a_large_del_contains_all_of_its_commits() {
    let (running, port) = Running::start_with_metrics("map", "data", &["--fsync", "always"]);
    let mut client = running.connect();
    let keys: Vec<String> = (0..=20 * 1024).map(|number| number.to_string()).collect();
    let pairs = keys.iter().flat_map(|key| [key.as_str(), "v"]);
    text(&mut client, &["MSET"].into_iter().chain(pairs).collect::<Vec<_>>());
    text(&mut client, &["CONFIG", "RESETSTAT"]);
    text(&mut client, &["DEL"].into_iter().chain(keys.iter().map(String::as_str)).collect::<Vec<_>>());
    let (_, body) = ask(port, "GET /metrics HTTP/1.1\r\n\r\n");
    assert_eq!(sample(&body, "kvbench_commit_seconds_count"), "21");
    let seconds = |name: &str| sample(&body, name).parse::<f64>().unwrap();
    let commits = seconds("kvbench_commit_seconds_sum");
    for name in ["command_seconds_total", "command_latency_seconds_sum"] {
        let del = seconds(&format!("kvbench_{name}{{command=\"del\"}}"));
        assert!(del >= commits, "{name}: {del} s, with commits of {commits} s");
    }
}

/// A SET shares the first commit of a DEL, and another one its second commit.
#[test]
fn the_time_of_a_large_del_is_not_that_of_its_neighbours() {
    let (running, port) = Running::start_with_metrics("map", "data", &["--fsync", "always"]);
    let mut client = running.connect();
    let set = request(&["SET", "k", "v"]);
    let del = request(&[&["DEL"][..], &["k"; 1025]].concat());
    exchange(&mut client, &[&set[..], &del, &set].concat(), 3);
    let (_, body) = ask(port, "GET /metrics HTTP/1.1\r\n\r\n");
    assert_eq!(sample(&body, "kvbench_commit_seconds_count"), "2");
    let seconds = |name: &str, command: &str| {
        sample(&body, &format!("kvbench_{name}{{command=\"{command}\"}}")).parse::<f64>().unwrap()
    };
    let (latency, share) = ("command_latency_seconds_sum", "command_seconds_total");
    let (set, del) = (seconds(latency, "set"), seconds(latency, "del"));
    assert!(seconds(share, "set") * 2.0 <= set, "more than half of {set} s: {body}");
    assert!(del >= set, "{del} s, with steps of {set} s");
    // The time of both steps, each of which has a SET, is divided among the three commands.
    let all = seconds(share, "set") + seconds(share, "del");
    assert!(all <= set + 1e-6, "{all} s of {set} s: {body}");
}

#[test]
fn other_requests_are_turned_away() {
    let (_running, port) = Running::start_with_metrics("map", ":memory:", &[]);
    for (request, status) in [
        ("GET / HTTP/1.1\r\n\r\n", "404"),
        ("POST /metrics HTTP/1.1\r\n\r\n", "405"),
        ("nonsense\r\n\r\n", "405"),
    ] {
        let (head, _) = ask(port, request);
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{request:?}: {head}");
    }
}

/// The engine holds up the scrape.
#[test]
#[cfg(feature = "fault-injection")]
fn connections_and_other_scrapes_do_not_wait_for_a_slow_scrape() {
    use crate::support::wait_until;
    use std::{fs, thread};
    let (running, port) = Running::start_with_metrics("slow-scan", "data", &["--threads", "1"]);
    let [hold, held] = ["hold", "held"].map(|extension| running.data().with_extension(extension));
    fs::write(&hold, "").unwrap();
    let scrape = thread::spawn(move || ask(port, "GET /metrics HTTP/1.1\r\n\r\n"));
    wait_until("the scrape reads nothing of the engine", || held.exists());
    let mut client = running.connect();
    client.send("PING\r\n");
    client.expect("+PONG\r\n");
    assert!(ask(port, "GET / HTTP/1.1\r\n\r\n").0.starts_with("HTTP/1.1 404 "));
    fs::remove_file(&hold).unwrap();
    let (head, body) = scrape.join().unwrap();
    assert!(head.starts_with("HTTP/1.1 200 ") && body.contains("kvbench_disk_bytes "), "{head}{body}");
}

/// One client sends half of a request, another does not read; many more do nothing.
#[test]
fn scrapes_do_not_wait_for_idle_clients() {
    let (running, port) = Running::start_with_metrics("map", ":memory:", &[]);
    let connect = |bytes: &str| {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.write_all(bytes.as_bytes()).unwrap();
        stream.set_nonblocking(true).unwrap();
        stream
    };
    let first = connect("GET /met");
    let _unread = connect("GET /metrics HTTP/1.1\r\n\r\n");
    assert!(ask(port, "GET /metrics HTTP/1.1\r\n\r\n").0.starts_with("HTTP/1.1 200 "));
    let answered_before = (&first).read(&mut [0]).map_err(|error| error.kind());
    assert_eq!(answered_before, Err(ErrorKind::WouldBlock), "the first client was waited for");
    let _many: Vec<_> = (0..100).map(|_| connect("")).collect();
    assert!(ask(port, "GET /metrics HTTP/1.1\r\n\r\n").0.starts_with("HTTP/1.1 200 "));
    running.connect().call(&["PING"]);
}

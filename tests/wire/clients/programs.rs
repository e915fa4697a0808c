//! redis-cli, redis-benchmark and memtier_benchmark.

use super::{has, output, port};
use crate::{
    every_store::{Running, in_memory, on_every_store},
    support::request,
};
use kvbench::engine::Kind;
use std::{
    collections::HashSet,
    io::{BufRead, BufReader},
    process::{Command, Stdio},
};

/// As in docs/clients.md.
pub const NAMES: [&str; 3] = ["redis-cli", "redis-benchmark", "memtier_benchmark"];

#[test]
fn redis_cli_runs_a_session_in_both_protocols() {
    if !has("redis-cli", "redis_cli_runs_a_session_in_both_protocols") {
        return;
    }
    const SESSION: &str = "PING\nset k \"a b\\x00\"\nGET k\nget none\nmget k none\nincr n\nincr k\nnosuch x\n\
        config get maxmemory\nkeys n*\ndbsize\nclient getname\ndel k n\nflushdb\n";
    const START: &str = "PONG\nOK\n\"a b\\x00\"\n(nil)\n1) \"a b\\x00\"\n2) (nil)\n(integer) 1\n\
        (error) ERR value is not an integer or out of range\n\
        (error) ERR unknown command 'nosuch', with args beginning with: 'x' \n";
    const END: &str = "1) \"n\"\n(integer) 2\n(nil)\n(integer) 2\nOK\n";
    on_every_store(|running| {
        for (flag, settings) in
            [("-2", "1) \"maxmemory\"\n2) \"0\"\n"), ("-3", "1# \"maxmemory\" => \"0\"\n")]
        {
            let mut cli = Command::new("redis-cli");
            cli.args([flag, "--no-raw", "-p", &port(running)]);
            // It ends an error with an empty line.
            let printed = output(&mut cli, SESSION.as_bytes()).replace("\n\n", "\n");
            assert_eq!(printed, [START, settings, END].concat(), "redis-cli {flag}");
        }
    });
}

#[test]
fn redis_cli_runs_a_session_with_a_password() {
    if !has("redis-cli", "redis_cli_runs_a_session_with_a_password") {
        return;
    }
    let running = in_memory(&["--requirepass", "a long secret"]);
    let session = |flags: &[&str]| {
        let mut cli = Command::new("redis-cli");
        cli.args(["--no-raw", "--no-auth-warning", "-p", &port(&running)]).args(flags);
        output(&mut cli, b"set k v\nget k\ndel k\n").replace("\n\n", "\n")
    };
    let served = "OK\n\"v\"\n(integer) 1\n";
    assert_eq!(session(&["-a", "a long secret"]), served);
    assert_eq!(session(&["-3", "-a", "a long secret"]), served);
    assert_eq!(session(&["--user", "default", "--pass", "a long secret"]), served);
    let refused = "(error) NOAUTH Authentication required.\n";
    assert_eq!(session(&[]), refused.repeat(3));
    let wrong = session(&["-a", "a long secre"]);
    assert!(wrong.ends_with(&refused.repeat(3)), "{wrong}");
}

#[test]
fn redis_cli_loads_a_file_of_requests() {
    if !has("redis-cli", "redis_cli_loads_a_file_of_requests") {
        return;
    }
    on_every_store(|running| {
        let requests: Vec<u8> = (0..5000).flat_map(|n| request(&["SET", &format!("k{n}"), "v"])).collect();
        let printed = output(Command::new("redis-cli").args(["--pipe", "-p", &port(running)]), &requests);
        assert!(printed.ends_with("errors: 0, replies: 5000\n"), "{printed}");
        running.connect().call(&["FLUSHDB"]);
    });
}

/// Starts redis-cli in a mode that asks again and again, and returns the first `count` lines it prints.
fn first_lines(running: &Running, args: &[&str], count: usize) -> Vec<String> {
    let mut cli = Command::new("redis-cli");
    cli.args(["-p", &port(running)]).args(args).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut process = cli.spawn().unwrap();
    let lines = BufReader::new(process.stdout.take().unwrap()).lines().take(count);
    let lines = lines.map(Result::unwrap).collect();
    process.kill().unwrap();
    process.wait().unwrap();
    lines
}

#[test]
fn redis_cli_shows_statistics_and_latency() {
    if !has("redis-cli", "redis_cli_shows_statistics_and_latency") {
        return;
    }
    on_every_store(|running| {
        // Stays connected, so that the number of clients does not depend on when the server notices an end.
        let mut client = running.connect();
        client.call(&["MSET", "a", "1", "b", "2"]);
        let lines = first_lines(running, &["--stat", "-i", "0.01"], 4);
        assert!(lines[0].contains("data") && lines[1].contains("keys"), "{lines:?}");
        let fields: Vec<_> = lines[3].split_whitespace().collect();
        // Keys, memory, clients, blocked clients, requests and their growth, connections.
        let [keys, memory, clients, blocked, requests, _, connections] = fields[..] else {
            panic!("{lines:?}")
        };
        let keys_are_known = Kind::find(running.store).unwrap().info.capabilities.constant_count;
        assert_eq!(keys, if keys_are_known { "2" } else { "0" }, "{lines:?}");
        assert!(memory.ends_with(['B', 'K', 'M', 'G']), "{lines:?}");
        assert_eq!((clients, blocked), ("2", "0"), "{lines:?}");
        assert!(requests.parse::<u64>().unwrap() > 1 && connections == "2", "{lines:?}");
        // Least, most and mean in milliseconds, and how many.
        let latency = output(
            Command::new("redis-cli").args(["-p", &port(running), "--latency", "--raw", "-i", "0.05"]),
            b"",
        );
        let numbers: Vec<f64> = latency.split_whitespace().map(|number| number.parse().unwrap()).collect();
        assert!(numbers.len() == 4 && numbers[3] >= 1.0, "{latency}");
        client.call(&["FLUSHDB"]);
    });
}

#[test]
fn redis_cli_goes_through_all_keys() {
    if !has("redis-cli", "redis_cli_goes_through_all_keys") {
        return;
    }
    on_every_store(|running| {
        let pairs: Vec<String> = (0..500).flat_map(|n| [format!("k{n}"), "v".repeat(1 + n % 300)]).collect();
        running.connect().call(&[&["MSET".to_owned()][..], &pairs].concat());
        let cli =
            |args: &[&str]| output(Command::new("redis-cli").args(["-p", &port(running)]).args(args), b"");
        let found: HashSet<String> = cli(&["--scan", "--pattern", "k4*"]).lines().map(String::from).collect();
        let expected: HashSet<String> =
            (0..500).map(|n| format!("k{n}")).filter(|key| key.starts_with("k4")).collect();
        assert_eq!(found, expected);
        let big = cli(&["--bigkeys"]);
        assert!(big.contains("Sampled 500 keys in the keyspace!"), "{big}");
        assert!(big.contains("k299") && big.contains("has 300 bytes"), "{big}");
        let memory = cli(&["--memkeys"]);
        assert!(memory.contains("Sampled 500 keys in the keyspace!"), "{memory}");
        assert!(memory.contains("500 strings with "), "{memory}");
        running.connect().call(&["FLUSHDB"]);
    });
}

/// The tests of redis-benchmark that are about strings, and the number of figures they print.
const STRING_TESTS: (&str, usize) = ("ping,set,get,incr,mset", 6);

#[test]
fn redis_benchmark_gets_no_error() {
    if !has("redis-benchmark", "redis_benchmark_gets_no_error") {
        return;
    }
    on_every_store(|running| {
        for protocol in [&[][..], &["-3"]] {
            let mut benchmark = Command::new("redis-benchmark");
            // -q prints one line a test; an error reply ends it.
            benchmark.args(["-q", "-n", "2000", "-P", "16", "-r", "100", "-t", STRING_TESTS.0]);
            let printed = output(benchmark.args(protocol).args(["-p", &port(running)]), b"");
            assert_eq!(printed.matches("requests per second").count(), STRING_TESTS.1, "{printed}");
        }
    });
}

/// Requests of one's own, `__rand_int__` for a number.
const REQUESTS: &[&str] = &[
    "append k:__rand_int__ x",
    "bitcount k:__rand_int__",
    "getrange k:__rand_int__ 0 1",
    "incrby n:__rand_int__ 2",
    "set k:__rand_int__ v ex 100",
    "setbit k:__rand_int__ 7 1",
    "setrange k:__rand_int__ 2 x",
    "strlen k:__rand_int__",
];

#[test]
fn redis_benchmark_sends_requests_of_ones_own() {
    if !has("redis-benchmark", "redis_benchmark_sends_requests_of_ones_own") {
        return;
    }
    let running = in_memory(&[]);
    for request in REQUESTS {
        let words: Vec<_> = request.split(' ').collect();
        let mut benchmark = Command::new("redis-benchmark");
        benchmark.args(["-q", "-n", "2000", "-P", "16", "-r", "100", "-p", &port(&running)]).args(&words);
        let printed = output(&mut benchmark, b"");
        assert_eq!(printed.matches("requests per second").count(), 1, "{request}: {printed}");
    }
}

#[test]
fn memtier_benchmark_gets_no_error() {
    if !has("memtier_benchmark", "memtier_benchmark") {
        return;
    }
    on_every_store(|running| {
        let mut benchmark = Command::new("memtier_benchmark");
        benchmark.args(["-s", "127.0.0.1", "-p", &port(running), "--hide-histogram", "--ratio", "1:1"]);
        benchmark.args(["--requests", "200", "--clients", "2", "--threads", "2", "--pipeline", "8"]);
        let printed = output(&mut benchmark, b"");
        assert!(printed.contains("Totals"), "{printed}");
        running.connect().call(&["FLUSHDB"]);
    });
}

//! What is counted: INFO commandstats, errorstats and latencystats, LATENCY HISTOGRAM, SLOWLOG.

use super::text;
use crate::{
    every_store::{in_memory, on_every_store},
    frames::{ask, exchange},
    support::{Client, request},
};

/// A field of a line of INFO.
fn field(client: &mut Client, section: &str, line: &str, field: &str) -> Option<String> {
    let info = text(client, &["INFO", section]);
    let fields = info.lines().find_map(|text| text.strip_prefix(line)?.strip_prefix(':'))?;
    let found = fields.split(',').find_map(|text| text.strip_prefix(field)?.strip_prefix('='));
    found.map(str::to_owned)
}

fn counter(client: &mut Client, command: &str, name: &str) -> u64 {
    let line = format!("cmdstat_{command}");
    field(client, "commandstats", &line, name).map_or(0, |count| count.parse().unwrap())
}

#[test]
fn every_command_of_a_pipeline_is_counted_under_its_own_name() {
    on_every_store(|running| {
        let mut client = running.connect();
        let pipeline = [
            request(&["SET", "k", "v"]).repeat(300),
            request(&["GET", "k"]).repeat(200),
            request(&["SET", "k", "v"]),
            request(&["GET", "k"]),
            request(&["INCR", "k"]).repeat(7),
            request(&["GET"]).repeat(3),
            request(&["NOSUCH"]).repeat(2),
            request(&["MGET", "k", "none"]),
        ];
        exchange(&mut client, &pipeline.concat(), 515);
        for (command, calls, failed, rejected) in
            [("set", 301, 0, 0), ("get", 201, 0, 3), ("incr", 7, 7, 0), ("mget", 1, 0, 0)]
        {
            let counted =
                ["calls", "failed_calls", "rejected_calls"].map(|name| counter(&mut client, command, name));
            assert_eq!(counted, [calls, failed, rejected], "{command}");
        }
        assert_eq!(counter(&mut client, "del", "calls"), 0);
        let errors = field(&mut client, "errorstats", "errorstat_ERR", "count");
        assert_eq!(errors.as_deref(), Some("12"));
        let p99 = field(&mut client, "latencystats", "latency_percentiles_usec_get", "p99").unwrap();
        assert!(p99.parse::<f64>().unwrap() > 0.0, "{p99}");
        let histogram = text(&mut client, &["LATENCY", "HISTOGRAM", "get", "nosuch"]);
        assert!(histogram.starts_with("*2\r\n$3\r\nget\r\n*4\r\n$5\r\ncalls\r\n:201\r\n"), "{histogram}");
        assert!(histogram.ends_with(":201\r\n"), "{histogram}");
        ask(&mut client, &["CONFIG", "RESETSTAT"]);
        assert_eq!(counter(&mut client, "get", "calls"), 0);
        assert_eq!(field(&mut client, "errorstats", "errorstat_ERR", "count"), None);
    });
}

#[test]
fn protocol_errors_are_counted_as_errors() {
    let running = in_memory(&[]);
    let mut client = running.connect();
    let shown = "+OK\r\n-ERR Protocol error: expected '$', got ':'\r\n";
    for (count, mode, replies) in [("1", "ON", shown), ("2", "OFF", "")] {
        let mut violator = running.connect();
        violator.send([request(&["CLIENT", "REPLY", mode]), b"*1\r\n:4\r\n".to_vec()].concat());
        violator.expect(replies);
        violator.expect_closed();
        assert_eq!(field(&mut client, "errorstats", "errorstat_ERR", "count").as_deref(), Some(count));
    }
}

#[test]
fn what_needs_the_password_is_counted_as_rejected() {
    let running = in_memory(&["--requirepass", "secret"]);
    let mut client = running.connect();
    assert_eq!(ask(&mut client, &["GET", "k"]), b"-NOAUTH Authentication required.\r\n");
    ask(&mut client, &["AUTH", "secret"]);
    let counted = ["calls", "rejected_calls"].map(|name| counter(&mut client, "get", name));
    assert_eq!(counted, [0, 1]);
    assert_eq!(field(&mut client, "errorstats", "errorstat_NOAUTH", "count").as_deref(), Some("1"));
}

#[test]
fn slow_commands_are_listed_the_newest_first_and_shortened() {
    let running = in_memory(&[]);
    let mut client = running.connect();
    ask(&mut client, &["CLIENT", "SETNAME", "me"]);
    ask(&mut client, &["CONFIG", "SET", "slowlog-log-slower-than", "0", "slowlog-max-len", "3"]);
    ask(&mut client, &["SLOWLOG", "RESET"]);
    let long = "x".repeat(200);
    let many: Vec<String> = (0..50).map(|n| n.to_string()).collect();
    let many: Vec<&str> = ["MGET"].into_iter().chain(many.iter().map(String::as_str)).collect();
    ask(&mut client, &["SET", "k", &long]);
    ask(&mut client, &many);
    ask(&mut client, &["AUTH", "default", "secret"]);
    ask(&mut client, &["CONFIG", "SET", "slowlog-log-slower-than", "-1"]);
    let entries = text(&mut client, &["SLOWLOG", "GET"]);
    assert!(entries.starts_with("*3\r\n*6\r\n"), "{entries}");
    assert!(!entries.contains("secret"), "{entries}");
    let place = |text: &str| entries.find(text).unwrap_or_else(|| panic!("no {text} in {entries}"));
    let (mget, set) = (place("\r\nMGET\r\n"), place("\r\nSET\r\n$1\r\nk\r\n"));
    assert!(mget < set, "{entries}");
    place(&format!("{}... (72 more bytes)", &long[..128]));
    place("... (20 more arguments)");
    let address = client.stream.local_addr().unwrap();
    place(&format!("{address}\r\n$2\r\nme\r\n"));
    // -1 lists all, and switches the log off as a threshold.
    ask(&mut client, &["GET", "k"]);
    assert_eq!(ask(&mut client, &["SLOWLOG", "LEN"]), b":3\r\n");
    assert!(text(&mut client, &["SLOWLOG", "GET", "1"]).starts_with("*1\r\n"));
    ask(&mut client, &["SLOWLOG", "RESET"]);
    assert_eq!(ask(&mut client, &["SLOWLOG", "LEN"]), b":0\r\n");
}

#[test]
fn commits_are_counted_with_their_groups() {
    on_every_store(|running| {
        let mut client = running.connect();
        for _ in 0..5 {
            ask(&mut client, &["SET", "k", "v"]);
        }
        let info = text(&mut client, &["INFO", "persistence"]);
        let commits = if running.is_in_memory() { 0 } else { 5 };
        assert!(info.contains(&format!("\r\ncommits:{commits}\r\n")), "{info}");
        let mean = if running.is_in_memory() { "0.00" } else { "1.00" };
        assert!(info.contains(&format!("\r\ncommit_group_size_mean:{mean}\r\n")), "{info}");
    });
}

//! `bench --mix --ttl`: values that expire, over the wire and in process.

use crate::support::bench::{bench, measurement, result_of, stderr};
use kvbench::bench::result::{Commits, Measurement, Operation, Run};

const ACCESSES: [&[&str]; 2] = [&[], &["--wire"]];

fn flags<'a>(access: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    let flags = ["--stores", "map", "--fsync", "no", "--keys", "2000", "--threads", "2", "--force"];
    [&flags[..], access, more].concat()
}

fn only(run: &Run) -> &Measurement {
    assert_eq!(run.samples.len(), 1, "the no-op engine stores no expiration times");
    let measured = measurement(&run.samples[0].outcome);
    assert!(measured.is_sound(), "{:?}", measured.first_fault);
    measured
}

fn reads(measured: &Measurement) -> u64 {
    let count = |kind| measured.by_operation.get(&kind).map_or(0, |latency| latency.count);
    count(Operation::Get) + count(Operation::ReadModifyWrite)
}

#[test]
fn reads_of_expired_keys_are_counted_and_expired_keys_are_removed() {
    let dir = tempfile::tempdir().unwrap();
    for access in ACCESSES {
        let mix = "get=0.7,get-miss=0.1,update=0.1,read-modify-write=0.05,insert=0.05";
        let more = ["--mix", mix, "--ttl", "300ms", "--seconds", "2", "--rate", "500"];
        let run = result_of(dir.path(), &flags(access, &more));
        let measured = only(&run);
        let (hits, expired) = (measured.hits.unwrap(), measured.expired_reads.unwrap());
        assert_eq!(hits + expired, reads(measured), "{access:?}");
        assert!(hits > 0 && expired > 0, "{access:?}: {hits} hits, {expired} expired");
        assert!(measured.by_operation[&Operation::GetMiss].count > 0, "{access:?}");
        assert!(measured.expired_keys.unwrap() > 0, "{access:?}");
        assert!(
            measured.keys_after.unwrap() < measured.keys_before.unwrap(),
            "{access:?}: keys were removed"
        );
        assert_eq!(run.cells[0].workload.ttl_ms, Some(300));
        assert!(run.cells[0].table.ends_with("; values expire after 300 ms"), "{}", run.cells[0].table);
        let commits = if access.is_empty() { Commits::Groups } else { Commits::Own };
        assert_eq!(run.cells[0].target.commits, commits);
    }
}

#[test]
fn values_that_live_longer_than_the_run_are_found() {
    let dir = tempfile::tempdir().unwrap();
    for access in ACCESSES {
        let more = ["--mix", "get=0.5,update=0.5", "--ttl", "30d", "--operations", "4000"];
        let output = bench(dir.path(), &flags(access, &more));
        assert!(output.status.success(), "{access:?}: {}", stderr(&output));
        let table = String::from_utf8(output.stdout).unwrap();
        assert!(
            table.contains(
                "expired: map: 0.0% of reads found that the key had expired; 0 expired keys were removed"
            ),
            "{access:?}: {table}"
        );
        let run = crate::support::bench::read(dir.path());
        let measured = only(&run);
        let counts = (measured.hits, measured.expired_reads, measured.expired_keys, measured.keys_after);
        assert_eq!(counts, (Some(reads(measured)), Some(0), Some(0), Some(2000)), "{access:?}");
        assert_eq!(measured.verified_values, Some(2000), "{access:?}");
    }
}

#[test]
fn result_without_a_time_to_live_has_none_of_its_fields() {
    let dir = tempfile::tempdir().unwrap();
    result_of(dir.path(), &flags(&[], &["--mix", "get=0.5,update=0.5", "--operations", "100"]));
    let text = std::fs::read_to_string(dir.path().join("result.json")).unwrap();
    for field in ["ttl_ms", "hits", "expired_reads", "expired_keys"] {
        assert!(!text.contains(&format!("\"{field}\"")), "{field}");
    }
}

#[test]
fn times_to_live_without_a_meaning_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let update = ["--mix", "get=0.9,update=0.1"];
    let cases: &[(&[&str], &str)] = &[
        (&[&update[..], &["--ttl", "0"]].concat(), "it must be a time above 0, such as"),
        (&[&update[..], &["--ttl", "0.1ms"]].concat(), "it must be a time from 1ms to 3650d"),
        (&[&update[..], &["--ttl", "3651d"]].concat(), "it must be a time from 1ms to 3650d"),
        (&[&update[..], &["--ttl", "soon"]].concat(), "such as 0.5 (seconds), 30s or 5m"),
        (&["--suite", "ycsb", "--ttl", "30s"], "--ttl"),
        (&["--mix", "get=1", "--ttl", "30s"], "add update, insert or read-modify-write"),
        (&["--mix", "scan=0.5,update=0.5", "--ttl", "30s", "--stores", "btree"], "leave out scan or --ttl"),
        (&["--mix", "update=0.5,delete=0.5", "--ttl", "30s"], "leave out delete or --ttl"),
        (&[&update[..], &["--ttl", "30s", "--commits", "own"]].concat(), "use --commits groups"),
        (&[&update[..], &["--ttl", "30s", "--stores", "nothing"]].concat(), "--stores nothing"),
    ];
    for (arguments, word) in cases {
        let output = bench(dir.path(), arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(stderr(&output).contains(word), "{arguments:?}: {}", stderr(&output));
        assert!(!dir.path().join("result.json").exists(), "{arguments:?}");
    }
}

//! Tests that calibration detects a wrong value of any metric.

use super::*;
use crate::{
    bench::{
        calibrate::experiments,
        result::{
            FileSize, Latency, Operation,
            soak::{self, Soak},
        },
    },
    engine::synthetic::calibration::{Call, CallKind, ProcessMemory},
};
use std::collections::BTreeMap;

const MS: u64 = 1_000_000;

/// Returns records as the calibration engine writes them: operations of 1 ms that start every `period` milliseconds,
/// first those of the load, then those of two cells, each between quiesce phases. Every other operation is a write, and
/// two writes make a commit.
fn records(experiment: &Experiment, period: u64) -> Vec<Record> {
    let operations = experiment.cells[0].workload.operations.unwrap_or(20).min(20_000);
    let modifies = experiment.cells[0].workload.mix.contains_key(&Operation::ReadModifyWrite);
    let kinds: &[CallKind] = match modifies {
        true => &[CallKind::Read, CallKind::Update, CallKind::Insert, CallKind::Delete, CallKind::Scan],
        false => &[CallKind::Read, CallKind::Update],
    };
    // A read-modify-write, one of four kinds, makes two calls.
    let calls = if modifies { operations * 5 / 4 } else { operations };
    let length = (calls * period + 2) * MS;
    let span = |number: u64| {
        let begin = 2 * MS + number * length;
        let settle = begin + calls * period * MS;
        let calls = (0..calls).map(|call| Call {
            begin: begin + call * period * MS,
            end: begin + call * period * MS + MS,
            commit: (call % 2 == 1).then_some(call / 4 + 1),
            kind: kinds[call as usize % kinds.len()],
            thread: call % 2,
        });
        Span {
            calls: calls.collect(),
            syncs: vec![begin + 20 * MS, begin + 50 * MS],
            deletes: (0..operations).map(|call| begin + (call * period + 1) * MS).collect(),
            found: 600,
            absent: operations + 400,
            cpu_ns: operations * MS / 2,
            process_cpu_ns: (0, operations * MS),
            user_bytes: 1 << 20,
            written_bytes: 0,
            length_bytes: (9 << 20, 6 << 20),
            used_bytes: (7 << 20, 6 << 20),
            alive_bytes: 1 << 20,
            memory: ProcessMemory::default(),
            settle: (settle, settle + MS),
        }
    };
    let end = 5 * length;
    let first = Record {
        open: (0, MS),
        spans: (0..4).map(span).collect(),
        memory: ProcessMemory::default(),
        close: (end, end + 5 * MS),
    };
    let again = Record {
        open: (end + 6 * MS, end + 9 * MS),
        close: (end + 10 * MS, end + 11 * MS),
        ..Record::default()
    };
    vec![first, again]
}

/// Returns measurements and engine records that agree: every metric has its expected value, except for `broken`, whose
/// value is multiplied by `scale`. `period` is as in [`records`].
fn evidence_every(experiment: &Experiment, period: u64, scale: f64, broken: &str) -> Evidence {
    let records = records(experiment, period);
    let empty = experiment.cells.iter().map(|_| Measurement::default()).collect();
    let mut evidence = Evidence { measurements: empty, records, end: 100_000 * MS };
    // The first call of `judge` yields the expected values; the measurements are then built from them.
    let truths = judge(experiment, &evidence);
    for (cell, measurement) in experiment.cells.iter().zip(&mut evidence.measurements) {
        let truth = |column: &str| {
            let found = truths.iter().find(|f| f.workload == cell.workload.name && f.column == column);
            let scale = if column == broken { scale } else { 1.0 };
            found.map(|found| found.truth * scale)
        };
        *measurement = answered(&truth);
    }
    evidence
}

/// Returns [`evidence_every`] of operations that start every 10 ms.
fn evidence(experiment: &Experiment, scale: f64, broken: &str) -> Evidence {
    evidence_every(experiment, 10, scale, broken)
}

/// Returns a measurement with the value `truth(column)` of each metric.
fn answered(truth: &dyn Fn(&str) -> Option<f64>) -> Measurement {
    let whole = |column: &str| truth(column).map(|value| value.round() as u64);
    let size = |length: &str, blocks: &str, used: &str| {
        Some(FileSize {
            length_bytes: whole(length)?,
            block_bytes: whole(blocks).unwrap_or(0),
            used_bytes: whole(used)?,
        })
    };
    let time = |column: &str| truth(column).unwrap_or(0.0);
    Measurement {
        operations: whole("operations").unwrap_or(0),
        seconds: time("seconds"),
        throughput: time("throughput_per_second"),
        latency: Latency {
            count: 10_000,
            mean_us: time("mean_us"),
            p50_us: time("p50_us"),
            p90_us: time("p90_us"),
            p99_us: time("p99_us"),
            p999_us: time("p999_us"),
            max_us: time("max_us"),
            p9999_us: truth("p9999_us"),
            ..Latency::default()
        },
        by_operation: kinds(truth),
        timeline: vec![whole("timeline").unwrap_or(0)],
        cpu_us_per_operation: truth("cpu_us_per_operation"),
        peak_memory_bytes: whole("peak_memory_bytes"),
        anonymous_bytes: whole("anonymous_bytes"),
        mapped_bytes: whole("mapped_bytes"),
        user_bytes: whole("user_bytes").unwrap_or(0),
        written_bytes: whole("written_bytes"),
        write_calls: whole("write_calls"),
        device_bytes: whole("device_bytes"),
        write_amplification: truth("write_amplification"),
        device_write_amplification: truth("device_write_amplification"),
        device_read_bytes_per_get: truth("device_read_bytes_per_get"),
        device_reads_per_get: truth("device_reads_per_get"),
        disk_bytes: whole("disk_bytes"),
        space_amplification: truth("space_amplification"),
        live_size: size("live length", "live blocks", "live_bytes"),
        settled_size: size("settled length", "settled blocks", "disk_bytes"),
        closed_size: size("closed length", "", "closed_bytes"),
        unstarted_operations: whole("unstarted_operations").unwrap_or(0),
        timer_syncs: whole("timer_syncs"),
        hits: whole("hits"),
        expired_reads: whole("expired_reads"),
        expired_keys: whole("expired_keys"),
        allocations: whole("allocations"),
        allocated_bytes: whole("allocated_bytes"),
        instructions: whole("instructions"),
        settle_seconds: truth("settle_seconds"),
        load_seconds: truth("load_seconds"),
        close_seconds: truth("close_seconds"),
        reopen_seconds: truth("reopen_seconds"),
        recovery_seconds: truth("recovery_seconds"),
        soak: soak_of(truth),
        ..Measurement::default()
    }
}

/// Returns a soak of one second with the expected values of its series; `None` without any.
fn soak_of(truth: &dyn Fn(&str) -> Option<f64>) -> Option<Soak> {
    truth("soak operations")?;
    let series = [
        (soak::OPERATIONS, "soak operations"),
        (soak::P50, "soak p50_us"),
        (soak::P99, "soak p99_us"),
        (soak::MAX, "soak max_us"),
        ("cpu_ms/driver", "soak cpu_ms"),
        (soak::WRITTEN, "soak written_bytes"),
        (soak::FILES, "soak file_bytes"),
        (soak::ANONYMOUS, "soak anonymous_bytes"),
        (soak::RESIDENT, "soak resident_bytes"),
        ("engine/operations", "soak gauge"),
    ];
    let series = series.map(|(name, column)| (name.to_owned(), vec![truth(column)]));
    Some(Soak { series: series.into(), backlogs: Vec::new() })
}

/// Returns the latency of each kind of operation that is checked separately, or one entry with the total count.
fn kinds(truth: &dyn Fn(&str) -> Option<f64>) -> BTreeMap<Operation, Latency> {
    let of = |kind: &str| {
        let figure = |column: &str| truth(&format!("{kind} {column}")).unwrap_or(0.0);
        Latency {
            count: figure("count").round() as u64,
            mean_us: figure("mean_us"),
            p50_us: figure("p50_us"),
            p90_us: figure("p90_us"),
            p99_us: figure("p99_us"),
            p999_us: figure("p999_us"),
            max_us: figure("max_us"),
            ..Latency::default()
        }
    };
    match truth("by kind") {
        Some(count) => {
            [(Operation::Get, Latency { count: count.round() as u64, ..Latency::default() })].into()
        }
        None => {
            let kinds = [
                (Operation::Get, "get"),
                (Operation::Update, "update"),
                (Operation::Insert, "insert"),
                (Operation::Delete, "delete"),
                (Operation::Scan, "scan"),
                (Operation::ReadModifyWrite, "read-modify-write"),
            ];
            kinds.map(|(kind, name)| (kind, of(name))).into()
        }
    }
}

fn wrong(experiment: &Experiment, evidence: &Evidence) -> Vec<&'static str> {
    let figures = judge(experiment, evidence);
    figures.iter().filter(|figure| !figure.is_true()).map(|figure| figure.column).collect()
}

#[test]
fn each_column_that_is_wrong_is_found_and_no_other() {
    let mut judged = std::collections::HashSet::new();
    for experiment in experiments::all() {
        assert_eq!(wrong(&experiment, &evidence(&experiment, 1.0, "")), [""; 0], "{}", experiment.name);
        let figures = judge(&experiment, &evidence(&experiment, 1.0, ""));
        for (column, ..) in columns() {
            if !figures.iter().any(|figure| figure.column == column) {
                continue;
            }
            judged.insert(column);
            let found = wrong(&experiment, &evidence(&experiment, 0.5, column));
            assert!(found.contains(&column), "half of {column}: {found:?}");
            assert!(found.iter().all(|other| *other == column), "half of {column}: {found:?}");
        }
    }
    for (column, ..) in columns() {
        assert!(judged.contains(column), "{column} is never judged");
    }
}

/// No value is allowed whatever it is, and none of twenty times the truth is called true, although the machine was so
/// busy that such latencies are possible: between two operations of 1 ms each lies a time of 99 ms.
#[test]
fn ranges_are_finite_and_nothing_far_from_the_truth_is_true() {
    for experiment in experiments::all() {
        let figures = judge(&experiment, &evidence_every(&experiment, 100, 1.0, ""));
        for figure in &figures {
            let ends = [*figure.allowed.start(), *figure.allowed.end(), figure.decided_to];
            assert!(ends.iter().all(|end| end.is_finite()), "{}: {ends:?}", figure.name());
            let evidence = evidence_every(&experiment, 100, 20.0, figure.column);
            let far = judge(&experiment, &evidence).into_iter().filter(|far| far.column == figure.column);
            far.for_each(|far| assert!(!far.is_true(), "{} is {:?}", far.name(), far.measured));
        }
    }
}

fn experiment_of(subject: Subject) -> Experiment {
    experiments::all().into_iter().find(|experiment| experiment.subject == subject).unwrap()
}

/// A measurement that confuses reads and writes is detected, because each kind has its own expected values.
#[test]
fn kinds_are_judged_apart() {
    let kinds = experiment_of(Subject::Kinds);
    let mut evidence = evidence(&kinds, 1.0, "");
    let spans = evidence.records.iter_mut().flat_map(|record| &mut record.spans);
    // Make the expected latency of writes longer than the measured one.
    for call in spans.flat_map(|span| &mut span.calls).filter(|call| call.commit.is_some()) {
        call.end += 2 * MS;
    }
    let columns = wrong(&kinds, &evidence);
    assert!(columns.contains(&"update p50_us") && !columns.contains(&"get p50_us"), "{columns:?}");
}

/// If every commit has one write, group commit did not happen, and no metric is checked.
#[test]
fn groups_that_were_not_made_are_found() {
    let groups = experiment_of(Subject::Groups);
    let mut evidence = evidence(&groups, 1.0, "");
    assert!(!judge(&groups, &evidence).is_empty());
    for span in evidence.records.iter_mut().flat_map(|record| &mut record.spans) {
        span.calls.iter_mut().zip(1..).for_each(|(call, commit)| call.commit = Some(commit));
    }
    assert!(judge(&groups, &evidence).is_empty());
}

//! The questions that a report answers.

use super::entry::Entry;
use crate::bench::result::{
    Operation, Step,
    level::Level,
    measure::{Measure, SPACE_AMPLIFICATION, THROUGHPUT},
};

/// A question, and which cells can answer it.
pub struct Question {
    /// The question.
    pub text: &'static str,
    /// Which workloads count, in words.
    pub scope: &'static str,
    /// By what cells are compared.
    pub measure: &'static Measure,
    /// Which workloads count.
    pub fits: fn(&Entry<'_>) -> bool,
}

/// Share from which a workload counts as one kind of operation only.
const MOSTLY: f64 = 0.9;

/// Share above which a kind of operation counts beside others: a little more than the rest of [`MOSTLY`],
/// since nine tenths of one kind and one of another have no exact fractions.
const SOME: f64 = 0.100_001;

/// All questions, in their order.
pub const QUESTIONS: [Question; 6] = [
    Question {
        text: "Read-heavy",
        scope: "at least 90% reads of single keys",
        measure: &THROUGHPUT,
        fits: |entry| reads(entry) >= MOSTLY && !entry.concurrent,
    },
    Question {
        text: "Write-heavy",
        scope: "at least 90% writes, not synced one by one",
        measure: &THROUGHPUT,
        fits: |entry| writes(entry) >= MOSTLY && !entry.concurrent && !is_durable(entry),
    },
    Question {
        text: "Mixed",
        scope: "more than 10% reads and more than 10% writes, or one beside the other",
        measure: &THROUGHPUT,
        fits: |entry| entry.concurrent || (reads(entry) > SOME && writes(entry) > SOME),
    },
    Question {
        text: "Durable writes",
        scope: "at least 90% writes, each on stable storage before it is acknowledged",
        measure: &THROUGHPUT,
        fits: |entry| writes(entry) >= MOSTLY && !entry.concurrent && is_durable(entry),
    },
    Question {
        text: "Scans",
        scope: "at least 90% scans",
        measure: &THROUGHPUT,
        fits: |entry| share(entry, &[Operation::Scan]) >= MOSTLY,
    },
    Question {
        text: "Smallest footprint",
        scope: "bytes on disk for each byte of keys and values",
        measure: &SPACE_AMPLIFICATION,
        fits: |entry| entry.tells_space(),
    },
];

fn is_durable(entry: &Entry<'_>) -> bool {
    Level::of(&entry.cell.target).is_durable()
}

fn reads(entry: &Entry<'_>) -> f64 {
    share(entry, &[Operation::Get, Operation::GetMiss])
}

fn writes(entry: &Entry<'_>) -> f64 {
    share(entry, &[Operation::Update, Operation::Insert, Operation::Delete, Operation::ReadModifyWrite])
}

/// The part of some kinds of operation in all. A step that is not made of operations has no part of any.
fn share(entry: &Entry<'_>, kinds: &[Operation]) -> f64 {
    let work = &entry.cell.workload;
    if work.step != Step::Operations {
        return 0.0;
    }
    let mix = &work.mix;
    let all: f64 = mix.values().sum();
    let part: f64 = kinds.iter().filter_map(|kind| mix.get(kind)).sum();
    if all > 0.0 { part / all } else { 0.0 }
}

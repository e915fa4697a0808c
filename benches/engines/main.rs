#![allow(
    missing_docs,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a benchmark, whose failures shall stop it"
)]
//! Every engine through `dyn Engine`, with and without a sync of each write.
//!
//! Ids are `engine/fsync/case`, and criterion's filter narrows by any part of them:
//! `cargo bench --bench engines -- rocksdb/always/put`.

#[path = "../support/mod.rs"]
mod support;

mod case;
mod fixture;
mod table;

use case::Case;
use criterion::{BenchmarkGroup, Criterion, SamplingMode, Throughput, measurement::WallTime};
use fixture::{Fixture, Measure};
use kvbench::{
    bench::run::allocations::Counting,
    engine::{Fsync, KINDS, Kind},
};
use table::Table;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn main() {
    let mut criterion = support::criterion();
    let mut table = Table::new();
    for kind in KINDS {
        for fsync in [Fsync::No, Fsync::Always] {
            engine(kind, fsync, &mut criterion, &mut table);
        }
    }
    criterion.final_summary();
    if let Some(path) = table.publish().expect("the table can be written") {
        println!("This table: {}", path.display());
    }
}

fn engine(kind: &Kind, fsync: Fsync, criterion: &mut Criterion, table: &mut Table) {
    let name = format!("{}/{fsync}", kind.info.name);
    let mut group = criterion.benchmark_group(&name);
    let mut fixture = None;
    for case in Case::ALL.into_iter().filter(|case| case.suits(kind.info)) {
        // Reads share one; what a write leaves behind shall not slow down the next case.
        if case.writes() {
            fixture.take().map(Fixture::finish).unwrap_or_default();
        }
        let ran = measure(&mut group, case, kind, fsync, &mut fixture);
        if let Some(fixture) = &mut fixture
            && ran
            && !support::is_test()
        {
            let iterations = if fsync == Fsync::Always && case.writes() { 50 } else { 2_000 };
            let allocated = fixture.run(case, iterations, Measure::Allocations).allocated;
            let each = |total| total as f64 / iterations as f64;
            table.add(&name, &case.name(), case.keys(), each(allocated.bytes), each(allocated.count));
        }
    }
    fixture.map(Fixture::finish).unwrap_or_default();
    group.finish();
}

/// Has criterion measure the case. Returns whether its filter let it, and only then opens an engine.
fn measure(
    group: &mut BenchmarkGroup<'_, WallTime>,
    case: Case,
    kind: &Kind,
    fsync: Fsync,
    fixture: &mut Option<Fixture>,
) -> bool {
    let mut ran = false;
    group.throughput(Throughput::Elements(case.keys() as u64));
    // Iterations that wait for a device would add up under the default's growing samples.
    let syncs = fsync == Fsync::Always && case.writes();
    group.sampling_mode(if syncs { SamplingMode::Flat } else { SamplingMode::Auto });
    group.bench_function(case.name(), |bencher| {
        let fixture = fixture.get_or_insert_with(|| Fixture::open(kind, fsync));
        if !ran {
            // Fails here when the engine does not do the work, before anything is timed.
            fixture.run(case, 1, Measure::Time);
            ran = true;
        }
        bencher.iter_custom(|iterations| fixture.run(case, iterations, Measure::Time).time);
    });
    ran
}

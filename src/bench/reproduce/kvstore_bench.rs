//! Layout of kvstore-bench: the output of Go's `testing`, with one row for each benchmark of each store.

use super::{
    markdown_table::Grid,
    measured::{NONE, OwnMetrics},
    published::Published,
};
use crate::bench::result::{Cell, Measurement, comparability::Level, number_format};

pub(super) fn layout(facts: &Published, ours: &OwnMetrics<'_>) -> String {
    let heads = ["Benchmark", "from", "N", "ns/op", "B/op", "allocs/op"];
    let mut grid = Grid::new(2, heads.map(Into::into));
    for table in &facts.tables {
        for name in table.names() {
            let figures =
                table.columns.iter().map(|column| table.figure(name, column).unwrap_or(NONE).to_owned());
            grid.push([name.to_owned(), table.name.clone()].into_iter().chain(figures).collect());
        }
    }
    ours.cells()
        .filter(|cell| !cell.workload.counts_allocations)
        .for_each(|cell| grid.push(line(ours, cell)));
    let machines: Vec<_> =
        facts.tables.iter().map(|table| format!("{}: {}", table.name, table.machine)).collect();
    format!("\n## Benchmark results\n\nPublished: {}.\n\n{grid}", machines.join("; "))
}

fn line(ours: &OwnMetrics<'_>, cell: &Cell) -> Vec<String> {
    let is_same_work = |other: &&Cell| {
        let work = &other.workload;
        let names_it = work.name.strip_suffix(" allocations") == Some(&cell.workload.name);
        names_it
            && (work.counts_allocations, work.rate) == (true, cell.workload.rate)
            && other.target == cell.target
    };
    let counted = ours.cells().find(is_same_work);
    // At a rate, the time for an operation would only show that rate.
    let time = |m: &Measurement| match cell.workload.rate {
        Some(_) => m.latency.mean_us * 1e3,
        None => m.seconds * 1e9 / m.operations as f64,
    };
    let each = |total: Option<u64>, operations: u64| Some(total? as f64 / operations.max(1) as f64);
    vec![
        format!("{}{}", capitalized(&cell.target.store), cell.row),
        format!("ours, {}", Level::of(&cell.target).durability_words()),
        ours.figure(Some(cell), |m| Some(m.operations as f64), |count| format!("{count:.0}")),
        ours.figure(Some(cell), |m| Some(time(m)), |ns| format!("{ns:.0}")),
        ours.figure(counted, |m| each(m.allocated_bytes, m.operations), |bytes| format!("{bytes:.0}")),
        ours.figure(counted, |m| each(m.allocations, m.operations), number_format::digits),
    ]
}

/// Returns the name of a store with a capital first letter, as in the names of Go benchmarks.
fn capitalized(store: &str) -> String {
    let mut letters = store.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

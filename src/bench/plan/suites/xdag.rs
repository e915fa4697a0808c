//! The XDAG fork of smallnest's kvbench, with its two numbers of blocks: each block is set, read, read while
//! another thread sets, and deleted once, by one thread per core. One thread also reads the block file
//! itself, from start to end and by key.

use super::{
    cell_builder::CellBuilder,
    cell_transforms::{cell, count, group, headed},
    smallnest_kvbench::{HEADING, of_source},
    xdag_blocks::{data_file, generated_for_publication, sizes},
};
use crate::bench::{
    data::{RECORD_KEY, RECORD_VALUE},
    plan::options::{Options, PlanError, Rows},
    result::{Cell, CellKind, Operation, Order, Size, Target, Workload},
};
use std::path::Path;

pub(super) fn cells(options: &Options) -> Result<Rows, PlanError> {
    let builder = &CellBuilder { options };
    let (path, most) = data_file(options, generated_for_publication)?;
    let mut sizes = sizes(options.keys).map(|size| size.clamp(1, most)).to_vec();
    // In a user's file that is too small, both sizes may be the same.
    sizes.dedup();
    let mut cells = Vec::new();
    for keys in sizes {
        let blocks = Blocks { builder, keys, path: &path };
        for (place, target) in builder.targets().iter().enumerate() {
            let of_store = blocks.of(target);
            if let Some(first) = of_store.first().filter(|_| place == 0) {
                cells.extend(blocks.source(first));
            }
            cells.extend(of_store);
        }
    }
    Ok((HEADING, cells))
}

/// Builder of the cells over the first `keys` blocks (pairs) of a file.
struct Blocks<'m> {
    builder: &'m CellBuilder<'m>,
    keys: u64,
    path: &'m Path,
}

impl Blocks<'_> {
    /// Returns the cells of one store, which is empty at the start and after the last cell.
    fn of(&self, target: &Target) -> Vec<Cell> {
        // All cells but the first find the keys that the first has inserted.
        let make = |name: &str, operation| {
            let keys = if operation == Operation::Insert { 0 } else { self.keys };
            self.cell(target, Workload { keys, ..self.workload(name, operation) })
        };
        let mut setmixed = make("setmixed", Operation::Update);
        (setmixed.workload.threads, setmixed.workload.operations, setmixed.together) = (1, None, true);
        self.named(group(vec![
            make("set", Operation::Insert),
            make("get", Operation::Get),
            make("getmixed", Operation::Get),
            setmixed,
            make("del", Operation::Delete),
        ]))
    }

    /// Returns the cells that read the block file itself, placed in the table of `store`.
    fn source(&self, store: &Cell) -> Vec<Cell> {
        let of = |name: &str, step| {
            let workload = Workload { mix: [].into(), ..self.workload(name, Operation::Get) };
            let mut cell = of_source(self.builder, store, workload, step);
            cell.id = format!("{}/{}", cell.id, self.keys);
            cell
        };
        vec![of("source scan", CellKind::SourceScan), of("source get", CellKind::SourceGet)]
    }

    fn workload(&self, name: &str, operation: Operation) -> Workload {
        Workload {
            key_bytes: Size::Fixed(RECORD_KEY as u32),
            value_bytes: Size::Fixed(RECORD_VALUE as u32),
            data: Some(self.path.display().to_string()),
            order: Order::Sequential,
            ..self.builder.by_count(name, operation, self.keys)
        }
    }

    fn cell(&self, target: &Target, workload: Workload) -> Cell {
        let row = workload.name.clone();
        cell(self.builder.suite(), target.clone(), workload, &row)
    }

    /// Adds the number of blocks to the ids and table headings of the cells of one store, since the experiment runs
    /// with two numbers, and makes the cells a group.
    fn named(&self, cells: Vec<Cell>) -> Vec<Cell> {
        let mut cells = headed(cells, &format!("{} blocks", count(self.keys)));
        for cell in &mut cells {
            cell.id = format!("{}/{}", cell.id, self.keys);
        }
        group(cells)
    }
}

//! Flags that a suite would ignore are refused: who sets one believes that it does something.

use super::plan;
use crate::bench::{
    plan::options::{Options, PlanError},
    result::{Access, Cell},
};

/// An error where another value of a flag that was given would make the same plan.
pub fn refuse_ignored(options: &Options) -> Result<(), PlanError> {
    let cells = plan(options)?.cells;
    if options.conduct.cpus.server.is_some()
        && cells.iter().any(|cell| cell.target.access == Access::InProcess)
    {
        return Err(PlanError::NoServer);
    }
    if options.conduct.cold && cells.iter().any(|cell| cell.target.access == Access::Wire) {
        return Err(PlanError::ColdServer);
    }
    if options.conduct.memory_limit.is_some() && options.target.is_some() {
        return Err(PlanError::ForeignMemory);
    }
    let Some(suite) = options.suite else { return Ok(()) };
    let own = || options.clone();
    let others = [
        ("--seconds", options.seconds.map(|value| Options { seconds: Some(value * 2.0 + 1.0), ..own() })),
        (
            "--operations",
            options.operations.map(|value| Options { operations: Some(value * 2 + 1), ..own() }),
        ),
        ("--keys", options.keys.map(|value| Options { keys: Some(value * 2 + 1), ..own() })),
        ("--threads", options.threads.map(|value| Options { threads: Some(value + 1), ..own() })),
        ("--data", options.data.as_ref().map(|_| Options { data: None, ..own() })),
    ];
    for (flag, other) in others {
        let Some(other) = other else { continue };
        // What cannot be planned at all makes a difference.
        if plan(&other).is_ok_and(|other| measured(&other.cells).eq(measured(&cells))) {
            return Err(PlanError::Ignored { flag, suite });
        }
    }
    Ok(())
}

/// The cells that the user asked for; the price of the harness is beside them, or is all of them.
fn measured(cells: &[Cell]) -> impl Iterator<Item = &Cell> {
    let engines = cells.iter().any(|cell| !cell.reference);
    cells.iter().filter(move |cell| !(engines && cell.reference))
}

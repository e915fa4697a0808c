//! Refusal of flags that a suite would ignore, since a user who sets a flag expects it to have an effect.

use super::{LEAST_EVERYSEC, Plan, cell_transforms::is_alone, is_alone_and_steady, plan};
use crate::{
    bench::{
        plan::{
            options::{CustomWorkload, Durability, Options, PlanError},
            unsupported::unsupported_reason,
        },
        result::{
            Access, Cell, Operation, Order,
            number_format::{self, distinct},
        },
    },
    engine::{kinds, synthetic},
};

/// Returns an error if a flag that the user gave has no effect, because another value would lead to the same cells, or
/// if the run conditions cannot be met.
///
/// # Errors
///
/// Fails with the flag without effect, the condition that cannot be met, or another [`PlanError`] of the plan.
pub fn refuse_ignored(options: &Options) -> Result<(), PlanError> {
    let planned = plan(options)?;
    check_conditions(options, &planned)?;
    let cells = planned.cells;
    let Some(suite) = options.suite else { return check_custom(options) };
    let own = || options.clone();
    let others = [
        (
            "--seconds",
            options.seconds.map(|value| Options { seconds: Some(value * 2.0 + LEAST_EVERYSEC), ..own() }),
        ),
        (
            "--operations",
            options.operations.map(|value| Options { operations: Some(value * 2 + 1), ..own() }),
        ),
        ("--keys", options.keys.map(|value| Options { keys: Some(value * 2 + 1), ..own() })),
        ("--threads", options.threads.map(|value| Options { threads: Some(value + 1), ..own() })),
        ("--data", options.data.as_ref().map(|_| Options { data: None, ..own() })),
        (
            "--warm-up",
            options
                .warmup_is_explicit
                .then(|| Options { warmup_seconds: options.warmup_seconds * 2.0 + 1.0, ..own() }),
        ),
        ("--rates", (!options.rates.is_empty()).then(|| Options { rates: Vec::new(), ..own() })),
    ];
    for (flag, other) in others {
        let Some(other) = other else { continue };
        // If the other value cannot be planned at all, the flag has an effect.
        if plan(&other).is_ok_and(|other| measured(&other.cells).eq(measured(&cells))) {
            let least =
                options.keys.filter(|_| flag == "--keys").and_then(|keys| least_keys(options, keys, &cells));
            return Err(
                least.map_or(PlanError::Ignored { flag, suite }, |least| PlanError::FewKeys { least, suite })
            );
        }
    }
    Ok(())
}

/// Returns the smallest number of keys of a suite that raises `keys` to it, which leads to `cells`. Returns `None` if the
/// suite ignores the number.
fn least_keys(options: &Options, keys: u64, cells: &[Cell]) -> Option<u64> {
    /// More keys than the minimum of any suite.
    const ABOVE_ALL_MINIMUMS: u64 = 1_000_000;
    let differs = |keys| {
        let other = plan(&Options { keys: Some(keys), ..options.clone() });
        other.is_ok_and(|other| !measured(&other.cells).eq(measured(cells)))
    };
    let (mut equal, mut different) = (keys, ABOVE_ALL_MINIMUMS);
    if equal >= different || !differs(different) {
        return None;
    }
    while different - equal > 1 {
        let middle = equal.midpoint(different);
        if differs(middle) { different = middle } else { equal = middle }
    }
    Some(equal)
}

/// Returns an error if a flag has no effect on a run without a suite.
fn check_custom(options: &Options) -> Result<(), PlanError> {
    let custom = &options.custom;
    let is_default_length = custom.scan_length == CustomWorkload::default().scan_length;
    // A sequential order also sorts the keys.
    let is_default_order = matches!(custom.order, Order::Uniform | Order::Sequential);
    let chooses_keys =
        |kind: &Operation| !matches!(kind, Operation::Insert | Operation::Delete | Operation::GetMiss);
    let refusals = [
        (
            !is_default_order && !custom.mix.keys().any(chooses_keys),
            PlanError::NoChoice(number_format::mix(&custom.mix)),
        ),
        (options.data.is_some(), PlanError::DataWithoutSuite),
        // clap does not require --suite beside a flag that excludes it, such as --mix.
        (!options.workloads.is_empty(), PlanError::WorkloadsWithoutSuite),
        (
            !is_default_length && !custom.mix.contains_key(&Operation::Scan),
            PlanError::NoScan(number_format::mix(&custom.mix)),
        ),
    ];
    refusals.into_iter().find(|(refused, _)| *refused).map_or(Ok(()), |(_, error)| Err(error))
}

/// Returns an error if a flag of the run conditions, such as `--cold` or `--cpus`, cannot apply to the cells of a plan.
fn check_conditions(options: &Options, plan: &Plan) -> Result<(), PlanError> {
    let (conditions, cells) = (&options.conditions, &plan.cells);
    let any = |access| cells.iter().any(|cell| cell.target.access == access);
    let is_foreign = options.target.is_some();
    check_interleaved(options, plan)?;
    check_memory_map(options, cells)?;
    let refusals = [
        (conditions.cpus.server.is_some() && any(Access::InProcess), PlanError::NoServer),
        (conditions.cpus.server.is_some() && is_foreign, PlanError::ForeignServer),
        (
            conditions.cpus.driver.is_some()
                && conditions.cpus.server.is_none()
                && any(Access::Wire)
                && !is_foreign,
            PlanError::NoPlaceForServer,
        ),
        (conditions.cold && any(Access::Wire), PlanError::ColdServer),
        (conditions.cold && options.warmup_is_explicit, PlanError::ColdWarmUp),
        (conditions.cold && options.durabilities.contains(&Durability::Memory), PlanError::ColdMemory),
        (conditions.memory_limit.is_some() && is_foreign, PlanError::ForeignMemory),
        (conditions.foreign_limit.is_some() && is_foreign, PlanError::ForeignPrograms),
    ];
    refusals.into_iter().find(|(refused, _)| *refused).map_or(Ok(()), |(_, error)| Err(error))
}

/// Returns an error if `--map-size` has another value than its default, and no cell is of a store with a memory map.
fn check_memory_map(options: &Options, cells: &[Cell]) -> Result<(), PlanError> {
    let has_map =
        |cell: &Cell| synthetic::info(&cell.target.store).is_some_and(|info| info.capabilities.map_size);
    if options.map_bytes == Options::default().map_bytes || cells.iter().any(has_map) {
        return Ok(());
    }
    let stores = distinct(measured(cells).map(|cell| cell.target.store.as_str())).join(",");
    let able = kinds().filter(|kind| kind.info.capabilities.map_size).map(|kind| kind.info.name);
    let able = able.collect::<Vec<_>>().join(", ");
    let able = if able.is_empty() { "no store of this build".into() } else { able };
    Err(PlanError::NoMemoryMap { map_size: options.map_bytes, stores, able })
}

/// Returns `true` if the cells of options with `--interleave` can be compared in turns.
pub fn can_take_turns(options: &Options) -> bool {
    plan(options).is_ok_and(|plan| check_interleaved(options, &plan).is_ok())
}

/// Returns an error if `--interleave` is given and the cells of a plan cannot be compared in turn.
fn check_interleaved(options: &Options, plan: &Plan) -> Result<(), PlanError> {
    if options.interleave.is_none() {
        return Ok(());
    }
    let (cells, is_duel) = (&plan.cells, options.duel.is_some());
    let compared: Vec<_> = measured(cells).filter(|cell| is_alone_and_steady(cell)).collect();
    let refusals = [
        (!cfg!(target_os = "linux"), "processes are stopped on Linux only"),
        (
            !measured(cells).all(is_alone),
            "the workloads of this --suite continue on each other's data, or have devices of their own",
        ),
        (
            cells.iter().any(|cell| cell.target.address.is_some() || cell.target.program.is_some()),
            "a server that kvbench did not start cannot be stopped",
        ),
        (
            options.is_soak || options.rate_goal.is_some(),
            "--minutes and --find-rate are for one store at a time",
        ),
        (!options.rates.is_empty(), "--rate starts operations that a stopped store cannot do"),
        (options.operations.is_some(), "the pilot finds the number of --operations"),
        (compared.is_empty() && options.suite.is_none(), "this --mix only fills or empties the store"),
        (compared.is_empty(), "the --workloads only fill or empty the store"),
        (options.custom.ttl_ms.is_some(), "--ttl: values would expire while their store is stopped"),
        (options.conditions.cold, "--cold reads would find what an earlier slice has read"),
        (options.conditions.memory_limit.is_some(), "--memory-limit is for one store at a time"),
    ];
    if let Some((_, reason)) = refusals.into_iter().find(|(refused, _)| *refused) {
        return Err(if is_duel { PlanError::NotInDuel(reason) } else { PlanError::NotInterleaved(reason) });
    }
    let is_row_of_both = |one: &Cell, other: &Cell| {
        (&one.table, &one.row) == (&other.table, &other.row)
            && (&one.target.store, one.target.side) != (&other.target.store, other.target.side)
    };
    let is_able = |cell: &&&Cell| is_duel || unsupported_reason(cell).is_none();
    let able = || compared.iter().filter(is_able);
    if able().any(|one| able().any(|other| is_row_of_both(one, other))) {
        return Ok(());
    }
    let unsupported = compared.iter().filter_map(|cell| unsupported_reason(cell));
    let reasons: Vec<String> = plan.left_out.iter().cloned().chain(unsupported).collect();
    let reasons = distinct(reasons.iter().map(String::as_str)).join("; ");
    let reasons = if reasons.is_empty() { reasons } else { format!(": {reasons}") };
    Err(PlanError::OneStore { reasons })
}

/// Returns the cells that the user asked for: all but those of the harness overhead, or all if there are only those.
fn measured(cells: &[Cell]) -> impl Iterator<Item = &Cell> {
    let engines = cells.iter().any(|cell| !cell.reference);
    cells.iter().filter(move |cell| !(engines && cell.reference))
}

//! Cells of the workload that flags such as `--mix` define, for every store.

use super::{
    cell_builder::CellBuilder,
    cell_transforms::{cell, headed},
};
use crate::{
    bench::{
        data::keys::Keys,
        plan::options::{PlanError, Rows},
        result::{Access, Cell, Commits, Operation, Order, Size, Workload, metric::Unit, number_format},
    },
    engine::synthetic,
};

/// Default of `--keys`, and of `--operations` for a mix that only inserts; `--quick` and `--full` may set another
/// one.
const KEYS: u64 = 1_000_000;

pub(super) fn cells(builder: &CellBuilder<'_>) -> Result<Rows, PlanError> {
    let (custom, access) = (&builder.options.custom, builder.access());
    let mix: Vec<_> = custom.mix.iter().map(|(operation, part)| (*operation, *part)).collect();
    let mut workload = Workload {
        keys: builder.options.keys.unwrap_or(KEYS),
        key_bytes: custom.key_bytes,
        value_bytes: custom.value_bytes,
        order: custom.order,
        batch: custom.batch,
        scan_length: custom.scan_length,
        hashed_keys: !custom.ordered_keys && custom.order != Order::Sequential,
        ttl_ms: custom.ttl_ms,
        rate_goal: builder.options.rate_goal,
        soak: builder.options.is_soak,
        ..builder.workload(&custom.name, &mix, 10.0)
    };
    check(&workload, access)?;
    check_ttl(builder, &workload)?;
    if !workload.is_steady() {
        by_count(builder, &mut workload)?;
    }
    let cells = builder.targets().into_iter().map(|target| {
        // The user named the no-op engine in `--stores`, so its cell is an ordinary one.
        Cell { reference: false, ..cell(&custom.name, target, workload.clone(), &custom.name) }
    });
    let cells = match custom.ttl_ms {
        None => cells.collect(),
        Some(ttl_ms) => {
            let ttl = number_format::short(Unit::Seconds, ttl_ms as f64 / 1e3);
            headed(cells.collect(), &format!("values expire after {ttl}"))
        }
    };
    Ok(("Workload", cells))
}

/// Lets a workload that only fills or empties the store end after `--operations` operations, or a default number. Fails
/// if `--seconds`, `--rate` or `--warm-up` is given, or if there are too few keys.
fn by_count(builder: &CellBuilder<'_>, workload: &mut Workload) -> Result<(), PlanError> {
    let mix = || number_format::mix(&workload.mix);
    let timed = [
        ("--minutes", builder.options.is_soak),
        ("--find-rate", builder.options.rate_goal.is_some()),
        ("--rate", !builder.options.rates.is_empty()),
    ];
    if let Some((flag, _)) = timed.into_iter().find(|(_, is_given)| *is_given) {
        return Err(PlanError::EndsByCount { flag, mix: mix() });
    }
    if builder.options.seconds.is_some() {
        return Err(PlanError::NotByTime(mix()));
    }
    if builder.options.warmup_is_explicit {
        return Err(PlanError::NoWarmUp(mix()));
    }
    let does = |kind| workload.kinds().any(|done| done == kind);
    let preset = builder.options.conditions.preset.and_then(|preset| preset.keys);
    let default = if does(Operation::Delete) { workload.keys } else { preset.unwrap_or(KEYS) };
    let operations = builder.options.operations.unwrap_or(default);
    if !does(Operation::Insert) && operations > workload.keys {
        return Err(PlanError::RunsDry { operations, keys: workload.keys });
    }
    // Half of the possible keys are kept for reads of absent keys.
    let (Size::Fixed(bytes) | Size::Uniform(bytes, _)) = workload.key_bytes;
    let most =
        (Keys::new(workload.key_bytes, workload.hashed_keys).capacity() / 2).saturating_sub(workload.keys);
    if does(Operation::Insert) && operations > most {
        return Err(PlanError::TooManyInserts { operations, bytes, most });
    }
    (workload.seconds, workload.operations, workload.warmup_seconds) = (None, Some(operations), 0.0);
    Ok(())
}

/// Returns an error if `--ttl` is given and the other flags do not allow values to expire.
fn check_ttl(builder: &CellBuilder<'_>, workload: &Workload) -> Result<(), PlanError> {
    if workload.ttl_ms.is_none() {
        return Ok(());
    }
    let does = |kind| workload.kinds().any(|done| done == kind);
    if does(Operation::Scan) {
        return Err(PlanError::TtlWithout("scan"));
    }
    if does(Operation::Delete) {
        return Err(PlanError::TtlWithout("delete"));
    }
    if !workload.kinds().any(Operation::writes) {
        return Err(PlanError::NothingExpires(number_format::mix(&workload.mix)));
    }
    if builder.options.commits.contains(&Commits::Own) {
        return Err(PlanError::TtlCommitsOwn);
    }
    if builder.options.stores.iter().any(|store| synthetic::is_reference(store)) {
        return Err(PlanError::TtlNothing);
    }
    Ok(())
}

fn check(workload: &Workload, access: Access) -> Result<(), PlanError> {
    let (Size::Fixed(bytes) | Size::Uniform(bytes, _)) = workload.key_bytes;
    // A half of all byte strings stays free for reads of absent keys, and another half of the rest for
    // inserts.
    let bits = (workload.keys.max(1) * 4).ilog2() + 1;
    let least = if workload.hashed_keys { 8 } else { bits.div_ceil(8) };
    if bytes < least {
        return Err(match workload.hashed_keys {
            true => PlanError::ShortHashedKeys(bytes),
            false => PlanError::ShortKeys { bytes, keys: workload.keys, least },
        });
    }
    let joins_batches = workload.changes_keys() || workload.kinds().any(|kind| kind == Operation::Update);
    if access == Access::InProcess && workload.batch > 1 && !joins_batches {
        return Err(PlanError::NoBatch(number_format::mix(&workload.mix)));
    }
    for kind in workload.kinds() {
        let name = match kind {
            Operation::Scan if access == Access::Wire => return Err(PlanError::ScanOverWire),
            Operation::Get => "get",
            Operation::Update => "update",
            Operation::ReadModifyWrite => "read-modify-write",
            Operation::Scan => "scan",
            Operation::Delete => "delete",
            Operation::GetMiss | Operation::Insert => continue,
        };
        if workload.keys == 0 {
            return Err(PlanError::NoKeys(name));
        }
    }
    Ok(())
}

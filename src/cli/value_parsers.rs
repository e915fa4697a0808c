//! Value parsers of flags that several commands share.

use crate::engine::{Kind, all_kinds};
use clap::{
    ValueEnum,
    builder::{PossibleValue, PossibleValuesParser, TypedValueParser},
};

pub(super) fn kind_parser() -> impl TypedValueParser<Value = &'static Kind> {
    let listed = all_kinds().map(|kind| PossibleValue::new(kind.info.name));
    // Only `kvbench calibrate` serves this engine.
    let hidden = synthetic("calibration").map(|kind| PossibleValue::new(kind.info.name).hide(true));
    PossibleValuesParser::new(listed.chain(hidden)).try_map(|name| {
        let kind = Kind::find(&name).or_else(|| synthetic(&name));
        kind.ok_or_else(|| format!("this build has no store {name}"))
    })
}

/// Returns the synthetic engine `name` of the benchmark, or `None` if this build has no such engine.
fn synthetic(name: &str) -> Option<&'static Kind> {
    #[cfg(feature = "bench")]
    let kind = crate::engine::synthetic::kind(name);
    #[cfg(not(feature = "bench"))]
    let (kind, _) = (None, name);
    kind
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum YesNo {
    Yes,
    No,
}

//! Value parsers of flags that several commands share.

use crate::engine::{Kind, absent_hint, all_kinds};
use clap::{
    Arg, Command, ValueEnum,
    builder::{PossibleValue, PossibleValuesParser, TypedValueParser},
    error::{ContextKind, ContextValue, ErrorKind},
};
use std::ffi::OsStr;

/// Parser of the name of a store, which returns its engine.
#[derive(Clone, Copy, Debug)]
pub(super) struct KindParser;

impl KindParser {
    fn names() -> PossibleValuesParser {
        let listed = all_kinds().map(|kind| PossibleValue::new(kind.info.name));
        // Only `kvbench calibrate` serves this engine.
        let hidden = synthetic("calibration").map(|kind| PossibleValue::new(kind.info.name).hide(true));
        PossibleValuesParser::new(listed.chain(hidden))
    }
}

impl TypedValueParser for KindParser {
    type Value = &'static Kind;

    fn parse_ref(
        &self,
        command: &Command,
        flag: Option<&Arg>,
        value: &OsStr,
    ) -> Result<Self::Value, clap::Error> {
        let name = value.to_string_lossy();
        if let Some(kind) = Kind::find(&name).or_else(|| synthetic(&name)) {
            return Ok(kind);
        }
        let Some(hint) = absent_hint(&name) else {
            Self::names().parse_ref(command, flag, value)?;
            return Err(clap::Error::new(ErrorKind::InvalidValue).with_cmd(command));
        };
        let mut error = clap::Error::new(ErrorKind::InvalidValue).with_cmd(command);
        let flag = flag.map(ToString::to_string).unwrap_or_default();
        error.insert(ContextKind::InvalidArg, ContextValue::String(flag));
        error.insert(ContextKind::InvalidValue, ContextValue::String(name.into_owned()));
        let hint = ContextValue::StyledStrs(vec![hint.into()]);
        error.insert(ContextKind::Suggested, hint);
        Err(error)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Self::names().possible_values().map(|names| Box::new(names.collect::<Vec<_>>().into_iter()) as _)
    }
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

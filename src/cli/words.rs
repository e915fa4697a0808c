//! Words that several commands share, to values.

use crate::engine::{DISTRIBUTED, FAULTY, Fsync, Kind, kinds, reference};
use clap::{
    ValueEnum,
    builder::{PossibleValue, PossibleValuesParser, TypedValueParser},
};

/// A part of one from percent, with or without the sign: `10%` is 0.1.
pub(super) fn percent(text: &str) -> Result<f64, String> {
    let number: f64 = text.strip_suffix('%').unwrap_or(text).trim().parse().map_err(|_| wrong_percent())?;
    if (0.0..100.0).contains(&number) { Ok(number / 100.0) } else { Err(wrong_percent()) }
}

/// The same up to 100%.
pub(super) fn percent_to_100(text: &str) -> Result<f64, String> {
    match text.strip_suffix('%').unwrap_or(text).trim() {
        "100" => Ok(1.0),
        less => percent(less),
    }
}

fn wrong_percent() -> String {
    "it must be a percentage from 0 to below 100, such as 10%".to_owned()
}

pub(super) fn kind_parser() -> impl TypedValueParser<Value = &'static Kind> {
    let listed = kinds().chain(DISTRIBUTED).chain(FAULTY).map(|kind| PossibleValue::new(kind.info.name));
    // Served for `kvbench calibrate` only.
    let hidden = reference::kind("calibration").map(|kind| PossibleValue::new(kind.info.name).hide(true));
    PossibleValuesParser::new(listed.chain(hidden)).try_map(|name| {
        let kind = Kind::find(&name).or_else(|| reference::kind(&name));
        kind.ok_or_else(|| format!("this build has no store {name}"))
    })
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum FsyncWord {
    #[value(alias = "true")]
    Always,
    Everysec,
    #[value(alias = "false")]
    No,
}

impl From<FsyncWord> for Fsync {
    fn from(word: FsyncWord) -> Self {
        match word {
            FsyncWord::Always => Self::Always,
            FsyncWord::Everysec => Self::EverySec,
            FsyncWord::No => Self::No,
        }
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum CompressionWord {
    None,
    Lz4,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum YesNo {
    Yes,
    No,
}

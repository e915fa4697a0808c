//! A figure beside its truth, and the columns that figures stand in.

use crate::bench::result::{
    Access, Measurement,
    measure::{self, Unit},
};
use std::ops::RangeInclusive;

/// A column of a result, for one experiment.
#[derive(Clone, Debug)]
pub struct Figure {
    /// What was done.
    pub workload: String,
    /// In process or over the wire.
    pub access: Access,
    /// Name of the column.
    pub column: &'static str,
    /// Its unit.
    pub unit: Unit,
    /// What is true.
    pub truth: f64,
    /// Where a true figure lies.
    pub allowed: RangeInclusive<f64>,
    /// What was measured.
    pub measured: Option<f64>,
}

impl Figure {
    /// Whether it is where it should be.
    pub fn is_true(&self) -> bool {
        self.measured.is_some_and(|measured| self.allowed.contains(&measured))
    }

    /// How far it is from the truth, as a part of it.
    pub fn error(&self) -> f64 {
        let off = self.measured.map_or(f64::INFINITY, |measured| (measured - self.truth).abs());
        if off == 0.0 { 0.0 } else { off / self.truth.abs() }
    }

    /// Whether it claims to be the engine's alone: not what the wire adds, nor other programs.
    pub fn counts_as_error(&self) -> bool {
        self.access == Access::InProcess && self.allowed.end().is_finite()
    }

    /// Names it.
    pub fn name(&self) -> String {
        let access = match self.access {
            Access::InProcess => "in process",
            Access::Wire => "over the wire",
        };
        format!("{} of {} {access}", self.column, self.workload)
    }
}

type Of = fn(&Measurement) -> Option<f64>;

/// The columns of a result that have no place in [`measure::ALL`].
const MORE: [(&str, Unit, Of); 7] = [
    ("operations", Unit::Times, |m| Some(real(m.operations))),
    ("user_bytes", Unit::Bytes, |m| Some(real(m.user_bytes))),
    ("live length", Unit::Bytes, |m| Some(real(m.live_size?.length_bytes))),
    ("live blocks", Unit::Bytes, |m| Some(real(m.live_size?.block_bytes))),
    ("settled length", Unit::Bytes, |m| Some(real(m.settled_size?.length_bytes))),
    ("settled blocks", Unit::Bytes, |m| Some(real(m.settled_size?.block_bytes))),
    ("closed length", Unit::Bytes, |m| Some(real(m.closed_size?.length_bytes))),
];

/// All columns that there are.
pub fn columns() -> impl Iterator<Item = (&'static str, Unit, Of)> {
    measure::ALL.iter().map(|measure| (measure.name, measure.unit, measure.of)).chain(MORE)
}

/// A number as a figure.
#[expect(clippy::cast_precision_loss, reason = "all are below 2^53")]
pub(super) fn real(number: u64) -> f64 {
    number as f64
}

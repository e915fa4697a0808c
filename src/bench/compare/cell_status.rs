//! What there is to compare of one cell.

/// What there is to compare of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CellStatus {
    /// Both runs have sound figures.
    Figures,
    /// It failed in the second run only.
    FailsNow,
    /// It has figures in the second run only.
    Mended,
    /// Neither run has figures, or the second has not measured it.
    NoFigures,
    /// One of the runs tells that there is no such thing.
    Unsupported,
    /// The same id, but other work.
    OtherWork,
}

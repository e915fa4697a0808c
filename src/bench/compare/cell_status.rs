//! Status of a cell in a comparison of two runs.

/// Status of a cell in a comparison of two runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CellStatus {
    /// Both runs have a value of a compared metric of the cell.
    Figures,
    /// The cell failed in the second run, and the first run measured it without a failure.
    FailsNow,
    /// The cell failed in the first run, at least in one repetition, and the second run measured it without a failure.
    Mended,
    /// The cell failed in both runs, or failed in one and was not measured in the other, or no compared metric has a
    /// value in both.
    NoFigures,
    /// Both runs measured the cell, but the first has no value of a compared metric, so nothing can have become worse.
    NothingToCompare,
    /// In one of the runs, the store does not support the cell's workload.
    Unsupported,
    /// The runs have different workloads or settings under the same cell id, or its store took turns with others in one
    /// run only, or was written back after its slices in one run only.
    OtherWork,
}

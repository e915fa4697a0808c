//! Status of a cell in a comparison of two runs.

/// Status of a cell in a comparison of two runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CellStatus {
    /// Both runs have valid measurements.
    Figures,
    /// The cell failed in the second run only.
    FailsNow,
    /// The cell failed in the first run only.
    Mended,
    /// The cell failed in both runs, or there is no metric that both runs have.
    NoFigures,
    /// One of the runs reports that the store does not support the workload.
    Unsupported,
    /// The runs have different workloads or settings under the same cell id.
    OtherWork,
}

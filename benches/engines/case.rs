//! The list of cases.

use kvbench::engine::Info;

/// What one iteration does.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Case {
    /// Sets a random key to a new value of so many bytes.
    Put(usize),
    /// Sets so many random keys in one batch, to values of [`VALUE`] bytes.
    Batch(usize),
    /// Reads a random key that is there.
    GetHit,
    /// Reads a random key that is not there.
    GetMiss,
    /// Visits the [`SCANNED`] keys with a random prefix.
    ScanPrefix,
    /// Visits the [`SCANNED`] keys from a random one on.
    ScanRange,
    /// Removes a random key that is there.
    Delete,
}

/// Bytes of a value wherever the case does not say.
pub const VALUE: usize = 256;

/// Pairs that a scan visits.
pub const SCANNED: usize = 100;

impl Case {
    /// Every case; reads first, since they leave the data as they are.
    pub const ALL: [Self; 13] = [
        Self::GetHit,
        Self::GetMiss,
        Self::ScanPrefix,
        Self::ScanRange,
        Self::Put(64),
        Self::Put(128),
        Self::Put(256),
        Self::Put(512),
        Self::Batch(1),
        Self::Batch(16),
        Self::Batch(256),
        Self::Batch(1000),
        Self::Delete,
    ];

    /// The end of criterion's id.
    pub fn name(self) -> String {
        match self {
            Self::Put(len) => format!("put/{len}"),
            Self::Batch(len) => format!("batch/{len}"),
            Self::GetHit => "get/hit".into(),
            Self::GetMiss => "get/miss".into(),
            Self::ScanPrefix => "scan/prefix".into(),
            Self::ScanRange => "scan/range".into(),
            Self::Delete => "delete".into(),
        }
    }

    /// Keys that one iteration reads or writes.
    pub fn keys(self) -> usize {
        match self {
            Self::Batch(len) => len,
            Self::ScanPrefix | Self::ScanRange => SCANNED,
            _ => 1,
        }
    }

    pub fn writes(self) -> bool {
        matches!(self, Self::Put(_) | Self::Batch(_) | Self::Delete)
    }

    /// Whether the engine has it. To an unordered one every scan is a scan of all keys.
    pub fn suits(self, info: &Info) -> bool {
        info.capabilities.ordered || !matches!(self, Self::ScanPrefix | Self::ScanRange)
    }
}

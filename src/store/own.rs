//! Records of the layer's own, among the keys of the engine: what it has been used for.

use crate::engine::key_value_headers;

/// Which of them are there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct MarkerRecords(u8);

impl MarkerRecords {
    /// Values have deadlines.
    pub(super) const EXPIRATIONS: Self = Self(1);
    /// Keys have heads: they are of other databases than 0, or look as if.
    pub(super) const KEY_HEADERS: Self = Self(2);

    /// All that there can be, with their keys.
    pub(super) const ALL: [(Self, &'static [u8]); 2] =
        [(Self::EXPIRATIONS, &key_value_headers::EXPIRES), (Self::KEY_HEADERS, &key_value_headers::SPACES)];

    /// All that there can be.
    pub(super) fn everything() -> Self {
        Self::ALL.iter().fold(Self::default(), |all, (record, _)| all.with(*record))
    }

    pub(super) fn from_bits(bits: u8) -> Self {
        Self(bits)
    }

    pub(super) fn bits(self) -> u8 {
        self.0
    }

    /// These and others.
    pub(super) fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Number of records.
    pub(super) fn len(self) -> u64 {
        self.0.count_ones().into()
    }

    #[inline]
    pub(super) fn contains(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Adds one. Returns its key if it was not there.
    pub(super) fn add(&mut self, other: Self) -> Option<&'static [u8]> {
        if self.contains(other) {
            return None;
        }
        self.0 |= other.0;
        Self::ALL.iter().find(|(own, _)| *own == other).map(|(_, key)| *key)
    }
}

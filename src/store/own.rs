//! Marker records: records under reserved keys that state whether expirations or key headers are in use.

use crate::engine::key_value_headers;

/// Set of marker records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct MarkerRecords(u8);

impl MarkerRecords {
    /// Record that exists if values have expiration times.
    pub(super) const EXPIRATIONS: Self = Self(1);
    /// Record that exists if keys have key headers: they are of other databases than 0, or look as if they had a
    /// header.
    pub(super) const KEY_HEADERS: Self = Self(2);

    /// All marker records, with their keys.
    pub(super) const ALL: [(Self, &'static [u8]); 2] =
        [(Self::EXPIRATIONS, &key_value_headers::EXPIRES), (Self::KEY_HEADERS, &key_value_headers::SPACES)];

    /// Returns the set of all marker records.
    pub(super) fn everything() -> Self {
        Self::ALL.iter().fold(Self::default(), |all, (record, _)| all.with(*record))
    }

    pub(super) fn from_bits(bits: u8) -> Self {
        Self(bits)
    }

    pub(super) fn bits(self) -> u8 {
        self.0
    }

    /// Returns the union of two sets of marker records.
    pub(super) fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns the number of records.
    pub(super) fn len(self) -> u64 {
        self.0.count_ones().into()
    }

    #[inline]
    pub(super) fn contains(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Adds a record to the set. Returns the key of the record if it was not in the set.
    pub(super) fn add(&mut self, other: Self) -> Option<&'static [u8]> {
        if self.contains(other) {
            return None;
        }
        self.0 |= other.0;
        Self::ALL.iter().find(|(own, _)| *own == other).map(|(_, key)| *key)
    }
}

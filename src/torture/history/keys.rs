//! Keys of one client of a crash test, and the features of the server that its requests use.

use super::value::Content;
use std::ops::Range;

/// Number of keys of each client of a crash test that are written often.
pub(super) const OFTEN_WRITTEN: usize = 16;
/// Number of keys of each client of a crash test that are written rarely.
const ONCE: usize = 256;
/// Number of keys in each group of a client's keys. The keys of a group are only set together and deleted together.
pub(super) const GROUPS: [usize; 4] = [2, 4, 8, 16];
const COUNTERS: usize = 2;

/// Index of a client's last key, which holds large values.
pub(super) const BIG: usize = FIRST_COUNTER + COUNTERS;
pub(super) const FIRST_GROUP: usize = OFTEN_WRITTEN + ONCE;
pub(super) const FIRST_COUNTER: usize = FIRST_GROUP + 2 + 4 + 8 + 16;
pub(in super::super) const KEYS: usize = BIG + 1;

/// Indexes of the keys of each client that are always set with an expiration time, if the server supports it.
pub(super) const EXPIRING: Range<usize> = OFTEN_WRITTEN..OFTEN_WRITTEN + 32;
/// Indexes of the keys of each client that are in database 1, if the server supports SELECT; two groups are among them.
pub(super) const IN_DATABASE_1: Range<usize> = FIRST_GROUP - 32..FIRST_GROUP + 6;

/// 1 January 2100, in Unix time in milliseconds.
const YEAR_2100_MS: i64 = 4_102_444_800_000;

/// Returns the expiration time of the key with this index if it holds `content`, in Unix time in milliseconds; -1
/// for never.
pub(super) fn deadline(index: usize, content: Content) -> i64 {
    match content.request() {
        Some(request) if EXPIRING.contains(&index) => YEAR_2100_MS + i64::from(request),
        _ => -1,
    }
}

/// Features that a server supports besides SET, MSET, INCR, DEL and GET.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct SubjectCapabilities {
    /// `true` if the server supports MULTI and EXEC.
    pub transactions: bool,
    /// `true` if the server supports SELECT.
    pub databases: bool,
    /// `true` if the server supports SET with PXAT, and PEXPIRETIME.
    pub deadlines: bool,
}

impl SubjectCapabilities {
    pub const ALL: Self = Self { transactions: true, databases: true, deadlines: true };

    /// Returns the index of the database in which the key with this index is.
    pub fn database(self, index: usize) -> u8 {
        u8::from(self.databases && IN_DATABASE_1.contains(&index))
    }
}

pub(in super::super) fn key(client: u32, index: usize) -> String {
    match index {
        0..OFTEN_WRITTEN => format!("{client}:again:{index}"),
        OFTEN_WRITTEN..FIRST_GROUP => format!("{client}:once:{}", index - OFTEN_WRITTEN),
        FIRST_GROUP..FIRST_COUNTER => format!("{client}:group:{}", index - FIRST_GROUP),
        FIRST_COUNTER..BIG => format!("{client}:counter:{}", index - FIRST_COUNTER),
        _ => format!("{client}:big"),
    }
}

/// Returns the key indexes of each group of keys that are only set together and deleted together.
pub(super) fn groups() -> impl Iterator<Item = Range<usize>> {
    GROUPS.into_iter().scan(FIRST_GROUP, |first, size| {
        let group = *first..*first + size;
        *first += size;
        Some(group)
    })
}

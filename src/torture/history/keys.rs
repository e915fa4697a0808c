//! The keys of one client.

use super::value::Content;
use std::ops::Range;

/// Keys that are written again and again, and keys that are written rarely.
pub(super) const AGAIN: usize = 16;
const ONCE: usize = 256;
/// Sizes of the groups that are only set together and deleted together.
pub(super) const GROUPS: [usize; 4] = [2, 4, 8, 16];
const COUNTERS: usize = 2;

/// Keys of one client; the last one is for large values.
pub(super) const BIG: usize = FIRST_COUNTER + COUNTERS;
pub(super) const FIRST_GROUP: usize = AGAIN + ONCE;
pub(super) const FIRST_COUNTER: usize = FIRST_GROUP + 2 + 4 + 8 + 16;
pub(in super::super) const KEYS: usize = BIG + 1;

/// Keys that are always set with a deadline, and those in another database than 0: two groups are among them.
pub(super) const DATED: Range<usize> = AGAIN..AGAIN + 32;
pub(super) const ELSEWHERE: Range<usize> = FIRST_GROUP - 32..FIRST_GROUP + 6;

/// The first of 2100, in milliseconds since 1970.
const FAR: i64 = 4_102_444_800_000;

/// When a key that holds `content` expires, in milliseconds since 1970; -1 is never.
pub(super) fn deadline(index: usize, content: Content) -> i64 {
    match content.request() {
        Some(request) if DATED.contains(&index) => FAR + i64::from(request),
        _ => -1,
    }
}

/// What a server can do beside SET, MSET, INCR, DEL and GET.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct SubjectCapabilities {
    /// MULTI and EXEC.
    pub transactions: bool,
    /// SELECT.
    pub databases: bool,
    /// SET with PXAT, and PEXPIRETIME.
    pub deadlines: bool,
}

impl SubjectCapabilities {
    pub const ALL: Self = Self { transactions: true, databases: true, deadlines: true };

    /// The database of a key.
    pub fn database(self, index: usize) -> u8 {
        u8::from(self.databases && ELSEWHERE.contains(&index))
    }
}

pub(in super::super) fn key(client: u32, index: usize) -> String {
    match index {
        0..AGAIN => format!("{client}:again:{index}"),
        AGAIN..FIRST_GROUP => format!("{client}:once:{}", index - AGAIN),
        FIRST_GROUP..FIRST_COUNTER => format!("{client}:group:{}", index - FIRST_GROUP),
        FIRST_COUNTER..BIG => format!("{client}:counter:{}", index - FIRST_COUNTER),
        _ => format!("{client}:big"),
    }
}

/// The keys of each group.
pub(super) fn groups() -> impl Iterator<Item = Range<usize>> {
    GROUPS.into_iter().scan(FIRST_GROUP, |first, size| {
        let group = *first..*first + size;
        *first += size;
        Some(group)
    })
}

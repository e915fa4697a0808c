//! The keys of one client.

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

//! How the layer above the engines writes what an engine has no place for: when a value expires, and which
//! database a key is in. To an engine these are keys and values like others. Only that layer knows this, and the
//! append-only file, which is to hold commands that Redis knows.
//!
//! - A value without a deadline in database 0, and its key, are as they are: they cost nothing, and are all that
//!   there was before.
//! - A value with a deadline is [`HEADER_MAGIC`], the deadline (milliseconds since 1970, eight bytes, big-endian), the value.
//! - A key of database `n` is [`HEADER_MAGIC`], the byte `n`, the key.
//! - A value, or a key of database 0, that itself begins with [`HEADER_MAGIC`] has such a head too: with deadline 0, or
//!   `n` = 0. So each key and value is written in one way, and read back as it was.
//! - A value that was corrupt when it had to be written anew (a merge of `bitcask`, `SWAPDB`) is [`CORRUPT`], and what
//!   there was of it. Such a value cannot be read.
//! - The layer's own records have keys of [`HEADER_MAGIC`] and [`MARKER_RECORD`].

/// What stored keys and values begin with that are more than what a client gave. No text in UTF-8 has its first
/// byte.
pub const HEADER_MAGIC: [u8; 8] = *b"\xffkvbench";

/// Length of what stands before a value with a deadline.
pub const VALUE_HEAD: usize = HEADER_MAGIC.len() + size_of::<u64>();

/// Length of what stands before a key of another database than 0.
pub const KEY_HEADER: usize = HEADER_MAGIC.len() + 1;

/// Behind [`HEADER_MAGIC`], in place of a database: a record of the layer itself.
pub const MARKER_RECORD: u8 = 0xff;

/// The record that is there since a value was given a deadline for the first time.
pub const EXPIRES: [u8; KEY_HEADER] = *b"\xffkvbench\xff";

/// The record that is there since a key was stored with a head for the first time.
pub const SPACES: [u8; KEY_HEADER + 1] = *b"\xffkvbench\xffd";

/// Header of a value that was corrupt when it was written anew, so that it stays corrupt: [`HEADER_MAGIC`] and an expiration time that
/// no value has.
pub const CORRUPT: [u8; VALUE_HEAD] = *b"\xffkvbench\xff\xff\xff\xff\xff\xff\xff\xff";

/// A value as commands see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The value.
    pub value: &'a [u8],
    /// When it expires, in milliseconds since 1970; 0 is never.
    pub deadline: u64,
}

/// Whether these are the first bytes of something with a head.
#[inline(always)]
pub fn may_have_header(bytes: &[u8]) -> bool {
    matches!(bytes, [0xff, ..])
}

/// Whether a key or a value of a client needs a head to be told from those that have one.
#[inline(always)]
pub fn needs_header(bytes: &[u8]) -> bool {
    may_have_header(bytes) && bytes.starts_with(&HEADER_MAGIC)
}

/// Returns `true` if a value was corrupt when it was written anew.
pub fn is_corrupt(stored: &[u8]) -> bool {
    may_have_header(stored) && stored.starts_with(&CORRUPT)
}

/// What is stored as `encode_key`.
#[inline(always)]
pub fn entry(stored: &[u8]) -> Entry<'_> {
    if may_have_header(stored) { marked_entry(stored) } else { Entry { value: stored, deadline: 0 } }
}

#[cold]
fn marked_entry(stored: &[u8]) -> Entry<'_> {
    let marked = stored.strip_prefix(&HEADER_MAGIC).and_then(|rest| rest.split_first_chunk());
    match marked {
        Some((deadline, value)) => Entry { value, deadline: u64::from_be_bytes(*deadline) },
        None => Entry { value: stored, deadline: 0 },
    }
}

/// What stands before a value that expires at `deadline`, or never.
pub fn value_head(deadline: u64) -> [u8; VALUE_HEAD] {
    let mut head = [0; VALUE_HEAD];
    let (mark, rest) = head.split_at_mut(HEADER_MAGIC.len());
    mark.copy_from_slice(&HEADER_MAGIC);
    rest.copy_from_slice(&deadline.to_be_bytes());
    head
}

/// What stands before a key of `database`.
pub fn key_head(database: u8) -> [u8; KEY_HEADER] {
    let mut head = [database; KEY_HEADER];
    head.first_chunk_mut().into_iter().for_each(|mark| *mark = HEADER_MAGIC);
    head
}

/// The database and the key that are stored as `encode_key`; `None` for a record of the layer itself.
#[inline(always)]
pub fn key(stored: &[u8]) -> Option<(u8, &[u8])> {
    if may_have_header(stored) { marked_key(stored) } else { Some((0, stored)) }
}

#[cold]
fn marked_key(stored: &[u8]) -> Option<(u8, &[u8])> {
    match stored.strip_prefix(&HEADER_MAGIC) {
        Some([MARKER_RECORD, ..]) => None,
        Some([database, key @ ..]) => Some((*database, key)),
        Some([]) | None => Some((0, stored)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_deadline_is_stored_as_it_is() {
        for value in [&b""[..], b"v", b"\xff", b"\xffkvbenc", b"\xfekvbench"] {
            assert!(!needs_header(value));
            assert_eq!(entry(value), Entry { value, deadline: 0 });
            assert_eq!(key(value), Some((0, value)));
        }
    }

    #[test]
    fn records_of_the_layer_are_no_keys() {
        for record in [&EXPIRES[..], &SPACES] {
            assert_eq!(key(record), None);
        }
    }

    #[test]
    fn heads_are_read_back() {
        for value in [&b""[..], b"v", &HEADER_MAGIC, &EXPIRES, &value_head(7)] {
            for deadline in [0, 1, u64::MAX] {
                let stored = [&value_head(deadline), value].concat();
                assert_eq!(entry(&stored), Entry { value, deadline });
            }
            for database in [0, 1, 15] {
                let stored = [&key_head(database), value].concat();
                assert_eq!(key(&stored), Some((database, value)));
            }
            assert!(value.len() < HEADER_MAGIC.len() || needs_header(value));
        }
    }
}

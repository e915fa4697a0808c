//! Headers that the keyspace layer (`crate::store`) puts before stored keys and values: the expiration time of a value,
//! and the database of a key. To most engines they are bytes like others. Besides the keyspace layer, these know them:
//! the append-only file, which must contain commands that Redis knows; `bitcask`, for [`CORRUPT`]; the engine for Redis
//! Cluster, which hashes the key without its header; the calibration engine; and error messages.
//!
//! - A value without an expiration time in database 0, and its key, are stored unchanged: they cost nothing, and
//!   have the format of versions without headers.
//! - A value with an expiration time is [`HEADER_MAGIC`], the time (milliseconds since 1970, eight bytes,
//!   big-endian), the value.
//! - A key of database `n` is [`HEADER_MAGIC`], the byte `n`, the key.
//! - A value, or a key of database 0, that itself begins with [`HEADER_MAGIC`] has such a header too: with
//!   expiration time 0, or `n` = 0. So each key and value has one stored form, and is read back unchanged.
//! - A value that was corrupt when it had to be rewritten (a merge of `bitcask`, `SWAPDB`) is [`CORRUPT`], and what
//!   remained of the value. Such a value cannot be read.
//! - Marker records have keys of [`HEADER_MAGIC`] and [`MARKER_RECORD`].

/// First bytes of stored keys and values with a header. UTF-8 text never contains the first of these bytes.
pub const HEADER_MAGIC: [u8; 8] = *b"\xffkvbench";

/// Length in bytes of the header of a value with an expiration time.
pub const VALUE_HEAD: usize = HEADER_MAGIC.len() + size_of::<u64>();

/// Length in bytes of the header of a key of another database than 0.
pub const KEY_HEADER: usize = HEADER_MAGIC.len() + 1;

/// Byte after [`HEADER_MAGIC`], in place of a database, in the key of a marker record.
pub const MARKER_RECORD: u8 = 0xff;

/// Key of the marker record that says that values may have expiration times: written before the first such value, and
/// removed only with all keys.
pub const EXPIRATIONS_RECORD: [u8; KEY_HEADER] = *b"\xffkvbench\xff";

/// Key of the marker record that says that keys may be stored with a header: written before the first such key, and
/// removed only with all keys.
pub const KEY_HEADERS_RECORD: [u8; KEY_HEADER + 1] = *b"\xffkvbench\xffd";

/// Header of a value that was corrupt when it was rewritten, so that it stays corrupt: [`HEADER_MAGIC`] and an
/// expiration time that no value has.
pub const CORRUPT: [u8; VALUE_HEAD] = *b"\xffkvbench\xff\xff\xff\xff\xff\xff\xff\xff";

/// Value without its header, as commands see it, and its expiration time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Value as a client wrote it, without header.
    pub value: &'a [u8],
    /// Expiration time of the value in milliseconds since 1970; 0: never.
    pub deadline: u64,
}

/// Returns `true` if a stored key or value may have a header, by its first byte.
#[inline(always)]
pub fn may_have_header(bytes: &[u8]) -> bool {
    matches!(bytes, [0xff, ..])
}

/// Returns `true` if a client's key or value must be stored with a header because it would look like one that has a
/// header.
#[inline(always)]
pub fn needs_header(bytes: &[u8]) -> bool {
    may_have_header(bytes) && bytes.starts_with(&HEADER_MAGIC)
}

/// Returns `true` if the stored value stands for one that was corrupt when it was rewritten.
pub fn is_corrupt(stored: &[u8]) -> bool {
    may_have_header(stored) && stored.starts_with(&CORRUPT)
}

/// Returns the value and the expiration time in the stored value `stored`.
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

/// Returns the header of a value that expires at `deadline`, in milliseconds since 1970; 0: never.
pub fn value_head(deadline: u64) -> [u8; VALUE_HEAD] {
    let mut head = [0; VALUE_HEAD];
    let (mark, rest) = head.split_at_mut(HEADER_MAGIC.len());
    mark.copy_from_slice(&HEADER_MAGIC);
    rest.copy_from_slice(&deadline.to_be_bytes());
    head
}

/// Returns the header of a stored key of `database`.
pub fn key_head(database: u8) -> [u8; KEY_HEADER] {
    let mut head = [database; KEY_HEADER];
    head.first_chunk_mut().into_iter().for_each(|mark| *mark = HEADER_MAGIC);
    head
}

/// Returns the database and the key of the stored key `stored`; `None` for a marker record.
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
    fn values_without_expiration_time_are_stored_unchanged() {
        for value in [&b""[..], b"v", b"\xff", b"\xffkvbenc", b"\xfekvbench"] {
            assert!(!needs_header(value));
            assert_eq!(entry(value), Entry { value, deadline: 0 });
            assert_eq!(key(value), Some((0, value)));
        }
    }

    #[test]
    fn marker_records_are_not_keys() {
        for record in [&EXPIRATIONS_RECORD[..], &KEY_HEADERS_RECORD] {
            assert_eq!(key(record), None);
        }
    }

    #[test]
    fn heads_are_read_back() {
        for value in [&b""[..], b"v", &HEADER_MAGIC, &EXPIRATIONS_RECORD, &value_head(7)] {
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

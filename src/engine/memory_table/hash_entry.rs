//! Pair of the hash table: one allocation behind one pointer.
#![expect(unsafe_code, reason = "a boxed slice keeps its length beside the pointer: 8 bytes a slot more")]

use super::SLOW_TO_FREE;
use std::{mem, ptr::NonNull, slice};

/// Key and value in one allocation: its length in four bytes, the key's length, the key, the value.
///
/// One box each for key and value would double the allocations and a look-up's cache misses, and anything else stored
/// in the table would also take space in its empty slots. The key's length is one byte, or [`LONG_KEY_MARK`] and four
/// more bytes.
pub(in super::super) struct Entry(NonNull<u8>);

/// Byte that stands before the four bytes of a key's length if the key has at least this length.
const LONG_KEY_MARK: u8 = u8::MAX;

/// Number of bytes of an entry before the length of its key.
const START: usize = size_of::<u32>();

/// Returns `true` if the length of a key of `key` bytes takes five bytes in an entry, not one.
#[inline]
fn is_long(key: usize) -> bool {
    key >= usize::from(LONG_KEY_MARK)
}

/// Returns the offset in an entry of a key of `key` bytes.
#[inline]
fn start_of_key(key: usize) -> usize {
    START + if is_long(key) { 1 + size_of::<u32>() } else { 1 }
}

// SAFETY: the bytes are the entry's own, as a `Box<[u8]>`'s are.
unsafe impl Send for Entry {}
// SAFETY: the bytes are the entry's own, and change through `&mut` only.
unsafe impl Sync for Entry {}

impl Entry {
    /// Creates a pair. The engine takes neither keys nor values of more than 512 MiB, so all lengths fit 32 bits.
    pub(super) fn new(key: &[u8], value: &[u8]) -> Self {
        let length = start_of_key(key.len()) + key.len() + value.len();
        assert!(u32::try_from(length).is_ok(), "the unsafe code below relies on it");
        let mut bytes = Vec::with_capacity(length);
        bytes.extend_from_slice(&to_u32(length).to_le_bytes());
        if is_long(key.len()) {
            bytes.push(LONG_KEY_MARK);
            bytes.extend_from_slice(&to_u32(key.len()).to_le_bytes());
        } else {
            bytes.push(key.len() as u8);
        }
        bytes.extend_from_slice(key);
        bytes.extend_from_slice(value);
        debug_assert_eq!(bytes.len(), length);
        Self(NonNull::from(Box::leak(bytes.into_boxed_slice())).cast())
    }

    #[inline]
    fn bytes(&self) -> NonNull<[u8]> {
        // SAFETY: every allocation begins with these four bytes, written by `new`.
        let length = unsafe { self.0.cast::<[u8; START]>().read() };
        NonNull::slice_from_raw_parts(self.0, u32::from_le_bytes(length) as usize)
    }

    #[inline]
    pub(in super::super) fn pair(&self) -> (&[u8], &[u8]) {
        // SAFETY: this is the boxed slice that `new` leaked, and it lives as long as the entry.
        let bytes: &[u8] = unsafe { self.bytes().as_ref() };
        let (length, rest) = match bytes {
            [_, _, _, _, LONG_KEY_MARK, a, b, c, d, rest @ ..] => {
                (u32::from_le_bytes([*a, *b, *c, *d]) as usize, rest)
            }
            [_, _, _, _, length, rest @ ..] => (usize::from(*length), rest),
            _ => (0, &[][..]),
        };
        // `new` took the length from the key, so the default is never taken.
        rest.split_at_checked(length).unwrap_or_default()
    }

    #[inline]
    pub(super) fn key(&self) -> &[u8] {
        self.pair().0
    }

    /// Returns `true` if `key` is the key of this entry.
    #[inline]
    pub(super) fn has_key(&self, key: &[u8]) -> bool {
        if is_long(key.len()) {
            return self.key() == key;
        }
        // SAFETY: an entry has at least five bytes.
        let length = unsafe { self.0.add(START).read() };
        if usize::from(length) != key.len() {
            return false;
        }
        // SAFETY: the key stands behind its length.
        let own = unsafe { slice::from_raw_parts(self.0.add(start_of_key(key.len())).as_ptr(), key.len()) };
        same_length_equal(own, key)
    }

    /// Returns the value of this entry, whose key has `length` bytes.
    #[inline]
    pub(super) fn value_behind(&self, length: usize) -> &[u8] {
        // SAFETY: as in `pair`.
        let bytes: &[u8] = unsafe { self.bytes().as_ref() };
        bytes.get(start_of_key(length) + length..).unwrap_or_default()
    }

    /// Returns the address of the entry in memory.
    pub(super) fn address(&self) -> usize {
        self.0.addr().get()
    }

    /// Returns the first byte of the entry, only to fetch its memory into the cache.
    #[inline]
    pub(super) fn first(&self) -> u8 {
        // SAFETY: no allocation is shorter than its length.
        unsafe { self.0.read() }
    }

    /// Frees the entry, unless it is so large that this takes long: then it is added to `heavy`.
    #[inline]
    pub(super) fn free(self, heavy: &mut Vec<Self>) {
        if self.bytes().len() > SLOW_TO_FREE {
            heavy.push(self);
        }
    }

    /// Replaces the value of the entry, in place if the length is equal. Otherwise the old entry is freed as by
    /// [`Entry::free`].
    #[inline]
    pub(super) fn set_value(&mut self, value: &[u8], heavy: &mut Vec<Self>) {
        let (key, old) = self.pair();
        if old.len() != value.len() {
            let new = Self::new(key, value);
            return mem::replace(self, new).free(heavy);
        }
        // SAFETY: as in `pair`, and `&mut self` excludes all other references.
        let bytes: &mut [u8] = unsafe { slice::from_raw_parts_mut(self.0.as_ptr(), self.bytes().len()) };
        let start = bytes.len() - value.len();
        if let Some(place) = bytes.get_mut(start..) {
            place.copy_from_slice(value);
        }
    }
}

/// Returns `true` if two slices of equal length are equal. For a short key a call of `memcmp` would take longer
/// than the rest of the look-up.
#[inline]
fn same_length_equal(a: &[u8], b: &[u8]) -> bool {
    /// Compares the first and the last `N` bytes, which are all bytes of slices of `N` to `2 * N` bytes.
    #[inline]
    fn ends<const N: usize>(a: &[u8], b: &[u8]) -> bool {
        a.first_chunk::<N>() == b.first_chunk() && a.last_chunk::<N>() == b.last_chunk()
    }
    match a.len() {
        8..=16 => ends::<8>(a, b),
        17..=32 => ends::<16>(a, b),
        _ => a == b,
    }
}

fn to_u32(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

impl Drop for Entry {
    fn drop(&mut self) {
        // SAFETY: `new` leaked this box, and nothing uses it any more.
        drop(unsafe { Box::from_raw(self.bytes().as_ptr()) });
    }
}

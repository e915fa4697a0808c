//! Encoding of keys for the cluster: the hash slot of a key, and its stored form.

use super::description::NAME;
use crate::engine::{Error, Result, key_value_headers};
use std::sync::OnceLock;

/// Number of hash slots of a Redis Cluster.
pub(super) const SLOTS: u16 = 16_384;

/// Length of a hash tag of three letters or digits with its braces, in bytes.
const TAG_LEN: usize = 5;

/// Encoder of the keys of a store, which share a prefix.
///
/// The stored form of a key is prefix, `{tag}`, key, where the tag has the same hash slot as the key. So the slot does
/// not depend on the prefix or the database, and is the one that clients of Redis Cluster compute from the key. If the
/// prefix contains a tag itself, the stored form is prefix, key, and all keys are in one slot.
pub(super) struct Keys {
    prefix: Vec<u8>,
    /// Hash slot of all keys, if the prefix contains a hash tag; otherwise `None`.
    single_slot: Option<u16>,
}

impl Keys {
    pub fn new(prefix: &[u8]) -> Result<Self> {
        let (single_slot, prefix) = (tag(prefix).map(slot_of), prefix.to_vec());
        if single_slot.is_none() && prefix.contains(&b'{') {
            let what =
                "takes no --prefix with { that is no tag, such as {tag}: it would decide where keys are"
                    .into();
            return Err(Error::Unsupported { engine: NAME, what });
        }
        Ok(Self { prefix, single_slot })
    }

    /// Returns the number of bytes that the stored form adds to a key: prefix and hash tag.
    pub fn head(&self) -> usize {
        self.prefix.len() + if self.single_slot.is_some() { 0 } else { TAG_LEN }
    }

    /// Returns the hash slot of a key. The key header, which the keyspace layer may put before a client's key, does not
    /// count.
    pub fn slot(&self, key: &[u8]) -> u16 {
        let of_client = || key_value_headers::key(key).map_or(key, |(_, key)| key);
        self.single_slot.unwrap_or_else(|| slot(of_client()))
    }

    /// Returns the stored form of a key: the prefix, a hash tag of the key's slot unless the prefix has a tag, and the
    /// key.
    pub fn stored(&self, key: &[u8]) -> Vec<u8> {
        let mut stored = Vec::with_capacity(self.head() + key.len());
        self.push_stored(self.slot(key), key, &mut stored);
        stored
    }

    /// Appends the stored form of `key` (prefix, hash tag, key), whose hash slot is `slot`, to `to`.
    pub fn push_stored(&self, slot: u16, key: &[u8], to: &mut Vec<u8>) {
        to.extend_from_slice(&self.prefix);
        if self.single_slot.is_none() {
            to.push(b'{');
            to.extend_from_slice(tag_in(slot));
            to.push(b'}');
        }
        to.extend_from_slice(key);
    }

    /// Returns a key name whose hash slot is `slot`: a script that gets it as a key is executed by the node that has
    /// the slot.
    pub fn name_in(&self, slot: u16) -> Vec<u8> {
        match self.single_slot {
            Some(_) => self.prefix.clone(),
            None => [&self.prefix, &b"{"[..], tag_in(slot), b"}"].concat(),
        }
    }

    /// Returns the key whose stored form is `stored`. Returns `None` if `stored` lacks the prefix, or the hash tag that
    /// belongs to the key: another store or program wrote it. If the prefix contains a tag, only the prefix is checked.
    pub fn key<'k>(&self, stored: &'k [u8]) -> Option<&'k [u8]> {
        let rest = stored.strip_prefix(self.prefix.as_slice())?;
        if self.single_slot.is_some() {
            return Some(rest);
        }
        let (head, key) = rest.split_at_checked(TAG_LEN)?;
        (head == [&b"{"[..], tag_in(self.slot(key)), b"}"].concat()).then_some(key)
    }

    /// Returns the hash slots that may contain keys of this store: all, or the one of a prefix with a hash tag.
    pub fn slots(&self) -> std::ops::Range<u16> {
        self.single_slot.map_or(0..SLOTS, |slot| slot..slot + 1)
    }
}

/// Returns the hash slot of a key or, if it has one, of its hash tag, as Redis Cluster computes it.
fn slot(key: &[u8]) -> u16 {
    slot_of(tag(key).unwrap_or(key))
}

/// Returns the hash tag of a key: the text between the first `{` and the next `}`, or `None` if there is none or it is
/// empty.
fn tag(key: &[u8]) -> Option<&[u8]> {
    let open = key.iter().position(|byte| *byte == b'{')?;
    let rest = key.get(open + 1..)?;
    let close = rest.iter().position(|byte| *byte == b'}')?;
    rest.get(..close).filter(|tag| !tag.is_empty())
}

/// Table of the CRC-16/XMODEM of each byte.
#[expect(clippy::indexing_slicing, reason = "at compile time")]
static CRC: [u16; 256] = {
    let (mut table, mut byte) = ([0; 256], 0);
    while byte < 256 {
        let (mut crc, mut bit) = ((byte as u16) << 8, 0);
        while bit < 8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

/// Returns the hash slot of `bytes`: the CRC-16/XMODEM modulo [`SLOTS`].
fn slot_of(bytes: &[u8]) -> u16 {
    let next = |crc: u16, byte: &u8| {
        let index = usize::from(crc >> 8) ^ usize::from(*byte);
        crc << 8 ^ CRC.get(index).copied().unwrap_or(0)
    };
    bytes.iter().fold(0, next) % SLOTS
}

/// Returns for each hash slot, by its number, the first tag of three letters or digits that is in the slot. The tags
/// must never change: they are part of stored keys.
fn tags() -> &'static [[u8; 3]] {
    static TAGS: OnceLock<Vec<[u8; 3]>> = OnceLock::new();
    TAGS.get_or_init(|| {
        let letters = || (b'0'..=b'9').chain(b'A'..=b'Z').chain(b'a'..=b'z');
        let mut tags = vec![[0; 3]; SLOTS.into()];
        for a in letters() {
            for tag in letters().flat_map(|b| letters().map(move |c| [a, b, c])) {
                if let Some(place @ [0, ..]) = tags.get_mut(usize::from(slot_of(&tag))) {
                    *place = tag;
                }
            }
        }
        tags
    })
}

fn tag_in(slot: u16) -> &'static [u8] {
    tags().get(usize::from(slot)).map_or(b"", |tag| tag)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The hash slots of keys are those that `CLUSTER KEYSLOT` of Redis returns.
    #[test]
    fn hash_slots_match_redis() {
        for (key, expected) in [
            (&b"foo"[..], 12_182),
            (b"123456789", 12_739),
            (b"{x}a", 16_287),
            (b"", 0),
            (b"foo{}{bar}", 8363),
            (b"foo{{bar}}zap", 4015),
        ] {
            assert_eq!(slot(key), expected, "{key:?}");
        }
        assert_eq!(slot(b"{user1000}.following"), slot(b"{user1000}.followers"));
        assert_eq!(slot(b"foo{bar}{zap}"), slot(b"bar"));
    }

    #[test]
    fn every_slot_has_a_tag() {
        for slot in 0..SLOTS {
            assert_eq!((tag_in(slot).len(), slot_of(tag_in(slot))), (3, slot));
        }
        assert_eq!((tag_in(0), tag_in(12_182)), (&b"06S"[..], &b"9Le"[..]), "stored keys would not be found");
    }

    /// The stored form of a key is in the hash slot of the client's key, with several prefixes and with the key header
    /// of a database. Stored keys of other programs are not decoded.
    #[test]
    fn stored_form_is_in_the_slot_of_the_key() {
        for prefix in [&b""[..], b"kvbench/", b"a}b"] {
            let keys = Keys::new(prefix).unwrap();
            for key in [&b""[..], b"key", b"{tag}key", b"{}key", b"a}b{c", b"\xff\0"] {
                for stored in [key.to_vec(), [&key_value_headers::key_head(3), key].concat()] {
                    let there = keys.stored(&stored);
                    assert_eq!((slot(&there), keys.slot(&stored)), (slot(key), slot(key)));
                    assert_eq!(keys.key(&there), Some(&stored[..]));
                    assert_eq!(there.len(), stored.len() + keys.head());
                }
            }
            for other in [&b"other"[..], b"kvbench/", b"kvbench/{tag}key", b"kvbench/{000}key"] {
                assert_eq!(keys.key(other), None);
            }
        }
    }

    #[test]
    fn a_prefix_with_a_tag_keeps_all_keys_in_one_slot() {
        let keys = Keys::new(b"{all}/").unwrap();
        for key in [&b"a"[..], b"b", b"{tag}c"] {
            assert_eq!((keys.slot(key), slot(&keys.stored(key))), (slot(b"all"), slot(b"all")));
            assert_eq!(keys.key(&keys.stored(key)), Some(key));
        }
        assert_eq!(keys.slots(), slot(b"all")..slot(b"all") + 1);
        assert!(Keys::new(b"a{b").is_err() && Keys::new(b"{}").is_err());
    }
}

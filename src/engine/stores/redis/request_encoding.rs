//! Encoding of requests to a node of a Redis Cluster in RESP.

use super::key_encoding::Keys;

/// Appends the start of a request to `packed`: the header of a RESP array of `words` elements, which are the command
/// name and the arguments, and the command name `name`.
pub(super) fn begin(packed: &mut Vec<u8>, words: usize, name: &str) {
    number(packed, b'*', words);
    argument(packed, name.as_bytes());
}

/// Appends an argument of a request as a RESP bulk string.
pub(super) fn argument(packed: &mut Vec<u8>, word: &[u8]) {
    number(packed, b'$', word.len());
    packed.extend_from_slice(word);
    packed.extend_from_slice(b"\r\n");
}

/// Appends the stored form of `key`, whose hash slot is `slot`, as an argument of a request.
pub(super) fn key(packed: &mut Vec<u8>, keys: &Keys, slot: u16, key: &[u8]) {
    number(packed, b'$', keys.head() + key.len());
    keys.push_stored(slot, key, packed);
    packed.extend_from_slice(b"\r\n");
}

fn number(packed: &mut Vec<u8>, kind: u8, number: usize) {
    packed.push(kind);
    packed.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
    packed.extend_from_slice(b"\r\n");
}

//! Values that clients write, represented in a few bytes from which the value can be generated and recognised.

use rand::{Rng, RngCore, SeedableRng, rngs::SmallRng};

/// Minimum length in bytes of values that contain the numbers of their client and request.
const NAMED: u32 = 16;

/// Content of some values: Redis commands, which an AOF replay that starts inside a value would execute.
const HOSTILE: &[u8] = b"\r\n*1\r\n$8\r\nFLUSHALL\r\n*1\r\n$7\r\nFLUSHDB\r\n";

/// Value of a key in a few bytes, from which its bytes can be generated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::torture) enum Content {
    /// Value that a client wrote with this request; values shorter than [`NAMED`] contain only the request number
    /// modulo 256.
    Bytes { client: u32, request: u32, len: u32 },
    /// Value of a counter.
    Number(i64),
    /// Value that no client wrote.
    Foreign,
}

impl Content {
    /// Returns the value that a client writes with this request. Two such values are equal if and only if their
    /// bytes are.
    pub fn new(client: u32, request: u32, len: u32) -> Self {
        match len {
            NAMED.. => Self::Bytes { client, request, len },
            _ => Self::Bytes { client: 0, request: request % 256, len },
        }
    }

    pub fn bytes(self) -> Vec<u8> {
        match self {
            Self::Number(number) => number.to_string().into_bytes(),
            Self::Bytes { client, request, len: len @ NAMED.. } => named(client, request, len as usize),
            Self::Bytes { request, len, .. } => vec![request as u8; len as usize],
            Self::Foreign => Vec::new(),
        }
    }

    /// Returns `true` if `bytes` is this value.
    pub fn is(self, bytes: &[u8]) -> bool {
        match self {
            Self::Bytes { len, .. } => bytes.len() == len as usize && self.bytes() == bytes,
            _ => self.bytes() == bytes,
        }
    }

    /// Returns the number of the request that wrote the value, modulo 256 for short values; `None` for a number or
    /// an unknown value.
    pub fn request(self) -> Option<u32> {
        match self {
            Self::Bytes { request, .. } => Some(request),
            _ => None,
        }
    }
}

/// Returns a value of `len` bytes: the numbers of client and request, then random bytes; in 1 of 16 values each,
/// zeros or Redis commands instead.
fn named(client: u32, request: u32, len: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(len);
    bytes.extend_from_slice(&client.to_be_bytes());
    bytes.extend_from_slice(&request.to_be_bytes());
    let mut noise = SmallRng::seed_from_u64(u64::from(client) << 32 | u64::from(request));
    match noise.random_range(0..16) {
        0 => {}
        1 => bytes.extend(HOSTILE.iter().cycle().take(len - bytes.len())),
        _ => {
            let start = bytes.len();
            bytes.resize(len, 0);
            noise.fill_bytes(bytes.get_mut(start..).unwrap_or_default());
        }
    }
    bytes.resize(len, 0);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_when_the_bytes_are() {
        let contents: Vec<_> =
            (0..600).flat_map(|n| [1, 15, 16, 5000].map(|len| Content::new(3, n, len))).collect();
        for (n, one) in contents.iter().enumerate().step_by(7) {
            let bytes = one.bytes();
            assert!(one.is(&bytes));
            for other in &contents[n..] {
                assert_eq!(other.is(&bytes), other == one, "{one:?} {other:?}");
            }
        }
    }
}

//! What a key holds, in a few bytes: enough to make the value again, and to know it by.

use rand::{Rng, RngCore, SeedableRng, rngs::SmallRng};

/// Values from this length on tell who wrote them and when.
const NAMED: u32 = 16;

/// What some values are full of: a log that is read from the middle of a value would obey it.
const HOSTILE: &[u8] = b"\r\n*1\r\n$8\r\nFLUSHALL\r\n*1\r\n$7\r\nFLUSHDB\r\n";

/// A value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::torture) enum Content {
    /// Written by a client with its request of that number; short ones hold only a part of the number.
    Bytes { client: u32, request: u32, len: u32 },
    /// A counter.
    Number(i64),
    /// Something that nobody wrote.
    Foreign,
}

impl Content {
    /// Two of these are equal when their bytes are.
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

    /// Whether these are its bytes.
    pub fn is(self, bytes: &[u8]) -> bool {
        match self {
            Self::Bytes { len, .. } => bytes.len() == len as usize && self.bytes() == bytes,
            _ => self.bytes() == bytes,
        }
    }

    /// The request it came with, as far as it tells.
    pub fn request(self) -> Option<u32> {
        match self {
            Self::Bytes { request, .. } => Some(request),
            _ => None,
        }
    }
}

/// Who and when, then noise; zeros now and then, or commands.
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

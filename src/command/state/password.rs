//! The password of the server's only user.

use sha2::{Digest, Sha256};
use std::fmt;
use subtle::ConstantTimeEq;

/// A password, kept as its digest: the text is nowhere to be read, and a guess takes as long whether its
/// beginning is right or not.
#[derive(Clone)]
pub struct Password([u8; 32]);

impl Password {
    /// `None` for the empty one, which is none.
    pub fn new(text: &[u8]) -> Option<Self> {
        (!text.is_empty()).then(|| Self(Sha256::digest(text).into()))
    }

    /// Whether `guess` is the password.
    pub fn matches(&self, guess: &[u8]) -> bool {
        Sha256::digest(guess).ct_eq(&self.0).into()
    }
}

/// Shows nothing of it.
impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password")
    }
}

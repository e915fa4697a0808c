//! The password of the server's only user.

use sha2::{Digest, Sha256};
use std::fmt;
use subtle::ConstantTimeEq;

/// Password, stored as a digest: the text cannot be read from memory, and the time of a comparison does not
/// depend on how much of a guess is right.
#[derive(Clone)]
pub struct Password([u8; 32]);

impl Password {
    /// Returns the password; `None` if `text` is empty, which means no password.
    pub fn new(text: &[u8]) -> Option<Self> {
        (!text.is_empty()).then(|| Self(Sha256::digest(text).into()))
    }

    /// Returns `true` if `guess` is the password; the time does not depend on how much of it is right.
    pub fn matches(&self, guess: &[u8]) -> bool {
        Sha256::digest(guess).ct_eq(&self.0).into()
    }
}

/// Prints neither the password nor its digest.
impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password")
    }
}

//! What a reference answers reads with.

/// What an engine should hold.
pub trait Expected: Send + Sync {
    /// Makes the value that a key should have: false when there is none. The buffer is overwritten.
    fn value(&self, key: &[u8], value: &mut Vec<u8>) -> bool;

    /// All keys in ascending order.
    fn keys(&self) -> Vec<Vec<u8>>;
}

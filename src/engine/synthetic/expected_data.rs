//! Expected data of a store, from which a synthetic engine answers reads.

/// Data that a store is expected to contain.
pub trait Expected: Send + Sync {
    /// Writes the expected value of a key to `value`, replacing its contents. Returns `false` if the key should not
    /// exist.
    fn value(&self, key: &[u8], value: &mut Vec<u8>) -> bool;

    /// Returns all expected keys in ascending order.
    fn keys(&self) -> Vec<Vec<u8>>;
}

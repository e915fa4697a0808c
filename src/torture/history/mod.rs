//! What one client asked for and was told, and which states of a store that allows.
//!
//! A connection's requests are executed in their order, and no two clients share a key. So after a strike
//! the keys of a client must be as its first n requests left them, for one n: at most those that were
//! sent, at least those that were acknowledged, less what the store may lose. Where requests were refused
//! in between (a full disk), each of those may have been executed or not, and each key is looked at by
//! itself; the keys of one MSET, or of one transaction, together.

mod keys;
mod record;
mod request;
#[cfg(test)]
mod tests;
pub(super) mod value;
mod verify;

pub(super) use {
    keys::{KEYS, SubjectCapabilities, key},
    record::History,
    request::{Expected, ObservedValue, Request},
};

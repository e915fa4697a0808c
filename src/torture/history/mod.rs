//! Requests and replies of one client, and the states of a store that they allow.
//!
//! A connection's requests are executed in order, and no two clients share a key. So after a kill or power cut,
//! the keys of a client must have the state after its first n requests, for some n: at most the number of requests
//! sent, at least the number acknowledged, minus the writes that the loss bound allows to lose. If requests were
//! refused in between (full disk), each of them may or may not have been executed, and each key is checked
//! separately, except that the keys of one MSET or of one transaction are checked together.

mod client_history;
mod keys;
mod request;
#[cfg(test)]
mod tests;
pub(super) mod value;
mod verify;

pub(super) use {
    client_history::History,
    keys::{KEYS, SubjectCapabilities, key},
    request::{Expected, ObservedValue, Request},
};

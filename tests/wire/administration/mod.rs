//! Looking after a server at work: who is connected, what it counts, what may change.

mod clients;
mod counters;
mod durability;
mod help;
mod info;
mod latency;
mod memory;
mod metrics;
mod settings;
mod slow;
mod texts;
#[cfg(feature = "top")]
mod top;
mod transactions;

use crate::{frames::ask, support::Client};

fn text(client: &mut Client, words: &[&str]) -> String {
    String::from_utf8_lossy(&ask(client, words)).into_owned()
}

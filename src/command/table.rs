//! The command table: every family's rows, one after the other.

use super::{
    bitfield, bits, client, config, connection, counter, expire, info, introspection, keyspace, latency, lcs,
    memory, observe, range, scan, server,
    spec::{Commands, Spec},
    string, transaction,
};

const FAMILIES: &[&[Spec]] = &[
    string::COMMANDS,
    range::COMMANDS,
    counter::COMMANDS,
    lcs::COMMANDS,
    bits::COMMANDS,
    bitfield::COMMANDS,
    keyspace::COMMANDS,
    expire::COMMANDS,
    transaction::COMMANDS,
    scan::COMMANDS,
    connection::COMMANDS,
    client::COMMANDS,
    introspection::COMMANDS,
    server::COMMANDS,
    info::COMMANDS,
    config::COMMANDS,
    observe::COMMANDS,
    latency::COMMANDS,
    memory::COMMANDS,
];

/// Every command, family by family.
pub fn table() -> impl Iterator<Item = &'static Spec> {
    FAMILIES.iter().copied().flatten()
}

/// The command of that name, in any mix of cases.
pub fn find(name: &str) -> Option<&'static Spec> {
    table().find(|spec| spec.name.eq_ignore_ascii_case(name))
}

impl Commands {
    /// All commands but those `disabled` by name.
    pub fn without(disabled: &[&str]) -> Self {
        Self::new(table().filter(|spec| !disabled.contains(&spec.name)).collect())
    }
}

//! The command table: the rows of all families.

use super::{
    admin::{client, command_info, config, connection, info, latency, memory, observe, server, transaction},
    data::{bitfield, bitmap, counter, expire, key, lcs, range, scan, string},
    spec::{CommandTable, Spec},
};

const FAMILIES: &[&[Spec]] = &[
    string::COMMANDS,
    range::COMMANDS,
    counter::COMMANDS,
    lcs::COMMANDS,
    bitmap::COMMANDS,
    bitfield::COMMANDS,
    key::COMMANDS,
    expire::COMMANDS,
    transaction::COMMANDS,
    scan::COMMANDS,
    connection::COMMANDS,
    client::COMMANDS,
    command_info::COMMANDS,
    server::COMMANDS,
    info::COMMANDS,
    config::COMMANDS,
    observe::COMMANDS,
    latency::COMMANDS,
    memory::COMMANDS,
];

/// Returns all commands, family by family.
pub fn table() -> impl Iterator<Item = &'static Spec> {
    FAMILIES.iter().copied().flatten()
}

/// Finds a command by its name; the case of letters is ignored.
pub fn find(name: &str) -> Option<&'static Spec> {
    table().find(|spec| spec.name.eq_ignore_ascii_case(name))
}

impl CommandTable {
    /// Creates a table of all commands except the `disabled` ones.
    pub fn without(disabled: &[&str]) -> Self {
        Self::new(table().filter(|spec| !disabled.contains(&spec.name)).collect())
    }
}

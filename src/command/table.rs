//! The command table: the rows of all families, and the list of commands in `docs/commands.md`.

use super::{
    admin::{client, command_info, config, connection, info, latency, server, slowlog, transaction},
    data::{bitfield, bitmap, counter, expire, key, lcs, string, whole_keyspace},
    flags::{READONLY, WRITE},
    spec::{CommandTable, Spec},
};

const FAMILIES: &[&[Spec]] = &[
    string::COMMANDS,
    counter::COMMANDS,
    lcs::COMMANDS,
    bitmap::COMMANDS,
    bitfield::COMMANDS,
    key::COMMANDS,
    expire::COMMANDS,
    transaction::COMMANDS,
    whole_keyspace::COMMANDS,
    connection::COMMANDS,
    client::COMMANDS,
    command_info::COMMANDS,
    server::COMMANDS,
    info::COMMANDS,
    config::COMMANDS,
    slowlog::COMMANDS,
    latency::COMMANDS,
];

/// Returns the rows of all commands, family by family.
pub fn table() -> impl Iterator<Item = &'static Spec> {
    FAMILIES.iter().copied().flatten()
}

/// Returns the row of the command named `name`, or `None`; the case of letters is ignored.
pub fn find(name: &str) -> Option<&'static Spec> {
    table().find(|spec| spec.name.eq_ignore_ascii_case(name))
}

impl CommandTable {
    /// Creates a table of all commands except those whose names are in `disabled`.
    pub fn without(disabled: &[&str]) -> Self {
        Self::new(table().filter(|spec| !disabled.contains(&spec.name)).collect())
    }
}

const HEAD: &str = "\
# Commands

Made by `kvbench commands`; a test compares. Names and options may be in any case. Replies and errors are those of
redis-server 7, in RESP2 and RESP3, except where the description says something else. `KEYS` also takes `LIMIT n` and `WITHVALUES`.

Commands that read or write keys are atomic on every engine. Exceptions: `DEL` and `UNLINK` of more than 1,024 keys remove
1,024 keys at a time; `KEYS` may show only a part of an `MSET` or a transaction that is executed
meanwhile ([when](protocol.md#differences-from-redis-server-7015)); and in a cluster commands on all keys, such as
`FLUSHALL`, may take several steps ([distributed.md](distributed.md)). Within a pipeline a read sees the writes before it.
";

/// Returns the list of commands in Markdown, group by group.
pub fn markdown() -> String {
    let mut groups: Vec<_> = table().map(|spec| spec.group.name()).collect();
    groups.sort_unstable();
    groups.dedup();
    let mut text = String::from(HEAD);
    for group in groups {
        text.push_str(&format!("\n## {group}\n\n| command | arguments | | |\n|---|---|---|---|\n"));
        for spec in table().filter(|spec| spec.group.name() == group) {
            let (name, arguments) = (spec.name.to_ascii_uppercase(), arguments(spec.arity));
            let kind = kind(spec);
            text.push_str(&format!("| `{name}` | {arguments} | {kind} | {} |\n", summary(spec)));
        }
    }
    text
}

/// Returns the number of arguments of a command after its name, as text for the list of commands.
fn arguments(arity: i32) -> String {
    let least = arity.unsigned_abs().saturating_sub(1);
    if arity < 0 { format!("{least} or more") } else { least.to_string() }
}

fn kind(spec: &Spec) -> &'static str {
    let has = |flag| spec.has(flag) || spec.subcommands.iter().any(|subcommand| subcommand.has(flag));
    match (has(WRITE), has(READONLY)) {
        (true, _) => "writes",
        (false, true) => "reads",
        (false, false) => "",
    }
}

fn summary(spec: &Spec) -> String {
    let names: Vec<_> =
        spec.subcommands.iter().map(|spec| format!("`{}`", spec.word().to_ascii_uppercase())).collect();
    match names.is_empty() {
        true => spec.summary.into(),
        false => format!("{} Subcommands: {}.", spec.summary, names.join(", ")),
    }
}

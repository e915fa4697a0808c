//! The list of commands in `docs/commands.md`.

use super::{
    spec::{Handler, Spec},
    table::table,
};

const HEAD: &str = "\
# Commands

Made by `kvbench commands`; a test compares. Names and options may be in any case. Replies and errors are those of
redis-server 7, in RESP2 and RESP3, except where the description says something else. `KEYS` also takes `LIMIT n` and `WITHVALUES`.

Commands that read or write keys are atomic on every engine. Exceptions: `DEL` and `UNLINK` of more than 1,024 keys remove
1,024 keys at a time. Within a pipeline a read sees the writes before it.
";

/// Returns the list of commands in Markdown, group by group.
pub fn markdown() -> String {
    let mut groups: Vec<_> = table().map(|spec| spec.group).collect();
    groups.sort_unstable();
    groups.dedup();
    let mut text = String::from(HEAD);
    for group in groups {
        text.push_str(&format!("\n## {group}\n\n| command | arguments | | |\n|---|---|---|---|\n"));
        for spec in table().filter(|spec| spec.group == group) {
            let (name, arguments) = (spec.name.to_ascii_uppercase(), arguments(spec.arity));
            let kind = kind(&spec.action);
            text.push_str(&format!("| `{name}` | {arguments} | {kind} | {} |\n", summary(spec)));
        }
    }
    text
}

/// Returns the number of arguments after the command name, as text.
fn arguments(arity: i32) -> String {
    let least = arity.unsigned_abs().saturating_sub(1);
    if arity < 0 { format!("{least} or more") } else { least.to_string() }
}

fn kind(action: &Handler) -> &'static str {
    match action {
        Handler::Read(_) | Handler::Keys(_) | Handler::Query(_) => "reads",
        Handler::Write(_) => "writes",
        Handler::Session(_) | Handler::Table(_) | Handler::Transaction(_) => "",
    }
}

fn summary(spec: &Spec) -> String {
    let names: Vec<_> =
        spec.subcommands.iter().map(|(name, _)| format!("`{}`", name.to_ascii_uppercase())).collect();
    match names.is_empty() {
        true => spec.summary.into(),
        false => format!("{} Subcommands: {}.", spec.summary, names.join(", ")),
    }
}

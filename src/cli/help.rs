//! Which flags `-h` shows, and errors of the command line that clap cannot explain.

use crate::engine::Kind;
use clap::{Command, Error};

/// Flags of `serve` that `-h` shows; `--help` shows all.
const SERVE: &[&str] = &[
    "store",
    "path",
    "fsync",
    "port",
    "bind",
    "password_file",
    "cache_size",
    "threads",
    "log_level",
    "config",
];

/// Flags of `bench` that `-h` shows; `--help` shows all.
#[cfg(feature = "bench")]
const BENCH: &[&str] =
    &["suite", "mix", "value_bytes", "keys", "stores", "fsync", "threads", "seconds", "quick", "output"];

/// Limits which flags of `serve` and `bench` `-h` shows; `--help` shows all.
pub(super) fn with_short_helps(command: Command) -> Command {
    let command = with_short_help(command, SERVE);
    let command = command.mut_subcommand("serve", |command| with_short_help(command, SERVE));
    #[cfg(feature = "bench")]
    let command = command.mut_subcommand("bench", |command| with_short_help(command, BENCH));
    command
}

/// Hides all flags but `shown` from `-h`.
fn with_short_help(command: Command, shown: &[&str]) -> Command {
    debug_assert!(shown.iter().all(|name| command.get_arguments().any(|flag| flag.get_id() == name)));
    command.mut_args(|flag| {
        let is_shown = shown.contains(&flag.get_id().as_str());
        flag.hide_short_help(!is_shown)
    })
}

/// Returns the flag for the name of a store that a command line with the first word `first` can have, or `None` if its
/// subcommand has none.
pub(super) fn store_flag(first: &str) -> Option<&'static str> {
    match first {
        "bench" | "duel" | "reproduce" => Some("--stores"),
        "serve" | "torture" => Some("--store"),
        // Without a subcommand it is `serve`.
        _ if first.starts_with('-') || Kind::find(first).is_some() => Some("--store"),
        _ => None,
    }
}

/// Returns the name of the store if clap's `error` is about a word that it did not expect, and this word names a store;
/// otherwise `None`.
pub(super) fn store_without_flag(error: &Error) -> Option<&'static str> {
    use clap::error::{ContextKind, ContextValue, ErrorKind};

    let kinds = [ErrorKind::ArgumentConflict, ErrorKind::InvalidSubcommand, ErrorKind::UnknownArgument];
    if !kinds.contains(&error.kind()) {
        return None;
    }
    let words = [ContextKind::InvalidSubcommand, ContextKind::InvalidArg, ContextKind::PriorArg];
    words.into_iter().find_map(|kind| match error.get(kind)? {
        ContextValue::String(word) => Some(Kind::find(word)?.info.name),
        _ => None,
    })
}

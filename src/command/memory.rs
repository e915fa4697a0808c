//! MEMORY: what a key takes.

use super::{
    help,
    refusal::{Subcommands, subcommand},
    spec::{Action, Error, NOT_AN_INTEGER, SYNTAX_ERROR, Spec},
};
use crate::{
    resp::{Args, Reply, parse_integer},
    store::Keyspace,
};

pub(super) const COMMANDS: &[Spec] = &[Spec::new(
    "memory",
    -2,
    (2, 2, 1),
    Action::Keys(memory),
    ("server", "4.0.0"),
    "Tell the length of a key and its value together.",
)
.with_subcommands(MEMORY)];

const MEMORY: Subcommands = &[("help", 2), ("usage", -3)];

fn memory(keyspace: &mut dyn Keyspace, args: Args<'_>, reply: &mut Reply) -> Result<(), Error> {
    match subcommand("memory", MEMORY, args, reply) {
        Some("usage") => usage(keyspace, args, reply),
        Some(_) => {
            help::write("MEMORY", help::MEMORY, reply);
            Ok(())
        }
        None => Ok(()),
    }
}

/// MEMORY USAGE key [SAMPLES count ...]. What an engine needs beside the bytes, no engine tells by key.
fn usage(keyspace: &mut dyn Keyspace, args: Args<'_>, reply: &mut Reply) -> Result<(), Error> {
    let mut words = args.from(3);
    while let Some(word) = words.next() {
        let count = words.next().filter(|_| word.eq_ignore_ascii_case(b"samples")).ok_or(SYNTAX_ERROR)?;
        if parse_integer(count).ok_or(NOT_AN_INTEGER)? < 0 {
            return Err(SYNTAX_ERROR);
        }
    }
    let key = args.get(2);
    keyspace.look_up(&[key], &mut |_, entry| match entry {
        Some(entry) => reply.integer((key.len() + entry.value.len()) as i64),
        None => reply.null(),
    })?;
    Ok(())
}

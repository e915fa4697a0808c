//! MEMORY: what a key takes.

use super::{
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

const MEMORY: Subcommands = &[("usage", -3)];

/// MEMORY USAGE key [SAMPLES count]. What an engine needs beside the bytes, no engine tells by key.
fn memory(keyspace: &mut dyn Keyspace, args: Args<'_>, reply: &mut Reply) -> Result<(), Error> {
    if subcommand("memory", MEMORY, args, reply).is_none() {
        return Ok(());
    }
    if args.len() > 3 {
        let samples = args.len() == 5 && args.get(3).eq_ignore_ascii_case(b"samples");
        let count =
            samples.then(|| parse_integer(args.get(4)).ok_or(NOT_AN_INTEGER)).ok_or(SYNTAX_ERROR)??;
        if count < 0 {
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

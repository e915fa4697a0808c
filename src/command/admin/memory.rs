//! MEMORY: what a key takes, and what the server does.

use crate::{
    command::{
        error::{Error, NOT_AN_INTEGER, SYNTAX_ERROR},
        help,
        process::{self, Memory},
        refusal::{Subcommands, subcommand},
        spec::{Handler, Spec},
    },
    resp::{Args, Reply, parse_integer},
    store::Keyspace,
};

pub(in crate::command) const COMMANDS: &[Spec] = &[Spec::new(
    "memory",
    -2,
    (2, 2, 1),
    Handler::Keys(memory),
    ("server", "4.0.0"),
    "Tell the length of a key and its value together, or what the server takes.",
)
.with_subcommands(MEMORY)];

const MEMORY: Subcommands =
    &[("doctor", 2), ("help", 2), ("malloc-stats", 2), ("purge", 2), ("stats", 2), ("usage", -3)];

fn memory(keyspace: &mut dyn Keyspace, args: Args<'_>, reply: &mut Reply) -> Result<(), Error> {
    match subcommand("memory", MEMORY, args, reply) {
        Some("usage") => return usage(keyspace, args, reply),
        Some("help") => help::write("MEMORY", help::MEMORY, reply),
        Some("doctor") => reply.verbatim(diagnosis(&process::memory())),
        Some("stats") => stats(&process::memory(), reply),
        // As Redis answers with the allocator of the C library.
        Some("malloc-stats") => reply.bulk(b"Stats not supported for the current allocator"),
        Some(_) => reply.ok(),
        None => {}
    }
    Ok(())
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
    keyspace.get_many(&[key], &mut |_, entry| match entry {
        Some(entry) => reply.integer((key.len() + entry.value.len()) as i64),
        None => reply.null(),
    })?;
    Ok(())
}

/// Redis looks for trouble from so many bytes on.
const LITTLE: u64 = 5 << 20;

const EMPTY: &str = "Hi Sam, this instance is empty or is using very little memory, my issues detector can't be used \
    in these conditions. Please, leave for your mission on Earth and fill it with some data. The new Sam and I will be \
    back to our programming as soon as I finished rebooting.\n";
const HEALTHY: &str = "Hi Sam, I can't find any memory issue in your instance. I can only account for what occurs on \
    this base.\n";
const PEAK: &str = "Sam, I detected a few issues in this Redis instance memory implants:\n\n * Peak memory: In the past \
    this instance used more than 150% the memory that is currently using. The allocator may keep what it does not need \
    now; it is used again when there are more data.\n\nI'm here to keep you safe, Sam. I want to help you.\n";

/// In Redis' words, for what the operating system tells.
fn diagnosis(memory: &Memory) -> &'static str {
    match (memory.used, memory.resident.zip(memory.peak)) {
        (Some(..LITTLE), _) => EMPTY,
        (_, Some((now, peak))) if peak > now + now / 2 => PEAK,
        _ => HEALTHY,
    }
}

/// Those fields of Redis that the operating system tells.
fn stats(memory: &Memory, reply: &mut Reply) {
    let Memory { used, resident, peak, .. } = *memory;
    let part =
        |part: Option<u64>, of: Option<u64>| part.zip(of).map(|(part, of)| part as f64 / of.max(1) as f64);
    let bytes = [
        ("peak.allocated", peak),
        ("total.allocated", used),
        ("fragmentation.bytes", resident.zip(used).map(|(resident, used)| resident.saturating_sub(used))),
    ];
    let parts = [
        ("peak.percentage", part(used, peak).map(|part| part * 100.0)),
        ("fragmentation", part(resident, used)),
    ];
    let bytes = bytes.into_iter().filter_map(|(name, bytes)| Some((name, bytes?)));
    let parts = parts.into_iter().filter_map(|(name, part)| Some((name, part?)));
    reply.map(bytes.clone().count() + parts.clone().count());
    for (name, bytes) in bytes {
        reply.bulk(name.as_bytes());
        reply.integer(i64::try_from(bytes).unwrap_or(i64::MAX));
    }
    for (name, part) in parts {
        reply.bulk(name.as_bytes());
        reply.double(part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peak_is_told_of_when_there_is_enough_in_use() {
        let memory = |used, resident, peak| Memory {
            used: Some(used),
            resident: Some(resident),
            peak: Some(peak),
            total: None,
        };
        let mib = |mib: u64| mib << 20;
        assert_eq!(diagnosis(&memory(mib(4), mib(10), mib(100))), EMPTY);
        assert_eq!(diagnosis(&memory(mib(50), mib(60), mib(90))), HEALTHY);
        assert_eq!(diagnosis(&memory(mib(50), mib(60), mib(91))), PEAK);
        let unknown = Memory { used: None, resident: None, peak: None, total: None };
        assert_eq!(diagnosis(&unknown), HEALTHY);
    }
}

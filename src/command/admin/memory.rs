//! MEMORY: memory used by a key and by the server.

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
        // Redis' reply when it uses the allocator of the C library.
        Some("malloc-stats") => reply.bulk(b"Stats not supported for the current allocator"),
        Some(_) => reply.ok(),
        None => {}
    }
    Ok(())
}

/// Executes MEMORY USAGE key [SAMPLES count ...]. The size is that of key and value, because no engine reports
/// its overhead per key.
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

/// Minimum memory use for a diagnosis, in bytes, as in Redis.
const LITTLE: u64 = 5 << 20;

const EMPTY: &str = "Hi Sam, this instance is empty or is using very little memory, my issues detector can't be used \
    in these conditions. Please, leave for your mission on Earth and fill it with some data. The new Sam and I will be \
    back to our programming as soon as I finished rebooting.\n";
const HEALTHY: &str = "Hi Sam, I can't find any memory issue in your instance. I can only account for what occurs on \
    this base.\n";
const PEAK: &str = "Sam, I detected a few issues in this Redis instance memory implants:\n\n * Peak memory: In the past \
    this instance used more than 150% the memory that is currently using. The allocator may keep what it does not need \
    now; it is used again when there are more data.\n\nI'm here to keep you safe, Sam. I want to help you.\n";

/// Returns Redis' diagnosis for the memory use that the operating system reports.
fn diagnosis(memory: &Memory) -> &'static str {
    match (memory.used, memory.resident.zip(memory.peak)) {
        (Some(..LITTLE), _) => EMPTY,
        (_, Some((now, peak))) if peak > now + now / 2 => PEAK,
        _ => HEALTHY,
    }
}

/// Writes the fields of MEMORY STATS that follow from the operating system's values.
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
    fn a_peak_is_reported_above_the_minimum_use() {
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

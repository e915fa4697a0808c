//! CONFIG: what the server was told, and what of it may change.

use crate::{
    command::{
        amount::{buffer_limit, memory},
        error::{Error, SYNTAX_ERROR},
        glob, help,
        refusal::{Subcommands, c_string, subcommand},
        server_state::ServerState,
        spec::Spec,
        state::password::Password,
    },
    engine::Fsync,
    resp::{Args, Reply, parse_integer},
    store::Error as StoreError,
};
use std::sync::atomic::Ordering::Relaxed;

pub(in crate::command) const COMMANDS: &[Spec] =
    &[Spec::query("config", -2, config, ("server", "2.0.0"), "Read and change settings.")
        .with_subcommands(CONFIG)];

const CONFIG: Subcommands = &[("get", -3), ("help", 2), ("resetstat", 2), ("rewrite", 2), ("set", -4)];

fn config(context: &ServerState, args: Args<'_>, reply: &mut Reply) -> Result<(), Error> {
    match subcommand("config", CONFIG, args, reply) {
        Some("get") => get(context, args, reply),
        Some("help") => help::write("CONFIG", help::CONFIG, reply),
        Some("rewrite") => match context.file.rewrite(|name| line(context, name)) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(format!("ERR {error}")),
        },
        Some("set") => match set(context, args) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error),
        },
        Some(_) => {
            context.reset_statistics();
            reply.ok();
        }
        None => {}
    }
    Ok(())
}

fn get(context: &ServerState, args: Args<'_>, reply: &mut Reply) {
    let live = LIVE.iter().map(|setting| (setting.name, setting.kind.get(context)));
    let fixed = context.settings.iter().map(|(name, value)| (*name, value.clone()));
    let mut found: Vec<_> = live.chain(fixed).collect();
    found.sort_unstable();
    let found = found.into_iter().filter_map(|(name, value)| Some((asked_as(args, name)?, value)));
    let found: Vec<_> = found.collect();
    reply.map(found.len());
    for (name, value) in found {
        reply.bulk(name);
        reply.bulk(value.as_bytes());
    }
}

/// The name of a setting that is wanted: as it was asked for, or its own where that is a pattern.
fn asked_as<'a>(args: Args<'a>, name: &'static str) -> Option<&'a [u8]> {
    args.from(2).find_map(|word| {
        if !word.iter().any(|byte| b"[*?".contains(byte)) {
            return word.eq_ignore_ascii_case(name.as_bytes()).then_some(word);
        }
        glob::matches(&word.to_ascii_lowercase(), name.as_bytes()).then_some(name.as_bytes())
    })
}

/// One setting that may change.
struct Setting {
    name: &'static str,
    kind: Kind,
}

/// What a setting's values are, and where it is kept.
enum Kind {
    /// From the least to the most.
    Number(i64, i64, fn(&ServerState) -> i64, fn(&ServerState, i64)),
    /// The same, in bytes, with units.
    Memory(i64, i64, fn(&ServerState) -> i64, fn(&ServerState, i64)),
    /// Yes or no.
    YesNo(fn(&ServerState) -> bool, fn(&ServerState, bool)),
    /// One of some words.
    Word(&'static [&'static str], fn(&ServerState) -> &'static str, fn(&ServerState, &str)),
    /// The same, where the store may refuse one.
    Store(
        &'static [&'static str],
        fn(&ServerState) -> &'static str,
        fn(&ServerState, &str) -> Result<(), StoreError>,
    ),
    /// Any text; it is not told again.
    Secret(fn(&ServerState, &[u8])),
    /// `normal BYTES 0 0`.
    Buffer(fn(&ServerState) -> i64, fn(&ServerState, i64)),
}

const LIVE: &[Setting] = &[
    Setting {
        name: "appendfsync",
        kind: Kind::Store(
            &["everysec", "always", "no"],
            |context| context.store.fsync().as_str(),
            |context, word| {
                let found = Fsync::ALL.into_iter().find(|fsync| fsync.as_str() == word);
                found.map_or(Ok(()), |fsync| context.store.set_fsync(fsync))
            },
        ),
    },
    Setting {
        name: "client-output-buffer-limit",
        kind: Kind::Buffer(
            |context| number(context.live.output_buffer_limit.load(Relaxed)),
            |context, bytes| context.live.output_buffer_limit.store(size(bytes), Relaxed),
        ),
    },
    Setting {
        name: "client-query-buffer-limit",
        kind: Kind::Memory(
            1 << 20,
            i64::MAX,
            |context| number(context.live.query_buffer_limit.load(Relaxed)),
            // What is to be more is this much, which CONFIG GET tells.
            |context, bytes| context.live.query_buffer_limit.store(size(bytes.min(MOST_QUERY)), Relaxed),
        ),
    },
    Setting {
        name: "latency-monitor-threshold",
        kind: Kind::Number(
            0,
            i64::MAX,
            |context| context.spikes.threshold.load(Relaxed),
            |context, millis| context.spikes.threshold.store(millis, Relaxed),
        ),
    },
    Setting {
        name: "loglevel",
        kind: Kind::Word(
            &["debug", "verbose", "notice", "warning"],
            |_| match log::max_level() {
                log::LevelFilter::Off | log::LevelFilter::Error | log::LevelFilter::Warn => "warning",
                log::LevelFilter::Info => "notice",
                log::LevelFilter::Debug => "verbose",
                log::LevelFilter::Trace => "debug",
            },
            |_, word| {
                log::set_max_level(match word {
                    "debug" => log::LevelFilter::Trace,
                    "verbose" => log::LevelFilter::Debug,
                    "warning" => log::LevelFilter::Warn,
                    _ => log::LevelFilter::Info,
                });
            },
        ),
    },
    Setting {
        name: "maxclients",
        kind: Kind::Number(
            1,
            u32::MAX as i64,
            |context| number(context.live.max_clients.load(Relaxed)),
            |context, clients| context.live.max_clients.store(size(clients), Relaxed),
        ),
    },
    Setting {
        name: "protected-mode",
        kind: Kind::YesNo(
            |context| context.live.protected.load(Relaxed),
            |context, on| context.live.protected.store(on, Relaxed),
        ),
    },
    Setting {
        name: "requirepass",
        kind: Kind::Secret(|context, text| context.live.set_password(Password::new(text))),
    },
    Setting {
        name: "slowlog-log-slower-than",
        kind: Kind::Number(
            -1,
            i64::MAX,
            |context| context.slow.threshold.load(Relaxed),
            |context, micros| context.slow.threshold.store(micros, Relaxed),
        ),
    },
    Setting {
        name: "slowlog-max-len",
        kind: Kind::Number(
            0,
            i64::MAX,
            |context| number(context.slow.length.load(Relaxed)),
            |context, length| context.slow.length.store(size(length), Relaxed),
        ),
    },
    Setting {
        name: "timeout",
        kind: Kind::Number(
            0,
            i32::MAX as i64,
            |context| i64::try_from(context.live.timeout.load(Relaxed)).unwrap_or(i64::MAX),
            |context, seconds| {
                context.live.timeout.store(seconds.unsigned_abs(), Relaxed);
                // Who sleeps looks at the clock again.
                context.clients.wake();
            },
        ),
    },
];

/// The largest request that can be decoded.
const MOST_QUERY: i64 = (1 << 32) - 1;

fn number(size: usize) -> i64 {
    i64::try_from(size).unwrap_or(i64::MAX)
}

fn size(number: i64) -> usize {
    usize::try_from(number).unwrap_or(0)
}

/// A value that fits its setting.
enum Value<'a> {
    Number(i64),
    YesNo(bool),
    Word(&'static str),
    Text(&'a [u8]),
    /// Nothing was told that is here.
    Unchanged,
}

impl Kind {
    fn get(&self, context: &ServerState) -> String {
        match self {
            Self::Number(.., get, _) | Self::Memory(.., get, _) => get(context).to_string(),
            Self::YesNo(get, _) => if get(context) { "yes" } else { "no" }.into(),
            Self::Word(_, get, _) | Self::Store(_, get, _) => get(context).into(),
            Self::Secret(_) => String::new(),
            Self::Buffer(get, _) => format!("normal {} 0 0", get(context)),
        }
    }

    /// In Redis' words when it does not fit.
    fn parse<'a>(&self, text: &'a [u8]) -> Result<Value<'a>, String> {
        match self {
            Self::Number(least, most, ..) => {
                let number = parse_integer(text).ok_or("argument couldn't be parsed into an integer")?;
                within(*least, *most, number)
            }
            Self::Memory(least, most, ..) => {
                within(*least, *most, memory(text).ok_or("argument must be a memory value")?)
            }
            Self::YesNo(..) if text.eq_ignore_ascii_case(b"yes") => Ok(Value::YesNo(true)),
            Self::YesNo(..) if text.eq_ignore_ascii_case(b"no") => Ok(Value::YesNo(false)),
            Self::YesNo(..) => Err("argument must be 'yes' or 'no'".into()),
            Self::Word(words, ..) | Self::Store(words, ..) => {
                let found = words.iter().find(|word| text.eq_ignore_ascii_case(word.as_bytes()));
                let refusal = || format!("argument(s) must be one of the following: {}", words.join(", "));
                found.map(|word| Value::Word(word)).ok_or_else(refusal)
            }
            Self::Secret(_) => Ok(Value::Text(text)),
            Self::Buffer(..) => Ok(buffer_limit(text)?.map_or(Value::Unchanged, Value::Number)),
        }
    }

    fn set(&self, context: &ServerState, value: &Value<'_>) -> Result<(), StoreError> {
        match (self, value) {
            (Self::Number(.., set) | Self::Memory(.., set) | Self::Buffer(_, set), Value::Number(number)) => {
                set(context, *number);
            }
            (Self::YesNo(_, set), Value::YesNo(on)) => set(context, *on),
            (Self::Word(.., set), Value::Word(word)) => set(context, word),
            (Self::Store(.., set), Value::Word(word)) => return set(context, word),
            (Self::Secret(set), Value::Text(text)) => set(context, text),
            _ => {}
        }
        Ok(())
    }
}

fn within<'a>(least: i64, most: i64, number: i64) -> Result<Value<'a>, String> {
    if (least..=most).contains(&number) {
        return Ok(Value::Number(number));
    }
    Err(format!("argument must be between {least} and {most} inclusive"))
}

/// All names are looked at before any value, all values before the first is set, and the store is asked before the
/// others are.
fn set(context: &ServerState, args: Args<'_>) -> Result<(), Vec<u8>> {
    if args.len() % 2 == 1 {
        return Err(SYNTAX_ERROR.to_string().into());
    }
    let settings = named(context, args)?;
    let values = args.from(3).step_by(2);
    let changes = settings.iter().zip(values).filter_map(|(named, text)| change(context, named, text));
    let mut changes = changes.collect::<Result<Vec<_>, Vec<u8>>>()?;
    changes.sort_by_key(|(setting, _)| !matches!(setting.kind, Kind::Store(..)));
    changes.iter().try_for_each(|(setting, value)| {
        let refusal = |error: StoreError| {
            let reason = error.to_string();
            failed(setting.name.as_bytes(), reason.strip_prefix("ERR ").unwrap_or(&reason))
        };
        setting.kind.set(context, value).map_err(refusal)?;
        context.file.note(setting.name);
        Ok(())
    })
}

/// A setting that CONFIG SET names.
enum ConfigTarget<'a> {
    /// One that may change.
    Live(&'static Setting),
    /// One that Redis may change and kvbench may not: it may be told as it is. With the word that names it.
    Fixed(&'a [u8], &'a str),
}

/// Settings that Redis may change, and that are fixed here.
const FIXED: &[&str] = &[
    "appendonly",
    "bind",
    "maxmemory",
    "maxmemory-policy",
    "port",
    "save",
    "shutdown-timeout",
    "tcp-keepalive",
    "tls-port",
];

impl<'a> ConfigTarget<'a> {
    fn find(context: &'a ServerState, word: &'a [u8]) -> Result<Self, Vec<u8>> {
        let is_named = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
        if let Some(setting) = LIVE.iter().find(|setting| is_named(setting.name)) {
            return Ok(Self::Live(setting));
        }
        match context.settings.iter().find(|(fixed, _)| is_named(fixed)) {
            Some((name, value)) if FIXED.contains(name) => Ok(Self::Fixed(word, value)),
            Some(_) => Err(immutable(word)),
            None => {
                let unknown = b"ERR Unknown option or number of arguments for CONFIG SET - '";
                Err([unknown, c_string(word), b"'"].concat())
            }
        }
    }

    fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Live(one), Self::Live(other)) => one.name == other.name,
            (Self::Fixed(one, _), Self::Fixed(other, _)) => one.eq_ignore_ascii_case(other),
            _ => false,
        }
    }
}

fn immutable(word: &[u8]) -> Vec<u8> {
    failed(word, "can't set immutable config")
}

/// The settings that are to change, each once.
fn named<'a>(context: &'a ServerState, args: Args<'a>) -> Result<Vec<ConfigTarget<'a>>, Vec<u8>> {
    let mut settings: Vec<ConfigTarget<'_>> = Vec::new();
    for word in args.from(2).step_by(2) {
        let named = ConfigTarget::find(context, word)?;
        if settings.iter().any(|other| other.is(&named)) {
            return Err(failed(word, "duplicate parameter"));
        }
        settings.push(named);
    }
    Ok(settings)
}

type Change<'a> = (&'static Setting, Value<'a>);

/// What is to be done for a setting; `None` for what is so already, and cannot be otherwise.
fn change<'a>(
    context: &ServerState,
    named: &ConfigTarget<'_>,
    text: &'a [u8],
) -> Option<Result<Change<'a>, Vec<u8>>> {
    match named {
        ConfigTarget::Live(setting) => Some(parse(context, setting, text).map(|value| (*setting, value))),
        ConfigTarget::Fixed(_, value) if text.eq_ignore_ascii_case(value.as_bytes()) => None,
        ConfigTarget::Fixed(word, _) => Some(Err(immutable(word))),
    }
}

fn parse<'a>(context: &ServerState, setting: &Setting, text: &'a [u8]) -> Result<Value<'a>, Vec<u8>> {
    let failed = |reason: &str| failed(setting.name.as_bytes(), reason);
    let value = setting.kind.parse(text).map_err(|reason| failed(&reason))?;
    let possible = context.live.possible_clients;
    match (setting.name, &value) {
        ("maxclients", Value::Number(clients)) if size(*clients) > possible => Err(failed(&format!(
            "The operating system is not able to handle the specified number of clients, try with {possible}"
        ))),
        _ => Ok(value),
    }
}

/// The flag of a setting, and its value as the command line takes it.
fn line(context: &ServerState, name: &str) -> Result<(&'static str, String), String> {
    let Some(setting) = LIVE.iter().find(|setting| setting.name == name) else {
        return Err(format!("there is no setting {name}"));
    };
    let value = setting.kind.get(context);
    Ok(match (setting.name, value.as_str()) {
        ("appendfsync", _) => ("fsync", value),
        ("client-output-buffer-limit", _) => {
            ("client-output-buffer-limit", context.live.output_buffer_limit.load(Relaxed).to_string())
        }
        ("loglevel", "debug") => ("log-level", "trace".into()),
        ("loglevel", "verbose") => ("log-level", "debug".into()),
        ("loglevel", "notice") => ("log-level", "info".into()),
        ("loglevel", _) => ("log-level", "warn".into()),
        ("requirepass", _) => return Err(NO_PASSWORD.into()),
        (name, _) => (name, value),
    })
}

const NO_PASSWORD: &str = "Rewriting config file: the server knows only a digest of the password that was set; put \
    it into the file of --password-file, or set it back with CONFIG SET requirepass and restart";

/// In Redis' words.
fn failed(name: &[u8], reason: &str) -> Vec<u8> {
    let reason = format!("') - {reason}");
    [b"ERR CONFIG SET failed (possibly related to argument '", name, reason.as_bytes()].concat()
}

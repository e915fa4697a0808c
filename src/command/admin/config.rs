//! CONFIG: the settings of the server, and which of them can change.

use crate::{
    command::{
        error::{Error, SYNTAX_ERROR, c_string},
        flags::{ADMIN, Group, LOADING, NOSCRIPT, SECRET_ARGS, STALE},
        glob,
        server_state::ServerState,
        spec::{NO_KEY, Spec, cmd, help},
        state::password::Password,
    },
    engine::Fsync,
    resp::{Args, Limits, Reply, parse_integer},
    store::Error as StoreError,
};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::Relaxed};

const CONFIG: &[Spec] = &[
    cmd!("config|get", -3, NO_KEY, Blocking(get), ADMIN | NOSCRIPT | LOADING | STALE;
        Server, "2.0.0", "Return the settings whose names match the patterns."),
    cmd!("config|help", 2, NO_KEY, Commands(help), LOADING | STALE; Server, "5.0.0", "List the subcommands."),
    cmd!("config|resetstat", 2, NO_KEY, Blocking(reset_statistics), ADMIN | NOSCRIPT | LOADING | STALE;
        Server, "2.0.0", "Reset the statistics of INFO."),
    cmd!("config|rewrite", 2, NO_KEY, Blocking(rewrite), ADMIN | NOSCRIPT | LOADING | STALE;
        Server, "2.8.0", "Write the changed settings to the configuration file."),
    cmd!("config|set", -4, NO_KEY, Blocking(set), ADMIN | NOSCRIPT | LOADING | STALE | SECRET_ARGS;
        Server, "2.0.0", "Change settings: all of them, or none."),
];

pub(in crate::command) const COMMANDS: &[Spec] =
    &[Spec::parent("config", CONFIG, 0).about(Group::Server, "2.0.0", "Read and change settings.")];

fn rewrite(context: &ServerState, _: Args<'_>, reply: &mut Reply) -> Result<(), Error> {
    context
        .file
        .rewrite(|name| line(context, name))
        .map_err(|error| Error::Words(format!("ERR {error}").into()))?;
    reply.ok();
    Ok(())
}

fn reset_statistics(context: &ServerState, _: Args<'_>, reply: &mut Reply) -> Result<(), Error> {
    context.reset_statistics();
    reply.ok();
    Ok(())
}

fn get(context: &ServerState, args: Args<'_>, reply: &mut Reply) -> Result<(), Error> {
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
    Ok(())
}

/// Returns the name under which CONFIG GET lists a setting: as the client wrote it, or the setting's own name
/// if the client sent a pattern; `None` if no argument matches.
fn asked_as<'a>(args: Args<'a>, name: &'static str) -> Option<&'a [u8]> {
    args.from(2).find_map(|word| {
        if !word.iter().any(|byte| b"[*?".contains(byte)) {
            return word.eq_ignore_ascii_case(name.as_bytes()).then_some(word);
        }
        glob::matches(&word.to_ascii_lowercase(), name.as_bytes()).then_some(name.as_bytes())
    })
}

/// Setting that CONFIG SET can change.
struct Setting {
    name: &'static str,
    kind: Kind,
}

/// Type of a setting's values, with the place of its value or the functions that read and write it.
enum Kind {
    /// Integer setting, with its minimum and maximum.
    Number(i64, i64, fn(&ServerState) -> &AtomicI64),
    /// Setting in bytes, with its minimum and maximum; the text may have a unit.
    Memory(i64, i64, fn(&ServerState) -> &AtomicI64),
    /// Setting that is `yes` or `no`.
    YesNo(fn(&ServerState) -> &AtomicBool),
    /// Setting that is one of several words. The store may reject a change.
    Word(
        &'static [&'static str],
        fn(&ServerState) -> &'static str,
        fn(&ServerState, &str) -> Result<(), StoreError>,
    ),
    /// Password of the server; CONFIG GET shows an empty string instead.
    Password,
    /// Maximum number of unsent reply bytes of a normal client, which CONFIG GET shows as `normal BYTES 0 0`.
    Buffer(fn(&ServerState) -> &AtomicI64),
}

const fn setting(name: &'static str, kind: Kind) -> Setting {
    Setting { name, kind }
}

const LIVE: &[Setting] = &[
    setting(
        "appendfsync",
        Kind::Word(
            &["everysec", "always", "no"],
            |context| context.store.fsync().as_str(),
            |context, word| {
                let found = Fsync::ALL.into_iter().find(|fsync| fsync.as_str() == word);
                found.map_or(Ok(()), |fsync| context.store.set_fsync(fsync))
            },
        ),
    ),
    setting("client-output-buffer-limit", Kind::Buffer(|context| &context.live.output_buffer_limit)),
    // No larger request can be decoded.
    setting(
        "client-query-buffer-limit",
        Kind::Memory(1 << 20, Limits::MAX_QUERY_BUFFER as i64, |context| &context.live.query_buffer_limit),
    ),
    setting("latency-monitor-threshold", Kind::Number(0, i64::MAX, |context| &context.spikes.threshold)),
    setting(
        "loglevel",
        Kind::Word(
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
                Ok(())
            },
        ),
    ),
    setting("maxclients", Kind::Number(1, u32::MAX as i64, |context| &context.live.max_clients)),
    setting("protected-mode", Kind::YesNo(|context| &context.live.protected)),
    setting("requirepass", Kind::Password),
    setting("slowlog-log-slower-than", Kind::Number(-1, i64::MAX, |context| &context.slow.threshold)),
    setting("slowlog-max-len", Kind::Number(0, i64::MAX, |context| &context.slow.length)),
    setting("timeout", Kind::Number(0, i32::MAX as i64, |context| &context.live.timeout)),
];

/// Valid new value of a setting, parsed from the argument of CONFIG SET.
enum Value<'a> {
    Number(i64),
    YesNo(bool),
    Word(&'static str),
    Text(&'a [u8]),
    /// No change: the text sets only limits of client classes that do not exist here.
    Unchanged,
}

impl Kind {
    fn get(&self, context: &ServerState) -> String {
        match self {
            Self::Number(.., value) | Self::Memory(.., value) => value(context).load(Relaxed).to_string(),
            Self::YesNo(value) => if value(context).load(Relaxed) { "yes" } else { "no" }.into(),
            Self::Word(_, get, _) => get(context).into(),
            Self::Password => String::new(),
            Self::Buffer(value) => format!("normal {} 0 0", value(context).load(Relaxed)),
        }
    }

    /// Parses the argument of CONFIG SET for a setting of this type; the error is Redis' reason.
    fn parse<'a>(&self, text: &'a [u8]) -> Result<Value<'a>, String> {
        match self {
            Self::Number(least, most, _) => {
                let number = parse_integer(text).ok_or("argument couldn't be parsed into an integer")?;
                within(*least, *most, number)
            }
            Self::Memory(least, most, _) => {
                // Redis has no maximum, and its text for a value below the minimum says so.
                let bytes = memory(text).ok_or("argument must be a memory value")?;
                within(*least, if bytes > *most { *most } else { i64::MAX }, bytes)
            }
            Self::YesNo(_) if text.eq_ignore_ascii_case(b"yes") => Ok(Value::YesNo(true)),
            Self::YesNo(_) if text.eq_ignore_ascii_case(b"no") => Ok(Value::YesNo(false)),
            Self::YesNo(_) => Err("argument must be 'yes' or 'no'".into()),
            Self::Word(words, ..) => {
                let found = words.iter().find(|word| text.eq_ignore_ascii_case(word.as_bytes()));
                let refusal = || format!("argument(s) must be one of the following: {}", words.join(", "));
                found.map(|word| Value::Word(word)).ok_or_else(refusal)
            }
            Self::Password => Ok(Value::Text(text)),
            Self::Buffer(_) => Ok(buffer_limit(text)?.map_or(Value::Unchanged, Value::Number)),
        }
    }

    fn set(&self, context: &ServerState, value: &Value<'_>) -> Result<(), StoreError> {
        match (self, value) {
            (
                Self::Number(.., target) | Self::Memory(.., target) | Self::Buffer(target),
                Value::Number(number),
            ) => target(context).store(*number, Relaxed),
            (Self::YesNo(target), Value::YesNo(on)) => target(context).store(*on, Relaxed),
            (Self::Word(.., set), Value::Word(word)) => return set(context, word),
            (Self::Password, Value::Text(text)) => context.live.set_password(Password::new(text)),
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

/// Executes CONFIG SET. All names are checked before any value, and all values before the first change; a
/// change that the store may reject is made first.
fn set(context: &ServerState, args: Args<'_>, reply: &mut Reply) -> Result<(), Error> {
    try_set(context, args).map_err(Error::Words)?;
    reply.ok();
    Ok(())
}

fn try_set(context: &ServerState, args: Args<'_>) -> Result<(), Vec<u8>> {
    if args.len() % 2 == 1 {
        return Err(SYNTAX_ERROR.to_string().into());
    }
    let settings = named(context, args)?;
    let values = args.from(3).step_by(2);
    let changes = settings.iter().zip(values).filter_map(|(named, text)| change(context, named, text));
    let mut changes = changes.collect::<Result<Vec<_>, Vec<u8>>>()?;
    changes.sort_by_key(|(setting, _)| setting.name != "appendfsync");
    for (setting, value) in &changes {
        setting.kind.set(context, value).map_err(|error| {
            let reason = error.to_string();
            failed(setting.name.as_bytes(), reason.strip_prefix("ERR ").unwrap_or(&reason))
        })?;
        context.file.note(setting.name);
    }
    // Waiting connections must compute their timeout again.
    context.clients.wake();
    Ok(())
}

/// Setting that CONFIG SET names.
enum ConfigTarget<'a> {
    /// Setting that CONFIG SET can change.
    Live(&'static Setting),
    /// Setting that Redis can change and kvbench cannot, as the name in the request and the current value.
    /// CONFIG SET accepts the current value only.
    Fixed(&'a [u8], &'a str),
}

/// Settings that Redis can change and kvbench cannot.
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

/// Returns the settings that CONFIG SET names; a duplicate is an error.
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

/// Returns the change of a setting; `None` if the setting cannot change and already has this value.
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
        ("maxclients", Value::Number(clients)) if usize::try_from(*clients).unwrap_or(0) > possible => {
            Err(failed(&format!(
                "The operating system is not able to handle the specified number of clients, try with {possible}"
            )))
        }
        _ => Ok(value),
    }
}

/// Returns the command line flag of a setting and its current value as that flag takes it. Fails for the password, of
/// which the server stores only a digest.
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

/// Returns Redis' error for a failed CONFIG SET.
fn failed(name: &[u8], reason: &str) -> Vec<u8> {
    let reason = format!("') - {reason}");
    [b"ERR CONFIG SET failed (possibly related to argument '", name, reason.as_bytes()].concat()
}

/// Parses a number of bytes: `100`, `1k` (1000), `1kb` (1024) and so on. Empty text, or a unit without a number, is 0,
/// as in Redis. `None` if the text is no such number, its unit is unknown or it is too large.
fn memory(text: &[u8]) -> Option<i64> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (number, unit) = text.split_at(digits);
    let factor = match unit.to_ascii_lowercase().as_slice() {
        b"" | b"b" => 1,
        b"k" => 1000,
        b"kb" => 1 << 10,
        b"m" => 1_000_000,
        b"mb" => 1 << 20,
        b"g" => 1_000_000_000,
        b"gb" => 1 << 30,
        _ => return None,
    };
    if number.is_empty() {
        return Some(0);
    }
    str::from_utf8(number).ok()?.parse::<i64>().ok()?.checked_mul(factor)
}

/// Parses `client-output-buffer-limit`: classes of clients, each with a hard limit, a soft limit and seconds.
/// Returns the new hard limit of normal clients, the only class here; `None` if it does not change.
fn buffer_limit(text: &[u8]) -> Result<Option<i64>, &'static str> {
    let words: Vec<&[u8]> = text.split(|byte| *byte == b' ').collect();
    let words: &[&[u8]] = if text.is_empty() { &[] } else { &words };
    if !words.len().is_multiple_of(4) {
        return Err("Wrong number of arguments in buffer limit configuration.");
    }
    let (mut normal, mut has_soft) = (None, false);
    for limits in words.chunks(4) {
        let [class, hard, soft, seconds] = limits else { continue };
        let is_of = |name: &str| class.eq_ignore_ascii_case(name.as_bytes());
        if !["normal", "replica", "slave", "pubsub"].iter().any(|name| is_of(name)) {
            return Err("Invalid client class specified in buffer limit configuration.");
        }
        let (Some(hard), Some(soft), true) = (memory(hard), memory(soft), is_count(seconds)) else {
            return Err("Error in hard, soft or soft_seconds setting in buffer limit configuration.");
        };
        if is_of("normal") {
            (normal, has_soft) = (Some(hard), soft > 0);
        }
    }
    if has_soft {
        return Err("kvbench has no soft limit: write `normal BYTES 0 0`");
    }
    Ok(normal)
}

/// Returns `true` if `word` is a number that is not negative, as C's `strtoll` reads it.
fn is_count(word: &[u8]) -> bool {
    let digits = word.strip_prefix(b"+").unwrap_or(word);
    digits.iter().all(u8::is_ascii_digit) && (word.is_empty() || !digits.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_of_a_thousand_or_of_1024() {
        for (text, bytes) in [
            ("100", Some(100)),
            ("2k", Some(2000)),
            ("2Kb", Some(2048)),
            ("1gb", Some(1 << 30)),
            ("", Some(0)),
            ("mb", Some(0)),
            ("-1", None),
            ("1kbb", None),
        ] {
            assert_eq!(memory(text.as_bytes()), bytes, "{text}");
        }
    }

    #[test]
    fn only_the_hard_limit_of_normal_clients_is_taken() {
        let limit = |text: &str| buffer_limit(text.as_bytes());
        assert_eq!(limit("normal 1mb 0 0 slave 256mb 64mb 60"), Ok(Some(1 << 20)));
        assert_eq!(limit("pubsub 32mb 8mb 60"), Ok(None));
        assert!(limit("normal 1mb 1kb 60").unwrap_err().contains("soft limit"));
        for wrong in ["normal 1 0", "normal x 0 0", "normal 1 0 -1", "normal 1 0 x", "master 1 0 0"] {
            assert!(limit(wrong).is_err(), "{wrong}");
        }
    }
}

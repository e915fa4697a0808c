//! Errors of commands, and Redis' errors for requests that are refused: an unknown command or subcommand, or a wrong
//! number of arguments.

use crate::{
    resp::{Args, Reply},
    store,
};

/// Error of a command; the text is that of the error reply.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Fixed text of the error reply, starting with the error code.
    #[error("{0}")]
    Text(&'static str),
    /// Text of the error reply, composed for the request; starts with the error code.
    #[error("{}", String::from_utf8_lossy(.0))]
    Words(Vec<u8>),
    /// Error of the store, which is written as its text.
    #[error(transparent)]
    Store(#[from] store::Error),
}

impl Error {
    /// Returns Redis' error for an invalid expiration time.
    pub(super) fn expire_time(command: &[u8]) -> Self {
        Self::Words([b"ERR invalid expire time in '", command, b"' command"].concat())
    }

    /// Writes this error as the reply.
    pub fn write(&self, reply: &mut Reply) {
        match self {
            Self::Words(words) => reply.error(words),
            other => reply.error(other.to_string()),
        }
    }
}

/// Calls `run`, which writes a reply; on an error, replaces what `run` has written with the error reply.
pub fn answer(reply: &mut Reply, run: impl FnOnce(&mut Reply) -> Result<(), Error>) {
    let start = reply.len();
    if let Err(error) = run(reply) {
        reply.truncate(start);
        error.write(reply);
    }
}

impl From<&'static str> for Error {
    fn from(text: &'static str) -> Self {
        Self::Text(text)
    }
}

pub(super) const SYNTAX_ERROR: Error = Error::Text("ERR syntax error");
pub(super) const NOT_AN_INTEGER: Error = Error::Text("ERR value is not an integer or out of range");
pub(super) const TOO_LONG: Error =
    Error::Text("ERR string exceeds maximum allowed size (proto-max-bulk-len)");

/// Writes Redis' error for an unknown subcommand of `command`.
pub(super) fn unknown_subcommand(command: &str, args: Args<'_>, reply: &mut Reply) {
    let hint = format!("'. Try {} HELP.", command.to_ascii_uppercase());
    reply.error([b"ERR unknown subcommand '", quote(args.get(1), QUOTED), hint.as_bytes()].concat());
}

/// Returns Redis' error for a subcommand with too many arguments or in an invalid form.
pub(super) fn wrong_shape(command: &str, args: Args<'_>) -> Vec<u8> {
    let (word, hint) = (quote(args.get(1), QUOTED), format!("'. Try {} HELP.", command.to_ascii_uppercase()));
    [b"ERR unknown subcommand or wrong number of arguments for '", word, hint.as_bytes()].concat()
}

pub(super) fn wrong_arity(name: &str, reply: &mut Reply) {
    reply.error(format!("ERR wrong number of arguments for '{name}' command"));
}

/// Writes the error for an EXEC that is refused because of `cause`.
pub(super) fn abort(cause: &str, reply: &mut Reply) {
    reply.error(format!("EXECABORT Transaction discarded because of: {cause}"));
}

/// Maximum number of bytes of a request that an error quotes, as in Redis.
const QUOTED: usize = 128;

/// Returns the first `most` bytes of `word`, as Redis quotes them.
fn quote(word: &[u8], most: usize) -> &[u8] {
    c_string(word.get(..most).unwrap_or(word))
}

/// Returns the part of `word` before its first NUL: most errors of Redis quote a C string.
pub(super) fn c_string(word: &[u8]) -> &[u8] {
    word.split(|&byte| byte == 0).next().unwrap_or_default()
}

/// Writes the error for an unknown command. It quotes arguments up to `QUOTED` bytes, as in Redis; for a
/// command that Redis has, it names the feature that kvbench lacks.
pub(super) fn unknown(args: Args<'_>, reply: &mut Reply) {
    let mut text = b"ERR unknown command '".to_vec();
    text.extend_from_slice(quote(args.get(0), QUOTED));
    if let Some(what) = unsupported_feature(args.get(0)) {
        text.extend_from_slice(format!("': kvbench has strings and keys, and no {what}").as_bytes());
        return reply.error(text);
    }
    text.extend_from_slice(b"', with args beginning with: ");
    let start = text.len();
    for arg in args.from(1) {
        let quoted = text.len() - start;
        if quoted >= QUOTED {
            break;
        }
        text.push(b'\'');
        text.extend_from_slice(quote(arg, QUOTED - quoted));
        text.extend_from_slice(b"' ");
    }
    reply.error(text);
}

/// Features of Redis that kvbench lacks, each with the names of the commands that need it.
const UNSUPPORTED_FEATURES: &[(&str, &str)] = &[
    (
        "lists",
        "blmove blmpop blpop brpop brpoplpush lindex linsert llen lmove lmpop lpop lpos lpush lpushx lrange lrem lset \
         ltrim rpop rpoplpush rpush rpushx sort sort_ro",
    ),
    (
        "sets",
        "sadd scard sdiff sdiffstore sinter sintercard sinterstore sismember smembers smismember smove spop \
         srandmember srem sscan sunion sunionstore",
    ),
    (
        "sorted sets",
        "bzmpop bzpopmax bzpopmin geoadd geodist geohash geopos georadius georadius_ro georadiusbymember \
         georadiusbymember_ro geosearch geosearchstore zadd zcard zcount zdiff zdiffstore zincrby zinter zintercard \
         zinterstore zlexcount zmpop zmscore zpopmax zpopmin zrandmember zrange zrangebylex zrangebyscore zrangestore \
         zrank zrem zremrangebylex zremrangebyrank zremrangebyscore zrevrange zrevrangebylex zrevrangebyscore \
         zrevrank zscan zscore zunion zunionstore",
    ),
    (
        "hashes",
        "hdel hexists hexpire hexpireat hexpiretime hget hgetall hincrby hincrbyfloat hkeys hlen hmget hmset hpersist \
         hpexpire hpexpireat hpexpiretime hpttl hrandfield hscan hset hsetnx hstrlen httl hvals",
    ),
    (
        "streams",
        "xack xadd xautoclaim xclaim xdel xgroup xinfo xlen xpending xrange xread xreadgroup xrevrange xsetid xtrim",
    ),
    ("HyperLogLogs", "pfadd pfcount pfdebug pfmerge pfselftest"),
    (
        "channels",
        "psubscribe publish pubsub punsubscribe spublish ssubscribe subscribe sunsubscribe unsubscribe",
    ),
    ("scripts", "eval eval_ro evalsha evalsha_ro fcall fcall_ro function script"),
    (
        "replicas and clusters",
        "asking cluster failover migrate psync readonly readwrite replconf replicaof slaveof sync",
    ),
    ("snapshots", "bgsave dump lastsave restore restore-asking save"),
    ("users", "acl"),
    ("modules", "module"),
];

/// Returns the feature that kvbench lacks for the Redis command `name`; `None` if the name is not in
/// [`UNSUPPORTED_FEATURES`] and has no dot, as commands of modules have (`JSON.SET`).
fn unsupported_feature(name: &[u8]) -> Option<&'static str> {
    let named = |names: &str| names.split(' ').any(|word| name.eq_ignore_ascii_case(word.as_bytes()));
    let listed = UNSUPPORTED_FEATURES.iter().find(|(_, names)| named(names)).map(|(what, _)| *what);
    listed.or_else(|| name.contains(&b'.').then_some("modules"))
}

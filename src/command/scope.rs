//! Commands of Redis that need a feature kvbench does not have.

/// Missing features, and the names of the commands that need them.
const OUTSIDE: &[(&str, &str)] = &[
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
        "hdel hexists hget hgetall hincrby hincrbyfloat hkeys hlen hmget hmset hrandfield hscan hset hsetnx hstrlen \
         hvals",
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
        "asking cluster failover migrate psync readonly readwrite replconf replicaof role slaveof sync",
    ),
    ("snapshots", "bgsave dump lastsave restore restore-asking save"),
    ("users", "acl"),
    ("modules", "module"),
];

/// Returns the missing feature that a command of Redis needs.
pub(super) fn unsupported_feature(name: &[u8]) -> Option<&'static str> {
    let named = |names: &str| names.split(' ').any(|word| name.eq_ignore_ascii_case(word.as_bytes()));
    OUTSIDE.iter().find(|(_, names)| named(names)).map(|(what, _)| *what)
}

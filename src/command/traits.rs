//! Flags, categories, tips and key flags of commands as Redis reports them, for clients that route requests or
//! restrict commands. A test compares all of them with redis-server.

/// Properties of a command that COMMAND INFO reports.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Traits {
    /// Flags in Redis' order, separated by spaces.
    pub flags: &'static str,
    /// ACL categories that do not follow from the flags, in Redis' order, separated by spaces.
    categories: &'static str,
    /// Tips for clients and proxies of a cluster, separated by spaces.
    pub tips: &'static str,
    /// Key flags: one entry for all keys, or one for the first key and one for the others.
    pub keys: &'static [&'static str],
}

/// Names of commands and subcommands, ACL categories, flags, tips, and key flags.
type Row = (&'static str, &'static str, &'static str, &'static str, &'static [&'static str]);

/// All ACL categories in Redis' order.
const CATEGORIES: &[&str] = &[
    "keyspace",
    "read",
    "write",
    "string",
    "bitmap",
    "admin",
    "fast",
    "slow",
    "dangerous",
    "connection",
    "transaction",
];

fn has(words: &str, wanted: &str) -> bool {
    words.split_ascii_whitespace().any(|word| word == wanted)
}

impl Traits {
    /// Returns the properties of a command or of `command|subcommand`; empty if the name is unknown. A test
    /// checks that every command has an entry.
    pub fn of(name: &str) -> Self {
        let found = TRAITS.iter().find(|(names, ..)| has(names, name));
        found.map_or_else(Self::default, |&(_, categories, flags, tips, keys)| Self {
            flags,
            categories,
            tips,
            keys,
        })
    }

    /// Returns `true` if the command has the flag.
    pub fn has(&self, flag: &str) -> bool {
        has(self.flags, flag)
    }

    /// Returns the ACL categories of the command.
    pub fn categories(&self) -> impl Iterator<Item = &'static str> {
        CATEGORIES.iter().copied().filter(|category| self.is_in(category))
    }

    /// Returns `true` if the command is in the ACL category.
    pub fn is_in(&self, category: &str) -> bool {
        match category {
            "read" => self.has("readonly"),
            "write" | "admin" | "fast" => self.has(category),
            "slow" => !self.has("fast"),
            "dangerous" => self.has("admin") || has(self.categories, category),
            _ => has(self.categories, category),
        }
    }
}

/// Returns Redis' note in the key specification of a command, if it has one.
pub(super) fn note(name: &str) -> Option<&'static str> {
    match name {
        "bitfield" => Some("This command allows both access and modification of the key"),
        "getex" => Some("RW and UPDATE because it changes the TTL"),
        "set" => Some("RW and ACCESS due to the optional `GET` argument"),
        _ => None,
    }
}

const TRAITS: &[Row] = &[
    ("bitcount bitpos", "bitmap", "readonly", "", &["RO access"]),
    ("bitfield_ro getbit", "bitmap", "readonly fast", "", &["RO access"]),
    ("bitop", "bitmap", "write denyoom", "", &["OW update", "RO access"]),
    ("setbit", "bitmap", "write denyoom", "", &["RW access update"]),
    ("bitfield", "bitmap", "write denyoom", "", &["RW access update variable_flags"]),
    (
        "client|kill client|no-evict client|pause client|unblock client|unpause",
        "connection",
        "admin noscript loading stale",
        "",
        &[],
    ),
    ("client|list", "connection", "admin noscript loading stale", "nondeterministic_output", &[]),
    ("ping", "connection", "fast", "request_policy:all_shards response_policy:all_succeeded", &[]),
    (
        "client|help command|count command|getkeys command|getkeysandflags command|help",
        "connection",
        "loading stale",
        "",
        &[],
    ),
    (
        "command command|docs command|info command|list",
        "connection",
        "loading stale",
        "nondeterministic_output_order",
        &[],
    ),
    ("echo select", "connection", "loading stale fast", "", &[]),
    ("wait waitaof", "connection", "noscript", "request_policy:all_shards response_policy:agg_min", &[]),
    (
        "client|caching client|getname client|getredir client|id client|reply",
        "connection",
        "noscript loading stale",
        "",
        &[],
    ),
    ("client|setname client|tracking client|trackinginfo", "connection", "noscript loading stale", "", &[]),
    // NO-TOUCH, SETINFO and WAITAOF are commands of Redis 7.2.
    ("client|no-touch client|setinfo", "connection", "noscript loading stale", "", &[]),
    ("client|info", "connection", "noscript loading stale", "nondeterministic_output", &[]),
    ("auth hello quit reset", "connection", "noscript loading stale fast no_auth allow_busy", "", &[]),
    (
        "info",
        "dangerous",
        "loading stale",
        "nondeterministic_output request_policy:all_shards response_policy:special",
        &[],
    ),
    ("object|help", "keyspace", "loading stale", "", &[]),
    (
        "keys",
        "keyspace dangerous",
        "readonly",
        "request_policy:all_shards nondeterministic_output_order",
        &[],
    ),
    ("randomkey", "keyspace", "readonly", "request_policy:all_shards nondeterministic_output", &[]),
    ("scan", "keyspace", "readonly", "nondeterministic_output request_policy:special", &[]),
    (
        "object|encoding object|freq object|refcount",
        "keyspace",
        "readonly",
        "nondeterministic_output",
        &["RO"],
    ),
    ("dbsize", "keyspace", "readonly fast", "request_policy:all_shards response_policy:agg_sum", &[]),
    (
        "exists touch",
        "keyspace",
        "readonly fast",
        "request_policy:multi_shard response_policy:agg_sum",
        &["RO"],
    ),
    ("type", "keyspace", "readonly fast", "", &["RO"]),
    ("expiretime pexpiretime", "keyspace", "readonly fast", "", &["RO access"]),
    ("pttl ttl", "keyspace", "readonly fast", "nondeterministic_output", &["RO access"]),
    (
        "flushall flushdb",
        "keyspace dangerous",
        "write",
        "request_policy:all_shards response_policy:all_succeeded",
        &[],
    ),
    ("del", "keyspace", "write", "request_policy:multi_shard response_policy:agg_sum", &["RM delete"]),
    ("rename", "keyspace", "write", "", &["RW access delete", "OW update"]),
    ("copy", "keyspace", "write denyoom", "", &["RO access", "OW update"]),
    ("swapdb", "keyspace dangerous", "write fast", "", &[]),
    (
        "unlink",
        "keyspace",
        "write fast",
        "request_policy:multi_shard response_policy:agg_sum",
        &["RM delete"],
    ),
    ("renamenx", "keyspace", "write fast", "", &["RW access delete", "OW insert"]),
    ("move", "keyspace", "write fast", "", &["RW access update"]),
    ("expire expireat persist pexpire pexpireat", "keyspace", "write fast", "", &["RW update"]),
    ("getrange lcs substr", "string", "readonly", "", &["RO access"]),
    ("strlen", "string", "readonly fast", "", &["RO"]),
    ("get", "string", "readonly fast", "", &["RO access"]),
    ("mget", "string", "readonly fast", "request_policy:multi_shard", &["RO access"]),
    (
        "msetnx",
        "string",
        "write denyoom",
        "request_policy:multi_shard response_policy:agg_min",
        &["OW insert"],
    ),
    (
        "mset",
        "string",
        "write denyoom",
        "request_policy:multi_shard response_policy:all_succeeded",
        &["OW update"],
    ),
    ("psetex setex", "string", "write denyoom", "", &["OW update"]),
    ("set", "string", "write denyoom", "", &["RW access update variable_flags"]),
    ("setrange", "string", "write denyoom", "", &["RW update"]),
    ("setnx", "string", "write denyoom fast", "", &["OW insert"]),
    ("decr decrby getset incr incrby incrbyfloat", "string", "write denyoom fast", "", &["RW access update"]),
    ("append", "string", "write denyoom fast", "", &["RW insert"]),
    ("getdel", "string", "write fast", "", &["RW access delete"]),
    ("getex", "string", "write fast", "", &["RW access update"]),
    ("discard multi unwatch", "transaction", "noscript loading stale fast allow_busy", "", &[]),
    ("watch", "transaction", "noscript loading stale fast allow_busy", "", &["RO"]),
    ("exec", "transaction", "noscript loading stale skip_slowlog", "", &[]),
    ("client config latency memory object slowlog", "", "", "", &[]),
    (
        "memory|doctor memory|malloc-stats memory|stats",
        "",
        "",
        "nondeterministic_output request_policy:all_shards response_policy:special",
        &[],
    ),
    ("memory|purge", "", "", "request_policy:all_shards response_policy:all_succeeded", &[]),
    ("slowlog|get", "", "admin loading stale", "request_policy:all_nodes nondeterministic_output", &[]),
    (
        "slowlog|len",
        "",
        "admin loading stale",
        "request_policy:all_nodes response_policy:agg_sum nondeterministic_output",
        &[],
    ),
    (
        "slowlog|reset",
        "",
        "admin loading stale",
        "request_policy:all_nodes response_policy:all_succeeded",
        &[],
    ),
    ("config|get config|resetstat config|rewrite debug monitor", "", "admin noscript loading stale", "", &[]),
    ("debug|help debug|settle debug|sleep", "", "admin noscript loading stale", "", &[]),
    (
        "config|set latency|reset",
        "",
        "admin noscript loading stale",
        "request_policy:all_nodes response_policy:all_succeeded",
        &[],
    ),
    (
        "latency|doctor latency|graph latency|histogram latency|history latency|latest",
        "",
        "admin noscript loading stale",
        "nondeterministic_output request_policy:all_nodes response_policy:special",
        &[],
    ),
    ("shutdown", "", "admin noscript loading stale no_multi allow_busy", "", &[]),
    ("bgrewriteaof", "", "admin noscript no_async_loading", "", &[]),
    ("config|help latency|help memory|help slowlog|help", "", "loading stale", "", &[]),
    ("time", "", "loading stale fast", "nondeterministic_output", &[]),
    ("memory|usage", "", "readonly", "", &["RO"]),
    ("lolwut", "", "readonly fast", "", &[]),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::table;

    #[test]
    fn every_command_has_traits_once() {
        let mut named: Vec<&str> = TRAITS.iter().flat_map(|(names, ..)| names.split(' ')).collect();
        named.sort_unstable();
        let mut commands = Vec::new();
        for spec in table() {
            commands.push(spec.name.to_owned());
            commands.extend(spec.subcommands.iter().map(|(name, _)| format!("{}|{name}", spec.name)));
        }
        commands.sort_unstable();
        assert_eq!(named, commands);
    }
}

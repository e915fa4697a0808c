//! Flags and groups of commands, as Redis reports them, for clients that route requests or restrict commands.

/// Set of flags of a command, as bits.
pub type Flags = u32;

/// Flag of commands that read keys.
pub const READONLY: Flags = 1;
/// Flag of commands that write keys.
pub const WRITE: Flags = 1 << 1;
/// Flag of commands that may need memory for new data.
pub const DENYOOM: Flags = 1 << 2;
/// Flag of commands that administrate the server. MONITOR does not show them.
pub const ADMIN: Flags = 1 << 3;
/// Flag of commands that a script must not execute.
pub const NOSCRIPT: Flags = 1 << 4;
/// Flag of commands that Redis executes while it loads data.
pub const LOADING: Flags = 1 << 5;
/// Flag of commands that a Redis replica executes while its data are stale.
pub const STALE: Flags = 1 << 6;
/// Flag of commands that SLOWLOG leaves out.
pub const SKIP_SLOWLOG: Flags = 1 << 7;
/// Flag of commands that take constant or logarithmic time.
pub const FAST: Flags = 1 << 8;
/// Flag of commands that a client may use before it has authenticated.
pub const NO_AUTH: Flags = 1 << 9;
/// Flag of commands that Redis executes while a script blocks it.
pub const ALLOW_BUSY: Flags = 1 << 10;
/// Flag of commands that Redis refuses while it loads data in the background.
pub const NO_ASYNC_LOADING: Flags = 1 << 11;
/// Flag of commands that are refused between MULTI and EXEC.
pub const NO_MULTI: Flags = 1 << 12;

/// Flag of commands that write without reading a key, so that the store may send the writes of several requests
/// together to an engine with hash slots (a Redis Cluster).
pub const BLIND: Flags = 1 << 20;
/// Flag of commands that are [`BLIND`] in requests with the minimum number of arguments.
pub const BLIND_WITHOUT_OPTIONS: Flags = 1 << 21;
/// Flag of commands that may use very many keys, or take as long. Outside of a transaction, a write with this flag is
/// executed apart from the other requests of its pipeline.
pub const WHOLE_KEYSPACE: Flags = 1 << 22;
/// Flag of commands that read the whole value of a key, or a large part of it, to compute a short reply.
pub const WHOLE_VALUE: Flags = 1 << 23;
/// Flag of commands that are executed at once between MULTI and EXEC, and end the transaction.
pub const ENDS_TRANSACTION: Flags = 1 << 24;
/// Flag of commands with passwords among their arguments. SLOWLOG and MONITOR show `(redacted)` instead of a password.
pub const SECRET_ARGS: Flags = 1 << 25;
/// Flag of commands that select the protocol version of the replies that follow.
pub const CHOOSES_PROTOCOL: Flags = 1 << 26;
/// Flag of commands that select the database of the requests that follow.
pub const SELECTS_DATABASE: Flags = 1 << 27;

/// Redis' names of its flags, in the order of COMMAND INFO.
const NAMES: &[(Flags, &str)] = &[
    (WRITE, "write"),
    (READONLY, "readonly"),
    (DENYOOM, "denyoom"),
    (ADMIN, "admin"),
    (NOSCRIPT, "noscript"),
    (LOADING, "loading"),
    (STALE, "stale"),
    (SKIP_SLOWLOG, "skip_slowlog"),
    (FAST, "fast"),
    (NO_AUTH, "no_auth"),
    (NO_ASYNC_LOADING, "no_async_loading"),
    (NO_MULTI, "no_multi"),
    (ALLOW_BUSY, "allow_busy"),
];

/// Returns Redis' names of the flags in `flags`.
pub(super) fn names(flags: Flags) -> impl Iterator<Item = &'static str> + Clone {
    NAMES.iter().filter(move |(flag, _)| flags & flag != 0).map(|(_, name)| *name)
}

/// Command group, as in COMMAND DOCS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "they are the groups of these names")]
pub enum Group {
    String,
    Generic,
    Bitmap,
    Connection,
    Transactions,
    Server,
}

impl Group {
    /// Returns the name of the command group.
    pub const fn name(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Generic => "generic",
            Self::Bitmap => "bitmap",
            Self::Connection => "connection",
            Self::Transactions => "transactions",
            Self::Server => "server",
        }
    }

    /// Returns the ACL category of most commands of the group, or an empty string for none.
    pub const fn category(self) -> &'static str {
        match self {
            Self::Generic => "keyspace",
            Self::Transactions => "transaction",
            Self::Server => "",
            Self::String | Self::Bitmap | Self::Connection => self.name(),
        }
    }
}

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

/// Returns the ACL categories of a command, of which `own` do not follow from its flags, in Redis' order.
pub(super) fn categories(flags: Flags, own: &'static str) -> impl Iterator<Item = &'static str> + Clone {
    CATEGORIES.iter().copied().filter(move |category| match *category {
        "read" => flags & READONLY != 0,
        "write" => flags & WRITE != 0,
        "fast" => flags & FAST != 0,
        "slow" => flags & FAST == 0,
        category => {
            let follows = ["admin", "dangerous"].contains(&category) && flags & ADMIN != 0;
            follows || own.split(' ').any(|word| word == category)
        }
    })
}

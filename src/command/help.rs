//! HELP of the commands that have subcommands: Redis' text for the subcommands that kvbench has.

use crate::resp::Reply;

/// Syntax of a subcommand, and its description.
type Entry = (&'static str, &'static [&'static str]);

/// Writes the reply to `command` HELP.
pub(super) fn write(command: &str, entries: &[Entry], reply: &mut Reply) {
    const LAST: Entry = ("HELP", &["Prints this help."]);
    let head = format!("{command} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:");
    let entries = || entries.iter().chain([&LAST]);
    reply.array(1 + entries().map(|(_, lines)| 1 + lines.len()).sum::<usize>());
    reply.simple(&head);
    for (usage, lines) in entries() {
        reply.simple(usage);
        lines.iter().for_each(|line| reply.simple(&format!("    {line}")));
    }
}

pub(super) const CLIENT: &[Entry] = &[
    ("CACHING (YES|NO)", &["Enable/disable tracking of the keys for next command in OPTIN/OPTOUT modes."]),
    ("GETREDIR", &["Return the client ID we are redirecting to when tracking is enabled."]),
    ("GETNAME", &["Return the name of the current connection."]),
    ("ID", &["Return the ID of the current connection."]),
    ("INFO", &["Return information about the current client connection."]),
    ("KILL <ip:port>", &["Kill connection made from <ip:port>."]),
    (
        "KILL <option> <value> [<option> <value> [...]]",
        &[
            "Kill connections. Options are:",
            "* ADDR (<ip:port>|<unixsocket>:0)",
            "  Kill connections made from the specified address",
            "* LADDR (<ip:port>|<unixsocket>:0)",
            "  Kill connections made to specified local address",
            "* TYPE (NORMAL|MASTER|REPLICA|PUBSUB)",
            "  Kill connections by type.",
            "* USER <username>",
            "  Kill connections authenticated by <username>.",
            "* SKIPME (YES|NO)",
            "  Skip killing current connection (default: yes).",
        ],
    ),
    (
        "LIST [options ...]",
        &[
            "Return information about client connections. Options:",
            "* TYPE (NORMAL|MASTER|REPLICA|PUBSUB)",
            "  Return clients of specified type.",
        ],
    ),
    ("UNPAUSE", &["Stop the current client pause, resuming traffic."]),
    ("PAUSE <timeout> [WRITE|ALL]", &["Suspend all, or just write, clients for <timeout> milliseconds."]),
    ("REPLY (ON|OFF|SKIP)", &["Control the replies sent to the current connection."]),
    ("SETNAME <name>", &["Assign the name <name> to the current connection."]),
    ("UNBLOCK <clientid> [TIMEOUT|ERROR]", &["Unblock the specified blocked client."]),
    (
        "TRACKING (ON|OFF) [REDIRECT <id>] [BCAST] [PREFIX <prefix> [...]]",
        &["     [OPTIN] [OPTOUT] [NOLOOP]", "Control server assisted client side caching."],
    ),
    ("TRACKINGINFO", &["Report tracking status for the current connection."]),
    ("NO-EVICT (ON|OFF)", &["Protect current client connection from eviction."]),
    // NO-TOUCH and the next entry are subcommands of Redis 7.2.
    ("NO-TOUCH (ON|OFF)", &["Will not touch LRU/LFU stats when this mode is on."]),
    (
        "SETINFO <option> <value>",
        &[
            "Set client meta attr. Options are:",
            "* LIB-NAME: the client lib name.",
            "* LIB-VER: the client lib version.",
        ],
    ),
];

pub(super) const COMMAND: &[Entry] = &[
    ("(no subcommand)", &["Return details about all Redis commands."]),
    ("COUNT", &["Return the total number of commands in this Redis server."]),
    ("LIST", &["Return a list of all commands in this Redis server."]),
    (
        "INFO [<command-name> ...]",
        &[
            "Return details about multiple Redis commands.",
            "If no command names are given, documentation details for all",
            "commands are returned.",
        ],
    ),
    (
        "DOCS [<command-name> ...]",
        &[
            "Return documentation details about multiple Redis commands.",
            "If no command names are given, documentation details for all",
            "commands are returned.",
        ],
    ),
    ("GETKEYS <full-command>", &["Return the keys from a full Redis command."]),
    ("GETKEYSANDFLAGS <full-command>", &["Return the keys and the access flags from a full Redis command."]),
];

pub(super) const CONFIG: &[Entry] = &[
    ("GET <pattern>", &["Return parameters matching the glob-like <pattern> and their values."]),
    ("SET <directive> <value>", &["Set the configuration <directive> to <value>."]),
    ("RESETSTAT", &["Reset statistics reported by the INFO command."]),
    ("REWRITE", &["Rewrite the configuration file."]),
];

pub(super) const DEBUG: &[Entry] = &[
    ("SETTLE", &["Wait until nothing that was written is left to be flushed, compacted or synced."]),
    ("SLEEP <seconds>", &["Keep this connection waiting for <seconds>. Decimals allowed."]),
];

pub(super) const LATENCY: &[Entry] = &[
    ("DOCTOR", &["Return a human readable latency analysis report."]),
    ("GRAPH <event>", &["Return an ASCII latency graph for the <event> class."]),
    ("HISTORY <event>", &["Return time-latency samples for the <event> class."]),
    ("LATEST", &["Return the latest latency samples for all events."]),
    (
        "RESET [<event> ...]",
        &[
            "Reset latency data of one or more <event> classes.",
            "(default: reset all data for all event classes)",
        ],
    ),
    (
        "HISTOGRAM [COMMAND ...]",
        &[
            "Return a cumulative distribution of latencies in the format of a histogram for the specified command names.",
            "If no commands are specified then all histograms are replied.",
        ],
    ),
];

pub(super) const MEMORY: &[Entry] = &[
    ("DOCTOR", &["Return memory problems reports."]),
    ("MALLOC-STATS", &["Return internal statistics report from the memory allocator."]),
    ("PURGE", &["Attempt to purge dirty pages for reclamation by the allocator."]),
    ("STATS", &["Return information about the memory usage of the server."]),
    (
        "USAGE <key> [SAMPLES <count>]",
        &[
            "Return memory in bytes used by <key> and its value. Nested values are",
            "sampled up to <count> times (default: 5, 0 means sample all).",
        ],
    ),
];

pub(super) const OBJECT: &[Entry] = &[
    (
        "ENCODING <key>",
        &[
            "Return the kind of internal representation used in order to store the value",
            "associated with a <key>.",
        ],
    ),
    (
        "FREQ <key>",
        &[
            "Return the access frequency index of the <key>. The returned integer is",
            "proportional to the logarithm of the recent access frequency of the key.",
        ],
    ),
    (
        "REFCOUNT <key>",
        &["Return the number of references of the value associated with the specified", "<key>."],
    ),
];

pub(super) const SLOWLOG: &[Entry] = &[
    (
        "GET [<count>]",
        &[
            "Return top <count> entries from the slowlog (default: 10, -1 mean all).",
            "Entries are made of:",
            "id, timestamp, time in microseconds, arguments array, client IP and port,",
            "client name",
        ],
    ),
    ("LEN", &["Return the length of the slowlog."]),
    ("RESET", &["Reset the slowlog."]),
];

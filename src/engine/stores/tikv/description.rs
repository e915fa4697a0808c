//! Static description of `tikv`.

use crate::engine::{
    Capabilities, Caveat, Compression, Family, FsyncSupport, Info, Loss, OpenFiles, Status, Tool, Writers,
};

pub(super) const NAME: &str = "tikv";

/// Maximum length of a stored key with its prefix, in bytes: TiKV's default limit, less the bytes that TiKV adds.
pub(super) const MAX_KEY: usize = 4000;

pub(super) static INFO: Info = Info {
    name: NAME,
    library: "tikv-client 0.4.0",
    own_format: None,
    family: Family::Cluster,
    status: Status::Distributed,
    needs: &[Tool::Cc],
    capabilities: Capabilities {
        ordered: true,
        multi_writer: true,
        counts_allocations: true,
        ..Capabilities::NONE
    },
    writers: Writers::Concurrent,
    fsync: FsyncSupport::AlwaysOnly,
    // The length of --prefix counts too.
    key_length: (0, MAX_KEY),
    compression: &[Compression::None],
    cache: "none here; the cluster has its own",
    // Connections to the nodes.
    open_files: OpenFiles::always(64),
    cluster_flag: Some("--pd HOST:PORT,...: the placement drivers of the cluster"),
    loss: [Loss::NOTHING; 3],
    caveats: &[
        Caveat::new(
            "Every command waits for the network: a read for a timestamp and one node, a commit for a timestamp, two \
            rounds of the nodes that have its keys, and a majority of the replicas of each.",
        ),
        Caveat::new(
            "A commit is acknowledged when a majority of the replicas has it in its log. That they sync it is up to the \
            cluster (old versions of TiKV can be told not to, by sync-log).",
        ),
        Caveat::new(
            "Several servers may use the same prefix. What they write at the same time to the same keys, one of them does \
            again.",
        ),
        Caveat::new(
            "EXEC after WATCH takes a value that was changed and changed back for unchanged, where another server did \
            so.",
        ),
        Caveat::new(
            "FLUSHALL removes key by key, 2,000 in a transaction: of more keys others may see a part meanwhile. DBSIZE \
            visits all keys.",
        ),
        Caveat::new(
            "A transaction has at most 20,000 writes: each of the client's requests for it carries the list of all its \
            keys.",
        ),
        Caveat::new(
            "A value has at most 6 MiB: TiKV refuses larger entries of its log, by default above 8 MiB.",
        ),
        Caveat::new(
            "When a node is lost, its ranges of keys answer again after an election; commands wait for that up to 10 \
            seconds and then fail. After such an error it may be unknown whether a write took effect; it says so.",
        ),
        Caveat::new(
            "Versions that were overwritten are kept until the server removes them, every ten minutes. It does so for \
            the whole cluster, as TiDB does, also for what other programs have there.",
        ),
    ],
    same_design: &[],
    log_targets: &["tikv_client"],
};

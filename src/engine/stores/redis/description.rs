//! Static description of `redis`.

use crate::engine::{
    Capabilities, Caveat, Compression, Family, FsyncSupport, Info, Loss, LossBound, LossClass, OpenFiles,
    Status, Writers,
};

pub(super) const NAME: &str = "redis";

const FAILOVER: &str = "the last writes, if a replica takes over from the lost node";

const SECONDS: LossBound = LossBound::new(LossClass::Seconds, FAILOVER);

const UNWRITTEN: LossBound = LossBound::new(
    LossClass::Unwritten,
    "what the nodes had not written, and the last writes, if a replica takes over from the lost node",
);

/// Maximum length of a stored key, in bytes: with the prefix and the hash tag.
pub(super) const MAX_KEY: usize = 65_535;

pub(super) static INFO: Info = Info {
    name: NAME,
    library: "redis 1.8.1",
    own_format: None,
    family: Family::Slots,
    status: Status::Distributed,
    needs: &[],
    capabilities: Capabilities {
        multi_writer: true,
        hash_slots: true,
        counts_allocations: true,
        ..Capabilities::NONE
    },
    writers: Writers::Concurrent,
    fsync: FsyncSupport::FixedAtOpen,
    // The length of --prefix counts too.
    key_length: (0, MAX_KEY),
    compression: &[Compression::None],
    cache: "none here; the cluster has its own",
    // Connections to the nodes.
    open_files: OpenFiles::always(256),
    cluster_flag: Some("--nodes HOST:PORT,...: some nodes of the cluster"),
    loss: [
        Loss { kill: SECONDS, power_cut: SECONDS },
        Loss { kill: SECONDS, power_cut: SECONDS },
        Loss { kill: SECONDS, power_cut: UNWRITTEN },
    ],
    caveats: &[
        Caveat::new(
            "Replication is asynchronous: a write that was acknowledged can be lost when a replica takes over from its \
            master, whatever --fsync says. Nothing of that comes from kvbench, and a kill of kvbench loses nothing.",
        ),
        Caveat::new(
            "A command, or all that stands between MULTI and EXEC, may be about keys of one slot only; otherwise it is \
            refused with CROSSSLOT, as in a Redis Cluster. {tags} keep keys in one slot.",
        ),
        Caveat::new(
            "Each command that writes is a commit of its own, also in a pipeline. SET without options, SETEX, PSETEX and MSET \
            of a pipeline are sent together; every other command that writes waits for the network twice if it reads what \
            it changes (DEL does), once if not.",
        ),
        Caveat::new(
            "SCAN, KEYS, DBSIZE, RANDOMKEY, FLUSHALL and FLUSHDB go from slot to slot over all masters, and are not \
            atomic. The keys of one slot are listed at once, and those of other prefixes with them.",
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
            "When a master is lost, its slots answer again when a replica has taken over; commands wait for that up to 10 \
            seconds and then fail. After such an error it may be unknown whether a write took effect; it says so.",
        ),
        Caveat::new(
            "--fsync is compared with appendonly and appendfsync of every master at the start; what nodes are told later \
            is not noticed.",
        ),
    ],
    same_design: &[],
    log_targets: &[],
};

//! Engines of this build under a second name, so that a comparison of an engine with itself can be tested. With
//! `KVBENCH_SLOWED=btree-twin=0.05`, one of the two is slower by a known share.

use crate::engine::{Info, Kind, Status, stores::btree};

/// The engine `btree` under a second name.
pub const BTREE: Kind = Kind { info: &BTREE_INFO, ..btree::KIND };

static BTREE_INFO: Info = Info { name: "btree-twin", status: Status::Synthetic, ..*btree::KIND.info };

/// The engine `redb` under a second name.
#[cfg(feature = "redb")]
pub const REDB: Kind = Kind { info: &REDB_INFO, ..crate::engine::stores::redb::KIND };

#[cfg(feature = "redb")]
static REDB_INFO: Info =
    Info { name: "redb-twin", status: Status::Synthetic, ..*crate::engine::stores::redb::KIND.info };

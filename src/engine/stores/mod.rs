//! The engines that `--store` selects: one file or folder each, and one line in a list below.
//!
//! A line names the module and, if a build may lack the engine, its Cargo feature. The engine's name is that of the
//! module with `-` for `_`. `cargo fmt` does not see these modules: `make check` checks their format by their paths.

use super::Kind;

/// Row of a list of engines: the name of the engine's module, and its Cargo feature if a build may lack it.
pub(super) type Row = (&'static str, Option<&'static str>);

macro_rules! feature {
    () => {
        None
    };
    ($feature:literal) => {
        Some($feature)
    };
}

macro_rules! engines {
    ($(#[$doc:meta])* $kinds:ident, $rows:ident: $($module:ident $(if $feature:literal)?,)+) => {
        $(
            $(#[cfg(feature = $feature)])?
            pub(super) mod $module;
        )+

        $(#[$doc])*
        pub const $kinds: &[Kind] = &[$($(#[cfg(feature = $feature)])? $module::KIND),+];

        /// Every engine of the list, also those that this build lacks.
        pub(super) const $rows: &[Row] = &[$((stringify!($module), feature!($($feature)?))),+];
    };
}

engines! {
    /// Engines of this build with data on this machine.
    KINDS, ROWS:
    map,
    btree,
    bitcask,
    rocksdb if "rocksdb",
    rocksdb_blob if "rocksdb",
    lmdb if "lmdb",
    sled if "sled",
    redb if "redb",
    sqlite if "sqlite",
    fjall if "fjall",
    mdbx if "mdbx",
    canopydb if "canopydb",
}

engines! {
    /// Engines of this build whose data are on other machines. Tables of benchmark results do not compare them with the
    /// other engines, because network and replicas determine their results.
    DISTRIBUTED, DISTRIBUTED_ROWS:
    tikv if "tikv",
    redis if "redis",
}

//! The engines that `--store` selects, one file or folder each.

pub(super) mod bitcask;
pub(super) mod btree;
#[cfg(feature = "canopydb")]
pub(super) mod canopydb;
#[cfg(feature = "fjall")]
pub(super) mod fjall;
#[cfg(feature = "lmdb")]
pub(super) mod lmdb;
pub(super) mod map;
#[cfg(feature = "mdbx")]
pub(super) mod mdbx;
#[cfg(feature = "redb")]
pub(super) mod redb;
#[cfg(feature = "redis")]
pub(super) mod redis;
#[cfg(feature = "rocksdb")]
pub(super) mod rocksdb;
#[cfg(feature = "sled")]
pub(super) mod sled;
#[cfg(feature = "sqlite")]
pub(super) mod sqlite;
#[cfg(feature = "tikv")]
pub(super) mod tikv;

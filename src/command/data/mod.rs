//! Families of commands on keys and values.

pub(super) mod bitfield;
pub(super) mod bitmap;
pub(super) mod counter;
pub(super) mod expire;
pub(super) mod key;
pub(super) mod lcs;
pub(super) mod string;
pub(super) mod whole_keyspace;

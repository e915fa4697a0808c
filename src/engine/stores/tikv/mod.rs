//! `tikv`: TiKV, through its own client. Ranges of keys (regions) are on several machines, each replicated by Raft.
//! Transactions over all regions use the two-phase commit of Percolator
//! (<https://tikv.org/deep-dive/distributed-transaction/percolator/>).

mod blocking_calls;
mod commit_outcome;
mod connected_cluster;
mod description;
mod optimistic_transaction;
mod page_scan;

use crate::engine::{
    Batch, Check, Engine, Error, Info, KeyRange, Kind, Location, OpenOptions, Result, Transaction, VisitPair,
    VisitValue,
};
use connected_cluster::Cluster;
use description::{INFO, NAME};
use optimistic_transaction::{OptimisticTransaction, with_retries};

/// Entry of `tikv` in the list of engines.
pub const KIND: Kind = Kind::new(&INFO, Tikv::open, |_| false, Check::InPlace(|_| Err(no_files())));

fn no_files() -> Error {
    Error::Unsupported { engine: NAME, what: "has no files here to check".into() }
}

struct Tikv(Cluster);

impl Tikv {
    fn open(options: &OpenOptions) -> Result<Box<dyn Engine>> {
        let Location::Cluster { nodes, prefix, access } = &options.location else { return Err(no_files()) };
        let cluster = Cluster::open(nodes, prefix, access)?;
        cluster.remove_old_versions();
        Ok(Box::new(Self(cluster)))
    }
}

impl Engine for Tikv {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn key_limits(&self) -> (usize, usize) {
        self.0.key_limits()
    }

    fn read(&self, keys: &[&[u8]], visit: &mut VisitValue<'_>) -> Result<()> {
        self.0.read_at(keys, None, visit)
    }

    fn read_now(&self, keys: &[&[u8]]) -> Vec<Option<Option<Vec<u8>>>> {
        self.0.values_now(keys)
    }

    /// Writes a batch durably, with or without `_sync`. Repeats it after transaction conflicts.
    fn write(&self, batch: &Batch<'_>, _sync: bool) -> Result<()> {
        with_retries(&self.0, |transaction| transaction.apply(batch))
    }

    fn begin(&self) -> Result<Option<Box<dyn Transaction + '_>>> {
        Ok(Some(Box::new(OptimisticTransaction::begin(&self.0)?)))
    }

    /// Does nothing: every acknowledged write is durable.
    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn scan(&self, range: KeyRange<'_>, visit: &mut VisitPair<'_>) -> Result<()> {
        let now = self.0.now()?;
        self.0.scan_at(range, &now, visit)
    }

    fn count(&self) -> Result<u64> {
        self.0.count()
    }

    /// Returns 0: the size of the nodes' files is unknown.
    fn disk_size(&self) -> Result<u64> {
        Ok(0)
    }
}

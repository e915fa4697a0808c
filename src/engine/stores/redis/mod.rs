//! `redis`: a Redis Cluster or Valkey Cluster. Keys are in 16,384 hash slots. Each slot is on one master, which
//! replicates asynchronously (<https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/>). A
//! transaction is atomic if its keys are in one slot.

mod all_masters;
mod description;
#[cfg(test)]
mod fake;
mod fsync_check;
mod key_encoding;
mod login;
mod node;
mod optimistic_transaction;
mod pipeline;
mod request_encoding;
mod routing;
mod scripts;
mod slot_map;

use crate::engine::{
    Batch, Check, Engine, Error, Info, KeyRange, Kind, Location, OpenOptions, Result, Transaction, VisitKey,
    VisitPair, VisitValue,
};
use description::{INFO, NAME};
use key_encoding::{Keys, SLOTS};
use login::Login;
use optimistic_transaction::OptimisticTransaction;
use routing::Cluster;

/// Entry of `redis` in the list of engines.
pub const KIND: Kind = Kind::new(&INFO, Redis::open, |_| false, Check::InPlace(|_| Err(no_files())));

fn no_files() -> Error {
    Error::Unsupported { engine: NAME, what: "has no files here to check".into() }
}

/// Returns the hash slot at which an incremental scan continues at `position`.
fn slot_of(position: u64) -> u16 {
    u16::try_from(position % u64::from(SLOTS)).unwrap_or(0)
}

struct Redis(Cluster);

impl Redis {
    fn open(options: &OpenOptions) -> Result<Box<dyn Engine>> {
        let Location::Cluster { nodes, prefix, access } = &options.location else { return Err(no_files()) };
        let cluster = Cluster::open(nodes, Keys::new(prefix)?, Login::load(access)?)?;
        cluster.check_policy(options.fsync)?;
        Ok(Box::new(Self(cluster)))
    }
}

impl Engine for Redis {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn key_limits(&self) -> (usize, usize) {
        self.0.key_limits()
    }

    fn slot(&self, key: &[u8]) -> u16 {
        self.0.keys.slot(key)
    }

    /// Reads the values of `keys`. Those of one hash slot are read atomically, those of different slots are not.
    fn read(&self, keys: &[&[u8]], visit: &mut VisitValue<'_>) -> Result<()> {
        for (index, value) in self.0.values(keys)?.iter().enumerate() {
            if visit(index, value.as_deref()).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn read_now(&self, keys: &[&[u8]]) -> Vec<Option<Option<Vec<u8>>>> {
        self.0.values_now(keys)
    }

    /// Writes a batch. `_sync` has no effect: when the nodes sync it depends on their settings only.
    fn write(&self, batch: &Batch<'_>, _sync: bool) -> Result<()> {
        OptimisticTransaction::begin(&self.0).apply(batch)
    }

    fn write_parts(&self, batch: &Batch<'_>, sync: bool) -> Vec<Result<()>> {
        self.0
            .write_parts(batch)
            .unwrap_or_else(|| batch.parts().map(|part| self.write(&Batch::of(part), sync)).collect())
    }

    fn begin(&self) -> Result<Option<Box<dyn Transaction + '_>>> {
        Ok(Some(Box::new(OptimisticTransaction::begin(&self.0))))
    }

    /// Does nothing: the nodes sync by their own settings.
    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn scan(&self, range: KeyRange<'_>, visit: &mut VisitPair<'_>) -> Result<()> {
        self.0.scan(range, visit)
    }

    /// Continues an incremental scan at `position`, which is a hash slot, and returns the slot to continue from; 0 at
    /// the end.
    fn scan_step(&self, position: u64, visit: &mut VisitPair<'_>) -> Result<u64> {
        self.0.scan_step(slot_of(position), visit).map(u64::from)
    }

    fn scan_step_keys(&self, position: u64, visit: &mut VisitKey<'_>) -> Result<u64> {
        self.0.scan_step_keys(slot_of(position), visit).map(u64::from)
    }

    fn scan_part(&self, key: &[u8]) -> u64 {
        u64::from(self.0.keys.slot(key))
    }

    fn count(&self) -> Result<u64> {
        self.0.count()
    }

    /// Returns 0: the size of the nodes' files is unknown.
    fn disk_size(&self) -> Result<u64> {
        Ok(0)
    }
}

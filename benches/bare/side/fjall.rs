//! fjall, with the settings of `engine/stores/fjall.rs` under `no`.

use super::{Settings, Side, answer, length};
use fjall::{
    CompressionType, Database, Keyspace, KeyspaceCreateOptions, Readable, Snapshot, config::CompressionPolicy,
};
use std::path::Path;

struct Bare {
    /// What is read: fjall's plain get sees parts of a batch that is being applied.
    latest: Snapshot,
    keyspace: Keyspace,
    db: Database,
}

pub fn open(path: &Path, settings: Settings) -> Box<dyn Side> {
    let size = |name| settings.adapter_bytes(name);
    let db = Database::builder(path)
        .cache_size(size("block cache"))
        .worker_threads(2)
        .journal_compression(CompressionType::None)
        .open()
        .expect("opens");
    let create = || {
        KeyspaceCreateOptions::default()
            .max_memtable_size(size("memtable"))
            .data_block_compression_policy(CompressionPolicy::disabled())
    };
    let keyspace = db.keyspace("bare", create).expect("creates a keyspace");
    Box::new(Bare { latest: db.snapshot(), keyspace, db })
}

impl Side for Bare {
    fn get_each(&mut self, keys: &[&[u8]], reply: &mut Vec<u8>) -> usize {
        let mut bytes = 0;
        for key in keys {
            let value = self.latest.get(&self.keyspace, key).expect("reads");
            bytes += answer(reply, value.as_deref());
        }
        bytes
    }

    fn get_batch(&mut self, keys: &[&[u8]]) -> usize {
        let value = |key: &&[u8]| self.latest.get(&self.keyspace, key).expect("reads");
        keys.iter().map(|key| length(value(key).as_deref())).sum()
    }

    fn put_batch(&mut self, pairs: &[(&[u8], &[u8])]) {
        let mut batch = self.db.batch();
        for (key, value) in pairs {
            batch.insert(&self.keyspace, *key, *value);
        }
        batch.commit().expect("commits");
        self.latest = self.db.snapshot();
    }

    fn value(&mut self, key: &[u8]) -> Option<Vec<u8>> {
        self.latest.get(&self.keyspace, key).expect("reads").map(|value| value.to_vec())
    }
}

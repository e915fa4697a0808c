//! redb, with the settings of `engine/stores/redb.rs` under `no`.

use super::{Settings, Side, answer, length};
use redb::{Database, Durability, ReadOnlyTable, ReadableDatabase, TableDefinition};
use std::path::Path;

const TABLE: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("bare");

struct Bare {
    db: Database,
    /// The state as of the last commit: to open a table costs several times a lookup.
    table: ReadOnlyTable<&'static [u8], &'static [u8]>,
}

pub fn open(path: &Path, settings: Settings) -> Box<dyn Side> {
    let db = Database::builder().set_cache_size(settings.cache).create(path).expect("opens");
    let txn = db.begin_write().expect("begins");
    txn.open_table(TABLE).expect("creates a table");
    txn.commit().expect("commits");
    let table = latest(&db);
    Box::new(Bare { db, table })
}

fn latest(db: &Database) -> ReadOnlyTable<&'static [u8], &'static [u8]> {
    db.begin_read().expect("begins").open_table(TABLE).expect("opens a table")
}

impl Side for Bare {
    fn get_each(&mut self, keys: &[&[u8]], reply: &mut Vec<u8>) -> usize {
        let mut bytes = 0;
        for key in keys {
            let value = self.table.get(*key).expect("reads");
            bytes += answer(reply, value.as_ref().map(|value| value.value()));
        }
        bytes
    }

    fn get_batch(&mut self, keys: &[&[u8]]) -> usize {
        let value = |key: &&[u8]| self.table.get(*key).expect("reads");
        keys.iter().map(|key| length(value(key).as_ref().map(|value| value.value()))).sum()
    }

    fn put_batch(&mut self, pairs: &[(&[u8], &[u8])]) {
        let mut txn = self.db.begin_write().expect("begins");
        txn.set_durability(Durability::None).expect("allowed");
        let mut table = txn.open_table(TABLE).expect("opens a table");
        for (key, value) in pairs {
            table.insert(*key, *value).expect("puts");
        }
        drop(table);
        txn.commit().expect("commits");
        self.table = latest(&self.db);
    }

    fn value(&mut self, key: &[u8]) -> Option<Vec<u8>> {
        self.table.get(key).expect("reads").map(|value| value.value().to_vec())
    }
}

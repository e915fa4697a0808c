//! MDBX, with the settings of `engine/stores/mdbx.rs` under `no`.

use super::{Settings, Side, answer, length};
use libmdbx::{
    Database, DatabaseOptions, Mode, NoWriteMap, PageSize, ReadWriteOptions, SyncMode, WriteFlags,
};
use std::{borrow::Cow, path::Path};

struct Bare(Database<NoWriteMap>);

pub fn open(path: &Path, settings: Settings) -> Box<dyn Side> {
    let mode = ReadWriteOptions {
        sync_mode: SyncMode::UtterlyNoSync,
        max_size: Some(4 << 30),
        ..ReadWriteOptions::default()
    };
    let options = DatabaseOptions {
        page_size: Some(PageSize::Set(4096)),
        max_readers: Some(4096),
        mode: Mode::ReadWrite(mode),
        no_rdahead: settings.larger_than_memory,
        ..DatabaseOptions::default()
    };
    Box::new(Bare(Database::open_with_options(path, options).expect("opens")))
}

impl Side for Bare {
    fn get_each(&mut self, keys: &[&[u8]], reply: &mut Vec<u8>) -> usize {
        let mut bytes = 0;
        for key in keys {
            // A snapshot for each, or later reads would not see what was committed meanwhile.
            let txn = self.0.begin_ro_txn().expect("begins");
            let table = txn.open_table(None).expect("opens a table");
            let value: Option<Cow<'_, [u8]>> = txn.get(&table, key).expect("reads");
            bytes += answer(reply, value.as_deref());
        }
        bytes
    }

    fn get_batch(&mut self, keys: &[&[u8]]) -> usize {
        let txn = self.0.begin_ro_txn().expect("begins");
        let table = txn.open_table(None).expect("opens a table");
        let value = |key: &&[u8]| -> Option<Cow<'_, [u8]>> { txn.get(&table, key).expect("reads") };
        keys.iter().map(|key| length(value(key).as_deref())).sum()
    }

    fn put_batch(&mut self, pairs: &[(&[u8], &[u8])]) {
        let txn = self.0.begin_rw_txn().expect("begins");
        let table = txn.open_table(None).expect("opens a table");
        for (key, value) in pairs {
            txn.put(&table, key, value, WriteFlags::empty()).expect("puts");
        }
        txn.commit().expect("commits");
    }

    fn value(&mut self, key: &[u8]) -> Option<Vec<u8>> {
        let txn = self.0.begin_ro_txn().expect("begins");
        let table = txn.open_table(None).expect("opens a table");
        txn.get(&table, key).expect("reads")
    }
}

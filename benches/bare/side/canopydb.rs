//! canopydb, with the settings of `engine/stores/canopydb.rs` under `no`.

use super::{Settings, Side, answer, length};
use canopydb::{Database, DbOptions, EnvOptions, TreeOptions};
use std::{fs, path::Path};

const TREE: &[u8] = b"bare";

struct Bare {
    db: Database,
}

pub fn open(path: &Path, settings: Settings) -> Box<dyn Side> {
    fs::create_dir(path).expect("creates a directory");
    let mut environment = EnvOptions::new(path);
    environment.page_cache_size = settings.cache;
    environment.wal_background_sync_interval = None;
    let db = Database::with_options(environment, DbOptions::new()).expect("opens");
    let txn = db.begin_write().expect("begins");
    let mut tree = TreeOptions::new();
    tree.compress_overflow_values = None;
    drop(txn.get_or_create_tree_with(TREE, tree).expect("creates a tree"));
    txn.commit().expect("commits");
    Box::new(Bare { db })
}

impl Bare {
    /// Its transactions cannot be shared by threads, so a program begins one for each request.
    fn get(&self, key: &[u8], visit: impl FnOnce(Option<&[u8]>) -> usize) -> usize {
        let txn = self.db.begin_read().expect("begins");
        let tree = txn.get_tree(TREE).expect("reads").expect("is there");
        visit(tree.get(key).expect("reads").as_deref())
    }
}

impl Side for Bare {
    fn get_each(&mut self, keys: &[&[u8]], reply: &mut Vec<u8>) -> usize {
        keys.iter().map(|key| self.get(key, |value| answer(reply, value))).sum()
    }

    fn get_batch(&mut self, keys: &[&[u8]]) -> usize {
        let txn = self.db.begin_read().expect("begins");
        let tree = txn.get_tree(TREE).expect("reads").expect("is there");
        keys.iter().map(|key| length(tree.get(key).expect("reads").as_deref())).sum()
    }

    fn put_batch(&mut self, pairs: &[(&[u8], &[u8])]) {
        let txn = self.db.begin_write().expect("begins");
        {
            let mut tree = txn.get_tree(TREE).expect("reads").expect("is there");
            for (key, value) in pairs {
                tree.insert(key, value).expect("inserts");
            }
        }
        txn.commit().expect("commits");
    }

    fn value(&mut self, key: &[u8]) -> Option<Vec<u8>> {
        let mut found = None;
        self.get(key, |value| {
            found = value.map(<[u8]>::to_vec);
            0
        });
        found
    }
}

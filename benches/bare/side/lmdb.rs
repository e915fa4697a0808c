//! LMDB through heed, with the settings of `engine/stores/lmdb` under `no`.

use super::{Settings, Side, answer, length};
use heed::{CommitOrAbort, Database, Env, EnvFlags, EnvOpenOptions, WithTls, types::Bytes};
use std::{fs, path::Path};

struct Bare {
    env: Env<WithTls>,
    db: Database<'static, Bytes, Bytes>,
}

pub fn open(path: &Path, settings: Settings) -> Box<dyn Side> {
    fs::create_dir(path).expect("creates a directory");
    let mut options = EnvOpenOptions::new();
    options.map_size(4 << 30).max_readers(4096);
    let mut flags = EnvFlags::NO_SYNC;
    flags.set(EnvFlags::NO_READ_AHEAD, settings.larger_than_memory);
    #[expect(unsafe_code, reason = "a memory map")]
    // SAFETY: nothing else has the new directory open; the flags concern power cuts and speed alone.
    let env = unsafe { options.flags(flags).open(path) }.expect("opens");
    let txn = env.write_txn().expect("begins");
    let created = env.create_databases_and_commit(txn, |opener, txn| {
        opener.create_database::<Bytes, Bytes>(txn, None).map(CommitOrAbort::<_, ()>::Commit)
    });
    let db = created.expect("creates a table").unwrap_commit();
    Box::new(Bare { env, db })
}

impl Side for Bare {
    fn get_each(&mut self, keys: &[&[u8]], reply: &mut Vec<u8>) -> usize {
        let mut bytes = 0;
        for key in keys {
            // A snapshot for each, or later reads would not see what was committed meanwhile.
            let txn = self.env.read_txn().expect("begins");
            bytes += answer(reply, self.db.get(&txn, key).expect("reads"));
        }
        bytes
    }

    fn get_batch(&mut self, keys: &[&[u8]]) -> usize {
        let txn = self.env.read_txn().expect("begins");
        keys.iter().map(|key| length(self.db.get(&txn, key).expect("reads"))).sum()
    }

    fn put_batch(&mut self, pairs: &[(&[u8], &[u8])]) {
        let mut txn = self.env.write_txn().expect("begins");
        for (key, value) in pairs {
            self.db.put(&mut txn, key, value).expect("puts");
        }
        txn.commit().expect("commits");
    }

    fn value(&mut self, key: &[u8]) -> Option<Vec<u8>> {
        let txn = self.env.read_txn().expect("begins");
        self.db.get(&txn, key).expect("reads").map(<[u8]>::to_vec)
    }
}

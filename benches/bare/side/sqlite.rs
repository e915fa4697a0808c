//! SQLite through rusqlite, with the settings of `engine/stores/sqlite` under `no`.

use super::{Settings, Side, answer, length};
use rusqlite::{CachedStatement, Connection};
use std::path::Path;

const GET: &str = "SELECT v FROM kv WHERE k = ?1";
const PUT: &str = "INSERT INTO kv (k, v) VALUES (?1, ?2) ON CONFLICT (k) DO UPDATE SET v = excluded.v";

/// Connections that share the cache, as the adapter has them on two cores.
const SHARES: i64 = 3;

struct Bare {
    writer: Connection,
    /// As the adapter has it: a commit makes the cache of another connection useless.
    reader: Connection,
}

pub fn open(path: &Path, settings: Settings) -> Box<dyn Side> {
    let writer = connect(path, settings.cache);
    let create = "CREATE TABLE kv (k BLOB PRIMARY KEY, v BLOB NOT NULL) STRICT";
    writer.execute(create, []).expect("creates a table");
    Box::new(Bare { writer, reader: connect(path, settings.cache) })
}

fn connect(path: &Path, cache: usize) -> Connection {
    let connection = Connection::open(path).expect("opens");
    connection.pragma_update(None, "journal_mode", "WAL").expect("has a log");
    connection.pragma_update(None, "synchronous", "NORMAL").expect("syncs");
    connection.pragma_update(None, "cache_size", -((cache as i64 / SHARES) >> 10)).expect("has a cache");
    connection
}

/// Hands the value of `key` to `take`.
fn get<R>(statement: &mut CachedStatement<'_>, key: &[u8], take: impl FnOnce(Option<&[u8]>) -> R) -> R {
    let mut rows = statement.query((key,)).expect("reads");
    let row = rows.next().expect("reads");
    take(row.map(|row| row.get_ref(0).expect("a column").as_blob().expect("a blob")))
}

impl Side for Bare {
    fn get_each(&mut self, keys: &[&[u8]], reply: &mut Vec<u8>) -> usize {
        let mut bytes = 0;
        for key in keys {
            let mut statement = self.reader.prepare_cached(GET).expect("prepares");
            bytes += get(&mut statement, key, |value| answer(reply, value));
        }
        bytes
    }

    fn get_batch(&mut self, keys: &[&[u8]]) -> usize {
        let txn = self.reader.transaction().expect("begins");
        let mut statement = txn.prepare_cached(GET).expect("prepares");
        let bytes = keys.iter().map(|key| get(&mut statement, key, length)).sum();
        drop(statement);
        txn.commit().expect("ends");
        bytes
    }

    fn put_batch(&mut self, pairs: &[(&[u8], &[u8])]) {
        let txn = self.writer.transaction().expect("begins");
        let mut statement = txn.prepare_cached(PUT).expect("prepares");
        for (key, value) in pairs {
            statement.execute((*key, *value)).expect("puts");
        }
        drop(statement);
        txn.commit().expect("commits");
    }

    fn value(&mut self, key: &[u8]) -> Option<Vec<u8>> {
        let mut statement = self.reader.prepare_cached(GET).expect("prepares");
        get(&mut statement, key, |value| value.map(<[u8]>::to_vec))
    }
}

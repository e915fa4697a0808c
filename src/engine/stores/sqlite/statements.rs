//! SQL statements of `sqlite` on one connection: writes of a batch, look-ups, scans and transactions of reads.

use super::description::NAME;
use crate::engine::{Batch, KeyRange, VisitPair, VisitValue, WriteOp};
use rusqlite::{Connection, ErrorCode, Row, TransactionBehavior, ffi, params_from_iter};
use std::ops::{Bound, ControlFlow};

/// Statement that creates a table with rowids, and so with a separate index. WITHOUT ROWID is one tree with the values
/// in its inner nodes too: SQLite advises it for rows below a twentieth of a page
/// (<https://sqlite.org/withoutrowid.html>). With values of 1,000 bytes such a file was 3.4 times as large, and a GET
/// from the disk did 6.5 reads instead of 1.2; with 100 bytes a GET from the cache was faster by a quarter. A file that
/// was created with such a table keeps it: the statements are the same.
pub(super) const CREATE: &str = "CREATE TABLE IF NOT EXISTS kv (k BLOB PRIMARY KEY, v BLOB NOT NULL) STRICT";
const GET: &str = "SELECT v FROM kv WHERE k = ?1";
const PUT: &str = "INSERT INTO kv (k, v) VALUES (?1, ?2) ON CONFLICT (k) DO UPDATE SET v = excluded.v";
const DELETE: &str = "DELETE FROM kv WHERE k = ?1";
const CLEAR: &str = "DELETE FROM kv";

/// Writes a batch in one transaction. If it fails, nothing is written.
pub(super) fn apply(connection: &mut Connection, batch: &Batch<'_>) -> rusqlite::Result<()> {
    let (clear, ops) = batch.after_clear();
    // Dropped without a commit, the transaction is rolled back.
    let txn = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    {
        let mut put = txn.prepare_cached(PUT)?;
        let mut delete = txn.prepare_cached(DELETE)?;
        if clear {
            txn.prepare_cached(CLEAR)?.execute([])?;
        }
        for op in ops {
            match *op {
                WriteOp::Put { key, value } => drop(put.execute((key, value))?),
                WriteOp::Delete { key } => drop(delete.execute((key,))?),
                WriteOp::Clear => {}
            }
        }
    }
    txn.commit()
}

/// Begins a transaction, whose first read decides which state it sees.
pub(super) fn begin_transaction(connection: &Connection) -> rusqlite::Result<()> {
    connection.prepare_cached("BEGIN")?.execute([]).map(drop)
}

/// Ends a transaction that [`begin_transaction`] has begun.
pub(super) fn end_transaction(connection: &Connection) -> rusqlite::Result<()> {
    connection.prepare_cached("COMMIT")?.execute([]).map(drop)
}

/// Transaction on a connection for several reads under one snapshot. Dropped before its end, also by a panic, it is
/// rolled back: otherwise the connection would stay in it.
pub(super) struct ReadTransaction<'c>(&'c Connection);

impl<'c> ReadTransaction<'c> {
    pub(super) fn begin(connection: &'c Connection) -> rusqlite::Result<Self> {
        begin_transaction(connection)?;
        Ok(Self(connection))
    }

    pub(super) fn end(self) -> rusqlite::Result<()> {
        end_transaction(self.0)
    }
}

impl Drop for ReadTransaction<'_> {
    fn drop(&mut self) {
        // After `end`, and after errors with which SQLite itself rolls back, there is no transaction.
        if !self.0.is_autocommit()
            && let Err(error) = self.0.execute_batch("ROLLBACK")
        {
            log::warn!("{NAME}: a transaction that only reads cannot be rolled back: {error}");
        }
    }
}

/// Calls `visit` with the value of each of `keys` (`None`: absent), in order, until `visit` breaks. If an error
/// concerns the value of one key only, sets `failed` to the index of this key.
pub(super) fn get(
    connection: &Connection,
    keys: &[&[u8]],
    failed: &mut Option<usize>,
    visit: &mut VisitValue<'_>,
) -> rusqlite::Result<()> {
    let mut statement = connection.prepare_cached(GET)?;
    for (index, key) in keys.iter().enumerate() {
        let mut note = |error: rusqlite::Error| {
            *failed = concerns_one_value(&error).then_some(index);
            error
        };
        let mut rows = statement.query((key,)).map_err(&mut note)?;
        let row = rows.next().map_err(&mut note)?;
        let value = row.map(|row| blob(row, 0)).transpose().map_err(note)?;
        if visit(index, value).is_break() {
            break;
        }
    }
    Ok(())
}

/// Returns `true` if an error of the look-up of a key concerns its value, or the pages with which it is found. The
/// look-up may also begin the transaction, and fails then if SQLite gets no lock, for example.
fn concerns_one_value(error: &rusqlite::Error) -> bool {
    // Errors that are not SQLite's: the value is no blob.
    error.sqlite_error().is_none_or(|error| {
        matches!(error.code, ErrorCode::DatabaseCorrupt | ErrorCode::OutOfMemory)
            || matches!(error.extended_code, ffi::SQLITE_IOERR_READ | ffi::SQLITE_IOERR_SHORT_READ)
    })
}

/// Returns the column numbered `column` (from 0) of `row`, as bytes in SQLite's own memory.
fn blob<'r>(row: &'r Row<'_>, column: usize) -> rusqlite::Result<&'r [u8]> {
    Ok(row.get_ref(column)?.as_blob()?)
}

/// Calls `visit` with the pairs of `range` in key order, until `visit` breaks.
pub(super) fn scan(
    connection: &Connection,
    range: KeyRange<'_>,
    visit: &mut VisitPair<'_>,
) -> rusqlite::Result<()> {
    let (start, from) = match range.start {
        Bound::Included(key) => ("k >= ?", Some(key)),
        Bound::Excluded(key) => ("k > ?", Some(key)),
        Bound::Unbounded => ("TRUE", None),
    };
    let (end, to) = match range.end {
        Bound::Included(key) => ("k <= ?", Some(key)),
        Bound::Excluded(key) => ("k < ?", Some(key)),
        Bound::Unbounded => ("TRUE", None),
    };
    let sql = format!("SELECT k, v FROM kv WHERE {start} AND {end} ORDER BY k");
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query(params_from_iter(from.into_iter().chain(to)))?;
    while let Some(row) = rows.next()? {
        if let ControlFlow::Break(()) = visit(blob(row, 0)?, blob(row, 1)?) {
            break;
        }
    }
    Ok(())
}

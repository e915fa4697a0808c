//! Errors of an engine.

use super::{Fsync, key_value_headers};
use std::{fmt, io, path::PathBuf};

/// Result of an engine call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Error of an engine. The text is one line and names the file or limit concerned: it is printed at start-up and
/// sent to clients behind `-ERR`. Only the text of [`Error::CrossSlot`] has an error code of its own.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum Error {
    /// Another process (or another store of this one) has the data open.
    #[error("{} is in use by another process; stop it or choose another --path", .path.display())]
    Locked { path: PathBuf },
    /// The path holds data of another engine, or a file that no engine wrote.
    #[error("{} holds {found}, not data of {engine}; {}", .path.display(), remedy(.owner))]
    Foreign {
        path: PathBuf,
        engine: &'static str,
        found: String,
        /// Name of the store that can open the data at the path, if there is one.
        owner: Option<&'static str>,
    },
    /// The path no longer names the file or directory that was opened. Another server may use what has the name now.
    #[error(
        "{} was moved, removed or replaced while it was in use; what is there now is not changed, and writes go on in \
        what was opened; put that back, or restart this server with its new --path", .path.display()
    )]
    Moved { path: PathBuf },
    /// The data are in a format that this version does not know; nothing was changed.
    #[error(
        "{} was written by a newer version of kvbench (format {format}); nothing was changed; use that version",
        .path.display()
    )]
    Newer { path: PathBuf, format: u32 },
    /// A first start was interrupted, and the directory contains a file that the start cannot have created.
    #[error(
        "{} is left from a first start of {engine} that was interrupted, and contains {found}, which that start did not create; \
        move {found} elsewhere, or remove the whole directory if you do not need it", .path.display()
    )]
    Interrupted { path: PathBuf, engine: &'static str, found: String },
    /// A file of the data is corrupt, so it was not opened or not rewritten; nothing was changed. Corruption of a single
    /// value is [`Error::Value`].
    #[error(
        "{path} is corrupt at byte {offset}: {detail}; nothing was changed; restore a backup, or run `kvbench \
        repair {path}`, which {}",
        repair(*.is_first_line),
        path = .path.display()
    )]
    Corrupt {
        path: PathBuf,
        offset: u64,
        detail: String,
        /// `true` if only the first line of a log is corrupt as far as is known, and the frame behind it contains what
        /// is needed to rewrite the line.
        is_first_line: bool,
    },
    /// The value of one key cannot be read. Other keys can: see [`Engine::read`](super::Engine::read).
    #[error("the value of {} cannot be read: {source}", KeyName(.key))]
    Value {
        /// Index of the key in the call that failed.
        index: usize,
        /// The key in its stored form, with a key header if it has one.
        key: Vec<u8>,
        /// `true` if the engine knows that the key exists.
        exists: bool,
        source: Box<Self>,
    },
    /// The operating system reported an error.
    #[error("cannot {action} {}: {source}", .path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    /// Out of space for this write. It was undone as a whole, and smaller or later ones may succeed.
    #[error("{engine} is full: {detail}")]
    Full { engine: &'static str, detail: String },
    /// The key is outside the engine's limits.
    #[error("the key has {len} bytes, and {engine} takes keys of {min} to {max} bytes")]
    KeyLength { engine: &'static str, len: usize, min: usize, max: usize },
    /// Another client wrote the same keys meanwhile. This write was undone; the same commands, executed again on
    /// the current values, may succeed.
    #[error("{engine}: others wrote the same keys meanwhile ({detail}); nothing was written; try again")]
    Conflict { engine: &'static str, detail: String },
    /// The machines that hold the data do not reply, or not in time; or another program has locked the data. Nothing was
    /// written.
    #[error("{engine} is not available: {detail}; nothing was written; try again")]
    Unavailable { engine: &'static str, detail: String },
    /// The reply to a write did not arrive. The write takes effect as a whole or not at all, but which of both is
    /// not known.
    #[error("{engine} did not answer: {detail}; whether the write took effect is not known")]
    Unknown { engine: &'static str, detail: String },
    /// The keys of an atomic operation are not in one hash slot. Nothing was written.
    #[error("CROSSSLOT Keys in request don't hash to the same slot")]
    CrossSlot,
    /// The engine does not support the operation; the text says which.
    #[error("{engine} {what}")]
    Unsupported { engine: &'static str, what: String },
    /// A write met corrupt data. It was undone as a whole, and writes of other keys may succeed.
    #[error("{engine}: {message}; nothing was written")]
    CorruptWrite { engine: &'static str, message: String },
    /// Any other error of the engine's library, with the library's message.
    #[error("{engine}: {message}")]
    Library { engine: &'static str, message: String },
}

/// Returns what `kvbench repair` does to a corrupt log, as a part of an error message.
fn repair(is_first_line: bool) -> &'static str {
    match is_first_line {
        true => {
            "rewrites the first line, keeps the records behind it, and keeps the old line in another file"
        }
        false => "cuts off everything from there and keeps it in another file",
    }
}

/// Returns what a user can do, as a part of an error message, if the data at a path are those of the store `owner`,
/// or of no store.
fn remedy(owner: &Option<&'static str>) -> String {
    match owner {
        Some(store) => format!("use --store {store}, or another --path"),
        None => "choose another --path".into(),
    }
}

/// Returns `true` for ENOSPC, EDQUOT and EFBIG: disk, quota or file size limit exhausted.
pub(crate) fn is_out_of_space(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

/// Formats a stored key in an error message: escaped, shortened, and with its database.
pub(crate) struct KeyName<'k>(pub &'k [u8]);

impl fmt::Display for KeyName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MAX_SHOWN_KEY: usize = 64;
        let (database, key) = key_value_headers::key(self.0).unwrap_or((0, self.0));
        match key.get(..MAX_SHOWN_KEY) {
            Some(start) if key.len() > MAX_SHOWN_KEY => {
                write!(f, "the key \"{}\"... of {} bytes", start.escape_ascii(), key.len())?;
            }
            _ => write!(f, "the key \"{}\"", key.escape_ascii())?,
        }
        match database {
            0 => Ok(()),
            number => write!(f, " of database {number}"),
        }
    }
}

impl Error {
    /// Wraps an error that concerns the value of one key only. `index` is the index of the key in the call; `exists` is
    /// `true` if the engine knows that the key exists.
    #[cold]
    pub fn of_value(self, index: usize, key: &[u8], exists: bool) -> Self {
        Self::Value { index, key: key.into(), exists, source: Box::new(self) }
    }

    /// Returns an error of `engine` with the text of this one and `remark`.
    pub(super) fn with_remark(self, engine: &'static str, remark: &str) -> Self {
        let message = match self {
            Self::Library { message, .. } => format!("{message}; {remark}"),
            error => format!("{error}; {remark}"),
        };
        Self::Library { engine, message }
    }

    /// Returns `true` if the error is that of a key that exists, but whose value cannot be read.
    pub fn is_unreadable_value(&self) -> bool {
        matches!(self, Self::Value { exists: true, .. })
    }

    /// Returns `true` if the engine has rolled back the failed call and may take further writes. After
    /// [`Error::Unknown`], of a cluster, it returns `false`, but the store continues to write. After any other failed
    /// write or sync it is unknown what reached the disk (a second fsync may succeed without the first one's pages:
    /// <https://wiki.postgresql.org/wiki/Fsync_Errors>), so the store is read-only until a restart.
    pub fn is_rolled_back(&self) -> bool {
        use Error::{Conflict, CorruptWrite, CrossSlot, Full, KeyLength, Unavailable, Unsupported};
        matches!(
            self,
            Full { .. }
                | CorruptWrite { .. }
                | KeyLength { .. }
                | Unsupported { .. }
                | Conflict { .. }
                | Unavailable { .. }
                | CrossSlot
        )
    }

    /// Returns the error of a write of `engine` that failed after `removed` had been removed. It does not say that
    /// nothing was written.
    #[allow(dead_code, reason = "for engines that a build may lack")]
    pub(super) fn after_removal(self, engine: &'static str, removed: &str) -> Self {
        let cause = match self {
            Self::Full { detail, .. }
            | Self::Conflict { detail, .. }
            | Self::Unavailable { detail, .. }
            | Self::Unknown { detail, .. } => detail,
            error => error.to_string(),
        };
        Self::Unknown { engine, detail: format!("{removed} were removed, then: {cause}") }
    }

    /// Returns the error of a removal of all keys of `engine` that failed after `keys` of them had been removed.
    #[allow(dead_code, reason = "for engines that a build may lack")]
    pub(super) fn after_removing(self, engine: &'static str, keys: usize) -> Self {
        if keys == 0 { self } else { self.after_removal(engine, &format!("{keys} keys")) }
    }

    /// Returns an error with the message of the engine's library, as one line.
    pub fn library(engine: &'static str, error: impl ToString) -> Self {
        let message = error.to_string().replace('\n', " ");
        Self::Library { engine, message }
    }

    /// Returns the error of an engine that must be reopened to change its fsync policy.
    pub fn fixed_policy(engine: &'static str, fsync: Fsync) -> Self {
        let what = format!("takes its durability policy when it is opened: restart with --fsync {fsync}");
        Self::Unsupported { engine, what }
    }

    /// Returns the error of an engine that cannot map a file of `bytes` bytes (`--map-size`) into memory.
    #[allow(dead_code, reason = "for engines that a build may lack")]
    pub(super) fn no_address_space(engine: &'static str, bytes: u64) -> Self {
        let what = format!("cannot reserve {bytes} bytes of address space; lower --map-size");
        Self::Unsupported { engine, what }
    }

    /// Returns the error of a compaction of an engine that is in memory.
    pub fn no_files(engine: &'static str) -> Self {
        Self::Unsupported { engine, what: "in memory has no files to compact".into() }
    }

    /// Returns a function for `map_err` that adds the failed action and the path to an I/O error:
    /// `map_err(Error::io("open", path))`.
    pub fn io(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { action, path, source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_of_an_error_is_printable_and_short_and_has_its_database() {
        let of_2 = [&key_value_headers::key_head(2), &b"k"[..]].concat();
        for (key, name) in [
            (&b"user:1"[..], r#"the key "user:1""#.to_owned()),
            (b"a\r\n\xff\"", r#"the key "a\r\n\xff\"""#.into()),
            (&[b'x'; 100], format!(r#"the key "{}"... of 100 bytes"#, "x".repeat(64))),
            (&of_2, r#"the key "k" of database 2"#.into()),
        ] {
            assert_eq!(KeyName(key).to_string(), name);
        }
    }
}

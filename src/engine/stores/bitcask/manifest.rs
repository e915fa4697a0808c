//! The manifest of `bitcask`: a file that lists the segments, so that the loss of any of them is noticed.
//!
//! A change replaces the whole file: the new one is written under another name, synced and renamed, and the directory
//! is synced. The order of changes makes every crash harmless:
//!
//! - A new segment is created and synced, then listed, then written to. An unlisted segment behind the newest listed
//!   one is therefore empty, and the next start removes it. (If the list could not be written, the segment is written
//!   to all the same: the next start accepts it behind the newest listed one, and lists it.)
//! - A merged segment is first taken from the list, then removed. An unlisted segment before the newest listed one is
//!   therefore a leftover, and the next start removes it.

use super::{description::NAME, lock::Lock};
use crate::engine::{Error, Result, files};
use std::{
    fs::{self, File},
    io::{self, Write},
    ops::RangeInclusive,
    path::Path,
};

/// File name of the manifest, the list of the segments.
pub(super) const MANIFEST: &str = "bitcask.segments";

/// File name of the manifest while it is being written, before it is renamed to [`MANIFEST`].
pub(super) const FRESH: &str = "bitcask.segments-new";

/// First line of the manifest, up to the number of the format.
const TITLE: &str = "kvbench bitcask segments ";

/// Rest of the first line of the manifest: format number and line end.
const FORMAT: &str = "1\n";

/// Maximum length of the manifest that the first start of a new store writes (it lists one segment), in bytes.
pub(super) const FIRST_LEN: u64 = 64;

/// List of the numbers of all segments of a `bitcask` store, as ranges in ascending order.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Manifest(Vec<RangeInclusive<u32>>);

impl Manifest {
    /// Returns a manifest of the segment numbers `ids`, which must be in ascending order.
    pub(super) fn of(ids: impl IntoIterator<Item = u32>) -> Self {
        let mut ranges: Vec<RangeInclusive<u32>> = Vec::new();
        for id in ids {
            match ranges.last_mut() {
                Some(last) if last.end().checked_add(1) == Some(id) => *last = *last.start()..=id,
                _ => ranges.push(id..=id),
            }
        }
        Self(ranges)
    }

    /// Returns the numbers of the segments that the manifest lists, in ascending order.
    pub(super) fn ids(&self) -> impl Iterator<Item = u32> {
        self.0.iter().cloned().flatten()
    }

    /// Returns `true` if the manifest lists segment `id`.
    pub(super) fn lists(&self, id: u32) -> bool {
        self.0.iter().any(|range| range.contains(&id))
    }

    /// Returns the highest segment number that the manifest lists, or 0 if it lists none.
    pub(super) fn newest(&self) -> u32 {
        self.0.last().map_or(0, |range| *range.end())
    }

    /// Reads the manifest in `directory`. Returns `None` if the file does not exist.
    ///
    /// # Errors
    ///
    /// Fails if the manifest cannot be read, is corrupt, or is of a newer version.
    pub(super) fn read(directory: &Path) -> Result<Option<Self>> {
        let path = directory.join(MANIFEST);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::io("read", path)(error)),
        };
        let text = String::from_utf8_lossy(&bytes);
        let error = |message| Err(Error::Library { engine: NAME, message });
        if text.strip_prefix(TITLE).is_some_and(|rest| !rest.starts_with(FORMAT) && has_sum(&text)) {
            return error(format!(
                "{} was written by a newer version of kvbench; use that one",
                path.display()
            ));
        }
        match parse(&text).filter(|manifest| manifest.text() == text) {
            Some(manifest) => Ok(Some(manifest)),
            None => error(format!(
                "{} is damaged; restore it from a backup, or remove it and {HOW_TO_LIST}",
                path.display()
            )),
        }
    }

    /// Replaces the manifest file in the directory that `lock` has locked by this one, durably.
    ///
    /// # Errors
    ///
    /// Fails if the directory was moved or the operating system refuses; the directory then has either the old or the
    /// new manifest.
    pub(super) fn write(&self, lock: &Lock) -> Result<()> {
        let directory = lock.directory();
        let (path, fresh) = (directory.join(MANIFEST), directory.join(FRESH));
        lock.check_path()?;
        let mut file = File::create(&fresh).map_err(Error::io("create", &fresh))?;
        let written = file.write_all(self.text().as_bytes()).and_then(|()| file.sync_all());
        if let Err(error) = written {
            let _best_effort = files::remove_leftover(&fresh);
            return Err(Error::io("write", fresh)(error));
        }
        // The directory may have been moved during the sync.
        lock.check_path()?;
        fs::rename(&fresh, &path).map_err(Error::io("rename", &fresh))?;
        files::sync_path(directory)
    }

    /// Returns the text of the manifest file: a title, a line for each range of segment numbers, and a line with the
    /// CRC-32 of all lines before it.
    fn text(&self) -> String {
        let mut text = [TITLE, FORMAT].concat();
        for range in &self.0 {
            match (range.start(), range.end()) {
                (start, end) if start == end => text.push_str(&format!("{start}\n")),
                (start, end) => text.push_str(&format!("{start}-{end}\n")),
            }
        }
        let sum = crc32fast::hash(text.as_bytes());
        text + &format!("{SUM}{sum:08x}\n")
    }
}

/// Prefix of the last line of the manifest, which holds the checksum.
const SUM: &str = "sum ";

/// Advice for an error message: how to make the next start list the segments that it finds.
const HOW_TO_LIST: &str =
    "put an empty bitcask.lock beside the segments, if you are sure that none of them is missing";

/// Returns the error that the manifest in `directory` is missing.
pub(super) fn missing(directory: &Path) -> Error {
    let path = directory.join(MANIFEST);
    let message = format!(
        "{}, the list of the segments, is not there; restore it from a backup, or {HOW_TO_LIST}",
        path.display()
    );
    Error::Library { engine: NAME, message }
}

/// Returns `true` if the last line of `text` holds the CRC-32 of the lines before it.
fn has_sum(text: &str) -> bool {
    let Some((rest, sum)) = text.rsplit_once(SUM) else { return false };
    sum == format!("{:08x}\n", crc32fast::hash(rest.as_bytes()))
}

/// Parses the ranges of segment numbers in the text of a manifest file; does not compare the checksum. Returns `None`
/// if the title is wrong, if a line is no range, or if the ranges are not ascending or there are none.
fn parse(text: &str) -> Option<Manifest> {
    let mut ranges: Vec<RangeInclusive<u32>> = Vec::new();
    for line in text.strip_prefix(TITLE)?.strip_prefix(FORMAT)?.lines() {
        if line.starts_with(SUM) {
            break;
        }
        let (start, end) = line.split_once('-').unwrap_or((line, line));
        let (start, end) = (start.parse().ok()?, end.parse().ok()?);
        if start > end || ranges.last().is_some_and(|last| *last.end() >= start) {
            return None;
        }
        ranges.push(start..=end);
    }
    (!ranges.is_empty()).then_some(Manifest(ranges))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manifest_is_read_back_and_any_change_is_noticed() {
        for (ids, lines) in [
            (vec![1], "1\n"),
            (vec![1, 2, 3], "1-3\n"),
            (vec![2, 4, 5, 9, u32::MAX - 1, u32::MAX], "2\n4-5\n9\n4294967294-4294967295\n"),
        ] {
            let directory = tempfile::tempdir().unwrap();
            let manifest = Manifest::of(ids.clone());
            manifest.write(&Lock::take(directory.path()).unwrap()).unwrap();
            let path = directory.path().join(MANIFEST);
            let text = fs::read_to_string(&path).unwrap();
            assert!(text.starts_with(&format!("{TITLE}{FORMAT}{lines}{SUM}")), "{text}");
            let found = Manifest::read(directory.path()).unwrap().unwrap();
            assert!(found.ids().eq(ids.iter().copied()) && ids.iter().all(|id| found.lists(*id)));
            assert_eq!((found.newest(), found.lists(7)), (*ids.last().unwrap(), false));
            for (at, bit) in (0..text.len()).flat_map(|at| (0..8).map(move |bit| (at, bit))) {
                let mut changed = text.clone().into_bytes();
                changed[at] ^= 1 << bit;
                fs::write(&path, changed).unwrap();
                Manifest::read(directory.path()).unwrap_err();
            }
            for len in 0..text.len() {
                fs::write(&path, &text[..len]).unwrap();
                Manifest::read(directory.path()).unwrap_err();
            }
        }
    }

    #[test]
    fn manifest_of_a_newer_version_is_refused_as_such() {
        let directory = tempfile::tempdir().unwrap();
        let text = format!("{TITLE}2\nanything\n");
        let sum = crc32fast::hash(text.as_bytes());
        fs::write(directory.path().join(MANIFEST), format!("{text}{SUM}{sum:08x}\n")).unwrap();
        let text = Manifest::read(directory.path()).unwrap_err().to_string();
        assert!(text.contains("newer version"), "{text}");
        assert!(Manifest::read(&directory.path().join("absent")).unwrap().is_none());
    }
}

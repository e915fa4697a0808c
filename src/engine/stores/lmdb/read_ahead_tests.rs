//! Tests of `lmdb`'s read-ahead setting, as the kernel reports it for the memory map.

#![cfg(target_os = "linux")]

use super::*;
use crate::engine::{Location, ReadAhead, mmap_read_ahead::tests::is_random, registry::when_unlocked};

fn open(path: &Path, read_ahead: ReadAhead) -> Lmdb {
    let options = OpenOptions {
        read_ahead,
        map_size: 1 << 30,
        ..OpenOptions::new(Location::Path(path.into()), Fsync::No)
    };
    when_unlocked(|| Lmdb::open_here(path, &options)).unwrap()
}

#[test]
fn read_ahead_is_as_chosen() {
    for (choice, random) in [(ReadAhead::Auto, false), (ReadAhead::On, false), (ReadAhead::Off, true)] {
        let dir = tempfile::tempdir().unwrap();
        // Creates the file, which does not exist yet.
        drop(open(dir.path(), choice));
        let _lmdb = open(dir.path(), choice);
        assert_eq!(is_random(&file::data(dir.path())), random, "{choice:?}");
    }
}

#[test]
fn read_ahead_ends_when_the_data_outgrow_memory() {
    let dir = tempfile::tempdir().unwrap();
    let mut lmdb = open(dir.path(), ReadAhead::On);
    lmdb.growth.set_limit(1 << 20);
    let value = vec![1; 100_000];
    for key in 0..200u32 {
        let key = key.to_be_bytes();
        let mut batch = Batch::default();
        batch.put(&key, &value);
        lmdb.write(&batch, false).unwrap();
    }
    assert!(is_random(&file::data(dir.path())));
}

//! Tests of limits on keys, and of the size of files.

use super::engine_case::{Open, for_each, pairs};
use crate::engine::{Error, Kind};

/// Maximum length in bytes of a key in these tests, even if the engine allows longer keys.
const MAX_KEY: usize = 60_000;

/// Returns a key of `len` bytes that differs from those of another `salt`.
fn key(len: usize, salt: u8) -> Vec<u8> {
    (0..len).map(|at| if at == 0 { salt } else { at as u8 }).collect()
}

/// Tests that keys of the engine's minimum and maximum length are stored and deleted. The long keys have at most
/// `MAX_KEY` bytes, even if the engine allows longer ones.
pub fn keys_of_the_shortest_and_the_longest_length_are_kept(kind: &'static Kind) {
    for_each(kind, |cell| {
        let mut open = cell.open();
        let (min, max) = open.engine().key_limits();
        let mut expected = vec![(key(min, 0), b"shortest".to_vec())];
        // Enough keys for a tree of several levels.
        expected.extend((1..=40).map(|salt| (key(max.min(MAX_KEY), salt), vec![salt; 50])));
        open.write(|batch| expected.iter().for_each(|(key, value)| batch.put(key, value)));
        let check = |open: &Open| {
            for (key, value) in &expected {
                assert_eq!(open.get(key).as_ref(), Some(value), "key of {} bytes", key.len());
            }
            assert_eq!(open.all(), expected);
            assert_eq!(open.count(), 41);
        };
        check(&open);
        if !cell.memory {
            open.reopen(true);
            check(&open);
        }
        open.write(|batch| expected.iter().for_each(|(key, _)| batch.delete(key)));
        assert_eq!(open.count(), 0);
    });
}

/// Tests that a key outside the limits is absent when read, and that a batch with one fails as a whole.
pub fn a_key_outside_the_limits_is_absent_and_fails_the_whole_batch(kind: &'static Kind) {
    for_each(kind, |cell| {
        let open = cell.open();
        open.put(b"old", b"1");
        let (min, max) = open.engine().key_limits();
        // The pages of a long key are never touched, so the key costs no memory.
        let outside = [min.checked_sub(1), max.checked_add(1)].into_iter().flatten();
        for key in outside.map(|len| vec![0; len]) {
            assert_eq!(open.read(&[b"old", &key, b"old"])[1], None);
            assert_eq!(open.get(&key), None);
            let put = open.try_write(|batch| {
                batch.put(b"new", b"1");
                batch.clear();
                batch.put(&key, b"1");
            });
            let delete = open.try_write(|batch| {
                batch.delete(b"old");
                batch.delete(&key);
            });
            // A key is also invalid if a later operation of the batch makes the write ineffective.
            let cleared = open.try_write(|batch| {
                batch.put(&key, b"1");
                batch.clear();
            });
            for result in [put, delete, cleared] {
                let error = result.unwrap_err();
                assert!(error.is_rolled_back(), "{error:?}");
                let expected = (key.len(), min, max);
                assert!(
                    matches!(error, Error::KeyLength { len, min, max, .. } if (len, min, max) == expected),
                    "{error:?}"
                );
            }
            assert_eq!(open.all(), pairs(&[(b"old", b"1")]));
        }
    });
}

/// Tests that data use disk space if the engine has files, and none in memory.
pub fn data_take_room_on_disk_and_none_in_memory(kind: &'static Kind) {
    for_each(kind, |cell| {
        let open = cell.open();
        let value = vec![7; 1 << 20];
        open.put(b"key", &value);
        open.engine().sync().unwrap();
        let size = open.engine().disk_size().unwrap();
        if cell.memory {
            assert_eq!(size, 0);
            assert!(open.engine().is_memory_only());
        } else {
            assert!(size >= 1 << 20, "{size} bytes");
            assert!(!open.engine().is_memory_only());
        }
    });
}

//! Key lengths, full maps.

use crate::cells::{Open, for_each, for_each_on_disk, pairs};
use kvbench::engine::{Error, Fsync};

/// Longest key that is worth putting into a test.
const LONG: usize = 60_000;

/// `len` bytes that differ from those of another `salt`.
fn key(len: usize, salt: u8) -> Vec<u8> {
    (0..len).map(|at| if at == 0 { salt } else { at as u8 }).collect()
}

#[test]
fn keys_of_the_shortest_and_the_longest_length_are_kept() {
    for_each(|cell| {
        let mut open = cell.open();
        let (min, max) = open.engine().key_limits();
        let mut expected = vec![(key(min, 0), b"shortest".to_vec())];
        // Enough of them to make a tree of several levels.
        expected.extend((1..=40).map(|salt| (key(max.min(LONG), salt), vec![salt; 50])));
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

#[test]
fn a_key_outside_the_limits_is_absent_and_fails_the_whole_batch() {
    for_each(|cell| {
        let open = cell.open();
        open.put(b"old", b"1");
        let (min, max) = open.engine().key_limits();
        // The pages of a long one are never touched, so it costs no memory.
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
            // One that a later write of the batch makes useless is still wrong.
            let cleared = open.try_write(|batch| {
                batch.put(&key, b"1");
                batch.clear();
            });
            for result in [put, delete, cleared] {
                let error = result.unwrap_err();
                assert!(error.is_undone(), "{error:?}");
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

#[test]
fn a_full_map_fails_the_batch_and_nothing_else() {
    for_each_on_disk(|cell| {
        if cell.kind.info.name != "lmdb" {
            return;
        }
        let scratch = crate::cells::scratch();
        let mut options = crate::cells::options(scratch.path().join("data"), cell.fsync);
        options.map_size = (1 << 20) + 1;
        let mut open = cell.open_with(options, scratch);
        let value = vec![1; 3000];
        let fill = |open: &Open, from: u32, to: u32| {
            let keys: Vec<_> = (from..to).map(u32::to_be_bytes).collect();
            open.try_write(|batch| keys.iter().for_each(|key| batch.put(key, &value)))
        };
        fill(&open, 0, 100).unwrap();
        let error = fill(&open, 100, 1000).unwrap_err();
        assert!(matches!(error, Error::Full { .. }), "{error:?}");
        assert!(error.is_undone() && error.to_string().contains("--map-size"), "{error}");
        assert_eq!(open.count(), 100);
        // It goes on: with what there is, with a small write, with room made.
        assert_eq!(open.get(&99_u32.to_be_bytes()).as_ref(), Some(&value));
        fill(&open, 100, 101).unwrap();
        open.write(|batch| batch.clear());
        fill(&open, 0, 100).unwrap();
        // And with a larger map.
        open.options.map_size = 16 << 20;
        open.reopen(true);
        fill(&open, 100, 1000).unwrap();
        assert_eq!(open.count(), 1000);
        // The data may be larger than the map that is asked for.
        open.options.map_size = 1 << 20;
        open.reopen(true);
        assert_eq!(open.count(), 1000);
    });
}

#[test]
fn any_map_size_is_taken_or_refused_in_one_line() {
    for_each_on_disk(|cell| {
        for map_size in [0, 1, 65_537, 1 << 40, 1 << 60, u64::MAX] {
            let scratch = crate::cells::scratch();
            let mut options = crate::cells::options(scratch.path().join("data"), cell.fsync);
            options.map_size = map_size;
            match cell.kind.open(&options) {
                Ok(engine) => assert_eq!(engine.count().unwrap(), 0),
                Err(error) => assert!(error.to_string().contains("--map-size"), "{map_size}: {error}"),
            }
        }
    });
}

#[test]
fn data_take_room_on_disk_and_none_in_memory() {
    for_each(|cell| {
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

#[test]
fn compression_makes_the_files_smaller() {
    let sizes = |compression, kind| {
        let scratch = crate::cells::scratch();
        let mut options = crate::cells::options(scratch.path().join("data"), Fsync::No);
        options.compression = compression;
        let cell = crate::cells::Cell { kind, fsync: Fsync::No, memory: false };
        let mut open = cell.open_with(options, scratch);
        let value = vec![b'x'; 1000];
        for part in 0..8_u32 {
            let keys: Vec<_> = (0..1000).map(|i| (part * 1000 + i).to_be_bytes()).collect();
            open.write(|batch| keys.iter().for_each(|key| batch.put(key, &value)));
        }
        // An LSM engine compresses what it moves out of the log, at the latest when it settles or reopens.
        open.engine().settle().unwrap();
        open.reopen(true);
        open.reopen(true);
        assert_eq!(open.count(), 8000);
        open.engine().disk_size().unwrap()
    };
    for kind in kvbench::engine::KINDS {
        let [plain, others @ ..] = kind.info.compression else { panic!("{} lists none", kind.info.name) };
        for other in others {
            let (plain, small) = (sizes(*plain, kind), sizes(*other, kind));
            // More than half of the values; a log may keep its own length.
            assert!(small + 4_000_000 < plain, "{} {other}: {small} bytes, {plain} without", kind.info.name);
        }
    }
}

//! Tests of reads and writes, each of one property.

use super::engine_case::{for_each, for_each_on_disk, pairs};
use crate::engine::{Fsync, Kind};
use std::ops::ControlFlow;

/// Tests that a key is absent, and then put, overwritten and deleted.
pub fn a_key_is_absent_then_put_then_overwritten_then_deleted(kind: &'static Kind) {
    for_each(kind, |cell| {
        let open = cell.open();
        assert_eq!(open.get(b"key"), None);
        assert_eq!(open.count(), 0);
        open.put(b"key", b"one");
        assert_eq!(open.get(b"key").unwrap(), b"one");
        open.put(b"key", b"a longer value");
        assert_eq!(open.get(b"key").unwrap(), b"a longer value");
        assert_eq!(open.count(), 1);
        open.write(|batch| batch.delete(b"key"));
        assert_eq!(open.get(b"key"), None);
        assert_eq!(open.count(), 0);
        // Deletes an absent key.
        open.write(|batch| batch.delete(b"key"));
        assert_eq!(open.count(), 0);
    });
}

/// Tests that an empty value differs from an absent one.
pub fn an_empty_value_is_not_an_absent_one(kind: &'static Kind) {
    for_each(kind, |cell| {
        let open = cell.open();
        open.put(b"key", b"");
        assert_eq!(open.get(b"key"), Some(vec![]));
        assert_eq!(open.all(), pairs(&[(b"key", b"")]));
        assert_eq!(open.count(), 1);
    });
}

/// Tests that keys and values may hold any bytes.
pub fn keys_and_values_are_bytes(kind: &'static Kind) {
    for_each(kind, |cell| {
        let open = cell.open();
        let keys: Vec<Vec<u8>> = (0..=255).map(|byte| vec![byte]).collect();
        let long: Vec<Vec<u8>> =
            vec![vec![0; 2], vec![0; 300], vec![0xff; 2], vec![0xff; 300], vec![0xff, 0]];
        let mut keys: Vec<_> = keys.into_iter().chain(long).collect();
        open.write(|batch| keys.iter().for_each(|key| batch.put(key, key)));
        assert_eq!(open.count(), 261);
        for key in &keys {
            assert_eq!(open.get(key).as_ref(), Some(key));
        }
        keys.sort();
        let found: Vec<_> = open.all().into_iter().map(|(key, _)| key).collect();
        assert_eq!(found, keys);
    });
}

/// Tests that the operations of a batch are applied in order.
pub fn a_batch_is_applied_in_order(kind: &'static Kind) {
    for_each(kind, |cell| {
        let open = cell.open();
        open.put(b"old", b"0");
        open.write(|batch| {
            batch.put(b"a", b"1");
            batch.delete(b"a");
            batch.put(b"a", b"2");
            batch.put(b"b", b"1");
            batch.put(b"b", b"2");
            batch.delete(b"b");
            batch.delete(b"old");
        });
        assert_eq!(open.all(), pairs(&[(b"a", b"2")]));
        assert_eq!(open.read(&[b"a", b"b", b"old"]), [Some(b"2".to_vec()), None, None]);
        assert_eq!(open.count(), 1);
    });
}

/// Tests that a clear is an operation of a batch like any other.
pub fn clear_is_one_write_of_a_batch(kind: &'static Kind) {
    for_each(kind, |cell| {
        let open = cell.open();
        // Clears an empty store, as the only operation.
        open.write(|batch| batch.clear());
        assert_eq!(open.count(), 0);
        let highest = [0xff; 400];
        open.write(|batch| {
            batch.put(b"kept?", b"0");
            batch.put(&[0], b"0");
            batch.put(&highest, b"0");
        });
        open.write(|batch| {
            batch.put(b"a", b"before");
            batch.put(b"b", b"before");
            batch.clear();
            batch.put(b"b", b"between");
            batch.clear();
            batch.put(b"c", b"after");
            batch.put(b"d", b"after");
            batch.delete(b"d");
        });
        assert_eq!(open.all(), pairs(&[(b"c", b"after")]));
        assert_eq!(open.count(), 1);
        assert_eq!(open.read(&[b"a", b"b", b"kept?", &highest, b"c"])[..4], [None, None, None, None]);
        open.write(|batch| batch.clear());
        assert_eq!(open.all(), []);
        open.put(b"kept?", b"1");
        assert_eq!(open.all(), pairs(&[(b"kept?", b"1")]));
    });
}

/// Tests that an empty batch changes nothing.
pub fn an_empty_batch_changes_nothing(kind: &'static Kind) {
    for_each(kind, |cell| {
        let open = cell.open();
        open.put(b"key", b"value");
        open.write(|_| {});
        assert_eq!(open.all(), pairs(&[(b"key", b"value")]));
    });
}

/// Tests that a read visits every requested key in order.
pub fn a_read_answers_every_key_in_order(kind: &'static Kind) {
    for_each(kind, |cell| {
        let open = cell.open();
        open.write(|batch| {
            batch.put(b"b", b"2");
            batch.put(b"a", b"1");
        });
        let (one, two) = (Some(b"1".to_vec()), Some(b"2".to_vec()));
        let expected = [two.clone(), None, one.clone(), two, one];
        assert_eq!(open.read(&[b"b", b"no", b"a", b"b", b"a"]), expected);
        assert_eq!(open.read(&[]), []);
    });
}

/// Tests that a read stops when the visitor breaks.
pub fn a_read_stops_when_told(kind: &'static Kind) {
    for_each(kind, |cell| {
        let open = cell.open();
        open.put(b"a", b"1");
        let keys: [&[u8]; 4] = [b"a", b"no", b"a", b"a"];
        for last in 0..keys.len() {
            let mut seen = Vec::new();
            let mut visit = |index: usize, _: Option<&[u8]>| {
                seen.push(index);
                if index == last { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            };
            open.engine().read(&keys, &mut visit).unwrap();
            assert_eq!(seen, (0..=last).collect::<Vec<_>>());
        }
    });
}

/// Tests that values of all sizes are stored.
pub fn values_of_all_sizes_are_kept(kind: &'static Kind) {
    for_each(kind, |cell| {
        let mut open = cell.open();
        let sizes = [0, 1, 4096, 200 << 10, 5 << 20];
        let value =
            |size: usize, salt: usize| -> Vec<u8> { (0..size).map(|at| (at * 31 + salt) as u8).collect() };
        let key = |size: usize| format!("{size}").into_bytes();
        for salt in [1, 2] {
            for size in sizes {
                open.put(&key(size), &value(size, salt));
            }
        }
        let check = |open: &super::engine_case::Open| {
            for size in sizes {
                assert!(open.get(&key(size)).unwrap() == value(size, 2), "value of {size} bytes");
            }
            assert_eq!(open.count(), sizes.len() as u64);
        };
        check(&open);
        if !cell.memory {
            open.reopen(true);
            check(&open);
        }
        open.write(|batch| batch.delete(b"204800"));
        assert_eq!(open.get(b"204800"), None);
    });
}

/// Tests that a batch of 10,000 writes is one commit.
pub fn a_batch_of_10_000_writes_is_one_commit(kind: &'static Kind) {
    for_each(kind, |cell| {
        let mut open = cell.open();
        let numbers: Vec<Vec<u8>> = (0..10_000_u32).map(|i| i.to_be_bytes().to_vec()).collect();
        open.write(|batch| numbers.iter().for_each(|number| batch.put(number, number)));
        assert_eq!(open.count(), 10_000);
        if !cell.memory {
            open.reopen(true);
        }
        assert!(open.all().iter().map(|(key, _)| key).eq(&numbers));
        open.write(|batch| numbers.iter().skip(1).for_each(|number| batch.delete(number)));
        assert_eq!(open.all().len(), 1);
    });
}

/// Tests that all pairs exist after a close and a reopen.
pub fn everything_is_there_after_a_close_and_reopen(kind: &'static Kind) {
    for_each_on_disk(kind, |cell| {
        let mut open = cell.open();
        for i in 0..20_u8 {
            open.put(&[i], &[i; 10]);
        }
        open.write(|batch| batch.delete(&[7]));
        open.reopen(true);
        assert_eq!(open.count(), 19);
        assert_eq!(open.read(&[&[6], &[7]]), [Some(vec![6; 10]), None]);
        open.write(|batch| batch.clear());
        open.put(b"new", b"1");
        open.reopen(true);
        assert_eq!(open.all(), pairs(&[(b"new", b"1")]));
        // Reopens without a write in between.
        open.reopen(true);
        assert_eq!(open.all(), pairs(&[(b"new", b"1")]));
    });
}

/// Tests that under `always` all pairs exist after a drop without a close.
pub fn under_always_everything_is_there_after_a_drop_without_close(kind: &'static Kind) {
    for_each_on_disk(kind, |cell| {
        if cell.fsync != Fsync::Always {
            return;
        }
        let mut open = cell.open();
        open.put(b"a", b"1");
        open.put(b"b", &[7; 300 << 10]);
        open.reopen(false);
        assert_eq!(open.read(&[b"a", b"b"]), [Some(b"1".to_vec()), Some(vec![7; 300 << 10])]);
    });
}

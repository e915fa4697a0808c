//! Tests of the files of an open engine, which are what a kill leaves. A copy of the files, opened, stands for the
//! restart. (Power cuts need a file system that can drop unsynced data.)

use super::engine_case::{Open, for_each_on_disk, pairs};
use crate::engine::{Batch, Kind};

/// Returns two values for write number `number`: a small one, and one that is large enough for a file of its own in
/// engines that do that.
fn values(number: u8) -> [Vec<u8>; 2] {
    [vec![number; 100], vec![number; 200 << 10]]
}

fn write(open: &Open, number: u8) {
    let [small, large] = values(number);
    let name = [number];
    open.write(|batch| {
        batch.put(b"small", &small);
        batch.put(b"large", &large);
        batch.put(&name, b"");
    });
}

/// Returns the number of the last `write` that the engine holds, after a check that the write is complete.
fn read(open: &Open) -> u8 {
    let number = open.get(b"small").unwrap()[0];
    let [small, large] = values(number);
    assert!(open.read(&[b"small", b"large"]) == [Some(small), Some(large)], "{} after {number}", open.cell);
    assert_eq!(open.count(), u64::from(number) + 3);
    number
}

/// Tests that a kill loses no acknowledged write if the engine's `Info` says so.
pub fn what_info_says_survives_a_kill_survives_it(kind: &'static Kind) {
    for_each_on_disk(kind, |cell| {
        if !cell.survives_a_kill() {
            return;
        }
        let open = cell.open();
        for number in 0..8 {
            write(&open, number);
            assert_eq!(read(&open.after_a_kill()), number);
        }
    });
}

/// Tests that a kill loses nothing that was synced.
pub fn what_was_synced_survives_a_kill(kind: &'static Kind) {
    for_each_on_disk(kind, |cell| {
        let open = cell.open();
        for number in (0..8).step_by(2) {
            write(&open, number);
            open.engine().sync().unwrap();
            assert_eq!(read(&open.after_a_kill()), number);
            // This write may be lost, but only as a whole.
            write(&open, number + 1);
            assert!(read(&open.after_a_kill()) >= number);
        }
    });
}

/// Tests that a synced write makes earlier unsynced writes durable.
pub fn a_synced_write_brings_the_unsynced_ones_before_it(kind: &'static Kind) {
    for_each_on_disk(kind, |cell| {
        let open = cell.open();
        let mut batch = Batch::default();
        batch.put(b"first", b"1");
        open.engine().write(&batch, false).unwrap();
        let mut batch = Batch::default();
        batch.put(b"second", b"2");
        open.engine().write(&batch, true).unwrap();
        let copy = open.after_a_kill();
        assert_eq!(copy.read(&[b"first", b"second"]), [Some(b"1".to_vec()), Some(b"2".to_vec())]);
    });
}

/// Tests that a synced clear is still in effect after a kill.
pub fn a_cleared_store_stays_clear_after_a_kill(kind: &'static Kind) {
    for_each_on_disk(kind, |cell| {
        let open = cell.open();
        write(&open, 0);
        open.engine().sync().unwrap();
        open.write(|batch| {
            batch.clear();
            batch.put(b"after", b"1");
        });
        open.engine().sync().unwrap();
        let copy = open.after_a_kill();
        assert_eq!(copy.all(), pairs(&[(b"after", b"1")]));
    });
}

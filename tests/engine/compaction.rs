//! Files made as small as the engine can.

use crate::cells::{Open, for_each, for_each_on_disk};
use kvbench::engine::{Error, Result};

/// Keys of which every tenth survives, after two values each.
const KEYS: u32 = 3000;

fn fill(open: &Open) {
    let keys: Vec<[u8; 4]> = (0..KEYS).map(u32::to_be_bytes).collect();
    for round in 0..2 {
        let value = vec![round; 400];
        for keys in keys.chunks(500) {
            open.write(|batch| {
                keys.iter().for_each(|key| batch.put(key, &value[usize::from(key[3]) % 100..]));
            });
        }
    }
    open.write(|batch| {
        keys.iter().enumerate().filter(|(n, _)| n % 10 != 0).for_each(|(_, key)| batch.delete(key));
    });
    // One that has pages of its own.
    open.put(b"large", &[7; 100_000]);
}

/// Compacts; the outcome has to be what the engine is known for.
fn compact(open: &mut Open) -> bool {
    let outcome: Result<()> = open.take().compact();
    let cell = open.cell;
    match outcome {
        Ok(()) => assert!(!cell.memory && cell.kind.info.capabilities.compacts, "{cell} compacts"),
        Err(error @ Error::Unsupported { .. }) => {
            let text = error.to_string();
            assert!(text.starts_with(cell.kind.info.name) && text.contains("compact"), "{text}");
            assert!(cell.memory || !cell.kind.info.capabilities.compacts, "{text}");
            return false;
        }
        Err(error) => panic!("{cell}: {error}"),
    }
    true
}

#[test]
fn compaction_keeps_the_data_and_shrinks_the_files() {
    for_each(|cell| {
        let mut open = cell.open();
        fill(&open);
        // redb's files hold nothing of a commit before it is synced.
        open.engine().sync().unwrap();
        let (before, size) = (open.all(), open.engine().disk_size().unwrap());
        assert_eq!(before.len(), KEYS as usize / 10 + 1);
        let compacted = compact(&mut open);
        if cell.memory {
            return;
        }
        // Closed, and not locked, also by an engine that cannot.
        open.open_again();
        assert_eq!(open.all(), before, "{cell}");
        // fjall's journal keeps up to 64 MB of what is in tables already.
        if compacted && cell.kind.info.name != "fjall" {
            let after = open.engine().disk_size().unwrap();
            assert!(after < size, "{cell}: {size} bytes before, {after} after");
        }
        open.put(b"later", b"value");
        open.reopen(true);
        assert_eq!(open.count(), before.len() as u64 + 1, "{cell}");
    });
}

#[test]
fn an_empty_store_and_one_that_is_compacted_already_are_compacted() {
    for_each_on_disk(|cell| {
        let mut open = cell.open();
        for keys in [0, 0, 1, 1] {
            if keys == 1 {
                open.put(b"key", b"value");
            }
            compact(&mut open);
            open.open_again();
            assert_eq!(open.count(), keys, "{cell}");
        }
    });
}

/// A crash in the middle of a compaction leaves a copy that is torn, beside the data.
#[test]
#[cfg(feature = "lmdb")]
fn a_torn_copy_is_removed() {
    use crate::cells::EngineCase;
    use kvbench::engine::{Fsync, Kind};
    let cell = EngineCase { kind: Kind::find("lmdb").unwrap(), fsync: Fsync::Always, memory: false };
    let mut open = cell.open();
    open.put(b"key", b"value");
    open.shut(true);
    let copy = open.path().join("data.mdb.compact");
    std::fs::write(&copy, [0xff; 10_000]).unwrap();
    open.open_again();
    assert_eq!(open.get(b"key").as_deref(), Some(&b"value"[..]));
    assert!(!copy.exists());
}

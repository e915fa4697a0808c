//! Full maps, compression.

use crate::cells::{Open, for_each_on_disk};
use kvbench::engine::{Error, Fsync};

#[test]
fn a_full_map_fails_the_batch_and_nothing_else() {
    for_each_on_disk(|cell| {
        if !cell.kind.info.capabilities.map_size {
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
        assert!(error.is_rolled_back() && error.to_string().contains("--map-size"), "{error}");
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
fn compression_makes_the_files_smaller() {
    let sizes = |compression, kind| {
        let scratch = crate::cells::scratch();
        let mut options = crate::cells::options(scratch.path().join("data"), Fsync::No);
        options.compression = compression;
        let cell = crate::cells::EngineCase { kind, fsync: Fsync::No, memory: false };
        let mut open = cell.open_with(options, scratch);
        let value = vec![b'x'; 1000];
        for part in 0..8_u32 {
            let keys: Vec<_> = (0..1000).map(|i| (part * 1000 + i).to_be_bytes()).collect();
            open.write(|batch| keys.iter().for_each(|key| batch.put(key, &value)));
        }
        // An LSM engine compresses what it moves out of the log, at the latest when it settles or reopens.
        open.engine().quiesce().unwrap();
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

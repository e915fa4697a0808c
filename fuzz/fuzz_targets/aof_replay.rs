//! Opening any bytes as an append-only file neither panics nor allocates what they merely announce;
//! and what was opened once opens again with the same keys.
#![no_main]

use kvbench::engine::{Compression, Fsync, KeyRange, Kind, Location, OpenOptions, ReadAhead};
use libfuzzer_sys::fuzz_target;
use std::ops::ControlFlow;

fn pairs(path: &std::path::Path) -> Option<Vec<(Vec<u8>, Vec<u8>)>> {
    let options = OpenOptions {
        location: Location::Path(path.into()),
        fsync: Fsync::No,
        cache_size: 1 << 20,
        map_size: 1 << 20,
        read_ahead: ReadAhead::Auto,
        compression: Compression::None,
    };
    let engine = (Kind::find("btree").expect("always there").open)(&options).ok()?;
    let mut pairs = Vec::new();
    engine
        .scan(KeyRange::ALL, &mut |key, value| {
            pairs.push((key.to_vec(), value.to_vec()));
            ControlFlow::Continue(())
        })
        .expect("in memory");
    engine.close().expect("closes");
    Some(pairs)
}

fuzz_target!(|data: &[u8]| {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("fuzz.aof");
    std::fs::write(&path, data).expect("written");
    match pairs(&path) {
        Some(first) => assert_eq!(pairs(&path), Some(first)),
        // What is refused is left as it was.
        None => assert_eq!(std::fs::read(&path).expect("readable"), data),
    }
});

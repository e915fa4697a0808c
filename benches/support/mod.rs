//! What the benches share: criterion's settings, the place of the data, keys and values.
#![allow(dead_code, reason = "each bench uses its part")]
#![allow(clippy::expect_used, clippy::panic, reason = "a benchmark, whose failures shall stop it")]

use criterion::Criterion;
use kvbench::engine::{Engine, Fsync, Kind, Location, OpenOptions};
use std::{
    env,
    path::{Path, PathBuf},
    time::Duration,
};
use tempfile::TempDir;

/// A key, all of one length, in ascending order by index.
pub type Key = [u8; 16];

/// Criterion, set so that all benches together end within ten minutes on two cores. What the
/// command line says goes over it.
pub fn criterion() -> Criterion {
    Criterion::default()
        .without_plots()
        .output_directory(&output_dir())
        .sample_size(20)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(600))
        .nresamples(5_000)
        .configure_from_args()
}

/// Whether this is `cargo bench -- --test`: each case once, nothing timed.
pub fn is_test() -> bool {
    env::args().any(|arg| arg == "--test")
}

/// Where criterion keeps its estimates.
pub fn output_dir() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("criterion")
}

/// A new directory for data: in the target directory, because `/tmp` is often in memory, or on the
/// device to be measured, which `KVBENCH_BENCH_DIR` names.
pub fn data_dir() -> TempDir {
    let parent = env::var_os("KVBENCH_BENCH_DIR").unwrap_or_else(|| env!("CARGO_TARGET_TMPDIR").into());
    tempfile::Builder::new().prefix("bench-").tempdir_in(parent).expect("a directory for the data")
}

/// The options every bench opens engines with: those of the server's defaults, but for LMDB's map,
/// which has to hold less.
pub fn options(location: Location, fsync: Fsync) -> OpenOptions {
    OpenOptions {
        cache_size: 256 << 20,
        map_size: 4 << 30,
        max_files: u64::MAX,
        ..OpenOptions::new(location, fsync)
    }
}

/// Opens `kind` in `dir`.
pub fn open(kind: &Kind, dir: &Path, fsync: Fsync) -> Box<dyn Engine> {
    let options = options(Location::Path(dir.join(kind.info.name)), fsync);
    kind.open(&options).unwrap_or_else(|error| panic!("cannot open {}: {error}", kind.info.name))
}

/// The key with this index.
pub fn key(index: usize) -> Key {
    let mut key = *b"key:000000000000";
    let mut rest = index;
    for digit in key.iter_mut().skip(4).rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    key
}

/// The keys with indices below `count`.
pub fn keys(count: usize) -> Vec<Key> {
    (0..count).map(key).collect()
}

/// Random numbers (splitmix64): a nanosecond each, so that they can be drawn while time runs.
pub struct Rng(pub u64);

impl Rng {
    /// The next number.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    /// The next number, below `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }
}

/// Values that differ from put to put (sled skips a put that changes nothing) and do not compress,
/// at no cost: pieces of one random buffer that stays in the processor's cache.
pub struct Values(Vec<u8>);

impl Values {
    /// Different values there are.
    const PLACES: usize = 64 << 10;
    /// Longest value.
    const LONGEST: usize = 4 << 10;

    /// Fills the buffer.
    pub fn new() -> Self {
        let mut rng = Rng(1);
        Self((0..(Self::PLACES + Self::LONGEST) / 8).flat_map(|_| rng.next().to_ne_bytes()).collect())
    }

    /// The value of `len` bytes that `number` stands for.
    #[inline]
    pub fn get(&self, number: u64, len: usize) -> &[u8] {
        let place = number as usize % Self::PLACES;
        self.0.get(place..place + len).expect("no longer than LONGEST")
    }
}

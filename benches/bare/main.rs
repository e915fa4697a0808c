#![allow(
    missing_docs,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a benchmark, whose failures shall stop it"
)]
//! The price of the trait: engines through `dyn Engine` beside a minimal loop written against the
//! bare crate with the same settings.
//!
//! Both sides run by turns in one process, in bursts of some milliseconds, so that whatever else the
//! machine does hits both; the result is the median of the ratios of neighbours. Criterion would
//! measure one side for seconds, then the other. On Linux all threads stay on one CPU, because where
//! the kernel lets an engine's thread run differs between the two sides: MDBX's crate commits on a
//! thread of its own, and one of two equal loops took 1.6 times as long as the other.

#[path = "../support/mod.rs"]
mod support;

mod load;
mod side;

use kvbench::engine::{KINDS, Kind};
use side::{OpenBare, Settings, Side, Through};
use std::{
    env,
    time::{Duration, Instant},
};
use support::{Key, Rng, Values};

/// Bytes of a value.
const VALUE: usize = 256;

/// Puts or gets in a batch.
const BATCH: usize = 256;

/// Keys that are there: few, so that both sides stay in the cache of one core. What does not fit
/// there measures the neighbours of this machine before it measures the trait.
const KEYS: usize = 1_000;

/// Beyond this the trait, or its adapter, costs something that the crate alone does not.
const LIMIT: f64 = 1.25;

fn find(name: &str) -> &'static Kind {
    KINDS.iter().find(|kind| kind.info.name == name).expect("in the list")
}

fn main() {
    if load::run() {
        return;
    }
    #[cfg(target_os = "linux")]
    stay_on_this_cpu();
    // As in criterion, words are parts of names and narrow what runs.
    let filters: Vec<_> = env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let chosen = |name: &str| filters.is_empty() || filters.iter().any(|filter| name.contains(filter));
    let mut rows = Vec::new();
    for (name, open_bare) in side::all() {
        let cases: Vec<_> = Case::ALL.into_iter().filter(|case| chosen(&case.id(&name))).collect();
        if !cases.is_empty() {
            rows.extend(compare(find(&name), open_bare, &cases));
        }
    }
    print(&rows);
}

/// Keeps this thread, and all that are started later, on the CPU on which it runs now.
#[cfg(target_os = "linux")]
fn stay_on_this_cpu() {
    use nix::{sched, unistd::Pid};
    let mut cpus = sched::CpuSet::new();
    cpus.set(sched::sched_getcpu().expect("the CPU's number")).expect("a CPU");
    sched::sched_setaffinity(Pid::from_raw(0), &cpus).expect("stays on one CPU");
}

#[derive(Clone, Copy)]
enum Case {
    GetHit,
    GetBatch,
    PutBatch,
}

impl Case {
    const ALL: [Self; 3] = [Self::GetHit, Self::GetBatch, Self::PutBatch];

    fn id(self, engine: &str) -> String {
        let name = match self {
            Self::GetHit => "get/hit",
            Self::GetBatch => "get/batch of 256",
            Self::PutBatch => "put/batch of 256",
        };
        format!("bare/{engine}/{name}")
    }

    /// Keys of a burst.
    fn burst(self) -> usize {
        match self {
            Self::GetHit | Self::GetBatch => 8_192,
            Self::PutBatch => 8 * BATCH,
        }
    }

    /// Runs one burst over these keys and returns its time for a key, in nanoseconds.
    fn run(self, side: &mut dyn Side, pairs: &[(&[u8], &[u8])]) -> f64 {
        let keys: Vec<_> = pairs.iter().map(|(key, _)| *key).collect();
        let mut reply = Vec::with_capacity(VALUE);
        let start = Instant::now();
        match self {
            Self::GetHit => assert_eq!(side.get_each(&keys, &mut reply), keys.len() * VALUE, "bytes read"),
            Self::GetBatch => {
                let bytes: usize = keys.chunks(BATCH).map(|batch| side.get_batch(batch)).sum();
                assert_eq!(bytes, keys.len() * VALUE, "bytes read");
            }
            Self::PutBatch => pairs.chunks(BATCH).for_each(|batch| side.put_batch(batch)),
        }
        start.elapsed().as_nanos() as f64 / pairs.len() as f64
    }
}

/// One case of one engine: medians over all rounds.
struct Row {
    id: String,
    bare: f64,
    through: f64,
    /// Of the trait's time to the bare crate's: lower quartile, median, upper quartile.
    ratio: [f64; 3],
}

fn compare(kind: &'static Kind, open_bare: OpenBare, cases: &[Case]) -> Vec<Row> {
    let (bare_dir, through_dir) = (support::data_dir(), support::data_dir());
    // The default of `--cache-size`.
    let settings = Settings { kind, cache: 256 << 20, larger_than_memory: false };
    let mut bare = open_bare(&bare_dir.path().join("data"), settings);
    let mut through = side::open_through(&through_dir.path().join("data"), settings);
    let keys = support::keys(KEYS);
    let values = Values::new();
    let first: Vec<_> = keys.iter().zip(0..).map(|(key, n)| (&key[..], values.get(n, VALUE))).collect();
    for part in first.chunks(1000) {
        bare.put_batch(part);
        through.put_batch(part);
    }
    same(&mut *bare, &mut through, &keys);
    let rows = cases.iter().map(|case| row(kind, *case, &mut *bare, &mut through, &keys, &values)).collect();
    // The same writes on both sides, hence the same data.
    same(&mut *bare, &mut through, &keys);
    rows
}

fn row(
    kind: &Kind,
    case: Case,
    bare: &mut dyn Side,
    through: &mut Through,
    keys: &[Key],
    values: &Values,
) -> Row {
    let mut rng = Rng(3);
    let (mut bares, mut throughs, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    let begin = Instant::now();
    let time = Duration::from_secs(if support::is_test() { 0 } else { 3 });
    while ratios.len() < 2 || begin.elapsed() < time {
        let pairs: Vec<_> = (0..case.burst())
            .map(|_| (&keys[rng.below(keys.len())][..], values.get(rng.next(), VALUE)))
            .collect();
        // By turns the first, so that neither always follows the other's data in the cache.
        let (b, t) = if ratios.len() % 2 == 0 {
            let b = case.run(bare, &pairs);
            (b, case.run(through, &pairs))
        } else {
            let t = case.run(through, &pairs);
            (case.run(bare, &pairs), t)
        };
        bares.push(b);
        throughs.push(t);
        ratios.push(t / b);
    }
    let ratio = [0.25, 0.5, 0.75].map(|part| quantile(&mut ratios, part));
    let (bare, through) = (quantile(&mut bares, 0.5), quantile(&mut throughs, 0.5));
    Row { id: case.id(kind.info.name), bare, through, ratio }
}

fn quantile(numbers: &mut [f64], part: f64) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[((numbers.len() - 1) as f64 * part).round() as usize]
}

/// Fails unless both sides hold the same value of every key.
fn same(bare: &mut dyn Side, through: &mut Through, keys: &[Key]) {
    for key in keys {
        let value = bare.value(key);
        assert!(value.is_some() && value == through.value(key), "{} differs", key.escape_ascii());
    }
}

fn print(rows: &[Row]) {
    if rows.is_empty() || support::is_test() {
        return;
    }
    println!("{:26} {:>12} {:>12} {:>7} {:>13}", "", "bare ns/key", "trait ns/key", "ratio", "quartiles");
    for Row { id, bare, through, ratio: [low, ratio, high] } in rows {
        let verdict = if *ratio <= LIMIT { "" } else { "  more than 25% dearer" };
        println!("{id:26} {bare:12.0} {through:12.0} {ratio:7.2} {low:6.2}-{high:.2}{verdict}");
    }
    println!("\nratio: the trait's time to the bare crate's, median over neighbouring bursts.");
}

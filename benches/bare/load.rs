//! A load without a server, for `benches/peers/load.py`: one thread, 200 pairs in a commit that is not synced.

use super::{
    find, side,
    side::{Settings, Side},
    support::{self, Values},
};
use std::{
    env,
    path::Path,
    time::{Duration, Instant},
};

/// Pairs of a commit: what four clients with 50 SETs on the way make the server commit together, at most.
const TOGETHER: usize = 200;

/// Runs what follows `--load`, if that is there: `bare` or `trait`, the engine, an empty directory, the number of
/// keys, the step from one to the next, the bytes of a value and of the cache, and after how many seconds to end.
/// Prints the number of pairs that were set in each second. Returns whether it was there.
pub fn run() -> bool {
    let mut arguments = env::args().skip_while(|argument| argument != "--load").skip(1);
    let Some(mode) = arguments.next() else { return false };
    let (name, directory) = (arguments.next().expect("an engine"), arguments.next().expect("a directory"));
    let mut number = || arguments.next().and_then(|number| number.parse().ok()).expect("a number");
    let (keys, step, size, cache, seconds) = (number(), number(), number(), number(), number());
    let settings = Settings { kind: find(&name), cache, larger_than_memory: true };
    let path = Path::new(&directory).join("data");
    let mut side: Box<dyn Side> = match &*mode {
        "bare" => {
            let open = side::all().into_iter().find(|(side, _)| *side == name).expect("a bare side").1;
            open(&path, settings)
        }
        "trait" => Box::new(side::open_through(&path, settings)),
        _ => panic!("bare or trait"),
    };
    let second = |rate: &usize| println!("{rate}");
    load(&mut *side, keys, step, size, Duration::from_secs(seconds as u64)).iter().for_each(second);
    true
}

/// The number of pairs set in each second.
fn load(side: &mut dyn Side, keys: usize, step: usize, size: usize, time: Duration) -> Vec<usize> {
    let (values, mut rates, begin) = (Values::new(), Vec::new(), Instant::now());
    let mut low = 0;
    while low < keys && begin.elapsed() < time {
        let high = (low + TOGETHER).min(keys);
        let names: Vec<_> = (low..high)
            .map(|number| support::key((number as u128 * step as u128 % keys as u128) as usize))
            .collect();
        let pairs: Vec<_> = names
            .iter()
            .zip(low as u64..)
            .map(|(key, number)| (&key[..], values.get(number * 7, size)))
            .collect();
        side.put_batch(&pairs);
        let second = begin.elapsed().as_secs() as usize;
        rates.resize(rates.len().max(second + 1), 0);
        rates[second] += pairs.len();
        low = high;
    }
    rates
}

//! The key choosers' distributions, with bounds so loose that a seeded sequence never meets them by chance.

use kvbench::bench::{
    data::keys::{Chooser, Keys, mix, unmix},
    result::{Order, Size},
};
use std::collections::HashSet;

const KEYS: u64 = 1000;
const DRAWS: u64 = 200_000;

fn counts(order: Order) -> Vec<u64> {
    let mut chooser = Chooser::new(order, KEYS, 1, 1);
    let mut counts = vec![0; KEYS as usize];
    for _ in 0..DRAWS {
        counts[chooser.choose(0, KEYS).unwrap() as usize] += 1;
    }
    counts
}

#[test]
fn uniform_has_a_chi_square_near_its_degrees_of_freedom() {
    let expected = (DRAWS / KEYS) as f64;
    let chi: f64 = counts(Order::Uniform).iter().map(|&n| (n as f64 - expected).powi(2) / expected).sum();
    // 999 degrees of freedom: mean 999, standard deviation 45.
    assert!((750.0..1250.0).contains(&chi), "{chi}");
}

#[test]
fn sequential_visits_all_keys_once_a_round_over_all_threads() {
    let prototype = Chooser::new(Order::Sequential, KEYS, 1, 4);
    let mut seen = HashSet::new();
    for thread in 0..4 {
        let mut chooser = prototype.for_thread(thread, 1);
        seen.extend((0..KEYS / 4).map(|_| chooser.choose(0, KEYS).unwrap()));
    }
    assert_eq!(seen.len() as u64, KEYS);
}

#[test]
fn zipfian_gives_each_rank_its_share_and_scatters_the_ranks() {
    let counts = counts(Order::Zipfian(0.99));
    let favourite = counts.iter().enumerate().max_by_key(|(_, count)| **count).unwrap();
    assert_eq!(favourite.0 as u64, mix(0) % KEYS);
    // 1 / (sum of k^-0.99 for k to 1000) is 0.129.
    let share = *favourite.1 as f64 / DRAWS as f64;
    assert!((0.12..0.15).contains(&share), "{share}");
    let mut sorted = counts.clone();
    sorted.sort_unstable_by(|a, b| b.cmp(a));
    let tenth = sorted[..100].iter().sum::<u64>() as f64 / DRAWS as f64;
    assert!((0.6..0.8).contains(&tenth), "the first tenth gets {tenth}");
    assert!(sorted[0] as f64 / sorted[1] as f64 > 1.5);
}

#[test]
fn latest_prefers_the_last_key_also_after_inserts() {
    let mut chooser = Chooser::new(Order::Latest, KEYS, 1, 1);
    for end in [KEYS, 2 * KEYS] {
        let last = (0..DRAWS).filter(|_| chooser.choose(0, end).unwrap() == end - 1).count();
        let share = last as f64 / DRAWS as f64;
        assert!((0.1..0.15).contains(&share), "{share} of the draws are the last key of {end}");
    }
}

#[test]
fn a_hot_set_gets_its_part() {
    let hot: u64 = counts(Order::HotSet(0.1, 0.9))[..100].iter().sum();
    let share = hot as f64 / DRAWS as f64;
    assert!((0.89..0.91).contains(&share), "{share}");
}

#[test]
fn choices_stay_inside_a_range_that_moves() {
    for order in
        [Order::Uniform, Order::Sequential, Order::Zipfian(0.5), Order::Latest, Order::HotSet(0.2, 0.8)]
    {
        let mut chooser = Chooser::new(order, KEYS, 7, 1);
        for (first, end) in [(0, 1), (5, 6), (10, 4000), (3999, 4000)] {
            let inside = |index| (first..end).contains(&index);
            assert!((0..1000).all(|_| chooser.choose(first, end).is_some_and(inside)), "{order:?}");
        }
        assert_eq!(chooser.choose(5, 5), None);
        assert_eq!(chooser.choose(6, 5), None);
    }
}

#[test]
fn the_same_seed_makes_the_same_choices_and_threads_differ() {
    let prototype = Chooser::new(Order::Uniform, KEYS, 1, 2);
    let draw = |thread| {
        let mut chooser = prototype.for_thread(thread, 9);
        (0..100).map(|_| chooser.choose(0, KEYS)).collect::<Vec<_>>()
    };
    assert_eq!(draw(0), draw(0));
    assert_ne!(draw(0), draw(1));
}

#[test]
fn keys_are_a_bijection() {
    for number in [0, 1, 77, u64::MAX, 1 << 63] {
        assert_eq!(unmix(mix(number)), number);
    }
    let sizes = [Size::Fixed(4), Size::Fixed(8), Size::Fixed(9), Size::Fixed(32), Size::Uniform(8, 40)];
    let (mut key, mut scratch) = (Vec::new(), Vec::new());
    for (size, hashed) in sizes.into_iter().flat_map(|size| [(size, false), (size, true)]) {
        if hashed && size == Size::Fixed(4) {
            continue;
        }
        let keys = Keys::new(size, hashed);
        let mut seen = HashSet::new();
        for index in 0..10_000 {
            keys.write(index, &mut key);
            match size {
                Size::Fixed(bytes) => assert_eq!(key.len(), bytes as usize),
                Size::Uniform(low, high) => assert!((low as usize..=high as usize).contains(&key.len())),
            }
            assert_eq!(keys.index(&key, &mut scratch), Some(index));
            assert!(seen.insert(key.clone()));
        }
        let absent = keys.absent(12345);
        keys.write(absent, &mut key);
        assert!(!seen.contains(&key));
        key[0] ^= 1;
        assert_ne!(keys.index(&key, &mut scratch), Some(absent));
    }
}

#[test]
fn keys_that_are_not_hashed_lie_in_the_order_of_their_numbers() {
    let keys = Keys::new(Size::Fixed(9), false);
    let all: Vec<Vec<u8>> = (0..1000)
        .map(|index| {
            let mut key = Vec::new();
            keys.write(index, &mut key);
            key
        })
        .collect();
    assert!(all.is_sorted());
}

//! The key choosers' distributions, with bounds so loose that a seeded sequence never meets them by chance.

use kvbench::bench::{
    data::keys::{KeyChooser, Keys, fnv, hot_key_salt, mix, unmix, zeta},
    result::{Order, Size},
};
use std::collections::HashSet;

const KEYS: u64 = 1000;
const DRAWS: u64 = 200_000;

fn counts(order: Order) -> Vec<u64> {
    let mut chooser = KeyChooser::new(order, KEYS, 1, 1);
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
    let prototype = KeyChooser::new(Order::Sequential, KEYS, 1, 4);
    let mut seen = HashSet::new();
    for thread in 0..4 {
        let mut chooser = prototype.for_thread(thread, 1);
        seen.extend((0..KEYS / 4).map(|_| chooser.choose(0, KEYS).unwrap()));
    }
    assert_eq!(seen.len() as u64, KEYS);
}

/// The numbers that YCSB's source gives, and values of its hash.
#[test]
fn zipfian_has_ycsbs_constants() {
    let zetan = 26.46902820178302; // ScrambledZipfianGenerator.ZETAN: ten billion items, theta 0.99
    assert!((zeta(10_000_000_000, 0.99) / zetan - 1.0).abs() < 1e-9, "{}", zeta(10_000_000_000, 0.99));
    let added: f64 = (1..=5000).map(|item| f64::from(item).powf(-0.5)).sum();
    assert!((zeta(5000, 0.5) / added - 1.0).abs() < 1e-12);
    // Utils.fnvhash64, by its own steps: a number is hashed from its lowest byte on, the sign dropped.
    let mut hash = 0xCBF2_9CE4_8422_2325_u64;
    for octet in [1, 0, 0, 0, 0, 0, 0, 0] {
        hash = (hash ^ octet).wrapping_mul(1_099_511_628_211);
    }
    assert_eq!(fnv(1), (hash as i64).unsigned_abs());
    assert!((0..1000).all(|rank| i64::try_from(fnv(rank)).is_ok()));
}

/// The key of a rank with the seed 1.
fn key_of_rank(rank: u64) -> u64 {
    (fnv(rank) + hot_key_salt(1)) % KEYS
}

/// Another seed has other hot keys, and other key bytes for one number: in the index they are elsewhere.
#[test]
fn hot_keys_depend_on_the_seed() {
    let favourite = |seed| {
        let mut chooser = KeyChooser::new(Order::Zipfian(0.99), KEYS, seed, 1);
        let mut counts = vec![0; KEYS as usize];
        (0..10_000).for_each(|_| counts[chooser.choose(0, KEYS).unwrap() as usize] += 1);
        (0..KEYS as usize).max_by_key(|key| counts[*key]).unwrap()
    };
    assert_eq!(favourite(1), favourite(1));
    assert!(favourite(1) != favourite(2) && favourite(2) != favourite(3));
    let key = |seed| {
        let (mut key, mut scratch) = (Vec::new(), Vec::new());
        let keys = Keys::new(Size::Fixed(16), true).with_seed(seed);
        keys.write(7, &mut key);
        assert_eq!(keys.index(&key, &mut scratch), Some(7));
        key
    };
    assert_eq!(key(1), key(1));
    assert_ne!(key(1), key(2));
}

/// What YCSB's generator gives each key, worked out from its formulas: of ten billion ranks the first million
/// one by one, the rest spread evenly by the hash.
fn expected_of_ycsb() -> Vec<f64> {
    const ITEMS: f64 = 1e10;
    const FIRST: u64 = 1_000_000;
    let (theta, zetan): (f64, f64) = (0.99, 26.46902820178302);
    let two = 1.0 + 0.5f64.powf(theta);
    let eta = (1.0 - (2.0 / ITEMS).powf(1.0 - theta)) / (1.0 - two / zetan);
    // The part of all draws that are below a rank, from the inverse of the generator's formula.
    let below = |rank: u64| match rank {
        0 => 0.0,
        1 => 1.0 / zetan,
        2 => two / zetan,
        _ => (((rank as f64 / ITEMS).powf(1.0 - theta) - 1.0 + eta) / eta).max(two / zetan),
    };
    let mut shares = vec![(1.0 - below(FIRST)) / KEYS as f64; KEYS as usize];
    for rank in 0..FIRST {
        shares[key_of_rank(rank) as usize] += below(rank + 1) - below(rank);
    }
    shares
}

#[test]
fn zipfian_gives_each_key_the_share_that_ycsb_gives_it() {
    let (counts, shares) = (counts(Order::Zipfian(0.99)), expected_of_ycsb());
    let draws = DRAWS as f64;
    let chi: f64 = counts
        .iter()
        .zip(&shares)
        .map(|(&count, share)| (count as f64 - draws * share).powi(2) / (draws * share))
        .sum();
    // 999 degrees of freedom, as above.
    assert!((750.0..1250.0).contains(&chi), "{chi}");
    let favourite = (0..KEYS as usize).max_by_key(|key| counts[*key]).unwrap();
    assert_eq!(favourite as u64, key_of_rank(0));
    // 1 / 26.469 for the first rank, and a thousandth or two of the others.
    let share = counts[favourite] as f64 / draws;
    assert!((0.037..0.042).contains(&share), "{share}");
}

#[test]
fn the_favourites_stay_while_keys_are_added() {
    let mut chooser = KeyChooser::new(Order::Zipfian(0.99), KEYS, 1, 1);
    let draws = 10_000;
    let favourite = key_of_rank(0);
    let hits = (0..draws).filter(|more| chooser.choose(0, KEYS + more).unwrap() == favourite).count();
    assert!((300..480).contains(&hits), "{hits} of {draws}");
}

#[test]
fn latest_prefers_the_last_key_also_after_inserts() {
    let mut chooser = KeyChooser::new(Order::Latest, KEYS, 1, 1);
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
        let mut chooser = KeyChooser::new(order, KEYS, 7, 1);
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
    let prototype = KeyChooser::new(Order::Uniform, KEYS, 1, 2);
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

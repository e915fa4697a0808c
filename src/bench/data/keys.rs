//! Choice of the key of each operation, and the bytes of keys.

use crate::bench::result::{Order, Size};
use rand::{RngCore, SeedableRng, rngs::SmallRng};

/// Maps `number` to a number without visible order, one to one: the finalizer of SplitMix64 (Steele, Lea and
/// Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014).
#[inline]
pub fn mix(number: u64) -> u64 {
    let z = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Returns the number that [`mix`] maps to `number`.
#[inline]
pub fn unmix(number: u64) -> u64 {
    let z = (number ^ (number >> 31) ^ (number >> 62)).wrapping_mul(0x3196_42b2_d24d_8ec3);
    let z = (z ^ (z >> 27) ^ (z >> 54)).wrapping_mul(0x96de_1b17_3f11_9089);
    z ^ (z >> 30) ^ (z >> 60)
}

/// Returns the length in bytes, within `size`, of the key or value with the number `index`. Every call
/// returns the same length for a number, so a reader knows which length to expect.
#[inline]
pub fn length(size: Size, index: u64) -> usize {
    match size {
        Size::Fixed(bytes) => bytes as usize,
        Size::Uniform(low, high) => {
            let choices = u64::from(high.saturating_sub(low)) + 1;
            low as usize + below(mix(index ^ 0x5eed), choices) as usize
        }
    }
}

/// Scales a random number to less than `end` (Lemire, "Fast random integer generation in an interval", 2019,
/// without the paper's correction: the bias is below 2^-30 for the key counts of a benchmark).
#[inline]
fn below(random: u64, end: u64) -> u64 {
    ((u128::from(random) * u128::from(end)) >> 64) as u64
}

/// Converts key numbers to key bytes and back.
///
/// The first bytes, 8 or as many as the shortest key has, are the lowest bytes, in big-endian order, of the number or
/// of its [`mix`] with the seed. The others are derived from the number, so that no engine gains from a constant part.
#[derive(Clone, Copy, Debug)]
pub struct Keys {
    size: Size,
    hashed: bool,
    /// Number, made from the seed, that is XORed with a key number before it is hashed; 0 without a seed.
    salt: u64,
}

impl Keys {
    /// Creates a converter for keys of length `size`: their bytes are spread over all byte strings if `hashed` (from 8
    /// bytes on), otherwise in the order of their numbers.
    pub fn new(size: Size, hashed: bool) -> Self {
        Self { size, hashed, salt: 0 }
    }

    /// Returns a converter for the keys of a seed: each seed has another order of hashed keys, and other random
    /// lengths.
    pub fn with_seed(self, seed: u64) -> Self {
        Self { salt: mix(seed), ..self }
    }

    /// Returns the number of leading bytes that hold the key number: at most 8.
    fn width(&self) -> usize {
        let (Size::Fixed(least) | Size::Uniform(least, _)) = self.size;
        (least as usize).min(8)
    }

    /// Returns the number of key numbers that the first bytes of a key can hold: 256 to the power of the length of the
    /// shortest key; from 8 bytes on, the largest `u64`.
    pub fn capacity(&self) -> u64 {
        1u64.checked_shl(8 * self.width() as u32).unwrap_or(u64::MAX)
    }

    /// Returns a key number that no loaded or inserted key has: the upper half of the numbers is never
    /// written.
    #[inline]
    pub fn absent(&self, random: u64) -> u64 {
        let half = self.capacity() / 2;
        half + random % half
    }

    /// Writes the bytes of the key with the number `index` to `key`.
    #[inline]
    pub fn write(&self, index: u64, key: &mut Vec<u8>) {
        let number = if self.hashed { mix(index ^ self.salt) } else { index };
        let bytes = number.to_be_bytes();
        key.clear();
        key.extend_from_slice(bytes.get(8 - self.width()..).unwrap_or(&bytes));
        let length = length(self.size, index ^ self.salt);
        let mut rest = number;
        while key.len() < length {
            rest = mix(rest.wrapping_add(0x9e37_79b9_7f4a_7c15));
            let filler = rest.to_be_bytes();
            key.extend_from_slice(filler.get(..(length - key.len()).min(8)).unwrap_or(&filler));
        }
    }

    /// Returns the number in the first bytes of `key`, or `None` if `key` is too short. The other bytes are
    /// not checked.
    #[inline]
    pub fn number(&self, key: &[u8]) -> Option<u64> {
        let number = match key.first_chunk::<8>().filter(|_| self.width() == 8) {
            Some(bytes) => u64::from_be_bytes(*bytes),
            None => key.get(..self.width())?.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)),
        };
        Some(if self.hashed { unmix(number) ^ self.salt } else { number })
    }

    /// Returns the number of `key`, or `None` if no number has these bytes. `scratch` is overwritten.
    pub fn index(&self, key: &[u8], scratch: &mut Vec<u8>) -> Option<u64> {
        let index = self.number(key)?;
        self.write(index, scratch);
        (scratch.as_slice() == key).then_some(index)
    }

    /// Returns the share of the hashed key space, from 0 to 1, that lies after the key with the number
    /// `index`.
    pub fn share_after(&self, index: u64) -> f64 {
        1.0 - mix(index ^ self.salt) as f64 / u64::MAX as f64
    }

    /// Returns `true` if keys are spread over all byte strings.
    pub fn is_hashed(&self) -> bool {
        self.hashed
    }
}

/// Number of items that YCSB's scrambled zipfian draws from, whatever the number of keys.
const SCRAMBLED_ITEMS: u64 = 10_000_000_000;

/// Returns the hash by which YCSB scatters ranks: the absolute value of FNV-1a over the bytes, lowest first.
#[inline]
pub fn fnv(rank: u64) -> u64 {
    let hash = rank.to_le_bytes().iter().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(1_099_511_628_211)
    });
    hash.cast_signed().unsigned_abs()
}

/// Returns the number, made from the seed, that is added to [`fnv`] of a rank, so that each seed has other hot keys.
/// The sum of both is less than 2^64.
pub fn hot_key_salt(seed: u64) -> u64 {
    mix(seed) >> 1
}

/// Returns the sum of `1 / k^theta` for k from 1 to `items`, to 13 digits: the first 1000 terms are added,
/// the rest follows from the Euler-Maclaurin formula.
pub fn zeta(items: u64, theta: f64) -> f64 {
    const ADDED: u64 = 1000;
    let sum: f64 = (1..=items.min(ADDED)).map(|item| (item as f64).powf(-theta)).sum();
    if items <= ADDED {
        return sum;
    }
    let (from, to) = (ADDED as f64, items as f64);
    let integral = (to.powf(1.0 - theta) - from.powf(1.0 - theta)) / (1.0 - theta);
    let ends = (to.powf(-theta) - from.powf(-theta)) / 2.0;
    let slopes = theta / 12.0 * (from.powf(-theta - 1.0) - to.powf(-theta - 1.0));
    sum + integral + ends + slopes
}

/// Generator of ranks from 0, rank k with a probability proportional to `1 / (k+1)^theta` (Gray et al.,
/// "Quickly generating billion-record synthetic databases", SIGMOD 1994; the generator of YCSB).
#[derive(Clone, Debug)]
struct Zipfian {
    theta: f64,
    items: u64,
    zeta: f64,
    eta: f64,
    /// Sum of the first two terms of `zeta`.
    two: f64,
}

impl Zipfian {
    fn new(theta: f64, items: u64) -> Self {
        let two = 1.0 + 0.5f64.powf(theta);
        let mut zipfian = Self { theta, items: 0, zeta: 0.0, eta: 0.0, two };
        zipfian.set(items.max(1), zeta(items.max(1), theta));
        zipfian
    }

    /// Extends the range of ranks to `items` items. Takes time in proportion to the number of new items only, since
    /// inserts add them one by one.
    fn grow(&mut self, items: u64) {
        let new: f64 = (self.items + 1..=items).map(|item| (item as f64).powf(-self.theta)).sum();
        self.set(items, self.zeta + new);
    }

    fn set(&mut self, items: u64, zeta: f64) {
        (self.items, self.zeta) = (items, zeta);
        self.eta = (1.0 - (2.0 / items as f64).powf(1.0 - self.theta)) / (1.0 - self.two / self.zeta);
    }

    fn rank(&self, random: u64) -> u64 {
        let uniform = (random >> 11) as f64 / (1u64 << 53) as f64;
        let area = uniform * self.zeta;
        if area < 1.0 {
            return 0;
        }
        if area < self.two {
            return 1;
        }
        let share = (self.eta * uniform - self.eta + 1.0).powf(1.0 / (1.0 - self.theta));
        ((self.items as f64 * share) as u64).min(self.items - 1)
    }
}

/// Chooses key numbers from a range that may change between calls, in the order of a workload, such as uniform or
/// Zipfian.
#[derive(Clone, Debug)]
pub struct KeyChooser {
    order: Order,
    random: SmallRng,
    zipfian: Option<Zipfian>,
    /// Number that is added to the hash of a rank, so that each seed has other hot keys.
    salt: u64,
    /// Number of keys that existed when the chooser was created, at least 1.
    keys: u64,
    next: u64,
    stride: u64,
}

impl KeyChooser {
    /// Creates the chooser from which [`KeyChooser::for_thread`] makes those of `threads` threads. `keys` is the number
    /// of keys that exist now.
    pub fn new(order: Order, keys: u64, seed: u64, threads: u64) -> Self {
        let zipfian = match order {
            Order::Zipfian(theta) => Some(Zipfian::new(theta, SCRAMBLED_ITEMS)),
            Order::Latest => Some(Zipfian::new(0.99, keys)),
            Order::Sequential | Order::Uniform | Order::HotSet(..) => None,
        };
        let random = SmallRng::seed_from_u64(seed);
        let (salt, stride) = (hot_key_salt(seed), threads.max(1));
        Self { order, random, zipfian, salt, keys: keys.max(1), next: 0, stride }
    }

    /// Returns the chooser of thread number `thread`, independent of the choosers of other threads.
    pub fn for_thread(&self, thread: u64, seed: u64) -> Self {
        let random = SmallRng::seed_from_u64(mix(seed).wrapping_add(thread));
        Self { random, next: thread, ..self.clone() }
    }

    /// Returns a random number.
    #[inline]
    pub fn random(&mut self) -> u64 {
        self.random.next_u64()
    }

    /// Returns a random number from 1 to `most`, each equally likely.
    pub fn up_to(&mut self, most: u32) -> u32 {
        1 + below(self.random.next_u64(), u64::from(most.max(1))) as u32
    }

    /// Returns a key number in `first..end`, chosen by the chooser's order, or `None` if the range is empty.
    #[inline]
    pub fn choose(&mut self, first: u64, end: u64) -> Option<u64> {
        let keys = end.checked_sub(first).filter(|&keys| keys > 0)?;
        let offset = match self.order {
            Order::Uniform => below(self.random.next_u64(), keys),
            Order::Sequential => {
                let next = self.next;
                self.next += self.stride;
                next % keys
            }
            Order::HotSet(part, operations) => self.hot(keys, part, operations),
            // Scrambled as in YCSB, where two ranks may fall on one key. The most frequent keys stay the same
            // while keys are added.
            Order::Zipfian(_) => (fnv(self.rank(None)) + self.salt) % self.keys % keys,
            Order::Latest => keys - 1 - self.rank(Some(keys)) % keys,
        };
        Some(first + offset)
    }

    fn rank(&mut self, items: Option<u64>) -> u64 {
        let random = self.random.next_u64();
        let Some(zipfian) = &mut self.zipfian else { return 0 };
        if let Some(items) = items.filter(|&items| items > zipfian.items) {
            zipfian.grow(items);
        }
        zipfian.rank(random)
    }

    fn hot(&mut self, keys: u64, part: f64, operations: f64) -> u64 {
        let hot = ((keys as f64 * part) as u64).clamp(1, keys);
        let toss = (self.random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        match keys - hot {
            cold if toss >= operations && cold > 0 => hot + below(self.random.next_u64(), cold),
            _ => below(self.random.next_u64(), hot),
        }
    }
}

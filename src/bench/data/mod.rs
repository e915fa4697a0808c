//! The pairs of a workload. Every value can be generated again from the number of its key, so that every read
//! is checked against what was written.

pub mod allowed_versions;
mod atomic_table;
pub mod expirations;
pub mod key_ledger;
pub mod keys;

use crate::{
    bench::result::{Size, Workload},
    engine::files,
};
use keys::{Keys, length, mix};
use rand::{RngCore, SeedableRng, rngs::SmallRng};
use std::{fs, io, path::Path};

/// Number of key bytes in a record of a data file.
pub const RECORD_KEY: usize = 32;
/// Number of value bytes in a record of a data file.
pub const RECORD_VALUE: usize = 512;
const RECORD: usize = RECORD_KEY + RECORD_VALUE;

/// Size in bytes of the random pool that values are cut from. Large enough that an engine's compression finds
/// few repetitions in a block, small enough for the second-level cache of a CPU.
const POOL: usize = 256 << 10;
/// Length in bytes of the stripes of a pool that is not all random: each stripe begins with its random bytes
/// and ends with zeros.
const STRIPE: usize = 64;

/// Source of the keys and values of a workload.
#[derive(Debug)]
pub enum Data {
    /// Pairs generated from key numbers.
    Generated(Keys, Values),
    /// Pairs read from a data file: its contents, records of a 32-byte key and a 512-byte value.
    FromFile(Vec<u8>),
}

impl Data {
    /// Creates the pairs of a workload; reads the data file, if the workload has one.
    ///
    /// # Errors
    ///
    /// Fails as [`Data::read`] if the workload has a data file; otherwise never.
    pub fn new(workload: &Workload) -> io::Result<Self> {
        match &workload.data {
            Some(path) => Self::read(Path::new(path)),
            None => Ok(Self::Generated(
                Keys::new(workload.key_bytes, workload.hashed_keys).with_seed(workload.seed),
                Values::new(workload.value_bytes, workload.seed, workload.value_entropy),
            )),
        }
    }

    /// Reads a file of records (32 bytes of key, 512 bytes of value).
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read, or if its length is 0 or no multiple of a record.
    pub fn read(path: &Path) -> io::Result<Self> {
        pairs(path)?;
        fs::read(path).map(Self::FromFile)
    }

    /// Returns the maximum number of keys that a workload may load and insert: all pairs of the file, or half of all
    /// keys of the length, since the others stay absent.
    pub fn capacity(&self) -> u64 {
        match self {
            Self::Generated(keys, _) => keys.capacity() / 2,
            Self::FromFile(records) => (records.len() / RECORD) as u64,
        }
    }

    /// Writes the key with the number `index` to `key`.
    #[inline]
    pub fn key(&self, index: u64, key: &mut Vec<u8>) {
        match self {
            Self::Generated(keys, _) => keys.write(index, key),
            Self::FromFile(records) => {
                key.clear();
                match record(records, index) {
                    Some((found, _)) => key.extend_from_slice(found),
                    // `index` comes from `absent`: generate a key that no record has.
                    None => (0..4u64).for_each(|part| key.extend(mix(index ^ part << 60).to_be_bytes())),
                }
            }
        }
    }

    /// Writes version `version` of the value of key `index` to `value`.
    #[inline]
    pub fn value(&self, index: u64, version: u32, value: &mut Vec<u8>) {
        match self {
            Self::Generated(_, values) => values.write(index, version, value),
            Self::FromFile(records) => {
                value.clear();
                value.extend_from_slice(record(records, index).map(|(_, value)| value).unwrap_or_default());
                if let Some(start) = value.first_chunk_mut::<8>() {
                    *start = (u64::from_le_bytes(*start) ^ stamp(index, version)).to_le_bytes();
                }
            }
        }
    }

    /// Returns the length in bytes of the value of key `index`, the same for all versions.
    pub fn value_length(&self, index: u64) -> usize {
        match self {
            Self::Generated(_, values) => values.length(index),
            Self::FromFile(records) => record(records, index).map_or(0, |(_, value)| value.len()),
        }
    }

    /// Returns the version of a value that was read for key `index` (its lowest [`Data::version_bits`] bits),
    /// or `None` if no version of that key has these bytes.
    #[inline]
    pub fn check(&self, index: u64, value: &[u8]) -> Option<u32> {
        match self {
            Self::Generated(_, values) => values.check(index, value),
            Self::FromFile(records) => {
                let (original, tail) = record(records, index)?.1.split_first_chunk::<8>()?;
                let (start, rest) = value.split_first_chunk::<8>()?;
                let difference = u64::from_le_bytes(*original) ^ u64::from_le_bytes(*start);
                let version = difference as u32;
                (difference == stamp(index, version) && rest == tail).then_some(version)
            }
        }
    }

    /// Returns how many bits of the version the value of key `index` holds: the lowest ones. Two versions
    /// that differ in these bits have different values.
    #[inline]
    pub fn version_bits(&self, index: u64) -> u32 {
        match self {
            Self::Generated(_, values) => values.version_bits(index),
            Self::FromFile(_) => u32::BITS,
        }
    }

    /// Returns the number of `key`, or `None` if keys come from a file or no number has these bytes.
    /// `scratch` is overwritten.
    pub fn index(&self, key: &[u8], scratch: &mut Vec<u8>) -> Option<u64> {
        match self {
            Self::Generated(keys, _) => keys.index(key, scratch),
            Self::FromFile(_) => None,
        }
    }

    /// Returns the number of a key that is never written, chosen by `random`.
    #[inline]
    pub fn absent(&self, random: u64) -> u64 {
        match self {
            Self::Generated(keys, _) => keys.absent(random),
            Self::FromFile(_) => random | 1 << 63,
        }
    }

    /// Returns the generator of keys, or `None` if keys come from a file.
    pub fn keys(&self) -> Option<&Keys> {
        match self {
            Self::Generated(keys, _) => Some(keys),
            Self::FromFile(_) => None,
        }
    }
}

/// Returns the number that is XORed into the first 8 bytes of a record's value to mark its version: the
/// version in the lower half, a check of the record and version in the upper half. It is 0 for version 0.
fn stamp(index: u64, version: u32) -> u64 {
    let check = mix(index << 32 ^ u64::from(version)) & !u64::from(u32::MAX);
    if version == 0 { 0 } else { check | u64::from(version) }
}

/// Returns the number of pairs in the data file at `path`.
///
/// # Errors
///
/// Fails if the file does not exist, or if its length is 0 or no multiple of a record.
pub fn pairs(path: &Path) -> io::Result<u64> {
    let bytes = fs::metadata(path)?.len();
    if bytes == 0 || !bytes.is_multiple_of(RECORD as u64) {
        let text = format!(
            "{bytes} bytes are no multiple of a {RECORD_KEY}-byte key and a {RECORD_VALUE}-byte value"
        );
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    }
    Ok(bytes / RECORD as u64)
}

fn record(records: &[u8], index: u64) -> Option<(&[u8], &[u8])> {
    let start = usize::try_from(index).ok()?.checked_mul(RECORD)?;
    records.get(start..start.checked_add(RECORD)?)?.split_at_checked(RECORD_KEY)
}

/// Writes a data file of `keys` records in the format that [`Data::read`] reads, and replaces a file at `path` with it. An
/// error leaves that file as it was. The share `entropy` of the bytes of a value is random; the others are zeros.
///
/// # Errors
///
/// Fails if the file cannot be created or written.
pub fn generate(path: &Path, keys: u64, seed: u64, entropy: f64) -> io::Result<()> {
    let made = Data::Generated(
        Keys::new(Size::Fixed(RECORD_KEY as u32), true),
        Values::new(Size::Fixed(RECORD_VALUE as u32), seed, entropy),
    );
    let (file, target) = files::new_version(path)?;
    let mut file = io::BufWriter::with_capacity(1 << 20, file);
    let (mut key, mut value) = (Vec::new(), Vec::new());
    for index in 0..keys {
        made.key(index, &mut key);
        made.value(index, 0, &mut value);
        io::Write::write_all(&mut file, &key)?;
        io::Write::write_all(&mut file, &value)?;
    }
    let file = file.into_inner()?;
    // Otherwise the kernel would write the file to the disk during the first measurements.
    file.as_file().sync_all()?;
    file.persist(target)?;
    Ok(())
}

/// Generator of values. A value is 4 bytes of version, 4 bytes of a check of key, version and seed, and a
/// slice of a random pool whose position these three determine. A read compares all bytes. In a value shorter
/// than 8 bytes, one half holds the lowest bits of the version, the other half the check.
#[derive(Debug)]
pub struct Values {
    size: Size,
    seed: u64,
    pool: Box<[u8]>,
}

impl Values {
    /// Creates values of length `size`. The share `entropy` of their bytes is random, the others are zeros,
    /// so that an engine that compresses can save space.
    pub fn new(size: Size, seed: u64, entropy: f64) -> Self {
        let (Size::Fixed(longest) | Size::Uniform(_, longest)) = size;
        let mut pool = vec![0; POOL + longest as usize].into_boxed_slice();
        SmallRng::seed_from_u64(seed).fill_bytes(&mut pool);
        let random = (entropy.clamp(0.0, 1.0) * STRIPE as f64).round() as usize;
        for stripe in pool.chunks_mut(STRIPE) {
            stripe.iter_mut().skip(random).for_each(|byte| *byte = 0);
        }
        Self { size, seed: mix(seed), pool }
    }

    /// Returns the length in bytes of the value of key `index`, the same for all versions.
    #[inline]
    fn length(&self, index: u64) -> usize {
        // Hashed once more, because the length of the key is made from the same number.
        length(self.size, mix(index ^ self.seed))
    }

    #[inline]
    fn tag(&self, index: u64, version: u32) -> u64 {
        mix((index ^ self.seed).wrapping_add(u64::from(version) << 32))
    }

    /// Returns a value of up to 7 bytes, followed by zeros.
    #[inline]
    fn short(&self, index: u64, version: u32, length: usize) -> [u8; 8] {
        let half = 4 * length as u32;
        let version = u64::from(version) & low(half);
        let check = self.tag(index, version as u32) >> 32 & low(half);
        (check << half | version).to_le_bytes()
    }

    #[inline]
    fn version_bits(&self, index: u64) -> u32 {
        (4 * self.length(index) as u32).min(u32::BITS)
    }

    /// Returns the bytes of a value of `length` bytes that follow the first 8.
    #[inline]
    fn body(&self, tag: u64, length: usize) -> &[u8] {
        let start = tag as usize % POOL;
        self.pool.get(start..start + length.saturating_sub(8)).unwrap_or_default()
    }

    #[inline]
    fn write(&self, index: u64, version: u32, value: &mut Vec<u8>) {
        value.clear();
        let length = self.length(index);
        if length < 8 {
            value.extend_from_slice(self.short(index, version, length).get(..length).unwrap_or_default());
            return;
        }
        let tag = self.tag(index, version);
        value.extend_from_slice(&version.to_le_bytes());
        value.extend_from_slice(&((tag >> 32) as u32).to_le_bytes());
        value.extend_from_slice(self.body(tag, length));
    }

    #[inline]
    fn check(&self, index: u64, value: &[u8]) -> Option<u32> {
        let length = self.length(index);
        if length < 8 {
            let mut start = [0; 8];
            start.get_mut(..value.len())?.copy_from_slice(value);
            let version = (u64::from_le_bytes(start) & low(4 * length as u32)) as u32;
            return (self.short(index, version, length).get(..length) == Some(value)).then_some(version);
        }
        let (version, rest) = value.split_first_chunk::<4>()?;
        let (high, body) = rest.split_first_chunk::<4>()?;
        let version = u32::from_le_bytes(*version);
        let tag = self.tag(index, version);
        let right = value.len() == length
            && u32::from_le_bytes(*high) == (tag >> 32) as u32
            && body == self.body(tag, length);
        right.then_some(version)
    }
}

/// Returns a mask of the lowest `bits` bits.
#[inline]
fn low(bits: u32) -> u64 {
    (1 << bits) - 1
}

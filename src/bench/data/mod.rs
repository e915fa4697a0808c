//! The pairs of a workload: every value can be made again from its key's number, so that every read is
//! checked against what was written.

pub mod key_ledger;
pub mod keys;
pub mod value_versions;

use crate::bench::result::{Size, Workload};
use keys::{Keys, length, mix};
use rand::{RngCore, SeedableRng, rngs::SmallRng};
use std::{fs, io, path::Path};

/// Key bytes in a record of a data file.
pub const RECORD_KEY: usize = 32;
/// Value bytes in a record of a data file.
pub const RECORD_VALUE: usize = 512;
const RECORD: usize = RECORD_KEY + RECORD_VALUE;

/// Random bytes that values are cut from. Large enough that an engine's compression finds little twice
/// in a block, small enough for the processor's second-level cache.
const POOL: usize = 256 << 10;
/// Where values are not all random, so many bytes have their part of randomness first.
const STRIPE: usize = 64;

/// A source of pairs.
#[derive(Debug)]
pub enum Data {
    /// Made from numbers.
    Generated(Keys, Values),
    /// Read from a file.
    FromFile(Vec<u8>),
}

impl Data {
    /// The pairs of a workload; reads its file, if it has one.
    pub fn new(workload: &Workload) -> io::Result<Self> {
        match &workload.data {
            Some(path) => Self::read(Path::new(path)),
            None => Ok(Self::Generated(
                Keys::new(workload.key_bytes, workload.hashed_keys),
                Values::new(workload.value_bytes, workload.seed, workload.value_entropy),
            )),
        }
    }

    /// Reads a file of records.
    pub fn read(path: &Path) -> io::Result<Self> {
        pairs(path)?;
        fs::read(path).map(Self::FromFile)
    }

    /// How many pairs there can be.
    pub fn capacity(&self) -> u64 {
        match self {
            Self::Generated(keys, _) => keys.capacity() / 2,
            Self::FromFile(records) => (records.len() / RECORD) as u64,
        }
    }

    /// Writes a key.
    #[inline]
    pub fn key(&self, index: u64, key: &mut Vec<u8>) {
        match self {
            Self::Generated(keys, _) => keys.write(index, key),
            Self::FromFile(records) => {
                key.clear();
                match record(records, index) {
                    Some((found, _)) => key.extend_from_slice(found),
                    // Such a number was asked for as one that is absent.
                    None => (0..4u64).for_each(|part| key.extend(mix(index ^ part << 60).to_be_bytes())),
                }
            }
        }
    }

    /// Writes version `version` of a value.
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

    /// Length of a value, which is the same in all its versions.
    pub fn value_length(&self, index: u64) -> usize {
        match self {
            Self::Generated(_, values) => length(values.size, index),
            Self::FromFile(records) => record(records, index).map_or(0, |(_, value)| value.len()),
        }
    }

    /// The version of a value (its lowest [`Data::version_bits`]), or `None` when nobody wrote such a value
    /// for this key.
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

    /// How many bits of the version a value has: the lowest ones. Two versions that differ in them are
    /// different values.
    #[inline]
    pub fn version_bits(&self, index: u64) -> u32 {
        match self {
            Self::Generated(_, values) => values.version_bits(index),
            Self::FromFile(_) => u32::BITS,
        }
    }

    /// The number of a key, when keys are made. `scratch` is overwritten.
    pub fn index(&self, key: &[u8], scratch: &mut Vec<u8>) -> Option<u64> {
        match self {
            Self::Generated(keys, _) => keys.index(key, scratch),
            Self::FromFile(_) => None,
        }
    }

    /// A number that no pair has.
    #[inline]
    pub fn absent(&self, random: u64) -> u64 {
        match self {
            Self::Generated(keys, _) => keys.absent(random),
            Self::FromFile(_) => random | 1 << 63,
        }
    }

    /// How keys are made, if they are.
    pub fn keys(&self) -> Option<&Keys> {
        match self {
            Self::Generated(keys, _) => Some(keys),
            Self::FromFile(_) => None,
        }
    }
}

/// What is changed in the first 8 bytes of a record's value by its version: the version itself, and what
/// only this record and version give. Nothing, of the first.
fn stamp(index: u64, version: u32) -> u64 {
    let check = mix(index << 32 ^ u64::from(version)) & !u64::from(u32::MAX);
    if version == 0 { 0 } else { check | u64::from(version) }
}

/// How many pairs a data file has.
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

/// Writes a data file of `keys` records of the shape that [`Data::read`] takes.
pub fn generate(path: &Path, keys: u64, seed: u64) -> io::Result<()> {
    let made = Data::Generated(
        Keys::new(Size::Fixed(RECORD_KEY as u32), true),
        Values::new(Size::Fixed(RECORD_VALUE as u32), seed, 1.0),
    );
    let mut file = io::BufWriter::with_capacity(1 << 20, fs::File::create(path)?);
    let (mut key, mut value) = (Vec::new(), Vec::new());
    for index in 0..keys {
        made.key(index, &mut key);
        made.value(index, 0, &mut value);
        io::Write::write_all(&mut file, &key)?;
        io::Write::write_all(&mut file, &value)?;
    }
    io::Write::flush(&mut file)
}

/// Values: 4 bytes of version, 4 bytes that only this key, version and seed give, the rest a slice of a
/// random pool that begins where they say. All of it is compared at every read. Of a value shorter than 8
/// bytes one half is the lowest bits of the version, the other what only this key, version and seed give.
#[derive(Debug)]
pub struct Values {
    size: Size,
    seed: u64,
    pool: Box<[u8]>,
}

impl Values {
    /// Values of a length, of which the part `entropy` is random and the rest zeros, so that what compresses
    /// can gain.
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

    #[inline]
    fn tag(&self, index: u64, version: u32) -> u64 {
        mix((index ^ self.seed).wrapping_add(u64::from(version) << 32))
    }

    /// A value of up to 7 bytes, and zeros.
    #[inline]
    fn short(&self, index: u64, version: u32, length: usize) -> [u8; 8] {
        let half = 4 * length as u32;
        let version = u64::from(version) & low(half);
        let check = self.tag(index, version as u32) >> 32 & low(half);
        (check << half | version).to_le_bytes()
    }

    #[inline]
    fn version_bits(&self, index: u64) -> u32 {
        (4 * length(self.size, index) as u32).min(u32::BITS)
    }

    /// Body of a value of `length` bytes.
    #[inline]
    fn body(&self, tag: u64, length: usize) -> &[u8] {
        let start = tag as usize % POOL;
        self.pool.get(start..start + length.saturating_sub(8)).unwrap_or_default()
    }

    #[inline]
    fn write(&self, index: u64, version: u32, value: &mut Vec<u8>) {
        value.clear();
        let length = length(self.size, index);
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
        let length = length(self.size, index);
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

/// The lowest bits of a number.
#[inline]
fn low(bits: u32) -> u64 {
    (1 << bits) - 1
}

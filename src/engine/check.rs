//! How the data of an engine are checked.

use super::{Engine, Error, Fsync, KeyRange, Location, OpenOptions, Result, error::KeyName};
use std::{io, path::Path};

/// How the data at a path are checked, without any change to them.
#[derive(Debug)]
pub enum Check {
    /// By reading them.
    InPlace(fn(&Path) -> Result<CheckReport>),
    /// By opening a copy of them: the engine knows no way to look without changing something. It may end the
    /// process where they are damaged.
    OnCopy(fn(&Path) -> Result<CheckReport>),
}

/// Data in which nothing is wrong.
#[derive(Debug)]
pub struct CheckReport {
    /// What there is, in a few words.
    pub holds: String,
    /// What else one should know.
    pub remark: Option<String>,
}

impl Error {
    /// Whether the data are damaged; else it is something else that failed.
    pub fn is_damage(&self) -> bool {
        use io::ErrorKind::{InvalidData, UnexpectedEof};
        match self {
            Self::Corrupt { .. } | Self::CorruptWrite { .. } | Self::Library { .. } => true,
            Self::Value { source, .. } => source.is_damage(),
            Self::Io { source, .. } => matches!(source.kind(), InvalidData | UnexpectedEof),
            _ => false,
        }
    }
}

impl OpenOptions {
    /// How a copy is opened to be checked.
    pub fn for_check(copy: &Path) -> Self {
        Self::new(Location::Path(copy.into()), Fsync::No)
    }
}

impl CheckReport {
    /// Visits every pair of the engine, compares their number with its count, and closes it.
    ///
    /// # Errors
    ///
    /// Those of the engine, and two numbers that differ.
    pub fn by_scan(engine: Box<dyn Engine>) -> Result<Self> {
        let (mut keys, mut bytes, mut last) = (0_u64, 0_u64, Vec::new());
        let scanned = engine.scan(KeyRange::ALL, &mut |key, value| {
            keys += 1;
            bytes += (key.len() + value.len()) as u64;
            last.clear();
            last.extend_from_slice(key);
            std::ops::ControlFlow::Continue(())
        });
        match scanned {
            // The error names a block at most; the last key shows where the block is.
            Err(error) if error.is_damage() && keys > 0 => {
                let remark = format!("the scan ended behind {}", KeyName(&last));
                return Err(error.with_remark(engine.info().name, &remark));
            }
            scanned => scanned?,
        }
        let (info, told) = (engine.info(), engine.count()?);
        engine.close()?;
        if told != keys {
            let message = format!("its count of keys is {told}, and {keys} keys were found");
            return Err(Error::Library { engine: info.name, message });
        }
        Ok(Self { holds: format!("{keys} keys, {bytes} bytes of keys and values"), remark: None })
    }
}

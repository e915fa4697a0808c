//! Checks of an engine's data for corruption.

use super::{Engine, Error, Fsync, KeyRange, Location, OpenOptions, Result, error::KeyName};
use std::{io, path::Path};

/// Way in which `kvbench check` checks data for corruption: in place, or on a copy because opening the engine would
/// change them.
#[derive(Debug)]
pub enum Check {
    /// Reads the data at the path in place, without changing them.
    InPlace(fn(&Path) -> Result<CheckReport>),
    /// Opens a copy of the data: the engine cannot check data without changing something. It may end the process if
    /// the data are corrupt.
    OnCopy(fn(&Path) -> Result<CheckReport>),
}

/// Result of a check of data that found no corruption.
#[derive(Debug)]
pub struct CheckReport {
    /// Short description of the data, such as the number of keys.
    pub holds: String,
    /// Further remark about the data for the user.
    pub remark: Option<String>,
}

impl Error {
    /// Returns `true` if the error means, or may mean, that data are corrupt: also for every error of an engine's
    /// library that has no variant of its own.
    pub fn is_corruption(&self) -> bool {
        use io::ErrorKind::{InvalidData, UnexpectedEof};
        match self {
            Self::Corrupt { .. } | Self::CorruptWrite { .. } | Self::Library { .. } => true,
            Self::Value { source, .. } => source.is_corruption(),
            Self::Io { source, .. } => matches!(source.kind(), InvalidData | UnexpectedEof),
            _ => false,
        }
    }
}

impl OpenOptions {
    /// Returns the options with which the engine opens the copy of its data at `copy` for a check.
    pub fn for_check(copy: &Path) -> Self {
        Self::new(Location::Path(copy.into()), Fsync::No)
    }
}

impl CheckReport {
    /// Checks an engine: visits every pair, compares their number with the engine's count, and closes the engine.
    ///
    /// # Errors
    ///
    /// Errors of the engine, and a difference between the two numbers.
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
            // The error names a block at most; the last key shows the position of the block.
            Err(error) if error.is_corruption() && keys > 0 => {
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

    /// Replaces the remark of the report.
    pub fn with_remark(self, remark: &str) -> Self {
        Self { remark: Some(remark.into()), ..self }
    }
}

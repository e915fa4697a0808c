//! Refusal of writes after a failure that may have left files or a library in an unknown state.

use super::{Error, Result};
use std::{fmt, io, path::Path, sync::OnceLock};

/// Reason why all further writes are refused; not set while writes are accepted.
#[derive(Debug, Default)]
pub struct Refusal(OnceLock<String>);

impl Refusal {
    /// Refuses all further writes. The first reason stays.
    pub fn set(&self, why: impl FnOnce() -> String) {
        self.0.get_or_init(why);
    }

    /// Refuses all further writes because of `error`. The first reason stays.
    #[allow(dead_code, reason = "for engines that a build may lack")]
    pub fn set_after(&self, error: &dyn fmt::Display) {
        self.set(|| format!("refused since an earlier failure: {error}"));
    }

    /// Succeeds while writes are accepted.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] with the reason and `path`, the path of the data, if writes are refused.
    pub fn check(&self, path: &Path) -> Result<()> {
        match self.0.get() {
            None => Ok(()),
            Some(why) => Err(Error::io("write", path)(io::Error::other(why.as_str()))),
        }
    }
}

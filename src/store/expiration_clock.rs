//! Checks of expiration times against one reading of the clock.

use super::Error;
use crate::engine::{
    self,
    key_value_headers::{self, Entry},
};
use std::{
    cell::Cell,
    time::{SystemTime, UNIX_EPOCH},
};

/// Time against which expirations are checked. The clock is read on first use, so reads of values without an
/// expiration time never read it.
#[derive(Default)]
pub struct ExpirationClock(Cell<u64>);

/// Expiration time of a value, compared with the time of an [`ExpirationClock`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expires {
    /// The expiration time has passed.
    Past,
    /// The expiration time is in the future, in milliseconds since 1970.
    At(u64),
}

impl ExpirationClock {
    /// Returns the time of this clock in milliseconds since 1970; reads the system's clock on the first call.
    pub fn now(&self) -> u64 {
        if self.0.get() == 0 {
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            self.0.set(u64::try_from(since.as_millis()).unwrap_or(u64::MAX));
        }
        self.0.get()
    }

    /// Returns the value in the stored value `stored` (`None`: absent) without its header, or `None` if it is absent or
    /// has expired.
    #[inline(always)]
    pub fn unexpired<'v>(&self, stored: Option<&'v [u8]>) -> Option<&'v [u8]> {
        match stored {
            Some(bytes) if key_value_headers::may_have_header(bytes) => {
                self.marked(bytes).map(|entry| entry.value)
            }
            plain => plain,
        }
    }

    /// Returns the value in the stored value `stored` (`None`: absent) with its expiration time, or `None` if it is
    /// absent or has expired.
    #[inline(always)]
    pub fn entry<'v>(&self, stored: Option<&'v [u8]>) -> Option<Entry<'v>> {
        match stored {
            Some(bytes) if key_value_headers::may_have_header(bytes) => self.marked(bytes),
            plain => plain.map(|value| Entry { value, deadline: 0 }),
        }
    }

    /// Returns whether the expiration time of the stored value `stored` has passed or when it comes, or `None` if the
    /// value does not expire.
    pub(super) fn expires(&self, stored: &[u8]) -> Option<Expires> {
        match key_value_headers::entry(stored).deadline {
            0 => None,
            deadline if deadline > self.now() => Some(Expires::At(deadline)),
            _ => Some(Expires::Past),
        }
    }

    /// Returns the value in `stored` with its expiration time, `None` if it has expired, or the error in `stored`:
    /// whether a value that cannot be read has expired is not known.
    pub fn each<'v>(&self, stored: engine::Result<&'v [u8]>) -> Option<Result<Entry<'v>, Error>> {
        match stored {
            Ok(value) => self.entry(Some(value)).map(Ok),
            Err(error) => Some(Err(error.into())),
        }
    }

    #[cold]
    fn marked<'v>(&self, stored: &'v [u8]) -> Option<Entry<'v>> {
        let entry = key_value_headers::entry(stored);
        (entry.deadline == 0 || entry.deadline > self.now()).then_some(entry)
    }
}

//! What is alive at one moment.

use super::Error;
use crate::engine::{
    self,
    key_value_headers::{self, Entry},
};
use std::{
    cell::Cell,
    time::{SystemTime, UNIX_EPOCH},
};

/// One moment: that of the first question that depends on it. Who reads only values without a deadline never
/// looks at the clock.
#[derive(Default)]
pub struct ExpirationClock(Cell<u64>);

/// An expiration time, at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expires {
    /// The expiration time has passed.
    Past,
    /// The expiration time is in the future, in milliseconds since 1970.
    At(u64),
}

impl ExpirationClock {
    /// Milliseconds since 1970.
    pub fn now(&self) -> u64 {
        if self.0.get() == 0 {
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            self.0.set(u64::try_from(since.as_millis()).unwrap_or(u64::MAX));
        }
        self.0.get()
    }

    /// The value that is stored as `encode_key`, if it has not expired.
    #[inline(always)]
    pub fn unexpired<'v>(&self, stored: Option<&'v [u8]>) -> Option<&'v [u8]> {
        match stored {
            Some(bytes) if key_value_headers::may_have_header(bytes) => {
                self.marked(bytes).map(|entry| entry.value)
            }
            plain => plain,
        }
    }

    /// The same with its deadline.
    #[inline(always)]
    pub fn entry<'v>(&self, stored: Option<&'v [u8]>) -> Option<Entry<'v>> {
        match stored {
            Some(bytes) if key_value_headers::may_have_header(bytes) => self.marked(bytes),
            plain => plain.map(|value| Entry { value, deadline: 0 }),
        }
    }

    /// Returns when the value that is stored as `encode_key` expires; `None` if it does not.
    pub(super) fn expires(&self, stored: &[u8]) -> Option<Expires> {
        match key_value_headers::entry(stored).deadline {
            0 => None,
            deadline if deadline > self.now() => Some(Expires::At(deadline)),
            _ => Some(Expires::Past),
        }
    }

    /// Returns what [`ExpirationClock::entry`] does, or the error of a value that cannot be read: whether that has expired is not
    /// known.
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

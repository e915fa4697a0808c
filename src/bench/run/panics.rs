//! Panics of an engine, as errors of the cell that is measured.

use std::{
    any::Any,
    panic::{self, AssertUnwindSafe},
};

/// Returns the result of `call`, or the message of its panic.
pub(super) fn caught<T>(call: impl FnOnce() -> T) -> Result<T, String> {
    // A cell in which something panicked has failed, so no later result depends on what the panic left behind.
    panic::catch_unwind(AssertUnwindSafe(call)).map_err(|payload| message(&*payload))
}

/// Returns the message of a panic from its payload.
pub(super) fn message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    format!("panic: {}", text.unwrap_or("without a message"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_of_a_panic_is_an_error() {
        let place = 7;
        assert_eq!(caught(|| place), Ok(7));
        assert_eq!(caught(|| panic!("fixed")), Err::<(), _>("panic: fixed".into()));
        assert_eq!(caught(|| panic!("place {place}")), Err::<(), _>("panic: place 7".into()));
    }
}

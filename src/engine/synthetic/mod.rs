//! Engines of the measuring itself. They are in no list of stores, but can be asked for by name.

#[cfg(target_os = "linux")]
pub mod calibration;
mod expected;
#[cfg(feature = "fault-injection")]
pub(super) mod faulty;
mod noop;
#[cfg(all(feature = "fault-injection", feature = "sled"))]
pub(super) mod sled_flush_only;
#[cfg(feature = "fault-injection")]
mod slowed;

use super::{Engine, Error, Info, Kind, OpenOptions, Result};
use std::sync::Arc;

pub use expected::Expected;
pub use noop::NOTHING;

/// Whether `store` measures the harness.
pub fn is_reference(store: &str) -> bool {
    store == NOTHING
}

/// The description of a store of this build or of a reference.
pub fn info(store: &str) -> Option<&'static Info> {
    match is_reference(store) {
        true => Some(&noop::INFO),
        false => Kind::find(store).map(|kind| kind.info),
    }
}

/// A reference that can be served, though it is in no list.
pub fn kind(store: &str) -> Option<&'static Kind> {
    #[cfg(target_os = "linux")]
    if store == calibration::CALIBRATION {
        return Some(&calibration::KIND);
    }
    let _ = store;
    None
}

/// Opens a store of this build or a reference, which answers reads with what is `expected`.
pub fn open(store: &str, options: &OpenOptions, expected: &Arc<dyn Expected>) -> Result<Box<dyn Engine>> {
    if is_reference(store) {
        return Ok(noop::open(Arc::clone(expected)));
    }
    match Kind::find(store).or_else(|| kind(store)) {
        #[cfg(feature = "fault-injection")]
        Some(kind) => kind.open(options).map(|engine| slowed::as_asked(store, engine)),
        #[cfg(not(feature = "fault-injection"))]
        Some(kind) => kind.open(options),
        None => Err(Error::Library { engine: "bench", message: format!("this build has no store {store}") }),
    }
}

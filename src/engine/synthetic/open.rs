//! Selection of a synthetic engine by its name.

use super::{Expected, NOTHING, noop};
use crate::engine::{Engine, Error, Info, Kind, OpenOptions, Result};
use std::sync::Arc;

/// Returns `true` if `store` is the no-op engine, which measures the harness overhead.
pub fn is_reference(store: &str) -> bool {
    store == NOTHING
}

/// Returns the description of a store of this build, of an engine for tests or of the no-op engine. Returns `None` for
/// other names, also for that of the calibration engine.
pub fn info(store: &str) -> Option<&'static Info> {
    match is_reference(store) {
        true => Some(&noop::INFO),
        false => Kind::find(store).map(|kind| kind.info),
    }
}

/// Returns the calibration engine, which a server can serve though it is in no list of stores, if `store` is its name.
/// Returns `None` for other names, and on other systems than Linux.
pub fn kind(store: &str) -> Option<&'static Kind> {
    #[cfg(target_os = "linux")]
    if store == super::calibration::CALIBRATION {
        return Some(&super::calibration::KIND);
    }
    let _ = store;
    None
}

/// Opens a store of this build or a synthetic engine; the no-op engine answers reads from `expected`.
///
/// # Errors
///
/// Fails if this build has no such store, and with errors of [`Kind::open`].
pub fn open(store: &str, options: &OpenOptions, expected: &Arc<dyn Expected>) -> Result<Box<dyn Engine>> {
    if is_reference(store) {
        return Ok(noop::open(Arc::clone(expected)));
    }
    match Kind::find(store).or_else(|| kind(store)) {
        #[cfg(feature = "fault-injection")]
        Some(kind) => kind.open(options).map(|engine| super::slowed::as_asked(store, engine)),
        #[cfg(not(feature = "fault-injection"))]
        Some(kind) => kind.open(options),
        None => Err(Error::Library { engine: "bench", message: format!("this build has no store {store}") }),
    }
}

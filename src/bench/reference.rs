//! The engine that does nothing: what remains of a measurement is the price of the harness.

use super::data::Data;
use crate::engine::{
    Batch, Caveat, Compression, Engine, Error, Family, Info, KeyRange, Kind, Loss, OpenOptions, Result,
    VisitPair, VisitValue,
};
use std::{cell::RefCell, sync::Arc};

/// Its name. It is in no list of stores, but can be asked for.
pub const NOTHING: &str = "nothing";

static INFO: Info = Info {
    name: NOTHING,
    library: "none",
    family: Family::HashTable,
    ordered: false,
    in_memory: true,
    constant_count: true,
    compression: &[Compression::None],
    cache: "not used",
    loss: [Loss { kill: "everything", power_cut: "everything" }; 3],
    caveats: &[Caveat::new(
        "stores nothing: it answers a read with the value that the harness expects, made on the spot",
    )],
};

/// Whether `store` measures the harness.
pub fn is_reference(store: &str) -> bool {
    store == NOTHING
}

/// The description of a store of this build or of the reference.
pub fn info(store: &str) -> Option<&'static Info> {
    match is_reference(store) {
        true => Some(&INFO),
        false => Kind::find(store).map(|kind| kind.info),
    }
}

/// Opens a store of this build or the reference.
pub(super) fn open(store: &str, options: &OpenOptions, data: &Arc<Data>) -> Result<Box<dyn Engine>> {
    if is_reference(store) {
        return Ok(Box::new(Nothing { data: Arc::clone(data) }));
    }
    match Kind::find(store) {
        Some(kind) => kind.open(options),
        None => Err(Error::Library { engine: "bench", message: format!("this build has no store {store}") }),
    }
}

struct Nothing {
    data: Arc<Data>,
}

thread_local! {
    /// The value that is being made.
    static VALUE: RefCell<Vec<u8>> = RefCell::default();
}

impl Engine for Nothing {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn key_limits(&self) -> (usize, usize) {
        (0, usize::MAX)
    }

    fn is_memory_only(&self) -> bool {
        true
    }

    fn read(&self, keys: &[&[u8]], visit: &mut VisitValue<'_>) -> Result<()> {
        VALUE.with_borrow_mut(|value| {
            for (place, key) in keys.iter().enumerate() {
                let index = self.data.keys().and_then(|keys| keys.number(key));
                let index = index.filter(|&index| index < self.data.capacity());
                let value = index.map(|index| {
                    self.data.value(index, 0, value);
                    value.as_slice()
                });
                if visit(place, value).is_break() {
                    break;
                }
            }
        });
        Ok(())
    }

    fn write(&self, _: &Batch<'_>, _: bool) -> Result<()> {
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn scan(&self, _: KeyRange<'_>, _: &mut VisitPair<'_>) -> Result<()> {
        Ok(())
    }

    fn count(&self) -> Result<u64> {
        Ok(0)
    }

    fn disk_size(&self) -> Result<u64> {
        Ok(0)
    }

    fn close(&self) -> Result<()> {
        Ok(())
    }
}

//! No-op engine: it stores nothing, and answers reads and scans with the data that the harness expects, so that a
//! measurement of the engine shows the harness overhead.

use super::expected_data::Expected;
use crate::engine::{
    Batch, Capabilities, Caveat, Compression, Engine, Family, FsyncSupport, Info, KeyRange, Loss, OpenFiles,
    Result, Status, VisitPair, VisitValue, Writers,
};
use std::{
    cell::RefCell,
    ops::Bound,
    sync::{Arc, OnceLock},
};

/// Name of the no-op engine, which measures the harness overhead.
pub const NOTHING: &str = "nothing";

pub(super) static INFO: Info = Info {
    name: NOTHING,
    library: "none",
    own_format: None,
    family: Family::HashTable,
    status: Status::Synthetic,
    needs: &[],
    capabilities: Capabilities {
        ordered: true,
        in_memory: true,
        memory_resident: true,
        constant_count: true,
        counts_allocations: true,
        ..Capabilities::NONE
    },
    writers: Writers::Concurrent,
    fsync: FsyncSupport::FixedAtOpen,
    key_length: (0, usize::MAX),
    compression: &[Compression::None],
    cache: "not used",
    open_files: OpenFiles::always(0),
    cluster_flag: None,
    loss: [Loss::EVERYTHING; 3],
    caveats: &[Caveat::new(
        "stores nothing: it answers a read with the value that the harness expects, and a scan with the values of \
        the keys that follow",
    )],
    same_design: &[],
    log_targets: &[],
};

/// Opens the no-op engine, which answers reads with the data in `expected`.
pub(super) fn open(expected: Arc<dyn Expected>) -> Box<dyn Engine> {
    Box::new(Nothing { expected, keys: OnceLock::new() })
}

struct Nothing {
    expected: Arc<dyn Expected>,
    /// Keys that scans visit; the first scan takes them from the expected data.
    keys: OnceLock<Vec<Vec<u8>>>,
}

thread_local! {
    /// Buffer of the calling thread for the value that is being generated.
    static VALUE: RefCell<Vec<u8>> = RefCell::default();
}

impl Engine for Nothing {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn is_memory_only(&self) -> bool {
        true
    }

    fn read(&self, keys: &[&[u8]], visit: &mut VisitValue<'_>) -> Result<()> {
        VALUE.with_borrow_mut(|value| {
            for (place, key) in keys.iter().enumerate() {
                let found = self.expected.value(key, value);
                let value = found.then_some(value.as_slice());
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

    fn scan(&self, range: KeyRange<'_>, visit: &mut VisitPair<'_>) -> Result<()> {
        let keys = self.keys.get_or_init(|| self.expected.keys());
        let begin = match range.start {
            Bound::Included(key) | Bound::Excluded(key) => {
                keys.partition_point(|other| other.as_slice() < key)
            }
            Bound::Unbounded => 0,
        };
        // A key that was inserted after the first scan exists, too.
        let start = match range.start {
            Bound::Included(key) if keys.get(begin).is_none_or(|first| first != key) => Some(key),
            _ => None,
        };
        let inside = keys.iter().skip(begin).map(Vec::as_slice).take_while(|key| range.contains(key));
        VALUE.with_borrow_mut(|value| {
            for key in start.into_iter().chain(inside) {
                if self.expected.value(key, value) && visit(key, value).is_break() {
                    break;
                }
            }
        });
        Ok(())
    }

    fn count(&self) -> Result<u64> {
        Ok(0)
    }

    fn disk_size(&self) -> Result<u64> {
        Ok(0)
    }
}

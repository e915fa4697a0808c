//! `sled-flush-only`: sled as applications commonly use it, with `flush()` as the only sync. Only in builds for
//! tests, to check that a power cut test finds the lost writes.

use crate::engine::{
    Batch, Caveat, Engine, Error, Info, KeyRange, Kind, Loss, OpenOptions, Result, Status, VisitPair,
    VisitValue, WriteOp,
};
use std::ops::ControlFlow;

/// Registration of the engine `sled-flush-only`.
pub const KIND: Kind = Kind { info: &INFO, open, ..crate::engine::stores::sled::KIND };

static INFO: Info = Info {
    name: "sled-flush-only",
    status: Status::Synthetic,
    // This is wrong on purpose: it is what applications assume of sled's `flush`.
    loss: [Loss::NOTHING; 3],
    caveats: &[Caveat::new("loses what it acknowledged, on purpose")],
    ..*crate::engine::stores::sled::KIND.info
};

struct FlushOnly(sled::Db);

fn open(options: &OpenOptions) -> Result<Box<dyn Engine>> {
    let path = options.location.on_disk(INFO.name)?;
    let config = sled::Config::new().path(path).flush_every_ms(None);
    Ok(Box::new(FlushOnly(config.open().map_err(fail)?)))
}

fn fail(error: sled::Error) -> Error {
    Error::library(INFO.name, error)
}

impl Engine for FlushOnly {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn read(&self, keys: &[&[u8]], visit: &mut VisitValue<'_>) -> Result<()> {
        for (index, key) in keys.iter().enumerate() {
            let value = self.0.get(key).map_err(fail)?;
            if let ControlFlow::Break(()) = visit(index, value.as_deref()) {
                break;
            }
        }
        Ok(())
    }

    fn write(&self, batch: &Batch<'_>, sync: bool) -> Result<()> {
        let mut converted = sled::Batch::default();
        let (clear, ops) = batch.after_clear();
        if clear {
            self.0.clear().map_err(fail)?;
        }
        for op in ops {
            match *op {
                WriteOp::Put { key, value } => converted.insert(key, value),
                WriteOp::Delete { key } => converted.remove(key),
                WriteOp::Clear => {}
            }
        }
        self.0.apply_batch(converted).map_err(fail)?;
        if sync { self.sync() } else { Ok(()) }
    }

    fn sync(&self) -> Result<()> {
        self.0.flush().map(drop).map_err(fail)
    }

    fn scan(&self, range: KeyRange<'_>, visit: &mut VisitPair<'_>) -> Result<()> {
        if range.is_empty() {
            return Ok(());
        }
        for pair in self.0.range::<&[u8], _>((range.start, range.end)) {
            let (key, value) = pair.map_err(fail)?;
            if let ControlFlow::Break(()) = visit(&key, &value) {
                break;
            }
        }
        Ok(())
    }

    fn count(&self) -> Result<u64> {
        Ok(self.0.len() as u64)
    }

    fn disk_size(&self) -> Result<u64> {
        self.0.size_on_disk().map_err(fail)
    }
}

//! One commit in the making.

use super::Error;
use crate::engine::{self, Batch, Engine};
use bumpalo::Bump;
use hashbrown::HashMap;
use std::ops::ControlFlow;

/// What a group of commands reads and writes before it is committed: the engine as it is, under the
/// group's own writes. `'g` is the life of the group: keys and values are borrowed from its requests.
pub struct Txn<'g> {
    engine: &'g dyn Engine,
    arena: &'g Bump,
    batch: Batch<'g>,
    overlay: Option<Overlay<'g>>,
    fault: Option<&'g str>,
    min_key: usize,
    max_key: usize,
}

/// The group's own writes by key. Made only when a command of the group reads, since a group of
/// plain SETs needs none.
#[derive(Default)]
struct Overlay<'g> {
    cleared: bool,
    values: HashMap<&'g [u8], Option<&'g [u8]>>,
}

impl<'g> Overlay<'g> {
    fn apply(&mut self, op: engine::Op<'g>) {
        match op {
            engine::Op::Put { key, value } => {
                self.values.insert(key, Some(value));
            }
            engine::Op::Delete { key } => {
                self.values.insert(key, None);
            }
            engine::Op::Clear => {
                self.cleared = true;
                self.values.clear();
            }
        }
    }
}

impl<'g> Txn<'g> {
    pub(super) fn new(
        engine: &'g dyn Engine,
        arena: &'g Bump,
        batch: Batch<'g>,
        fault: Option<&'g str>,
    ) -> Self {
        let (min_key, max_key) = engine.key_limits();
        Self { engine, arena, batch, overlay: None, fault, min_key, max_key }
    }

    pub(super) fn into_batch(self) -> Batch<'g> {
        self.batch
    }

    /// Ends what one connection wants to be visible together.
    pub(super) fn end_part(&mut self) {
        self.batch.end_part();
    }

    /// Calls `f` with the value of `key` as the commands before left it.
    pub fn read<R>(&mut self, key: &[u8], f: impl FnOnce(Option<&[u8]>) -> R) -> Result<R, Error> {
        let overlay = self.overlay.get_or_insert_with(|| {
            let mut overlay = Overlay::default();
            self.batch.ops().iter().for_each(|&op| overlay.apply(op));
            overlay
        });
        if let Some(value) = overlay.values.get(key) {
            return Ok(f(*value));
        }
        if overlay.cleared {
            return Ok(f(None));
        }
        let (mut f, mut result) = (Some(f), None);
        self.engine.read(&[key], &mut |_, value| {
            result = f.take().map(|f| f(value));
            ControlFlow::Continue(())
        })?;
        result.ok_or_else(|| {
            let engine = self.engine.info().name;
            Error::Engine(engine::Error::Library { engine, message: "answered no read".into() })
        })
    }

    /// Whether `key` is there.
    pub fn contains(&mut self, key: &[u8]) -> Result<bool, Error> {
        self.read(key, |value| value.is_some())
    }

    /// Fails when the engine cannot hold `key` or the store takes no writes. A command that writes
    /// several keys checks all of them first: it must not stop half-way.
    #[inline]
    pub fn check(&self, key: &[u8]) -> Result<(), Error> {
        self.check_writable()?;
        if (self.min_key..=self.max_key).contains(&key.len()) {
            return Ok(());
        }
        let (engine, len) = (self.engine.info().name, key.len());
        Err(engine::Error::KeyLength { engine, len, min: self.min_key, max: self.max_key }.into())
    }

    /// Sets `key`. Fails as [`Txn::check`] does.
    #[inline]
    pub fn put(&mut self, key: &'g [u8], value: &'g [u8]) -> Result<(), Error> {
        self.check(key)?;
        self.push(engine::Op::Put { key, value });
        Ok(())
    }

    /// Removes `key`. A key the engine cannot hold is not there.
    pub fn delete(&mut self, key: &'g [u8]) -> Result<(), Error> {
        self.check_writable()?;
        if self.check(key).is_ok() {
            self.push(engine::Op::Delete { key });
        }
        Ok(())
    }

    /// Removes every key.
    pub fn clear(&mut self) -> Result<(), Error> {
        self.check_writable()?;
        self.push(engine::Op::Clear);
        Ok(())
    }

    /// Copies a value that no request holds, to be put.
    pub fn keep(&self, value: &[u8]) -> &'g [u8] {
        self.arena.alloc_slice_copy(value)
    }

    #[inline]
    fn push(&mut self, op: engine::Op<'g>) {
        self.batch.push(op);
        if let Some(overlay) = &mut self.overlay {
            overlay.apply(op);
        }
    }

    #[inline]
    fn check_writable(&self) -> Result<(), Error> {
        match self.fault {
            None => Ok(()),
            Some(cause) => Err(Error::Refused(cause.into())),
        }
    }
}

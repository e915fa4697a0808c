//! One commit in the making.

use super::{
    Error, Store,
    database::Database,
    expiration_clock::{ExpirationClock, Expires},
    own::MarkerRecords,
    raw_scan::Source,
    watch::Watch,
    write_set::WriteSet,
    written::CommitPayload,
};
use crate::engine::{
    self, Batch, Transaction,
    key_value_headers::{self, Entry},
};
use bumpalo::Bump;
use std::{collections::HashSet, ops::ControlFlow};

/// What a group of commands reads and writes before it is committed: the engine as it is, under the
/// group's own writes. `'g` is the life of the group: keys and values are borrowed from its requests.
pub struct Txn<'g> {
    store: &'g Store,
    arena: &'g Bump,
    batch: Batch<'g>,
    overlay: Option<WriteSet<'g>>,
    fault: Option<&'g str>,
    min_key: usize,
    max_key: usize,
    space: Database,
    moment: ExpirationClock,
    /// Values that were given a deadline, with their stored keys.
    deadlines: Vec<(u64, &'g [u8])>,
    /// The layer's own records.
    own: MarkerRecords,
    /// The same when this began.
    own_before: MarkerRecords,
    /// Whether some client watches keys.
    watched: bool,
    /// Stored keys of which it was noted that they are written.
    touched: Vec<&'g [u8]>,
    lending: Lending,
    /// Whether nothing of this is to be committed.
    given_up: bool,
    /// Whether others write to the same data.
    shared: bool,
    /// What is read and committed with then, from the first read on.
    transaction: Option<Box<dyn Transaction + 'g>>,
}

/// Which values are lent to commands.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Lending {
    /// All.
    #[default]
    All,
    /// Those of so many bytes at most.
    UpTo(usize),
    /// All, and others may write to the engine meanwhile.
    Patient,
}

impl<'g> Txn<'g> {
    pub(super) fn new(store: &'g Store, arena: &'g Bump, batch: Batch<'g>, own: MarkerRecords) -> Self {
        let (min_key, max_key) = store.engine().key_limits();
        let (fault, watched) = (store.read_only_cause(), store.watches().any());
        let (space, moment, deadlines) = (Database::default(), ExpirationClock::default(), Vec::new());
        Self {
            store,
            arena,
            batch,
            overlay: None,
            fault,
            min_key,
            max_key,
            space,
            moment,
            deadlines,
            own,
            own_before: own,
            watched,
            touched: Vec::new(),
            lending: Lending::default(),
            given_up: false,
            shared: store.is_shared(),
            transaction: None,
        }
    }

    pub(super) fn into_written(self) -> CommitPayload<'g> {
        let own = (self.own != self.own_before).then_some(self.own);
        let Self { batch, deadlines, touched, transaction, .. } = self;
        CommitPayload { batch, deadlines, own, touched, transaction }
    }

    pub(super) fn store(&self) -> &'g Store {
        self.store
    }

    /// Where copies are kept up to the commit.
    pub(super) fn arena(&self) -> &'g Bump {
        self.arena
    }

    /// The layer's own records, with those of this.
    pub(super) fn own(&self) -> MarkerRecords {
        self.own
    }

    /// The group's own writes, and the time.
    pub(super) fn own_writes(&mut self) -> (&WriteSet<'g>, &ExpirationClock) {
        let Self { batch, moment, overlay, .. } = self;
        (overlay.get_or_insert_with(|| WriteSet::of(batch)), moment)
    }

    /// The group's own writes, the time, and what to scan below them.
    pub(super) fn layers(&mut self) -> Result<(&WriteSet<'g>, &ExpirationClock, Source<'_, 'g>), Error> {
        self.begin()?;
        let Self { batch, moment, overlay, transaction, .. } = self;
        let below = match transaction {
            Some(transaction) => Source::Shared(&mut **transaction, self.store.info().ordered),
            None => self.store.source(),
        };
        Ok((overlay.get_or_insert_with(|| WriteSet::of(batch)), moment, below))
    }

    /// Begins to read what others write to.
    #[inline]
    pub(super) fn begin(&mut self) -> Result<(), Error> {
        if self.shared && self.transaction.is_none() {
            self.transaction = self.store.engine().begin()?;
        }
        Ok(())
    }

    /// Ends what one connection wants to be visible together.
    pub(super) fn end_client(&mut self) {
        self.batch.end_client();
        self.moment = ExpirationClock::default();
        self.space = Database::default();
        self.lending = Lending::default();
    }

    /// Ends a request of a part, which others follow. Returns `true` if it is committed by itself: where there are slots.
    pub fn end_request(&mut self) -> bool {
        let is_alone = self.store.is_sharded();
        if is_alone {
            self.batch.end_client();
        }
        is_alone
    }

    /// Lends values of at most `most` bytes, up to the end of the part: to ask for a longer one is [`Error::Long`].
    pub fn lend_up_to(&mut self, most: usize) {
        self.lending = Lending::UpTo(most);
    }

    /// Lends long values as [`Engine::read_large`](engine::Engine::read_large) does, up to the end of the part.
    pub fn lend_patiently(&mut self) {
        self.lending = Lending::Patient;
    }

    /// Fails with [`Error::Long`] when a value of so many bytes would not be lent.
    pub fn check_length(&self, length: usize) -> Result<(), Error> {
        match self.lending {
            Lending::UpTo(most) if length > most => Err(Error::Long),
            _ => Ok(()),
        }
    }

    /// Returns the number of parts and requests that were ended.
    pub(super) fn parts(&self) -> usize {
        self.batch.client_ends().len()
    }

    /// Has nothing of this committed: a part that is alone in its group is told of [`Error::Long`].
    pub fn give_up(&mut self) {
        self.given_up = true;
    }

    pub(super) fn is_given_up(&self) -> bool {
        self.given_up
    }

    /// Whether the thread that commits may be the one that serves clients.
    pub fn is_memory_only(&self) -> bool {
        self.store.is_memory_only()
    }

    /// Chooses the database of what follows, up to the end of the part.
    pub fn select(&mut self, space: Database) {
        self.space = space;
    }

    /// The database chosen.
    pub fn space(&self) -> Database {
        self.space
    }

    /// The time of this part, in milliseconds since 1970.
    pub fn now(&self) -> u64 {
        self.moment.now()
    }

    /// Calls `f` with the value of `decode_key` as the commands before left it.
    pub fn read<R>(&mut self, key: &[u8], f: impl FnOnce(Option<&[u8]>) -> R) -> Result<R, Error> {
        self.entry(key, |entry| f(entry.map(|entry| entry.value)))
    }

    /// The same with its deadline.
    pub fn entry<R>(&mut self, key: &[u8], f: impl FnOnce(Option<Entry<'_>>) -> R) -> Result<R, Error> {
        let most = if let Lending::UpTo(most) = self.lending { most } else { usize::MAX };
        self.entry_at(key, |entry| match entry {
            Some(entry) if entry.value.len() > most => Err(Error::Long),
            entry => Ok(f(entry)),
        })?
    }

    /// What `decode_key` has, however long that is.
    fn entry_at<R>(&mut self, key: &[u8], f: impl FnOnce(Option<Entry<'_>>) -> R) -> Result<R, Error> {
        if self.space == Database::default() && !key_value_headers::may_have_header(key) {
            return self.entry_of(key, f);
        }
        let arena = Bump::new();
        self.entry_of(self.space.encode_key(key, &arena), f)
    }

    fn entry_of<R>(&mut self, stored: &[u8], f: impl FnOnce(Option<Entry<'_>>) -> R) -> Result<R, Error> {
        self.read_stored(stored, |moment, value| f(moment.entry(value)))
    }

    fn read_stored<R>(
        &mut self,
        stored: &[u8],
        f: impl FnOnce(&ExpirationClock, Option<&[u8]>) -> R,
    ) -> Result<R, Error> {
        let (store, lending) = (self.store, self.lending);
        self.begin()?;
        let Self { batch, moment, overlay, transaction, .. } = self;
        let overlay = overlay.get_or_insert_with(|| WriteSet::of(batch));
        if let Some(value) = overlay.get(stored) {
            return Ok(f(moment, value?));
        }
        if overlay.cleared {
            return Ok(f(moment, None));
        }
        let (mut f, mut result) = (Some(f), None);
        let visit: &mut engine::VisitValue<'_> = &mut |_, value| {
            result = f.take().map(|f| f(moment, value));
            ControlFlow::Continue(())
        };
        match (transaction, lending) {
            (Some(transaction), _) => transaction.read(&[stored], visit)?,
            (None, Lending::Patient) => store.read_long(&[stored], visit)?,
            (None, _) => store.read(&[stored], visit)?,
        }
        result.ok_or_else(|| {
            let engine = store.info().name;
            Error::Engine(engine::Error::Library { engine, message: "answered no read".into() })
        })
    }

    /// Returns `true` if `decode_key` exists, also if its value cannot be read: whether that has expired is not known.
    pub fn contains(&mut self, key: &[u8]) -> Result<bool, Error> {
        match self.entry_at(key, |entry| entry.is_some()) {
            Err(error) if error.is_unreadable_value() => Ok(true),
            outcome => outcome,
        }
    }

    /// Fails when the engine cannot hold `decode_key` or the store takes no writes. A command that writes
    /// several keys checks all of them first: it must not stop half-way.
    #[inline]
    pub fn check_key(&self, key: &[u8]) -> Result<(), Error> {
        self.check_writable()?;
        let head = self.header_len(key);
        if (self.min_key..=self.max_key).contains(&(key.len() + head)) {
            return Ok(());
        }
        let (engine, len) = (self.store.info().name, key.len());
        let (min, max) = (self.min_key.saturating_sub(head), self.max_key - head);
        Err(engine::Error::KeyLength { engine, len, min, max }.into())
    }

    #[inline]
    fn header_len(&self, key: &[u8]) -> usize {
        let has_head = self.space != Database::default() || key_value_headers::needs_header(key);
        if has_head { key_value_headers::KEY_HEADER } else { 0 }
    }

    /// Sets `decode_key` to a value that does not expire. Fails as [`Txn::check_key`] does.
    #[inline]
    pub fn put(&mut self, key: &'g [u8], value: &'g [u8]) -> Result<(), Error> {
        let plain = self.space == Database::default()
            && !key_value_headers::may_have_header(key)
            && !key_value_headers::may_have_header(value)
            && self.fault.is_none()
            && (self.min_key..=self.max_key).contains(&key.len());
        if !plain {
            return self.put_slow_path(key, value);
        }
        self.push(engine::WriteOp::Put { key, value });
        Ok(())
    }

    /// What may need a head, or be refused.
    #[cold]
    fn put_slow_path(&mut self, key: &'g [u8], value: &'g [u8]) -> Result<(), Error> {
        self.check_key(key)?;
        let value = if key_value_headers::needs_header(value) { self.with_head(0, value) } else { value };
        let key = self.stored_to_put(key);
        self.push(engine::WriteOp::Put { key, value });
        Ok(())
    }

    /// How `decode_key` is stored.
    fn stored_to_put(&mut self, key: &'g [u8]) -> &'g [u8] {
        if self.header_len(key) > 0 {
            self.put_marker(MarkerRecords::KEY_HEADERS);
        }
        self.space.encode_key(key, self.arena)
    }

    /// Puts a record of the layer, once.
    #[cold]
    fn put_marker(&mut self, own: MarkerRecords) {
        if let Some(key) = self.own.add(own) {
            self.push_untracked(engine::WriteOp::Put { key, value: b"1" });
        }
    }

    /// Sets `decode_key` to a value that expires at `deadline`, in milliseconds since 1970; 0 is never. Fails as
    /// [`Txn::check_key`] does.
    pub fn put_with_expiration(&mut self, key: &'g [u8], value: &[u8], deadline: u64) -> Result<(), Error> {
        if deadline == 0 {
            return self.put(key, self.copy_to_arena(value));
        }
        self.check_key(key)?;
        self.put_marker(MarkerRecords::EXPIRATIONS);
        let (key, value) = (self.stored_to_put(key), self.with_head(deadline, value));
        self.push(engine::WriteOp::Put { key, value });
        self.deadlines.push((deadline, key));
        Ok(())
    }

    fn with_head(&self, deadline: u64, value: &[u8]) -> &'g [u8] {
        let head = key_value_headers::value_head(deadline);
        let bytes = self.arena.alloc_slice_fill_default(head.len() + value.len());
        let (before, after) = bytes.split_at_mut(head.len());
        before.copy_from_slice(&head);
        after.copy_from_slice(value);
        bytes
    }

    /// Sets `decode_key` to a value that cannot be read, in place of one that cannot be read either.
    pub(super) fn put_corrupt(&mut self, key: &'g [u8]) -> Result<(), Error> {
        self.check_key(key)?;
        let key = self.stored_to_put(key);
        self.push(engine::WriteOp::Put { key, value: &key_value_headers::CORRUPT });
        Ok(())
    }

    /// Removes `decode_key`. A key the engine cannot hold is not there.
    pub fn delete(&mut self, key: &'g [u8]) -> Result<(), Error> {
        self.check_writable()?;
        if self.check_key(key).is_ok() {
            let key = self.space.encode_key(key, self.arena);
            self.push(engine::WriteOp::Delete { key });
        }
        Ok(())
    }

    /// Removes what is stored as `encode_key` if it has expired. Returns `None` if there is no value, or one that does not
    /// expire.
    pub(super) fn delete_if_expired(&mut self, stored: &'g [u8]) -> Result<Option<Expires>, Error> {
        self.check_writable()?;
        let found =
            self.read_stored(stored, |moment, value| value.and_then(|value| moment.expires(value)))?;
        if found == Some(Expires::Past) {
            self.push_untracked(engine::WriteOp::Delete { key: stored });
        }
        Ok(found)
    }

    /// Removes every key of every database.
    pub fn clear(&mut self) -> Result<(), Error> {
        self.check_writable()?;
        self.touch_watched()?;
        self.push(engine::WriteOp::Clear);
        self.deadlines.clear();
        if !self.shared {
            self.own = MarkerRecords::default();
        }
        Ok(())
    }

    /// Copies a key or a value that no request holds, to be put.
    pub fn copy_to_arena(&self, bytes: &[u8]) -> &'g [u8] {
        self.arena.alloc_slice_copy(bytes)
    }

    /// Whether nothing was read or written yet.
    pub(super) fn is_untouched(&self) -> bool {
        self.batch.is_empty() && self.transaction.is_none()
    }

    /// Notes for those who watch keys that all keys are removed.
    pub(super) fn touch_watched(&mut self) -> Result<(), Error> {
        if self.watched { self.touch_all() } else { Ok(()) }
    }

    /// What clients watch is changed, where it is there. Where there are slots they cannot be looked at together: all of
    /// it counts.
    #[cold]
    fn touch_all(&mut self) -> Result<(), Error> {
        for stored in self.store.watches().keys() {
            let is_there = |txn: &mut Self| match txn.entry_of(&stored, |entry| entry.is_some()) {
                Err(error) if error.index_of_value().is_some() => Ok(true),
                found => found,
            };
            if self.store.is_sharded() || is_there(self)? {
                self.touch(self.copy_to_arena(&stored));
            }
        }
        Ok(())
    }

    #[cold]
    fn touch(&mut self, stored: &'g [u8]) {
        if self.store.watches().bump_version(stored) {
            self.touched.push(stored);
        }
    }

    /// Watches `decode_key`, for what is written after this, unless `watched` has it.
    pub fn watch(&mut self, key: &[u8], watched: &HashSet<Watch>) -> Result<Option<Watch>, Error> {
        let (arena, watches) = (Bump::new(), self.store.watches());
        let stored = self.space.encode_key(key, &arena);
        if watched.contains(stored) {
            return Ok(None);
        }
        self.watched = true;
        let shared = self.shared;
        let found = self.read_stored(stored, |moment, value| {
            // Of no use elsewhere, and values may be long.
            let digest = if shared { watches.digest(value) } else { 0 };
            (digest, moment.entry(value).map_or(0, |entry| entry.deadline))
        });
        let (digest, deadline) = match found {
            // Writes of it are seen all the same.
            Err(error) if error.index_of_value().is_some() && !shared => (0, 0),
            found => found?,
        };
        Ok(Some(watches.add(stored, deadline, digest)))
    }

    /// Whether none of these was written since, nor has expired. Where others write to the same data, a value that was
    /// changed and changed back counts as unchanged: only its versions here are known.
    pub fn are_unchanged(&mut self, watched: &HashSet<Watch>) -> Result<bool, Error> {
        let watches = self.store.watches();
        for watch in watched {
            let is_over = watch.deadline != 0 && watch.deadline <= self.now();
            if is_over || !watches.is_unchanged(watch) {
                return Ok(false);
            }
            if self.shared
                && self.read_stored(&watch.stored, |_, value| watches.digest(value))? != watch.digest
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    #[inline]
    fn push(&mut self, op: engine::WriteOp<'g>) {
        if self.watched
            && let engine::WriteOp::Put { key, .. } | engine::WriteOp::Delete { key } = op
        {
            self.touch(key);
        }
        self.push_untracked(op);
    }

    /// The same for what no client has changed.
    #[inline]
    fn push_untracked(&mut self, op: engine::WriteOp<'g>) {
        self.batch.push(op);
        if let Some(overlay) = &mut self.overlay {
            overlay.apply(op);
        }
    }

    #[inline]
    pub(super) fn check_writable(&self) -> Result<(), Error> {
        match self.fault {
            None => Ok(()),
            Some(cause) => Err(Error::ReadOnly(cause.into())),
        }
    }
}

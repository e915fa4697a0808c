//! Execution of the commands of one commit group, up to its commit.

use super::{
    Error, Store,
    database_keys::{Database, MarkerRecords},
    expiration_clock::{ExpirationClock, Expires},
    raw_scan::Source,
    watch::{Touch, Watch},
    write_set::{CommitPayload, WriteSet},
};
use crate::engine::{
    self, Batch, Transaction,
    key_value_headers::{self, Entry},
};
use bumpalo::Bump;
use std::{cell::Cell, collections::HashSet, ops::ControlFlow};

/// Size in bytes of the copies of keys and values, with the unused rest of their memory, from which further requests
/// wait for the next commit; also that of the values that one commit request has read. A SETBIT copies the whole value,
/// and a BITCOUNT reads it.
pub const MAX_COPIED_OR_READ: usize = 32 << 20;

/// Reads and writes of a commit group before its commit: reads see the group's own writes, then the engine's
/// current state or, if other processes may write to the same data, the engine's transaction. `'g` is the lifetime of
/// the group: keys and values are borrowed from its requests.
pub struct Txn<'g> {
    store: &'g Store,
    arena: &'g Bump,
    /// Total length in bytes of the values that [`Txn::entry`] has read for the commit request that is running.
    read_bytes: usize,
    copied_bytes: Cell<usize>,
    /// `true` if the commit group must not be committed, because a transaction of a client copied too much.
    is_too_large: bool,
    batch: Batch<'g>,
    write_set: Option<WriteSet<'g>>,
    read_only_cause: Option<&'g str>,
    min_key: usize,
    max_key: usize,
    space: Database,
    clock: ExpirationClock,
    /// Expiration times that the commit group has set, each with its stored key.
    deadlines: Vec<(u64, &'g [u8])>,
    /// Marker records that the data hold, including those that the commit group writes.
    markers: MarkerRecords,
    /// Marker records (expiration times, key headers in use) of the data before the commit group; if `markers` differs at
    /// the end, the store's set is updated after the commit.
    markers_before: MarkerRecords,
    /// `true` if any client watches keys (WATCH).
    watched: bool,
    /// Marks of watched keys as modified by the commit group.
    touched: Vec<Touch<'g>>,
    /// `true` if other processes may write to the same data.
    shared: bool,
    /// Transaction for the reads and the commit if other processes may write to the same data; begun by the first
    /// read.
    transaction: Option<Box<dyn Transaction + 'g>>,
}

impl<'g> Txn<'g> {
    pub(super) fn new(store: &'g Store, arena: &'g Bump, batch: Batch<'g>, markers: MarkerRecords) -> Self {
        let (min_key, max_key) = store.engine().key_limits();
        let (read_only_cause, watched) = (store.read_only_cause(), store.watches.any());
        let (space, clock, deadlines) = (Database::default(), ExpirationClock::default(), Vec::new());
        Self {
            store,
            arena,
            read_bytes: 0,
            copied_bytes: Cell::new(0),
            is_too_large: false,
            batch,
            write_set: None,
            read_only_cause,
            min_key,
            max_key,
            space,
            clock,
            deadlines,
            markers,
            markers_before: markers,
            watched,
            touched: Vec::new(),
            shared: store.is_shared(),
            transaction: None,
        }
    }

    pub(super) fn into_payload(self) -> CommitPayload<'g> {
        let markers = (self.markers != self.markers_before).then_some(self.markers);
        let Self { batch, deadlines, touched, transaction, .. } = self;
        CommitPayload { batch, deadlines, markers, touched, transaction }
    }

    pub(super) fn store(&self) -> &'g Store {
        self.store
    }

    /// Returns the memory for copies of keys and values that must live until the commit.
    pub(super) fn arena(&self) -> &'g Bump {
        self.arena
    }

    /// Returns the marker records that the data hold, including those that the commit group writes.
    pub(super) fn markers(&self) -> MarkerRecords {
        self.markers
    }

    /// Returns the write set of the commit group, and the clock of the commit request that is running.
    pub(super) fn write_set_and_clock(&mut self) -> (&WriteSet<'g>, &ExpirationClock) {
        let Self { batch, clock, write_set, .. } = self;
        (write_set.get_or_insert_with(|| WriteSet::of(batch)), clock)
    }

    /// Returns the write set of the commit group, the clock of the commit request that is running, and the source to
    /// scan below the write set.
    pub(super) fn layers(&mut self) -> Result<(&WriteSet<'g>, &ExpirationClock, Source<'_, 'g>), Error> {
        self.begin()?;
        let Self { batch, clock, write_set, transaction, .. } = self;
        let below = match transaction {
            Some(transaction) => Source::Shared(&mut **transaction, self.store.info().capabilities.ordered),
            None => self.store.source(),
        };
        Ok((write_set.get_or_insert_with(|| WriteSet::of(batch)), clock, below))
    }

    /// Begins the engine's transaction, if other processes may write to the same data and none was begun yet.
    #[inline]
    pub(super) fn begin(&mut self) -> Result<(), Error> {
        if self.shared && self.transaction.is_none() {
            self.transaction = self.store.engine().begin()?;
        }
        Ok(())
    }

    /// Reads the values of stored keys in advance, which the commit group will probably read, because each read
    /// waits for the network. No effect if the engine has no transactions.
    pub(super) fn prefetch(&mut self, keys: &[Vec<u8>]) -> Result<(), Error> {
        if keys.is_empty() {
            return Ok(());
        }
        self.begin()?;
        if let Some(transaction) = &mut self.transaction {
            transaction.prefetch(&keys.iter().map(Vec::as_slice).collect::<Vec<_>>());
        }
        Ok(())
    }

    /// Ends a commit request: the next one has its own reading of the clock, has read nothing, and begins in database 0.
    pub(super) fn end_part(&mut self) {
        self.batch.end_part();
        self.read_bytes = 0;
        self.clock = ExpirationClock::default();
        self.space = Database::default();
    }

    /// Returns `true` if the copies of keys and values for this commit take 32 MiB or more: further commit requests then
    /// wait for the next commit. What was read does not matter here, because all replies of a commit group leave together.
    pub(super) fn has_copied_much(&self) -> bool {
        self.arena.allocated_bytes() >= MAX_COPIED_OR_READ
    }

    /// Returns `true` if the copies of keys and values for this commit take 32 MiB or more, or if the commit request that
    /// is running has read so much: its further requests then wait for another commit.
    pub fn has_reached_limit(&self) -> bool {
        self.arena.allocated_bytes().max(self.read_bytes) >= MAX_COPIED_OR_READ
    }

    /// Returns the total length in bytes of the values that were copied for this commit, with the keys of SWAPDB.
    pub fn copied_bytes(&self) -> usize {
        self.copied_bytes.get()
    }

    /// Makes the commit fail, without any write, because the transaction of a client (EXEC) copied too much.
    pub fn fail_too_large(&mut self) {
        self.is_too_large = true;
    }

    /// Returns `true` after [`Txn::fail_too_large`].
    pub(super) fn is_too_large(&self) -> bool {
        self.is_too_large
    }

    /// Ends a request that is followed by others of the same commit request. Returns `true` if the store has hash
    /// slots, so that the request is committed separately.
    pub fn end_request(&mut self) -> bool {
        let is_alone = self.store.is_sharded();
        if is_alone {
            self.batch.end_part();
        }
        is_alone
    }

    /// Returns the number of parts of the write batch that were ended: commit requests and, with hash slots, each
    /// request that other requests of its commit request follow.
    pub(super) fn part_count(&self) -> usize {
        self.batch.parts().len()
    }

    /// Selects the database of the following reads and writes, until the commit request ends.
    pub fn select(&mut self, space: Database) {
        self.space = space;
    }

    /// Returns the database that the following reads and writes use.
    pub fn space(&self) -> Database {
        self.space
    }

    /// Returns the time against which expirations of this commit request are checked, in milliseconds since 1970.
    pub fn now(&self) -> u64 {
        self.clock.now()
    }

    /// Calls `f` with the value of `key`, as left by the earlier commands of the group.
    ///
    /// # Errors
    ///
    /// Errors of [`Txn::entry`].
    pub fn read<R>(&mut self, key: &[u8], f: impl FnOnce(Option<&[u8]>) -> R) -> Result<R, Error> {
        self.entry(key, |entry| f(entry.map(|entry| entry.value)))
    }

    /// Calls `f` with the value and expiration time of `key`, as left by the earlier commands of the group.
    ///
    /// # Errors
    ///
    /// Errors of [`Store::read`].
    pub fn entry<R>(&mut self, key: &[u8], f: impl FnOnce(Option<Entry<'_>>) -> R) -> Result<R, Error> {
        let mut len = 0;
        let outcome = self.peek(key, |entry| {
            len = entry.map_or(0, |entry| entry.value.len());
            f(entry)
        });
        self.read_bytes += len;
        outcome
    }

    /// Calls `f` like [`Txn::entry`], for an `f` that looks at no byte of the value: the value does not count for
    /// [`Txn::has_reached_limit`].
    ///
    /// # Errors
    ///
    /// Errors of [`Store::read`].
    pub fn peek<R>(&mut self, key: &[u8], f: impl FnOnce(Option<Entry<'_>>) -> R) -> Result<R, Error> {
        if self.space == Database::default() && !key_value_headers::may_have_header(key) {
            return self.entry_of(key, f);
        }
        let arena = Bump::new();
        self.entry_of(self.space.encode_key(key, &arena), f)
    }

    fn entry_of<R>(&mut self, stored: &[u8], f: impl FnOnce(Option<Entry<'_>>) -> R) -> Result<R, Error> {
        self.read_stored(stored, |clock, value| f(clock.entry(value)))
    }

    fn read_stored<R>(
        &mut self,
        stored: &[u8],
        f: impl FnOnce(&ExpirationClock, Option<&[u8]>) -> R,
    ) -> Result<R, Error> {
        let store = self.store;
        self.begin()?;
        let Self { batch, clock, write_set, transaction, .. } = self;
        let write_set = write_set.get_or_insert_with(|| WriteSet::of(batch));
        if let Some(value) = write_set.get(stored) {
            return Ok(f(clock, value?));
        }
        if write_set.cleared {
            return Ok(f(clock, None));
        }
        let (mut f, mut result) = (Some(f), None);
        let visit: &mut engine::VisitValue<'_> = &mut |_, value| {
            result = f.take().map(|f| f(clock, value));
            ControlFlow::Continue(())
        };
        match transaction {
            Some(transaction) => transaction.read(&[stored], visit)?,
            None => store.read(&[stored], visit)?,
        }
        result.ok_or_else(|| {
            let engine = store.info().name;
            Error::Engine(engine::Error::Library { engine, message: "answered no read".into() })
        })
    }

    /// Returns `true` if `key` exists, also if its value cannot be read: whether that has expired is not known.
    ///
    /// # Errors
    ///
    /// Errors of [`Store::read`], but for those of the value alone.
    pub fn contains(&mut self, key: &[u8]) -> Result<bool, Error> {
        match self.peek(key, |entry| entry.is_some()) {
            Err(error) if error.is_unreadable_value() => Ok(true),
            outcome => outcome,
        }
    }

    /// Fails if the engine cannot hold `key` or the store is read-only. A command that writes several keys checks
    /// all of them first: it must not stop half-way.
    ///
    /// # Errors
    ///
    /// [`Error::ReadOnly`], and [`engine::Error::KeyLength`].
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

    /// Sets `key` to a value that does not expire. Fails as [`Txn::check_key`] does.
    ///
    /// # Errors
    ///
    /// Errors of [`Txn::check_key`].
    #[inline]
    pub fn put(&mut self, key: &'g [u8], value: &'g [u8]) -> Result<(), Error> {
        let plain = self.space == Database::default()
            && !key_value_headers::may_have_header(key)
            && !key_value_headers::may_have_header(value)
            && self.read_only_cause.is_none()
            && (self.min_key..=self.max_key).contains(&key.len());
        if !plain {
            return self.put_slow_path(key, value);
        }
        self.push(engine::WriteOp::Put { key, value });
        Ok(())
    }

    /// Sets `key` like [`Txn::put`], for the cases that are rare: the key or the value may need a header, or the write
    /// may fail.
    #[cold]
    fn put_slow_path(&mut self, key: &'g [u8], value: &'g [u8]) -> Result<(), Error> {
        self.check_key(key)?;
        let value = if key_value_headers::needs_header(value) { self.with_head(0, value) } else { value };
        let key = self.stored_to_put(key);
        self.push(engine::WriteOp::Put { key, value });
        Ok(())
    }

    /// Returns the stored form of `key`. If that has a key header, also writes the marker record of key headers.
    fn stored_to_put(&mut self, key: &'g [u8]) -> &'g [u8] {
        if self.header_len(key) > 0 {
            self.put_marker(MarkerRecords::KEY_HEADERS);
        }
        self.space.encode_key(key, self.arena)
    }

    /// Appends a marker record to the write batch, unless it exists.
    #[cold]
    fn put_marker(&mut self, markers: MarkerRecords) {
        if let Some(key) = self.markers.add(markers) {
            self.push_untracked(engine::WriteOp::Put { key, value: b"1" });
        }
    }

    /// Sets `key` to a value that expires at `deadline`, in milliseconds since 1970; 0: never. Fails as
    /// [`Txn::check_key`] does.
    ///
    /// # Errors
    ///
    /// Errors of [`Txn::check_key`].
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
        self.note_copy(value.len());
        let bytes = self.arena.alloc_slice_fill_default(head.len() + value.len());
        let (before, after) = bytes.split_at_mut(head.len());
        before.copy_from_slice(&head);
        after.copy_from_slice(value);
        bytes
    }

    /// Sets `key` to a value whose reads fail, in place of a corrupt value that is moved to `key`.
    pub(super) fn put_corrupt(&mut self, key: &'g [u8]) -> Result<(), Error> {
        self.check_key(key)?;
        let key = self.stored_to_put(key);
        self.push(engine::WriteOp::Put { key, value: &key_value_headers::CORRUPT });
        Ok(())
    }

    /// Removes `key`. A key that the engine cannot hold does not exist.
    ///
    /// # Errors
    ///
    /// [`Error::ReadOnly`].
    pub fn delete(&mut self, key: &'g [u8]) -> Result<(), Error> {
        self.check_writable()?;
        if self.check_key(key).is_ok() {
            let key = self.space.encode_key(key, self.arena);
            self.push(engine::WriteOp::Delete { key });
        }
        Ok(())
    }

    /// Removes the stored key `stored` if its value has expired. Returns whether its expiration time has passed or will
    /// come, or `None` if there is no value, or one that does not expire.
    pub(super) fn delete_if_expired(&mut self, stored: &'g [u8]) -> Result<Option<Expires>, Error> {
        self.check_writable()?;
        let found = self.read_stored(stored, |clock, value| value.and_then(|value| clock.expires(value)))?;
        if found == Some(Expires::Past) {
            self.push_untracked(engine::WriteOp::Delete { key: stored });
        }
        Ok(found)
    }

    /// Removes every key of every database.
    ///
    /// # Errors
    ///
    /// [`Error::ReadOnly`], and errors of reads of watched keys.
    pub fn clear(&mut self) -> Result<(), Error> {
        self.check_writable()?;
        self.touch_watched(None)?;
        self.push(engine::WriteOp::Clear);
        self.deadlines.clear();
        if !self.shared {
            self.markers = MarkerRecords::default();
        }
        Ok(())
    }

    /// Copies a key or a value that is not part of a request into memory that lives until the commit, so that it can
    /// be put.
    pub fn copy_to_arena(&self, bytes: &[u8]) -> &'g [u8] {
        self.note_copy(bytes.len());
        self.arena.alloc_slice_copy(bytes)
    }

    /// Adds `bytes` to [`Txn::copied_bytes`].
    pub(super) fn note_copy(&self, bytes: usize) {
        self.copied_bytes.set(self.copied_bytes.get() + bytes);
    }

    /// Returns `true` if the commit group has written nothing yet, and has begun no transaction of the engine to
    /// read.
    pub(super) fn is_untouched(&self) -> bool {
        self.batch.is_empty() && self.transaction.is_none()
    }

    /// Marks the watched keys of `database` (`None`: of all databases) that exist as modified, because all its keys are
    /// about to be removed.
    pub(super) fn touch_watched(&mut self, database: Option<Database>) -> Result<(), Error> {
        if self.watched { self.touch_all(database) } else { Ok(()) }
    }

    /// Marks the watched keys of `database` (`None`: of all databases) that exist as modified, for a removal of all its
    /// keys. With hash slots the keys cannot be read in one transaction: those that do not exist are marked, too.
    #[cold]
    fn touch_all(&mut self, database: Option<Database>) -> Result<(), Error> {
        let is_in = |stored: &[u8]| database.is_none_or(|database| database.decode_key(stored).is_some());
        for stored in self.store.watches.keys().into_iter().filter(|stored| is_in(stored)) {
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
        self.touched.extend(self.store.watches.bump_version(stored));
    }

    /// Begins to watch `key`, and returns its present state for the comparison in a later commit. Returns `None` if the
    /// client watches the key already: `watched` are its watched keys.
    ///
    /// # Errors
    ///
    /// Errors of [`Store::read`]; with one writing process, a value that cannot be read is no error.
    pub fn watch(&mut self, key: &[u8], watched: &HashSet<Watch>) -> Result<Option<Watch>, Error> {
        let (arena, watches) = (Bump::new(), &self.store.watches);
        let stored = self.space.encode_key(key, &arena);
        if watched.contains(stored) {
            return Ok(None);
        }
        self.watched = true;
        let shared = self.shared;
        let found = self.read_stored(stored, |clock, value| {
            // Without other processes that write, the digest is not needed, and values may be long.
            let digest = if shared { watches.digest(value) } else { 0 };
            (digest, clock.entry(value).map_or(0, |entry| entry.deadline))
        });
        let (digest, deadline) = match found {
            // Writes of an unreadable value are detected by the version of the key.
            Err(error) if error.index_of_value().is_some() && !shared => (0, 0),
            found => found?,
        };
        Ok(Some(watches.add(stored, deadline, digest)))
    }

    /// Returns `true` if none of the watched keys was written, or has expired, since it was watched. If other
    /// processes write to the same data, a value that was changed and changed back counts as unchanged: versions
    /// are known only for this process.
    ///
    /// # Errors
    ///
    /// Errors of [`Store::read`], if other processes write to the same data.
    pub fn are_unchanged(&mut self, watched: &HashSet<Watch>) -> Result<bool, Error> {
        let watches = &self.store.watches;
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

    /// Appends `op` to the write batch and the write set without marking watched keys as modified.
    #[inline]
    fn push_untracked(&mut self, op: engine::WriteOp<'g>) {
        self.batch.push(op);
        if let Some(write_set) = &mut self.write_set {
            write_set.apply(op);
        }
    }

    #[inline]
    pub(super) fn check_writable(&self) -> Result<(), Error> {
        match self.read_only_cause {
            None => Ok(()),
            Some(cause) => Err(Error::ReadOnly(cause.into())),
        }
    }
}

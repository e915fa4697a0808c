//! Filling a table from its append-only file: one thread reads the file, and others each fill a partition of the
//! table.

use super::{
    super::{Batch, Error, Result, WriteOp},
    table_trait::{Change, Table},
};
use std::{
    mem, panic,
    path::Path,
    sync::mpsc::{self, Receiver, Sender, SyncSender},
    thread,
};

/// Size in bytes from which an append-only file is replayed by several threads.
const PARALLEL_BYTES: u64 = 64 << 20;

/// Number of changes, and of bytes of keys and values, from which gathered changes are sent to the thread that
/// applies them.
const CHUNK: (usize, usize) = (2048, 1 << 20);

/// Maximum number of tasks in the queue of one of the threads that fill a table from an AOF.
const WAITING: usize = 4;

/// Approximate overhead of an AOF record in bytes, in addition to its key and its value.
const RECORD_OVERHEAD: usize = 32;

/// Task of one of the threads that fill a table from an AOF, each of which fills a partition.
enum Task<P> {
    /// Applies changes to the partition. The number is the fraction of the append-only file that was read: more than 0,
    /// and 1 at its end.
    Change(Vec<Change<P>>, f64),
    /// Tells a waiting thread that all earlier tasks are done: the thread that gets this task drops the sender.
    Barrier(SyncSender<()>),
    Clear,
}

/// Returns the number of threads that fill a table from an append-only file of `length` bytes.
pub(super) fn threads(length: u64) -> usize {
    if length < PARALLEL_BYTES { 1 } else { thread::available_parallelism().map_or(1, usize::from) }
}

/// Fills a table with the write batches that `read` passes to its argument, from the append-only file at `path` of
/// `length` bytes. Returns the table and the result of `read`.
pub(super) fn fill<T: Table, L>(
    threads: usize,
    (path, length): (&Path, u64),
    read: impl FnOnce(&mut dyn FnMut(&Batch<'_>)) -> Result<L>,
) -> Result<(T, L)> {
    if threads > 1 {
        return fill_pieces(threads, (path, length), read);
    }
    let mut table = T::default();
    let log = read(&mut |batch| {
        let (clear, ops) = batch.after_clear();
        if clear {
            table = T::default();
        }
        // Freeing large pairs here delays no client.
        table.write(ops, &mut Vec::new());
    })?;
    Ok((table, log))
}

fn fill_pieces<T: Table, L>(
    threads: usize,
    (path, length): (&Path, u64),
    read: impl FnOnce(&mut dyn FnMut(&Batch<'_>)) -> Result<L>,
) -> Result<(T, L)> {
    let (pieces, piece_of) = T::partitions(threads);
    thread::scope(|scope| {
        let (waste, replaced) = mpsc::channel();
        let (mut queues, mut fillers, mut done) = (Vec::new(), Vec::new(), 0);
        for piece in pieces {
            let (tasks, queue) = mpsc::sync_channel(WAITING);
            let (thread, waste) = (thread::Builder::new().name("aof-replay".into()), waste.clone());
            let filler = thread.spawn_scoped(scope, move || carry_out(queue, piece, &waste));
            fillers.push(filler.map_err(Error::io("start a thread to replay", path))?);
            queues.push(Queue::<T> { tasks, changes: Vec::new(), bytes: 0 });
        }
        let log = read(&mut |batch| {
            done += (batch.bytes() + batch.len() * RECORD_OVERHEAD) as u64;
            let part = (done as f64 / length as f64).min(1.0);
            dispatch(batch, part, &mut queues, &piece_of);
            replaced.try_iter().for_each(drop);
        })?;
        queues.iter_mut().for_each(|queue| queue.flush(1.0));
        // Ends the threads.
        drop(queues);
        let pieces =
            fillers.into_iter().map(|filler| filler.join().unwrap_or_else(|e| panic::resume_unwind(e)));
        Ok((T::join(pieces.collect()), log))
    })
}

/// Distributes writes to the threads. Those of one key always go to the same thread, in order.
///
/// Pairs are created, and freed, by the calling thread alone. If each thread did so for itself, glibc would ask the
/// kernel for memory page by page (the memory of all but the first thread grows like this), and the other threads
/// would wait meanwhile.
fn dispatch<T: Table>(
    batch: &Batch<'_>,
    part: f64,
    queues: &mut [Queue<T>],
    piece_of: impl Fn(&[u8]) -> usize,
) {
    let (clear, ops) = batch.after_clear();
    if clear {
        queues.iter_mut().for_each(Queue::clear);
    }
    for op in ops {
        let (key, value, is_put) = match *op {
            WriteOp::Put { key, value } => (key, value, true),
            WriteOp::Delete { key } => (key, &[][..], false),
            WriteOp::Clear => continue,
        };
        if let Some(queue) = queues.get_mut(piece_of(key)) {
            queue.add(Change { pair: T::pair(key, value), is_put }, key.len() + value.len(), part);
        }
    }
}

/// Queue of puts and removals for one of the threads that fill a table from an AOF, each of which fills a partition.
struct Queue<T: Table> {
    tasks: SyncSender<Task<T::Pair>>,
    /// Gathered changes that were not sent to the thread yet.
    changes: Vec<Change<T::Pair>>,
    /// Total size of the keys and values in `changes`, in bytes.
    bytes: usize,
}

impl<T: Table> Queue<T> {
    fn add(&mut self, change: Change<T::Pair>, bytes: usize, part: f64) {
        self.changes.push(change);
        self.bytes += bytes;
        if self.changes.len() >= CHUNK.0 || self.bytes >= CHUNK.1 {
            self.flush(part);
        }
        // Several of the largest pairs in the queue, and those that they replace, would take much memory.
        if bytes >= CHUNK.1 {
            self.wait();
        }
    }

    /// Waits until the thread of this queue has done all tasks that were queued before.
    fn wait(&self) {
        let (sender, done) = mpsc::sync_channel(0);
        self.send(Task::Barrier(sender));
        // An error means that the sender was dropped.
        let _dropped = done.recv();
    }

    fn clear(&mut self) {
        self.changes.clear();
        self.bytes = 0;
        self.send(Task::Clear);
    }

    fn flush(&mut self, part: f64) {
        if !self.changes.is_empty() {
            let changes = mem::replace(&mut self.changes, Vec::with_capacity(CHUNK.0));
            self.bytes = 0;
            self.send(Task::Change(changes, part));
        }
    }

    fn send(&self, task: Task<T::Pair>) {
        // A thread that panicked takes no more tasks. Joining it reports the panic.
        let _ended = self.tasks.send(task);
    }
}

/// Fills a partition of a table with the changes in `queue` until that is closed, and returns the partition. Replaced
/// and removed pairs are sent back through `waste`.
fn carry_out<T: Table>(queue: Receiver<Task<T::Pair>>, mut piece: T, waste: &Sender<Vec<T::Pair>>) -> T {
    for task in queue {
        match task {
            Task::Change(changes, part) => {
                let mut replaced = Vec::new();
                piece.change(changes, part, &mut replaced);
                if !replaced.is_empty() {
                    let _ended = waste.send(replaced);
                }
            }
            Task::Barrier(_sender) => {}
            Task::Clear => piece.clear(),
        }
    }
    piece
}

#[cfg(test)]
mod tests {
    use super::{
        super::{super::KeyRange, ScanControl},
        *,
    };
    use crate::engine::{memory_table::hash_table::HashTable, stores::btree::BTree};
    use rand::{Rng, SeedableRng, rngs::StdRng};
    use std::collections::BTreeMap;

    type State = BTreeMap<Vec<u8>, Vec<u8>>;

    fn state<T: Table>(table: &T) -> State {
        let mut state = State::new();
        table.scan_step(KeyRange::ALL, &mut T::Position::default(), &mut |key, value| {
            assert!(state.insert(key.into(), value.into()).is_none(), "a key is there twice");
            ScanControl::Continue
        });
        assert_eq!(table.len(), state.len());
        assert!(state.iter().all(|(key, value)| table.get(key) == Some(value)), "a key is not found");
        state
    }

    /// Passes `batches` batches of random writes to `sink`, with a `Clear` in each batch whose number is in
    /// `clears`.
    fn write_random(seed: u64, batches: usize, clears: &[usize], sink: &mut dyn FnMut(&Batch<'_>)) {
        let mut rng = StdRng::seed_from_u64(seed);
        for number in 0..batches {
            let ops: Vec<(Vec<u8>, Option<Vec<u8>>)> = (0..100)
                .map(|_| {
                    let key = rng.random_range(0..30_000u32).to_be_bytes().to_vec();
                    let most = if rng.random_ratio(1, 10_000) { 2 * CHUNK.1 } else { 40 };
                    (key, rng.random_bool(0.8).then(|| vec![rng.random(); rng.random_range(0..most)]))
                })
                .collect();
            let mut batch = Batch::default();
            for (at, (key, value)) in ops.iter().enumerate() {
                if at == 50 && clears.contains(&number) {
                    batch.clear();
                }
                match value {
                    Some(value) => batch.put(key, value),
                    None => batch.delete(key),
                }
            }
            sink(&batch);
        }
    }

    fn filled<T: Table>(threads: usize, seed: u64, clears: &[usize]) -> T {
        let read = |sink: &mut dyn FnMut(&Batch<'_>)| {
            write_random(seed, 1000, clears, sink);
            Ok(())
        };
        fill(threads, ("log".as_ref(), 1 << 20), read).unwrap().0
    }

    fn any_number_of_threads<T: Table>() {
        for (seed, clears) in [(1, &[][..]), (2, &[0, 500]), (3, &[999])] {
            let one: T = filled(1, seed, clears);
            for threads in [2, 3, 7] {
                let mut several: T = filled(threads, seed, clears);
                assert!(state(&several) == state(&one), "{threads} threads, seed {seed}");
                // The table is then used like any other.
                several.write(&[WriteOp::Put { key: b"new", value: b"value" }], &mut Vec::new());
                assert_eq!(several.get(b"new"), Some(&b"value"[..]));
                assert_eq!(several.len(), one.len() + 1);
            }
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes too long")]
    fn any_number_of_threads_makes_the_same_table() {
        any_number_of_threads::<HashTable>();
        any_number_of_threads::<BTree>();
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes too long")]
    fn an_error_of_the_log_ends_the_threads() {
        let read = |sink: &mut dyn FnMut(&Batch<'_>)| {
            write_random(4, 100, &[], sink);
            Err::<(), _>(Error::no_files("map"))
        };
        assert!(matches!(
            fill::<HashTable, _>(3, ("log".as_ref(), 1 << 20), read),
            Err(Error::Unsupported { .. })
        ));
    }

    #[test]
    fn a_long_log_is_read_by_as_many_threads_as_there_are_cores() {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        assert_eq!((threads(0), threads(PARALLEL_BYTES - 1), threads(PARALLEL_BYTES)), (1, 1, cores));
    }
}

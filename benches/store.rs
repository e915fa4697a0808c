#![allow(missing_docs, clippy::expect_used, clippy::panic, reason = "a benchmark")]
//! The commit path over an engine that does nothing: what the store itself costs, which is the floor
//! under the figures of every engine.

#[path = "support/mod.rs"]
mod support;

use criterion::{Criterion, Throughput};
use kvbench::{
    engine::{
        Batch, Capabilities, Caveat, Compression, Engine, Family, Fsync, FsyncSupport, Info, KeyRange, Loss,
        OpenFiles, Result, Status, VisitPair, VisitValue, Writers,
    },
    store::{CommitQueue, Error, Store, Txn, Work},
};
use std::{
    ops::ControlFlow,
    sync::{
        Arc, Barrier,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, Thread},
    time::{Duration, Instant},
};
use support::{Key, Values};

static INFO: Info = Info {
    name: "nothing",
    library: "none",
    own_format: None,
    family: Family::HashTable,
    status: Status::Synthetic,
    needs: &[],
    capabilities: Capabilities {
        in_memory: true,
        memory_resident: true,
        constant_count: true,
        counts_allocations: true,
        ..Capabilities::NONE
    },
    writers: Writers::One,
    fsync: FsyncSupport::FixedAtOpen,
    key_length: (0, 1024),
    compression: &[Compression::None],
    cache: "none",
    open_files: OpenFiles::always(0),
    cluster_flag: None,
    loss: [Loss::EVERYTHING; 3],
    caveats: &[Caveat::new("Keeps nothing.")],
    same_design: &[],
    log_targets: &[],
};

/// An engine that only counts the writes it is given.
struct Nothing(Arc<AtomicU64>);

impl Engine for Nothing {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn is_memory_only(&self) -> bool {
        true
    }

    fn read(&self, keys: &[&[u8]], visit: &mut VisitValue<'_>) -> Result<()> {
        let _ = (0..keys.len()).try_for_each(|index| match visit(index, None) {
            ControlFlow::Continue(()) => Some(()),
            ControlFlow::Break(()) => None,
        });
        Ok(())
    }

    fn write(&self, batch: &Batch<'_>, _sync: bool) -> Result<()> {
        self.0.fetch_add(batch.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn scan(&self, _range: KeyRange<'_>, _visit: &mut VisitPair<'_>) -> Result<()> {
        Ok(())
    }

    fn count(&self) -> Result<u64> {
        Ok(0)
    }

    fn disk_size(&self) -> Result<u64> {
        Ok(0)
    }
}

/// A store over [`Nothing`], and the count of its writes.
fn store() -> (Store, Arc<AtomicU64>) {
    let written = Arc::new(AtomicU64::new(0));
    (Store::new(Box::new(Nothing(written.clone())), Fsync::No), written)
}

/// What one connection wants written: SETs of these pairs.
struct Sets<'p> {
    pairs: &'p [(Key, &'p [u8])],
    done: bool,
    /// Who waits for it.
    client: Option<Arc<Client>>,
}

impl Work for Sets<'_> {
    fn run<'g>(&'g mut self, txn: &mut Txn<'g>) {
        self.done = self.pairs.iter().all(|(key, value)| txn.put(key, value).is_ok());
    }

    fn fail(&mut self, error: &Error) {
        panic!("the commit failed: {error}");
    }

    fn bytes(&self) -> usize {
        self.pairs.len() * 64
    }
}

/// A submitting thread that waits.
struct Client {
    thread: Thread,
    answered: AtomicBool,
}

fn pairs(values: &Values, count: usize) -> Vec<(Key, &[u8])> {
    (0..count).map(|index| (support::key(index), values.get(index as u64, 64))).collect()
}

/// The committing connection runs its own group, as for a store in memory.
fn inline(criterion: &mut Criterion) {
    let values = Values::new();
    let mut group = criterion.benchmark_group("commit");
    for count in [1, 16, 256] {
        let (store, written) = store();
        let pairs = pairs(&values, count);
        let mut work = [Sets { pairs: &pairs, done: false, client: None }];
        group.throughput(Throughput::Elements(count as u64));
        group.bench_function(format!("inline/{count} SETs"), |bencher| {
            bencher.iter_custom(|iterations| {
                let before = written.load(Ordering::Relaxed);
                let start = Instant::now();
                (0..iterations).for_each(|_| store.commit(&mut work));
                let time = start.elapsed();
                assert!(work.iter().all(|work| work.done), "every SET was taken");
                let writes = written.load(Ordering::Relaxed) - before;
                assert_eq!(writes, iterations * count as u64, "writes that reached the engine");
                time
            });
        });
    }
    group.finish();
}

/// One thread commits what others submit, as for a store on disk. Each has one SET under way.
fn queue(criterion: &mut Criterion) {
    let values = Values::new();
    let pairs = pairs(&values, 1);
    let mut group = criterion.benchmark_group("commit");
    group.throughput(Throughput::Elements(1));
    for clients in [1, 2, 8, 64] {
        let (store, written) = store();
        let queue = CommitQueue::default();
        thread::scope(|scope| {
            scope.spawn(|| queue.run(&store, || 0, deliver));
            group.bench_function(format!("queue/{clients} threads"), |bencher| {
                bencher.iter_custom(|iterations| {
                    let before = written.load(Ordering::Relaxed);
                    let time = submit_all(&queue, &pairs, clients, iterations);
                    let writes = written.load(Ordering::Relaxed) - before;
                    assert_eq!(writes, iterations, "writes that reached the engine");
                    time
                });
            });
            queue.close();
        });
    }
    group.finish();
}

/// Answers a committed group.
fn deliver(group: &mut Vec<Sets<'_>>, _: Duration) {
    for client in group.drain(..).filter(|work| work.done).filter_map(|work| work.client) {
        client.answered.store(true, Ordering::Release);
        client.thread.unpark();
    }
}

/// Has `clients` threads submit so many SETs in all, and returns the time from the first to the last.
fn submit_all<'p>(
    queue: &CommitQueue<Sets<'p>>,
    pairs: &'p [(Key, &'p [u8])],
    clients: u64,
    iterations: u64,
) -> Duration {
    let barrier = Barrier::new(clients as usize);
    let start = thread::scope(|scope| {
        let mut threads = Vec::new();
        for index in 0..clients {
            let share = iterations / clients + u64::from(index < iterations % clients);
            let barrier = &barrier;
            threads.push(scope.spawn(move || {
                let client = Arc::new(Client { thread: thread::current(), answered: false.into() });
                barrier.wait();
                let start = Instant::now();
                (0..share).for_each(|_| submit(queue, pairs, &client));
                start
            }));
        }
        // This thread may run again only after some of the SETs.
        threads.into_iter().map(|thread| thread.join().expect("a client that ends")).min()
    });
    start.expect("a client").elapsed()
}

fn submit<'p>(queue: &CommitQueue<Sets<'p>>, pairs: &'p [(Key, &'p [u8])], client: &Arc<Client>) {
    client.answered.store(false, Ordering::Relaxed);
    if queue.push(Sets { pairs, done: false, client: Some(client.clone()) }) {
        queue.wake();
    }
    while !client.answered.load(Ordering::Acquire) {
        thread::park();
    }
}

fn main() {
    let mut criterion = support::criterion();
    inline(&mut criterion);
    queue(&mut criterion);
    criterion.final_summary();
}

//! The server: its listeners, its worker threads, its background threads (commits, reads that wait for the network,
//! syncs, active expiration), and an orderly shutdown.

mod access_control;
mod commit_request;
mod connection;
mod error;
#[doc(hidden)]
pub mod file_limits;
mod listener;
mod metrics;
mod read_step;
mod request_batch;
mod request_stats;
mod shared_state;
mod slow_reads;
mod step_planner;
mod step_runner;
#[cfg(test)]
mod tests;
mod tls;
mod transaction;
mod worker;
mod worker_state;

pub use access_control::{Access, AccessError};
pub use error::Error;
pub use listener::{check_addresses, end_at_signals};

use crate::{
    command::{
        ClientRegistry, CommandTable, ConfigFile, CounterSnapshot, MonitorHub, RuntimeSettings, ServerState,
        Stats,
        state::stats::{self, event},
    },
    config::Config,
    engine::Fsync,
    store::{
        CommitQueue, Store,
        pause_aware_clock::{self, EverySecond},
        spawn_commit_threads,
    },
};
use commit_request::CommitRequest;
use listener::Listener;
use metrics::Metrics;
use shared_state::{ConnectionSenders, Mailbox, Shared};
use std::{
    future::pending,
    hash::{BuildHasher, Hasher, RandomState},
    mem,
    sync::{
        Arc, Mutex,
        atomic::AtomicU64,
        mpsc::{RecvTimeoutError, Sender, channel},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};
use tokio::sync::{Notify, mpsc};

/// Serves up to `max_clients` clients with `store` until SHUTDOWN, SIGINT or SIGTERM; then answers the received
/// requests, syncs and closes the store. A SIGINT while it stops ends the process at once. Once the sockets listen, calls
/// `ready` with the addresses of all of them (TCP, TLS and Unix), joined by " and ".
///
/// After `serve` has returned, the process should exit: the memory of an engine that keeps all data in memory
/// is not freed.
pub fn serve(
    store: Store,
    config: &Config,
    access: Access,
    max_clients: usize,
    ready: impl FnOnce(&str),
) -> Result<(), Error> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Error::Thread)?;
    let listener = runtime.block_on(async { Listener::bind(&config.network) })?;
    let metrics = config.metrics.map(|address| runtime.block_on(Metrics::bind(address))).transpose()?;
    access.announce(&config.network);
    let commands = CommandTable::without(&config.disabled_commands);
    let queue = CommitQueue::of(&store);
    let shared = Arc::new(Shared {
        context: Arc::new(server_state(store, config, &commands, &access, &listener, max_clients)),
        commands,
        access,
        keepalive: config.network.keepalive,
        queue,
        reads: CommitQueue::default(),
        inboxes: (0..config.threads).map(|_| Mailbox::default()).collect(),
        waitaof_sync: Arc::default(),
        shutdown: Notify::new(),
    });
    let writers = BackgroundThreads::spawn(&shared)?;
    let (inlets, workers) = spawn_workers(&shared, config.threads, config.network.shutdown_timeout)?;
    let outcome = runtime.block_on(async {
        let signals = listener::Signals::new().map_err(Error::Signal)?;
        if let Some(metrics) = &metrics {
            log::info!("metrics at http://{}/metrics", metrics.address());
        }
        ready(&listener.address());
        let metrics = async {
            match &metrics {
                Some(metrics) => metrics.serve(&shared.context).await,
                None => pending().await,
            }
        };
        let accepting = listener.accept_until(signals.stop(&shared.shutdown), &shared, &inlets);
        tokio::select! { () = accepting => {}, () = metrics => {} }
        Ok(())
    });
    listener::end_at_next_interrupt();
    drop(listener);
    log::info!("stopping; SIGINT ends it at once, like a kill");
    // Workers end when their channels are closed and their connections are answered; only then may the threads
    // end that execute requests for them.
    drop(inlets);
    join(workers);
    // Waits for a running scrape, which reads the engine.
    drop((metrics, runtime));
    writers.stop(&shared);
    outcome.and(close(&shared, config))
}

/// Syncs and closes the store after all threads that execute requests have ended. Fails with the error of the close;
/// otherwise with that of the earlier write or sync that has made the store read-only, if there was one.
fn close(shared: &Arc<Shared>, config: &Config) -> Result<(), Error> {
    let store = &shared.context.store;
    let begin = Instant::now();
    let closed = store.close().map_err(Error::Close);
    if closed.is_ok() {
        log::info!("synced and closed {} in {:.3} s", config.path(), begin.elapsed().as_secs_f64());
    }
    let fault = store.read_only_cause().map_or(Ok(()), |fault| Err(Error::Fault(fault.into())));
    if store.info().capabilities.memory_resident {
        // Freeing tens of millions of keys one by one takes many seconds; the end of the process frees them at
        // once. Other engines are dropped even without files: RocksDB's threads would use what the end of the process
        // has destroyed.
        mem::forget(shared.clone());
    }
    closed.and(fault)
}

/// Creates the state of the server that commands can read and change.
fn server_state(
    store: Store,
    config: &Config,
    commands: &CommandTable,
    access: &Access,
    listener: &Listener,
    max_clients: usize,
) -> ServerState {
    let (ports, started) = (listener.ports(), Instant::now());
    let names = commands.names();
    let limits = config.network.client;
    ServerState {
        store: Arc::new(store),
        settings: config.settings(ports),
        file: ConfigFile::new(config.file.clone()),
        live: RuntimeSettings::new(access.password.clone(), config.network.protected_mode, max_clients)
            .with_limits(limits.output, limits.query, limits.idle),
        clients: Arc::new(ClientRegistry::default()),
        monitors: MonitorHub::default(),
        slow: stats::SlowLog::new(config.slowness.log_from, config.slowness.log_length),
        spikes: stats::LatencyEvents::new(config.slowness.latency_threshold_ms),
        errors: stats::ErrorStats::default(),
        groups: stats::CommitStats::default(),
        run_id: run_id(),
        rejected: AtomicU64::new(0),
        expired: AtomicU64::new(0),
        seen: Mutex::new([CounterSnapshot::new(started); 2]),
        port: ports.plain,
        started,
        stats: (0..config.threads).map(|_| Stats::new(names.len()).into()).collect(),
        names,
    }
}

/// Returns a random identifier of the server process, in Redis' form: 40 hexadecimal digits.
fn run_id() -> String {
    let number = || RandomState::new().build_hasher().finish();
    format!("{:016x}{:016x}{:08x}", number(), number(), number() as u32)
}

/// Starts the worker threads, and returns once all of them are ready, with their system resources allocated;
/// otherwise fails. At the end, a worker waits up to `patience` for its connections to answer and end.
fn spawn_workers(
    shared: &Arc<Shared>,
    count: usize,
    patience: Duration,
) -> Result<(ConnectionSenders, Vec<JoinHandle<()>>), Error> {
    let (mut inlets, mut workers) = (Vec::new(), Vec::new());
    let (ready, started) = channel();
    for index in 0..count {
        let (inlet, incoming) = mpsc::unbounded_channel();
        let (shared, ready) = (shared.clone(), ready.clone());
        let run = move || {
            let runtime = worker::runtime(count).map_err(|error| drop(ready.send(Err(error))));
            if let Ok(runtime) = runtime {
                // The receiver exists, unless the server is stopping anyway.
                let _ = ready.send(Ok(()));
                worker::run(runtime, index, shared, incoming, patience);
            }
        };
        workers.push(spawn(format!("worker-{index}"), run)?);
        inlets.push(inlet);
    }
    drop(ready);
    for outcome in started.iter().take(count) {
        outcome.map_err(Error::Thread)?;
    }
    Ok((inlets, workers))
}

/// Maximum total size in bytes of the read requests of several connections that one call of the engine reads, if
/// reads wait for the network.
const READ_GROUP_BYTES: usize = 256 << 10;

/// Number of read threads, if each read waits for the network and there are no hash slots.
const READ_THREADS: usize = 2;

/// Background threads of a server: active expiration and, if the engine has files or other machines, commits, syncs,
/// and reads that wait for the network.
struct BackgroundThreads {
    committers: Vec<JoinHandle<()>>,
    /// Threads that read for all connections; none unless reads wait for the network.
    readers: Vec<JoinHandle<()>>,
    syncer: Option<(Sender<()>, JoinHandle<()>)>,
    remover: JoinHandle<()>,
}

impl BackgroundThreads {
    fn spawn(shared: &Arc<Shared>) -> Result<Self, Error> {
        let store = shared.context.store.clone();
        let context = shared.context.clone();
        let note = move |time| context.spikes.note(event::EXPIRE, time);
        let target = store.clone();
        let remover = spawn("expire".into(), move || target.run_active_expiration(note))?;
        let mut writers = Self { committers: Vec::new(), readers: Vec::new(), syncer: None, remover };
        if store.is_memory_only() {
            return Ok(writers);
        }
        let (server, target) = (shared.clone(), store.clone());
        let commit = move || {
            let clients = || server.context.connections();
            server.queue.run(&target, clients, |group, time| {
                server.context.note_commit(group.len(), time);
                server.deliver(group);
            });
        };
        writers.committers = spawn_commit_threads(&store, commit).map_err(Error::Thread)?;
        // With hash slots, one thread has requests to all nodes in progress.
        let reads = if store.commits_concurrently() { READ_THREADS } else { store.is_sharded().into() };
        for _ in 0..reads {
            let (queue, target) = (shared.clone(), store.clone());
            let read = move || {
                let clients = || queue.context.connections();
                let read = |group: &mut [CommitRequest]| read_step::read_group(group, &target);
                queue.reads.serve(READ_GROUP_BYTES, clients, read, |group, _| queue.deliver(group));
            };
            writers.readers.push(spawn("read".into(), read)?);
        }
        let (stop, stopped) = channel::<()>();
        let shared = shared.clone();
        let sync = move || {
            if store.fsync() == Fsync::EverySec {
                pause_aware_clock::watch();
            }
            let mut schedule = EverySecond::start();
            while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(schedule.remaining()) {
                // While the process was stopped, less running time has passed than the channel waited.
                if !schedule.remaining().is_zero() {
                    continue;
                }
                let begin = Instant::now();
                // The fsync policy can change at any time.
                if store.fsync() == Fsync::EverySec {
                    pause_aware_clock::watch();
                    if store.sync_if_written() {
                        shared.context.note_sync(begin.elapsed());
                    }
                }
                schedule = EverySecond::start();
            }
        };
        writers.syncer = Some((stop, spawn("sync".into(), sync)?));
        Ok(writers)
    }

    fn stop(self, shared: &Shared) {
        shared.context.store.expiry().stop();
        join([self.remover]);
        shared.queue.close();
        shared.reads.close();
        join(self.committers.into_iter().chain(self.readers));
        if let Some((stop, syncer)) = self.syncer {
            drop(stop);
            join([syncer]);
        }
    }
}

fn spawn(name: String, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, Error> {
    thread::Builder::new().name(name).spawn(run).map_err(Error::Thread)
}

fn join(threads: impl IntoIterator<Item = JoinHandle<()>>) {
    for thread in threads {
        if thread.join().is_err() {
            log::error!("a thread panicked");
        }
    }
}

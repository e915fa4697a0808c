//! Many clients on few threads: each thread runs its share of the clients as tasks of its own Tokio runtime.

use super::{
    bench_context::{End, Role, Shared, WireBench},
    pipelined_client::Client,
};
use crate::bench::{
    plan::workload::Mix,
    result::Workload,
    run::{
        pace::{Clock, Pace},
        panics,
        phase_result::PhaseResult,
        process_usage::ProcessUsage,
        recorder::{Fault, Recorder},
    },
};
use std::{
    cell::RefCell,
    io,
    rc::Rc,
    sync::{
        Arc, Barrier,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    thread::{self, JoinHandle},
};
use tokio::{
    runtime::{Builder, Runtime},
    task::{self, LocalSet, spawn_local},
};

impl WireBench {
    /// Runs workloads against the server at the same time, until the first of them ends. Returns one result for each
    /// workload. A client that panics ends, and its panic is a fault of its workload. Fails if a client cannot connect,
    /// or if a thread panics.
    pub(super) fn run(
        &self,
        workloads: &[&Workload],
        usage: &dyn Fn() -> ProcessUsage,
    ) -> Result<Vec<PhaseResult>, String> {
        let shared = self.shared(workloads);
        let spawn = |thread| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.drive(thread))
        };
        let handles: Vec<_> = (0..shared.threads).map(spawn).collect();
        shared.barrier.wait();
        shared.barrier.wait();
        let before = usage();
        shared.barrier.wait();
        let outcomes: Vec<_> = handles.into_iter().map(JoinHandle::join).collect();
        let usage = usage().since(&before);
        let recorders = outcomes.into_iter().map(|outcome| match outcome {
            Ok(recorders) => recorders.map_err(|error| format!("{}: {error}", self.address)),
            Err(payload) => Err(panics::message(&*payload)),
        });
        let recorders = recorders.collect::<Result<Vec<_>, _>>()?;
        let parts = |place: usize| {
            recorders.iter().filter_map(move |(start, parts)| Some((*start, parts.get(place)?.clone())))
        };
        Ok((0..workloads.len()).map(|place| PhaseResult::sum(parts(place), &usage)).collect())
    }

    /// Returns the state that the threads share which run the clients of `workloads`.
    pub(super) fn shared(&self, workloads: &[&Workload]) -> Arc<Shared> {
        let clients: u32 = workloads.iter().map(|workload| workload.threads).sum();
        let cores = thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
        let threads = clients.min(cores).max(1);
        Arc::new(Shared {
            bench: self.clone(),
            clock: Clock::start(),
            workloads: workloads.iter().map(|workload| Arc::new((*workload).clone())).collect(),
            threads,
            barrier: Barrier::new(threads as usize + 1),
            leaders: AtomicU32::new(workloads.first().map_or(0, |first| first.threads)),
            stop: AtomicBool::new(false),
        })
    }
}

impl Shared {
    /// Runs one thread of the load generator: connects its clients, warms up, measures. Returns the start of the
    /// measurement in nanoseconds of the clock, and a record for each workload. Every thread waits at the barrier three
    /// times, even if its clients could not connect, so that no other thread waits forever.
    fn drive(self: &Arc<Self>, thread: u32) -> io::Result<(u64, Vec<Recorder>)> {
        let connected = self.connected(thread);
        self.barrier.wait();
        let warm = connected
            .and_then(|connected| panics::caught(|| self.warm_up(connected)).map_err(io::Error::other));
        self.barrier.wait();
        self.barrier.wait();
        let start = self.clock.now();
        let (connected, warm_up) = warm.inspect_err(|_| self.stop.store(true, Ordering::SeqCst))?;
        let end = |place: usize, client: u32| match (place, self.workloads.get(place)) {
            (0, Some(workload)) => End {
                time: workload.nanoseconds().map_or(u64::MAX, |length| start + length),
                operations: workload.share(client).unwrap_or(u64::MAX),
                role: Role::Leader,
            },
            _ => End { time: u64::MAX, operations: u64::MAX, role: Role::Follower },
        };
        let mixes: Vec<_> = self.workloads.iter().map(|workload| Mix::new(workload)).collect();
        let recorders = self.recorders(start);
        let measured = panics::caught(|| self.round(connected, &mixes, end, &recorders));
        let measured = measured.inspect_err(|_| self.stop.store(true, Ordering::SeqCst));
        measured.map_err(io::Error::other)?;
        for (recorder, warm_up) in recorders.iter().zip(&warm_up) {
            recorder.borrow_mut().add_faults(&warm_up.borrow());
        }
        Ok((start, recorders.iter().map(|recorder| recorder.borrow().clone()).collect()))
    }

    /// Connects the clients of the thread with the index `thread`. A panic is an error.
    pub(super) fn connected(&self, thread: u32) -> io::Result<Connected> {
        let connect = || -> io::Result<_> {
            let runtime = Builder::new_current_thread().enable_all().build()?;
            let clients = runtime.block_on(self.connect(thread))?;
            Ok(Connected { runtime, clients })
        };
        panics::caught(connect).map_err(io::Error::other).flatten()
    }

    /// Creates an empty record for each workload, which begins at `start` in nanoseconds of the clock.
    fn recorders(&self, start: u64) -> Vec<SharedRecorder> {
        let intervals = self.workloads.iter().map(|workload| workload.timeline_interval());
        intervals.map(|interval| Rc::new(RefCell::new(Recorder::new(start, interval)))).collect()
    }

    /// Runs the warm-up of the clients of one thread, for the time that the first workload specifies. Returns the
    /// clients, and a record for each workload, of which only the faults count; no record if no workload has a warm-up.
    fn warm_up(self: &Arc<Self>, connected: Connected) -> (Connected, Vec<SharedRecorder>) {
        let mixes: Vec<_> = self.workloads.iter().map(|workload| workload.warm_up_mix()).collect();
        let Some(first) = self.workloads.first().filter(|_| mixes.iter().any(Option::is_some)) else {
            return (connected, Vec::new());
        };
        let start = self.clock.now();
        let time = start + (first.warmup_seconds * 1e9) as u64;
        let end = End { time, operations: u64::MAX, role: Role::Alone };
        let recorders = self.recorders(start);
        (self.round(connected, &mixes, |_, _| end, &recorders), recorders)
    }

    /// Connects the share of all workloads' clients that the thread with the index `thread` runs.
    async fn connect(&self, thread: u32) -> io::Result<Vec<Placed>> {
        let mut clients = Vec::new();
        for (place, workload) in self.workloads.iter().enumerate() {
            let chooser = self.bench.live.chooser(workload);
            for number in (0..workload.threads).filter(|client| client % self.threads == thread) {
                let client = Client::connect(self.bench.address, &chooser, workload, number).await?;
                clients.push(Placed { place, number, client });
            }
        }
        Ok(clients)
    }

    /// Runs each client on the mix of its workload, up to the limits that `end` returns for it, and adds its operations to
    /// the record of its workload in `recorders`. Returns the clients. A client without a mix does nothing.
    pub(super) fn round(
        self: &Arc<Self>,
        Connected { runtime, clients }: Connected,
        mixes: &[Option<Mix>],
        end: impl Fn(usize, u32) -> End,
        recorders: &[SharedRecorder],
    ) -> Connected {
        let run = self.run_clients(clients, mixes, end, recorders);
        let clients = runtime.block_on(LocalSet::new().run_until(run));
        Connected { runtime, clients }
    }

    async fn run_clients(
        self: &Arc<Self>,
        clients: Vec<Placed>,
        mixes: &[Option<Mix>],
        end: impl Fn(usize, u32) -> End,
        recorders: &[SharedRecorder],
    ) -> Vec<Placed> {
        let start = self.clock.now();
        let mut tasks = Vec::new();
        for mut placed in clients {
            let (Some(workload), Some(recorder)) =
                (self.workloads.get(placed.place), recorders.get(placed.place))
            else {
                continue;
            };
            placed.client.pace = Pace::new(workload.rate, start, placed.number, workload.threads);
            let end = end(placed.place, placed.number);
            let mix = mixes.get(placed.place).cloned().flatten();
            let (shared, recorder_of_task) = (Arc::clone(self), Rc::clone(recorder));
            let task = spawn_local(async move {
                if let Some(mix) = mix {
                    placed.client.run(&shared, &recorder_of_task, &mix, end).await;
                }
                shared.ended(end.role);
                placed
            });
            tasks.push(ClientTask { task, recorder: Rc::clone(recorder) });
        }
        let mut clients = Vec::new();
        for task in tasks {
            clients.extend(self.joined(task).await);
        }
        clients
    }

    /// Waits until a client's task has ended, and returns the client for further use. A panic is a fault of its
    /// workload, the result is `None`, and the clients of all workloads but the first stop: they wait for the end of
    /// each client of the first workload, and the count of these does not become 0 without the client that panicked.
    async fn joined<C>(&self, task: ClientTask<C>) -> Option<C> {
        let error = match task.task.await {
            Ok(client) => return Some(client),
            Err(error) => error,
        };
        let message =
            error.try_into_panic().map_or_else(|error| error.to_string(), |it| panics::message(&*it));
        task.recorder.borrow_mut().fault(Fault::Error(message));
        self.stop.store(true, Ordering::SeqCst);
        None
    }

    fn ended(&self, role: Role) {
        if role == Role::Leader && self.leaders.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.stop.store(true, Ordering::SeqCst);
        }
    }
}

/// Task that runs one client of a benchmark over the wire, and returns it as `C` at its end.
struct ClientTask<C> {
    task: task::JoinHandle<C>,
    recorder: SharedRecorder,
}

/// Record of the operations of a workload, shared by all of its clients on one thread.
type SharedRecorder = Rc<RefCell<Recorder>>;

/// Clients of one thread, with the runtime that runs them.
pub(super) struct Connected {
    runtime: Runtime,
    clients: Vec<Placed>,
}

/// Client of a benchmark over the wire, with its number among the clients of its workload, and the index of the
/// workload (`place`).
struct Placed {
    place: usize,
    number: u32,
    client: Client,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::{
        data::{Data, key_ledger::KeyLedger},
        result::Operation,
    };
    use std::time::Duration;

    #[test]
    fn client_that_panics_is_a_fault_and_ends_the_measurement() {
        let workload = Workload::of([(Operation::Get, 1.0)], 1);
        let shared = Shared {
            bench: WireBench {
                address: ([127, 0, 0, 1], 1).into(),
                data: Arc::new(Data::new(&workload).unwrap()),
                live: Arc::new(KeyLedger::new(1)),
                is_load: false,
            },
            clock: Clock::start(),
            workloads: vec![Arc::new(workload)],
            threads: 1,
            barrier: Barrier::new(1),
            // Exceeds the number of clients: a client that panicked in the warm-up does not count down.
            leaders: AtomicU32::new(2),
            stop: AtomicBool::new(false),
        };
        let recorder = Rc::new(RefCell::new(Recorder::new(0, Duration::from_secs(1))));
        let runtime = Builder::new_current_thread().build().unwrap();
        let client = runtime.block_on(LocalSet::new().run_until(async {
            let task = spawn_local(async { panic!("on purpose") });
            let task = ClientTask::<()> { task, recorder: Rc::clone(&recorder) };
            shared.joined(task).await
        }));
        assert_eq!(client, None);
        assert!(shared.stop.load(Ordering::SeqCst), "clients of other workloads go on");
        let measured = recorder.borrow().clone().measurement(0);
        assert_eq!((measured.errors, measured.first_fault), (1, Some("panic: on purpose".into())));
    }
}

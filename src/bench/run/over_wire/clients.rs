//! Many clients on few threads: each thread runs its share of the clients as tasks of its own runtime.

use super::{
    pipelined_client::Client,
    shared::{End, Role, Shared, WireBench},
};
use crate::bench::{
    plan::workload::Mix,
    result::Workload,
    run::{clock::Clock, pace::Pace, phase::PhaseResult, process::ProcessUsage, recorder::Recorder},
};
use std::{
    cell::RefCell,
    io,
    rc::Rc,
    sync::{
        Arc, Barrier,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    thread,
};
use tokio::{
    runtime::{Builder, Runtime},
    task::{LocalSet, spawn_local},
};

impl WireBench {
    /// Runs workloads at the same time, until the first of them ends.
    pub(super) fn run(
        &self,
        workloads: &[&Workload],
        usage: &dyn Fn() -> ProcessUsage,
    ) -> Result<Vec<PhaseResult>, String> {
        let clients: u32 = workloads.iter().map(|workload| workload.threads).sum();
        let cores = thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
        let threads = clients.min(cores).max(1);
        let shared = Arc::new(Shared {
            bench: self.clone(),
            clock: Clock::start(),
            workloads: workloads.iter().map(|workload| Arc::new((*workload).clone())).collect(),
            threads,
            barrier: Barrier::new(threads as usize + 1),
            leaders: AtomicU32::new(workloads.first().map_or(0, |first| first.threads)),
            stop: AtomicBool::new(false),
        });
        let spawn = |thread| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.drive(thread))
        };
        let handles: Vec<_> = (0..threads).map(spawn).collect();
        shared.barrier.wait();
        shared.barrier.wait();
        let before = usage();
        shared.barrier.wait();
        let recorders: Vec<_> = handles.into_iter().filter_map(|handle| handle.join().ok()).collect();
        let usage = usage().since(&before);
        let recorders = recorders.into_iter().collect::<io::Result<Vec<_>>>();
        let recorders = recorders.map_err(|error| format!("{}: {error}", self.address))?;
        let parts = |place: usize| {
            recorders.iter().filter_map(move |(start, parts)| Some((*start, parts.get(place)?.clone())))
        };
        Ok((0..workloads.len()).filter_map(|place| PhaseResult::sum(parts(place), &usage)).collect())
    }
}

impl Shared {
    /// Runs one thread: connects its clients, warms up, measures. Every thread waits at the barrier three
    /// times, even if its clients could not connect, so that no other thread waits forever.
    fn drive(self: &Arc<Self>, thread: u32) -> io::Result<(u64, Vec<Recorder>)> {
        let connected = Builder::new_current_thread().enable_all().build().and_then(|runtime| {
            let clients = runtime.block_on(self.connect(thread))?;
            Ok((runtime, clients))
        });
        self.barrier.wait();
        let warm = connected.map(|(runtime, clients)| {
            let (clients, warm_up) = self.warm_up(&runtime, clients);
            (runtime, clients, warm_up)
        });
        self.barrier.wait();
        self.barrier.wait();
        let start = self.clock.now();
        let (runtime, clients, warm_up) = warm.inspect_err(|_| self.stop.store(true, Ordering::SeqCst))?;
        let end = |place: usize, client: u32| match (place, self.workloads.get(place)) {
            (0, Some(workload)) => End {
                time: workload.nanoseconds().map_or(u64::MAX, |length| start + length),
                operations: workload.share(client).unwrap_or(u64::MAX),
                role: Role::Leader,
            },
            _ => End { time: u64::MAX, operations: u64::MAX, role: Role::Follower },
        };
        let mixes: Vec<_> = self.workloads.iter().map(|workload| Mix::new(workload)).collect();
        let round = self.round(clients, &mixes, end);
        let (_, mut recorders) = runtime.block_on(LocalSet::new().run_until(round));
        recorders.iter_mut().zip(&warm_up).for_each(|(recorder, warm_up)| recorder.add_faults(warm_up));
        Ok((start, recorders))
    }

    /// Runs the warm-up. Of its records only the faults count.
    fn warm_up(self: &Arc<Self>, runtime: &Runtime, clients: Vec<Placed>) -> (Vec<Placed>, Vec<Recorder>) {
        let steady = self.workloads.iter().map(|workload| workload.warm_up());
        let mixes: Vec<_> = steady.map(|steady| Mix::new(&steady?)).collect();
        let Some(first) = self.workloads.first().filter(|_| mixes.iter().any(Option::is_some)) else {
            return (clients, Vec::new());
        };
        let time = self.clock.now() + (first.warmup_seconds * 1e9) as u64;
        let end = End { time, operations: u64::MAX, role: Role::WarmUp };
        let round = self.round(clients, &mixes, |_, _| end);
        runtime.block_on(LocalSet::new().run_until(round))
    }

    /// Connects the clients of this thread.
    async fn connect(&self, thread: u32) -> io::Result<Vec<Placed>> {
        let mut clients = Vec::new();
        for (place, workload) in self.workloads.iter().enumerate() {
            let prototype = Client::prototype(&self.bench, workload);
            for number in (0..workload.threads).filter(|client| client % self.threads == thread) {
                let client = Client::connect(self.bench.address, &prototype, number).await?;
                clients.push(Placed { place, number, client });
            }
        }
        Ok(clients)
    }

    /// Runs each client until its end, on the mix of its workload. A client without a mix does nothing.
    async fn round(
        self: &Arc<Self>,
        clients: Vec<Placed>,
        mixes: &[Option<Mix>],
        end: impl Fn(usize, u32) -> End,
    ) -> (Vec<Placed>, Vec<Recorder>) {
        let start = self.clock.now();
        let new = |workload: &Arc<Workload>| Rc::new(RefCell::new(Recorder::new(start, workload.slice())));
        let recorders: Vec<_> = self.workloads.iter().map(new).collect();
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
            let (shared, recorder) = (Arc::clone(self), Rc::clone(recorder));
            tasks.push(spawn_local(async move {
                if let Some(mix) = mix {
                    placed.client.run(&shared, &recorder, &mix, end).await;
                }
                shared.ended(end.role);
                placed
            }));
        }
        let mut clients = Vec::new();
        for task in tasks {
            clients.extend(task.await.ok());
        }
        let recorders = recorders.iter().map(|recorder| recorder.borrow().clone()).collect();
        (clients, recorders)
    }

    fn ended(&self, role: Role) {
        if role == Role::Leader && self.leaders.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.stop.store(true, Ordering::SeqCst);
        }
    }
}

/// A client with its number and the index of its workload.
struct Placed {
    place: usize,
    number: u32,
    client: Client,
}

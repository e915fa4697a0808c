//! Execution of a workload over the wire in slices: between two slices no request is under way, and all threads of the
//! load generator are parked.

use super::{
    bench_context::{End, Role, Shared, WireBench},
    clients::Connected,
};
use crate::bench::{
    plan::workload::Mix,
    result::Workload,
    run::{
        interleave::turns::{self, Hooks, Turn, Turns},
        panics,
        phase_result::PhaseResult,
        process_usage::ProcessUsage,
        recorder::{Fault, Recorder},
        resource_meter::Meter,
    },
};
use std::{
    cell::RefCell,
    io,
    rc::Rc,
    sync::Arc,
    thread::{self, JoinHandle},
};

impl WireBench {
    /// Runs the workload for each slice of time that is requested on standard input, and reports each on standard output.
    /// Returns the measurement of all slices together, without those of the warm-up. `usage` reads the resources that the
    /// server has used so far. Fails if a client cannot connect, or if a thread panics.
    pub(super) fn serve_slices(
        &self,
        workload: &Workload,
        meter: &Meter<'_>,
        usage: &dyn Fn() -> ProcessUsage,
    ) -> Result<PhaseResult, String> {
        let shared = self.shared(&[workload]);
        let turns = Arc::new(Turns::new(shared.threads));
        let spawn = |thread| {
            let (shared, turns) = (Arc::clone(&shared), Arc::clone(&turns));
            thread::spawn(move || shared.drive_slices(&turns, thread))
        };
        let handles: Vec<_> = (0..shared.threads).map(spawn).collect();
        let begin = || {
            meter.begin();
            usage()
        };
        let hooks = Hooks { begin: &begin, usage, drain: &|| meter.drain() };
        let served = turns.serve(&shared.clock, hooks, turns::requested(meter));
        let recorders = handles.into_iter().map(JoinHandle::join).map(|outcome| match outcome {
            Ok(recorder) => recorder.map_err(|error| format!("{}: {error}", self.address)),
            Err(payload) => Err(panics::message(&*payload)),
        });
        let recorders = recorders.collect::<Result<Vec<_>, _>>()?;
        let mut phase = PhaseResult::sum(recorders.into_iter().map(|recorder| (0, recorder)), &served.usage);
        phase.recorder.end = served.nanoseconds;
        served.failure.into_iter().for_each(|error| phase.recorder.fault(Fault::Error(error)));
        Ok(phase)
    }
}

impl Shared {
    /// Executes the slices of one thread of the load generator, and returns the record of its clients. A thread whose
    /// clients cannot connect, or that panics, fails in each slice, and its error is returned at the end.
    fn drive_slices(self: &Arc<Self>, turns: &Turns, thread: u32) -> io::Result<Recorder> {
        let mut connected = self.connected(thread);
        let recorder = Rc::new(RefCell::new(turns::recorder()));
        turns.ready();
        while let Some(turn) = turns.wait() {
            connected = connected.and_then(|connected| {
                let run = || self.run_slice(connected, turns, &turn, &recorder);
                panics::caught(run).map_err(io::Error::other)
            });
            if connected.is_err() {
                turns.fail();
            }
            turns.end();
        }
        connected.map(|_| recorder.borrow().clone())
    }

    /// Executes one slice of the clients of a thread, and adds it to `recorder` and to the measurement of the slice.
    /// Returns the clients for the next slice.
    fn run_slice(
        self: &Arc<Self>,
        connected: Connected,
        turns: &Turns,
        turn: &Turn,
        recorder: &Rc<RefCell<Recorder>>,
    ) -> Connected {
        let Some(workload) = self.workloads.first() else { return connected };
        let slice = turn.slice;
        let end = |_, client| End {
            time: turn.start.saturating_add(slice.nanoseconds),
            operations: slice.operations_of(workload, client),
            role: Role::Alone,
        };
        if slice.is_warm_up {
            let mixes = [workload.warm_up_mix()];
            let warm_up = Rc::new(RefCell::new(turns::warm_up_recorder(turn)));
            let connected = self.round(connected, &mixes, end, std::slice::from_ref(&warm_up));
            turns.add(&warm_up.borrow(), turn, 0);
            recorder.borrow_mut().add_faults(&warm_up.borrow());
            return connected;
        }
        recorder.borrow_mut().begin_slice(turn.start, turn.first_bin);
        let connected = self.round(connected, &[Mix::new(workload)], end, std::slice::from_ref(recorder));
        turns.add(&recorder.borrow(), turn, turn.first_bin);
        connected
    }
}

//! Model tests (loom) of the sync state under every schedule of its threads, up to a number of preemptions.

/// `src/store/sync_state.rs`, compiled over loom's primitives.
#[expect(
    clippy::duplicate_mod,
    reason = "it is to be compiled twice: over the system's threads, and over loom's"
)]
#[path = "sync_state.rs"]
mod sync_state;
mod sync_primitives {
    pub(super) use loom::sync::{
        Condvar, Mutex,
        atomic::{AtomicU64, Ordering},
    };
}

use loom::{
    sync::{Arc, Mutex},
    thread,
};
use std::time::Duration;
use sync_state::SyncTracker;

/// Stand-in for an engine: the number of writes, and how many of them a sync has covered.
#[derive(Default)]
struct Files(Mutex<(u32, u32)>);

impl Files {
    fn write(&self) {
        self.0.lock().unwrap().0 += 1;
    }

    fn sync(&self) {
        let mut files = self.0.lock().unwrap();
        files.1 = files.0;
    }

    fn are_synced(&self) -> bool {
        let files = self.0.lock().unwrap();
        files.0 == files.1
    }
}

/// State shared by the threads of one schedule. Each write that a sync covers is old enough to delay new writes.
struct Shared {
    state: SyncTracker,
    files: Files,
}

impl Shared {
    fn new() -> Arc<Self> {
        Arc::new(Self { state: SyncTracker::new(Duration::ZERO), files: Files::default() })
    }

    /// Writes as a commit does under `everysec`.
    fn write(&self) {
        if self.state.is_syncing() {
            self.state.wait();
        }
        self.files.write();
        self.state.note_write();
    }

    fn sync(&self, outcome: Result<(), ()>) -> Result<(), ()> {
        self.state.sync(|| {
            if outcome.is_ok() {
                self.files.sync();
            }
            outcome
        })
    }

    fn says_that_all_is_synced(&self) -> bool {
        self.state.state().oldest_unsynced.is_none()
    }
}

fn every_schedule(run: impl Fn() + Send + Sync + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(run);
}

/// Two threads write and two sync, like a `WAITAOF` during the periodic sync.
#[test]
fn unsynced_writes_are_known_in_every_schedule() {
    every_schedule(|| {
        let shared = Shared::new();
        let other = |run: fn(&Shared)| {
            let shared = shared.clone();
            thread::spawn(move || run(&shared))
        };
        let others = [other(Shared::write), other(|shared| assert_eq!(shared.sync(Ok(())), Ok(())))];
        shared.write();
        assert_eq!(shared.sync(Ok(())), Ok(()));
        others.into_iter().for_each(|other| other.join().unwrap());
        assert!(shared.files.are_synced() || !shared.says_that_all_is_synced());
        shared.sync(Ok(())).unwrap();
        assert!(shared.files.are_synced() && shared.says_that_all_is_synced());
        let state = shared.state.state();
        assert!(state.last_sync.is_some() && state.delays <= 2);
    });
}

/// While a sync takes over the unsynced writes, they must not seem to be synced.
#[test]
fn writes_count_as_unsynced_until_their_sync_ends() {
    every_schedule(|| {
        let shared = Shared::new();
        shared.write();
        let target = shared.clone();
        let syncing = thread::spawn(move || target.sync(Ok(())));
        if shared.says_that_all_is_synced() {
            assert!(shared.files.are_synced());
        }
        assert_eq!(syncing.join().unwrap(), Ok(()));
    });
}

/// Delayed writes resume after a failed sync, too, and find the failure themselves.
#[test]
fn delayed_writes_resume_after_a_sync_succeeds_or_fails() {
    for outcome in [Ok(()), Err(())] {
        every_schedule(move || {
            let shared = Shared::new();
            shared.write();
            let target = shared.clone();
            let writing = thread::spawn(move || target.write());
            assert_eq!(shared.sync(outcome), outcome);
            writing.join().unwrap();
        });
    }
}

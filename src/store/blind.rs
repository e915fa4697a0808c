//! Tests of commit requests that read nothing (blind requests), over an engine with hash slots.

use super::{Error, Txn, Work, multi_writer_engine_tests::Shared};
use crate::engine::Error as Failure;

/// Puts each key by a request of its own, and reads nothing.
struct Puts {
    keys: &'static [&'static str],
    outcomes: Vec<Result<(), String>>,
}

impl Work for Puts {
    fn run<'g>(&'g mut self, txn: &mut Txn<'g>) {
        assert!(self.outcomes.is_empty(), "it is not run again");
        for key in self.keys {
            if !self.outcomes.is_empty() {
                assert!(txn.end_request());
            }
            self.outcomes.push(txn.put(key.as_bytes(), b"").map_err(|error| error.to_string()));
        }
    }

    fn fail(&mut self, error: &Error) {
        panic!("{error}");
    }

    fn fail_some(&mut self, outcomes: &[Result<(), Error>]) {
        self.outcomes =
            outcomes.iter().map(|outcome| outcome.as_ref().copied().map_err(ToString::to_string)).collect();
    }

    fn bytes(&self) -> usize {
        0
    }

    fn is_blind(&self) -> bool {
        true
    }
}

#[test]
fn requests_of_blind_works_are_committed_one_by_one() {
    let shared = Shared::with_slots();
    let store = shared.store();
    let puts = |keys| Puts { keys, outcomes: Vec::new() };
    let mut group = [puts(&["a", "b", "a1"]), puts(&["c"]), puts(&["d", "e"])];
    shared.data().failures.push_back(Failure::Unavailable { engine: "shared", detail: "a test".into() });
    store.commit(&mut group);
    let failed: Vec<Vec<_>> =
        group.iter().map(|work| work.outcomes.iter().map(Result::is_err).collect()).collect();
    assert_eq!(failed, [&[true, false, false][..], &[false], &[false, false]]);
    assert!(matches!(&group[0].outcomes[0], Err(error) if error.contains("a test")));
    assert_eq!((shared.data().commits, store.read_only_cause()), (6, None));
    let keys: Vec<_> = shared.data().values.keys().cloned().collect();
    assert_eq!(keys, ["a1", "b", "c", "d", "e"].map(|key| key.as_bytes().to_vec()));
}

#[test]
fn failure_that_leaves_it_unknown_what_was_written_stops_writes_of_blind_works() {
    let shared = Shared::with_slots();
    let store = shared.store();
    shared.data().failures.push_back(Failure::Library { engine: "shared", message: "a test".into() });
    store.commit(&mut [Puts { keys: &["a", "b"], outcomes: Vec::new() }]);
    assert!(store.read_only_cause().is_some_and(|fault| fault.contains("a test")));
}

//! Tests of the history checker, with histories that stores may and may not have.

use super::{
    keys::{EXPIRING, FIRST_GROUP, IN_DATABASE_1, deadline},
    request::State,
    value::Content,
    verify::Verdict,
    *,
};
use crate::torture::allowed_loss::AllowedLoss;
use std::time::Duration;

const NOW: Duration = Duration::from_secs(10);

/// Returns a history whose first `acknowledged` writes were acknowledged, one each second, and the states of the
/// store after each number of writes.
fn history(writes: usize, acknowledged: usize) -> (History, Vec<Vec<Option<ObservedValue>>>) {
    let mut history = History::new(7, 3);
    let held = |(index, content): (usize, Content)| ObservedValue {
        value: content.bytes(),
        deadline: Some(deadline(index, content)),
    };
    let stored = |state: &State| {
        state
            .iter()
            .enumerate()
            .map(|(index, content)| content.map(|content| held((index, content))))
            .collect()
    };
    let mut states: Vec<Vec<Option<ObservedValue>>> = vec![stored(&history.ahead)];
    while history.sent.len() < writes {
        let request = history.send();
        if let Some(write) = request.write {
            states.push(stored(&history.ahead));
            if write < acknowledged {
                let number = if let Expected::Number(number) = request.expected { number } else { 0 };
                history.acknowledged(write, number, Duration::from_secs(write as u64 + 1));
            }
        }
    }
    (history, states)
}

fn judge(writes: usize, acknowledged: usize, left: usize, promise: AllowedLoss) -> Verdict {
    let (mut history, states) = history(writes, acknowledged);
    history.settle(&states[left], promise, NOW)
}

#[test]
fn acknowledged_writes_and_any_number_of_later_ones_may_be_left() {
    for left in 9..=20 {
        let verdict = judge(20, 9, left, AllowedLoss::Nothing);
        assert_eq!((verdict.lost, verdict.faults), (0, vec![]));
    }
}

#[test]
fn a_lost_write_is_reported_with_its_age() {
    let verdict = judge(20, 9, 7, AllowedLoss::Nothing);
    assert_eq!((verdict.lost, verdict.oldest), (2, Some(Duration::from_secs(2))));
    assert_eq!(verdict.faults.len(), 1);
    assert!(judge(20, 9, 7, AllowedLoss::Within(Duration::from_secs(2))).faults.is_empty());
    assert_eq!(judge(20, 9, 7, AllowedLoss::Within(Duration::from_secs(1))).faults.len(), 1);
    assert!(judge(20, 9, 0, AllowedLoss::Tail).faults.is_empty());
}

#[test]
fn a_hole_is_a_fault_even_where_the_end_may_be_lost() {
    let (mut history, states) = history(200, 200);
    let mut holed = states[200].clone();
    let first = {
        let value = |state: usize, index: usize| states[state][index].as_ref().map(|held| &held.value);
        (0..KEYS).find(|index| value(100, *index) != value(200, *index)).unwrap()
    };
    holed[first].clone_from(&states[100][first]);
    assert!(!history.settle(&holed, AllowedLoss::Tail, NOW).faults.is_empty());
}

#[test]
fn bytes_that_no_client_wrote_are_a_fault() {
    let (mut history, states) = history(200, 200);
    let mut changed = states[200].clone();
    let held = changed.iter_mut().flatten().find(|held| held.value.len() > 100).unwrap();
    held.value[50] ^= 1;
    let verdict = history.settle(&changed, AllowedLoss::Tail, NOW);
    assert!(verdict.faults[0].contains("nobody wrote"), "{:?}", verdict.faults);
}

#[test]
fn beside_refused_requests_each_key_and_each_group_counts() {
    let (mut all, states) = history(200, 200);
    all.refused(None);
    assert!(all.settle(&states[200], AllowedLoss::Nothing, NOW).faults.is_empty());
    let (mut lost, states) = history(200, 200);
    lost.refused(None);
    assert!(lost.settle(&states[150], AllowedLoss::Nothing, NOW).lost > 0);
    let (mut halved, states) = history(200, 0);
    halved.refused(None);
    let mut half = states[200].clone();
    half[FIRST_GROUP] = None;
    half[FIRST_GROUP + 1] = half[FIRST_GROUP + 1].clone().or_else(|| {
        let value = states.iter().find_map(|state| state[FIRST_GROUP + 1].clone());
        Some(value.unwrap())
    });
    let verdict = halved.settle(&half, AllowedLoss::Nothing, NOW);
    assert!(verdict.faults.iter().any(|fault| fault.contains("half there")), "{:?}", verdict.faults);
}

/// If the store may lose the last seconds, a lost write that is older is a failure, even if other requests were
/// refused.
#[test]
fn beside_refused_requests_a_promise_of_seconds_is_kept_for_each_key() {
    let judge = |left: usize, within: u64| {
        let (mut history, states) = history(200, 200);
        history.refused(None);
        let fault_at = Duration::from_secs(201);
        history.settle(&states[left], AllowedLoss::Within(Duration::from_secs(within)), fault_at)
    };
    assert!(judge(200, 1).faults.is_empty());
    assert!(judge(150, 60).faults.is_empty(), "all that is lost is younger");
    let verdict = judge(150, 10);
    assert!(verdict.faults.iter().any(|fault| fault.contains("lost a write")), "{:?}", verdict.faults);
    assert!(verdict.oldest > Some(Duration::from_secs(10)), "{:?}", verdict.oldest);
}

/// A request without a reply may have been refused, and the one after it executed, but only once the client's
/// unknown outcomes were marked.
#[test]
fn requests_without_a_reply_may_have_been_refused() {
    let faults = |doubted: bool| {
        let (mut history, states) = history(200, 100);
        let value = |state: usize, index: usize| states[state][index].as_ref().map(|held| &held.value);
        let mut found = states[200].clone();
        let index = (0..FIRST_GROUP).find(|index| value(100, *index) != value(200, *index)).unwrap();
        found[index].clone_from(&states[100][index]);
        if doubted {
            history.mark_unknown_outcomes();
        }
        history.settle(&found, AllowedLoss::Nothing, NOW).faults
    };
    assert_eq!(faults(false).len(), 1);
    assert_eq!(faults(true), Vec::<String>::new());
}

#[test]
fn a_lost_deadline_is_a_fault() {
    let (mut history, states) = history(2000, 2000);
    assert_eq!(history.settle(&states[2000], AllowedLoss::Nothing, NOW).faults, Vec::<String>::new());
    for (mut indexes, lost) in [(EXPIRING, Some(-1)), (EXPIRING.end..KEYS, Some(1 << 42))] {
        let (mut history, states) = self::history(2000, 2000);
        let mut changed = states[2000].clone();
        let index = indexes.find(|index| changed[*index].is_some()).unwrap();
        changed[index].as_mut().unwrap().deadline = lost;
        let faults = history.settle(&changed, AllowedLoss::Tail, NOW).faults;
        assert!(faults.len() == 1 && faults[0].contains("expires at"), "{faults:?}");
    }
}

/// Clients of a crash test send no commands that the server does not support.
#[test]
fn a_load_is_of_what_the_server_can() {
    let words = |capabilities: SubjectCapabilities| {
        let mut history = History::new(7, 3);
        history.capabilities = capabilities;
        let commands = (0..2000).flat_map(|_| history.send().commands).collect::<Vec<_>>();
        ["MULTI", "EXEC", "SELECT", "PXAT"]
            .map(|word| commands.iter().filter(|words| words.contains(&word.into())).count())
    };
    let [multi, exec, select, pxat] = words(SubjectCapabilities::ALL);
    assert!(multi > 50 && multi == exec && select > 50 && pxat > 20, "{multi} {exec} {select} {pxat}");
    assert_eq!(
        words(SubjectCapabilities { transactions: false, databases: false, deadlines: false }),
        [0; 4]
    );
}

/// Each request selects the database of its keys, and then database 0 again, because all requests of a client use
/// one connection.
#[test]
fn a_request_uses_the_database_of_its_keys() {
    let mut history = History::new(7, 3);
    for _ in 0..2000 {
        let mut database = 0;
        for command in history.send().commands {
            if command[0] == b"SELECT" {
                database = command[1][0] - b'0';
            } else if let Some(name) = command.get(1) {
                let index = (0..KEYS).find(|index| key(7, *index).as_bytes() == name).unwrap();
                assert_eq!(database, u8::from(IN_DATABASE_1.contains(&index)));
            }
        }
        assert_eq!(database, 0);
    }
}

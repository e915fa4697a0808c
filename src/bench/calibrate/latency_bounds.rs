//! Bounds of the latencies of a closed loop, from the times at which its operations were in the engine.
//!
//! A thread starts an operation when its previous one has ended. The time between two of its operations in the engine
//! is therefore divided between the way back of the first one and the way there of the second one: it can lengthen
//! either of them, but not both.

use super::checked_metric::real;
use crate::engine::synthetic::calibration::Call;

/// Operation of a closed loop, with the times in and between engine calls, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Turn {
    /// Time of the operation in the engine, in microseconds.
    pub inside: f64,
    /// Time in microseconds between the end of the thread's previous operation in the engine and the start of this one.
    pub before: f64,
    /// Time in microseconds between the end of this operation in the engine and the start of the thread's next one.
    pub after: f64,
    /// `true` if the thread's previous operation precedes this one in the list, so that both share `before`.
    pub follows: bool,
}

/// Returns an operation for each of `calls`, the engine calls of one thread in order, with the times between them. The
/// time before the first call counts from `begin`, the time after the last one up to `end`, both in nanoseconds.
pub(super) fn turns(calls: &[Call], begin: u64, end: u64) -> Vec<Turn> {
    let us = |from: u64, to: u64| real(to.saturating_sub(from)) / 1e3;
    let before = [begin].into_iter().chain(calls.iter().map(|call| call.end));
    let after = calls.iter().skip(1).map(|call| call.begin).chain([end]);
    let around = calls.iter().zip(before.zip(after)).enumerate();
    let turn = |(number, (call, (before, after))): (usize, (&Call, (u64, u64)))| Turn {
        inside: us(call.begin, call.end),
        before: us(before, call.begin),
        after: us(call.end, after),
        follows: number > 0,
    };
    around.map(turn).collect()
}

/// Returns the largest possible mean of the latencies of all operations, in microseconds.
pub(super) fn largest_mean(turns: &[Turn]) -> f64 {
    let own = |turn: &Turn| turn.inside + turn.after + if turn.follows { 0.0 } else { turn.before };
    turns.iter().map(own).sum::<f64>() / real(turns.len().max(1) as u64)
}

/// Returns the largest possible value of a quantile (0 to 1) of the latencies of all operations, in microseconds.
pub(super) fn largest_at(turns: &[Turn], quantile: f64) -> f64 {
    /// Number of halvings of the range of latencies, after which it is far below the precision of a histogram.
    const HALVINGS: u32 = 40;
    let rank = (quantile * real(turns.len() as u64)).ceil().max(1.0) as usize;
    let as_long = (turns.len() + 1).saturating_sub(rank);
    let (mut least, mut most) =
        (0.0, turns.iter().map(|t| t.inside + t.before + t.after).fold(0.0, f64::max));
    for _ in 0..HALVINGS {
        let middle = (least + most) / 2.0;
        match most_that_reach(turns, middle) >= as_long {
            true => least = middle,
            false => most = middle,
        }
    }
    most
}

/// Returns the largest number of operations that can have had at least the given latency in microseconds, all in one
/// run. An operation takes the time before it first, because the time after it is all that it can take from a later
/// one.
fn most_that_reach(turns: &[Turn], latency: f64) -> usize {
    let (mut count, mut left) = (0, 0.0);
    for turn in turns {
        let before = if turn.follows { left } else { turn.before };
        let missing = (latency - turn.inside).max(0.0);
        left = turn.after;
        if missing <= before + turn.after {
            count += 1;
            left -= (missing - before).max(0.0);
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::synthetic::calibration::CallKind;

    /// Returns ten operations of one thread, of 1 ms each, with 1 ms before, between and after them.
    fn loop_of_ten() -> Vec<Turn> {
        let call = |number: u64| Call {
            begin: (2 * number + 1) * 1_000_000,
            end: (2 * number + 2) * 1_000_000,
            commit: None,
            kind: CallKind::Read,
            thread: 0,
        };
        turns(&(0..10).map(call).collect::<Vec<_>>(), 0, 21_000_000)
    }

    /// The time between two operations lengthens only one of them. Once it was given to both: then all operations could
    /// have had 3 ms, where only 2.1 ms are possible.
    #[test]
    fn time_between_two_operations_lengthens_one_of_them() {
        let turns = loop_of_ten();
        let at = |quantile| (largest_at(&turns, quantile) / 1e3 * 100.0).round() / 100.0;
        // All of them: eleven times of 1 ms between ten operations.
        assert_eq!(at(0.1), 2.1);
        // Six of them: two neighbours that share three times, and four on their own.
        assert_eq!((at(0.5), at(1.0)), (2.5, 3.0));
        assert_eq!(largest_mean(&turns), 2100.0);
    }

    /// Operations that are not neighbours, because operations of other kinds lie between them, share no time: each may
    /// have all of the time before and after it.
    #[test]
    fn operations_that_do_not_follow_each_other_share_nothing() {
        let turns: Vec<_> = loop_of_ten().into_iter().map(|turn| Turn { follows: false, ..turn }).collect();
        assert!((largest_at(&turns, 0.1) - 3000.0).abs() < 1.0);
        assert_eq!(largest_mean(&turns), 3000.0);
    }
}

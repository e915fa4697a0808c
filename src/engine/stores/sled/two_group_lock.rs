//! Lock for two groups of threads (group mutual exclusion): any number of threads of one group hold it at the same
//! time, and none of the other. Groups that both want it take turns.

use std::{
    mem,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
};

/// One of the two groups of threads of a [`GroupLock`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Group {
    /// Threads that read several keys as one snapshot: no thread of the other group writes meanwhile.
    Readers,
    /// Threads that write, any number of them at the same time.
    Writers,
}

impl Group {
    fn other(self) -> Self {
        match self {
            Self::Readers => Self::Writers,
            Self::Writers => Self::Readers,
        }
    }
}

/// Lock that any number of threads of one [`Group`] hold at the same time, and none of the other group.
#[derive(Default)]
pub(super) struct GroupLock {
    state: Mutex<State>,
    admitted: Condvar,
}

#[derive(Default)]
struct State {
    /// Number of threads that hold the lock, including those that are admitted and still wake up.
    holders: usize,
    /// `true` if the threads that hold the lock are writers.
    writers_hold: bool,
    /// Number of threads of each group that wait for the lock.
    waiting: Counts,
    /// Number of turns of each group in which threads that waited were admitted, all of the group at once. A thread
    /// waits for the next turn of its group, so that one that begins to wait later cannot take its admission.
    turns: Counts,
}

impl State {
    /// Lets a thread of `group` hold the lock and returns `None`, or returns the number of turns of the group so far:
    /// the thread must wait until it changes.
    fn enter(&mut self, group: Group) -> Option<usize> {
        let holds = self.writers_hold == (group == Group::Writers);
        if self.holders == 0 || holds && *self.waiting.of(group.other()) == 0 {
            self.holders += 1;
            self.writers_hold = group == Group::Writers;
            return None;
        }
        *self.waiting.of(group) += 1;
        Some(*self.turns.of(group))
    }

    /// Ends one thread's hold of the lock. The last one admits the threads that wait: those of the other group, if
    /// there are any. Returns `true` if threads were admitted.
    fn leave(&mut self) -> bool {
        self.holders -= 1;
        if self.holders > 0 {
            return false;
        }
        let holder = if self.writers_hold { Group::Writers } else { Group::Readers };
        let next = if *self.waiting.of(holder.other()) > 0 { holder.other() } else { holder };
        self.holders = mem::take(self.waiting.of(next));
        if self.holders == 0 {
            return false;
        }
        *self.turns.of(next) += 1;
        self.writers_hold = next == Group::Writers;
        true
    }
}

/// One number for each group of threads.
#[derive(Default)]
struct Counts {
    readers: usize,
    writers: usize,
}

impl Counts {
    fn of(&mut self, group: Group) -> &mut usize {
        match group {
            Group::Readers => &mut self.readers,
            Group::Writers => &mut self.writers,
        }
    }
}

/// Held [`GroupLock`], released when this is dropped.
pub(super) struct GroupGuard<'l>(&'l GroupLock);

impl GroupLock {
    /// Locks for a thread of `group`: waits while a thread of the other group holds the lock. If a thread of the other
    /// group waits already, it goes first.
    pub fn enter(&self, group: Group) -> GroupGuard<'_> {
        let mut state = self.lock();
        if let Some(turn) = state.enter(group) {
            while *state.turns.of(group) == turn {
                state = self.admitted.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
        GroupGuard(self)
    }

    /// Locks the lock's counters. No code that can panic runs under this mutex, so poisoning is ignored.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for GroupGuard<'_> {
    fn drop(&mut self) {
        if self.0.lock().leave() {
            self.0.admitted.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        sync::{
            Barrier,
            atomic::{AtomicU64, Ordering::SeqCst},
        },
        thread,
    };

    /// Two threads of one group hold the lock at the same time: each waits for the other while it holds the lock, so
    /// otherwise the test would not end.
    #[test]
    fn threads_of_one_group_hold_the_lock_together() {
        for group in [Group::Readers, Group::Writers] {
            let (lock, inside) = (GroupLock::default(), Barrier::new(2));
            thread::scope(|scope| {
                for _ in 0..2 {
                    scope.spawn(|| {
                        let _held = lock.enter(group);
                        inside.wait();
                    });
                }
            });
        }
    }

    #[test]
    fn thread_that_begins_to_wait_later_does_not_take_an_earlier_admission() {
        let mut state = State::default();
        assert_eq!(state.enter(Group::Readers), None);
        let first = state.enter(Group::Writers).unwrap();
        state.enter(Group::Readers).unwrap();
        assert!(state.leave(), "the first writer is admitted, and may still sleep");
        let second = state.enter(Group::Writers).unwrap();
        assert_ne!(*state.turns.of(Group::Writers), first);
        assert_eq!(*state.turns.of(Group::Writers), second, "the second writer waits for the reader");
        assert!(state.leave(), "the reader is admitted");
        assert_eq!((state.holders, state.writers_hold), (1, false));
        assert!(state.leave(), "the second writer is admitted");
        assert_ne!(*state.turns.of(Group::Writers), second);
        assert!(!state.leave(), "no thread waits");
    }

    #[test]
    fn groups_exclude_each_other_and_none_waits_forever() {
        let lock = GroupLock::default();
        // Readers in the lower half, writers in the upper one.
        let inside = AtomicU64::new(0);
        thread::scope(|scope| {
            for (group, one) in [(Group::Readers, 1), (Group::Writers, 1 << 32)].repeat(2) {
                let (lock, inside) = (&lock, &inside);
                scope.spawn(move || {
                    for _ in 0..5000 {
                        let _held = lock.enter(group);
                        let now = inside.fetch_add(one, SeqCst) + one;
                        assert!(now & 0xffff_ffff == 0 || now >> 32 == 0, "{now:x}");
                        inside.fetch_sub(one, SeqCst);
                    }
                });
            }
        });
        assert_eq!(inside.into_inner(), 0);
    }
}

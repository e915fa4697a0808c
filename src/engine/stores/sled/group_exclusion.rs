//! Lock for two groups of threads (group mutual exclusion): any number of threads of one group hold it at the same
//! time, and none of the other. Groups that both want it take turns.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// One of the two groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Group {
    /// Threads that need a snapshot: the other group changes nothing meanwhile.
    Readers,
    /// Threads that write.
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

/// The lock.
#[derive(Default)]
pub(super) struct GroupLock {
    state: Mutex<State>,
    admitted: Condvar,
}

#[derive(Default)]
struct State {
    /// Number of threads that hold the lock, with those that are admitted and still wake up.
    holders: usize,
    /// `true` if the holders are writers.
    writers_hold: bool,
    /// Number of threads that wait.
    waiting: Counts,
    /// Number of threads that were admitted and still sleep.
    admitted: Counts,
}

/// Number of threads of each group.
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

/// Held lock, released when it is dropped.
pub(super) struct GroupGuard<'l>(&'l GroupLock);

impl GroupLock {
    /// Waits until no thread of the other group holds the lock. If a thread of the other group waits already, it
    /// goes first.
    pub fn enter(&self, group: Group) -> GroupGuard<'_> {
        let mut state = self.lock();
        let holds = state.writers_hold == (group == Group::Writers);
        if state.holders == 0 || holds && *state.waiting.of(group.other()) == 0 {
            state.holders += 1;
            state.writers_hold = group == Group::Writers;
            return GroupGuard(self);
        }
        *state.waiting.of(group) += 1;
        while *state.admitted.of(group) == 0 {
            state = self.admitted.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        *state.admitted.of(group) -= 1;
        GroupGuard(self)
    }

    /// Locks the state. No code that can panic runs under this lock, so poisoning is ignored.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for GroupGuard<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.holders -= 1;
        if state.holders > 0 {
            return;
        }
        let holder = if state.writers_hold { Group::Writers } else { Group::Readers };
        let next = if *state.waiting.of(holder.other()) > 0 { holder.other() } else { holder };
        let count = std::mem::take(state.waiting.of(next));
        if count > 0 {
            state.holders = count;
            *state.admitted.of(next) += count;
            state.writers_hold = next == Group::Writers;
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

    /// Each thread waits inside for the other one: this test does not end if one of them is kept out.
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

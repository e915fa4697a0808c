//! Commit of a TiKV transaction, and its outcome: committed, not committed, or unknown.
//!
//! A commit first writes locks in all regions (prewrite) and then commits the primary key. From then on the transaction
//! is committed. The client reports a lost reply of both steps by the same errors, and its roll-back goes to all
//! regions at once: after the primary key was committed, the regions of the other keys would drop their writes. So a
//! transaction is rolled back only if the error proves that its primary key was not committed. In all other cases the
//! next reader of a locked key asks the region of the primary key, and commits or removes the lock accordingly.

use super::{blocking_calls::message, description::NAME};
use crate::engine::{Error, Result};
use std::{future::Future, time::Duration};
use tikv_client::{Error as Cause, Transaction};
use tokio::time;

/// TiKV transaction with writes, which can be committed or rolled back. Tests implement it with failures.
pub(super) trait Ends {
    fn commit(&mut self) -> impl Future<Output = Result<(), Cause>> + Send;
    fn roll_back(&mut self) -> impl Future<Output = Result<(), Cause>> + Send;
}

impl Ends for Transaction {
    async fn commit(&mut self) -> Result<(), Cause> {
        Self::commit(self).await.map(drop)
    }

    async fn roll_back(&mut self) -> Result<(), Cause> {
        self.rollback().await
    }
}

/// Commits a TiKV transaction within the time `limit`, or rolls it back if it was certainly not committed.
///
/// # Errors
///
/// Fails with [`Error::Conflict`] or [`Error::Full`] if the client's error proves that nothing was written, otherwise
/// with [`Error::Unknown`].
pub(super) async fn commit(transaction: &mut impl Ends, limit: Duration) -> Result<()> {
    let outcome = time::timeout(limit, transaction.commit()).await;
    let error = match outcome {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(cause)) => proven_uncommitted(&cause).ok_or_else(|| message(cause)),
        Err(_) => Err(format!("no answer in {} seconds", limit.as_secs())),
    };
    let error = error.map_err(|detail| Error::Unknown { engine: NAME, detail })?;
    // The locks that a failed roll-back leaves expire by themselves.
    if !matches!(time::timeout(limit, transaction.roll_back()).await, Ok(Ok(()))) {
        log::debug!("{NAME}: the locks of a transaction that was not committed are left to expire");
    }
    Err(error)
}

/// Returns the error of a transaction whose primary key is proven to be uncommitted by `cause`, `None` if it may have
/// been committed.
///
/// Only the prewrite meets conflicts, locks and entries that are too large, and after a failed prewrite the client
/// sends no commit. A region answers `retryable` to the commit of a key that has neither the lock of the transaction
/// nor a record of its commit: the lock has expired, and was rolled back. Network errors prove nothing, nor do errors
/// of regions: they may answer a second attempt after a first one whose reply was lost.
fn proven_uncommitted(cause: &Cause) -> Option<Error> {
    if any(cause, is_conflict) {
        return Some(Error::Conflict { engine: NAME, detail: message(cause) });
    }
    any(cause, is_too_large).then(|| Error::Full {
        engine: NAME,
        detail: "the transaction is too large for an entry of the log".into(),
    })
}

/// Returns `true` if `cause` says that another transaction has written or locked a key of this one, or has removed an
/// expired lock of this one (`retryable`).
fn is_conflict(cause: &Cause) -> bool {
    match cause {
        Cause::KeyError(error) => {
            error.conflict.is_some() || error.locked.is_some() || !error.retryable.is_empty()
        }
        Cause::ResolveLockError(_) => true,
        _ => false,
    }
}

/// Returns `true` if a region refused the prewrite for its size. A commit of the primary key is too small for that.
fn is_too_large(cause: &Cause) -> bool {
    matches!(cause, Cause::RegionError(error) if error.raft_entry_too_large.is_some())
}

/// Returns `true` if `is_so` holds for `cause` or, if that is a list of errors, for any of them.
fn any(cause: &Cause, is_so: fn(&Cause) -> bool) -> bool {
    match cause {
        Cause::ExtractedErrors(causes) | Cause::MultipleKeyErrors(causes) => {
            causes.iter().any(|cause| any(cause, is_so))
        }
        cause => is_so(cause),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;
    use tikv_client::{ProtoKeyError, ProtoRegionError};
    use tokio::runtime::Builder;

    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Key {
        Free,
        Locked,
        Committed,
    }

    /// Two regions with one key each, and the point at which a commit of both keys fails.
    struct Regions {
        primary: Key,
        other: Key,
        stop: Stop,
        roll_backs: usize,
    }

    enum Stop {
        /// The commit fails with this error in the prewrite of the second key, after that of the primary key.
        Prewrite(Cause),
        /// The primary key is committed, and the call of the client never returns.
        Silence,
        /// The primary key is committed, and the client returns this error.
        Committed(Cause),
    }

    impl Ends for Regions {
        async fn commit(&mut self) -> Result<(), Cause> {
            self.primary = Key::Locked;
            if let Stop::Prewrite(cause) = &mut self.stop {
                return Err(std::mem::replace(cause, Cause::Unimplemented));
            }
            (self.primary, self.other) = (Key::Committed, Key::Locked);
            match &mut self.stop {
                Stop::Committed(cause) => Err(std::mem::replace(cause, Cause::Unimplemented)),
                _ => pending().await,
            }
        }

        /// Rolls both regions back at the same time: also the other one if the primary key is committed.
        async fn roll_back(&mut self) -> Result<(), Cause> {
            self.roll_backs += 1;
            self.other = Key::Free;
            if self.primary == Key::Committed {
                return Err(key_error(|error| error.abort = "already committed".into()));
            }
            self.primary = Key::Free;
            Ok(())
        }
    }

    impl Regions {
        /// Commits the keys of two test regions, with a failure at `stop`. Then a reader resolves the locks that are
        /// left, as after their expiry. Returns the regions, and the error of the commit.
        fn end(stop: Stop) -> (Self, Error) {
            let mut regions = Self { primary: Key::Free, other: Key::Free, stop, roll_backs: 0 };
            let runtime = Builder::new_current_thread().enable_time().build().unwrap();
            let error = runtime.block_on(commit(&mut regions, Duration::ZERO)).unwrap_err();
            if regions.primary == Key::Locked {
                regions.primary = Key::Free;
            }
            if regions.other == Key::Locked {
                regions.other = regions.primary;
            }
            (regions, error)
        }
    }

    fn key_error(change: impl FnOnce(&mut ProtoKeyError)) -> Cause {
        let mut error = ProtoKeyError::default();
        change(&mut error);
        Cause::MultipleKeyErrors(vec![error.into()])
    }

    fn region_error(change: impl FnOnce(&mut ProtoRegionError)) -> Cause {
        let mut error = ProtoRegionError::default();
        change(&mut error);
        Cause::ExtractedErrors(vec![error.into()])
    }

    fn network_error() -> Cause {
        Cause::Io(std::io::ErrorKind::TimedOut.into())
    }

    #[test]
    fn transaction_is_not_torn_if_the_reply_to_its_commit_is_late_or_lost() {
        for stop in [
            Stop::Silence,
            Stop::Committed(network_error()),
            Stop::Committed(Cause::UndeterminedError(Box::new(network_error()))),
            // The reply to a second attempt, after the reply to the first was lost.
            Stop::Committed(region_error(|error| error.server_is_busy = Some(Default::default()))),
            Stop::Committed(key_error(|error| error.abort = "a test".into())),
        ] {
            let (regions, error) = Regions::end(stop);
            assert_eq!((regions.primary, regions.other), (Key::Committed, Key::Committed), "{error}");
            assert_eq!(regions.roll_backs, 0);
            assert!(matches!(error, Error::Unknown { .. }), "{error}");
        }
    }

    #[test]
    fn transaction_is_rolled_back_if_its_prewrite_was_refused() {
        let conflicts = [
            key_error(|error| error.conflict = Some(Default::default())),
            key_error(|error| error.locked = Some(Default::default())),
            key_error(|error| error.retryable = "the lock has expired".into()),
            Cause::ResolveLockError(Vec::new()),
        ];
        for cause in conflicts {
            let (regions, error) = Regions::end(Stop::Prewrite(cause));
            assert_eq!((regions.primary, regions.other, regions.roll_backs), (Key::Free, Key::Free, 1));
            assert!(matches!(error, Error::Conflict { .. }), "{error}");
        }
        let cause = region_error(|error| error.raft_entry_too_large = Some(Default::default()));
        let (regions, error) = Regions::end(Stop::Prewrite(cause));
        assert_eq!((regions.primary, regions.roll_backs), (Key::Free, 1));
        assert!(matches!(error, Error::Full { .. }), "{error}");
    }

    /// After a network error the outcome is unknown, even if nothing was committed: the client returns the same error
    /// whether or not the commit was executed.
    #[test]
    fn outcome_of_a_transaction_is_unknown_after_an_error_of_the_network() {
        let (regions, error) = Regions::end(Stop::Prewrite(network_error()));
        assert_eq!((regions.primary, regions.other, regions.roll_backs), (Key::Free, Key::Free, 0));
        assert!(matches!(error, Error::Unknown { .. }), "{error}");
    }
}

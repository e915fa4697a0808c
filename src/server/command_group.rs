//! Reads for many connections at once, on stores in which each read waits for the network.

use super::request_batch::RequestBatch;
use crate::store::Store;
use std::panic::{self, AssertUnwindSafe};

impl RequestBatch {
    /// Executes the read steps of a group, as far as no read waits for a node that does not respond. A step
    /// with a key of such a node is left unexecuted.
    pub fn read_group(group: &mut [Box<Self>], store: &Store) {
        let keys = group.iter().map(|exchange| exchange.key_chunks(1).into_iter().flatten().collect());
        let keys: Vec<Vec<Vec<u8>>> = keys.collect();
        let all: Vec<&[u8]> = keys.iter().flatten().map(Vec::as_slice).collect();
        // After a panic all steps are left unexecuted. A read that panics does so again where it is executed
        // for its own connection.
        let found = panic::catch_unwind(AssertUnwindSafe(|| store.read_now(&all)));
        let mut found = found.unwrap_or_default().into_iter();
        for (exchange, keys) in group.iter_mut().zip(&keys) {
            let values: Vec<_> = found.by_ref().take(keys.len()).collect();
            if values.len() < keys.len() || values.iter().any(Option::is_none) {
                continue;
            }
            exchange.answer_reads(usize::MAX, |keys, visit| {
                let found = values.iter().flatten().map(Option::as_deref).take(keys.len());
                let _all_that_is_wanted =
                    found.enumerate().try_for_each(|(index, value)| visit(index, value));
                Ok(())
            });
        }
    }
}

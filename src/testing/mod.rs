//! Tests of what every engine must do. kvbench runs them with the engines of this build; authors of other engines
//! can run them with their own.
//!
//! ```
//! # use kvbench::engine::{KINDS, Kind};
//! # static MINE: &[Kind] = KINDS;
//! # mod tests {
//! // In a file below `tests/`: one `#[test]` for each thing that an engine must do.
//! kvbench::engine_tests!(super::MINE);
//! # }
//! ```
//!
//! [`contract()`] runs all of these tests in one call. [`child_program`] has tests of a program that calls
//! [`kvbench::main`](crate::main): kills, power cuts, and a benchmark that verifies every value.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests, which shall fail loudly"
)]

pub mod child_program;
pub mod concurrency;
pub mod durability;
pub mod engine_case;
pub mod limits;
pub mod locks_and_paths;
pub mod model;
pub mod reads_and_writes;
pub mod scans;
pub mod skip_test;
pub mod writers;

use crate::engine::Kind;

/// Runs every test of [`engine_tests!`](crate::engine_tests) with one engine.
///
/// # Panics
///
/// At the first failed test. Standard output names the test, the fsync policy, and what else is needed to repeat
/// the failure.
pub fn contract(kind: &'static Kind) {
    for (name, test) in TESTS {
        println!("{name}");
        test(kind);
    }
}

/// Name and function of a test of the contract.
type Test = (&'static str, fn(&'static Kind));

const TESTS: &[Test] = crate::__engine_tests!(__engine_test_table());

/// Defines a `#[test]` for each thing that an engine must do, with the engines of a `&'static [Kind]`.
#[macro_export]
macro_rules! engine_tests {
    ($kinds:expr) => {
        $crate::__engine_tests!(__engine_test_functions($kinds));
    };
}

/// Passes the list of all tests to another macro.
#[doc(hidden)]
#[macro_export]
macro_rules! __engine_tests {
    ($then:ident $arguments:tt) => {
        $crate::$then! {
            $arguments
            reads_and_writes: a_key_is_absent_then_put_then_overwritten_then_deleted, an_empty_value_is_not_an_absent_one, keys_and_values_are_bytes, a_batch_is_applied_in_order, clear_is_one_write_of_a_batch, an_empty_batch_changes_nothing, a_read_answers_every_key_in_order, a_read_stops_when_told, values_of_all_sizes_are_kept, a_batch_of_10_000_writes_is_one_commit, everything_is_there_after_a_close_and_reopen, under_always_everything_is_there_after_a_drop_without_close;
            model: random_work_leaves_what_a_map_holds;
            scans: a_scan_visits_the_pairs_between_its_bounds, a_scan_visits_the_keys_of_a_prefix, a_scan_stops_when_told, a_scan_of_many_keys_is_ordered_where_the_engine_is;
            concurrency: no_reader_sees_half_a_batch, no_reader_sees_half_a_large_batch, a_write_is_visible_when_it_returns, a_snapshot_does_not_change, syncs_run_beside_writes;
            durability: what_info_says_survives_a_kill_survives_it, what_was_synced_survives_a_kill, a_synced_write_brings_the_unsynced_ones_before_it, a_cleared_store_stays_clear_after_a_kill;
            writers: batches_of_many_threads_stay_whole, no_write_of_many_threads_is_lost;
            limits: keys_of_the_shortest_and_the_longest_length_are_kept, a_key_outside_the_limits_is_absent_and_fails_the_whole_batch, data_take_room_on_disk_and_none_in_memory;
            locks_and_paths: data_in_use_are_locked, data_in_use_for_a_moment_are_waited_for, files_of_strangers_are_refused_and_left_alone, a_path_that_cannot_be_created_is_named_in_one_line, an_empty_place_is_taken_or_refused_in_one_line, nothing_is_recognised_where_nothing_is, many_reopens_in_a_row_find_the_lock_free;
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __engine_test_functions {
    (($kinds:expr) $($module:ident: $($name:ident),+;)+) => {
        $($(
            #[test]
            fn $name() {
                for kind in $kinds {
                    $crate::testing::$module::$name(kind);
                }
            }
        )+)+
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __engine_test_table {
    (() $($module:ident: $($name:ident),+;)+) => {
        &[$($((stringify!($name), $crate::testing::$module::$name as fn(&'static $crate::engine::Kind))),+),+]
    };
}

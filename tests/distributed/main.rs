//! Servers over one cluster. `make test-distributed` starts the clusters of `tools/cluster`, and runs this where they can
//! be reached; `KVBENCH_PD=HOST:PORT,... cargo test --release --features tikv --test distributed` takes another one, as
//! `KVBENCH_NODES` and `--features redis` do. In that, keys are written under prefixes of their own, and left there.

#![cfg(any(feature = "tikv", feature = "redis"))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "this crate is all tests; clippy sees only the functions with #[test]"
)]

#[path = "../support/mod.rs"]
mod support;

mod cluster;
mod failover;
#[path = "../wire/features.rs"]
mod features;
#[cfg(feature = "tikv")]
mod late;
#[cfg(feature = "tikv")]
mod proxy;
mod servers;
#[cfg(feature = "redis")]
mod slots;
#[cfg(feature = "tls")]
mod tls;

/// What every engine must do, but for what is about files, and a batch of 20,000 keys, for which the test server takes
/// minutes.
macro_rules! engine_tests {
    ($($module:ident: $($name:ident),+;)+) => {
        $($(
            #[test]
            fn $name() {
                let _cluster = cluster::shared();
                kvbench::testing::$module::$name(cluster::CLUSTER.kind);
            }
        )+)+
    };
}

engine_tests! {
    reads_and_writes: a_key_is_absent_then_put_then_overwritten_then_deleted, an_empty_value_is_not_an_absent_one, keys_and_values_are_bytes, a_batch_is_applied_in_order, clear_is_one_write_of_a_batch, an_empty_batch_changes_nothing, a_read_answers_every_key_in_order, a_read_stops_when_told, values_of_all_sizes_are_kept, a_batch_of_10_000_writes_is_one_commit, everything_is_there_after_a_close_and_reopen, under_always_everything_is_there_after_a_drop_without_close;
    model: random_work_leaves_what_a_map_holds;
    scans: a_scan_visits_the_pairs_between_its_bounds, a_scan_visits_the_keys_of_a_prefix, a_scan_stops_when_told, a_scan_of_many_keys_is_ordered_where_the_engine_is;
    concurrency: no_reader_sees_half_a_batch, a_write_is_visible_when_it_returns, syncs_run_beside_writes;
    writers: batches_of_many_threads_stay_whole, no_write_of_many_threads_is_lost;
    limits: keys_of_the_shortest_and_the_longest_length_are_kept, a_key_outside_the_limits_is_absent_and_fails_the_whole_batch;
}

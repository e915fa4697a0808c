//! The fields of INFO, against those of redis-server and those that tools read.

use super::text;
use crate::{
    differential::Redis,
    every_store::on_every_store,
    support::{Client, wait_until},
};
use std::collections::BTreeSet;

/// Fields of Redis that are not here, and why.
const LEFT_OUT: &[(&str, &str)] = &[
    (
        "kvbench is not built from Redis' source",
        "redis_git_sha1 redis_git_dirty redis_build_id gcc_version atomicvar_api",
    ),
    (
        "no timer runs so many times a second, and nobody notes when a key was used",
        "hz configured_hz lru_clock monotonic_clock multiplexing_api",
    ),
    ("workers have their sockets to themselves", "io_threads_active"),
    (
        "buffers are lent to a connection only while it is active",
        "client_recent_max_input_buffer \
        client_recent_max_output_buffer mem_clients_normal reply_buffer_shrinks reply_buffer_expands",
    ),
    (
        "engines do not tell data and overhead apart",
        "used_memory_overhead used_memory_startup used_memory_dataset \
        used_memory_dataset_perc mem_aof_buffer",
    ),
    (
        "the allocator is that of the C library, which does not tell",
        "allocator_allocated allocator_active \
        allocator_resident allocator_frag_ratio allocator_frag_bytes allocator_rss_ratio allocator_rss_bytes \
        rss_overhead_ratio rss_overhead_bytes",
    ),
    ("there are no scripts", "used_memory_lua_human used_memory_vm_total_human used_memory_scripts_human"),
    (
        "there are no snapshots",
        "current_cow_peak current_cow_size current_cow_size_age current_fork_perc \
        current_save_keys_processed current_save_keys_total rdb_changes_since_last_save rdb_last_save_time \
        rdb_last_bgsave_status rdb_last_bgsave_time_sec rdb_current_bgsave_time_sec rdb_last_cow_size \
        rdb_last_load_keys_expired rdb_last_load_keys_loaded module_fork_last_cow_size",
    ),
    (
        "an engine does not tell when it rewrites its log",
        "aof_rewrite_in_progress aof_rewrite_scheduled \
        aof_last_rewrite_time_sec aof_current_rewrite_time_sec aof_last_bgrewrite_status aof_rewrites \
        aof_rewrites_consecutive_failures aof_last_cow_size aof_base_size aof_pending_rewrite",
    ),
    (
        "nothing waits in a buffer of the server: see oldest_unsynced_ms",
        "aof_buffer_length aof_pending_bio_fsync",
    ),
    (
        "what has expired is removed at its time, not in rounds",
        "expired_stale_perc expired_time_cap_reached_count \
        expire_cycle_cpu_milliseconds",
    ),
    ("a system call is not counted by itself", "total_reads_processed total_writes_processed"),
    ("there is no main thread", "used_cpu_sys_main_thread used_cpu_user_main_thread"),
    ("there is no replication", "master_replid master_replid2"),
];

/// What redis_exporter, RedisInsight, Datadog's check or redis-py read, and is more than Redis' own sections have to
/// tell here.
const READ_BY_TOOLS: &str = "redis_version redis_mode os process_id run_id tcp_port uptime_in_seconds uptime_in_days \
    connected_clients blocked_clients maxclients used_memory used_memory_human used_memory_rss used_memory_peak \
    used_memory_peak_human total_system_memory maxmemory maxmemory_policy mem_fragmentation_ratio used_memory_lua \
    loading aof_enabled aof_last_write_status aof_current_size rdb_bgsave_in_progress total_connections_received \
    total_commands_processed instantaneous_ops_per_sec instantaneous_input_kbps instantaneous_output_kbps \
    total_net_input_bytes total_net_output_bytes rejected_connections sync_full sync_partial_ok sync_partial_err \
    expired_keys evicted_keys keyspace_hits keyspace_misses pubsub_channels pubsub_patterns latest_fork_usec role \
    connected_slaves master_repl_offset repl_backlog_active repl_backlog_size used_cpu_sys used_cpu_user \
    used_cpu_sys_children used_cpu_user_children cluster_enabled";

/// Section and name of each field.
fn fields(client: &mut Client) -> BTreeSet<(String, String)> {
    let (mut section, mut fields) = (String::new(), BTreeSet::new());
    for line in text(client, &["INFO", "everything"]).lines() {
        if let Some(name) = line.strip_prefix("# ") {
            section = name.to_owned();
        } else if let Some((name, _)) = line.split_once(':') {
            fields.insert((section.clone(), name.to_owned()));
        }
    }
    fields
}

#[test]
fn every_field_of_redis_is_there_or_left_out_for_a_reason() {
    let redis = Redis::start_with(&["--appendonly", "yes"]);
    let theirs = fields(&mut redis.connect());
    let left_out: BTreeSet<&str> = LEFT_OUT.iter().flat_map(|(_, names)| names.split_whitespace()).collect();
    on_every_store(|running| {
        let ours = fields(&mut running.connect());
        let sections = [
            "Server",
            "Clients",
            "Memory",
            "Persistence",
            "Stats",
            "Replication",
            "CPU",
            "Cluster",
            "Keyspace",
        ];
        let mut expected = theirs.clone();
        expected.retain(|(section, _)| sections.contains(&section.as_str()));
        assert!(expected.len() > 150, "{expected:?}");
        for field in &expected {
            assert_ne!(ours.contains(field), left_out.contains(field.1.as_str()), "{field:?}");
        }
        for name in &left_out {
            assert!(expected.iter().any(|(_, other)| other == name), "Redis has no {name}");
        }
        for name in READ_BY_TOOLS.split_whitespace() {
            assert!(ours.iter().any(|(_, other)| other == name), "{name} in {ours:?}");
        }
    });
}

/// The value of a field.
pub fn value(client: &mut Client, name: &str) -> String {
    let info = text(client, &["INFO"]);
    let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("no {name} in {info}")).to_owned()
}

#[test]
fn fields_that_both_know_are_equal() {
    let redis = Redis::start();
    on_every_store(|running| {
        let mut clients = [running.connect(), redis.connect()];
        for name in ["os", "arch_bits", "redis_mode", "process_supervised", "maxmemory_policy", "role"] {
            let [ours, theirs] = clients.each_mut().map(|client| value(client, name));
            assert_eq!(ours, theirs, "{name}");
        }
        let program = value(&mut clients[0], "executable");
        assert_eq!(std::path::Path::new(&program).file_name(), Some("kvbench".as_ref()));
    });
}

#[test]
fn resetstat_forgets_what_has_expired() {
    on_every_store(|running| {
        let mut client = running.connect();
        client.call(&["CONFIG", "RESETSTAT"]);
        assert_eq!(value(&mut client, "expired_keys"), "0");
        client.call(&["SET", "k", "v", "PX", "1"]);
        wait_until("the key is not removed", || value(&mut client, "expired_keys") == "1");
        client.call(&["CONFIG", "RESETSTAT"]);
        assert_eq!(value(&mut client, "expired_keys"), "0");
    });
}

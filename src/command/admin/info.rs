//! INFO: the sections and fields of Redis that apply to kvbench, and kvbench's own fields.

use crate::{
    command::{
        error::Error,
        flags::{LOADING, STALE},
        process_usage,
        server_state::{REDIS_VERSION, ServerState},
        spec::{NO_KEY, Spec, cmd},
    },
    resp::{Args, Reply},
};
use std::{
    fmt::{Display, Write},
    path::Path,
    sync::atomic::Ordering,
    time::{Duration, SystemTime},
};

pub(in crate::command) const COMMANDS: &[Spec] = &[cmd!("info", -1, NO_KEY, Blocking(info), LOADING | STALE;
        Server, "1.0.0", "Describe the server.")
.in_categories("dangerous")];

/// Name, `true` if INFO without arguments shows the section, and function that writes the section.
type Section = (&'static str, bool, fn(&ServerState, &mut Text) -> Result<(), Error>);

const SECTIONS: &[Section] = &[
    ("Server", true, server),
    ("Clients", true, clients),
    ("Memory", true, memory),
    ("Persistence", true, persistence),
    ("Stats", true, stats),
    ("Replication", true, replication),
    ("CPU", true, cpu),
    ("Modules", true, |_, _| Ok(())),
    ("Commandstats", false, command_stats),
    ("Errorstats", true, error_stats),
    ("Latencystats", false, latency_stats),
    ("Cluster", true, |_, text| {
        text.line("cluster_enabled", 0);
        Ok(())
    }),
    ("Keyspace", true, keyspace),
];

fn info(context: &ServerState, args: Args<'_>, reply: &mut Reply) -> Result<(), Error> {
    let has = |word: &str| args.from(1).any(|other| other.eq_ignore_ascii_case(word.as_bytes()));
    let (default, all) = (args.len() == 1 || has("default"), has("all") || has("everything"));
    let mut text = Text::default();
    for (name, by_default, write) in SECTIONS {
        if all || default && *by_default || has(name) {
            text.section(name);
            write(context, &mut text)?;
        }
    }
    reply.verbatim(&text.0);
    Ok(())
}

#[derive(Default)]
struct Text(String);

impl Text {
    fn section(&mut self, name: &str) {
        let gap = if self.0.is_empty() { "" } else { "\r\n" };
        self.write(format_args!("{gap}# {name}\r\n"));
    }

    fn line(&mut self, name: &str, value: impl Display) {
        self.write(format_args!("{name}:{value}\r\n"));
    }

    /// Writes fields of value 0, for features that kvbench does not have: tools that plot all fields of Redis
    /// need them.
    fn none_of(&mut self, names: &str) {
        names.split(' ').for_each(|name| self.line(name, 0));
    }

    /// Writes the INFO field `name` with a number of bytes, and its human-readable form; nothing for `None`, which
    /// the operating system does not report.
    fn bytes(&mut self, name: &str, bytes: Option<u64>) {
        if let Some(bytes) = bytes {
            self.line(name, bytes);
            self.line(&format!("{name}_human"), human(bytes));
        }
    }

    fn write(&mut self, text: std::fmt::Arguments<'_>) {
        // Writing to a String cannot fail.
        let _ = self.0.write_fmt(text);
    }
}

/// Returns a number of bytes in Redis' human-readable form: `512B`, `1.50M`.
fn human(bytes: u64) -> String {
    const UNITS: [(u32, char); 3] = [(30, 'G'), (20, 'M'), (10, 'K')];
    let unit = UNITS.iter().find(|(shift, _)| bytes >> shift > 0);
    unit.map_or_else(
        || format!("{bytes}B"),
        |(shift, letter)| format!("{:.2}{letter}", bytes as f64 / (1_u64 << shift) as f64),
    )
}

fn server(context: &ServerState, text: &mut Text) -> Result<(), Error> {
    let uptime = context.started.elapsed();
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let info = context.store.info();
    text.line("redis_version", REDIS_VERSION);
    text.line("redis_mode", "standalone");
    text.line("kvbench_version", env!("CARGO_PKG_VERSION"));
    text.line("store", info.name);
    text.line("store_library", info.library);
    text.line("os", process_usage::system());
    text.line("arch_bits", usize::BITS);
    text.line("process_id", std::process::id());
    let manager = if std::env::var_os("NOTIFY_SOCKET").is_some() { "systemd" } else { "no" };
    text.line("process_supervised", manager);
    text.line("run_id", &context.run_id);
    text.line("tcp_port", context.port);
    text.line("server_time_usec", now.as_micros());
    text.line("uptime_in_seconds", uptime.as_secs());
    text.line("uptime_in_days", uptime.as_secs() / Duration::from_hours(24).as_secs());
    let program = std::env::current_exe().unwrap_or_default();
    text.line("executable", program.display());
    text.line("config_file", context.file.path().unwrap_or(Path::new("")).display());
    Ok(())
}

fn clients(context: &ServerState, text: &mut Text) -> Result<(), Error> {
    text.line("connected_clients", context.connections());
    text.line("cluster_connections", 0);
    text.line("maxclients", context.live.max_clients.load(Ordering::Relaxed));
    text.none_of("blocked_clients tracking_clients clients_in_timeout_table");
    Ok(())
}

fn memory(_: &ServerState, text: &mut Text) -> Result<(), Error> {
    let memory = process_usage::memory();
    text.bytes("used_memory", memory.used);
    text.bytes("used_memory_rss", memory.resident);
    text.bytes("used_memory_peak", memory.peak);
    text.bytes("total_system_memory", memory.total);
    text.bytes("maxmemory", Some(0));
    text.line("maxmemory_policy", "noeviction");
    if let (Some(used), Some(peak)) = (memory.used, memory.peak) {
        text.line("used_memory_peak_perc", format_args!("{:.2}%", used as f64 * 100.0 / peak.max(1) as f64));
    }
    if let (Some(used), Some(resident)) = (memory.used, memory.resident) {
        text.line("mem_fragmentation_bytes", resident.saturating_sub(used));
        text.line("mem_fragmentation_ratio", format_args!("{:.2}", resident as f64 / used.max(1) as f64));
    }
    text.line("mem_allocator", "libc");
    text.none_of(
        "used_memory_lua used_memory_vm_eval used_memory_scripts_eval number_of_cached_scripts number_of_functions \
         number_of_libraries used_memory_vm_functions used_memory_vm_total used_memory_functions used_memory_scripts \
         mem_not_counted_for_evict mem_replication_backlog mem_total_replication_buffers mem_clients_slaves \
         mem_cluster_links active_defrag_running lazyfree_pending_objects lazyfreed_objects",
    );
    Ok(())
}

fn persistence(context: &ServerState, text: &mut Text) -> Result<(), Error> {
    let store = &context.store;
    let ok = if store.read_only_cause().is_some() { "err" } else { "ok" };
    text.none_of("loading async_loading rdb_bgsave_in_progress rdb_saves module_fork_in_progress");
    text.line("aof_enabled", u8::from(!store.is_memory_only()));
    text.line("aof_last_write_status", ok);
    text.line("fsync", store.fsync());
    text.line("writes_refused", u8::from(store.read_only_cause().is_some()));
    if let Some(state) = store.sync_state() {
        let last = state.last_sync.and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok());
        text.line("oldest_unsynced_ms", state.oldest_unsynced.unwrap_or_default().as_millis());
        text.line("last_sync_time", last.unwrap_or_default().as_secs());
        text.line("writes_delayed_by_sync", state.delays);
    }
    text.line("aof_delayed_fsync", store.sync_state().map_or(0, |state| state.delays));
    group_lines(context, text);
    let size = store.disk_size()?;
    text.line("aof_current_size", size);
    text.line("disk_bytes", size);
    Ok(())
}

/// Writes the number of clients per commit, and the durations of commits and syncs.
fn group_lines(context: &ServerState, text: &mut Text) {
    let groups = &context.groups;
    let (size, commit, sync) = (groups.size.counts(), groups.commit.counts(), groups.sync.counts());
    text.line("commits", commit.count());
    text.line("timer_syncs", sync.count());
    let clients = size.sum() >> 10;
    let mean = clients as f64 / size.count().max(1) as f64;
    text.line("commit_clients_total", clients);
    text.line("commit_group_size_mean", format_args!("{mean:.2}"));
    text.line("commit_usec_total", commit.sum() / 1000);
    for (name, counts) in [("commit", commit), ("sync", sync)] {
        for (percentile, percent) in [("p50", 50.0), ("p99", 99.0)] {
            text.line(&format!("{name}_usec_{percentile}"), counts.percentile(percent) / 1000);
        }
    }
}

fn stats(context: &ServerState, text: &mut Text) -> Result<(), Error> {
    let rates = context.rates();
    text.line("total_connections_received", context.total(|stats| &stats.accepted));
    text.line("total_commands_processed", context.total(|stats| &stats.commands));
    text.line("instantaneous_ops_per_sec", rates.commands as u64);
    text.line("total_net_input_bytes", context.total(|stats| &stats.received));
    text.line("total_net_output_bytes", context.total(|stats| &stats.sent));
    text.line("instantaneous_input_kbps", format_args!("{:.2}", rates.received / 1024.0));
    text.line("instantaneous_output_kbps", format_args!("{:.2}", rates.sent / 1024.0));
    text.line("rejected_connections", context.rejected.load(Ordering::Relaxed));
    let expired = context.store.expiry().removed();
    text.line("expired_keys", expired.saturating_sub(context.expired.load(Ordering::Relaxed)));
    text.line("keyspace_hits", context.total(|stats| &stats.keyspace_hits));
    text.line("keyspace_misses", context.total(|stats| &stats.keyspace_misses));
    text.line("corrupt_reads", context.store.corrupt_reads());
    text.line("total_error_replies", context.errors.counts().iter().map(|(_, count)| count).sum::<u64>());
    text.none_of(
        "total_net_repl_input_bytes total_net_repl_output_bytes instantaneous_input_repl_kbps \
         instantaneous_output_repl_kbps sync_full sync_partial_ok sync_partial_err evicted_keys evicted_clients \
         total_eviction_exceeded_time current_eviction_exceeded_time pubsub_channels pubsub_patterns \
         pubsubshard_channels latest_fork_usec total_forks migrate_cached_sockets slave_expires_tracked_keys \
         active_defrag_hits active_defrag_misses active_defrag_key_hits active_defrag_key_misses \
         total_active_defrag_time current_active_defrag_time tracking_total_keys tracking_total_items \
         tracking_total_prefixes unexpected_error_replies dump_payload_sanitizations io_threaded_reads_processed \
         io_threaded_writes_processed",
    );
    Ok(())
}

fn replication(_: &ServerState, text: &mut Text) -> Result<(), Error> {
    text.line("role", "master");
    text.line("connected_slaves", 0);
    text.line("master_failover_state", "no-failover");
    text.line("second_repl_offset", -1);
    text.none_of(
        "master_repl_offset repl_backlog_active repl_backlog_size repl_backlog_first_byte_offset repl_backlog_histlen",
    );
    Ok(())
}

fn cpu(_: &ServerState, text: &mut Text) -> Result<(), Error> {
    for (times, of) in
        [(process_usage::processor(), ""), (process_usage::processor_of_children(), "_children")]
    {
        if let Some((system, user)) = times {
            text.line(&format!("used_cpu_sys{of}"), format_args!("{:.6}", system.as_secs_f64()));
            text.line(&format!("used_cpu_user{of}"), format_args!("{:.6}", user.as_secs_f64()));
        }
    }
    Ok(())
}

fn command_stats(context: &ServerState, text: &mut Text) -> Result<(), Error> {
    for (name, total) in context.used_commands() {
        let micros = total.nanos / 1000;
        let each = total.nanos as f64 / 1000.0 / total.calls.max(1) as f64;
        text.write(format_args!(
            "cmdstat_{name}:calls={},usec={micros},usec_per_call={each:.2},rejected_calls={},failed_calls={}\r\n",
            total.calls, total.rejected, total.failed
        ));
    }
    Ok(())
}

fn error_stats(context: &ServerState, text: &mut Text) -> Result<(), Error> {
    for (code, count) in context.errors.counts() {
        text.write(format_args!("errorstat_{code}:count={count}\r\n"));
    }
    Ok(())
}

fn latency_stats(context: &ServerState, text: &mut Text) -> Result<(), Error> {
    for (name, total) in context.used_commands().filter(|(_, total)| total.calls > 0) {
        let micros = |percent| total.latency.percentile(percent) as f64 / 1000.0;
        let (p50, p99, p999) = (micros(50.0), micros(99.0), micros(99.9));
        text.write(format_args!(
            "latency_percentiles_usec_{name}:p50={p50:.3},p99={p99:.3},p99.9={p999:.3}\r\n"
        ));
    }
    Ok(())
}

/// Writes the number of keys of each database, if the store can count them in short time: on some engines that
/// is a scan, and clients send INFO before they are ready.
fn keyspace(context: &ServerState, text: &mut Text) -> Result<(), Error> {
    // A failed count is left out, so that the rest of INFO is shown.
    for (database, count) in context.store.key_counts().ok().flatten().unwrap_or_default() {
        let (keys, expires, left) = (count.keys, count.expires, count.mean_ttl_ms());
        text.line(&format!("db{database}"), format_args!("keys={keys},expires={expires},avg_ttl={left}"));
    }
    Ok(())
}

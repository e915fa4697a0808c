//! Metrics in the text format of Prometheus (<https://prometheus.io/docs/instrumenting/exposition_formats/>).

use crate::{
    command::{
        ServerState, process,
        state::stats::{CommandTotal, HistogramSnapshot},
    },
    store::KeyStats,
};
use std::{
    fmt::{Display, Write},
    sync::atomic::Ordering,
};

/// Text written so far.
#[derive(Default)]
pub(super) struct PrometheusText(String);

impl PrometheusText {
    /// Returns the text with the current values of all metrics.
    pub fn of(context: &ServerState) -> Self {
        let mut text = Self::default();
        text.server(context);
        text.commands(context);
        text.commits(context);
        text.process();
        text.engine(context);
        text
    }

    pub fn finish(self) -> String {
        self.0
    }

    fn server(&mut self, context: &ServerState) {
        let info = context.store.info();
        let labels = [
            ("version", env!("CARGO_PKG_VERSION")),
            ("store", info.name),
            ("library", info.library),
            ("fsync", context.store.fsync().as_str()),
        ];
        self.family("info", "gauge", "What this server is; always 1.");
        self.sample("info", &labels, 1);
        self.gauge("uptime_seconds", "Time since the start.", context.started.elapsed().as_secs_f64());
        self.gauge("connected_clients", "Open connections.", context.connections());
        self.gauge("max_clients", "Most connections.", context.live.max_clients.load(Ordering::Relaxed));
        for (name, help, value) in [
            (
                "connections_received",
                "Connections that were accepted.",
                context.total(|stats| &stats.accepted),
            ),
            ("connections_rejected", "Connections turned away.", context.rejected.load(Ordering::Relaxed)),
            ("requests", "Requests, of whatever kind.", context.total(|stats| &stats.commands)),
            ("keyspace_hits", "Keys that reads found.", context.total(|stats| &stats.keyspace_hits)),
            (
                "keyspace_misses",
                "Keys that reads did not find.",
                context.total(|stats| &stats.keyspace_misses),
            ),
            ("net_received_bytes", "Bytes received.", context.total(|stats| &stats.received)),
            ("net_sent_bytes", "Bytes sent.", context.total(|stats| &stats.sent)),
        ] {
            self.counter(name, help, value);
        }
        self.family("errors_total", "counter", "Error replies, by their first word.");
        for (code, count) in context.errors.counts() {
            self.sample("errors_total", &[("code", &code)], count);
        }
    }

    fn commands(&mut self, context: &ServerState) {
        let used: Vec<(&str, CommandTotal)> = context
            .names
            .iter()
            .enumerate()
            .filter_map(|(index, name)| Some((name.as_str(), context.command_total(index)?)))
            .collect();
        type Figure = fn(&CommandTotal) -> f64;
        let figures: [(&str, &str, Figure); 4] = [
            ("commands_total", "Commands that ran.", |total| total.calls as f64),
            ("commands_failed_total", "Commands whose reply was an error.", |total| total.failed as f64),
            ("commands_rejected_total", "Commands refused before they ran.", |total| total.rejected as f64),
            ("command_seconds_total", "Time that commands took, each its share of its run.", |total| {
                total.nanos as f64 / 1e9
            }),
        ];
        for (name, help, figure) in figures {
            self.family(name, "counter", help);
            for (command, total) in &used {
                self.sample(name, &[("command", command)], figure(total));
            }
        }
        let name = "command_latency_seconds";
        self.family(name, "histogram", "From a command's turn to its reply, commit and sync included.");
        for (command, total) in &used {
            self.histogram(name, &[("command", command)], &total.latency, 1e9);
        }
    }

    fn commits(&mut self, context: &ServerState) {
        let groups = &context.groups;
        for (name, help, counts, unit) in [
            ("commit_group_size", "Clients whose writes shared a commit.", groups.size.counts(), 1024.0),
            ("commit_seconds", "Time of a commit; under always with its sync.", groups.commit.counts(), 1e9),
            ("sync_seconds", "Time of a sync of everysec.", groups.sync.counts(), 1e9),
        ] {
            self.family(name, "histogram", help);
            self.histogram(name, &[], &counts, unit);
        }
        let store = &context.store;
        self.gauge(
            "writes_refused",
            "1 after a write or sync that failed.",
            u8::from(store.read_only_cause().is_some()),
        );
        if let Some(state) = store.sync_state() {
            let age = state.oldest_unsynced.unwrap_or_default().as_secs_f64();
            self.gauge("oldest_unsynced_seconds", "Age of the oldest write that is not synced.", age);
            self.counter("writes_delayed_by_sync", "How often writes waited for a sync.", state.delays);
        }
    }

    fn process(&mut self) {
        let memory = process::memory();
        for (name, help, bytes) in [
            ("memory_used_bytes", "Heap and stacks.", memory.used),
            ("memory_resident_bytes", "Physical memory, mapped files included.", memory.resident),
            ("memory_peak_bytes", "The most physical memory there was.", memory.peak),
        ] {
            if let Some(bytes) = bytes {
                self.gauge(name, help, bytes);
            }
        }
        if let Some((system, user)) = process::processor() {
            self.family("cpu_seconds_total", "counter", "Processor time.");
            self.sample("cpu_seconds_total", &[("mode", "system")], system.as_secs_f64());
            self.sample("cpu_seconds_total", &[("mode", "user")], user.as_secs_f64());
        }
    }

    /// Writes the gauges of the engine. Gauges that are slow to read, or that fail, are left out.
    fn engine(&mut self, context: &ServerState) {
        let store = &context.store;
        if let Ok(bytes) = store.disk_size() {
            self.gauge("disk_bytes", "Size of the engine's files.", bytes);
        }
        if let Ok(Some(counts)) = store.key_counts() {
            type Figure = fn(&KeyStats) -> u64;
            let figures: [(&str, &str, Figure); 2] = [
                ("keys", "Keys, by database.", |count| count.keys),
                ("keys_expiring", "Keys that expire, by database.", |count| count.expires),
            ];
            for (name, help, figure) in figures {
                self.family(name, "gauge", help);
                for (database, count) in &counts {
                    self.sample(name, &[("db", &database.to_string())], figure(count));
                }
            }
        }
        self.counter("expired_keys", "Keys that have expired and were removed.", store.expiry().removed());
        self.counter("corrupt_reads", "Reads that failed because data are corrupt.", store.corrupt_reads());
        for figure in store.figures() {
            self.gauge(&format!("engine_{}", figure.name), figure.help, figure.value);
        }
    }

    fn gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.family(name, "gauge", help);
        self.sample(name, &[], value);
    }

    fn counter(&mut self, name: &str, help: &str, value: u64) {
        let name = format!("{name}_total");
        self.family(&name, "counter", help);
        self.sample(&name, &[], value);
    }

    fn family(&mut self, name: &str, kind: &str, help: &str) {
        self.write(format_args!("# HELP kvbench_{name} {help}\n# TYPE kvbench_{name} {kind}\n"));
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        self.write(format_args!("kvbench_{name}"));
        for (index, (label, value)) in labels.iter().enumerate() {
            let begin = if index == 0 { '{' } else { ',' };
            let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            self.write(format_args!("{begin}{label}=\"{value}\""));
        }
        let end = if labels.is_empty() { "" } else { "}" };
        self.write(format_args!("{end} {value}\n"));
    }

    /// Writes a histogram with a bucket per power of two; `unit` is the value of one recorded unit.
    fn histogram(&mut self, name: &str, labels: &[(&str, &str)], counts: &HistogramSnapshot, unit: f64) {
        let bucket = format!("{name}_bucket");
        let mut step = |end: &str, count: u64| {
            let labels: Vec<_> = labels.iter().copied().chain([("le", end)]).collect();
            self.sample(&bucket, &labels, count);
        };
        let count = counts.count();
        // The last bucket also holds all larger values.
        let powers: Vec<_> = counts.cumulative_buckets().collect();
        for (value, below) in powers.split_last().map_or(&[][..], |(_, powers)| powers) {
            step(&(*value as f64 / unit).to_string(), *below);
        }
        step("+Inf", count);
        self.sample(&format!("{name}_sum"), labels, counts.sum() as f64 / unit);
        self.sample(&format!("{name}_count"), labels, count);
    }

    fn write(&mut self, text: std::fmt::Arguments<'_>) {
        // Writing to a String cannot fail.
        let _ = self.0.write_fmt(text);
    }
}

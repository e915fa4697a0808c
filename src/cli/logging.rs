//! Log of the program on standard error: plain lines, or one JSON object per line.

use crate::engine::all_kinds;
use clap::ValueEnum;
use env_logger::Builder;
use log::{Level, LevelFilter, Record};
use serde::Serialize;
use std::{io::Write, time::SystemTime};

/// Format of the log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
// Without comments on the variants: clap would print them as help.
pub enum Format {
    Plain,
    Json,
}

/// Line of the log as a JSON object.
#[derive(Serialize)]
struct Line<'a> {
    time: String,
    level: &'a str,
    target: &'a str,
    message: String,
}

fn plain(record: &Record<'_>) -> String {
    let time = humantime::format_rfc3339_seconds(SystemTime::now());
    format!("[{time} {:<5} {}] {}", record.level(), record.target(), record.args())
}

fn json(level: Level, target: &str, message: String) -> String {
    let time = humantime::format_rfc3339_millis(SystemTime::now()).to_string();
    let line = Line { time, level: level.as_str(), target, message };
    serde_json::to_string(&line).unwrap_or_default()
}

/// Returns the line that the server prints to standard output when it is ready, in the format of the log: a plain line
/// has no time and no level.
pub fn start_line(format: Format, message: String) -> String {
    match format {
        Format::Plain => message,
        Format::Json => json(Level::Info, "kvbench", message),
    }
}

/// Starts logging. [`log::set_max_level`] can change the level later. With `level` `info`, libraries of engines log
/// only warnings and errors, even if the level is changed to `debug` or `trace` later.
pub fn begin(level: LevelFilter, format: Format) {
    let theirs = if level == LevelFilter::Info { LevelFilter::Warn } else { level };
    let mut builder = Builder::new();
    // Lines are filtered before, by the current maximum level.
    builder.filter_level(LevelFilter::Trace);
    for target in all_kinds().flat_map(|kind| kind.info.log_targets) {
        builder.filter_module(target, theirs);
    }
    match format {
        Format::Json => builder.format(|line, record| {
            writeln!(line, "{}", json(record.level(), record.target(), record.args().to_string()))
        }),
        Format::Plain => builder.format(|line, record| writeln!(line, "{}", plain(record))),
    };
    builder.init();
    log::set_max_level(level);
}

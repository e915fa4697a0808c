//! The program's own log, on standard error: lines for people, or a JSON object a line for tools.

use env_logger::Builder;
use log::{LevelFilter, Record};
use serde::Serialize;
use std::{io::Write, time::SystemTime};

/// How a line looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// For people.
    Plain,
    /// One JSON object a line.
    Json,
}

/// A line for tools.
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

fn json(record: &Record<'_>) -> Option<String> {
    let line = Line {
        time: humantime::format_rfc3339_millis(SystemTime::now()).to_string(),
        level: record.level().as_str(),
        target: record.target(),
        message: record.args().to_string(),
    };
    serde_json::to_string(&line).ok()
}

/// Begins to log. The level may be changed later by [`log::set_max_level`]. Of the engines' libraries, their troubles
/// alone are told, unless more is asked for at the start.
pub fn begin(level: LevelFilter, format: Format) {
    let theirs = if level == LevelFilter::Info { LevelFilter::Warn } else { level };
    let mut builder = Builder::new();
    // What is let through is decided before, by the level of the moment.
    builder.filter_level(LevelFilter::Trace);
    for library in ["canopydb", "fjall", "libmdbx", "lsm_tree", "tikv_client"] {
        builder.filter_module(library, theirs);
    }
    match format {
        Format::Json => builder.format(|line, record| writeln!(line, "{}", json(record).unwrap_or_default())),
        Format::Plain => builder.format(|line, record| writeln!(line, "{}", plain(record))),
    };
    builder.init();
    log::set_max_level(level);
}

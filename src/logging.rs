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

fn json(record: &Record<'_>) -> Option<String> {
    let time = jiff::Timestamp::try_from(SystemTime::now()).ok()?;
    let line = Line {
        time: format!("{time:.3}"),
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
    if format == Format::Json {
        builder.format(|line, record| writeln!(line, "{}", json(record).unwrap_or_default()));
    }
    builder.init();
    log::set_max_level(level);
}

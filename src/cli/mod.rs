//! Command line of the program: its flags and subcommands, with the conversion of flags to options of other modules.

#[cfg(feature = "bench")]
mod bench;
#[cfg(all(feature = "bench", target_os = "linux"))]
mod calibrate;
mod check;
mod cluster;
mod config_file;
pub(super) mod dispatch;
#[cfg(feature = "bench")]
mod duel;
mod help;
pub mod list_stores;
mod logging;
mod network;
#[cfg(feature = "bench")]
mod reproduce;
mod serve;
mod systemd_notify;
#[cfg(all(feature = "torture", target_os = "linux"))]
mod torture;
mod units;
mod value_parsers;

#[cfg(feature = "bench")]
use crate::bench::report::tracking_services::Format;
use crate::engine::Kind;
use anyhow::Context;
#[cfg(feature = "bench")]
use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
#[cfg(feature = "top")]
use std::time::Duration;
use std::{
    env,
    io::{self, Write},
    path::PathBuf,
};
use thiserror::Error;

#[cfg(feature = "bench")]
pub use bench::Bench;
#[cfg(all(feature = "bench", target_os = "linux"))]
pub use calibrate::Calibrate;
pub use config_file::Error as FileError;
#[cfg(feature = "bench")]
pub use duel::Duel;
#[cfg(feature = "bench")]
pub use reproduce::Reproduce;
pub use serve::Serve;
#[cfg(all(feature = "torture", target_os = "linux"))]
pub use torture::Torture;

const SHORT_EXAMPLES: &str = "\
Examples:
  kvbench --store rocksdb --port 6380              serve RocksDB in ./rocksdb.db
  kvbench stores                                   the engines, and what each may lose
  kvbench bench --suite ycsb --quick               compare them, in minutes
All flags, in groups: kvbench --help";

const EXAMPLES: &str = "\
Examples:
  kvbench                                          map with an append-only file, fsync always
  kvbench --store rocksdb --port 6380              RocksDB in ./rocksdb.db
  kvbench --store btree --path :memory:            nothing on disk
  kvbench --store lmdb --path /data/l --fsync no   LMDB; the operating system decides when to sync
  kvbench stores                                   the engines, and what they promise
  kvbench torture --store lmdb --mode power        cut its power, and look for lost writes
  kvbench report results --output report           tables and charts of runs of kvbench bench
  kvbench compare a.json b.json --fail-above 10%   what became slower
  redis-benchmark -p 6380 -t set,get -P 16         put load on it";

/// Cargo features with subcommands: name of the feature, `true` if this build has it, and its subcommands.
const FEATURES: &[(&str, bool, &[&str])] = &[
    (
        "bench",
        cfg!(feature = "bench"),
        &["bench", "calibrate", "compare", "duel", "export", "report", "reproduce"],
    ),
    ("manual", cfg!(feature = "manual"), &["completions", "man"]),
    ("top", cfg!(feature = "top"), &["top"]),
    ("torture", cfg!(feature = "torture"), &["torture"]),
];

/// Subcommands that only a build for Linux has.
const LINUX_ONLY: &[&str] = &["calibrate", "torture"];

// A paragraph is one line: clap wraps it at the width of the terminal.
#[cfg(feature = "bench")]
const COMPARE_HELP: &str = "\
Exit code: 0; 1 when --fail-above is exceeded; 2 when a run cannot be read, when the runs have no common cell, or when \
it cannot be told whether --fail-above is exceeded: a cell of the first run is not compared, the noise is larger than \
the limit, or a store, or all stores together, became worse by more than the limit and it may be chance.

The verdict is about stores. A change that all stores under one --fsync policy have in common may come from the \
machine, and is subtracted first; `kvbench duel` tells it from a change of the program. A change counts when it is \
larger than the noise within and between runs, corrected for the number of comparisons: of 20 comparisons of equal \
builds at most one fails by chance. A single cell counts only when it became much slower. With fewer than three \
repetitions there is no verdict.";

const CHECK_HELP: &str = "\
Exit code: 0 when the data are sound, 1 when they are damaged, 2 when they cannot be checked.

No server may have the data open. Append-only files, and directories of such files, are read in place. All other data \
are copied to TMPDIR (without it, to /var/tmp) first, and the copy is opened.";

const REPAIR_HELP: &str = "\
A first line that is damaged is rewritten, if the frame behind it is whole; all records are then kept. Other damage \
is cut off together with everything behind it. What is replaced or cut off is first copied to a new file, PATH.removed-1 (or -2, ...).

Exit code: 0 when the file opens now, 1 when it could not be repaired.";

/// One Redis-protocol server in front of many embedded key-value engines.
#[derive(Debug, Parser)]
#[command(name = "kvbench", version, after_help = SHORT_EXAMPLES, after_long_help = EXAMPLES, args_conflicts_with_subcommands = true, args_override_self = true)]
pub struct Cli {
    /// What to do; serve when absent.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// Options of serve.
    #[command(flatten)]
    pub serve: Serve,
}

/// Subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve one store over the Redis protocol (the default)
    #[command(after_help = SHORT_EXAMPLES, after_long_help = EXAMPLES, args_override_self = true)]
    Serve(Box<Serve>),
    /// Measure engines, in process or over the wire
    #[cfg(feature = "bench")]
    #[command(after_help = bench::short_help(), after_long_help = bench::EXAMPLES)]
    Bench(Box<Bench>),
    /// Kill a server under load, cut its power or fill its disk, and look for every acknowledged write
    #[cfg(all(feature = "torture", target_os = "linux"))]
    #[command(after_help = torture::EXAMPLES)]
    Torture(Box<Torture>),
    /// Measure an engine whose true figures are known, to check the figures of this build
    #[cfg(all(feature = "bench", target_os = "linux"))]
    #[command(after_help = calibrate::HELP)]
    Calibrate(Calibrate),
    /// Repeat a published experiment, and show its figures next to those of this machine
    #[cfg(feature = "bench")]
    #[command(after_help = reproduce::HELP)]
    Reproduce(Box<Reproduce>),
    /// Compare two kvbench programs by turns: did a change make a store slower?
    #[cfg(feature = "bench")]
    #[command(after_help = duel::HELP)]
    Duel(Box<Duel>),
    /// Print what this program measures, as JSON (started by duel)
    #[cfg(feature = "bench")]
    #[command(hide = true)]
    DescribeBuild,
    /// Measure one job (started by bench, for each group of cells)
    #[cfg(feature = "bench")]
    #[command(hide = true)]
    MeasureJob,
    /// Print the JSON schema of result files
    #[cfg(feature = "bench")]
    #[command(hide = true)]
    ResultSchema,
    /// List the engines of this build, and what each may lose under each --fsync policy
    Stores {
        /// Stores to describe in full [default: a table of all stores]
        #[arg(value_parser = value_parsers::KindParser, hide_possible_values = true)]
        store: Vec<&'static Kind>,
        /// Print the table as Markdown
        #[arg(long, conflicts_with = "store")]
        markdown: bool,
        /// Print every fact of these stores, or of all, as JSON for scripts, with one engine on each line
        #[arg(long, conflicts_with = "markdown")]
        json: bool,
    },
    /// List the commands that the server knows, as Markdown
    Commands,
    /// Print a shell completion script
    #[cfg(feature = "manual")]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page
    #[cfg(feature = "manual")]
    Man,
    /// Watch a Redis server at work
    #[cfg(feature = "top")]
    Top(Top),
    /// Check the data of a store for corruption (read-only)
    #[command(after_help = CHECK_HELP)]
    Check {
        /// The file or directory that --path named
        path: PathBuf,
    },
    /// Check in this process (started by check)
    #[command(hide = true)]
    CheckHere {
        /// The store
        store: String,
        /// A copy of its data
        path: PathBuf,
    },
    /// Repair an append-only file (map, btree): restore its first line, cut it off at the first corruption
    #[command(after_help = REPAIR_HELP)]
    Repair {
        /// The append-only file
        path: PathBuf,
    },
    /// Turn runs of `kvbench bench` into report.md, report.csv and a self-contained report.html
    #[cfg(feature = "bench")]
    Report(Report),
    /// Print runs as JSON for Bencher or github-action-benchmark
    #[cfg(feature = "bench")]
    Export(Export),
    /// Compare two runs, and show what became slower beyond the noise
    #[cfg(feature = "bench")]
    #[command(after_help = COMPARE_HELP)]
    Compare(Compare),
}

/// Error in reading the command line.
#[derive(Debug, Error)]
pub enum CliError {
    /// Error in the file that `--config` names.
    #[error(transparent)]
    File(#[from] FileError),
    /// Name of a store in the place of a subcommand, without the flag for it.
    #[error("{store} is the name of a store, and no subcommand: write {flag} {store}")]
    StoreWithoutFlag {
        /// Name of the store.
        store: &'static str,
        /// Flag that takes the name of a store: `--store`, or `--stores` of subcommands that measure several.
        flag: &'static str,
    },
    /// `kvbench reproduce` without a publication: the list of all.
    #[cfg(feature = "bench")]
    #[error("reproduce: name the publication to repeat:\n{0}\nTo go on: kvbench reproduce redb --quick")]
    NoPublication(String),
    /// Subcommand of a feature that this build lacks.
    #[error("this build has no `kvbench {command}`: build it with --features {feature}")]
    NotBuilt {
        /// Name of the subcommand.
        command: String,
        /// The Cargo feature with this subcommand.
        feature: &'static str,
    },
    /// Subcommand that needs another operating system.
    #[error("`kvbench {0}` needs Linux")]
    NeedsLinux(String),
}

impl CliError {
    /// Returns the error for the subcommand `command` in this build, or in one for another system if `is_linux` is
    /// `false`; `None` if the build has it, or if there is none of this name.
    fn absent(command: &str, is_linux: bool) -> Option<Self> {
        let &(feature, is_built, _) = FEATURES.iter().find(|(_, _, commands)| commands.contains(&command))?;
        if !is_linux && LINUX_ONLY.contains(&command) {
            return Some(Self::NeedsLinux(command.into()));
        }
        (!is_built).then(|| Self::NotBuilt { command: command.into(), feature })
    }
}

/// Options of `kvbench top`.
#[cfg(feature = "top")]
#[derive(clap::Args, Debug)]
pub struct Top {
    /// The server, or a port of this machine [default: 127.0.0.1:6380]
    #[arg(value_name = "HOST:PORT|PORT", value_parser = server)]
    server: Option<String>,
    /// Port of the server, which is on this machine
    #[arg(long, short, value_name = "PORT", conflicts_with = "server")]
    port: Option<u16>,
    /// Time between two updates, such as 0.5 or 1m
    #[arg(long, short, value_name = "SECONDS", default_value = "1", value_parser = interval)]
    interval: Duration,
    /// Stop after this many updates [default: run until q or Ctrl-C]
    #[arg(long, short = 'n', value_name = "N", value_parser = units::count::<u64>(1..=u64::MAX))]
    count: Option<u64>,
    /// File with the password of the server to show
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
}

/// Parses the address of a server to watch, or its port if it is on this machine, and returns host and port.
#[cfg(feature = "top")]
fn server(text: &str) -> Result<String, String> {
    let is_port = |text: &str| text.parse::<u16>().is_ok();
    match text.rsplit_once(':') {
        Some((host, port)) if !host.is_empty() && is_port(port) => Ok(text.into()),
        None if is_port(text) => Ok(format!("127.0.0.1:{text}")),
        _ => Err("it must be HOST:PORT, or a port of this machine, such as localhost:6380 or 6380".into()),
    }
}

/// Parses the time between two updates: at least 50 ms, at most a day.
#[cfg(feature = "top")]
fn interval(text: &str) -> Result<Duration, String> {
    let seconds = units::unlimited_positive_seconds(text)?;
    match (0.05..=86_400.0).contains(&seconds) {
        true => Ok(Duration::from_secs_f64(seconds)),
        false => Err("it must be a time from 50ms to 1d, such as 0.5 (seconds) or 2s".into()),
    }
}

#[cfg(feature = "top")]
impl Top {
    /// Returns the options of `kvbench top`.
    pub fn options(self) -> crate::top::Options {
        let port = self.port.unwrap_or(6380);
        crate::top::Options {
            server: self.server.unwrap_or_else(|| format!("127.0.0.1:{port}")),
            interval: self.interval,
            count: self.count,
            password_file: self.password_file,
        }
    }
}

/// Options of `kvbench report`.
#[cfg(feature = "bench")]
#[derive(clap::Args, Debug)]
pub struct Report {
    /// Run files, or directories with run files
    #[arg(required = true, value_name = "DIR|FILE")]
    pub inputs: Vec<PathBuf>,
    /// Directory for the report [default: the input directory if there is just one, else .]
    #[arg(long, short, value_name = "DIR")]
    output: Option<PathBuf>,
}

#[cfg(feature = "bench")]
impl Report {
    /// Returns the directory for the report: `--output`, otherwise the only input if it is a directory, otherwise the
    /// working directory.
    pub fn output(&self) -> PathBuf {
        match (&self.output, self.inputs.as_slice()) {
            (Some(output), _) => output.clone(),
            (None, [input]) if input.is_dir() => input.clone(),
            (None, _) => ".".into(),
        }
    }
}

/// Options of `kvbench export`.
#[cfg(feature = "bench")]
#[derive(clap::Args, Debug)]
pub struct Export {
    /// Service that takes the output
    #[arg(value_enum)]
    pub format: Format,
    /// Run files, or directories with run files
    #[arg(required = true, value_name = "DIR|FILE")]
    pub inputs: Vec<PathBuf>,
    /// Metric for github-action-benchmark, by its name in report.csv without _median, _min or _max, such as p99_us
    /// [default: throughput_per_second]
    #[arg(long, value_name = "NAME")]
    pub metric: Option<String>,
}

/// Options of `kvbench compare`.
#[cfg(feature = "bench")]
#[derive(clap::Args, Debug)]
pub struct Compare {
    /// Run file with the figures before
    #[arg(value_name = "A")]
    pub first: PathBuf,
    /// Run file with the figures after
    #[arg(value_name = "B")]
    pub second: PathBuf,
    /// Exit with 1 when something became slower by more than this and by more than the noise, or fails in B but not in
    /// A; with 2 when that cannot be decided
    #[arg(long, value_name = "PERCENT", value_parser = bench::percent)]
    pub fail_above: Option<f64>,
    /// Show all rows, with those without a change (equal within the limit, which is 3% without --fail-above, or cannot
    /// tell), and each cell that only one run has
    #[arg(long)]
    pub all: bool,
}

impl Cli {
    /// Reads the command line of this process, and the file that `--config` names. Ends the process after `--help` and
    /// `--version`, and after a command line that clap rejects, unless [`CliError`] explains the mistake better.
    ///
    /// # Errors
    ///
    /// See [`CliError`].
    pub fn read() -> Result<Self, CliError> {
        let first = env::args_os().nth(1).unwrap_or_default();
        let first = first.to_string_lossy();
        if let Some(absent) = CliError::absent(&first, cfg!(target_os = "linux")) {
            return Err(absent);
        }
        let words = config_file::expand(env::args_os().collect())?;
        let mut command = command_line();
        let matches = command.try_get_matches_from_mut(words);
        matches.and_then(|matches| Self::from_arg_matches(&matches)).or_else(|error| {
            if let Some((store, flag)) = help::store_without_flag(&error).zip(help::store_flag(&first)) {
                return Err(CliError::StoreWithoutFlag { store, flag });
            }
            #[cfg(feature = "bench")]
            if first == "reproduce" && error.kind() == ErrorKind::MissingRequiredArgument {
                return Err(CliError::NoPublication(reproduce::publications()));
            }
            error.format(&mut command).exit()
        })
    }
}

/// Returns an error and its causes in one line. A cause is left out if the text already contains it, as most messages
/// of kvbench do.
fn error_line(error: &anyhow::Error) -> String {
    let mut line = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if !line.contains(&cause) {
            line.push_str(if line.is_empty() { "" } else { ": " });
            line.push_str(&cause);
        }
    }
    line
}

/// Writes `text` to standard output. A reader that has closed it, as `head` does, has seen enough: this is no error.
///
/// # Errors
///
/// If standard output cannot be written for another reason, such as a full disk.
fn print(text: &str) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(error).context("cannot write to standard output")
        }
        _ => Ok(()),
    }
}

/// Returns clap's definition of the program's command line.
fn command_line() -> clap::Command {
    help::with_short_helps(Cli::command())
}

/// Returns the completion script for a shell.
#[cfg(feature = "manual")]
pub fn completions(shell: clap_complete::Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command_line(), "kvbench", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

/// Returns the manual page as roff.
#[cfg(feature = "manual")]
pub fn man() -> std::io::Result<String> {
    use std::io::Write;

    let mut page = Vec::new();
    let man = clap_mangen::Man::new(command_line());
    man.render(&mut page)?;
    // The main page names the subcommands; their flags follow.
    for command in command_line().get_subcommands().filter(|command| !command.is_hide_set()) {
        let name = format!("kvbench {}", command.get_name());
        let man = clap_mangen::Man::new(command.clone().bin_name(name.clone()));
        writeln!(page, ".SH {}", name.to_uppercase())?;
        man.render_description_section(&mut page)?;
        man.render_options_section(&mut page)?;
    }
    Ok(String::from_utf8_lossy(&page).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subcommands_of_linux_name_it_on_another_system() {
        for command in LINUX_ONLY {
            let error = CliError::absent(command, false).unwrap().to_string();
            assert_eq!(error, format!("`kvbench {command}` needs Linux"));
        }
        for command in ["serve", "stores", "nosuch"] {
            assert!(CliError::absent(command, false).is_none(), "{command}");
        }
        for (feature, is_built, commands) in FEATURES {
            for command in *commands {
                let absent = CliError::absent(command, true);
                let is_named =
                    |error: CliError| matches!(error, CliError::NotBuilt { feature: f, .. } if f == *feature);
                assert_eq!(absent.is_some_and(is_named), !is_built, "{command}");
            }
        }
    }
}

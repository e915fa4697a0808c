//! `kvbench torture`: flags to [`Options`].

use super::{
    units::{TimeUnit, count, time},
    value_parsers::KindParser,
};
use crate::{
    engine::{Fsync, Kind},
    torture::{Mode, Options, Subject, allowed_loss::AllowedLoss, disk::Cut},
};
use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use std::{
    env,
    hash::{BuildHasher, RandomState},
    path::{Path, PathBuf},
    time::Duration,
};

/// Default of `--dir`.
const DIRECTORY: &str = "kvbench-torture.tmp";

pub(super) const EXAMPLES: &str = "\
Examples:
  kvbench torture --store rocksdb --mode kill --rounds 100
  kvbench torture --store map,lmdb --fsync always,everysec --mode power --output torture.json
  kvbench torture --mode power --cut drop -- redis-server --port {port} --dir {dir} --appendonly yes --appendfsync always
  kvbench torture --table torture.json

redis-server needs --cut drop, because its log has no checksums: other cuts leave parts of an unacknowledged write, \
which it accepts.

Exit code: 0; 1 when a round failed: a write was lost that the store promises to keep, only part of an MSET \
or of a transaction was there, a deadline was lost, a value was wrong, or the server did not start again; 2 \
when the tests could not be run and no round had failed; 130 after Ctrl-C. The directory of a failed round \
is kept, and the command that repeats it is printed. The same seed makes the same plan, but not the same \
timing.

Modes other than kill mount a file system through /dev/fuse: as root, or with fusermount3.";

/// Options of `kvbench torture`.
#[derive(Args, Debug)]
pub struct Torture {
    /// Stores to test, one after the other
    #[arg(long, value_delimiter = ',', default_value = Kind::DEFAULT.info.name, value_parser = KindParser)]
    store: Vec<&'static Kind>,
    /// Durability policies to test, one after the other
    #[arg(long, value_enum, value_delimiter = ',', default_value = "always")]
    fsync: Vec<Fsync>,
    /// The fault: kill of the process, power cut, full disk, or failing writes and syncs (eio)
    #[arg(long, value_enum, value_delimiter = ',', default_value = "kill")]
    mode: Vec<Mode>,
    /// Rounds for each store, policy and mode; a round injects one to six faults, some of them while the store opens
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = count::<u64>(1..=u64::MAX))]
    rounds: u64,
    /// Start no new round of a store, policy and mode after this time
    #[arg(long, value_name = "SECONDS", value_parser = time(TimeUnit::Seconds, 1..=31_536_000))]
    seconds: Option<u64>,
    /// Seed of the first round; the next rounds have the next numbers [default: random]
    #[arg(long)]
    seed: Option<u64>,
    /// Number of clients that write
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = count::<u32>(1..=1000))]
    clients: u32,
    /// What a power cut leaves of writes that were not synced: nothing (drop), some pages (pages), or some pages and
    /// torn pages (torn); for the modes power, full and eio [default: drop,pages,torn]
    #[arg(long, value_enum, value_delimiter = ',')]
    cut: Vec<Cut>,
    /// Directory for the rounds
    #[arg(long, value_name = "DIR", default_value = DIRECTORY)]
    dir: PathBuf,
    /// Result file, to which each finished round is added; if it exists, its results are kept
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print a result file as a Markdown table, and test nothing
    #[arg(long, value_name = "FILE", exclusive = true)]
    pub(super) table: Option<PathBuf>,

    /// What the other program may lose after a kill or a power cut
    #[arg(
        long,
        value_enum,
        default_value = "nothing",
        requires = "program",
        conflicts_with_all = ["store", "fsync"],
        help_heading = "Another program"
    )]
    promise: AllowedLoss,
    /// Name of the program in the result [default: its file name]
    #[arg(
        long,
        requires = "program",
        conflicts_with_all = ["store", "fsync"],
        help_heading = "Another program"
    )]
    name: Option<String>,
    /// A server that speaks RESP, in place of a store; its arguments need {port} and {dir}, which each round replaces
    #[arg(last = true, conflicts_with_all = ["store", "fsync"], help_heading = "Another program")]
    program: Vec<String>,
}

impl Torture {
    /// Returns the options of the crash tests that the flags describe.
    ///
    /// # Errors
    ///
    /// Fails if `--cut` was given and no mode cuts the power, if the data of a store are on other machines, if another
    /// program has no argument for its port or its directory, and if the path of this program is unknown.
    pub fn options(self) -> anyhow::Result<Options> {
        if !self.cut.is_empty() && self.mode.iter().all(|mode| *mode == Mode::Kill) {
            bail!("--cut has no effect with --mode kill; add --mode power, full or eio");
        }
        let subjects = match self.program.split_first() {
            Some((program, arguments)) => vec![self.foreign(program, arguments)?],
            None => self.own()?,
        };
        Ok(Options {
            subjects,
            modes: self.mode.clone(),
            rounds: self.rounds,
            time: self.seconds.map(Duration::from_secs),
            // The default is short, so that it can be retyped.
            seed: self.seed.unwrap_or_else(|| RandomState::new().hash_one(()) % 1_000_000_000),
            clients: self.clients,
            cuts: if self.cut.is_empty() { Cut::ALL.to_vec() } else { self.cut },
            directory: self.dir,
            output: self.output,
        })
    }

    /// Returns the command that repeats a round, without the flags of the server under test, the injected fault and the
    /// seed. The program is named as in the command line of this process: another one may lack the store.
    fn again(&self) -> String {
        let program = env::args_os().next().unwrap_or_else(|| "kvbench".into());
        let program = quoted(&program.to_string_lossy());
        let directory = match self.dir == Path::new(DIRECTORY) {
            true => String::new(),
            false => format!(" --dir {}", quoted(&self.dir.display().to_string())),
        };
        format!("{program} torture --clients {}{directory}", self.clients)
    }

    fn own(&self) -> anyhow::Result<Vec<Subject>> {
        if let Some(kind) = self.store.iter().find(|kind| kind.info.cluster_flag.is_some()) {
            let name = kind.info.name;
            bail!(
                "--store {name} cannot be tested: its data are on other machines; choose a store of this machine"
            );
        }
        let program = env::current_exe().context("cannot find this program")?;
        let subjects = self.store.iter().flat_map(|kind| {
            let program = &program;
            self.fsync.iter().map(move |&fsync| {
                let name = kind.info.name;
                let loss = kind.info.loss(fsync);
                Subject {
                    name: name.into(),
                    library: kind.info.storage_format().into(),
                    fsync: fsync.to_string(),
                    program: program.clone(),
                    arguments: server_arguments(name, fsync),
                    is_ours: true,
                    kill: AllowedLoss::of(loss.kill),
                    power_cut: AllowedLoss::of(loss.power_cut),
                    repeat_command: format!("{} --store {name} --fsync {fsync}", self.again()),
                    command_line: String::new(),
                }
            })
        });
        Ok(subjects.collect())
    }

    fn foreign(&self, program: &str, arguments: &[String]) -> anyhow::Result<Subject> {
        for (placeholder, value) in [("{port}", "port"), ("{dir}", "data directory")] {
            if !arguments.iter().any(|word| word.contains(placeholder)) {
                bail!(
                    "{program} needs an argument with {placeholder}, which each round replaces by its {value}; for \
                     example: kvbench torture -- redis-server --port {{port}} --dir {{dir}} --appendonly yes"
                );
            }
        }
        let file_name = Path::new(program).file_name().unwrap_or_default().to_string_lossy();
        let word = self.promise.to_possible_value();
        let word = word.as_ref().map_or("nothing", |word| word.get_name());
        let name = self.name.as_deref().map_or(String::new(), |name| format!(" --name {}", quoted(name)));
        Ok(Subject {
            name: self.name.clone().unwrap_or_else(|| file_name.into_owned()),
            library: String::new(),
            fsync: String::new(),
            program: program.into(),
            arguments: arguments.to_vec(),
            is_ours: false,
            kill: self.promise,
            power_cut: self.promise,
            repeat_command: format!("{}{name} --promise {word}", self.again()),
            command_line: [program]
                .into_iter()
                .chain(arguments.iter().map(String::as_str))
                .fold(" --".to_owned(), |line, word| format!("{line} {}", quoted(word))),
        })
    }
}

/// Returns a word of a command line as a shell reads it back: in quotes, unless it needs none, as a placeholder such as
/// `{port}`. A build without `bench` has no `number_format::shell_word`.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=./:{}".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// Returns the arguments with which `kvbench` serves a store in a crash test. The small cache makes RocksDB flush and
/// compact, and sled write pages.
fn server_arguments(store: &str, fsync: Fsync) -> Vec<String> {
    let words = ["serve", "--store", store, "--path", "{dir}/data", "--fsync", fsync.as_str()];
    let more = ["--cache-size", "8MiB", "--port", "{port}", "--log-level", "warn"];
    words.into_iter().chain(more).map(Into::into).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{self, Cli};
    use clap::Parser;
    use std::process::Command;

    #[test]
    fn command_that_repeats_a_round_names_this_program_and_its_directory() {
        let program = quoted(&env::args_os().next().unwrap().to_string_lossy());
        for (flags, named) in
            [(&["--dir", "my rounds"][..], " --dir 'my rounds'"), (&["--dir", DIRECTORY], ""), (&[], "")]
        {
            let words = [&["kvbench", "torture", "--store", "map"], flags].concat();
            let Some(cli::Command::Torture(torture)) = Cli::try_parse_from(words).unwrap().command else {
                panic!("{flags:?} are of another subcommand");
            };
            let subjects = torture.options().unwrap().subjects;
            let expected = format!("{program} torture --clients 8{named} --store map --fsync always");
            assert_eq!(subjects[0].repeat_command, expected);
        }
    }

    #[test]
    fn shell_reads_quoted_words_back() {
        for word in ["it's {title}", "", "a b", "$x `y` \"z\" \\"] {
            let output =
                Command::new("sh").args(["-c", &format!("printf %s {}", quoted(word))]).output().unwrap();
            assert_eq!(String::from_utf8(output.stdout).unwrap(), word);
        }
        assert_eq!(quoted("--port={port}"), "--port={port}");
    }
}

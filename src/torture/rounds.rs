//! Loop over the rounds of each server under test with each injected fault.

use super::{
    disk::{self, Cut},
    options::{Mode, Options, Subject},
    results::{self, ResultRow, Results},
    round, test_directory,
};
use crate::interrupt;
use clap::{ValueEnum, builder::PossibleValue};
use nix::sys::signal::Signal;
use std::{
    fs, io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// Error of a crash test, including failed rounds.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum Error {
    #[error("--mode {mode}: {reason}")]
    Disk { mode: Mode, reason: String },
    #[error("cannot use {}: {source}; --dir can name another place", .path.display())]
    Directory { path: PathBuf, source: io::Error },
    #[error("the test could not be run: {reason}; the output of the program is in {}", .log.display())]
    NotStarted { reason: String, log: PathBuf },
    #[error("stopped by {0}: the round that it interrupted does not count, and its directory is removed")]
    Stopped(Signal),
    #[error(transparent)]
    Result(#[from] results::Error),
    #[error("{failed} of {rounds} rounds failed")]
    Failed { failed: u64, rounds: u64 },
}

/// Runs the crash tests of every server under test with every injected fault; passes messages to `say`, and adds each
/// finished round to the result file. The process must not have other threads yet.
///
/// # Errors
///
/// [`Error::Failed`] if a round failed, after the last round. The other errors end the run: a file or directory cannot
/// be read or written, a simulated disk cannot be mounted, a server does not start before the first fault, or this process
/// receives SIGINT or SIGTERM ([`Error::Stopped`]). If a round has failed before that, such an error is passed to `say`,
/// and the result is [`Error::Failed`].
pub fn run(options: &Options, say: &mut dyn FnMut(&str)) -> Result<(), Error> {
    if let Some(path) = &options.output {
        Results::check_output(path)?;
    }
    let with_disk = options.modes.iter().find(|mode| **mode != Mode::Kill);
    let has_disk = with_disk.is_some();
    if let Some(&mode) = with_disk {
        disk::check().map_err(|reason| Error::Disk { mode, reason })?;
        disk::own_mounts();
    }
    interrupt::catch(|| {});
    let mut total = ResultRow::default();
    let ended = run_rounds(options, has_disk, &mut total, say);
    // Fails, as it should, if the directory of a failed round is left.
    let _ = fs::remove_dir(&options.directory);
    if total.failed.is_empty() {
        return ended;
    }
    if let Err(error) = ended {
        say(&format!("{error}\n"));
    }
    Err(Error::Failed { failed: total.failed.len() as u64, rounds: total.rounds })
}

/// Runs the rounds of every server under test with every injected fault, and adds each finished round to `total`.
fn run_rounds(
    options: &Options,
    has_disk: bool,
    total: &mut ResultRow,
    say: &mut dyn FnMut(&str),
) -> Result<(), Error> {
    for subject in &options.subjects {
        for &mode in &options.modes {
            if has_disk {
                disk::hide_boot(mode != Mode::Kill);
            }
            let cell = torture(options, subject, mode, total, say)?;
            if cell.rounds > 0 {
                say(&format!("{}\n", cell.line()));
            }
            if let Some(signal) = interrupt::received() {
                return Err(Error::Stopped(signal));
            }
        }
    }
    Ok(())
}

fn torture(
    options: &Options,
    subject: &Subject,
    mode: Mode,
    total: &mut ResultRow,
    say: &mut dyn FnMut(&str),
) -> Result<ResultRow, Error> {
    let begin = Instant::now();
    let promise = if mode == Mode::Kill { subject.kill } else { subject.power_cut };
    let test = ResultRow {
        subject: subject.name.clone(),
        library: subject.library.clone(),
        fsync: subject.fsync.clone(),
        mode: mode.to_string(),
        promise: promise.to_string(),
        ..ResultRow::default()
    };
    let mut cell = test.clone();
    for round in 0..options.rounds {
        if interrupt::received().is_some() || options.time.is_some_and(|time| begin.elapsed() > time) {
            break;
        }
        let seed = options.seed.wrapping_add(round);
        let directory = round_directory(options, subject, mode, seed)?;
        let outcome = round::play(options, subject, mode, seed, &directory)
            .map_err(|source| Error::Directory { path: directory.clone(), source })?;
        // A failure counts nevertheless: a signal to this process does not end the server, and cannot be its cause.
        if interrupt::received().is_some() && outcome.fault.is_none() {
            break;
        }
        if let (Some(reason), false) = (&outcome.fault, outcome.has_started) {
            return Err(Error::NotStarted { reason: reason.clone(), log: directory.join(round::LOG) });
        }
        if let Some(fault) = &outcome.fault {
            let again = &subject.repeat_command;
            say(&format!(
                "{}, seed {seed}: failed\n{fault}\nkept: {}\nagain: {again} --mode {mode}{} --rounds 1 \
                 --seed {seed}{}\n",
                test.name(),
                directory.display(),
                cut_flag(mode, &options.cuts),
                subject.command_line,
            ));
        }
        let row = round_row(&test, seed, &outcome);
        total.add(&row);
        if let Some(path) = &options.output {
            Results::add_to(path, &row)?;
        }
        cell.add(&row);
    }
    Ok(cell)
}

/// Returns the flag `--cut` of the command that repeats a round; empty if the injected fault is never a power cut.
fn cut_flag(mode: Mode, cuts: &[Cut]) -> String {
    if mode == Mode::Kill {
        return String::new();
    }
    let cuts: Vec<_> = cuts.iter().filter_map(ValueEnum::to_possible_value).collect();
    let cuts: Vec<_> = cuts.iter().map(PossibleValue::get_name).collect();
    format!(" --cut {}", cuts.join(","))
}

/// Creates the parent directory of the rounds, and returns the absolute path of this round's directory, which does not
/// exist. If a round that did not end has left that directory, removes it with all its files. If it is that of a failed
/// round, it is kept, and the name of the new one ends with a number.
fn round_directory(options: &Options, subject: &Subject, mode: Mode, seed: u64) -> Result<PathBuf, Error> {
    let error = |path: &Path| {
        let path = path.to_owned();
        move |source| Error::Directory { path, source }
    };
    let parent = &options.directory;
    fs::create_dir_all(parent).map_err(error(parent))?;
    let parent = parent.canonicalize().map_err(error(parent))?;
    let words = [subject.name.clone(), subject.fsync.clone(), mode.to_string(), seed.to_string()];
    let name: Vec<_> = words.into_iter().filter(|word| !word.is_empty()).collect();
    let name = name.join("-").replace('/', "-");
    let mut directory = parent.join(&name);
    let mut number = 1;
    while directory.join(test_directory::FAILURE_FILE).exists() {
        number += 1;
        directory = parent.join(format!("{name}-{number}"));
    }
    disk::clear(&directory.join(test_directory::MOUNT));
    if fs::exists(&directory).is_ok_and(|exists| exists) {
        fs::remove_dir_all(&directory).map_err(error(&directory))?;
    }
    Ok(directory)
}

/// Returns the row with the results of one round. `test` names the server under test and the injected fault.
fn round_row(test: &ResultRow, seed: u64, outcome: &round::Outcome) -> ResultRow {
    let millis = |time: Duration| time.as_millis() as u64;
    ResultRow {
        rounds: 1,
        strikes: outcome.faults_injected,
        acknowledged: outcome.acknowledged,
        refused: outcome.refused,
        lost: outcome.lost,
        oldest_lost_ms: outcome.oldest.map_or(0, millis),
        reopened: outcome.reopen.len() as u64,
        reopen_total_ms: outcome.reopen.iter().copied().map(millis).sum(),
        reopen_longest_ms: outcome.reopen.iter().copied().max().map_or(0, millis),
        failed: outcome.fault.iter().map(|_| seed).collect(),
        ..test.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_that_repeats_a_round_names_power_cuts_unless_the_fault_is_a_kill() {
        assert_eq!(cut_flag(Mode::Kill, &Cut::ALL), "");
        for mode in [Mode::Power, Mode::Full, Mode::Eio] {
            assert_eq!(cut_flag(mode, &[Cut::Drop, Cut::Torn]), " --cut drop,torn");
        }
    }

    #[test]
    fn failed_round_is_reported_if_another_error_ends_the_run() {
        let dir = tempfile::tempdir().unwrap();
        let run_one_round = |seed, subjects: &[&Subject], output: Option<&Path>| {
            let options = Options {
                subjects: subjects.iter().copied().cloned().collect(),
                modes: vec![Mode::Kill],
                seed,
                output: output.map(Path::to_owned),
                ..Options::for_tests(&dir.path().join("rounds"))
            };
            let mut said = String::new();
            let ended = run(&options, &mut |text| {
                said += text;
                // The result file can no longer be written after the first message: that of the failed round.
                let _ = output.and_then(Path::parent).map(fs::remove_dir_all);
            });
            (ended, said)
        };
        // A round fails, and is not refused as one that did not start, if its first start is interrupted: a third are.
        let failing = Subject { program: "true".into(), ..Subject::for_tests() };
        let fails = |seed: &u64| {
            matches!(run_one_round(*seed, &[&failing], None).0, Err(Error::Failed { failed: 1, rounds: 1 }))
        };
        let seed = (0..100).find(fails).unwrap();

        let missing = Subject { program: "/nosuch".into(), is_ours: false, ..Subject::for_tests() };
        let (ended, _) = run_one_round(seed, &[&missing, &failing], None);
        assert!(matches!(ended, Err(Error::NotStarted { .. })), "{ended:?}");
        let (ended, said) = run_one_round(seed, &[&failing, &missing], None);
        assert!(matches!(ended, Err(Error::Failed { failed: 1, rounds: 1 })), "{ended:?}");
        assert!(said.contains("cannot start /nosuch"), "{said}");

        let results = dir.path().join("results");
        fs::create_dir(&results).unwrap();
        let (ended, said) = run_one_round(seed, &[&failing], Some(&results.join("results.json")));
        assert!(matches!(ended, Err(Error::Failed { failed: 1, rounds: 1 })), "{ended:?}");
        assert!(said.contains("results.json: No such file"), "{said}");
    }

    #[test]
    fn directory_of_a_failed_round_is_kept_and_an_interrupted_round_leaves_none() {
        let dir = tempfile::tempdir().unwrap();
        let options = Options::for_tests(&dir.path().join("rounds"));
        let next = || round_directory(&options, &Subject::for_tests(), Mode::Kill, 7).unwrap();
        let names = ["subject-kill-7", "subject-kill-7-2", "subject-kill-7-3"];
        for name in names {
            let directory = next();
            assert!(directory.ends_with(name) && !directory.exists(), "{}", directory.display());
            fs::create_dir(&directory).unwrap();
            assert_eq!(next(), directory);
            assert!(!directory.exists(), "the round has not ended");
            fs::create_dir(&directory).unwrap();
            fs::write(directory.join(test_directory::FAILURE_FILE), "").unwrap();
        }
        assert!(names.iter().all(|name| options.directory.join(name).exists()));
    }
}

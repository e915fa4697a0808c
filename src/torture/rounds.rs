//! Loop over the rounds of each server under test with each injected fault.

use super::{
    disk,
    options::{Mode, Options, Subject},
    results::{self, ResultRow, Results},
    round, test_directory,
};
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
    #[error("{}: {source}", .path.display())]
    Directory { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Result(#[from] results::Error),
    #[error("{failed} of {rounds} rounds failed")]
    Failed { failed: u64, rounds: u64 },
}

/// Runs the crash tests of every server under test with every injected fault; passes messages to `say`. The process
/// must not have other threads yet.
pub fn run(options: &Options, say: &mut dyn FnMut(&str)) -> Result<(), Error> {
    let with_disk = options.modes.iter().find(|mode| **mode != Mode::Kill);
    let has_disk = with_disk.is_some();
    if let Some(&mode) = with_disk {
        disk::check().map_err(|reason| Error::Disk { mode, reason })?;
        disk::own_mounts();
    }
    let (mut rounds, mut failed) = (0, 0);
    for subject in &options.subjects {
        for &mode in &options.modes {
            if has_disk {
                disk::hide_boot(mode != Mode::Kill);
            }
            let cell = torture(options, subject, mode, say)?;
            say(&format!("{}\n", cell.line()));
            if let Some(path) = &options.output {
                Results::add_to(path, &cell)?;
            }
            rounds += cell.rounds;
            failed += cell.failed.len() as u64;
        }
    }
    // Fails, as it should, if the directory of a failed round is left.
    let _ = fs::remove_dir(&options.directory);
    if failed > 0 { Err(Error::Failed { failed, rounds }) } else { Ok(()) }
}

fn torture(
    options: &Options,
    subject: &Subject,
    mode: Mode,
    say: &mut dyn FnMut(&str),
) -> Result<ResultRow, Error> {
    let begin = Instant::now();
    let promise = if mode == Mode::Kill { subject.kill } else { subject.power_cut };
    let mut cell = ResultRow {
        subject: subject.name.clone(),
        library: subject.library.clone(),
        fsync: subject.fsync.clone(),
        mode: mode.to_string(),
        promise: promise.to_string(),
        ..ResultRow::default()
    };
    for round in 0..options.rounds {
        if options.time.is_some_and(|time| begin.elapsed() > time) {
            break;
        }
        let seed = options.seed.wrapping_add(round);
        let directory = round_directory(options, subject, mode, seed)?;
        let outcome = round::play(options, subject, mode, seed, &directory)
            .map_err(|source| Error::Directory { path: directory.clone(), source })?;
        if let Some(fault) = &outcome.fault {
            let again = &subject.repeat_command;
            say(&format!(
                "{}, seed {seed}: failed\n{fault}\nkept: {}\nagain: {again} --mode {mode} --rounds 1 \
                 --seed {seed}{}\n",
                cell.name(),
                directory.display(),
                subject.command_line,
            ));
            cell.failed.push(seed);
        }
        count(&mut cell, &outcome);
    }
    Ok(cell)
}

/// Creates the parent directory of the rounds, and returns the absolute path of this round's directory. If an earlier
/// round has left that directory, removes it with all its files; it does not exist afterwards.
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
    let directory = parent.join(name.join("-").replace('/', "-"));
    disk::clear(&directory.join(test_directory::MOUNT));
    if fs::exists(&directory).is_ok_and(|exists| exists) {
        fs::remove_dir_all(&directory).map_err(error(&directory))?;
    }
    Ok(directory)
}

fn count(cell: &mut ResultRow, outcome: &round::Outcome) {
    let millis = |time: Duration| time.as_millis() as u64;
    cell.rounds += 1;
    cell.strikes += outcome.faults_injected;
    cell.acknowledged += outcome.acknowledged;
    cell.refused += outcome.refused;
    cell.lost += outcome.lost;
    cell.oldest_lost_ms = cell.oldest_lost_ms.max(outcome.oldest.map_or(0, millis));
    cell.reopened += outcome.reopen.len() as u64;
    cell.reopen_total_ms += outcome.reopen.iter().copied().map(millis).sum::<u64>();
    cell.reopen_longest_ms =
        cell.reopen_longest_ms.max(outcome.reopen.iter().copied().max().map_or(0, millis));
}

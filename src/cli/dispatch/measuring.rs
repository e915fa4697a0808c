//! Subcommands of the feature `bench`.

#[cfg(target_os = "linux")]
use crate::cli::Calibrate;
use crate::{
    bench::{
        compare, duel,
        plan::options::Options,
        report,
        report::tracking_services::{self, ExportError},
        reproduce,
        result::run_file,
        run,
    },
    cli::{Bench, Compare, Duel, Export, Report, Reproduce, print},
};
use std::process::ExitCode;
#[cfg(target_os = "linux")]
use std::{
    fs::{self, File},
    io,
    path::Path,
};

pub(super) fn bench(options: Bench) -> anyhow::Result<()> {
    let dry = options.is_dry();
    let options = options.options()?;
    if dry {
        return dry_run(&options);
    }
    duel::check_programs_of(&options.stores)?;
    let run = run::run(&options)?;
    let text = format!("{}\nresult: {}\n", report::terminal::text(&run), options.output.display());
    let printed = print(&text);
    run::verdict(&run)?;
    printed
}

pub(super) fn reproduce(options: Reproduce) -> anyhow::Result<()> {
    let dry = options.dry_run;
    let options = options.options()?;
    if dry {
        return dry_run(&options);
    }
    duel::check_programs_of(&options.stores)?;
    let run = run::run(&options)?;
    let printed = print(&reproduce::text(&run)?);
    eprintln!("kvbench: result: {}", options.output.display());
    run::verdict(&run)?;
    printed
}

pub(super) fn duel(options: Duel) -> anyhow::Result<ExitCode> {
    let options = options.options()?;
    let run = run::run(&options)?;
    let text = format!("{}\nresult: {}\n", duel::text(&run, &options.gates), options.output.display());
    let printed = print(&text);
    if let Err(error) = run::verdict(&run) {
        eprintln!("kvbench: {error}");
    }
    printed?;
    Ok(ExitCode::from(duel::answer(&run, &options.gates).exit_code()))
}

pub(super) fn describe_build() -> anyhow::Result<()> {
    print(&format!("{}\n", serde_json::to_string(&run::build_description::describe_this_program())?))
}

fn dry_run(options: &Options) -> anyhow::Result<()> {
    print(&run::dry_run::text(options)?)?;
    Ok(run::dry_run::check_space(options)?)
}

/// Returns the exit code of the program for an error of a measuring subcommand: the one that a benchmark run's error
/// has; 2 if a result file cannot be read or nothing can be exported; otherwise 1.
pub(super) fn exit_code(error: &anyhow::Error) -> u8 {
    let of_report = || matches!(error.downcast_ref(), Some(report::ReportError::Read(_)));
    if error.is::<run_file::ReadError>() || error.is::<ExportError>() || of_report() {
        return 2;
    }
    error.downcast_ref::<run::Error>().map_or(1, run::Error::exit_code)
}

#[cfg(target_os = "linux")]
pub(super) fn calibrate(options: &Calibrate) -> anyhow::Result<()> {
    use crate::bench::calibrate;
    let output = options.output();
    if let Some(path) = &output {
        let directory = path.parent().map_or(Ok(()), fs::create_dir_all);
        directory.and_then(|()| check_writable(path)).map_err(not_written("--output", path))?;
    }
    if let Some(path) = &options.markdown {
        check_writable(path).map_err(not_written("--markdown", path))?;
    }
    let mut tell = |text: &str| eprintln!("kvbench: {text}");
    let save = |found: &_| match &output {
        Some(path) => run::stored_calibration::save(found, path).map_err(not_written("--output", path)),
        None => Ok(()),
    };
    let figures = match calibrate::run(&options.options(), &mut tell) {
        Ok(figures) => figures,
        Err(error) => {
            // An earlier calibration of this build no longer counts, unless the error says nothing of the build.
            if let Some(found) = calibrate::summary_of_error(&error)?
                && let Err(unsaved) = save(&found)
            {
                eprintln!("kvbench: {unsaved}");
            }
            return Err(error.into());
        }
    };
    let found = calibrate::summary(&figures)?;
    // If this fails, the page is written all the same.
    let saved = save(&found);
    if options.all {
        print(&format!("{}\n", calibrate::text(&figures)))?;
    }
    print(&calibrate::summary_text(&figures, &found))?;
    if let Some(path) = &options.markdown {
        let page = calibrate::markdown(&figures, &found);
        fs::write(path, page).map_err(not_written("--markdown", path))?;
    }
    saved?;
    Ok(calibrate::verdict(&figures)?)
}

/// Returns a function that makes an I/O error of the file `path` an error that names `flag`, the flag of that file.
#[cfg(target_os = "linux")]
fn not_written(flag: &str, path: &Path) -> impl FnOnce(io::Error) -> anyhow::Error {
    move |error| {
        anyhow::anyhow!("{flag} {}: cannot write the file: {error}; name another file", path.display())
    }
}

/// Returns an error if the file `path` cannot be written. The content of an existing file is unchanged, and a new file
/// is removed.
#[cfg(target_os = "linux")]
fn check_writable(path: &Path) -> io::Result<()> {
    let is_new = fs::symlink_metadata(path).is_err();
    File::options().create(true).append(true).open(path)?;
    if is_new { fs::remove_file(path) } else { Ok(()) }
}

pub(super) fn report(options: &Report) -> anyhow::Result<()> {
    let written = report::write(&options.inputs, &options.output())?;
    written.iter().try_for_each(|path| print(&format!("{}\n", path.display())))
}

pub(super) fn export(options: &Export) -> anyhow::Result<()> {
    let runs = run_file::read_all(&options.inputs)?;
    let value = tracking_services::export(&runs, options.format, options.metric.as_deref())?;
    print(&format!("{}\n", serde_json::to_string_pretty(&value)?))
}

pub(super) fn compare(options: &Compare) -> anyhow::Result<ExitCode> {
    let comparison = compare::compare(&options.first, &options.second, options.fail_above)?;
    print(&comparison.text(options.all))?;
    let is_undecided = comparison.is_inconclusive() || comparison.is_empty();
    Ok(ExitCode::from(match (comparison.failed(), is_undecided) {
        (true, _) => 1,
        (false, true) => 2,
        (false, false) => 0,
    }))
}

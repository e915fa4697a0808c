//! The program: the command line, carried out.

use crate::{
    bench::{self, compare, data, report, reproduce, run},
    check::{self, Verdict},
    cli::{self, Bench, Cli, Command, Compare, Report, Reproduce, Serve},
    command,
    engine::{self, Kind},
    failure, limits, logging, notify, server,
    store::Store,
    stores, top,
};
use anyhow::Context;
use std::{
    io::{self, Write},
    process::ExitCode,
};

/// Carries out the command line of this process, with engines of `others` beside those of this build: they are
/// listed, served, measured and tortured as ours are.
///
/// To be called first in `main`: the program starts itself for jobs that need a process of their own.
///
/// ```no_run
/// # use kvbench::engine::Kind;
/// # fn example(mine: &'static [Kind]) -> std::process::ExitCode {
/// kvbench::main(mine)
/// # }
/// ```
pub fn main(others: &'static [Kind]) -> ExitCode {
    match engine::add(others) {
        Ok(()) => carry_out(),
        Err(error) => failure::tell(&error.into(), 1),
    }
}

fn carry_out() -> ExitCode {
    limits::survive_large_files();
    limits::join_free_memory();
    engine::prepare();
    let cli = match Cli::read() {
        Ok(cli) => cli,
        Err(error) => return failure::tell(&error.into(), 2),
    };
    let outcome = match cli.command {
        None => serve(cli.serve),
        Some(Command::Serve(options)) => serve(*options),
        Some(Command::Bench(options)) => measure(*options),
        Some(Command::Reproduce(options)) => reproduce(*options),
        #[cfg(all(feature = "torture", target_os = "linux"))]
        Some(Command::Torture(options)) => torture(options),
        #[cfg(target_os = "linux")]
        Some(Command::Calibrate(options)) => calibrate(&options),
        Some(Command::MeasureJob) => run::child::serve().map_err(Into::into),
        Some(Command::ResultSchema) => print(&bench::schema()),
        Some(Command::Stores { markdown: true }) => print(&stores::markdown()),
        Some(Command::Stores { markdown: false }) => print(&stores::describe()),
        Some(Command::Commands) => print(&command::markdown()),
        Some(Command::Completions { shell }) => print(&cli::completions(shell)),
        Some(Command::Man) => cli::man().map_err(Into::into).and_then(|page| print(&page)),
        Some(Command::Top(options)) => top::run(&options.options()).map_err(Into::into),
        Some(Command::Check { path }) => return conclude(&check::check(&path)),
        Some(Command::CheckHere { store, path }) => return conclude(&check::check_here(&store, &path)),
        Some(Command::Repair { path }) => check::repair(&path).and_then(|text| print(&text)),
        Some(Command::Report(options)) => report(&options),
        // 1 says that something got slower, so what went wrong needs another code.
        Some(Command::Compare(options)) => {
            return compare(&options).unwrap_or_else(|error| failure::tell(&error, 2));
        }
    };
    outcome.map_or_else(|error| failure::tell(&error, 1), |()| ExitCode::SUCCESS)
}

fn serve(options: Serve) -> anyhow::Result<()> {
    logging::begin(options.log_level(), options.log_format());
    let config = options.config();
    config.check()?;
    let access = server::Access::load(&config)?;
    let files = limits::Files::reserve(&config)?;
    let name = config.kind.info.name;
    let engine = config.open(files.engine).with_context(|| format!("cannot open --store {name}"))?;
    let store = Store::new(engine, config.fsync).with_max_unsynced(config.max_unsynced);
    server::serve(store, &config, access, files.clients, |address| {
        notify::ready();
        // Whoever started the server may have closed its standard output; that is no reason to stop.
        let _ = print(&format!(
            "kvbench {} store={name} path={} fsync={} address={address} pid={}\n",
            env!("CARGO_PKG_VERSION"),
            config.path(),
            config.fsync,
            std::process::id(),
        ));
    })?;
    Ok(())
}

fn measure(options: Bench) -> anyhow::Result<()> {
    if let Some((path, keys, seed)) = options.generate() {
        return data::generate(path, keys, seed).with_context(|| format!("cannot write {}", path.display()));
    }
    let dry = options.is_dry();
    let options = options.options();
    if dry {
        return print(&run::preview::text(&options)?);
    }
    let run = run::run(&options)?;
    // A reader that closed standard output has seen enough; the result is in its file.
    let _ = print(&format!("{}\nresult: {}\n", report::table::text(&run), options.output.display()));
    Ok(run::verdict(&run)?)
}

fn reproduce(options: Reproduce) -> anyhow::Result<()> {
    let dry = options.is_dry();
    let options = options.options();
    if dry {
        return print(&run::preview::text(&options)?);
    }
    let run = reproduce::run(&options)?;
    let _ = print(&reproduce::text(&run)?);
    eprintln!("kvbench: result: {}", options.output.display());
    Ok(run::verdict(&run)?)
}

#[cfg(all(feature = "torture", target_os = "linux"))]
fn torture(options: crate::cli::Torture) -> anyhow::Result<()> {
    if let Some(path) = options.table() {
        return print(&crate::proof::Results::read(path)?.markdown());
    }
    Ok(crate::torture::run(&options.options()?, &mut |text| drop(print(text)))?)
}

#[cfg(target_os = "linux")]
fn calibrate(options: &crate::cli::Calibrate) -> anyhow::Result<()> {
    use crate::bench::calibrate;
    let mut tell = |text: &str| eprintln!("kvbench: measured again: {text}");
    let figures = calibrate::run(&options.options(), &mut tell)?;
    print(&calibrate::text(&figures))?;
    let found = calibrate::summary(&figures)?;
    if let Some(path) = options.output() {
        run::calibrated::save(&found, &path).with_context(|| format!("--output {}", path.display()))?;
    }
    if let Some(path) = options.markdown() {
        let page = calibrate::markdown(&figures, &found);
        std::fs::write(path, page).with_context(|| format!("--markdown {}", path.display()))?;
    }
    Ok(calibrate::verdict(&figures)?)
}

fn report(options: &Report) -> anyhow::Result<()> {
    let written = report::write(&options.inputs, &options.output())?;
    written.iter().try_for_each(|path| print(&format!("{}\n", path.display())))
}

fn compare(options: &Compare) -> anyhow::Result<ExitCode> {
    let comparison = compare::compare(&options.first, &options.second, options.fail_above)?;
    print(&comparison.to_string())?;
    Ok(ExitCode::from(match (comparison.failed(), comparison.is_inconclusive()) {
        (true, _) => 1,
        (false, true) => 2,
        (false, false) => 0,
    }))
}

fn conclude(verdict: &Verdict) -> ExitCode {
    // Whoever closed standard output may still want the code.
    let _ = print(&format!("{}\n", verdict.text()));
    ExitCode::from(verdict.code())
}

fn print(text: &str) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    Ok(stdout.flush()?)
}

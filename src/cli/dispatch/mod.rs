//! Entry point of the program: reads and executes the command line.

#[cfg(feature = "bench")]
mod measuring;

use crate::{
    cli::{
        Cli, Command, Serve,
        check::{self, Verdict},
        error_line, list_stores, logging, print, systemd_notify,
    },
    command,
    config::{self, Config},
    engine::{self, Fsync, Kind, Location, Loss, LossClass},
    server::{self, file_limits},
    store::Store,
};
use anyhow::Context;
use std::{
    io::{self, Write},
    process::ExitCode,
    time::Instant,
};

/// Executes the command line of this process, and returns its exit code. The engines of `others` are added to those of
/// this build: they are listed, served, measured and crash-tested in the same way.
///
/// Must be called first in `main`, since the program starts itself for jobs that need a process of their own.
///
/// ```no_run
/// # use kvbench::engine::Kind;
/// # fn example(mine: &'static [Kind]) -> std::process::ExitCode {
/// kvbench::main(mine)
/// # }
/// ```
pub fn main(others: &'static [Kind]) -> ExitCode {
    match engine::register(others) {
        Ok(()) => carry_out(),
        Err(error) => report_error(&error.into(), 1),
    }
}

fn carry_out() -> ExitCode {
    prepare_process();
    let cli = match Cli::read() {
        Ok(cli) => cli,
        Err(error) => return report_error(&error.into(), 2),
    };
    let outcome = match cli.command {
        None => serve(cli.serve),
        Some(Command::Serve(options)) => serve(*options),
        #[cfg(feature = "bench")]
        Some(Command::Bench(options)) => measuring::bench(*options),
        #[cfg(feature = "bench")]
        Some(Command::Reproduce(options)) => measuring::reproduce(*options),
        // Exit code 1 means that a round failed, so errors need another code.
        #[cfg(all(feature = "torture", target_os = "linux"))]
        Some(Command::Torture(options)) => {
            return torture(*options).unwrap_or_else(|error| report_error(&error, 2));
        }
        #[cfg(all(feature = "bench", target_os = "linux"))]
        Some(Command::Calibrate(options)) => measuring::calibrate(&options),
        #[cfg(feature = "bench")]
        Some(Command::DescribeBuild) => measuring::describe_build(),
        // Exit code 1 means a loss here too.
        #[cfg(feature = "bench")]
        Some(Command::Duel(options)) => {
            return measuring::duel(*options)
                .unwrap_or_else(|error| report_error(&error, exit_code(&error).max(2)));
        }
        #[cfg(feature = "bench")]
        Some(Command::MeasureJob) => crate::bench::run::child_process::serve().map_err(Into::into),
        #[cfg(feature = "bench")]
        Some(Command::ResultSchema) => print(&crate::bench::schema()),
        Some(Command::Stores { markdown: true, .. }) => print(&list_stores::markdown()),
        Some(Command::Stores { json: true, store, .. }) => {
            list_stores::json(&store).map_err(Into::into).and_then(|text| print(&text))
        }
        Some(Command::Stores { store, .. }) if store.is_empty() => print(&list_stores::table_text()),
        Some(Command::Stores { store, .. }) => print(&list_stores::details_text(&store)),
        Some(Command::Commands) => print(&command::markdown()),
        #[cfg(feature = "manual")]
        Some(Command::Completions { shell }) => print(&crate::cli::completions(shell)),
        #[cfg(feature = "manual")]
        Some(Command::Man) => crate::cli::man().map_err(Into::into).and_then(|page| print(&page)),
        #[cfg(feature = "top")]
        Some(Command::Top(options)) => crate::top::run(&options.options()).map_err(Into::into),
        Some(Command::Check { path }) => return conclude(&check::check(&path)),
        Some(Command::CheckHere { store, path }) => return conclude(&check::check_here(&store, &path)),
        Some(Command::Repair { path }) => check::repair(&path).and_then(|text| print(&text)),
        #[cfg(feature = "bench")]
        Some(Command::Report(options)) => measuring::report(&options),
        #[cfg(feature = "bench")]
        Some(Command::Export(options)) => measuring::export(&options),
        // Exit code 1 means that something got slower, so errors need another code.
        #[cfg(feature = "bench")]
        Some(Command::Compare(options)) => {
            return measuring::compare(&options).unwrap_or_else(|error| report_error(&error, 2));
        }
    };
    outcome.map_or_else(|error| report_error(&error, exit_code(&error)), |()| ExitCode::SUCCESS)
}

/// Sets up signals, the allocator and the engines, before any thread is started.
fn prepare_process() {
    treat_sighup_as_sigterm();
    file_limits::ignore_sigxfsz();
    file_limits::disable_malloc_fastbins();
    engine::prepare();
}

/// Gives SIGHUP, which a terminal sends to its programs when it is closed, the effect of SIGTERM, which the subcommands
/// handle if there is something to sync or to remove. If the process ignores SIGHUP, as under `nohup`, it still does.
fn treat_sighup_as_sigterm() {
    extern "C" fn send_sigterm(_: libc::c_int) {
        #[expect(unsafe_code, reason = "system calls that no crate in use wraps on every system")]
        // SAFETY: a signal handler may make both calls, and they only send a signal to this process.
        unsafe {
            libc::kill(libc::getpid(), libc::SIGTERM);
        }
    }
    let handler = send_sigterm as *const () as libc::sighandler_t;
    #[expect(unsafe_code, reason = "a system call that no crate in use wraps on every system")]
    // SAFETY: `send_sigterm` has the type of a signal handler, and makes only calls that such a handler may make.
    unsafe {
        if libc::signal(libc::SIGHUP, handler) == libc::SIG_IGN {
            libc::signal(libc::SIGHUP, libc::SIG_IGN);
        }
    }
}

/// Returns the exit code of the program for an error: 2 if the options of `serve` exclude each other; otherwise 1, or with
/// the feature `bench` the one that `measuring::exit_code` returns.
fn exit_code(error: &anyhow::Error) -> u8 {
    if error.is::<config::Error>() {
        return 2;
    }
    #[cfg(feature = "bench")]
    let code = measuring::exit_code(error);
    #[cfg(not(feature = "bench"))]
    let code = 1;
    code
}

fn serve(options: Serve) -> anyhow::Result<()> {
    server::end_at_signals();
    let format = options.log_format;
    logging::begin(options.log_level, format);
    let config = options.config();
    match &config.file {
        Some(file) => {
            config.check().with_context(|| format!("with the flags of --config {}", file.display()))?;
        }
        None => config.check()?,
    }
    let access = server::Access::load(&config)?;
    server::check_addresses(&config)?;
    let files = file_limits::FileLimits::reserve(&config)?;
    let name = config.kind.info.name;
    let begin = Instant::now();
    let engine = config.open(files.engine).with_context(|| format!("cannot open --store {name}"))?;
    let store = Store::new(engine, config.fsync)
        .with_max_unsynced(config.max_unsynced)
        .with_path(config.location.path().map(Into::into));
    let keys = match store.key_counts() {
        Ok(Some(counts)) => format!("{} keys", counts.values().map(|count| count.keys).sum::<u64>()),
        _ => "keys not counted".into(),
    };
    warn_of_total_loss(&config);
    log::info!("opened {} as {name} in {:.3} s: {keys}", config.path(), begin.elapsed().as_secs_f64());
    server::serve(store, &config, access, files.clients, |address| {
        systemd_notify::ready();
        log::info!("ready at {address}");
        let line = format!(
            "kvbench {} store={name} path={} fsync={} address={address} pid={}",
            env!("CARGO_PKG_VERSION"),
            config.path(),
            config.fsync,
            std::process::id(),
        );
        // The server can be used all the same.
        if let Err(error) = print(&format!("{}\n", logging::start_line(format, line))) {
            log::warn!("{}", error_line(&error));
        }
    })?;
    Ok(())
}

/// Logs a warning if a kill or a power cut may lose the whole database of a store with files.
fn warn_of_total_loss(config: &Config) {
    if !matches!(config.location, Location::Path(_)) {
        return;
    }
    let (info, fsync) = (config.kind.info, config.fsync);
    let faults = |fsync| {
        let Loss { kill, power_cut } = info.loss(fsync);
        let faults = [("a kill of the server", kill), ("a power cut", power_cut)];
        faults.into_iter().filter(|(_, bound)| bound.extent == LossClass::Everything)
    };
    let losses: Vec<_> = faults(fsync).map(|(fault, bound)| format!("{fault} loses {bound}")).collect();
    if losses.is_empty() {
        return;
    }
    let remedy = match faults(Fsync::Always).next() {
        None => "--fsync always prevents it",
        Some(_) => "`kvbench stores` shows stores that lose less",
    };
    let (store, losses) = (info.name, losses.join(", "));
    log::warn!("--store {store} --fsync {fsync} may lose the whole database: {losses}; {remedy}");
}

#[cfg(all(feature = "torture", target_os = "linux"))]
fn torture(options: crate::cli::Torture) -> anyhow::Result<ExitCode> {
    use crate::torture::{self, results::Results};

    if let Some(path) = &options.table {
        print(&Results::read(path)?.markdown())?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut printed = Ok(());
    let mut say = |text: &str| {
        if printed.is_ok() {
            printed = print(text);
        }
    };
    match torture::run(&options.options()?, &mut say) {
        Err(error @ torture::Error::Failed { .. }) => Ok(report_error(&error.into(), 1)),
        Err(error @ torture::Error::Stopped(signal)) => Ok(report_error(&error.into(), 128 + signal as u8)),
        outcome => {
            outcome?;
            printed.map(|()| ExitCode::SUCCESS)
        }
    }
}

/// Prints an error to standard error, and returns `code` as the exit code of the program.
fn report_error(error: &anyhow::Error, code: u8) -> ExitCode {
    // Standard error may be closed (`2>&1 | head`); the exit code is still of use.
    let _ = writeln!(io::stderr(), "kvbench: {}", error_line(error));
    ExitCode::from(code)
}

fn conclude(verdict: &Verdict) -> ExitCode {
    match print(&format!("{}\n", verdict.text())) {
        Ok(()) => ExitCode::from(verdict.code()),
        // A damage stays one.
        Err(error) => report_error(&error, if verdict.code() == 0 { 2 } else { verdict.code() }),
    }
}

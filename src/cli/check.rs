//! `kvbench check` and `kvbench repair`: detection of corruption, and repair of append-only files.

use crate::{
    cli::error_line,
    config::may_hold_data,
    engine::{Check, CheckReport, Error, Kind, files},
};
use anyhow::{Context, anyhow, bail};
use std::{
    env,
    fs::{self, File, Permissions, TryLockError},
    io::{self, Read},
    os::unix::{
        fs::PermissionsExt,
        process::{CommandExt, ExitStatusExt},
    },
    path::{Path, PathBuf},
    process::{self, Child, Command, Output, Stdio},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
};
use tempfile::{Builder, TempDir};
use tokio::signal::unix::{SignalKind, signal};

/// Result of a check of a store's data, with the text for the user.
#[derive(Debug)]
pub enum Verdict {
    /// The checked data are not corrupted; with the text for the user.
    Sound(String),
    /// The checked data are corrupted, or the engine crashed while it read them; with the text for the user.
    Damaged(String),
    /// The data could not be checked; with the text for the user.
    Unknown(String),
}

impl Verdict {
    /// Returns the exit code of `kvbench check`: 0 for sound data, 1 for corrupted data, 2 if they could not be
    /// checked.
    pub fn code(&self) -> u8 {
        match self {
            Self::Sound(_) => 0,
            Self::Damaged(_) => 1,
            Self::Unknown(_) => 2,
        }
    }

    /// Returns the text for the user: the path, the verdict, and details.
    pub fn text(&self) -> &str {
        match self {
            Self::Sound(text) | Self::Damaged(text) | Self::Unknown(text) => text,
        }
    }

    fn of(outcome: Result<CheckReport, Error>) -> Self {
        match outcome {
            Ok(CheckReport { holds, remark: None }) => Self::Sound(format!("sound: {holds}")),
            Ok(CheckReport { holds, remark: Some(remark) }) => {
                Self::Sound(format!("sound: {holds}; {remark}"))
            }
            Err(Error::Locked { path }) => Self::Unknown(format!("cannot be checked: {}", in_use(&path))),
            Err(error) if error.is_corruption() => Self::Damaged(format!("damaged: {error}")),
            Err(error) => Self::Unknown(format!("cannot be checked: {error}")),
        }
    }
}

/// Checks the data of a store at `path` for corruption, without changing them.
pub fn check(path: &Path) -> Verdict {
    let unknown = |error| Verdict::Unknown(format!("cannot be checked: {}", error_line(&error)));
    let named = |text| format!("{}: {text}", path.display());
    match try_check(path).unwrap_or_else(unknown) {
        Verdict::Sound(text) => Verdict::Sound(named(text)),
        Verdict::Damaged(text) => Verdict::Damaged(named(text)),
        Verdict::Unknown(text) => Verdict::Unknown(named(text)),
    }
}

fn try_check(path: &Path) -> anyhow::Result<Verdict> {
    let found = fs::metadata(path)?;
    if found.is_file() && found.len() == 0 {
        return Ok(Verdict::Sound("sound: an empty file, in which the next start creates a store".into()));
    }
    let kind = owner(path)?;
    match kind.check {
        Check::InPlace(check) => Ok(Verdict::of(check(path))),
        Check::OnCopy(_) => check_a_copy(kind, path),
    }
}

fn owner(path: &Path) -> anyhow::Result<&'static Kind> {
    fs::metadata(path)?;
    if !may_hold_data(path) {
        bail!("it is neither a regular file nor a directory");
    }
    files::check_readable(path)?;
    Kind::owner(path).context("it does not hold data of a store of this build (see `kvbench stores`)")
}

/// Checks a copy of the data of the store `store` in this process, which may crash on corrupted data: `kvbench check`
/// starts this process for it.
pub fn check_here(store: &str, copy: &Path) -> Verdict {
    // The parent process removes the copy, so this process must end with it.
    #[cfg(target_os = "linux")]
    let _best_effort = nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL);
    match Kind::find(store).map(|kind| &kind.check) {
        Some(Check::InPlace(check) | Check::OnCopy(check)) => Verdict::of(check(copy)),
        None => Verdict::Unknown(format!("this build has no store {store}")),
    }
}

/// Copies the data at `path` and checks the copy in a child process, since an engine may crash on corrupted data.
fn check_a_copy(kind: &Kind, path: &Path) -> anyhow::Result<Verdict> {
    let checker = Checker::default();
    let copy = scratch(&checker)?;
    let data = copy.path().join("data");
    let in_copy =
        || format!("cannot copy the data to {}; TMPDIR can name another place", copy.path().display());
    copy_all(path, &data)?.map_err(anyhow::Error::from).with_context(in_copy)?;
    let mut command = Command::new(env::current_exe()?);
    command.args(["check-here", kind.info.name]).arg(&data);
    let output = checker.run(&mut command).context("cannot start a process for the check")?;
    Ok(verdict_of(&output, kind, &data, path))
}

/// Process that checks a copy of the data; `None` before it is started.
#[derive(Clone, Debug, Default)]
struct Checker(Arc<Mutex<Option<Child>>>);

impl Checker {
    fn lock(&self) -> MutexGuard<'_, Option<Child>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts `command`, and returns its exit status and what it has printed when it has ended.
    fn run(&self, command: &mut Command) -> io::Result<Output> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        // A terminal's signals reach this process only, which ends the other one.
        command.process_group(0);
        let printed = self.lock().insert(command.spawn()?).stdout.take();
        let mut stdout = Vec::new();
        printed.map_or(Ok(0), |mut printed| printed.read_to_end(&mut stdout))?;
        let status = self.lock().as_mut().map(Child::wait).transpose()?.unwrap_or_default();
        Ok(Output { status, stdout, stderr: Vec::new() })
    }

    /// Kills the process, waits for its end, and prevents that it is started or waited for again while the returned
    /// guard exists.
    fn kill(&self) -> MutexGuard<'_, Option<Child>> {
        let mut child = self.lock();
        if let Some(child) = &mut *child {
            // Fails only if the process has ended.
            let _ended = child.kill().and_then(|()| child.wait());
        }
        child
    }
}

fn verdict_of(output: &Output, kind: &Kind, copy: &Path, path: &Path) -> Verdict {
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    // The user knows only the path of the original data.
    let text = text.replace(&*copy.to_string_lossy(), &path.to_string_lossy());
    match output.status.code() {
        Some(0) => Verdict::Sound(text),
        Some(1) if !text.is_empty() => Verdict::Damaged(text),
        Some(2) if !text.is_empty() => Verdict::Unknown(text),
        // No engine kills itself so, but the kernel does if memory runs short.
        None if output.status.signal() == Some(libc::SIGKILL) => {
            Verdict::Unknown("cannot be checked: the check was killed; is there enough memory?".into())
        }
        _ => Verdict::Damaged(format!(
            "damaged: {} crashed while it read them ({})",
            kind.info.name, output.status
        )),
    }
}

/// Creates a directory for the copy of the checked data. No other user may enter it, because the copy contains the same
/// secrets as the data. The directory is removed on drop, and at SIGINT and SIGTERM, which kill `checker`.
fn scratch(checker: &Checker) -> anyhow::Result<TempDir> {
    let place = scratch_place();
    let mut options = Builder::new();
    options.prefix("kvbench-check-").permissions(Permissions::from_mode(0o700));
    let in_place =
        || format!("cannot create a directory in {}; TMPDIR can name another place", place.display());
    let scratch = options.tempdir_in(&place).with_context(in_place)?;
    remove_at_signals(scratch.path().to_owned(), checker.clone()).context("cannot catch signals")?;
    Ok(scratch)
}

/// Returns the directory for copies of data: TMPDIR, or otherwise /var/tmp, since /tmp may be in memory and the data
/// larger than that; without a /var/tmp, the system's directory for temporary files.
fn scratch_place() -> PathBuf {
    let on_disk = || Some(PathBuf::from("/var/tmp")).filter(|path| path.is_dir());
    env::var_os("TMPDIR").map(PathBuf::from).or_else(on_disk).unwrap_or_else(env::temp_dir)
}

/// Starts a thread that, at SIGINT and SIGTERM, kills `checker`, removes the directory `scratch` and ends the process with
/// the exit code that a shell expects.
fn remove_at_signals(scratch: PathBuf, checker: Checker) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let caught = |kind| {
        let _entered = runtime.enter();
        signal(kind)
    };
    let (mut interrupt, mut terminate) = (caught(SignalKind::interrupt())?, caught(SignalKind::terminate())?);
    let wait = async move {
        tokio::select! { _ = interrupt.recv() => libc::SIGINT, _ = terminate.recv() => libc::SIGTERM }
    };
    let remove = move || {
        let number = runtime.block_on(wait);
        let _killed = checker.kill();
        // The copy may still grow.
        for _ in 0..100 {
            if fs::remove_dir_all(&scratch).is_ok() {
                break;
            }
        }
        process::exit(128 + number);
    };
    thread::Builder::new().name("signals".into()).spawn(remove).map(drop)
}

/// Copies a file or a directory of data, and fails if a process has locked a file. The outer error is one of reading
/// the data or of such a lock, the inner one of creating a directory or copying a file.
fn copy_all(from: &Path, to: &Path) -> anyhow::Result<io::Result<()>> {
    if !from.is_dir() {
        let file = File::open(from).with_context(|| format!("cannot open {}", from.display()))?;
        refuse_locked(&file, from)?;
        return Ok(fs::copy(from, to).map(drop));
    }
    if let Err(error) = fs::create_dir(to) {
        return Ok(Err(error));
    }
    for entry in fs::read_dir(from).with_context(|| format!("cannot open {}", from.display()))? {
        let name = entry?.file_name();
        if let Err(error) = copy_all(&from.join(&name), &to.join(&name))? {
            return Ok(Err(error));
        }
    }
    Ok(Ok(()))
}

fn refuse_locked(file: &File, path: &Path) -> anyhow::Result<()> {
    let locked = match file.try_lock_shared() {
        Ok(()) => has_record_lock(file),
        Err(TryLockError::WouldBlock) => true,
        Err(TryLockError::Error(error)) => return Err(error).context("cannot lock it"),
    };
    if locked {
        bail!(in_use(path));
    }
    Ok(())
}

/// Returns the error for data that another process has open.
fn in_use(path: &Path) -> String {
    format!("{} is in use by another process; stop it first", path.display())
}

/// Returns `true` if another process holds a record lock (fcntl) on the file, which RocksDB uses; flock does not detect
/// it.
#[cfg(target_os = "linux")]
fn has_record_lock(file: &File) -> bool {
    use nix::fcntl::{FcntlArg, fcntl};
    let mut lock = libc::flock {
        l_type: libc::F_RDLCK as _,
        l_whence: libc::SEEK_SET as _,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    };
    fcntl(file, FcntlArg::F_GETLK(&mut lock)).is_ok() && lock.l_type != libc::F_UNLCK as libc::c_short
}

#[cfg(not(target_os = "linux"))]
fn has_record_lock(_: &File) -> bool {
    false
}

/// Repairs the append-only file at `path` so that it opens: restores its first line if that is corrupt, and cuts the
/// file off at the first other corruption. Returns the report for the user.
pub fn repair(path: &Path) -> anyhow::Result<String> {
    let kind = owner(path).with_context(|| format!("cannot repair {}", path.display()))?;
    let shown = path.display();
    let Some(repair) = kind.repair else {
        bail!("{shown} holds data of {}, which kvbench cannot repair; restore a backup", kind.info.name);
    };
    let done = repair(path).map_err(|error| match error {
        Error::Locked { path } => anyhow!(in_use(&path)),
        error => error.into(),
    })?;
    let mut text = String::new();
    for damage in &done.damage {
        text.push_str(&format!("{shown}: damaged at {damage}\n"));
    }
    for file in &done.removed {
        text.push_str(&format!("{shown}: what was cut off is in {}\n", file.display()));
    }
    let (records, len) = (done.records, done.len);
    let state = if done.removed.is_empty() { "nothing to repair" } else { "repaired" };
    Ok(format!("{text}{shown}: {state}: {records} records in {len} bytes\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{process::ExitStatus, time::Duration};

    #[test]
    fn killed_check_says_nothing_of_the_data() {
        let kind = Kind::find("map").unwrap();
        for (signal, code) in [(libc::SIGKILL, 2), (libc::SIGSEGV, 1), (libc::SIGABRT, 1)] {
            let output =
                Output { status: ExitStatus::from_raw(signal), stdout: Vec::new(), stderr: Vec::new() };
            let verdict = verdict_of(&output, kind, Path::new("copy"), Path::new("data"));
            assert_eq!(verdict.code(), code, "signal {signal}: {}", verdict.text());
        }
    }

    #[test]
    fn killed_checker_has_ended_and_its_status_is_not_seen() {
        let checker = Checker::default();
        let running = thread::spawn({
            let checker = checker.clone();
            move || checker.run(Command::new("sleep").arg("600")).unwrap().status
        });
        while checker.lock().is_none() {
            thread::sleep(Duration::from_millis(1));
        }
        let mut killed = checker.kill();
        assert!(killed.as_mut().unwrap().try_wait().unwrap().is_some());
        thread::sleep(Duration::from_millis(20));
        assert!(!running.is_finished());
        drop(killed);
        assert_eq!(running.join().unwrap().signal(), Some(libc::SIGKILL));
    }
}

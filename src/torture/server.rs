//! Server process of a crash test.

use super::{load_client, options::Subject};
use nix::sys::{prctl::set_pdeathsig, signal::Signal};
use redis_protocol::resp2::types::OwnedFrame;
use std::{
    fs::{self, File},
    hash::{BuildHasher, RandomState},
    io,
    net::{Ipv4Addr, TcpListener},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

/// Maximum time from the start of a server until it is ready.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// Ports from which a crash test chooses that of its server: below those that the system assigns to outgoing
/// connections.
const PORTS: std::ops::Range<u16> = 12_000..32_000;

/// Running server process; killed when dropped.
pub(super) struct Server {
    process: Child,
    pub port: u16,
    log: PathBuf,
}

impl Server {
    /// Starts a server with its data in `dir`, without waiting until it is ready.
    pub fn spawn(subject: &Subject, dir: &Path, log: &Path) -> Result<Self, String> {
        let port = free_port()?;
        let said = |error: io::Error| format!("{}: {error}", log.display());
        let output = File::options().create(true).append(true).open(log).map_err(said)?;
        let errors = output.try_clone().map_err(said)?;
        let words = subject.arguments.iter().map(|word| {
            word.replace("{dir}", &dir.display().to_string()).replace("{port}", &port.to_string())
        });
        let mut command = Command::new(&subject.program);
        command.args(words).stdin(Stdio::null()).stdout(output).stderr(errors);
        kill_with_parent(&mut command);
        let start = command.spawn();
        let process =
            start.map_err(|error| format!("cannot start {}: {error}", subject.program.display()))?;
        Ok(Self { process, port, log: log.into() })
    }

    /// Waits until the server answers PING. Fails if it exits, or after a minute.
    pub fn wait_until_ready(&mut self) -> Result<(), String> {
        let deadline = Instant::now() + START_TIMEOUT;
        loop {
            if self.answers().unwrap_or(false) {
                return Ok(());
            }
            if let Ok(Some(status)) = self.process.try_wait() {
                return Err(format!("the server does not start ({status}): {}", self.last_words()));
            }
            if Instant::now() > deadline {
                return Err(format!("the server is not ready after {} s", START_TIMEOUT.as_secs()));
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Returns `true` if this server answers, not another process that took the port in the meantime.
    fn answers(&self) -> io::Result<bool> {
        let mut connection = load_client::connect(self.port)?;
        if !matches!(connection.call(&["PING"])?, OwnedFrame::SimpleString(_)) {
            return Ok(false);
        }
        let OwnedFrame::BulkString(info) = connection.call(&["INFO"])? else { return Ok(true) };
        let info = String::from_utf8_lossy(&info);
        let pid = info.lines().find_map(|line| line.strip_prefix("process_id:")?.trim().parse().ok());
        Ok(pid.is_none_or(|pid: u32| pid == self.process.id()))
    }

    /// Returns the exit status of the server, or `None` while it runs.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.process.try_wait().ok().flatten()
    }

    /// Returns the last three lines of the server's output, or "no output" if there are none.
    pub fn last_words(&self) -> String {
        let log = fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(log.get(log.len().saturating_sub(600)..).unwrap_or_default());
        let lines: Vec<_> = text.lines().rev().take(3).collect();
        match lines.is_empty() {
            true => "no output".into(),
            false => lines.into_iter().rev().collect::<Vec<_>>().join(" | "),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Makes the kernel kill the server when this process dies.
#[expect(unsafe_code, reason = "what runs between fork and exec")]
fn kill_with_parent(command: &mut Command) {
    // SAFETY: prctl is async-signal-safe, and nothing else happens there.
    unsafe {
        command.pre_exec(|| Ok(set_pdeathsig(Signal::SIGKILL)?));
    }
}

/// Returns a random free port, since other crash tests look for ports at the same time.
fn free_port() -> Result<u16, String> {
    for _ in PORTS {
        let number = RandomState::new().hash_one(()) % u64::from(PORTS.end - PORTS.start);
        let port = PORTS.start + number as u16;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    Err(format!("no free port from {} to {}", PORTS.start, PORTS.end))
}

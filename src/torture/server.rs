//! Server process of a crash test.

use super::{load_client, options::Subject};
use crate::interrupt;
use nix::{
    sys::{
        prctl::set_pdeathsig,
        signal::{Signal, killpg},
    },
    unistd::Pid,
};
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

/// Running server process, which leads a process group; the group is killed when dropped.
pub(super) struct Server {
    process: Child,
    /// `true` for kvbench, which no script starts.
    is_ours: bool,
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
        command.process_group(0);
        prepare_child(&mut command);
        let start = command.spawn();
        let process =
            start.map_err(|error| format!("cannot start {}: {error}", subject.program.display()))?;
        Ok(Self { process, is_ours: subject.is_ours, port, log: log.into() })
    }

    /// Waits until the server answers PING. Fails if it exits, or after a minute. If the server is not kvbench, fails also
    /// if another process answers.
    pub fn wait_until_ready(&mut self) -> Result<(), String> {
        let deadline = Instant::now() + START_TIMEOUT;
        loop {
            match self.answering_process() {
                Ok(Some(id)) if id == self.process.id() => return Ok(()),
                // A server of another crash test can have the port of kvbench for a while.
                Ok(Some(id)) if !self.is_ours => {
                    return Err(format!(
                        "another process ({id}) answers at the port of the server; if a script starts the server, let it \
                         `exec` the server"
                    ));
                }
                _ => {}
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

    /// Returns the id of the process that answers PING at the port, which is not this server's if another process took the
    /// port in the meantime, or if a script started the server. If INFO has no id, this server's is returned;
    /// `None` if the server is not ready.
    fn answering_process(&self) -> io::Result<Option<u32>> {
        let mut connection = load_client::connect(self.port)?;
        if !matches!(connection.call(&["PING"])?, OwnedFrame::SimpleString(_)) {
            return Ok(None);
        }
        let own = self.process.id();
        let OwnedFrame::BulkString(info) = connection.call(&["INFO"])? else { return Ok(Some(own)) };
        let info = String::from_utf8_lossy(&info);
        let id = info.lines().find_map(|line| line.strip_prefix("process_id:")?.trim().parse().ok());
        Ok(Some(id.unwrap_or(own)))
    }

    /// Returns the exit status of the server, or `None` while it runs.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.process.try_wait().ok().flatten()
    }

    /// Returns `true` if the server has ended because another process had taken its port.
    pub fn found_port_taken(&mut self) -> bool {
        self.ended().is_some() && self.last_words().contains("Address already in use")
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
        // The group also has a server that a script has started. This fails if all have ended.
        let group = i32::try_from(self.process.id()).map(Pid::from_raw);
        let _ = group.map(|group| killpg(group, Signal::SIGKILL));
        let _ = self.process.wait();
    }
}

/// Makes the kernel kill the server when this process dies, and lets signals end the server as usual.
#[expect(unsafe_code, reason = "what runs between fork and exec")]
fn prepare_child(command: &mut Command) {
    // SAFETY: both system calls are async-signal-safe, and nothing else happens there.
    unsafe {
        command.pre_exec(|| {
            interrupt::release()?;
            Ok(set_pdeathsig(Signal::SIGKILL)?)
        });
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

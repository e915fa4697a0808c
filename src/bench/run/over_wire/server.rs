//! Server that a job measures: a child process of this job, or an external server.

use super::{
    other_program,
    unmeasured_requests::{self, REPLY_TIMEOUT},
};
use crate::bench::{
    plan::options::ExternalServer,
    result::{FileSize, Target, comparability::Level},
    run::{affinity::Pinned, disk_usage::Files, job_messages::Job},
};
use std::{
    env,
    io::{self, BufRead, BufReader},
    net::{SocketAddr, ToSocketAddrs},
    process::{Child, Command, Stdio},
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

/// Maximum number of times that an external server is emptied after a job that failed or was killed: requests of that
/// job that it still executes may add keys again.
const MAX_FLUSHES: u32 = 10;

/// Server process that this process has started and not stopped, if any.
static SERVER: Mutex<Option<Child>> = Mutex::new(None);

/// Locks [`SERVER`]. A server is started under this lock, so that one that runs is always stored.
fn lock_server() -> MutexGuard<'static, Option<Child>> {
    SERVER.lock().unwrap_or_else(PoisonError::into_inner)
}

fn server_has_ended() -> bool {
    lock_server().as_mut().is_none_or(|server| !matches!(server.try_wait(), Ok(None)))
}

/// Kills the server that this process has started, if any. No server starts while the returned guard exists.
pub(in crate::bench::run) fn kill_server() -> impl Drop {
    let mut stored = lock_server();
    if let Some(mut server) = stored.take() {
        let _ = server.kill();
        let _ = server.wait();
    }
    stored
}

/// Returns an error if an external server cannot be measured: it does not reply, or it holds keys that the run
/// may not remove.
pub(in crate::bench::run) fn check_target(target: &ExternalServer) -> Result<(), String> {
    match unmeasured_requests::count_keys(address_of(&target.address)?, Some(REPLY_TIMEOUT)) {
        Err(error) => Err(format!("{error}; {}", next_step(&error))),
        Ok(keys) if keys > 0 && !target.flush => Err(not_empty(keys)),
        Ok(_) => Ok(()),
    }
}

/// Returns what the user can do about the error `error` of a request to the external server.
fn next_step(error: &io::Error) -> &'static str {
    match error.kind() {
        // An error reply of the server.
        io::ErrorKind::Other if error.to_string().starts_with("NOAUTH") => {
            "a server with a password cannot be measured; start it without a password"
        }
        io::ErrorKind::Other => "wait until the server replies to DBSIZE, or correct the address",
        _ => "start the server, or correct the address",
    }
}

/// Removes all keys from the external server with the address `name` after the process of the job that measured it has
/// died.
pub(in crate::bench::run) fn empty_target(name: &str) -> Result<(), String> {
    flush_all(address_of(name)?)
}

/// Removes all keys from an external server. Repeats this until none is left, at most [`MAX_FLUSHES`] times, because
/// the server may still execute requests of the ended job for a moment.
fn flush_all(address: SocketAddr) -> Result<(), String> {
    for _ in 0..MAX_FLUSHES {
        unmeasured_requests::flush(address).map_err(|error| error.to_string())?;
        thread::sleep(Duration::from_millis(50));
        let keys = unmeasured_requests::count_keys(address, Some(REPLY_TIMEOUT));
        if keys.map_err(|error| error.to_string())? == 0 {
            return Ok(());
        }
    }
    Err("other clients write to the server".into())
}

fn address_of(name: &str) -> Result<SocketAddr, String> {
    let mut addresses = name.to_socket_addrs().map_err(|error| error.to_string())?;
    addresses.next().ok_or_else(|| "the name has no address".into())
}

fn not_empty(keys: u64) -> String {
    format!("the server holds {keys} keys; empty it, or add --flush-target, which removes all of them")
}

/// Origin of a server.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// A kvbench process, started for this job.
    Own,
    /// A process of another program, started for this job.
    Program,
    /// An external server, which was running before the job and runs on after it.
    Foreign,
}

/// Server that a job measures. An external server that is dropped without [`Server::stop`], after an error, loses its
/// keys: they are those of the job.
pub(super) struct Server {
    pub address: SocketAddr,
    pub pid: Option<u32>,
    kind: Kind,
    /// Files of the store; `None` for an external server and for a store in memory.
    pub files: Option<Files>,
    /// `true` after [`Server::stop`].
    is_stopped: bool,
}

/// Result of [`Server::stop`].
#[derive(Debug, Default)]
pub(super) struct Stopped {
    /// Time of the shutdown in seconds; `None` for an external server.
    pub seconds: Option<f64>,
    /// Size of the remaining files; `None` for an external server and for a store in memory.
    pub size: Option<FileSize>,
    /// Sentence that an external server may still hold the keys of the job; `None` if it does not.
    pub warning: Option<String>,
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.kind == Kind::Foreign && !self.is_stopped {
            // The job reports the error that ended it.
            let _ = flush_all(self.address);
        }
    }
}

impl Server {
    /// Starts the server of a target, or connects to the external server that it names. `arguments` are those of a
    /// kvbench server, if it is one.
    pub fn start(job: &Job, target: &Target, arguments: &[String]) -> Result<Self, String> {
        match (&target.address, &target.program) {
            (Some(address), _) => Self::foreign(job, address),
            (None, Some(program)) => Self::program(job, target, program),
            (None, None) => Self::own(job, target, arguments),
        }
    }

    /// Starts a server of another program, such as redis-server, over files in the job's directory, and waits until it
    /// replies.
    fn program(job: &Job, target: &Target, program: &str) -> Result<Self, String> {
        let _pinned = job.server_cpus.as_deref().map(Pinned::to).transpose()?;
        let mut stored = lock_server();
        let (child, address) = other_program::start(program, target, &job.directory)?;
        let pid = stored.insert(child).id();
        drop(stored);
        other_program::wait(address, pid, server_has_ended)?;
        let files = target.persistent.then(|| Files::of(&job.directory));
        Ok(Self { address, pid: Some(pid), kind: Kind::Program, files, is_stopped: false })
    }

    /// Connects to an external server, after removing all of its keys if the user allowed that (`--flush-target`).
    /// Returns an error if the server holds keys.
    fn foreign(job: &Job, name: &str) -> Result<Self, String> {
        let address = address_of(name).map_err(|error| format!("{name}: {error}"))?;
        let error = |error| format!("{name}: {error}");
        if job.flush_target {
            unmeasured_requests::flush(address).map_err(error)?;
        }
        match unmeasured_requests::count_keys(address, Some(REPLY_TIMEOUT)).map_err(error)? {
            0 => {
                Ok(Self { address, pid: job.target_pid, kind: Kind::Foreign, files: None, is_stopped: false })
            }
            keys => Err(format!("{name}: {}", not_empty(keys))),
        }
    }

    fn own(job: &Job, target: &Target, arguments: &[String]) -> Result<Self, String> {
        let program = env::current_exe().map_err(|error| error.to_string())?;
        let _pinned = job.server_cpus.as_deref().map(Pinned::to).transpose()?;
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut stored = lock_server();
        let child = command.spawn().map_err(|error| format!("cannot start the server: {error}"))?;
        let child = stored.insert(child);
        let (pid, stdout) = (child.id(), child.stdout.take());
        drop(stored);
        let mut line = String::new();
        let read = stdout.map(|stdout| BufReader::new(stdout).read_line(&mut line));
        let address = line.split_whitespace().find_map(|word| word.strip_prefix("address=")?.parse().ok());
        match (read, address) {
            (Some(Ok(_)), Some(address)) => {
                let files = target.persistent.then(|| Files::of(&job.directory));
                Ok(Self { address, pid: Some(pid), kind: Kind::Own, files, is_stopped: false })
            }
            _ => Err(format!("the server did not start: {line:?}")),
        }
    }

    /// Returns `true` if [`Server::settle`] makes the server do its deferred work: for a kvbench server of this job.
    pub fn settles(&self) -> bool {
        self.kind == Kind::Own
    }

    /// Makes a kvbench server do its deferred work, and waits for it. Does nothing for other servers, which have no
    /// command for that.
    pub fn settle(&self) -> Result<(), String> {
        if !self.settles() {
            return Ok(());
        }
        unmeasured_requests::settle_store(self.address).map_err(|error| error.to_string())
    }

    /// Returns the number of keys on the server. Waits for a kvbench server of this job without a time limit, because some
    /// stores scan all keys to count them.
    pub fn count_keys(&self) -> io::Result<u64> {
        let patience = (self.kind != Kind::Own).then_some(REPLY_TIMEOUT);
        unmeasured_requests::count_keys(self.address, patience)
    }

    /// Makes the accepted writes of a kvbench server with files durable. Does nothing for other servers, which sync
    /// when they shut down or at their own time.
    pub fn sync(&self) -> Result<(), String> {
        if self.kind != Kind::Own || self.files.is_none() {
            return Ok(());
        }
        unmeasured_requests::sync(self.address).map_err(|error| format!("load: {error}"))
    }

    /// Returns the number of syncs that the timer of a kvbench server has made under the policy `everysec`;
    /// `None` under other policies and for other servers.
    pub fn timer_syncs(&self, target: &Target) -> Option<u64> {
        let counts = self.kind == Kind::Own && Level::of(target).is_everysec();
        if counts { unmeasured_requests::timer_syncs(self.address).ok() } else { None }
    }

    /// Shuts down a server of this job; removes all keys from an external server, and warns if that fails. Fails if the
    /// server of this job does not exit with success.
    pub fn stop(mut self) -> Result<Stopped, String> {
        self.is_stopped = true;
        if self.kind == Kind::Foreign {
            // No reason to discard what was measured before.
            let error = unmeasured_requests::flush(self.address).err();
            let warning = error.map(|error| {
                format!("FLUSHDB after the measurement: {error}; the server may still hold the run's keys")
            });
            return Ok(Stopped { warning, ..Stopped::default() });
        }
        let begin = Instant::now();
        // Before the server is taken: it ends even if this process exits now.
        unmeasured_requests::shut_down(self.address);
        let Some(mut child) = lock_server().take() else { return Ok(Stopped::default()) };
        let status = child.wait().map_err(|error| format!("the server does not end: {error}"))?;
        if !status.success() {
            return Err(format!("the server ended with {status}"));
        }
        let seconds = Some(begin.elapsed().as_secs_f64());
        Ok(Stopped { seconds, size: self.files.as_ref().map(Files::size), warning: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::{
        data::{Data, key_ledger::KeyLedger},
        plan::{options::Options, suites},
        result::{Access, Measurement, Operation, Workload},
        run::over_wire::{bench_context::WireBench, step},
    };
    use std::{
        io::{Read, Write},
        net::TcpListener,
        sync::{Arc, mpsc},
    };

    /// Starts a server without keys, and returns its address and the names of the commands that it receives.
    fn empty_server() -> (SocketAddr, mpsc::Receiver<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, commands) = mpsc::channel();
        thread::spawn(move || {
            for client in listener.incoming() {
                let (mut client, sender) = (client.unwrap(), sender.clone());
                thread::spawn(move || {
                    let mut bytes = [0; 1024];
                    while let Ok(length @ 1..) = client.read(&mut bytes) {
                        let request = String::from_utf8_lossy(&bytes[..length]).into_owned();
                        let name = request.split("\r\n").nth(2).unwrap();
                        let reply = match name {
                            "DBSIZE" => ":0\r\n",
                            "GET" => "$-1\r\n",
                            "FLUSHDB" => "-NOPERM\r\n",
                            _ => "+OK\r\n",
                        };
                        sender.send(name.to_owned()).unwrap();
                        client.write_all(reply.as_bytes()).unwrap();
                    }
                });
            }
        });
        (address, commands)
    }

    /// Measures reads of absent keys from a server of the kind `kind` with the files `files`. Returns the measurement, and
    /// the names of the commands that the server received.
    fn measured(kind: Kind, files: Option<Files>) -> (Measurement, Vec<String>) {
        let (address, commands) = empty_server();
        let options = Options { suite: suites::find("smallnest"), keys: Some(1000), ..Options::default() };
        let mut cell = suites::plan(&options).unwrap().cells.remove(0);
        cell.target = Target { persistent: files.is_some(), ..Target::new(Access::Wire, "map") };
        cell.workload = Workload::of([(Operation::GetMiss, 1.0)], 1);
        let data = Arc::new(Data::new(&cell.workload).unwrap());
        let bench = WireBench { address, data, live: Arc::new(KeyLedger::new(1)), is_load: false };
        let server = Server { address, pid: None, kind, files, is_stopped: false };
        let measured = step(&server, &bench, &[cell], false).unwrap().remove(0);
        assert!(measured.is_sound(), "{:?}", measured.first_fault);
        (measured, commands.try_iter().collect())
    }

    /// A store that scans all keys to count them goes on with its compactions meanwhile.
    #[test]
    fn deferred_work_is_timed_before_keys_are_counted() {
        let directory = tempfile::tempdir().unwrap();
        let (measured, commands) = measured(Kind::Own, Some(Files::of(directory.path())));
        assert_eq!(commands, ["DEBUG", "GET", "DEBUG", "DBSIZE"]);
        assert!(measured.settle_seconds.is_some());
    }

    /// A program such as redis-server has no command to do its deferred work.
    #[test]
    fn deferred_work_of_another_program_is_not_timed() {
        let directory = tempfile::tempdir().unwrap();
        let (measured, commands) = measured(Kind::Program, Some(Files::of(directory.path())));
        assert_eq!(commands, ["GET", "DBSIZE"]);
        assert_eq!(measured.settle_seconds, None);
        assert!(measured.live_size.is_some() && measured.unmeasured.contains_key("settle_seconds"));
    }

    #[test]
    fn an_external_server_that_cannot_be_emptied_is_a_warning() {
        let (address, _commands) = empty_server();
        let server = Server { address, pid: None, kind: Kind::Foreign, files: None, is_stopped: false };
        let stopped = server.stop().unwrap();
        assert!(stopped.warning.as_ref().is_some_and(|text| text.contains("NOPERM")), "{stopped:?}");
    }
}

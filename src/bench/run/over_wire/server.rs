//! The server that is measured: a child process of ours, or one that was running already.

use super::{calls, program};
use crate::bench::{
    result::{FileSize, Target},
    run::{affinity::Pinned, disk::Files, job::Job},
};
use std::{
    env,
    io::{BufRead, BufReader},
    net::{SocketAddr, ToSocketAddrs},
    process::{Child, Command, Stdio},
    sync::{Mutex, PoisonError},
    time::Instant,
};

/// The server that this process has started, if any.
static SERVER: Mutex<Option<Child>> = Mutex::new(None);

/// Keeps a server, to end it when this process ends before its time.
fn keep_server(server: Child) {
    *SERVER.lock().unwrap_or_else(PoisonError::into_inner) = Some(server);
}

/// Takes back the server that was kept.
fn take_server() -> Option<Child> {
    SERVER.lock().unwrap_or_else(PoisonError::into_inner).take()
}

fn server_has_ended() -> bool {
    let mut server = SERVER.lock().unwrap_or_else(PoisonError::into_inner);
    server.as_mut().is_none_or(|server| !matches!(server.try_wait(), Ok(None)))
}

pub(in crate::bench::run) fn stop_server() {
    if let Some(mut server) = take_server() {
        let _ = server.kill();
        let _ = server.wait();
    }
}

/// Whose it is.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// A process of kvbench, for this job.
    Own,
    /// A process of another program, for this job.
    Program,
    /// It was there before, and will be after.
    Foreign,
}

pub(super) struct Server {
    pub address: SocketAddr,
    pub pid: Option<u32>,
    kind: Kind,
    /// Of our own server's store, if it has any.
    pub files: Option<Files>,
}

impl Server {
    /// Starts it, or finds the one that is running: ours with these arguments, another one as the target says.
    pub fn start(job: &Job, target: &Target, arguments: &[String]) -> Result<Self, String> {
        match (&target.address, &target.program) {
            (Some(address), _) => Self::foreign(job, address),
            (None, Some(program)) => Self::program(job, target, program),
            (None, None) => Self::own(job, target, arguments),
        }
    }

    /// Starts another program, over files of the job's directory.
    fn program(job: &Job, target: &Target, program: &str) -> Result<Self, String> {
        let _pinned = job.server_cpus.as_deref().map(Pinned::to).transpose()?;
        let (child, address) = program::start(program, target, &job.directory)?;
        let pid = child.id();
        keep_server(child);
        program::wait(address, pid, server_has_ended)?;
        let files = target.persistent.then(|| Files::of(&job.directory));
        Ok(Self { address, pid: Some(pid), kind: Kind::Program, files })
    }

    /// A server that holds keys is not ours to fill and empty, unless the user says so.
    fn foreign(job: &Job, name: &str) -> Result<Self, String> {
        let mut addresses = name.to_socket_addrs().map_err(|error| format!("{name}: {error}"))?;
        let address = addresses.next().ok_or_else(|| format!("{name} has no address"))?;
        let error = |error| format!("{name}: {error}");
        if job.flush_target {
            calls::flush(address).map_err(error)?;
        }
        match calls::count_keys(address).map_err(error)? {
            0 => Ok(Self { address, pid: job.target_pid, kind: Kind::Foreign, files: None }),
            keys => Err(format!("the server at {name} holds {keys} keys; empty it, or allow the run to")),
        }
    }

    fn own(job: &Job, target: &Target, arguments: &[String]) -> Result<Self, String> {
        let program = env::current_exe().map_err(|error| error.to_string())?;
        let _pinned = job.server_cpus.as_deref().map(Pinned::to).transpose()?;
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot start the server: {error}"))?;
        let pid = child.id();
        let stdout = child.stdout.take();
        keep_server(child);
        let mut line = String::new();
        let read = stdout.map(|stdout| BufReader::new(stdout).read_line(&mut line));
        let address = line.split_whitespace().find_map(|word| word.strip_prefix("address=")?.parse().ok());
        match (read, address) {
            (Some(Ok(_)), Some(address)) => {
                let files = target.persistent.then(|| Files::of(&job.directory));
                Ok(Self { address, pid: Some(pid), kind: Kind::Own, files })
            }
            _ => Err(format!("the server did not start: {line:?}")),
        }
    }

    /// Makes our own server do what it has put off; of another one nobody knows how to ask.
    pub fn settle(&self) -> Result<(), String> {
        if self.kind != Kind::Own {
            return Ok(());
        }
        calls::settle_store(self.address).map_err(|error| error.to_string())
    }

    /// Makes what our own server has accepted durable. Another one does so when it ends, or as it likes.
    pub fn sync(&self) -> Result<(), String> {
        if self.kind != Kind::Own || self.files.is_none() {
            return Ok(());
        }
        calls::sync(self.address).map_err(|error| format!("load: {error}"))
    }

    /// Ends a server of this job in an orderly way, leaves another one empty. The time it took and the files it
    /// left on disk.
    pub fn stop(&self) -> Result<(Option<f64>, Option<FileSize>), String> {
        if self.kind == Kind::Foreign {
            calls::flush(self.address).map_err(|error| format!("FLUSHDB: {error}"))?;
            return Ok((None, None));
        }
        let Some(mut child) = take_server() else { return Ok((None, None)) };
        let begin = Instant::now();
        calls::shut_down(self.address);
        let status = child.wait().map_err(|error| format!("the server does not end: {error}"))?;
        if !status.success() {
            return Err(format!("the server ended with {status}"));
        }
        Ok((Some(begin.elapsed().as_secs_f64()), self.files.as_ref().map(Files::size)))
    }
}

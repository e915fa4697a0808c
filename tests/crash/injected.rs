//! A server whose system calls strace meddles with, from some moment on.

use crate::{
    support::{KVBENCH, PATIENCE, Server},
    trace::strace,
};
use rustix::process::{Pid, Signal, kill_process};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::{Duration, Instant},
};

/// strace does it as the server's parent, because some systems let a process look only at its own children.
pub struct Injected {
    pub server: Server,
    dir: PathBuf,
}

impl Injected {
    /// Starts `kvbench args`.
    pub fn start(dir: &Path, args: &[&str]) -> Self {
        drop(strace());
        let script = "\"$@\" 2>kvbench.err & pid=$!; until [ -e go ]; do sleep 0.02; done; \
                      exec strace -f -p $pid -o trace.out $(cat go) 2>strace.err";
        let mut command = Command::new("bash");
        command.current_dir(dir).args(["-c", script, "bash", KVBENCH]).args(args);
        Self { server: Server::start_command(&mut command), dir: dir.into() }
    }

    /// Begins with it. `which`: strace's options.
    pub fn begin(&self, which: &str) {
        let (new, go) = (self.dir.join("go.new"), self.dir.join("go"));
        fs::write(&new, which).unwrap();
        fs::rename(new, go).unwrap();
        let deadline = Instant::now() + PATIENCE;
        loop {
            let said = fs::read_to_string(self.dir.join("strace.err")).unwrap_or_default();
            if said.contains("attached") {
                return;
            }
            assert!(Instant::now() < deadline, "strace does not attach: {said}");
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// What the server has written to standard error.
    pub fn log(&self) -> String {
        fs::read_to_string(self.dir.join("kvbench.err")).unwrap()
    }

    /// Sends the server a signal. It is not the process that was started, but its child.
    pub fn signal(&mut self, signal: Signal) {
        // Only while its parent is there can the number not be another process's.
        if let (Some(pid), Ok(None)) = (self.pid(), self.server.process.try_wait()) {
            let _ = kill_process(pid, signal);
        }
    }

    /// Returns `true` if the server has exited, also while strace still holds a thread of it.
    pub fn has_exited(&self) -> bool {
        let pid = self.pid().expect("the line has the process id");
        let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
        stat.rsplit_once(") ").is_none_or(|(_, fields)| fields.starts_with('Z'))
    }

    fn pid(&self) -> Option<Pid> {
        let (_, pid) = self.server.start_line.split_once("pid=")?;
        Pid::from_raw(pid.trim().parse().ok()?)
    }
}

impl Drop for Injected {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

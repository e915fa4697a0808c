//! Stopping of a process with all its threads.
//!
//! SIGSTOP stops every thread of a process, needs no permission, and a stopped process can still be killed. The v1
//! freezer would add nothing but the risk that a killed comparison leaves frozen processes, which cannot be killed.

use nix::{
    errno::Errno,
    sys::{
        signal::{Signal, kill},
        wait::{Id, WaitPidFlag, waitid},
    },
    unistd::Pid,
};
use std::io;

/// Stops a child process, and waits until all its threads are stopped. A process that has ended counts as stopped.
///
/// # Errors
///
/// Fails if `pid` is no child of this process.
pub fn stop(pid: u32) -> io::Result<()> {
    let child = child(pid)?;
    signal(child, Signal::SIGSTOP)?;
    // The kernel reports the stop when the last thread has stopped. The state is left in place for the caller's wait.
    let states = WaitPidFlag::WSTOPPED | WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT;
    loop {
        match waitid(Id::Pid(child), states) {
            Err(Errno::EINTR) => {}
            outcome => return outcome.map(drop).map_err(Into::into),
        }
    }
}

/// Lets a stopped process go on (SIGCONT).
///
/// # Errors
///
/// Fails if the process does not exist.
pub fn resume(pid: u32) -> io::Result<()> {
    signal(child(pid)?, Signal::SIGCONT)
}

/// Lets this process go on if it is stopped when its parent ends: it then finds the end of its standard input, and
/// ends too.
///
/// # Errors
///
/// Fails if the system refuses the request.
#[cfg(target_os = "linux")]
pub fn resume_without_parent() -> io::Result<()> {
    nix::sys::prctl::set_pdeathsig(Signal::SIGCONT).map_err(Into::into)
}

fn signal(pid: Pid, signal: Signal) -> io::Result<()> {
    kill(pid, signal).map_err(Into::into)
}

fn child(pid: u32) -> io::Result<Pid> {
    i32::try_from(pid).map(Pid::from_raw).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::run::process_usage::ProcessUsage;
    use std::{
        fs,
        process::{Child, Command},
        thread,
        time::Duration,
    };

    /// Starts a shell that uses the CPU until it is killed.
    fn busy() -> Child {
        Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap()
    }

    /// Returns the states of a process' threads, such as `RST`.
    fn states(pid: u32) -> String {
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
        let stats = tasks.map(|task| fs::read_to_string(task.unwrap().path().join("stat")).unwrap());
        stats.map(|stat| stat.rsplit_once(") ").unwrap().1.chars().next().unwrap()).collect()
    }

    #[test]
    fn a_stopped_process_uses_no_cpu_until_it_goes_on() {
        let mut child = busy();
        let used = || ProcessUsage::of(child.id()).cpu_ns.unwrap();
        for _ in 0..3 {
            stop(child.id()).unwrap();
            assert_eq!(states(child.id()), "T");
            let before = used();
            thread::sleep(Duration::from_millis(30));
            assert_eq!(used(), before);
            resume(child.id()).unwrap();
            // Ends only if the process goes on.
            while used() == before {
                thread::sleep(Duration::from_millis(1));
            }
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn an_ended_process_counts_as_stopped_and_can_still_be_waited_for() {
        let mut child = Command::new("sh").args(["-c", "exit 3"]).spawn().unwrap();
        stop(child.id()).unwrap();
        let _ = resume(child.id());
        assert_eq!(child.wait().unwrap().code(), Some(3));
        assert!(stop(child.id()).is_err());
    }

    #[test]
    fn a_stopped_process_can_be_killed() {
        let mut child = busy();
        stop(child.id()).unwrap();
        child.kill().unwrap();
        assert!(!child.wait().unwrap().success());
    }
}

//! Stopping of a process group: a process with all its threads, and the server that it has started.
//!
//! SIGSTOP stops every thread of a process, needs no permission, and a stopped process can still be killed. The v1
//! freezer would add nothing but the risk that a killed comparison leaves frozen processes, which cannot be killed.

use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};
use std::{
    fs, io, thread,
    time::{Duration, Instant},
};

/// Maximum time to wait until a killed server has ended: it may be in a sync, or free much memory.
pub const MAX_END_TIME: Duration = Duration::from_secs(10);

/// Stops a child process, which leads a process group of its own, and the other processes of that group. Waits until all
/// threads of the child and of `others` are stopped. A process that has ended counts as stopped.
///
/// # Errors
///
/// Fails if `pid` is no child of this process, or leads no process group, and on other systems than Linux.
pub fn stop(pid: u32, others: &[u32]) -> io::Result<()> {
    let child = child(pid)?;
    signal(child, Signal::SIGSTOP)?;
    // A stop takes effect when a thread returns from the kernel, which takes longer only in a wait for a device.
    wait_for_states(others, &['T', 'Z', 'X'], Duration::MAX);
    wait_for_stop(child)
}

/// Waits until all threads of a child process are stopped, or the process has ended.
#[cfg(target_os = "linux")]
fn wait_for_stop(child: Pid) -> io::Result<()> {
    use nix::{
        errno::Errno,
        sys::wait::{Id, WaitPidFlag, waitid},
    };
    // The kernel reports the stop when the last thread has stopped. The state is left in place for the caller's wait.
    let states = WaitPidFlag::WSTOPPED | WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT;
    loop {
        match waitid(Id::Pid(child), states) {
            Err(Errno::EINTR) => {}
            outcome => return outcome.map(drop).map_err(Into::into),
        }
    }
}

/// Fails: a plan with turns is refused here.
#[cfg(not(target_os = "linux"))]
fn wait_for_stop(_: Pid) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Waits until killed processes have ended, but at most for `most`.
pub fn wait_for_end(pids: &[u32], most: Duration) {
    wait_for_states(pids, &['Z', 'X'], most);
}

/// Waits until all threads of some processes have one of these states or have ended, but at most for `most`.
fn wait_for_states(pids: &[u32], states: &[char], most: Duration) {
    const STEP: Duration = Duration::from_micros(100);
    let begin = Instant::now();
    let has_reached = |pid: &u32| thread_states(*pid).iter().all(|state| states.contains(state));
    while !pids.iter().all(has_reached) && begin.elapsed() < most {
        thread::sleep(STEP);
    }
}

/// Returns the states of the threads of a process (proc_pid_stat(5)); empty if it has ended.
fn thread_states(pid: u32) -> Vec<char> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let state = |thread: fs::DirEntry| {
        let stat = fs::read_to_string(thread.path().join("stat")).ok()?;
        after_name(&stat)?.chars().next()
    };
    threads.filter_map(state).collect()
}

/// Returns the processes of the process group that `pid` leads, without `pid` itself; empty on systems without `/proc`.
pub fn others_of_group(pid: u32) -> Vec<u32> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let group = |id: &u32| {
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        after_name(&stat)?.split(' ').nth(2)?.parse::<u32>().ok()
    };
    ids.filter(|id| *id != pid && group(id) == Some(pid)).collect()
}

/// Returns what follows the name in a `stat` file, from the state on (proc_pid_stat(5)); a name may have any letters.
fn after_name(stat: &str) -> Option<&str> {
    Some(stat.rsplit_once(") ")?.1)
}

/// Lets the stopped processes of a process group go on (SIGCONT).
///
/// # Errors
///
/// Fails if `pid` leads no process group.
pub fn resume(pid: u32) -> io::Result<()> {
    signal(child(pid)?, Signal::SIGCONT)
}

/// Kills the processes of a process group. Does nothing if `pid` leads none.
pub fn kill_group(pid: u32) {
    let _ = child(pid).map(|child| signal(child, Signal::SIGKILL));
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

fn signal(leader: Pid, signal: Signal) -> io::Result<()> {
    killpg(leader, signal).map_err(Into::into)
}

fn child(pid: u32) -> io::Result<Pid> {
    i32::try_from(pid).map(Pid::from_raw).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::run::process_usage::ProcessUsage;
    use std::{
        mem,
        os::unix::process::CommandExt,
        process::{Child, Command},
    };

    /// Starts a shell that runs `script`, in a process group of its own.
    fn shell(script: &str) -> Child {
        Command::new("sh").args(["-c", script]).process_group(0).spawn().unwrap()
    }

    /// Starts a shell that uses the CPU until it is killed.
    fn busy() -> Child {
        shell("while :; do :; done")
    }

    /// Waits until `is_done` returns `true`, for at most a minute. Panics with `what` after that.
    fn wait_until(what: &str, mut is_done: impl FnMut() -> bool) {
        let begin = Instant::now();
        while !is_done() {
            assert!(begin.elapsed() < Duration::from_secs(60), "not within a minute: {what}");
            thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_stopped_process_uses_no_cpu_until_it_goes_on() {
        let mut child = busy();
        let used = || ProcessUsage::of(child.id()).cpu_ns.unwrap();
        for _ in 0..3 {
            stop(child.id(), &[]).unwrap();
            assert_eq!(thread_states(child.id()), ['T']);
            // The kernel reports the stop some microseconds before it takes the process off the CPU.
            let mut before = used();
            wait_until("the CPU time of the stopped process stays the same", || {
                thread::sleep(Duration::from_millis(10));
                mem::replace(&mut before, used()) == before
            });
            thread::sleep(Duration::from_millis(30));
            assert_eq!(used(), before);
            resume(child.id()).unwrap();
            wait_until("the process goes on", || used() != before);
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn an_ended_process_counts_as_stopped_and_can_still_be_waited_for() {
        let mut child = shell("exit 3");
        stop(child.id(), &[]).unwrap();
        let _ = resume(child.id());
        assert_eq!(child.wait().unwrap().code(), Some(3));
        assert!(stop(child.id(), &[]).is_err());
    }

    #[test]
    fn a_stopped_process_can_be_killed() {
        let mut child = busy();
        stop(child.id(), &[]).unwrap();
        child.kill().unwrap();
        assert!(!child.wait().unwrap().success());
    }

    #[test]
    fn a_server_of_the_process_is_stopped_and_killed_with_it() {
        let mut child = shell("sh -c 'while :; do :; done' & while :; do :; done");
        let id = child.id();
        let mut others = Vec::new();
        wait_until("the shell has started the server", || {
            others = others_of_group(id);
            others.len() == 1
        });
        let server = others[0];
        stop(id, &[server]).unwrap();
        assert_eq!((thread_states(id), thread_states(server)), (vec!['T'], vec!['T']));
        resume(id).unwrap();
        kill_group(id);
        assert!(!child.wait().unwrap().success());
        wait_for_end(&[server], Duration::from_secs(60));
        assert!(thread_states(server).iter().all(|state| *state == 'Z'));
    }
}

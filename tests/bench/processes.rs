//! The processes of a run while they work: where they run, and how servers are started.

use crate::{
    support::bench::{command, stderr},
    support::{FOREVER, PATIENCE, Program, RunToEnd, Server},
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use redis_protocol::resp2::types::OwnedFrame;
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::{Duration, Instant},
};

/// A process that was seen, by its number.
#[derive(Debug, PartialEq)]
struct Process {
    pid: u32,
    arguments: Vec<String>,
}

impl Process {
    /// What it is now: between its start and its program it has the arguments of who starts it.
    fn of(pid: u32) -> Option<Self> {
        let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let words = line.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned());
        Some(Self { pid, arguments: words.collect() })
    }

    fn is(&self, subcommand: &str) -> bool {
        self.arguments.get(1).is_some_and(|word| word == subcommand)
    }

    fn threads(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(format!("/proc/{}/task", self.pid)).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect()
    }

    /// Those that it has started.
    fn children(&self, subcommand: &str) -> Vec<Self> {
        let parent = format!("PPid:\t{}", self.pid);
        let is_child = |pid: &u32| {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            status.lines().any(|line| line == parent)
        };
        let pids = fs::read_dir("/proc").unwrap().flatten();
        let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(is_child);
        pids.filter_map(Self::of).filter(|process| process.is(subcommand)).collect()
    }

    /// Processors of its threads: of the first one, and of the others.
    fn processors(&self) -> (Vec<String>, Vec<String>) {
        let allowed = |thread: &PathBuf| {
            let status = fs::read_to_string(thread.join("status")).ok()?;
            let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
            Some(line.trim().to_owned())
        };
        let is_first = |thread: &PathBuf| *thread == Path::new(&format!("/proc/{0}/task/{0}", self.pid));
        let (first, others): (Vec<_>, Vec<_>) = self.threads().into_iter().partition(is_first);
        let of = |threads: &[PathBuf]| threads.iter().filter_map(allowed).collect();
        (of(&first), of(&others))
    }
}

/// Looks at a run again and again until it ends, successfully: at each process that measures, and its servers.
fn watch(flags: &[&str], mut look: impl FnMut(&Process, &[Process])) {
    let dir = tempfile::tempdir().unwrap();
    let mut run = Program::start(&mut command(dir.path(), flags));
    let bench = Process { pid: run.process.id(), arguments: Vec::new() };
    let deadline = Instant::now() + FOREVER;
    while run.process.try_wait().unwrap().is_none() && Instant::now() < deadline {
        for measuring in bench.children("measure-job") {
            look(&measuring, &measuring.children("serve"));
        }
        thread::sleep(Duration::from_millis(10));
    }
    let output = run.output();
    assert!(output.status.success(), "{}", stderr(&output));
}

/// The first and the last processor that this process may use.
fn processors() -> (String, String) {
    let allowed = nix::sched::sched_getaffinity(nix::unistd::Pid::from_raw(0)).unwrap();
    let mut allowed = (0..nix::sched::CpuSet::count()).filter(|cpu| allowed.is_set(*cpu).unwrap());
    let first = allowed.next().unwrap();
    (first.to_string(), allowed.next_back().unwrap_or(first).to_string())
}

const SHORT: [&str; 8] = ["--stores", "map", "--keys", "500", "--seconds", "0.4", "--threads", "2"];

#[test]
fn in_process_every_thread_has_the_processors_of_the_driver() {
    let (_, last) = processors();
    let cpus = format!("driver={last}");
    let mut seen = 0;
    watch(&[&SHORT[..], &["--cpus", &cpus]].concat(), |measuring, _| {
        let (first, others) = measuring.processors();
        assert!(first.iter().chain(&others).all(|found| *found == last), "{first:?} {others:?}");
        seen += others.len();
    });
    assert!(seen > 0, "no thread was seen");
}

#[test]
fn over_the_wire_server_and_driver_have_processors_of_their_own() {
    let (first, last) = processors();
    let cpus = format!("server={first}/driver={last}");
    let (mut of_servers, mut of_drivers) = (0, 0);
    watch(&[&SHORT[..], &["--wire", "--cpus", &cpus]].concat(), |measuring, servers| {
        // The first thread starts servers, and has their processors for that moment.
        let (_, others) = measuring.processors();
        assert!(others.iter().all(|found| *found == last), "driver: {others:?}");
        of_drivers += others.len();
        for server in servers {
            let (main, others) = server.processors();
            assert!(main.iter().chain(&others).all(|found| *found == first), "server: {main:?} {others:?}");
            of_servers += main.len();
        }
    });
    assert!(of_drivers > 0 && of_servers > 0, "{of_drivers} threads, {of_servers} servers");
}

/// Policies of the servers of a run, one after the other.
fn policies(fsync: &str) -> Vec<String> {
    let flags = ["--stores", "map", "--wire", "--fsync", fsync, "--keys", "100000", "--seconds", "0.4"];
    let mut seen: Vec<Process> = Vec::new();
    watch(&flags, |_, servers| {
        for server in servers {
            if seen.iter().all(|other| other.pid != server.pid) {
                seen.push(Process { pid: server.pid, arguments: server.arguments.clone() });
            }
        }
    });
    let policy = |server: &Process| {
        let mut words = server.arguments.iter().skip_while(|word| *word != "--fsync");
        words.nth(1).unwrap().clone()
    };
    let mut policies: Vec<_> = seen.iter().map(policy).collect();
    policies.dedup();
    policies
}

/// Else the load of some engines would sync each commit, and that of others only the end.
#[test]
fn a_server_is_loaded_unsynced_and_measured_under_its_policy() {
    assert_eq!(policies("always"), ["no", "always"]);
    assert_eq!(policies("everysec"), ["no", "everysec"]);
    assert_eq!(policies("memory"), ["no"]);
}

/// Kills the process that measures a run, as the kernel does when memory is short, as soon as `find` finds something. The
/// run must then fail. Returns what was found, and what the run says.
fn kill_job<T>(flags: &[&str], find: impl Fn(&Process) -> Option<T>) -> (T, String) {
    let dir = tempfile::tempdir().unwrap();
    let run = Program::start(&mut command(dir.path(), flags));
    let bench = Process { pid: run.process.id(), arguments: Vec::new() };
    let deadline = Instant::now() + PATIENCE;
    let (job, found) = loop {
        let job = bench.children("measure-job").pop();
        if let Some(found) = job.and_then(|job| Some((job.pid, find(&job)?))) {
            break found;
        }
        assert!(Instant::now() < deadline, "nothing was found");
        thread::sleep(Duration::from_millis(10));
    };
    kill(Pid::from_raw(job as i32), Signal::SIGKILL).unwrap();
    let text = stderr(&run.output());
    assert!(text.contains("the measuring process ended early: signal: 9"), "{text}");
    (found, text)
}

#[test]
fn a_killed_job_leaves_no_server() {
    let flags = ["--stores", "map", "--wire", "--fsync", "memory", "--keys", "500", "--seconds", "60"];
    let (server, _) = kill_job(&flags, |job| job.children("serve").pop());
    assert_eq!(Process::of(server.pid).filter(|process| process.is("serve")), None);
}

#[test]
fn a_killed_job_leaves_no_keys_on_the_target() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &["--path", ":memory:"]);
    let address = server.address.to_string();
    let size = || server.connect().call(&["DBSIZE"]);
    kill_job(&["--target", &address, "--keys", "500", "--seconds", "60"], |_| {
        (size() == OwnedFrame::Integer(500)).then_some(())
    });
    assert_eq!(size(), OwnedFrame::Integer(0));
}

#[test]
fn a_killed_soak_says_how_long_it_ran() {
    let samples = |job: &Process| {
        let names = job.threads().into_iter().map(|thread| fs::read_to_string(thread.join("comm")));
        names.flatten().any(|name| name.trim() == "sampler").then_some(())
    };
    let ((), text) = kill_job(&["--stores", "map", "--keys", "500", "--minutes", "10"], samples);
    assert!(text.contains("; it ran for ") && text.contains(", with the load"), "{text}");
}

/// The stacks of 40 threads are larger than the address space; those that were started would wait for the others.
#[test]
fn threads_that_cannot_be_started_fail_the_cell_and_no_run_waits_for_them() {
    let flags = ["--stores", "map,btree", "--fsync", "memory", "--keys", "10", "--threads", "40"];
    for length in [&["--operations", "1000"][..], &["--interleave", "--seconds", "0.3"]] {
        let dir = tempfile::tempdir().unwrap();
        let run = command(dir.path(), &[&flags[..], length].concat());
        let output = Command::new("sh")
            .current_dir(dir.path())
            .env("RUST_MIN_STACK", (256 << 20).to_string())
            .args(["-c", "ulimit -v 4000000 && exec \"$0\" \"$@\""])
            .arg(run.get_program())
            .args(run.get_args())
            .run_to_end();
        let text = stderr(&output);
        assert!(!output.status.success(), "{length:?}: {text}");
        assert!(text.contains("cannot start 40 threads: "), "{length:?}: {text}");
        assert!(text.contains("; lower --threads"), "{length:?}: {text}");
    }
}

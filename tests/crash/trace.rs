//! The system calls of a running server, as `strace` saw them.

use crate::support::{Client, KVBENCH, PATIENCE, Server};
use std::{
    collections::{BTreeSet, HashMap},
    fs,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::{Duration, Instant},
};

const CALLS: &str = "trace=fsync,fdatasync,sync_file_range,openat,close,read,recvfrom,\
                     write,writev,pwrite64,pwritev,pwritev2,sendto";

/// A server under `strace`.
pub struct Traced {
    pub server: Server,
    output: PathBuf,
    /// Where its store's files are.
    store: PathBuf,
    marks: usize,
}

/// One finished system call. Begin and end are positions in strace's output, whose order is that of
/// cause and effect: a thread goes on from a call only after strace has seen it end.
#[derive(Debug)]
pub struct Call {
    pub thread: u32,
    pub name: String,
    /// What is between the parentheses.
    args: String,
    pub result: i64,
    pub begin: usize,
    pub end: usize,
}

/// Everything up to a mark.
pub struct Trace {
    pub calls: Vec<Call>,
    /// Prefix of the paths of the store's files.
    store: String,
    /// Descriptors opened with O_SYNC or O_DSYNC, for each call that used one.
    synced_writes: BTreeSet<usize>,
}

impl Traced {
    /// Starts `kvbench --store store --fsync fsync` under strace, which stays in the background: the
    /// server's process is the one that `Server` knows.
    pub fn start(dir: &Path, store: &str, fsync: &str) -> Self {
        let dir = dir.canonicalize().unwrap();
        let output = dir.join("strace.out");
        let server = Server::start_command(
            strace()
                .args(["-D", "-f", "-ttt", "-y", "-s", "64", "--seccomp-bpf", "-e", CALLS, "-o"])
                .arg(&output)
                .args([KVBENCH, "--store", store, "--path", "data", "--fsync", fsync])
                .current_dir(&dir),
        );
        Self { server, output, store: dir.join("data"), marks: 0 }
    }

    /// All calls that began before this one of ours.
    pub fn trace(&mut self) -> Trace {
        self.marks += 1;
        let mark = format!("mark-{}-of-the-trace", self.marks);
        let mut client = self.server.connect();
        client.call(&["ECHO", &mark]);
        let deadline = Instant::now() + PATIENCE;
        loop {
            let text = String::from_utf8_lossy(&fs::read(&self.output).unwrap()).into_owned();
            if let Some(end) = text.find(&mark) {
                let end = text[..end].rfind('\n').map_or(0, |end| end + 1);
                return Trace::parse(&text[..end], &self.store);
            }
            assert!(Instant::now() < deadline, "strace does not write {mark}");
            thread::sleep(Duration::from_millis(20));
        }
    }

    pub fn connect(&self) -> Client {
        self.server.connect()
    }

    /// The name of one of the server's threads.
    pub fn thread_name(&self, thread: u32) -> String {
        let path = format!("/proc/{}/task/{thread}/comm", self.server.process.id());
        fs::read_to_string(path).unwrap_or_default().trim().into()
    }
}

/// `strace`, or a failure that says where to get it.
pub fn strace() -> Command {
    let version = Command::new("strace").arg("--version").output();
    assert!(version.is_ok(), "this test needs strace: run `make setup`, or install the package strace");
    Command::new("strace")
}

impl Trace {
    fn parse(text: &str, store: &Path) -> Self {
        let mut calls = Vec::new();
        let mut unfinished: HashMap<u32, (usize, String)> = HashMap::new();
        for (at, line) in text.lines().enumerate() {
            let Some((thread, rest)) = split_line(line) else { continue };
            if let Some(head) = rest.strip_suffix("<unfinished ...>") {
                unfinished.insert(thread, (at, head.trim_end().into()));
            } else if rest.starts_with("<... ") {
                let (Some((begin, head)), Some((_, tail))) =
                    (unfinished.remove(&thread), rest.split_once(" resumed>"))
                else {
                    continue;
                };
                calls.extend(Call::parse(thread, &format!("{head}{tail}"), begin, at));
            } else {
                calls.extend(Call::parse(thread, rest, at, at));
            }
        }
        calls.sort_by_key(|call| call.end);
        let synced_writes = synced_writes(&calls);
        Self { calls, store: store.display().to_string(), synced_writes }
    }

    /// The calls after which what was written to the store's files is on stable storage.
    pub fn syncs(&self) -> impl Iterator<Item = &Call> {
        self.calls.iter().filter(|call| self.is_sync(call))
    }

    /// Writes to the store's files.
    pub fn writes(&self) -> impl Iterator<Item = &Call> {
        self.calls.iter().filter(|call| call.is_write() && call.is_on(&self.store) && call.result > 0)
    }

    fn is_sync(&self, call: &Call) -> bool {
        // sync_file_range is none: it writes neither metadata nor the device's cache. Neither is
        // msync here, since no store writes through its map.
        call.is_on(&self.store)
            && call.result >= 0
            && (["fsync", "fdatasync"].contains(&call.name.as_str())
                || self.synced_writes.contains(&call.begin))
    }

    /// From the end of the call that received `request` to the beginning of the one that answered.
    pub fn handling(&self, request: &str) -> (usize, usize) {
        let received = self
            .calls
            .iter()
            .find(|call| call.name == "recvfrom" && call.args.contains(request))
            .unwrap_or_else(|| panic!("{request} was not received"));
        let answered = self
            .calls
            .iter()
            .filter(|call| call.name == "sendto" && call.path() == received.path())
            .find(|call| call.begin > received.end)
            .unwrap_or_else(|| panic!("{request} was not answered"));
        (received.end, answered.begin)
    }
}

impl Call {
    fn parse(thread: u32, text: &str, begin: usize, end: usize) -> Option<Self> {
        let (call, result) = text.rsplit_once(" = ")?;
        let (name, args) = call.trim_end().strip_suffix(')')?.split_once('(')?;
        let digits = result.split(|c: char| c != '-' && !c.is_ascii_digit()).next()?;
        let result = digits.parse().ok()?;
        Some(Self { thread, name: name.into(), args: args.into(), result, begin, end })
    }

    /// The descriptor that is the first argument.
    fn descriptor(&self) -> Option<u32> {
        self.args.split_once('<')?.0.parse().ok()
    }

    /// What it is open on.
    fn path(&self) -> Option<&str> {
        Some(self.args.split_once('<')?.1.split_once('>')?.0)
    }

    fn is_on(&self, prefix: &str) -> bool {
        self.descriptor().is_some() && self.path().is_some_and(|path| path.starts_with(prefix))
    }

    fn is_write(&self) -> bool {
        ["write", "writev", "pwrite64", "pwritev", "pwritev2"].contains(&self.name.as_str())
    }
}

/// Where the writes begin that are on stable storage when they end.
fn synced_writes(calls: &[Call]) -> BTreeSet<usize> {
    let (mut descriptors, mut writes) = (BTreeSet::new(), BTreeSet::new());
    for call in calls {
        let descriptor = call.descriptor().unwrap_or(u32::MAX);
        match call.name.as_str() {
            "openat" if call.args.contains("O_DSYNC") || call.args.contains("O_SYNC") => {
                descriptors.insert(u32::try_from(call.result).unwrap_or(u32::MAX));
            }
            "close" => drop(descriptors.remove(&descriptor)),
            _ if call.is_write() && descriptors.contains(&descriptor) => drop(writes.insert(call.begin)),
            _ => {}
        }
    }
    writes
}

/// `1234 1700000000.123456 name(...) = 0` to the thread and the call.
fn split_line(line: &str) -> Option<(u32, &str)> {
    let (thread, rest) = line.split_once(' ')?;
    let (_, call) = rest.trim_start().split_once(' ')?;
    Some((thread.parse().ok()?, call))
}

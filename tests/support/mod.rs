//! What every test of the running program needs: a server process, and a client that speaks bytes.
#![allow(dead_code, reason = "each test binary uses its part")]

#[cfg(feature = "bench")]
pub mod bench;
pub mod disk;

use kvbench::engine::{Info, KINDS, Kind};
use redis_protocol::resp2::{decode::decode, types::OwnedFrame};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::{
    fmt::Debug,
    fs,
    io::{self, BufRead, BufReader, Read, Seek, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, ExitStatus, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

/// The program under test.
pub const KVBENCH: &str = env!("CARGO_BIN_EXE_kvbench");

/// How long anything in a test may take before it counts as hung; no test measures time.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Maximum running time of a program that a test runs to its end, on a busy machine too.
pub const FOREVER: Duration = Duration::from_secs(600);

/// Waits until `holds` returns `true`, and fails with `what` if it does not for [`PATIENCE`].
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "{what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Calls `start` with a port that was free, and returns what it started and the port. Another test may take the port
/// before `start` does: after an error, another port is tried, at most ten in all.
pub fn on_free_port<T, E: Debug>(mut start: impl FnMut(u16) -> Result<T, E>) -> (T, u16) {
    let mut tries = 0;
    loop {
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).unwrap();
        match start(free.port()) {
            Ok(started) => return (started, free.port()),
            Err(error) => assert!(tries < 9, "no start on any of ten ports: {error:?}"),
        }
        tries += 1;
    }
}

/// Programs that a test runs to their end.
pub trait RunToEnd {
    /// Runs the program, and returns what it wrote. Fails if it does not end.
    fn run_to_end(&mut self) -> Output;
}

impl RunToEnd for Command {
    fn run_to_end(&mut self) -> Output {
        Program::start(self).output()
    }
}

/// A program that is running; killed when dropped.
pub struct Program {
    pub process: Child,
    /// Its command line, for the message of a failure.
    line: String,
    stdout: fs::File,
    stderr: fs::File,
}

impl Program {
    pub fn start(command: &mut Command) -> Self {
        // Files: a pipe has its end only when the last process that inherited it has ended.
        let [stdout, stderr] = [(); 2].map(|()| tempfile::tempfile().unwrap());
        command.stdin(Stdio::null()).stdout(stdout.try_clone().unwrap()).stderr(stderr.try_clone().unwrap());
        let process = command.spawn().unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
        Self { process, line: format!("{command:?}"), stdout, stderr }
    }

    /// Waits for the end, and returns what it wrote. Fails if it does not end.
    pub fn output(mut self) -> Output {
        let read = |file: &mut fs::File| {
            let mut bytes = Vec::new();
            file.rewind().and_then(|()| file.read_to_end(&mut bytes)).unwrap();
            bytes
        };
        let Some(status) = wait_at_most(&mut self.process, FOREVER) else {
            let [stdout, stderr] = [&mut self.stdout, &mut self.stderr].map(read);
            let [stdout, stderr] = [stdout, stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
            panic!("{} does not end. It wrote:\n{stdout}{stderr}", self.line);
        };
        Output { status, stdout: read(&mut self.stdout), stderr: read(&mut self.stderr) }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Waits until a process has ended. If it has not after `patience`, prints for what it, its children and all other
/// programs of this machine wait, kills it and returns `None`.
pub fn wait_at_most(process: &mut Child, patience: Duration) -> Option<ExitStatus> {
    let deadline = Instant::now() + patience;
    loop {
        if let Some(status) = process.try_wait().unwrap() {
            return Some(status);
        }
        if Instant::now() > deadline {
            let columns = "pid,ppid,lwp,stat,comm,wchan:24,args";
            // Without the threads of the kernel, whose parent is process 2.
            let shown = Command::new("ps").args(["-Lo", columns, "--ppid", "2", "-p", "2", "-N"]).output();
            eprintln!("{}", String::from_utf8_lossy(&shown.map(|shown| shown.stdout).unwrap_or_default()));
            process.kill().unwrap();
            process.wait().unwrap();
            return None;
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// Returns the first line that a server writes to its standard output, or an empty string if it ends without one. Fails
/// if it does neither.
pub fn start_line(process: &mut Child) -> String {
    let stdout = process.stdout.take().unwrap();
    let patience = Timespec::try_from(FOREVER).unwrap();
    if poll(&mut [PollFd::new(&stdout, PollFlags::IN)], Some(&patience)).unwrap() == 0 {
        process.kill().unwrap();
        panic!("the server neither starts nor ends");
    }
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line).unwrap();
    line
}

/// A server process; killed when dropped.
pub struct Server {
    pub process: Child,
    pub address: SocketAddr,
    /// The line it printed when it was ready.
    pub start_line: String,
}

impl Server {
    /// Starts `kvbench` with `args` and `--port 0` in `dir`, and waits until it serves.
    pub fn start(dir: &Path, args: &[&str]) -> Self {
        Self::start_command(Command::new(KVBENCH).current_dir(dir).args(args))
    }

    /// Starts a prepared command line, such as `strace ... kvbench ...`, with `--port 0` appended.
    pub fn start_command(command: &mut Command) -> Self {
        match Self::try_start_command(command) {
            Ok(server) => server,
            Err(status) => panic!("{command:?} did not start: {status}"),
        }
    }

    /// The same, or how it ended before it served.
    pub fn try_start_command(command: &mut Command) -> Result<Self, ExitStatus> {
        let mut process = command
            .args(["--port", "0", "--log-level", "warn"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
        let start_line = start_line(&mut process);
        match start_line.split_whitespace().find_map(|word| word.strip_prefix("address=")) {
            Some(address) => Ok(Self { process, address: address.parse().unwrap(), start_line }),
            None => Err(process.wait().unwrap()),
        }
    }

    /// A new connection.
    pub fn connect(&self) -> Client {
        Client::connect(self.address)
    }

    /// Sends SIGKILL and waits for the end.
    pub fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Sends SIGTERM and returns how the process ended.
    pub fn terminate(mut self) -> ExitStatus {
        let pid = rustix::process::Pid::from_child(&self.process);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        self.wait()
    }

    /// Waits for an end that something else has caused.
    pub fn wait(&mut self) -> ExitStatus {
        wait_at_most(&mut self.process, PATIENCE).expect("the server ends")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A blocking client. Reads time out after [`PATIENCE`].
pub struct Client {
    pub stream: TcpStream,
    /// Received, not yet taken.
    pub buffer: Vec<u8>,
}

impl Client {
    pub fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { stream, buffer: Vec::new() }
    }

    /// Sends bytes as they are.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).unwrap();
    }

    /// Sends one request and returns its RESP2 reply.
    pub fn call<A: AsRef<[u8]>>(&mut self, args: &[A]) -> OwnedFrame {
        self.send(request(args));
        self.reply()
    }

    /// The next RESP2 reply.
    pub fn reply(&mut self) -> OwnedFrame {
        self.try_reply().expect("a reply")
    }

    /// The next RESP2 reply, or why there is none (the server is gone, for one).
    pub fn try_reply(&mut self) -> io::Result<OwnedFrame> {
        loop {
            if let Some((frame, len)) = decode(&self.buffer).unwrap() {
                self.buffer.drain(..len);
                return Ok(frame);
            }
            self.receive()?;
        }
    }

    /// Reads until `bytes` have come, and fails when others come.
    pub fn expect(&mut self, bytes: impl AsRef<[u8]>) {
        let expected = bytes.as_ref();
        while self.buffer.len() < expected.len() && self.receive().is_ok() {}
        let got = &self.buffer[..expected.len().min(self.buffer.len())];
        assert!(got == expected, "{} came, not {}", got.escape_ascii(), expected.escape_ascii());
        self.buffer.drain(..expected.len());
    }

    /// Fails unless the server has closed the connection, after `expect`ed bytes.
    pub fn expect_closed(&mut self) {
        let rest = self.buffer.escape_ascii().to_string();
        assert_eq!(rest, "", "unexpected bytes");
        match self.receive() {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => {}
            other => panic!("not closed: {other:?} {}", self.buffer.escape_ascii()),
        }
    }

    /// Reads once into `buffer`.
    pub fn receive(&mut self) -> io::Result<()> {
        let mut piece = [0; 64 << 10];
        let len = loop {
            match self.stream.read(&mut piece) {
                // A timeout, which this stream has, keeps the kernel from going on by itself.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                outcome => break outcome?,
            }
        };
        if len == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.buffer.extend_from_slice(&piece[..len]);
        Ok(())
    }
}

/// A request in RESP.
pub fn request<A: AsRef<[u8]>>(args: &[A]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args {
        let arg = arg.as_ref();
        bytes.extend(format!("${}\r\n", arg.len()).bytes());
        bytes.extend_from_slice(arg);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// The stores of the program under test.
pub fn stores() -> impl Iterator<Item = &'static str> {
    KINDS.iter().map(|kind| kind.info.name)
}

/// Returns what an engine says of itself.
pub fn info(store: &str) -> &'static Info {
    Kind::find(store).unwrap().info
}

/// Returns the stores of this build of which `is_so` is true.
pub fn stores_that(is_so: impl Fn(&Info) -> bool) -> impl Iterator<Item = &'static str> {
    stores().filter(move |store| is_so(info(store)))
}

//! What those need who run a server: its log, its readiness, a look at it, completions and a manual.

use crate::{
    program::{field, misuse, run, serve_exactly},
    support::{Server, stores},
};
use kvbench::engine::{Fsync, Kind, LossClass};
use std::{
    fs::{self, File},
    io::Read,
    os::unix::net::UnixDatagram,
    path::Path,
    process::{Command, Stdio},
};

#[test]
fn the_log_may_be_json() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    let mut command = Command::new(crate::support::KVBENCH);
    let words = ["--path", ":memory:", "--bind", "0.0.0.0", "--log-format", "json"];
    command.args(words).current_dir(dir.path()).stderr(File::create(&log).unwrap());
    let server = Server::start_command(&mut command);
    drop(server);
    let mut text = String::new();
    File::open(&log).unwrap().read_to_string(&mut text).unwrap();
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"))).collect();
    let warning = lines.iter().find(|line| line["level"] == "WARN").expect("protected mode warns");
    assert!(warning["message"].as_str().unwrap().contains("--protected-mode"), "{warning}");
    assert!(warning["time"].as_str().unwrap().ends_with('Z'), "{warning}");
}

#[test]
fn the_service_manager_is_told_when_the_server_is_ready() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    let mut command = Command::new(crate::support::KVBENCH);
    command.args(["--path", ":memory:"]).current_dir(dir.path()).env("NOTIFY_SOCKET", &path);
    let _server = Server::start_command(command.stderr(Stdio::null()));
    let mut told = [0; 100];
    let len = socket.recv(&mut told).unwrap();
    assert_eq!(&told[..len], b"READY=1\n");
}

#[test]
fn top_shows_a_server_at_work() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("password"), "secret\n").unwrap();
    let server = Server::start(dir.path(), &["--path", "data", "--requirepass", "secret"]);
    let mut client = server.connect();
    client.call(&["AUTH", "secret"]);
    client.call(&["SET", "k", "v"]);
    let address = server.address.to_string();
    let ended = run(dir.path(), &["top", &address, "-n", "1", "--password-file", "password"]);
    assert!(ended.status.success(), "{}", ended.stderr);
    for part in [&*address, "map, fsync always", "clients 2", "keys 1", "commits/s", "set ", "calls/s"] {
        assert!(ended.stdout.contains(part), "no {part:?} in {}", ended.stdout);
    }
    let port = server.address.port().to_string();
    for args in [&["-p", &port, "-i", "0.1"][..], &[&port, "--interval", "100ms"]] {
        let ended = run(dir.path(), &[&["top", "-n", "2", "--password-file", "password"], args].concat());
        assert!(ended.status.success() && ended.stdout.contains(&address), "{args:?}: {}", ended.stderr);
    }
    let refused = run(dir.path(), &["top", &address, "-n", "1"]);
    assert!(refused.stderr.contains("--password-file"), "{}", refused.stderr);
    drop(server);
    let gone = run(dir.path(), &["top", &address, "-n", "1"]);
    assert!(!gone.status.success() && gone.stderr.contains(&address), "{}", gone.stderr);
}

/// Everything that is printed goes the same way.
#[test]
#[cfg(target_os = "linux")]
fn output_that_cannot_be_written_is_an_error_unless_its_reader_has_gone() {
    use crate::support::KVBENCH;
    let dir = tempfile::tempdir().unwrap();
    let bench = "bench --stores btree --fsync memory --mix get=1 --keys 100 --seconds 0.1 --warm-up 0 --threads 1 \
                 --repetitions 1 --quiet-wait 0 --foreign 100 --force --output result.json";
    for arguments in ["stores", bench] {
        let run_with_stdout = |stdout: Stdio| {
            let mut command = Command::new(KVBENCH);
            command.current_dir(dir.path()).args(arguments.split_whitespace()).stdin(Stdio::null());
            let output = command.stdout(stdout).output().unwrap();
            (output.status.code(), String::from_utf8(output.stderr).unwrap())
        };
        let full = File::options().write(true).open("/dev/full").unwrap();
        let (code, said) = run_with_stdout(full.into());
        assert_eq!(code, Some(1), "{arguments}: {said}");
        let told = "kvbench: cannot write to standard output: No space left on device";
        assert!(said.contains(told), "{arguments}: {said}");
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let (code, said) = run_with_stdout(writer.into());
        assert_eq!(code, Some(0), "{arguments}: {said}");
        assert!(!said.contains("standard output"), "{arguments}: {said}");
    }
}

#[test]
fn top_takes_a_host_with_its_port_or_a_port() {
    for address in ["localhost", "99999", "localhost:99999", ":6380", ""] {
        let said = misuse(&["top", address, "-n", "1"]);
        assert!(said.contains("it must be HOST:PORT, or a port of this machine"), "{address:?}: {said}");
    }
}

/// INFO says that such a store has no file, so its fsync policy means nothing.
#[test]
fn top_shows_no_fsync_policy_of_a_store_without_files() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &["--path", ":memory:", "--fsync", "always"]);
    let ended = run(dir.path(), &["top", &server.address.to_string(), "-n", "1"]);
    let head = ended.stdout.lines().next().unwrap_or_default();
    assert!(head.contains(", map, in memory ") && !head.contains("fsync"), "{}", ended.stdout);
}

#[test]
fn completions_and_the_manual_know_every_flag() {
    let dir = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish"] {
        let script = run(dir.path(), &["completions", shell]).stdout;
        for word in ["tcp-keepalive", "client-output-buffer-limit", "torture", "top"] {
            assert!(script.contains(word), "{shell}: no {word}");
        }
    }
    let page = run(dir.path(), &["man"]).stdout.replace("\\-", "-");
    for word in [".TH kvbench", "--client-output-buffer-limit", "KVBENCH BENCH", "--fail-above"] {
        assert!(page.contains(word), "no {word}");
    }
    let page = run(dir.path(), &["completions", "nosuch"]);
    assert!(!page.status.success() && page.stderr.contains("nosuch"));
}

/// Starts a server with `args` and ends it; returns its start line and its log.
fn start_line_and_log(dir: &Path, args: &[&str]) -> (String, String) {
    let (server, log) = serve_exactly(dir, &[args, &["--port", "0"]].concat());
    server.connect().call(&["SET", "key", "value"]);
    let line = server.start_line.clone();
    assert!(server.terminate().success());
    (line, fs::read_to_string(log).unwrap())
}

#[test]
fn log_says_when_the_store_is_opened_ready_synced_and_closed() {
    for store in stores() {
        let dir = tempfile::tempdir().unwrap();
        let args = ["--store", store, "--path", "data"];
        let is_counted = Kind::find(store).unwrap().info.capabilities.constant_count;
        for keys in 0..2 {
            let (line, log) = start_line_and_log(dir.path(), &args);
            let counted = if is_counted { format!("s: {keys} keys") } else { "s: keys not counted".into() };
            let ready = format!("] ready at {}\n", field(&line, "address").unwrap());
            let opened = format!("] opened data as {store} in ");
            let parts = [&*opened, &counted, &ready, "] synced and closed data in "];
            let places: Vec<_> = parts.iter().map(|part| log.find(part)).collect();
            assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{parts:?}: {log}");
            let (_, seconds) = log.split_once(&opened).unwrap();
            let (seconds, _) = seconds.split_once(&counted).unwrap();
            assert!(seconds.strip_suffix(' ').is_some_and(|number| number.parse::<f64>().is_ok()), "{log}");
        }
    }
}

#[test]
fn log_and_start_line_may_be_json() {
    let dir = tempfile::tempdir().unwrap();
    let (line, log) = start_line_and_log(dir.path(), &["--path", "data", "--log-format", "json"]);
    let parse = |line: &str| {
        let object: serde_json::Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"));
        assert!(object["time"].as_str().unwrap().ends_with('Z') && object["level"] == "INFO", "{object}");
        object["message"].as_str().unwrap().to_owned()
    };
    let line = parse(&line);
    assert!(line.starts_with("kvbench ") && line.contains(" store=map path=data fsync=always "), "{line}");
    let messages: Vec<_> = log.lines().map(parse).collect();
    for start in ["opened data as map in ", "ready at ", "synced and closed data in "] {
        assert!(messages.iter().any(|message| message.starts_with(start)), "no {start:?}: {messages:?}");
    }
}

#[test]
fn start_warns_of_a_store_and_policy_that_may_lose_the_whole_database() {
    for store in stores() {
        for fsync in Fsync::ALL {
            let dir = tempfile::tempdir().unwrap();
            let args = ["--store", store, "--path", "data", "--fsync", fsync.as_str()];
            let (_, log) = start_line_and_log(dir.path(), &args);
            let loss = Kind::find(store).unwrap().info.loss(fsync);
            let faults = [loss.kill, loss.power_cut];
            let total: Vec<_> = faults.iter().filter(|bound| bound.extent == LossClass::Everything).collect();
            let start = format!("--store {store} --fsync {fsync} may lose the whole database: ");
            let warnings: Vec<_> = log.lines().filter(|line| line.contains(&start)).collect();
            assert_eq!(warnings.len(), usize::from(!total.is_empty()), "{log}");
            for warning in warnings {
                assert!(warning.contains("WARN"), "{warning}");
                assert!(total.iter().all(|bound| warning.contains(bound.words)), "{warning}");
            }
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let (_, log) = start_line_and_log(dir.path(), &["--path", ":memory:"]);
    assert!(!log.contains("WARN"), "a store in memory is expected to lose everything: {log}");
}

/// A terminal of 60 columns, and what the program wrote to it until the key was pressed or the signal was sent.
#[test]
fn top_fits_into_the_terminal_and_leaves_it_as_it_was() {
    use rustix::{
        event::{PollFd, PollFlags, Timespec, poll},
        process::{Pid, Signal, kill_process},
        pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
        termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize},
    };
    use std::{
        io::Write,
        thread,
        time::{Duration, Instant},
    };
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &["--path", ":memory:"]);
    server.connect().call(&["SET", "k", "v"]);
    for (key, code) in [("q", 0), ("\x03", 0), ("", 143)] {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
        let terminal = File::options().read(true).write(true).open(name).unwrap();
        tcsetwinsize(&terminal, Winsize { ws_row: 40, ws_col: 60, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
        let before = tcgetattr(&terminal).unwrap().local_modes;
        assert!(before.contains(LocalModes::ECHO | LocalModes::ICANON));
        let mut command = Command::new(crate::support::KVBENCH);
        command.args(["top", &server.address.to_string(), "-i", "0.1"]);
        command.stdin(terminal.try_clone().unwrap()).stdout(terminal.try_clone().unwrap());
        let mut top = command.spawn().unwrap();
        let mut screen = File::from(master);
        let mut text = String::new();
        let patience = Timespec::try_from(crate::support::PATIENCE).unwrap();
        while text.matches("since the start").count() < 2 {
            let ready = poll(&mut [PollFd::new(&screen, PollFlags::IN)], Some(&patience)).unwrap();
            assert_eq!(ready, 1, "it draws nothing (is `top` in this build?): {text}");
            let mut piece = [0; 4096];
            let len = screen.read(&mut piece).unwrap();
            text.push_str(&String::from_utf8_lossy(&piece[..len]));
        }
        assert!(text.lines().all(|line| line.trim_start_matches("\x1b[2J\x1b[H").len() <= 60), "{text}");
        match key {
            "" => kill_process(Pid::from_child(&top), Signal::TERM).unwrap(),
            key => screen.write_all(key.as_bytes()).unwrap(),
        }
        let deadline = Instant::now() + crate::support::PATIENCE;
        let status = loop {
            match top.try_wait().unwrap() {
                Some(status) => break status,
                None => assert!(Instant::now() < deadline, "it does not end"),
            }
            thread::sleep(Duration::from_millis(5));
        };
        assert_eq!(status.code(), Some(code));
        assert_eq!(tcgetattr(&terminal).unwrap().local_modes, before, "the terminal is as it was");
    }
}

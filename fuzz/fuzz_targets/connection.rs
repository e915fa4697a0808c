//! Whole connections: a pipeline of commands, cut into any pieces, gets the replies that a model gives, byte for
//! byte, from a store in memory and from one with a log; whatever follows it is answered in RESP.
#![no_main]

mod model;

use clap::Parser;
use kvbench::{cli::Cli, server, store::Store};
use libfuzzer_sys::fuzz_target;
use model::{Model, Program};
use redis_protocol::{resp2, resp3};
use std::{
    io::{Read, Write},
    net::Shutdown,
    os::unix::net::UnixStream,
    path::PathBuf,
    sync::{LazyLock, mpsc::channel},
    thread,
};

/// A server of this process, on a socket.
struct Server {
    socket: PathBuf,
    _directory: tempfile::TempDir,
}

static IN_MEMORY: LazyLock<Server> = LazyLock::new(|| Server::start(|_| ":memory:".into()));
static WITH_LOG: LazyLock<Server> = LazyLock::new(|| Server::start(|directory| directory.join("log")));

impl Server {
    fn start(place: impl FnOnce(&std::path::Path) -> PathBuf) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let (socket, path) = (directory.path().join("socket"), place(directory.path()));
        let words = ["kvbench", "--store", "btree", "--fsync", "no", "--port", "off", "--threads", "2"];
        let mut words: Vec<String> = words.map(String::from).into();
        // An end that a client asks for is not what is looked at here.
        words.extend(["--disable-command", "shutdown", "--unixsocket"].map(String::from));
        words.extend([socket.display().to_string(), "--path".into(), path.display().to_string()]);
        let (ready, started) = channel();
        thread::spawn(move || {
            let config = Cli::try_parse_from(words).expect("options").serve.config();
            let access = server::Access::load(&config).expect("no access rules");
            let store = Store::new(config.open(1000).expect("opens"), config.fsync);
            server::serve(store, &config, access, 1000, |_| ready.send(()).expect("waits")).expect("serves");
        });
        started.recv().expect("starts");
        Self { socket, _directory: directory }
    }

    /// What is answered to these pieces, one write each, and an end.
    fn ask<'p>(&self, pieces: impl Iterator<Item = &'p [u8]>) -> Vec<u8> {
        let mut stream = UnixStream::connect(&self.socket).expect("the server is there");
        for piece in pieces {
            // Whoever sends garbage may be cut off before its end.
            if stream.write_all(piece).is_err() {
                break;
            }
        }
        let _ = stream.shutdown(Shutdown::Write);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        answer
    }
}

/// Whether a reply ends where the bytes do, in either protocol: HELLO may have changed it. An error quotes what was
/// sent, which need not be UTF-8 as that library wants it.
fn is_resp(bytes: &[u8]) -> bool {
    let two = |bytes: &[u8]| Some(resp2::decode::decode(bytes).ok()??.1);
    let three = |bytes: &[u8]| Some(resp3::decode::complete::decode(bytes).ok()??.1);
    let error = |bytes: &[u8]| {
        bytes.starts_with(b"-").then(|| bytes.iter().position(|byte| *byte == b'\n'))?.map(|end| end + 1)
    };
    let mut rest = bytes;
    while let Some(length) = error(rest).or_else(|| two(rest)).or_else(|| three(rest)) {
        rest = &rest[length..];
    }
    rest.is_empty()
}

fuzz_target!(|data: &[u8]| {
    let [flags, piece, program @ ..] = data else { return };
    let server = if flags & 1 == 0 { &*IN_MEMORY } else { &*WITH_LOG };
    let (mut model, mut program) = (Model::default(), Program(program));
    let (mut sent, mut expected) = (b"FLUSHALL\r\n".to_vec(), b"+OK\r\n".to_vec());
    while let Some(request) = program.request() {
        model::encode(&request, flags & 2 != 0, &mut sent);
        model.answer(&request, &mut expected);
    }
    sent.extend_from_slice(program.0);
    let size = if flags & 4 == 0 { sent.len() } else { usize::from(*piece) + 1 };
    let answer = server.ask(sent.chunks(size));
    let Some(rest) = answer.strip_prefix(&*expected) else {
        panic!(
            "{:?}\nanswered\n{}\nnot\n{}",
            sent.escape_ascii(),
            answer.escape_ascii(),
            expected.escape_ascii()
        );
    };
    if program.0.is_empty() {
        assert!(rest.is_empty(), "more is answered than was asked: {}", rest.escape_ascii());
    } else {
        assert!(is_resp(rest), "{} is answered to {}", rest.escape_ascii(), program.0.escape_ascii());
    }
});

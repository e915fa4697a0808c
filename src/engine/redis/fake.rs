//! A node of a cluster that answers as a test says.

use super::{cluster::Cluster, keys::Keys};
use std::{
    collections::VecDeque,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

/// How a request is answered.
pub(super) enum Answer {
    /// By this line.
    Line(String),
    /// Not at all: the connection is closed.
    Close,
}

#[derive(Clone)]
pub(super) struct Fake {
    pub address: String,
    /// Requests but those for the slots and scripts, each as words.
    seen: Arc<Mutex<Vec<String>>>,
    /// Answers to the next of them; to others it is `+OK`.
    answers: Arc<Mutex<VecDeque<Answer>>>,
}

impl Fake {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let fake = Self { address, seen: Arc::default(), answers: Arc::default() };
        let node = fake.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let node = node.clone();
                thread::spawn(move || node.serve(stream.unwrap()));
            }
        });
        fake
    }

    /// A cluster in which this node has all slots.
    pub fn cluster(&self, prefix: &[u8]) -> Cluster {
        Cluster::open(&[self.address.clone()], Keys::new(prefix).unwrap()).unwrap()
    }

    pub fn answer(&self, answers: impl IntoIterator<Item = Answer>) {
        self.answers.lock().unwrap().extend(answers);
    }

    pub fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }

    fn serve(&self, stream: TcpStream) -> Option<()> {
        let mut output = stream.try_clone().unwrap();
        let mut input = BufReader::new(stream);
        loop {
            let words = request(&mut input)?;
            let (host, port) = self.address.split_once(':')?;
            let answer = match words.split(' ').next()? {
                "CLUSTER" => {
                    format!(
                        "*1\r\n*3\r\n:0\r\n:16383\r\n*3\r\n${}\r\n{host}\r\n:{port}\r\n$1\r\nx\r\n",
                        host.len()
                    )
                }
                "SCRIPT" => "+script\r\n".into(),
                _ => {
                    self.seen.lock().unwrap().push(words);
                    match self.answers.lock().unwrap().pop_front() {
                        Some(Answer::Line(line)) => format!("{line}\r\n"),
                        Some(Answer::Close) => return None,
                        None => "+OK\r\n".into(),
                    }
                }
            };
            output.write_all(answer.as_bytes()).ok()?;
        }
    }
}

/// The words of the next request, `None` at the end.
fn request(input: &mut BufReader<TcpStream>) -> Option<String> {
    let mut line = String::new();
    let mut number = |input: &mut BufReader<TcpStream>| -> Option<usize> {
        line.clear();
        input.read_line(&mut line).ok()?;
        line.trim_end().get(1..)?.parse().ok()
    };
    let count = number(input)?;
    let mut words = Vec::new();
    for _ in 0..count {
        let mut word = vec![0; number(input)? + 2];
        input.read_exact(&mut word).ok()?;
        words.push(String::from_utf8(word).ok()?.trim_end().to_owned());
    }
    Some(words.join(" "))
}

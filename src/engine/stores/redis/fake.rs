//! Fake node of a Redis Cluster, which replies as a test says.

use super::{key_encoding::Keys, login::Login, routing::Cluster};
use std::{
    collections::VecDeque,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

/// Reply of the fake node to one request.
pub(super) enum Reply {
    /// Reply of the fake node: this text, followed by a line end.
    Line(String),
    /// No reply: the node closes the connection.
    Close,
}

impl Reply {
    /// Returns the reply with the text `line`.
    pub fn line(line: &str) -> Self {
        Self::Line(line.into())
    }
}

/// Fake node of a Redis Cluster that has all hash slots, on a port of this machine.
#[derive(Clone, Default)]
pub(super) struct FakeNode {
    pub address: String,
    /// Received requests other than AUTH, CLUSTER and SCRIPT, as text.
    seen: Arc<Mutex<Vec<String>>>,
    /// Replies to the next requests other than AUTH, CLUSTER and SCRIPT; when none is left, the reply is `+OK`.
    answers: Arc<Mutex<VecDeque<Reply>>>,
    /// AUTH request without which a connection gets errors only; `None` if none is needed.
    password: Option<&'static str>,
    #[cfg(feature = "tls")]
    tls: Option<Arc<tokio_rustls::rustls::ServerConfig>>,
}

impl FakeNode {
    pub fn start() -> Self {
        Self::default().run()
    }

    pub fn with_password(request: &'static str) -> Self {
        Self { password: Some(request), ..Self::default() }.run()
    }

    #[cfg(feature = "tls")]
    pub fn with_tls(certificate: &str, key: &str) -> Self {
        use tokio_rustls::rustls::{
            ServerConfig,
            pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
        };
        let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
        let config = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key).unwrap();
        Self { tls: Some(Arc::new(config)), ..Self::default() }.run()
    }

    fn run(self) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let fake = Self { address, ..self };
        let node = fake.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let node = node.clone();
                thread::spawn(move || node.accept(stream.unwrap()));
            }
        });
        fake
    }

    fn accept(&self, stream: TcpStream) -> Option<()> {
        #[cfg(feature = "tls")]
        if let Some(config) = &self.tls {
            use tokio_rustls::rustls::{ServerConnection, StreamOwned};
            let connection = ServerConnection::new(config.clone()).unwrap();
            return self.serve(StreamOwned::new(connection, stream));
        }
        self.serve(stream)
    }

    /// Opens a cluster that consists of this node only, for keys with `prefix`.
    pub fn cluster(&self, prefix: &[u8]) -> Cluster {
        Cluster::open(std::slice::from_ref(&self.address), Keys::new(prefix).unwrap(), Login::default())
            .unwrap()
    }

    /// Adds `answers` to the replies to the next requests other than AUTH, CLUSTER and SCRIPT.
    pub fn answer(&self, answers: impl IntoIterator<Item = Reply>) {
        self.answers.lock().unwrap().extend(answers);
    }

    /// Returns the received requests other than AUTH, CLUSTER and SCRIPT, as text.
    pub fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }

    fn serve(&self, stream: impl Read + Write) -> Option<()> {
        let mut stream = BufReader::new(stream);
        let mut is_in = self.password.is_none();
        loop {
            let words = request(&mut stream)?;
            if words.starts_with("AUTH ") {
                is_in |= self.password == Some(words.as_str());
            }
            if !is_in || words.starts_with("AUTH ") {
                let answer = match (is_in, words.starts_with("AUTH ")) {
                    (true, _) => "+OK\r\n",
                    (false, true) => "-WRONGPASS invalid username-password pair or user is disabled.\r\n",
                    (false, false) => "-NOAUTH Authentication required.\r\n",
                };
                stream.get_mut().write_all(answer.as_bytes()).ok()?;
                continue;
            }
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
                        Some(Reply::Line(line)) => format!("{line}\r\n"),
                        Some(Reply::Close) => return None,
                        None => "+OK\r\n".into(),
                    }
                }
            };
            stream.get_mut().write_all(answer.as_bytes()).ok()?;
            stream.get_mut().flush().ok()?;
        }
    }
}

/// Reads the next request, and returns its arguments as text. Returns `None` at the end of the stream.
fn request(input: &mut BufReader<impl Read>) -> Option<String> {
    let mut line = String::new();
    let mut number = |input: &mut BufReader<_>| -> Option<usize> {
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

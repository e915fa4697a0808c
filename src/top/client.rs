//! Asking a server for INFO.

use super::options::{Error, Options};
use std::{
    fs,
    io::{self, BufRead, BufReader, Read, Write},
    net::TcpStream,
    time::Duration,
};

/// How long a server may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// A connection to the server.
pub(super) struct Client {
    server: String,
    stream: BufReader<TcpStream>,
}

impl Client {
    pub fn connect(options: &Options) -> Result<Self, Error> {
        let server = options.server.clone();
        let failed = |source| Error::Io { server: server.clone(), source };
        let stream = TcpStream::connect(&*server).map_err(failed)?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
        let mut client = Self { server, stream: BufReader::new(stream) };
        if let Some(path) = &options.password_file {
            let failed = |source| Error::Password { path: path.clone(), source };
            let password = fs::read_to_string(path).map_err(failed)?;
            let password = password.trim_end_matches(['\r', '\n']);
            client.ask(&["AUTH", password])?;
        }
        Ok(client)
    }

    /// Every section of INFO.
    pub fn info(&mut self) -> Result<String, Error> {
        self.ask(&["INFO", "everything"])
    }

    /// The text of a reply, which must not be an error.
    fn ask(&mut self, words: &[&str]) -> Result<String, Error> {
        let reply = self.call(words).map_err(|source| Error::Io { server: self.server.clone(), source })?;
        match reply {
            Some(Ok(text)) => Ok(text),
            Some(Err(reply)) => Err(Error::Refused { server: self.server.clone(), reply }),
            None => Err(Error::Foreign { server: self.server.clone() }),
        }
    }

    /// A text, an error's text, or `None` for what is neither.
    fn call(&mut self, words: &[&str]) -> io::Result<Option<Result<String, String>>> {
        let mut request = format!("*{}\r\n", words.len());
        words.iter().for_each(|word| request.push_str(&format!("${}\r\n{word}\r\n", word.len())));
        self.stream.get_mut().write_all(request.as_bytes())?;
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        let line = line.trim_end();
        let Some((kind, rest)) = line.split_at_checked(1) else {
            return Err(io::ErrorKind::UnexpectedEof.into());
        };
        Ok(match (kind, rest.parse::<u32>()) {
            ("+", _) => Some(Ok(rest.into())),
            ("-", _) => Some(Err(rest.into())),
            ("$", Ok(len)) => {
                let mut text = Vec::new();
                let whole = u64::from(len) + 2;
                if self.stream.by_ref().take(whole).read_to_end(&mut text)? as u64 != whole {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                Some(Ok(String::from_utf8_lossy(&text).into_owned()))
            }
            _ => None,
        })
    }
}

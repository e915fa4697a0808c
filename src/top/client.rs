//! Client that requests INFO from a server.

use super::options::{Error, Options};
use crate::resp;
use redis_protocol::resp2::types::OwnedFrame;
use std::{fs, io, time::Duration};

/// Maximum time to wait for the server's reply.
const REPLY_TIMEOUT: Duration = Duration::from_secs(10);

/// Connection to the server that `kvbench top` watches.
pub(super) struct Client {
    server: String,
    connection: resp::Client,
}

impl Client {
    pub fn connect(options: &Options) -> Result<Self, Error> {
        let server = options.server.clone();
        let failed = |source| Error::Io { server: server.clone(), source };
        let connection = resp::Client::connect(&*server, Some(REPLY_TIMEOUT)).map_err(failed)?;
        let mut client = Self { server, connection };
        if let Some(path) = &options.password_file {
            let failed = |source| Error::Password { path: path.clone(), source };
            let password = fs::read_to_string(path).map_err(failed)?;
            let password = password.trim_end_matches(['\r', '\n']);
            client.ask(&["AUTH", password])?;
        }
        Ok(client)
    }

    /// Requests every section of INFO, and returns the text of the reply.
    pub fn info(&mut self) -> Result<String, Error> {
        self.ask(&["INFO", "everything"])
    }

    /// Sends a command, and returns the text of the reply. Fails if the reply is an error or no string, or if the
    /// connection fails.
    fn ask(&mut self, words: &[&str]) -> Result<String, Error> {
        let server = || self.server.clone();
        match self.connection.call(words) {
            Ok(OwnedFrame::SimpleString(text) | OwnedFrame::BulkString(text)) => {
                Ok(String::from_utf8_lossy(&text).into_owned())
            }
            Ok(OwnedFrame::Error(reply)) => {
                Err(Error::Refused { server: server(), reply: reply.to_string() })
            }
            Ok(_) => Err(Error::Foreign { server: server() }),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                Err(Error::Foreign { server: server() })
            }
            Err(source) => Err(Error::Io { server: server(), source }),
        }
    }
}

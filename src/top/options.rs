//! Options and errors of `kvbench top`.

use std::{io, path::PathBuf, time::Duration};

/// Error that ends `kvbench top`.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum Error {
    #[error("cannot reach {server}: {source}; start the server, or name another HOST:PORT")]
    Io { server: String, source: io::Error },
    #[error("{server} answers {reply:?}{}", advice(.reply))]
    Refused { server: String, reply: String },
    #[error("{server} does not answer as a Redis server does; `kvbench top` needs a port without TLS")]
    Foreign { server: String },
    #[error("cannot read --password-file {}: {source}", .path.display())]
    Password { path: PathBuf, source: io::Error },
    #[error("cannot write: {0}")]
    Output(#[source] io::Error),
}

/// Returns the advice for an error reply of a server; empty if a password is not the reason.
fn advice(reply: &str) -> &'static str {
    let is_about_password = ["NOAUTH", "WRONGPASS"].iter().any(|code| reply.starts_with(code));
    if is_about_password { "; see --password-file" } else { "" }
}

/// Options of `kvbench top`.
#[derive(Clone, Debug)]
pub struct Options {
    /// Host and port of the server.
    pub server: String,
    /// Time between two updates of the output.
    pub interval: Duration,
    /// Number of updates after which the program ends; `None` for no end.
    pub count: Option<u64>,
    /// File with the password of the server.
    pub password_file: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_replies_about_a_password_name_its_flag() {
        for (reply, is_named) in [
            ("NOAUTH Authentication required.", true),
            ("WRONGPASS invalid username-password pair or user is disabled.", true),
            ("ERR max number of clients reached", false),
            ("NOPERM this user has no permissions to run the 'info' command", false),
        ] {
            let error = Error::Refused { server: "here:1".into(), reply: reply.into() }.to_string();
            assert!(error.contains(reply), "{error}");
            assert_eq!(error.contains("--password-file"), is_named, "{error}");
        }
    }
}

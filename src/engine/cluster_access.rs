//! Reads the password and the certificates for the connections to a cluster.

use super::ClusterAccess;
use std::{
    env,
    fs::File,
    io::{self, Read},
    os::unix::fs::PermissionsExt,
    path::Path,
};

/// Maximum length of a password in bytes. An argument of a client that has not authenticated may have the same length
/// (`Limits::before_auth`), so that the client can send any valid password.
pub(crate) const LONGEST_PASSWORD: u64 = 16 << 10;

/// Reason why a file with a password was refused.
pub(crate) enum NoPassword {
    /// The password file cannot be read.
    Io(io::Error),
    /// The file's group or other users have a permission for the password file that they may not have; its mode.
    Shared(u32),
    /// The password in the file is empty or too long.
    Length,
}

/// Returns the password in the file `path`, without the newline (LF or CR LF) at its end. Fails if the file's group or
/// other users have any permission for the file, or if the password does not have 1 to [`LONGEST_PASSWORD`] bytes. The
/// group may read a credential of systemd.
pub(crate) fn read_password(path: &Path) -> Result<Vec<u8>, NoPassword> {
    let file = File::open(path).map_err(NoPassword::Io)?;
    let mode = file.metadata().map_err(NoPassword::Io)?.permissions().mode() & 0o777;
    let allowed = if is_credential(path) { 0o740 } else { 0o700 };
    if mode & !allowed != 0 {
        return Err(NoPassword::Shared(mode));
    }
    let mut text = Vec::new();
    file.take(LONGEST_PASSWORD + 3).read_to_end(&mut text).map_err(NoPassword::Io)?;
    for end in [b'\n', b'\r'] {
        text.pop_if(|last| *last == end);
    }
    if (1..=LONGEST_PASSWORD).contains(&(text.len() as u64)) { Ok(text) } else { Err(NoPassword::Length) }
}

/// Returns `true` if the file `path` is a credential that systemd has passed to this process (`LoadCredential=`): it
/// belongs to root, and an access control list that permits only the user of the service to read it is shown as
/// permission of the group.
fn is_credential(path: &Path) -> bool {
    env::var_os("CREDENTIALS_DIRECTORY").is_some_and(|directory| path.parent() == Some(Path::new(&directory)))
}

impl ClusterAccess {
    /// Returns the password in the file `--cluster-password-file`, or `None` without that flag. Fails with an error of
    /// `engine` if the file cannot be read, if other users can read it, or if it holds no valid password.
    #[allow(dead_code, reason = "for engines that a build may lack")]
    pub(super) fn password(&self, engine: &'static str) -> super::Result<Option<String>> {
        let Some(path) = &self.password_file else { return Ok(None) };
        let refuse = |what: String| {
            super::Error::library(engine, format!("--cluster-password-file {} {what}", path.display()))
        };
        let password = read_password(path).map_err(|reason| match reason {
            NoPassword::Io(error) => refuse(format!("cannot be read: {error}")),
            NoPassword::Shared(mode) => {
                refuse(format!("can be read by others (mode {mode:o}); chmod 600 it"))
            }
            NoPassword::Length => refuse(format!("holds no password of 1 to {LONGEST_PASSWORD} bytes")),
        })?;
        let text = String::from_utf8(password).map_err(|_| refuse("holds no UTF-8 text".into()))?;
        Ok(Some(text))
    }
}

/// Reads a file with a certificate or a key in PEM. The error names the flag.
#[allow(dead_code, reason = "for engines that a build may lack")]
pub(super) fn pem(engine: &'static str, flag: &str, path: &Path) -> super::Result<Vec<u8>> {
    let refuse = |what| super::Error::library(engine, format!("{flag} {} {what}", path.display()));
    let bytes = std::fs::read(path).map_err(|error| refuse(format!("cannot be read: {error}")))?;
    let is_pem = bytes.windows(10).any(|window| window == b"-----BEGIN");
    if is_pem { Ok(bytes) } else { Err(refuse("holds nothing in PEM".into())) }
}

//! Access control: the password and the certificates, which are read before the server binds a socket and opens the
//! store, and the rules that follow from them.

use super::tls::Acceptor;
use crate::{
    command::Password,
    config::{self, Config},
    engine::{self, NoPassword},
};
use std::path::Path;

pub use super::tls::AccessError;

/// Redis' error for a client of another machine in protected mode.
pub(super) const PROTECTED_MODE_ERROR: &str = "-DENIED Redis is running in protected mode because protected mode is enabled \
    and no password is set for the default user. In this mode connections are only accepted from the loopback \
    interface. If you want to connect from external computers to Redis you may adopt one of the following \
    solutions: 1) Just disable protected mode sending the command 'CONFIG SET protected-mode no' from the \
    loopback interface by connecting to Redis from the same host the server is running, however MAKE SURE \
    Redis is not publicly accessible from internet if you do so. Use CONFIG REWRITE to make this change \
    permanent. 2) Alternatively you can just disable the protected mode by editing the Redis configuration \
    file, and setting the protected mode option to 'no', and then restarting the server. 3) If you started \
    the server manually just for testing, restart it with the '--protected-mode no' option. 4) Setup a an \
    authentication password for the default user. NOTE: You only need to do one of the above things in \
    order for the server to start accepting connections from the outside.\r\n";

/// Password and TLS certificates of a server.
pub struct Access {
    pub(super) password: Option<Password>,
    pub(super) tls: Option<Acceptor>,
}

impl Access {
    /// Reads the password and the TLS certificates from the files that `config` names; without a password file, the
    /// password is that of `config` itself. Fails if a file cannot be used.
    pub fn load(config: &Config) -> Result<Self, AccessError> {
        let config = &config.network;
        let password = match &config.password_file {
            Some(path) => Some(read_password(path)?),
            None => config.password.clone(),
        };
        let tls = config.tls.as_ref().map(Acceptor::load).transpose()?;
        Ok(Self { password, tls })
    }

    /// Logs a warning if there is no password and `--bind` is no loopback address: protected mode refuses clients of
    /// other machines, or every client has access.
    pub(super) fn announce(&self, config: &config::Network) {
        if config.bind.is_loopback() || self.password.is_some() {
            return;
        }
        let bind = config.bind;
        if config.protected_mode {
            log::warn!(
                "--bind {bind} without a password: protected mode refuses clients of other machines; set \
                --password-file, or --protected-mode no"
            );
        } else {
            log::warn!(
                "--bind {bind} without a password: everybody who can reach this machine can read and write"
            );
        }
    }
}

/// Returns the password that the file `path` holds. Fails if other users can read the file, or if it holds no valid
/// password.
fn read_password(path: &Path) -> Result<Password, AccessError> {
    let length = || AccessError::PasswordLength(path.into());
    let text = engine::read_password(path).map_err(|reason| match reason {
        NoPassword::Io(source) => AccessError::PasswordFile { path: path.into(), source },
        NoPassword::Shared(mode) => AccessError::PasswordShared { path: path.into(), mode },
        NoPassword::Length => length(),
    })?;
    Password::new(&text).ok_or_else(length)
}

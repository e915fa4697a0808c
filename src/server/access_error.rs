//! Errors in the settings for access control.

use crate::engine::LONGEST_PASSWORD as LONGEST;
use std::{io, path::PathBuf};

/// Error in a setting for access control, with which no client could be served safely. Each text names the flag
/// and what to do.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum AccessError {
    #[error("cannot read --password-file {}: {source}", .path.display())]
    PasswordFile { path: PathBuf, source: io::Error },
    #[error("--password-file {} can be read by others (mode {mode:o}); chmod 600 it", .path.display())]
    PasswordShared { path: PathBuf, mode: u32 },
    #[error("--password-file {} holds no password of 1 to {LONGEST} bytes", .0.display())]
    PasswordLength(PathBuf),
    #[error("cannot use {flag} {}: {reason}", .path.display())]
    Certificate { flag: &'static str, path: PathBuf, reason: String },
    #[error("--tls-port does not work in this build; build it with --features tls")]
    NoTls,
}

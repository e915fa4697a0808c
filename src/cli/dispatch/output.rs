//! Standard output of the program.

use std::io::{self, Write};

/// Writes `text` to standard output.
///
/// # Errors
///
/// If standard output cannot be written, or was closed.
pub(super) fn print(text: &str) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    Ok(stdout.flush()?)
}

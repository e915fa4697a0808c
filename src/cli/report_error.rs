//! How the program tells that it failed.

use std::process::ExitCode;

/// Tells an error, and returns the code to exit with.
pub fn report_error(error: &anyhow::Error, code: u8) -> ExitCode {
    eprintln!("kvbench: {}", line(error));
    ExitCode::from(code)
}

/// The error and its causes in one line. Most of ours tell their cause already, in the place where it
/// reads best.
pub fn line(error: &anyhow::Error) -> String {
    let mut line = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if !line.contains(&cause) {
            line.push_str(if line.is_empty() { "" } else { ": " });
            line.push_str(&cause);
        }
    }
    line
}

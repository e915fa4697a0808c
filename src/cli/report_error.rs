//! Report of a failure of the program.

use std::process::ExitCode;

/// Prints an error to standard error, and returns the exit code.
pub fn report_error(error: &anyhow::Error, code: u8) -> ExitCode {
    eprintln!("kvbench: {}", line(error));
    ExitCode::from(code)
}

/// Returns the error and its causes in one line. A cause is left out if the text already contains it, as most
/// messages of kvbench do.
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

//! Subcommands that a build without their Cargo feature lacks.

use crate::support::{KVBENCH, RunToEnd};
use std::process::Command;

#[test]
fn missing_subcommand_names_its_feature() {
    let features = [
        (
            "bench",
            cfg!(feature = "bench"),
            &["bench", "calibrate", "compare", "duel", "export", "report", "reproduce"][..],
        ),
        ("manual", cfg!(feature = "manual"), &["completions", "man"]),
        ("top", cfg!(feature = "top"), &["top"]),
        ("torture", cfg!(feature = "torture"), &["torture"]),
    ];
    for (feature, is_built, commands) in features {
        for command in commands {
            let flag = if is_built { "--help" } else { "--stores" };
            let output = Command::new(KVBENCH).args([command, flag]).run_to_end();
            let message = String::from_utf8(output.stderr).unwrap();
            let expected = format!(
                "kvbench: this build has no `kvbench {command}`: build it with --features {feature}\n"
            );
            assert_eq!(message == expected, !is_built, "{message}");
            assert_eq!(output.status.code(), Some(if is_built { 0 } else { 2 }), "{message}");
        }
    }
}

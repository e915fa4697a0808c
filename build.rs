//! Tells the program which commit and compiler it was built from, for its results.

use std::{env, process::Command};

fn main() {
    let rustc = env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    if let Some(version) = output(&rustc, &["--version"]) {
        println!("cargo::rustc-env=KVBENCH_RUSTC={version}");
    }
    // A source archive has no repository; the commit is then unknown.
    if let Some(commit) = output("git", &["rev-parse", "--short=12", "HEAD"]) {
        let changed = output("git", &["status", "--porcelain", "--untracked-files=no", "src", "Cargo.lock"]);
        let mark = if changed.is_none_or(|changes| changes.is_empty()) { "" } else { "+" };
        println!("cargo::rustc-env=KVBENCH_COMMIT={commit}{mark}");
    }
    for path in ["src", "Cargo.lock", "build.rs"] {
        println!("cargo::rerun-if-changed={path}");
    }
    for name in ["HEAD", "logs/HEAD"] {
        if let Some(path) = output("git", &["rev-parse", "--git-path", name]) {
            println!("cargo::rerun-if-changed={path}");
        }
    }
}

fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

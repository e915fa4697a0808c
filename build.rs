//! Tells the program which commit and compiler it was built from, for its results.

use std::{env, fs, path::Path, process::Command};

/// Files and folders of which the program is made. The published crate has no `.cargo` and no `tools`.
const SOURCES: [&str; 6] = ["src", "Cargo.toml", "Cargo.lock", ".cargo", "build.rs", "tools/rocksdb-cxx"];

fn main() {
    let rustc = env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    if let Some(version) = output(&rustc, &["--version"]) {
        println!("cargo::rustc-env=KVBENCH_RUSTC={version}");
    }
    if let Some(commit) = commit() {
        println!("cargo::rustc-env=KVBENCH_COMMIT={commit}");
    }
    for path in SOURCES.into_iter().filter(|path| Path::new(path).exists()) {
        println!("cargo::rerun-if-changed={path}");
    }
    for name in ["HEAD", "logs/HEAD"] {
        if let Some(path) = output("git", &["rev-parse", "--git-path", name]) {
            println!("cargo::rerun-if-changed={path}");
        }
    }
}

/// The commit, with a `+` where the sources differ from it. Of other source archives nothing is known.
fn commit() -> Option<String> {
    // What `cargo package` noted. A crate may be unpacked inside another repository, whose commit says nothing.
    if let Ok(noted) = fs::read_to_string(".cargo_vcs_info.json") {
        let hash = noted.split_once("\"sha1\": \"")?.1.get(..12)?;
        return Some(format!("{hash}{}", if noted.contains("\"dirty\": true") { "+" } else { "" }));
    }
    // Empty at the top of a repository.
    if !output("git", &["rev-parse", "--show-prefix"])?.is_empty() {
        return None;
    }
    let hash = output("git", &["rev-parse", "--short=12", "HEAD"])?;
    let status = ["status", "--porcelain", "--untracked-files=no", "--"];
    let changed = output("git", &[&status[..], &SOURCES].concat());
    let mark = if changed.is_none_or(|changes| changes.is_empty()) { "" } else { "+" };
    Some(format!("{hash}{mark}"))
}

fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

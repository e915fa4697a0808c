//! Passes to the engine's description which line of `programs` the package's Cargo.lock has: `STORE` is `sqlite-3.35`,
//! `LIBRARY` is `rusqlite 0.25.4`.

use std::fs;

fn main() {
    println!("cargo::rerun-if-changed=Cargo.lock");
    println!("cargo::rerun-if-changed=../programs");
    let lock = fs::read_to_string("Cargo.lock").expect("Cargo.lock is beside Cargo.toml");
    let programs = fs::read_to_string("../programs").expect("tools/history has the list of programs");
    let is_locked = |name, version| lock.contains(&format!("name = \"{name}\"\nversion = \"{version}\"\n"));
    let lines = programs.lines().filter(|line| !line.starts_with('#'));
    let mut lines = lines.map(|line| line.splitn(3, ' ').collect::<Vec<_>>());
    let line = lines.find(|line| matches!(line[..], [_, name, version] if is_locked(name, version)));
    let line = line.expect("Cargo.lock has a version that ../programs lists");
    println!("cargo::rustc-env=STORE={}", line[0]);
    println!("cargo::rustc-env=LIBRARY={} {}", line[1], line[2]);
}

//! Passes the versions of Cargo.lock to the engines' descriptions: `REDB_3` is `redb 3.1.3`.

use std::fs;

fn main() {
    println!("cargo::rerun-if-changed=Cargo.lock");
    let lock = fs::read_to_string("Cargo.lock").expect("Cargo.lock is beside build.rs");
    for package in lock.split("[[package]]") {
        let field = |name: &str| package.split_once(&format!("{name} = \""))?.1.split('"').next();
        if let (Some(name @ ("redb" | "fjall" | "lsm-tree")), Some(version)) =
            (field("name"), field("version"))
        {
            let major = version.split('.').next().unwrap_or_default();
            let variable = format!("{}_{major}", name.to_uppercase().replace('-', "_"));
            println!("cargo::rustc-env={variable}={name} {version}");
        }
    }
}

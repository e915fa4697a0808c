//! `tools/rocksdb-cxx`, the compiler wrapper that compiles RocksDB in groups of files.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Output},
};

const WRAPPER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tools/rocksdb-cxx");
const LIST: &str = "rocksdb_lib_sources.txt";

/// A compiler that prints one argument a line.
const PRINT_ARGUMENTS: &str = "#!/bin/sh\nprintf '%s\\n' \"$@\"\n";

/// A directory like that of the crate librocksdb-sys, with a space in its path.
struct Crate {
    _scratch: tempfile::TempDir,
    root: PathBuf,
}

impl Crate {
    /// Source `n` of `count` defines `int value_n()`.
    fn with_sources(count: usize) -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path().join("a crate");
        fs::create_dir_all(root.join("rocksdb/db")).unwrap();
        let crate_ = Self { _scratch: scratch, root };
        for n in 0..count {
            crate_.write(&source(n), &format!("#include <string>\nint value_{n}() {{ return {n}; }}\n"));
        }
        let listed: Vec<_> = (0..count).map(|n| format!("db/f{n}.cc")).collect();
        crate_.write(LIST, &(listed.join("\n") + "\n"));
        crate_.program("print arguments", PRINT_ARGUMENTS);
        crate_
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.root.join(name), text).unwrap();
    }

    fn program(&self, name: &str, text: &str) -> PathBuf {
        let path = self.root.join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// The wrapper in groups of two, before a compiler that prints its arguments, for a native build.
    fn wrapper(&self) -> Command {
        let mut command = Command::new(WRAPPER);
        command.current_dir(&self.root).env_remove("HOST_CXX").env_remove("CXX_x86_64_unknown_linux_gnu");
        command.env("HOST", "x86_64-unknown-linux-gnu").env("TARGET", "x86_64-unknown-linux-gnu");
        command.env("CXX", self.root.join("print arguments")).env("KVBENCH_ROCKSDB_GROUP", "2");
        command
    }

    /// Compiler arguments that the wrapper makes of a call to compile `file`.
    fn arguments(&self, file: &str) -> Vec<String> {
        lines(self.wrapper().args(["-O3", "-I", "rocksdb/include", "-o", "out.o", "-c", file]))
    }
}

fn source(n: usize) -> String {
    format!("rocksdb/db/f{n}.cc")
}

fn run(command: &mut Command) -> Output {
    command.output().unwrap()
}

fn lines(command: &mut Command) -> Vec<String> {
    let output = run(command);
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// Arguments of a call that compiles `file` alone.
fn alone(file: &str) -> Vec<String> {
    ["-O3", "-I", "rocksdb/include", "-o", "out.o", "-c", file].map(str::to_owned).to_vec()
}

#[test]
fn each_file_of_the_list_is_compiled_once() {
    let sources = Crate::with_sources(5);
    let calls: Vec<_> = (0..5).map(|n| sources.arguments(&source(n))).collect();
    let compiled: Vec<_> = calls.iter().flatten().filter(|word| word.ends_with(".cc")).cloned().collect();
    assert_eq!(compiled, (0..5).map(source).collect::<Vec<_>>());
    // The call for the last file of a group compiles the group.
    assert!(calls[0].ends_with(&["-c", "-x", "c++", "/dev/null"].map(str::to_owned)), "{:?}", calls[0]);
    let group = ["-c", "-include", "rocksdb/db/f0.cc", "rocksdb/db/f1.cc"].map(str::to_owned);
    assert!(calls[1].ends_with(&group), "{:?}", calls[1]);
    assert_eq!(calls[4], alone(&source(4)));
}

#[test]
fn file_that_does_not_exist_is_no_member() {
    let sources = Crate::with_sources(4);
    fs::remove_file(sources.root.join(source(1))).unwrap();
    assert!(sources.arguments(&source(0)).contains(&"/dev/null".to_owned()));
    let group = ["-c", "-include", "rocksdb/db/f0.cc", "rocksdb/db/f2.cc"].map(str::to_owned);
    assert!(sources.arguments(&source(2)).ends_with(&group));
    assert_eq!(sources.arguments(&source(3)), alone(&source(3)));
}

#[test]
fn surprises_reach_the_compiler_unchanged() {
    let sources = Crate::with_sources(4);
    sources.write("rocksdb/db/new.cc", "");
    sources.write("other.cc", "");
    for file in ["rocksdb/db/new.cc", "other.cc", "snappy/snappy.cc"] {
        assert_eq!(sources.arguments(file), alone(file));
    }
    let calls: [&[&str]; 4] = [
        &["--version"],
        &["-c", "rocksdb/db/f0.cc", "rocksdb/db/f1.cc"],
        &["-S", "rocksdb/db/f0.cc"],
        &["-E", "detect_compiler_family.c"],
    ];
    for call in calls {
        assert_eq!(lines(sources.wrapper().args(call)), call);
    }
    let off = lines(sources.wrapper().env("KVBENCH_ROCKSDB_GROUP", "1").args(["-c", "rocksdb/db/f0.cc"]));
    assert_eq!(off, ["-c", "rocksdb/db/f0.cc"]);
    let wrong =
        lines(sources.wrapper().env("KVBENCH_ROCKSDB_GROUP", "many").args(["-c", "rocksdb/db/f0.cc"]));
    assert_eq!(wrong, ["-c", "rocksdb/db/f0.cc"]);

    sources.write(LIST, "db/f0.cc\ndb/a file.cc\n");
    assert_eq!(sources.arguments(&source(0)), alone(&source(0)));
    fs::remove_file(sources.root.join(LIST)).unwrap();
    assert_eq!(sources.arguments(&source(0)), alone(&source(0)));
}

/// A group of 32 files takes 2.1 GiB of memory, one of 4 takes 0.5.
#[test]
fn groups_are_small_where_memory_is_short() {
    let sources = Crate::with_sources(2);
    let call = |jobs: &str| {
        let mut command = sources.wrapper();
        command.env_remove("KVBENCH_ROCKSDB_GROUP").env("NUM_JOBS", jobs);
        lines(command.args(["-c", "rocksdb/db/f1.cc"]))
    };
    assert_eq!(call("1").len(), 4, "a machine with 800 MiB compiles groups");
    assert_eq!(call("1000000"), ["-c", "rocksdb/db/f1.cc"]);
}

/// A launcher with a cache asks for the preprocessed text first, and keeps the object under its checksum.
#[test]
fn preprocessed_text_is_that_of_the_group() {
    let sources = Crate::with_sources(2);
    let call = lines(sources.wrapper().args(["-E", "rocksdb/db/f1.cc"]));
    assert_eq!(call, ["-E", "-include", "rocksdb/db/f0.cc", "rocksdb/db/f1.cc"]);
}

#[test]
fn compiler_of_the_user_is_called() {
    let sources = Crate::with_sources(1);
    let named = sources.program("named", "#!/bin/sh\necho named \"$@\"\n");
    let launcher = sources.program("launcher", "#!/bin/sh\necho launched \"$@\"\n");
    let path = format!("{}:/usr/bin:/bin", sources.root.display());

    let called = lines(sources.wrapper().env("CXX_x86_64_unknown_linux_gnu", &named).arg("-v"));
    assert_eq!(called, ["named -v"]);
    let called = lines(sources.wrapper().env("HOST_CXX", &launcher).arg("-v"));
    assert_eq!(called, ["launched -v"]);
    let called = lines(sources.wrapper().env("PATH", &path).env("CXX", "launcher named -m64").arg("-v"));
    assert_eq!(called, ["launched named -m64 -v"]);
    // Without any, the compiler that Cargo's builds call: the native one, or the cross compiler of the target.
    sources.program("c++", "#!/bin/sh\necho native \"$@\"\n");
    sources.program("aarch64-linux-gnu-g++", "#!/bin/sh\necho cross \"$@\"\n");
    let called = lines(sources.wrapper().env("PATH", &path).env_remove("CXX").arg("-v"));
    assert_eq!(called, ["native -v"]);
    let mut cross = sources.wrapper();
    cross.env("PATH", &path).env_remove("CXX").env("TARGET", "aarch64-unknown-linux-gnu");
    assert_eq!(lines(cross.arg("-v")), ["cross -v"]);
    // The wrapper as its own compiler.
    assert_eq!(lines(sources.wrapper().env("PATH", &path).env("CXX", WRAPPER).arg("-v")), ["native -v"]);
}

/// With the compiler of this machine: the objects together define each function once, and an error fails its call.
#[test]
fn objects_link_and_errors_fail() {
    let sources = Crate::with_sources(3);
    let compile = |n: usize| {
        let object = format!("f{n}.o");
        let mut command = sources.wrapper();
        run(command.env_remove("CXX").args(["-o", &object, "-c", &source(n)])).status.success()
    };
    assert!((0..3).all(compile));
    sources.write(
        "main.cc",
        "int value_0(), value_1(), value_2();\nint main() { return value_0() + value_1() + value_2(); }\n",
    );
    let mut link = sources.wrapper();
    link.env_remove("CXX").args(["main.cc", "f0.o", "f1.o", "f2.o", "-o", "program"]);
    assert!(run(&mut link).status.success());
    assert_eq!(run(&mut Command::new(sources.root.join("program"))).status.code(), Some(3));

    sources.write(&source(0), "int value_0() { return }\n");
    assert!(compile(0), "the first file of a group is compiled by the call for the last");
    assert!(!compile(1));
}

/// The configuration names the wrapper for a path that exists, whatever directory Cargo is called in.
#[test]
fn cargo_calls_the_wrapper() {
    let config = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/.cargo/config.toml")).unwrap();
    let targets = config.lines().filter(|line| line.starts_with("CXX_")).count();
    assert_eq!(config.matches("{ value = \"tools/rocksdb-cxx\", relative = true }").count(), targets);
    assert!(targets >= 6, "{targets} targets");
    assert!(Path::new(WRAPPER).metadata().unwrap().permissions().mode() & 0o111 == 0o111);
}

//! `kvbench duel`: two programs take turns, and the exit code says whether the new one is slower.

use crate::{
    support::bench::{measurement, read, stderr},
    support::{KVBENCH, RunToEnd},
};
use kvbench::{
    bench::{
        duel::text as answer,
        plan::{
            options::{Durability, Gate, Interleave, Options},
            suites,
        },
        result::{BuildDescription, Duel, Outcome, Program, Side, statistics::margin::Margin},
        run::instruction_counter,
    },
    testing::engine_case::names,
};
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

/// Reads of a store in memory.
const READS: &[&str] = &[
    "--stores",
    "btree",
    "--fsync",
    "memory",
    "--keys",
    "1000",
    "--seconds",
    "0.3",
    "--threads",
    "1",
    "--warm-up",
    "0",
    "--quiet-wait",
    "0",
    "--foreign",
    "100",
    "--output",
    "result.json",
];

/// Exit codes of a duel without and with a loss, and of one that cannot tell or was refused.
const NO_LOSS: Option<i32> = Some(0);
const LOSS: Option<i32> = Some(1);
const UNDECIDED: Option<i32> = Some(2);

fn duel(dir: &Path, old: &Path, new: &Path, flags: &[&str]) -> Output {
    let mut command = Command::new(KVBENCH);
    command.current_dir(dir).arg("duel").args([old, new]).args(flags).run_to_end()
}

/// Writes an executable shell script. Another process writes it: programs that other tests start meanwhile would inherit
/// the open file, and a file that is open for writing cannot be executed.
fn script(dir: &Path, name: &str, text: &str) -> PathBuf {
    let path = dir.join(name);
    let mut write = Command::new("sh");
    write.args(["-c", r#"printf '#!/bin/sh\n%s\n' "$2" > "$1" && chmod +x "$1""#, "sh"]);
    assert!(write.arg(&path).arg(text).run_to_end().status.success());
    path
}

/// Returns the first line of standard output.
fn first_line(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).lines().next().unwrap_or_default().to_owned()
}

#[test]
fn a_program_is_not_slower_than_itself() {
    let dir = tempfile::tempdir().unwrap();
    // A difference by chance is within so wide a margin.
    let flags = [READS, &["--budget", "20", "--detect", "50%"]].concat();
    let output = duel(dir.path(), Path::new(KVBENCH), Path::new(KVBENCH), &flags);
    assert!([NO_LOSS, UNDECIDED].contains(&output.status.code()), "{}", stderr(&output));
    assert!(first_line(&output).starts_with("btree, get, in memory: "), "{}", first_line(&output));
    assert_eq!(names(dir.path()), ["result.json"]);

    let run = read(dir.path());
    let programs = run.duel.as_ref().unwrap();
    assert_eq!(programs.old, programs.new);
    let [comparison] = run.comparisons.as_slice() else { panic!("{:?}", run.comparisons) };
    assert!(!comparison.blocks.is_empty() && comparison.end.is_some(), "{comparison:?}");
    let sides: Vec<_> = run.cells.iter().map(|cell| (cell.target.side, cell.column.as_str())).collect();
    assert_eq!(sides, [(Some(Side::Old), "btree/memory old"), (Some(Side::New), "btree/memory new")]);
    for cell in &run.cells {
        let own: Vec<_> = run.samples.iter().filter(|sample| sample.cell == cell.id).collect();
        assert_eq!(own.len(), comparison.blocks.len());
        assert!(own.iter().all(|sample| measurement(&sample.outcome).is_sound()));
    }
    let other_command = |arguments: &[&str]| {
        let mut command = Command::new(KVBENCH);
        let output = command.current_dir(dir.path()).args(arguments).run_to_end();
        assert!(output.status.success(), "{}", stderr(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    other_command(&["report", "result.json"]);
    let report = fs::read_to_string(dir.path().join("report.md")).unwrap();
    assert!(report.contains("btree old") && report.contains("btree new"), "{report}");
    other_command(&["compare", "result.json", "result.json"]);
}

/// Writes a program that is this one with a slower `btree`.
#[cfg(feature = "fault-injection")]
fn slowed(dir: &Path) -> PathBuf {
    script(dir, "slowed", &format!("KVBENCH_SLOWED=btree=0.5 exec {KVBENCH} \"$@\""))
}

/// Checks the exit code of a duel, and that its first line has `words`.
#[cfg(feature = "fault-injection")]
fn finds(dir: &Path, old: &Path, new: &Path, code: Option<i32>, words: &str) {
    let output = duel(dir, old, new, &[READS, &["--budget", "2m"]].concat());
    let line = first_line(&output);
    assert_eq!(output.status.code(), code, "{line}\n{}", stderr(&output));
    assert!(line.starts_with("btree, get, in memory: new is ") && line.contains(words), "{line}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        text.contains("\nCPU time per operation ") && text.contains("\np99 of latency (closed loop) "),
        "{text}"
    );
}

#[cfg(feature = "fault-injection")]
#[test]
fn a_planted_loss_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let slowed = slowed(dir.path());
    finds(dir.path(), Path::new(KVBENCH), &slowed, LOSS, "% slower (95% interval ");
}

#[cfg(feature = "fault-injection")]
#[test]
fn a_planted_gain_is_no_loss() {
    let dir = tempfile::tempdir().unwrap();
    let slowed = slowed(dir.path());
    finds(dir.path(), &slowed, Path::new(KVBENCH), NO_LOSS, " (95% interval ");
}

/// Allocations are not counted in C, nor write calls where nothing is written to files: the rates decide alone.
#[cfg(feature = "lmdb")]
#[test]
fn a_gate_of_what_is_not_counted_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let mut flags = READS.to_vec();
    flags[1] = "lmdb,btree";
    flags[3] = "no,memory";
    let gates = ["--gate", "allocations,write-calls", "--budget", "1m", "--detect", "90%"];
    let output = duel(dir.path(), Path::new(KVBENCH), Path::new(KVBENCH), &[&flags[..], &gates].concat());
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), NO_LOSS, "{text}\n{}", stderr(&output));
    let after = |subject: &str, count| {
        let lines = text.lines().skip_while(|line| !line.starts_with(subject));
        lines.skip(1).take(count).map(str::trim).collect::<Vec<_>>().join("\n")
    };
    let of_lmdb = after("lmdb, get, fsync no: ", 2);
    assert!(
        of_lmdb.starts_with("gate kept: allocations per operation: not counted for this store\n"),
        "{text}"
    );
    let in_memory = after("btree, get, in memory: ", 2);
    assert!(
        in_memory.ends_with("gate kept: write calls per operation: not counted for this store"),
        "{text}"
    );
}

/// An allocation in each call is found, whatever the rates are; the same the other way round is no loss.
#[cfg(feature = "fault-injection")]
#[test]
fn a_gate_finds_allocations() {
    let dir = tempfile::tempdir().unwrap();
    let text = format!("KVBENCH_ALLOCATES=btree exec {KVBENCH} \"$@\"");
    let (kvbench, wasteful) = (Path::new(KVBENCH), script(dir.path(), "wasteful", &text));
    // A margin that every rate keeps.
    let flags = [READS, &["--budget", "1m", "--detect", "90%", "--gate", "allocations", "--force"]].concat();
    let output = duel(dir.path(), kvbench, &wasteful, &flags);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), LOSS, "{text}\n{}", stderr(&output));
    assert!(text.contains("\n  gate broken: allocations per operation: none before, some now\n"), "{text}");
    let output = duel(dir.path(), &wasteful, kvbench, &flags);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), NO_LOSS, "{text}\n{}", stderr(&output));
    assert!(text.contains("\n  gate kept: allocations per operation: none now\n"), "{text}");
}

/// Many virtual machines have no counter of instructions; a gate that was asked for does not pass without it.
#[test]
fn a_gate_of_instructions_has_their_ratio_or_the_reason_why_there_is_none() {
    let dir = tempfile::tempdir().unwrap();
    let flags = [READS, &["--budget", "1m", "--detect", "90%", "--gate", "instructions"]].concat();
    let output = duel(dir.path(), Path::new(KVBENCH), Path::new(KVBENCH), &flags);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    match instruction_counter::unavailable() {
        None => {
            assert!(text.contains(": instructions per operation: new / old is "), "{text}");
            assert!(text.contains("\ninstructions per operation "), "{text}");
        }
        Some(reason) => {
            assert_eq!(output.status.code(), UNDECIDED, "{text}\n{}", stderr(&output));
            let gate = format!("\n  gate: cannot tell: instructions per operation: not counted: {reason}\n");
            assert!(text.contains(&gate), "{text}");
            assert!(text.contains(&format!("\nInstructions are not counted: {reason}.\n")), "{text}");
        }
    }

    // As if the processor counted 1,000 for each operation, and of the new program 1,020.
    let mut run = read(dir.path());
    run.environment.no_instruction_counts = None;
    let old = run.cells.iter().find(|cell| cell.target.side == Some(Side::Old)).unwrap().id.clone();
    for sample in &mut run.samples {
        let Outcome::Measured(measured) = &mut sample.outcome else { panic!("{:?}", sample.outcome) };
        let each = if sample.cell == old { 1000 } else { 1020 };
        measured.instructions = Some(each * measured.operations);
    }
    let text = answer(&run, &[Gate::Instructions]);
    let gate =
        "\n  gate broken: instructions per operation: new / old is 1.0200 (95% interval 1.0200 to 1.0200)\n";
    assert!(text.contains(gate), "{text}");
    let row = text.lines().find(|line| line.starts_with("instructions per operation ")).unwrap_or_default();
    let words: Vec<_> = row.split_whitespace().skip(3).take(3).collect();
    assert_eq!(words, ["1,000", "1,020", "1.020"], "{text}");
}

#[test]
fn a_workload_that_a_store_cannot_run_does_not_count() {
    let dir = tempfile::tempdir().unwrap();
    let mut flags = READS.to_vec();
    flags[1] = "btree,map";
    let scans = ["--mix", "scan=1", "--budget", "1m", "--detect", "90%", "--gate", "allocations"];
    let output = duel(dir.path(), Path::new(KVBENCH), Path::new(KVBENCH), &[&flags[..], &scans].concat());
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), NO_LOSS, "{text}\n{}", stderr(&output));
    let of_map = text.lines().find(|line| line.starts_with("map, scan, ")).unwrap_or_default();
    assert!(of_map.ends_with(": not compared: map does not keep keys in order, so it cannot scan"), "{text}");
    assert_eq!(text.matches("  gate").count(), 1, "{text}");
}

/// The next block would measure another program.
#[test]
fn a_program_that_is_rebuilt_ends_the_duel() {
    let dir = tempfile::tempdir().unwrap();
    let text = format!("if [ $1 = measure-job ]; then echo '# rebuilt' >>\"$0\"; fi\nexec {KVBENCH} \"$@\"");
    let program = script(dir.path(), "program", &text);
    let output = duel(dir.path(), Path::new(KVBENCH), &program, READS);
    assert_eq!(output.status.code(), UNDECIDED, "{}", stderr(&output));
    let told = "/program was rebuilt, replaced or removed during the duel";
    assert!(stderr(&output).contains(told), "{}", stderr(&output));
    assert_eq!(names(dir.path()), ["program", "result.json"]);
    assert!(read(dir.path()).comparisons.iter().all(|comparison| comparison.blocks.is_empty()));
}

#[test]
#[cfg(target_os = "linux")]
fn a_report_that_cannot_be_written_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let text = format!("if [ $1 = measure-job ]; then exit 3; fi\nexec {KVBENCH} \"$@\"");
    let failing = script(dir.path(), "failing", &text);
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let mut command = Command::new(KVBENCH);
    command.current_dir(dir.path()).arg("duel").args([Path::new(KVBENCH), &failing]).args(READS);
    let output = command.stdout(full).output().unwrap();
    assert_eq!(output.status.code(), UNDECIDED, "{}", stderr(&output));
    assert!(stderr(&output).contains("cannot write to standard output"), "{}", stderr(&output));
}

#[test]
fn a_new_program_that_fails_is_a_loss() {
    let dir = tempfile::tempdir().unwrap();
    let text = |code| format!("if [ $1 = measure-job ]; then exit {code}; fi\nexec {KVBENCH} \"$@\"");
    let failing = script(dir.path(), "failing", &text(3));
    let kvbench = Path::new(KVBENCH);
    let output = duel(dir.path(), kvbench, &failing, READS);
    assert_eq!(output.status.code(), LOSS, "{}", stderr(&output));
    assert!(first_line(&output).contains(": new fails: "), "{}", first_line(&output));

    // The same path, but another program.
    script(dir.path(), "failing", &text(4));
    let output = duel(dir.path(), kvbench, &failing, &[READS, &["--resume"]].concat());
    assert_eq!(output.status.code(), UNDECIDED);
    assert!(stderr(&output).contains("another pair of programs"), "{}", stderr(&output));

    let output = duel(dir.path(), &failing, kvbench, &[READS, &["--force"]].concat());
    assert_eq!(output.status.code(), UNDECIDED, "{}", stderr(&output));
    assert!(first_line(&output).contains(": old fails: "), "{}", first_line(&output));
}

#[test]
fn what_cannot_be_compared_is_refused_before_anything_is_measured() {
    let dir = tempfile::tempdir().unwrap();
    let no_kvbench = script(dir.path(), "no-kvbench", "echo {}");
    let other = script(dir.path(), "other", "echo '{\"protocol\": 1000000}'");
    let kvbench = Path::new(KVBENCH);
    let absent = dir.path().join("absent");
    for (old, new, flags, named) in [
        (kvbench, &*no_kvbench, &[][..], "no-kvbench is no kvbench that can take part in a duel"),
        (&*no_kvbench, kvbench, &[], "no-kvbench is no kvbench that can take part in a duel"),
        (&*other, kvbench, &[], "other has version 1000000 of the messages"),
        (&*absent, kvbench, &[], "name two kvbench programs: kvbench duel OLD NEW"),
        (kvbench, kvbench, &["--stores", "mongodb"], "--stores mongodb: "),
        (
            kvbench,
            kvbench,
            &["--mix", "insert=1"],
            "kvbench duel: this --mix only fills or empties the store",
        ),
        (
            kvbench,
            kvbench,
            &["--suite", "ycsb", "--workloads", "load,a"],
            "kvbench duel: a workload of --workloads only fills or empties the store",
        ),
        (kvbench, kvbench, &["--suite", "smallnest"], "--suite smallnest: "),
        (kvbench, kvbench, &["--suite", "storage"], "--suite storage: "),
    ] {
        let output = duel(dir.path(), old, new, &[flags, &["--output", "result.json"]].concat());
        let text = stderr(&output);
        assert_eq!(output.status.code(), UNDECIDED, "{named}: {text}");
        assert!(text.contains(named), "{named}: {text}");
        assert_eq!(names(dir.path()), ["no-kvbench", "other"], "{named}");
    }
}

/// The flags of --crate have no effect on two programs.
#[test]
fn versions_beside_two_programs_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    for flag in ["--base", "--head", "--kvbench", "--target-dir"] {
        let mut command = Command::new(KVBENCH);
        let output = command.current_dir(dir.path()).args(["duel", "old", "new", flag, "4.4.0"]).run_to_end();
        let text = stderr(&output);
        assert_eq!(output.status.code(), UNDECIDED, "{flag}: {text}");
        assert!(text.contains(flag) && text.contains("cannot be used with"), "{flag}: {text}");
    }
}

/// Refused without a build.
#[test]
#[cfg(feature = "redb")]
fn versions_that_cannot_be_compared_are_refused_at_once() {
    let dir = tempfile::tempdir().unwrap();
    for (name, base, head, sources, named) in [
        ("redb", "4.4.0", "4.4.0", env!("CARGO_MANIFEST_DIR"), "--base and --head are both redb 4.4.0"),
        ("redb", "3.1.0", "4.4.0", env!("CARGO_MANIFEST_DIR"), "redb 3.1.0 has another interface"),
        ("serde", "1.0.0", "1.0.1", env!("CARGO_MANIFEST_DIR"), "--crate serde: no store"),
        ("redb", "4.3.0", "4.4.0", ".", "name it with --kvbench"),
    ] {
        let versions = ["duel", "--crate", name, "--base", base, "--head", head, "--kvbench", sources];
        let mut command = Command::new(KVBENCH);
        command.current_dir(dir.path()).args(versions).args(["--target-dir", "builds"]);
        let output = command.env("CARGO", "false").run_to_end();
        let text = stderr(&output);
        assert_eq!(output.status.code(), UNDECIDED, "{named}: {text}");
        assert!(text.contains(named), "{named}: {text}");
        assert_eq!(names(dir.path()), [""; 0], "{named}");
    }
}

/// Stands in for cargo with a configured build target, takes redb from one place, and "builds" this program.
#[cfg(feature = "redb")]
const CARGO: &str = r#"case $1 in
metadata) cat <<END
{"packages": [{"name": "redb", "version": "VERSION", "source": "SOURCE", "manifest_path": "/cache/Cargo.toml"}]}
END
;;
build) while [ "$1" != --target-dir ]; do shift; done; built=$2/triple/release
mkdir -p "$built"; cp KVBENCH "$built/kvbench"
echo "{\"reason\": \"compiler-artifact\", \"executable\": \"$built/kvbench\"}" ;;
esac"#;

/// What cargo takes decides, not what was asked for. Two builds that are one program are not compared either.
#[test]
#[cfg(feature = "redb")]
fn sides_that_do_not_differ_are_refused() {
    const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";
    for (base, head, version, source, named) in [
        (
            "4.3.0",
            "4.4.0",
            "4.4.0",
            REGISTRY,
            "redb was asked for from 4.3.0, but cargo takes version 4.4.0 from elsewhere",
        ),
        (
            "git+https://host/r#v4.4.0",
            "git+https://host/r#c0ffee",
            "4.4.0",
            "git+https://host/r?rev=c0ffee#c0ffee",
            "--base and --head are both redb 4.4.0 from git+https://host/r#c0ffee",
        ),
        ("4.3.0", "4.4.0", "${PWD##*-}", REGISTRY, "the builds with 4.3.0 and 4.4.0 are the same program"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let text = CARGO.replace("VERSION", version).replace("SOURCE", source).replace("KVBENCH", KVBENCH);
        let cargo = script(dir.path(), "cargo", &text);
        let mut command = Command::new(KVBENCH);
        command.current_dir(dir.path()).args(["duel", "--crate", "redb", "--base", base, "--head", head]);
        command.args(["--kvbench", env!("CARGO_MANIFEST_DIR"), "--target-dir", "builds"]);
        let output = command.env("CARGO", &cargo).run_to_end();
        let text = stderr(&output);
        assert_eq!(output.status.code(), UNDECIDED, "{named}: {text}");
        assert!(text.contains(named), "{named}: {text}");
    }
}

/// Refused without a build, and even before a version is chosen.
#[test]
#[cfg(feature = "redb")]
fn mistakes_beside_the_versions_are_found_before_the_builds() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("letter"), "Dear reader,\n").unwrap();
    for (flags, named) in [
        (&["--stores", "mongodb"][..], "--stores mongodb: "),
        (&["--mix", "insert=1"], "this --mix only fills or empties the store"),
        (&["--suite", "storage"], "--suite storage: "),
        (&["--output", "letter"], "--output letter: no result of this version of kvbench"),
        (&["--output", "letter", "--force"], "--output letter: no result of this version of kvbench"),
        (&["--output", "none.json", "--resume"], "--resume: there is no none.json"),
        (&["--resume"], "--resume: there is no kvbench-duel-*.json"),
        #[cfg(feature = "lmdb")]
        (
            &["--stores", "redb,lmdb"],
            "--stores lmdb: the builds for --crate redb have only the stores of this crate",
        ),
    ] {
        let versions = ["duel", "--crate", "redb", "--base", "4.3.0", "--head", "4.4.0"];
        let mut command = Command::new(KVBENCH);
        command.current_dir(dir.path()).args(versions).args(["--kvbench", env!("CARGO_MANIFEST_DIR")]);
        command.args(["--target-dir", "builds"]).args(flags);
        let output = command.env("CARGO", "false").run_to_end();
        let text = stderr(&output);
        assert_eq!(output.status.code(), UNDECIDED, "{named}: {text}");
        assert!(text.contains(named), "{named}: {text}");
        assert_eq!(names(dir.path()), ["letter"], "{named}");
    }
}

/// fjall brings it, so kvbench's manifest cannot choose its version.
#[test]
#[cfg(feature = "fjall")]
fn a_crate_of_a_crate_is_refused_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let versions = ["duel", "--crate", "lsm-tree", "--base", "3.1.9", "--head", "3.1.10"];
    let mut command = Command::new(KVBENCH);
    command.current_dir(dir.path()).args(versions).args(["--kvbench", env!("CARGO_MANIFEST_DIR")]);
    let output = command.args(["--target-dir", "builds"]).env("CARGO", "false").run_to_end();
    let text = stderr(&output);
    assert_eq!(output.status.code(), UNDECIDED, "{text}");
    assert!(text.contains("--crate lsm-tree: no direct dependency of kvbench"), "{text}");
    assert_eq!(names(dir.path()), [""; 0]);
}

/// A directory is looked at with cargo, but nothing is built.
#[test]
#[cfg(feature = "redb")]
fn directories_that_cannot_be_compared_are_refused_at_once() {
    let dir = tempfile::tempdir().unwrap();
    for (place, version) in [("same", "4.4.0"), ("old", "3.1.0")] {
        fs::create_dir_all(dir.path().join(place).join("src")).unwrap();
        let manifest = format!("[package]\nname = \"redb\"\nversion = \"{version}\"\nedition = \"2024\"\n");
        fs::write(dir.path().join(place).join("Cargo.toml"), manifest).unwrap();
        fs::write(dir.path().join(place).join("src/lib.rs"), "").unwrap();
    }
    for (name, base, head, named) in [
        ("redb", "./same", "./same", "--base and --head are both redb ./same"),
        ("redb", "4.4.0", "./absent", "there is no crate redb in ./absent: no such directory"),
        ("sled", "0.34.7", "./same", "there is no crate sled in ./same: its Cargo.toml has no such package"),
        ("redb", "4.4.0", "./old", "redb 3.1.0 has another interface"),
    ] {
        let versions = ["duel", "--crate", name, "--base", base, "--head", head];
        let mut command = Command::new(KVBENCH);
        command.current_dir(dir.path()).args(versions).args(["--kvbench", env!("CARGO_MANIFEST_DIR")]);
        let output = command.args(["--target-dir", "builds"]).run_to_end();
        let text = stderr(&output);
        assert_eq!(output.status.code(), UNDECIDED, "{named}: {text}");
        assert!(text.contains(named), "{named}: {text}");
        assert_eq!(names(dir.path()), ["old", "same"], "{named}");
    }
}

/// The load of the suite is no workload of its own: it can be done once only.
#[test]
fn each_steady_workload_of_a_suite_is_a_comparison_of_two_programs() {
    let program =
        || Program { path: KVBENCH.into(), checksum: 0, chosen: None, build: BuildDescription::default() };
    let options = Options {
        suite: suites::find("ycsb"),
        stores: vec!["btree".into()],
        durabilities: vec![Durability::Memory],
        interleave: Some(Interleave {
            detect: Some(Margin::default()),
            budget_seconds: 60.0,
            min_blocks: 0,
            is_default: false,
        }),
        duel: Some(Duel { old: program(), new: program() }),
        ..Options::default()
    };
    suites::refuse_ignored(&options).unwrap();
    let cells = suites::plan(&options).unwrap().cells;
    let pairs: Vec<_> = cells.chunk_by(|one, other| one.table == other.table).collect();
    let rows: Vec<_> = pairs.iter().map(|pair| pair[0].row.as_str()).collect();
    assert_eq!(rows, ["a", "b", "c", "d", "e", "f"]);
    for pair in pairs {
        let sides: Vec<_> = pair.iter().map(|cell| cell.target.side).collect();
        assert_eq!(sides, [Some(Side::Old), Some(Side::New)]);
        assert!(pair.iter().all(|cell| cell.workload.counts_instructions));
    }
}

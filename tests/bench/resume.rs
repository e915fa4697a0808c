//! A run that is stopped, and goes on.

use crate::{
    support::bench::{bench, command, measurement, read, result_of, stderr},
    support::{KVBENCH, PATIENCE, Program, RunToEnd, Server},
};
use kvbench::bench::result::{Environment, Outcome};
use std::{
    fs,
    path::Path,
    process::Command,
    thread,
    time::{Duration, Instant},
};

const RUN: &[&str] =
    &["--suite", "smallnest", "--stores", "map", "--seconds", "0.2", "--keys", "1000", "--repetitions", "2"];

/// Starts the run and kills it when some of it is measured.
fn start_and_kill(dir: &Path) {
    let _stopped = Program::start(&mut command(dir, RUN));
    let deadline = Instant::now() + PATIENCE;
    while !dir.join("result.json").exists() || read(dir).samples.len() < 6 {
        assert!(Instant::now() < deadline, "nothing is measured");
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_killed_run_is_completed() {
    let dir = tempfile::tempdir().unwrap();
    start_and_kill(dir.path());
    let stopped = read(dir.path());
    let all = stopped.cells.len() * 2;
    assert!(!stopped.finished && stopped.samples.len() < all, "the run was not stopped in the middle");

    let output = bench(dir.path(), &[RUN, &["--resume"]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let run = read(dir.path());
    assert!(run.finished);
    assert_eq!(run.samples.len(), all);
    assert_eq!(run.cells, stopped.cells);
    for cell in &run.cells {
        assert!((0..2).all(|repetition| run.has(&cell.id, repetition)), "{}", cell.id);
    }
    for (kept, before) in run.samples.iter().zip(&stopped.samples) {
        assert_eq!(kept.cell, before.cell);
        assert_eq!(measurement(&kept.outcome).seconds, measurement(&before.outcome).seconds);
    }
}

#[test]
fn another_command_does_not_complete_it() {
    let dir = tempfile::tempdir().unwrap();
    start_and_kill(dir.path());
    let before = fs::read(dir.path().join("result.json")).unwrap();
    let output = bench(dir.path(), &[RUN, &["--resume", "--seed", "7"]].concat());
    assert!(!output.status.success());
    assert!(stderr(&output).contains("--resume"), "{}", stderr(&output));
    assert_eq!(fs::read(dir.path().join("result.json")).unwrap(), before);
}

/// One store whose process was killed does not cost the results of the others.
#[test]
fn what_failed_is_measured_again_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let flags = ["--stores", "map,btree", "--operations", "100", "--keys", "1000", "--repetitions", "2"];
    assert!(bench(dir.path(), &flags).status.success());
    let mut run = read(dir.path());
    assert!(run.finished);
    let cell = run.cells.iter().find(|cell| cell.target.store == "map").unwrap().id.clone();
    let failed = run.samples.iter().position(|sample| sample.cell == cell).unwrap();
    run.samples[failed].outcome = Outcome::Failed("killed".to_owned());
    fs::write(dir.path().join("result.json"), serde_json::to_vec(&run).unwrap()).unwrap();

    let output = bench(dir.path(), &[&flags[..], &["--resume"]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let told =
        format!("{cell}: killed\nkvbench: --resume: what failed is measured again; failed measurements: 1\n");
    assert!(stderr(&output).contains(&told), "{}", stderr(&output));
    let after = read(dir.path());
    assert!(after.finished);
    let failed = run.samples.remove(failed);
    let (again, kept) = after.samples.split_last().unwrap();
    assert_eq!((&again.cell, again.repetition), (&failed.cell, failed.repetition));
    assert!(measurement(&again.outcome).is_sound());
    assert_eq!(kept.len(), run.samples.len());
    for (kept, before) in kept.iter().zip(&run.samples) {
        assert_eq!((&kept.cell, kept.repetition), (&before.cell, before.repetition));
        assert_eq!(measurement(&kept.outcome).seconds, measurement(&before.outcome).seconds);
    }
}

/// Figures of two machines would stand under the name of the first.
#[test]
fn another_machine_does_not_complete_it() {
    let dir = tempfile::tempdir().unwrap();
    // Files in memory are a doubtful condition; not every system has such a directory.
    let memory = Path::new("/dev/shm");
    let stores =
        if memory.is_dir() { memory } else { dir.path() }.join(format!("stores-{}", std::process::id()));
    let stores = stores.display().to_string();
    let flags = ["--stores", "map", "--operations", "10", "--keys", "10000", "--dir", &stores];
    assert!(bench(dir.path(), &flags).status.success());
    let result = dir.path().join("result.json");
    let mut run = read(dir.path());
    let earlier = format!("{stores} is in memory: in the words of the first start");
    run.environment.warnings = vec!["what was known before".to_owned(), earlier];
    // As if it had been stopped before the last cell.
    run.finished = false;
    run.samples.pop();
    fs::write(&result, serde_json::to_vec(&run).unwrap()).unwrap();
    let again = bench(dir.path(), &[&flags[..], &["--resume"]].concat());
    assert!(again.status.success(), "{}", stderr(&again));
    // What is doubtful now is told too, and what was doubtful before only once.
    let warnings = read(dir.path()).environment.warnings;
    assert_eq!(warnings[0], "what was known before");
    let told: Vec<_> = warnings.iter().filter(|text| text.contains("is in memory: ")).collect();
    assert_eq!(told.len(), 1, "{warnings:?}");
    assert!(told[0].contains("syncs cost nothing") || !memory.is_dir(), "{warnings:?}");

    let changes: [fn(&mut Environment); 6] = [
        |environment| environment.cpu = Some("another".to_owned()),
        |environment| environment.cores += 1,
        |environment| environment.memory_bytes = Some(1 << 40),
        |environment| environment.system = "another".to_owned(),
        |environment| environment.device = Some("another".to_owned()),
        |environment| environment.file_system = Some("another".to_owned()),
    ];
    for change in changes {
        let mut other = run.clone();
        change(&mut other.environment);
        fs::write(&result, serde_json::to_vec(&other).unwrap()).unwrap();
        let output = bench(dir.path(), &[&flags[..], &["--resume"]].concat());
        assert!(
            !output.status.success() && stderr(&output).contains("another machine"),
            "{}",
            stderr(&output)
        );
    }
    // Succeeds only if the directory is empty.
    let _ = fs::remove_dir(&stores);
}

/// Two builds with different uncommitted changes have the same commit, with `+`.
#[test]
fn another_program_of_the_same_commit_does_not_complete_it() {
    let dir = tempfile::tempdir().unwrap();
    let flags = ["--stores", "map", "--operations", "10", "--keys", "1000"];
    let mut run = result_of(dir.path(), &flags);
    let program = run.environment.program.expect("a program that can be read");
    run.finished = false;
    run.samples.pop();
    let resumed = |program: Option<u32>| {
        let mut run = run.clone();
        run.environment.program = program;
        fs::write(dir.path().join("result.json"), serde_json::to_vec(&run).unwrap()).unwrap();
        bench(dir.path(), &[&flags[..], &["--resume"]].concat())
    };
    let refused = resumed(Some(!program));
    assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
    assert!(stderr(&refused).contains("another build of kvbench"), "{}", stderr(&refused));
    // Results of older versions do not name their program.
    for known in [Some(program), None] {
        let output = resumed(known);
        assert!(output.status.success(), "{known:?}: {}", stderr(&output));
    }
}

/// The file of another program that measures a store may have changed, while this one has not.
#[test]
fn another_program_of_a_store_does_not_complete_it() {
    let dir = tempfile::tempdir().unwrap();
    let flags = ["--stores", "map", "--operations", "10", "--keys", "1000"];
    let mut run = result_of(dir.path(), &flags);
    assert!(run.environment.programs.is_empty(), "{:?}", run.environment.programs);
    run.environment.programs.insert("map".to_owned(), 1);
    fs::write(dir.path().join("result.json"), serde_json::to_vec(&run).unwrap()).unwrap();
    let refused = bench(dir.path(), &[&flags[..], &["--resume"]].concat());
    assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
    let expected = "another build of the program of a store";
    assert!(stderr(&refused).contains(expected), "{}", stderr(&refused));
}

/// A run that was killed leaves its keys on an external server. The flag that removes them, which the refusal names, does
/// not make the run another one.
#[test]
fn a_killed_run_of_a_target_is_completed_with_flush_target() {
    let (dir, data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = Server::start(data.path(), &["--path", ":memory:"]);
    let address = server.address.to_string();
    let flags = ["--target", &address, "--operations", "100", "--keys", "10", "--repetitions", "2"];
    assert!(bench(dir.path(), &flags).status.success());
    let mut run = read(dir.path());
    let all = run.samples.len();
    run.finished = false;
    run.samples.pop();
    fs::write(dir.path().join("result.json"), serde_json::to_vec(&run).unwrap()).unwrap();
    server.connect().call(&["SET", "left", "behind"]);
    let refused = bench(dir.path(), &[&flags[..], &["--resume"]].concat());
    assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
    assert!(
        stderr(&refused).contains("holds 1 keys; empty it, or add --flush-target"),
        "{}",
        stderr(&refused)
    );
    let output = bench(dir.path(), &[&flags[..], &["--resume", "--flush-target"]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let run = read(dir.path());
    assert!(run.finished && run.samples.len() == all);
}

/// A new run under a name of its own would not be the one that was asked for.
#[test]
fn without_a_result_there_is_nothing_to_resume() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("kvbench-custom-2.json"), "of somebody else").unwrap();
    for (words, prefix) in [
        (&["bench", "--stores", "map", "--resume"][..], "kvbench-custom"),
        (&["reproduce", "redb", "--stores", "map", "--resume"], "reproduce-redb"),
    ] {
        let output = Command::new(KVBENCH).current_dir(dir.path()).args(words).run_to_end();
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        let expected =
            format!("--resume: there is no {prefix}-*.json in the working directory; name the result file");
        assert!(stderr(&output).contains(&expected), "{}", stderr(&output));
        let words = [words, &["--output", "missing.json"]].concat();
        let output = Command::new(KVBENCH).current_dir(dir.path()).args(words).run_to_end();
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        let expected = "--resume: there is no missing.json; name the result file of the stopped run";
        assert!(stderr(&output).contains(expected), "{}", stderr(&output));
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing was started");
}

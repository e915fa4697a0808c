//! `kvbench check` and `kvbench repair`: what they find, what they say, and that they spoil nothing.

use crate::{
    program::{Ended, contents, run, serve},
    support::{KVBENCH, Server, stores, stores_that},
};
use kvbench::engine::Kind;
use std::{fs, path::Path, process::Command};

/// Some thousand keys, of which some thousand more were overwritten.
fn fill(dir: &Path, store: &str) {
    let server = serve(dir, &["--store", store, "--path", "data"]);
    let mut client = server.connect();
    let value = "v".repeat(100);
    for round in 0..20 {
        let mut args = vec!["MSET".to_owned()];
        for key in 0..500 {
            args.extend([format!("key {round} {key}"), format!("{round} {key} {value}")]);
        }
        client.call(&args);
    }
    // Some of it is in a file of its own in some stores.
    client.call(&["SET", "large", &"w".repeat(300_000)]);
    assert!(server.terminate().success());
}

fn check(dir: &Path, path: &str) -> Ended {
    let before = contents(dir);
    let ended = run(dir, &["check", path]);
    assert!(contents(dir) == before, "the check changed something");
    assert_eq!(ended.stderr, "");
    assert_eq!(ended.stdout.lines().count(), 1, "{}", ended.stdout);
    assert!(ended.stdout.starts_with(&format!("{path}: ")), "{}", ended.stdout);
    ended
}

fn has_log(store: &str) -> bool {
    Kind::find(store).unwrap().repair.is_some()
}

#[test]
fn sound_data_of_any_store_are_told_to_be() {
    for store in stores() {
        let dir = tempfile::tempdir().unwrap();
        fill(dir.path(), store);
        let ended = check(dir.path(), "data");
        assert_eq!(ended.status.code(), Some(0), "{store}: {}", ended.stdout);
        let holds = if has_log(store) { "records in" } else { "10001 keys" };
        assert!(
            ended.stdout.starts_with("data: sound: ") && ended.stdout.contains(holds),
            "{}",
            ended.stdout
        );
    }
}

#[test]
#[cfg(feature = "fjall")]
fn data_of_fjall_without_one_of_their_files_are_damaged() {
    for file in ["/lock", "/keyspaces/0/current"] {
        let dir = tempfile::tempdir().unwrap();
        fill(dir.path(), "fjall");
        let found = contents(dir.path()).into_keys().find(|path| path.ends_with(file));
        fs::remove_file(found.unwrap_or_else(|| panic!("no {file}"))).unwrap();
        let ended = check(dir.path(), "data");
        assert_eq!(ended.status.code(), Some(1), "{file}: {}", ended.stdout);
        assert!(ended.stdout.contains("a file of its data is missing or empty"), "{file}: {}", ended.stdout);
    }
}

#[test]
fn data_in_use_and_what_is_no_data_cannot_be_checked() {
    for store in stores() {
        let dir = tempfile::tempdir().unwrap();
        let server = serve(dir.path(), &["--store", store, "--path", "data"]);
        server.connect().call(&["SET", "k", "v"]);
        let ended = run(dir.path(), &["check", "data"]);
        assert_eq!(ended.status.code(), Some(2), "{store}: {}", ended.stdout);
        assert!(ended.stdout.contains("in use by another process; stop it first"), "{}", ended.stdout);
        if has_log(store) {
            let ended = run(dir.path(), &["repair", "data"]);
            assert_eq!(ended.status.code(), Some(1), "{store}: {}", ended.stderr);
            assert!(ended.stderr.contains("in use by another process; stop it first"), "{}", ended.stderr);
        }
    }
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("letter"), "Dear reader,\n").unwrap();
    for (path, text) in [("letter", "data of a store of this build"), ("missing", "No such file")] {
        let ended = check(dir.path(), path);
        assert_eq!(ended.status.code(), Some(2), "{}", ended.stdout);
        assert!(ended.stdout.contains(text), "{}", ended.stdout);
    }
}

/// A start takes such a file for an empty log.
#[test]
fn an_empty_file_is_sound() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("data"), "").unwrap();
    let ended = check(dir.path(), "data");
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stdout);
    assert!(ended.stdout.contains("an empty file"), "{}", ended.stdout);
}

/// The largest file of a store gets a hole in its midst.
#[test]
fn damaged_data_of_any_store_are_told_to_be() {
    // The others take it for the end of their log, and say of themselves that they do.
    for store in stores_that(|info| info.capabilities.finds_corruption) {
        let dir = tempfile::tempdir().unwrap();
        fill(dir.path(), store);
        let (file, mut bytes) =
            contents(dir.path()).into_iter().max_by_key(|(_, bytes)| bytes.len()).unwrap();
        let middle = bytes.len() / 2;
        // These have pages that are free, and no checksums: only the first stay, which tell of the others.
        let hole = match store {
            "lmdb" => 2 * 4096..bytes.len(),
            "mdbx" => 3 * 4096..bytes.len(),
            _ => middle - 40_000..middle + 40_000,
        };
        bytes[hole].fill(0xa5);
        fs::write(&file, bytes).unwrap();
        let ended = check(dir.path(), "data");
        assert_eq!(ended.status.code(), Some(1), "{store}: {}", ended.stdout);
        assert!(ended.stdout.starts_with("data: damaged: "), "{}", ended.stdout);
    }
}

#[test]
fn a_damaged_append_only_file_is_refused_checked_repaired_and_opened() {
    let dir = tempfile::tempdir().unwrap();
    fill(dir.path(), "map");
    let data = dir.path().join("data");
    let mut bytes = fs::read(&data).unwrap();
    let place = bytes.len() * 2 / 3;
    bytes[place] ^= 1;
    fs::write(&data, &bytes).unwrap();

    let refused = run(dir.path(), &["--store", "map", "--path", "data", "--port", "0"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(refused.stderr.contains("is corrupt at byte"), "{}", refused.stderr);
    assert!(refused.stderr.contains("restore a backup") && refused.stderr.contains("`kvbench repair "));
    assert!(refused.stderr.contains("cuts off everything from there"), "{}", refused.stderr);
    assert_eq!(check(dir.path(), "data").status.code(), Some(1));
    assert!(fs::read(&data).unwrap() == bytes);

    let repaired = run(dir.path(), &["repair", "data"]);
    assert_eq!(repaired.status.code(), Some(0), "{}", repaired.stderr);
    assert!(repaired.stdout.contains("damaged at byte ") && repaired.stdout.contains("data.removed-1\n"));
    let [left, removed] = ["data", "data.removed-1"].map(|name| fs::read(dir.path().join(name)).unwrap());
    assert!([left, removed].concat() == bytes, "nothing is lost");
    assert_eq!(check(dir.path(), "data").status.code(), Some(0));
    let server = serve(dir.path(), &["--store", "map", "--path", "data"]);
    let count = format!("{:?}", server.connect().call(&["DBSIZE"]));
    assert!(server.terminate().success());
    assert_ne!(count, "Integer(0)");

    let again = run(dir.path(), &["repair", "data"]);
    assert_eq!(again.status.code(), Some(0));
    assert!(again.stdout.contains("nothing to repair"), "{}", again.stdout);
    assert!(!dir.path().join("data.removed-2").exists());
}

/// A check and a start tell what the repair then does.
#[test]
fn a_damaged_first_line_is_rewritten_and_all_records_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    fill(dir.path(), "map");
    let data = dir.path().join("data");
    let sound = fs::read(&data).unwrap();
    let records = check(dir.path(), "data").stdout;
    let records = records.split_whitespace().nth(2).unwrap();
    let mut bytes = sound.clone();
    bytes[10] ^= 1;
    fs::write(&data, &bytes).unwrap();

    let checked = check(dir.path(), "data").stdout;
    let refused = run(dir.path(), &["--store", "map", "--path", "data", "--port", "0"]).stderr;
    for text in [&checked, &refused] {
        assert!(text.contains("rewrites the first line, keeps the records behind it"), "{text}");
        assert!(!text.contains("cuts off"), "{text}");
    }
    assert!(checked.contains(&format!("; {records} records behind it are whole")), "{records}: {checked}");
    let repaired = run(dir.path(), &["repair", "data"]).stdout;
    assert!(repaired.contains(&format!("repaired: {records} records")), "{repaired}");
    assert!(fs::read(&data).unwrap() == sound);
}

/// What a start says of a log with these bytes behind what was written.
fn said_of_a_log_with(dir: &Path, behind: &[u8]) -> String {
    let path = dir.join("data");
    fs::write(&path, [&fs::read(&path).unwrap(), behind].concat()).unwrap();
    let log = fs::File::create(dir.join("log")).unwrap();
    let mut command = Command::new(KVBENCH);
    command.args(["--store", "btree", "--path", "data", "--fsync", "always"]).current_dir(dir).stderr(log);
    let server = Server::start_command(&mut command);
    assert_eq!(format!("{:?}", server.connect().call(&["DBSIZE"])), "Integer(10001)");
    assert!(server.terminate().success());
    fs::read_to_string(dir.join("log")).unwrap()
}

#[test]
fn a_start_says_what_it_cuts_off() {
    let dir = tempfile::tempdir().unwrap();
    fill(dir.path(), "btree");
    let len = fs::metadata(dir.path().join("data")).unwrap().len();
    assert_eq!(said_of_a_log_with(dir.path(), b""), "");
    for behind in [&b"*3\r\n$3\r\nSET\r\n"[..], &[0; 4096], &[b'x'; 100_000]] {
        let said = said_of_a_log_with(dir.path(), behind);
        let text = format!("cut off the last {} bytes, from byte {len}; the log does not say", behind.len());
        assert!(said.contains(" WARN ") && said.contains(&text), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
    // What the log itself puts there is nothing to tell of.
    assert_eq!(said_of_a_log_with(dir.path(), &[b'#'; 4096]), "");
}

#[test]
fn other_stores_are_not_repaired() {
    for store in stores().filter(|store| !has_log(store)) {
        let dir = tempfile::tempdir().unwrap();
        fill(dir.path(), store);
        let before = contents(dir.path());
        let ended = run(dir.path(), &["repair", "data"]);
        assert_eq!(ended.status.code(), Some(1));
        assert!(ended.stderr.contains("restore a backup"), "{}", ended.stderr);
        assert!(contents(dir.path()) == before);
    }
}

#[test]
fn a_newer_format_is_named_by_the_start_the_check_and_the_repair() {
    let dir = tempfile::tempdir().unwrap();
    fill(dir.path(), "map");
    let data = dir.path().join("data");
    let mut bytes = fs::read(&data).unwrap();
    bytes["#KVBENCH:".len()] = b'4';
    fs::write(&data, &bytes).unwrap();
    let before = contents(dir.path());
    const NEWER: &str = "was written by a newer version of kvbench";
    let refused = run(dir.path(), &["--store", "map", "--path", "data", "--port", "0"]);
    assert!(refused.status.code() == Some(1) && refused.stderr.contains(NEWER), "{}", refused.stderr);
    let checked = check(dir.path(), "data");
    assert!(checked.status.code() == Some(2) && checked.stdout.contains(NEWER), "{}", checked.stdout);
    let repaired = run(dir.path(), &["repair", "data"]);
    assert!(repaired.status.code() == Some(1) && repaired.stderr.contains(NEWER), "{}", repaired.stderr);
    assert!(contents(dir.path()) == before);
}

/// A process that ends with the test.
#[cfg(feature = "sled")]
struct Killed(std::process::Child);

#[cfg(feature = "sled")]
impl Drop for Killed {
    fn drop(&mut self) {
        let _has_ended = self.0.kill();
    }
}

/// A pipe among the data holds up the copy of them until the signal comes.
#[test]
#[cfg(feature = "sled")]
fn copy_of_the_data_is_private_and_removed_at_a_signal() {
    use crate::support::PATIENCE;
    use rustix::process::{Pid, Signal, kill_process};
    use std::{
        os::unix::fs::PermissionsExt,
        thread,
        time::{Duration, Instant},
    };
    let dir = tempfile::tempdir().unwrap();
    fill(dir.path(), "sled");
    let made = Command::new("mkfifo").arg(dir.path().join("data/pipe")).status().unwrap();
    assert!(made.success());
    // SIGHUP has the effect of SIGTERM, also if this test runs under nohup.
    let env = if cfg!(target_os = "linux") { "env --default-signal=HUP" } else { "env" };
    let script = format!("umask 0 && exec {env} \"$0\" check data");
    for (signal, code) in
        [(Signal::INT, Some(130)), (Signal::TERM, Some(143)), (Signal::HUP, Some(143)), (Signal::KILL, None)]
    {
        let copies = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", &script, KVBENCH]).current_dir(dir.path());
        let mut process = Killed(command.env("TMPDIR", copies.path()).spawn().unwrap());
        let copy = || fs::read_dir(copies.path()).unwrap().next().map(|entry| entry.unwrap().path());
        let deadline = Instant::now() + PATIENCE;
        // The copy begins after the signals are caught.
        let copy = loop {
            match copy().filter(|copy| copy.join("data").exists()) {
                Some(copy) => break copy,
                None => assert!(Instant::now() < deadline, "nothing is copied"),
            }
            thread::sleep(Duration::from_millis(1));
        };
        assert_eq!(fs::metadata(&copy).unwrap().permissions().mode() & 0o777, 0o700);
        let predictable = format!("kvbench-check-{}", process.0.id());
        assert_ne!(copy.file_name().unwrap().to_str(), Some(&*predictable));
        kill_process(Pid::from_child(&process.0), signal).unwrap();
        assert_eq!(process.0.wait().unwrap().code(), code);
        assert_eq!(copy.exists(), code.is_none());
    }
}

//! `kvbench torture`: that it finds losses where there are some, and none where there are none.
//!
//! All but the kills need /dev/fuse, and root or fusermount3; `tools/setup test` sees to the latter.

use crate::{
    seed,
    support::{KVBENCH, Program, RunToEnd, Server, stores, wait_until},
};
use kvbench::{
    engine::{Fsync, Kind, Loss},
    torture::{
        disk::{Cut, Disk, DiskImage},
        results::{ResultRow, Results},
    },
};
use rand::{SeedableRng, rngs::SmallRng};
use redis_protocol::resp2::types::OwnedFrame;
use rustix::process::{Pid, Signal, kill_process};
use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

/// Every kind of file that a program may believe to be safe, and some that it may not.
const WRITES: &str = r#"
import ctypes, mmap, os, sys
os.chdir(sys.argv[1])
libc = ctypes.CDLL(None, use_errno=True)
NAMES = "plain fsync fdatasync dsync sync rwf mapped msync range truncated".split()
for name in NAMES:
    with open(name, "wb") as file:
        file.write(b"old" * 4096)
        file.flush()
        os.fsync(file.fileno())
os.mkdir("sub")
open("gone", "wb").close()
os.link("plain", "second")
dir = os.open(".", os.O_RDONLY)
os.fsync(dir)
def write(name, flags=0):
    fd = os.open(name, os.O_RDWR | flags)
    os.pwrite(fd, b"new", 5000)
    return fd
write("plain")
os.fsync(write("fsync"))
os.fdatasync(write("fdatasync"))
write("dsync", os.O_DSYNC)
write("sync", os.O_SYNC)
os.pwritev(os.open("rwf", os.O_RDWR), [b"new"], 5000, os.RWF_DSYNC)
fd = write("range")
assert libc.sync_file_range(fd, ctypes.c_int64(0), ctypes.c_int64(0), 7) == 0
for name in "mapped", "msync":
    map = mmap.mmap(os.open(name, os.O_RDWR), 0)
    map[5000:5003] = b"new"
    if name == "msync":
        map.flush()
os.truncate("truncated", 1)
# Names that no sync of their directory follows.
os.rename("plain", "moved")
os.unlink("gone")
fd = os.open("created", os.O_CREAT | os.O_WRONLY)
os.write(fd, b"x")
os.fsync(fd)
assert sorted(os.listdir(".")) == sorted([n for n in NAMES if n != "plain"] + ["sub", "second", "moved", "created"])
"#;

#[test]
fn the_disk_keeps_what_was_synced_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk::mount(DiskImage::default(), &dir.path().join("mount")).unwrap();
    let output = Command::new("python3").args(["-c", WRITES]).arg(dir.path().join("mount")).run_to_end();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let left = disk.cut(Cut::Drop, &mut SmallRng::seed_from_u64(1));
    drop(disk);
    left.export(&dir.path().join("left")).unwrap();
    let read = |name: &str| fs::read(dir.path().join("left").join(name)).unwrap();
    for name in ["plain", "second", "mapped", "range", "truncated"] {
        assert!(read(name) == b"old".repeat(4096), "{name} is as it was");
    }
    for name in ["fsync", "fdatasync", "dsync", "sync", "rwf", "msync"] {
        assert_eq!(read(name)[5000..5003], *b"new", "{name}");
        assert_eq!(read(name).len(), 3 * 4096, "{name}");
    }
    let left = |name: &str| dir.path().join("left").join(name).exists();
    assert!(left("sub") && left("gone") && !left("moved") && !left("created"));
}

/// A store that serves has all of itself on the disk, also at its very first start.
#[test]
fn a_power_cut_after_a_start_leaves_a_store_that_opens() {
    for store in stores() {
        let dir = tempfile::tempdir().unwrap();
        let disk = Disk::mount(DiskImage::default(), &dir.path().join("mount")).unwrap();
        let start = |place: &Path| Server::start(place, &["--store", store, "--path", "data"]);
        let server = start(&dir.path().join("mount"));
        let mut rng = SmallRng::seed_from_u64(1);
        // The same moment again and again: what a cut leaves is drawn, unless it leaves nothing that is unsynced.
        for number in 0..27 {
            let cut = if number == 0 { Cut::Drop } else { [Cut::Pages, Cut::Torn][number % 2] };
            let left = disk.cut(cut, &mut rng);
            let place = dir.path().join(number.to_string());
            left.export(&place).unwrap();
            assert_eq!(start(&place).connect().call(&["DBSIZE"]), OwnedFrame::Integer(0), "{store}");
        }
        server.kill();
    }
}

#[test]
fn a_kill_costs_no_store_an_acknowledged_write() {
    for store in stores() {
        passes("kill", 2, &["--store", store]);
    }
}

/// The stores that promise to survive a power cut.
fn durable_stores() -> impl Iterator<Item = &'static str> {
    stores().filter(|store| Kind::find(store).unwrap().info.loss(Fsync::Always) == Loss::NOTHING)
}

/// Beside power cuts, which are followed by another boot of the machine.
#[test]
fn a_kill_is_no_other_boot_of_the_machine() {
    for store in ["mdbx", "lmdb"].into_iter().filter(|name| stores().any(|store| store == *name)) {
        let dir = tempfile::tempdir().unwrap();
        let (cell, output) = torture(dir.path(), "kill,power", 2, &["--store", store, "--fsync", "no"]);
        assert!(cell.mode == "kill" && cell.failed.is_empty(), "{output:?}");
    }
}

#[test]
fn a_power_cut_costs_no_store_an_acknowledged_write() {
    for store in durable_stores() {
        passes("power", 2, &["--store", store]);
    }
}

#[test]
fn a_full_disk_costs_no_store_an_acknowledged_write() {
    for store in durable_stores() {
        assert!(meets_errors("full", store), "{store}: the disk was not full");
    }
}

#[test]
fn a_failing_disk_costs_no_store_an_acknowledged_write() {
    for store in durable_stores() {
        assert!(meets_errors("eio", store), "{store}: the disk did not fail");
    }
}

/// What is under test from here on is the torture.
#[test]
fn a_power_cut_takes_what_was_acknowledged_unsynced() {
    for store in stores() {
        let is_lost = (0..4).any(|_| {
            let dir = tempfile::tempdir().unwrap();
            let args = ["--store", store, "--fsync", "no", "--cut", "drop"];
            torture(dir.path(), "power", 1, &args).0.lost > 0
        });
        assert!(is_lost, "{store}: no round lost a write");
    }
}

#[test]
#[cfg(feature = "sled")]
fn a_power_cut_finds_out_that_flush_of_sled_is_no_sync() {
    finds_losses("power", 3, &["--store", "sled-flush-only"]);
}

#[test]
fn a_power_cut_takes_from_redis_server_without_appendfsync() {
    finds_losses("power", 3, &redis("no"));
}

#[test]
fn a_power_cut_takes_nothing_from_redis_server_with_appendfsync_always() {
    passes("power", 3, &redis("always"));
}

#[test]
fn a_failed_round_remains_and_tells_how_to_play_it_again() {
    let dir = tempfile::tempdir().unwrap();
    // On a busy machine a round may end before a write is lost.
    let mut rounds = (0..5).map(|_| torture(dir.path(), "power", 1, &redis("no")));
    let (cell, output) = rounds.find(|(cell, _)| !cell.failed.is_empty()).unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let again = said.lines().find_map(|line| line.strip_prefix("again: ")).unwrap();
    assert!(again.contains(&format!("--seed {} -- redis-server", cell.failed[0])), "{said}");
    let kept = said.lines().find_map(|line| line.strip_prefix("kept: ")).unwrap();
    assert!(fs::read_to_string(Path::new(kept).join("fault.txt")).unwrap().contains("are lost"));
    assert!(Path::new(kept).join("data/appendonlydir").is_dir());
    assert!(again.starts_with(&format!("{KVBENCH} torture ")), "{said}");
    let script = format!("exec {again}");
    let mut again = Command::new("sh");
    again.args(["-c", &script]).current_dir(dir.path());
    assert!((0..5).any(|_| again.run_to_end().status.code() == Some(1)));
}

fn redis(appendfsync: &str) -> Vec<&str> {
    // Its log has no checksums: of what was being written, pages that remain are taken for whole.
    let flags = ["--cut", "drop", "--", "redis-server", "--port", "{port}", "--dir", "{dir}"];
    let more = ["--save", "", "--appendonly", "yes", "--appendfsync", appendfsync];
    flags.into_iter().chain(more).collect()
}

/// Runs up to five rounds in which nothing may be lost. Returns `true` if in one of them writes were acknowledged and
/// writes were refused: in a round the errors may begin before the first acknowledgement, or after the last write.
fn meets_errors(mode: &str, store: &str) -> bool {
    (0..5).any(|_| {
        let cell = loses_nothing(mode, 1, &["--store", store]);
        cell.refused > 0 && cell.acknowledged > 0
    })
}

/// SIGINT and SIGTERM leave the results of the finished rounds, and nothing else.
#[test]
fn a_signal_ends_a_crash_test_without_leaving_files() {
    for (signal, name, code, mode) in
        [(Signal::INT, "SIGINT", 130, "kill"), (Signal::TERM, "SIGTERM", 143, "power")]
    {
        let dir = tempfile::tempdir().unwrap();
        let mut command = Command::new(KVBENCH);
        command
            .current_dir(dir.path())
            .args(["torture", "--mode", mode, "--rounds", "1000", "--dir", "rounds"]);
        command.args(["--store", "map", "--output", "result.json"]);
        let test = Program::start(&mut command);
        wait_until("two rounds have ended", || {
            Results::read(&dir.path().join("result.json")).is_ok_and(|results| results.cells[0].rounds > 1)
        });
        kill_process(Pid::from_child(&test.process), signal).unwrap();
        let output = test.output();
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        let (said, error) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(error.contains(&format!("stopped by {name}")), "{error}");
        let rounds = Results::read(&dir.path().join("result.json")).unwrap().cells[0].rounds;
        assert!(said.contains(&format!(": {rounds} rounds, ")), "{said}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "the result file only");
    }
}

/// Between the choice of a port and the start of the server another process can take the port.
#[test]
fn a_server_whose_port_was_taken_is_started_at_another_one() {
    let dir = tempfile::tempdir().unwrap();
    let taken = dir.path().join("taken-once");
    let script = "if mkdir $0; then echo 'bind: Address already in use'; exit 1; fi; \
                  exec $1 --store map --fsync always --port {port} --path {dir}/data";
    passes("kill", 1, &["--", "sh", "-c", script, taken.to_str().unwrap(), KVBENCH]);
    assert!(taken.exists());
}

/// Runs rounds in which writes are acknowledged and nothing may be lost. A load may end before the first acknowledgement on a
/// slow machine.
fn passes(mode: &str, rounds: u64, args: &[&str]) {
    assert!((0..5).any(|_| loses_nothing(mode, rounds, args).acknowledged > 0), "nothing was acknowledged");
}

/// Runs rounds in which nothing may be lost.
fn loses_nothing(mode: &str, rounds: u64, args: &[&str]) -> ResultRow {
    let dir = tempfile::tempdir().unwrap();
    let (cell, output) = torture(dir.path(), mode, rounds, args);
    assert!(output.status.success() && cell.failed.is_empty(), "{output:?}");
    assert_eq!((cell.rounds, cell.lost), (rounds, 0));
    assert!(cell.strikes >= rounds, "{cell:?}");
    cell
}

/// Runs rounds in which nothing may be lost, until a write is. A store that does not open after a power cut
/// fails its round without a count of lost writes.
fn finds_losses(mode: &str, rounds: u64, args: &[&str]) {
    let has_lost = (0..5).any(|_| {
        let dir = tempfile::tempdir().unwrap();
        let (cell, output) = torture(dir.path(), mode, rounds, args);
        assert_eq!(output.status.code(), Some(i32::from(!cell.failed.is_empty())), "{output:?}");
        cell.lost > 0
    });
    assert!(has_lost, "no acknowledged write was lost");
}

fn torture(dir: &Path, mode: &str, rounds: u64, args: &[&str]) -> (ResultRow, Output) {
    let result = dir.join("result.json");
    let mut command = Command::new(KVBENCH);
    command.current_dir(dir).args(["torture", "--mode", mode, "--rounds", &rounds.to_string()]);
    command.args(["--seed", &(seed() as u32).to_string(), "--output"]).arg(&result).args(args);
    let output = command.run_to_end();
    let results = Results::read(&result).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    (results.cells.into_iter().next().unwrap(), output)
}

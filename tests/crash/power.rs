//! Power cuts at moments at which all acknowledged writes are on stable storage: after a merge, after a rewrite of the
//! log, and after an orderly end.

use crate::{
    faults::{args, everything_is_there, fill, key, ok, value, wait_for_misconf},
    injected::Injected,
    support::{Client, Server, stores, wait_until},
};
use kvbench::{
    engine::{Fsync, Kind, LossClass},
    torture::disk::{Cut, Disk, DiskImage, InjectedFault},
};
use rand::{SeedableRng, rngs::SmallRng};
use redis_protocol::resp2::types::OwnedFrame;
use std::{
    fs,
    ops::Range,
    path::{Path, PathBuf},
};
use tempfile::TempDir;

/// Keys that are set before a merge, a rewrite or an end begins.
const KEYS: usize = 50;

/// The first sync of a log by each thread takes two seconds. Directories are synced by `fsync`.
const SLOW_SYNCS: &str = "-e trace=fdatasync -e inject=fdatasync:delay_enter=2s:when=1";

/// A simulated disk, mounted below a directory of its own.
struct Mounted {
    disk: Disk,
    dir: TempDir,
}

impl Mounted {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let disk = Disk::mount(DiskImage::default(), &dir.path().join("mount")).unwrap();
        Self { disk, dir }
    }

    fn mount(&self) -> PathBuf {
        self.dir.path().join("mount")
    }

    /// Copies the files of the disk, which this process must not open, to a directory, and returns its path.
    fn look(&self) -> PathBuf {
        let look = self.dir.path().join("look");
        let _none_before = fs::remove_dir_all(&look);
        self.disk.contents().export(&look).unwrap();
        look
    }

    /// Cuts the power, which drops all unsynced bytes and names. Returns the path of a directory with what is left.
    fn cut(&self) -> PathBuf {
        let place = self.dir.path().join("left");
        self.disk.cut(Cut::Drop, &mut SmallRng::seed_from_u64(1)).export(&place).unwrap();
        place
    }
}

fn set(client: &mut Client, keys: Range<usize>) {
    for n in keys {
        assert_eq!(client.call(&[b"SET", key(n).as_bytes(), &value(n)]), ok());
    }
}

/// Starts a merge or a rewrite, once the one before has ended.
fn rewrite(client: &mut Client) {
    wait_until("the rewrite before does not end", || match client.call(&["BGREWRITEAOF"]) {
        OwnedFrame::Error(error) => {
            assert!(error.contains("already rewriting"), "{error}");
            false
        }
        _ => true,
    });
}

/// The first line of the log, which has a number of each file.
fn first_line(look: &Path) -> Vec<u8> {
    fs::read(look.join("data")).unwrap()[..30].to_vec()
}

fn numbers(keys: Range<usize>) -> Vec<usize> {
    keys.collect()
}

#[test]
fn a_power_cut_after_a_merge_finds_the_values_that_it_moved() {
    let (store, fsync) = ("bitcask", Fsync::Always);
    let mounted = Mounted::new();
    let server = Server::start(&mounted.mount(), &args(store, fsync));
    let mut client = server.connect();
    set(&mut client, 0..KEYS);
    let has_first = || mounted.look().join("data/0000000001.segment").exists();
    assert!(has_first());
    rewrite(&mut client);
    wait_until("the merged segment is not removed", || !has_first());
    let left = mounted.cut();
    server.kill();
    everything_is_there(&left, store, fsync, &numbers(0..KEYS));
}

/// The write is in the old log, synced, and is copied to the new one behind the last sync but one.
#[test]
fn a_power_cut_after_a_rewrite_finds_the_write_that_came_during_it() {
    let (store, fsync) = ("map", Fsync::Always);
    let mounted = Mounted::new();
    let args = ["--store", store, "--path", "mount/data", "--fsync", fsync.as_str()];
    let injected = Injected::start(mounted.dir.path(), &args);
    let mut client = injected.server.connect();
    set(&mut client, 0..KEYS);
    injected.begin(SLOW_SYNCS);
    let before = first_line(&mounted.look());
    let scanned = (KEYS * value(0).len()) as u64;
    rewrite(&mut client);
    // The new log has all keys and is being synced; on a very busy machine it may have replaced the old one already.
    wait_until("the log is not rewritten", || {
        let look = mounted.look();
        let is_scanned = fs::metadata(look.join("data.rewrite")).is_ok_and(|fresh| fresh.len() > scanned);
        is_scanned || first_line(&look) != before
    });
    set(&mut client, KEYS..KEYS + 1);
    // The next rewrite starts once the name is durable. It changes nothing until its first sync, which is slow.
    rewrite(&mut client);
    let left = mounted.cut();
    drop((client, injected));
    everything_is_there(&left, store, fsync, &numbers(0..KEYS + 1));
}

/// As the last line of the server's log says.
#[test]
fn a_power_cut_after_an_orderly_end_loses_nothing() {
    for fsync in [Fsync::EverySec, Fsync::No] {
        for store in stores() {
            let mounted = Mounted::new();
            fill(&mounted.mount(), store, fsync, 0..KEYS);
            everything_is_there(&mounted.cut(), store, fsync, &numbers(0..KEYS));
        }
    }
}

/// A kernel whose sync has failed still has the pages, but counts them as written, and the next start must not rely on them.
/// Stores that do not recover by themselves leave a mark, because of which the start removes them from the page cache.
#[test]
fn a_power_cut_after_a_failed_sync_and_a_restart_loses_no_later_write() {
    for fsync in [Fsync::Always, Fsync::EverySec] {
        for store in stores().filter(|store| keeps_all(store)) {
            restart_after_a_failed_sync(store, fsync);
        }
    }
}

/// Lets a sync fail, kills the server, starts it again, writes, and cuts the power.
fn restart_after_a_failed_sync(store: &str, fsync: Fsync) {
    let recovers = Kind::find(store).unwrap().info.capabilities.recovers_failed_syncs;
    let mounted = Mounted::new();
    let server = Server::start(&mounted.mount(), &args(store, fsync));
    let mut client = server.connect();
    set(&mut client, 0..KEYS);
    let synced = client.call(&["WAITAOF", "1", "0", "10000"]);
    let is_synced = matches!(&synced, OwnedFrame::Array(counts) if counts[0] == OwnedFrame::Integer(1));
    assert!(is_synced, "{store}: {synced:?}");
    let mut failing = InjectedFault::default();
    failing.syncs = true;
    mounted.disk.trouble(failing);
    let unsynced = if fsync == Fsync::EverySec && recovers { KEYS..KEYS + 1 } else { 0..0 };
    set(&mut client, unsynced.clone());
    wait_for_misconf(&mut client, store, fsync);
    mounted.disk.trouble(InjectedFault::default());
    server.kill();
    let is_marked = || mounted.look().join("data.sync-failed").exists();
    assert_eq!(is_marked(), !recovers, "{store} {fsync}");
    if is_marked() {
        mounted.disk.evict();
    }
    let server = Server::start(&mounted.mount(), &args(store, Fsync::Always));
    assert!(!is_marked(), "{store} {fsync}");
    set(&mut server.connect(), 2 * KEYS..3 * KEYS);
    let left = mounted.cut();
    server.kill();
    let kept = (0..KEYS).chain(unsynced).chain(2 * KEYS..3 * KEYS).collect::<Vec<_>>();
    everything_is_there(&left, store, Fsync::Always, &kept);
}

/// Returns `true` if the store loses nothing in a power cut under `always`.
fn keeps_all(store: &str) -> bool {
    Kind::find(store).unwrap().info.loss(Fsync::Always).power_cut.extent == LossClass::Nothing
}

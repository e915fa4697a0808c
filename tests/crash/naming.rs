//! A power cut between the rename of a rewritten log and the sync of its directory.

use crate::{
    injected::Injected,
    support::{Client, PATIENCE, Server},
};
use kvbench::torture::disk::{Cut, Disk, DiskImage};
use rand::{SeedableRng, rngs::SmallRng};
use redis_protocol::resp2::types::OwnedFrame;
use std::{
    fs,
    path::Path,
    thread,
    time::{Duration, Instant},
};

/// Directories are synced by `fsync`, logs by `fdatasync`: no sync of a directory ends before the test does.
const NO_DIRECTORY: &str = "-e trace=fsync -e inject=fsync:delay_enter=600000000";

/// The first line of the log on the disk, which has a number of each file, when no rewrite runs.
fn first_line(disk: &Disk, dir: &Path) -> Option<Vec<u8>> {
    let look = dir.join("look");
    let _none_before = fs::remove_dir_all(&look);
    disk.contents().export(&look).unwrap();
    let is_whole = !look.join("data.rewrite").exists();
    is_whole.then(|| fs::read(look.join("data")).unwrap()[..30].to_vec())
}

/// Rewrites the log and returns while its new name is not durable, with its old first line.
fn rewrite(client: &mut Client, disk: &Disk, dir: &Path) -> Vec<u8> {
    let before = first_line(disk, dir).unwrap();
    client.call(&["BGREWRITEAOF"]);
    let deadline = Instant::now() + PATIENCE;
    while first_line(disk, dir).is_none_or(|line| line == before) {
        assert!(Instant::now() < deadline, "the log is not rewritten");
        thread::sleep(Duration::from_millis(1));
    }
    before
}

/// What these requests promise to be durable is there after the cut.
#[test]
fn power_cut_after_a_sync_during_a_rename_loses_nothing() {
    for (request, reply) in [
        (&["WAITAOF", "1", "0", "0"][..], OwnedFrame::Array([1, 0].map(OwnedFrame::Integer).into())),
        (&["CONFIG", "SET", "appendfsync", "always"], OwnedFrame::SimpleString(b"OK".into())),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let disk = Disk::mount(DiskImage::default(), &dir.path().join("mount")).unwrap();
        let args = ["--store", "map", "--path", "mount/data", "--fsync", "no"];
        let injected = Injected::start(dir.path(), &args);
        let mut client = injected.server.connect();
        injected.begin(NO_DIRECTORY);
        client.call(&["SET", "key", "value"]);
        let before = rewrite(&mut client, &disk, dir.path());
        assert_eq!(client.call(request), reply);
        let left = disk.cut(Cut::Drop, &mut SmallRng::seed_from_u64(1));
        drop((client, injected));
        let place = dir.path().join("left");
        left.export(&place).unwrap();
        assert_eq!(fs::read(place.join("data")).unwrap()[..30], before, "the new name was durable already");
        let server = Server::start(&place, &["--store", "map", "--path", "data"]);
        let value = server.connect().call(&["GET", "key"]);
        assert_eq!(value, OwnedFrame::BulkString(b"value".into()), "{request:?}");
    }
}

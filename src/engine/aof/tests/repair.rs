//! Tests of `kvbench check` and `kvbench repair` on an AOF: reports, results and files.

use super::*;
use crate::{engine::CheckReport, testing::engine_case::names};
use std::os::unix::fs::PermissionsExt;

/// Creates an AOF with these bytes in a temporary directory. Returns the directory, which is removed on drop, and
/// the path.
fn file(bytes: &[u8]) -> (tempfile::TempDir, PathBuf) {
    let (directory, path) = scratch();
    fs::write(&path, bytes).unwrap();
    (directory, path)
}

fn check(path: &Path) -> Result<CheckReport> {
    when_unlocked(|| super::check("test", path))
}

fn repair(path: &Path) -> Result<Repaired> {
    when_unlocked(|| super::repair("test", path))
}

#[test]
fn a_sound_log_is_left_alone() {
    let mut torn = Image::synced_sample();
    torn.append(&batch(&[put(b"a", b"b")]));
    let whole = Image::synced_sample().bytes;
    for bytes in [&whole[..], &[&whole[..], &[frame::PADDING; 500]].concat(), &torn.bytes] {
        let (directory, path) = file(bytes);
        let sound = check(&path).unwrap();
        assert!(sound.remark.is_none() && sound.holds.contains("records in"), "{sound:?}");
        assert!(sound.holds.contains("on stable storage up to byte"), "{sound:?}");
        let done = repair(&path).unwrap();
        assert!(done.damage.is_empty(), "{done:?}");
        let left = fs::read(&path).unwrap();
        assert!(bytes.starts_with(&left) && bytes[left.len()..].iter().all(|&byte| byte == frame::PADDING));
        assert!(done.removed.len() == names(directory.path()).len() - 1);
    }
    let (_directory, path) = file(&torn.bytes[..torn.bytes.len() - 1]);
    let remark = check(&path).unwrap().remark.unwrap();
    assert!(remark.contains("the next start cuts them off"), "{remark}");
}

#[test]
fn a_log_in_use_is_neither_checked_nor_repaired() {
    let (_directory, path) = scratch();
    let (log, _) = open(&path).unwrap();
    assert!(matches!(super::check("test", &path), Err(Error::Locked { .. })));
    assert!(matches!(super::repair("test", &path), Err(Error::Locked { .. })));
    log.close().unwrap();
    check(&path).unwrap();
}

/// Wherever an AOF is corrupt, the repaired AOF opens with the batches before it, and the two files together hold
/// all of the old bytes.
#[test]
fn a_repair_keeps_what_it_takes_out() {
    let image = Image::synced_sample();
    for at in (frame::START..image.bytes.len() - HEADER).step_by(5) {
        let mut damaged = image.bytes.clone();
        damaged[at] ^= 1;
        let (directory, path) = file(&damaged);
        let text = check(&path).unwrap_err().to_string();
        assert!(text.contains("is corrupt at byte") && text.contains("before are whole"), "{text}");
        assert!(fs::read(&path).unwrap() == damaged && names(directory.path()).len() == 1);
        let done = repair(&path).unwrap();
        assert_eq!(names(directory.path()), ["log.aof", "log.aof.removed-1"]);
        let [left, removed] = [&path, &done.removed[0]].map(|path| fs::read(path).unwrap());
        assert!([left, removed].concat() == damaged, "byte {at}");
        let (_, expected) = image.places.iter().rfind(|(end, _)| *end <= at).unwrap();
        assert_eq!(&open(&path).unwrap().1, expected, "byte {at}");
        assert!(repair(&path).unwrap().damage.is_empty());
    }
}

#[test]
fn removed_part_of_a_log_is_as_private_as_the_log() {
    for mode in [0o600, 0o640] {
        let mut damaged = Image::synced_sample().bytes;
        damaged[frame::START] ^= 1;
        let (_directory, path) = file(&damaged);
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let done = repair(&path).unwrap();
        assert_eq!(fs::metadata(&done.removed[0]).unwrap().permissions().mode() & 0o777, mode);
    }
}

#[test]
fn a_repair_overwrites_nothing_of_an_earlier_one() {
    let image = Image::synced_sample();
    let (directory, path) = file(&image.bytes);
    fs::write(path.with_extension("aof.removed-1"), "precious").unwrap();
    let mut damaged = image.bytes.clone();
    damaged[100] ^= 1;
    fs::write(&path, damaged).unwrap();
    let done = repair(&path).unwrap();
    assert!(done.removed[0].ends_with("log.aof.removed-2"), "{done:?}");
    assert_eq!(fs::read(directory.path().join("log.aof.removed-1")).unwrap(), b"precious");
}

#[test]
fn a_damaged_first_line_costs_nothing() {
    let image = Image::synced_sample();
    for at in 0..frame::START {
        let mut damaged = image.bytes.clone();
        damaged[at] ^= 0x10;
        let (_directory, path) = file(&damaged);
        let done = repair(&path).unwrap();
        assert_eq!((done.damage.len(), done.removed.len()), (1, 1), "byte {at}");
        assert!(fs::read(&path).unwrap() == image.bytes, "byte {at}");
        assert_eq!(fs::read(&done.removed[0]).unwrap(), damaged[..frame::START]);
    }
}

#[test]
fn a_log_of_redis_is_repaired_too() {
    let good = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n".as_slice();
    let (_directory, path) = file(&[good, b"XX", good].concat());
    assert!(check(&path).unwrap_err().is_corruption());
    let done = repair(&path).unwrap();
    assert_eq!((done.records, done.len), (1, good.len() as u64));
    assert_eq!(fs::read(&path).unwrap(), good);
    assert_eq!(fs::read(&done.removed[0]).unwrap(), [b"XX", good].concat());
    assert!(check(&path).unwrap().holds.contains("a log of Redis"));
}

/// An AOF whose start line has a higher format number is not corrupt, but neither opened, checked nor repaired, and
/// not changed.
#[test]
fn log_of_a_newer_format_is_neither_opened_nor_repaired() {
    let mut next = Image::synced_sample().bytes;
    next[frame::START_TAG.len()] = b'4';
    let plain = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n".as_slice();
    for (bytes, format) in [
        (next, "4"),
        (b"#KVBENCH:10:0000:lz4\nanything".to_vec(), "10"),
        // The start line is behind an AOF without frames.
        ([plain, b"#KVBENCH:7:feedbeef:00000000\r\n\0\0\0"].concat(), "7"),
    ] {
        let (directory, path) = file(&bytes);
        assert!(recognise(&path));
        let errors = [
            open(&path).map(drop).unwrap_err(),
            check(&path).map(drop).unwrap_err(),
            repair(&path).map(drop).unwrap_err(),
        ];
        for error in errors {
            let text = error.to_string();
            assert!(text.contains("written by a newer version of kvbench"), "{text}");
            assert!(text.contains(&format!("format {format}")) && !error.is_corruption(), "{text}");
        }
        assert!(fs::read(&path).unwrap() == bytes && names(directory.path()).len() == 1);
    }
}

/// A start line with a number that no format ever had is corrupt, not of a newer format.
#[test]
fn damaged_format_number_is_corruption() {
    for number in [b'1', b'x', b' '] {
        let mut bytes = Image::synced_sample().bytes;
        bytes[frame::START_TAG.len()] = number;
        let (_directory, path) = file(&bytes);
        assert!(check(&path).unwrap_err().is_corruption());
        assert_eq!(repair(&path).unwrap().damage.len(), 1);
    }
}

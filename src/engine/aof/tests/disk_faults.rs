//! Tests of an AOF on full disks and with I/O errors.

use super::{
    redis_logs::{ENDS_IN_DATABASE_3, appended_to_database_3},
    *,
};
use io::ErrorKind;

/// File that takes `room` more bytes, then fails with `kind`; syncs fail if `no_sync`, truncations if `no_cut`.
/// `after_check` is called after each check of the file's path.
struct Faulty {
    file: Arc<dyn Storage>,
    room: Mutex<usize>,
    kind: ErrorKind,
    no_sync: AtomicBool,
    no_cut: AtomicBool,
    after_check: Mutex<Box<dyn FnMut() + Send>>,
}

impl Storage for Faulty {
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut room = self.room.lock().unwrap();
        let taken = bytes.len().min(*room);
        *room -= taken;
        self.file.write_all_at(&bytes[..taken], offset)?;
        if taken < bytes.len() { Err(self.kind.into()) } else { Ok(()) }
    }

    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(bytes, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        if self.no_cut.load(Ordering::Relaxed) {
            Err(ErrorKind::Other.into())
        } else {
            self.file.set_len(len)
        }
    }

    fn sync_data(&self) -> io::Result<()> {
        if self.no_sync.load(Ordering::Relaxed) {
            Err(ErrorKind::Other.into())
        } else {
            self.file.sync_data()
        }
    }

    fn unlock(&self) -> io::Result<()> {
        self.file.unlock()
    }

    fn is_at(&self, path: &Path) -> Result<bool> {
        let is_at = self.file.is_at(path);
        (self.after_check.lock().unwrap())();
        is_at
    }
}

/// Opens the AOF at `path`; its writes fail with `kind` after `room` more bytes. Also returns the faults, to be
/// changed.
fn open_faulty(path: &Path, room: usize, kind: ErrorKind) -> (Aof, Arc<Faulty>) {
    let (log, _) = open(path).unwrap();
    let faulty = Arc::new(Faulty {
        file: log.current().storage,
        room: Mutex::new(room),
        kind,
        no_sync: AtomicBool::new(false),
        no_cut: AtomicBool::new(false),
        after_check: Mutex::new(Box::new(|| ())),
    });
    log.lock_current().storage = Arc::clone(&faulty) as _;
    (log, faulty)
}

/// Appends the batch. Returns the result, and `true` if the callback that applies the batch was called.
fn append(log: &Aof, batch: &Batch<'_>, sync: bool) -> (Result<()>, bool) {
    let mut applied = false;
    let result = log.append(batch, sync, || applied = true);
    (result, applied)
}

fn assert_refuses(log: &Aof) {
    let (result, applied) = append(log, &batch(&[put(b"later", b"1")]), false);
    let text = result.unwrap_err().to_string();
    assert!(text.contains("refused since an earlier failure"), "{text}");
    assert!(!applied);
    assert!(log.sync().is_err(), "a sync after the failure succeeded");
    assert!(log.rewrite(|_| false).is_err(), "a rewrite after the failure succeeded");
}

#[test]
fn a_full_disk_undoes_the_batch_and_no_more() {
    for kind in [ErrorKind::StorageFull, ErrorKind::QuotaExceeded, ErrorKind::FileTooLarge] {
        for room in [0, 1, 40, 100] {
            let (_directory, path) = scratch();
            let (log, faulty) = open_faulty(&path, usize::MAX, kind);
            append(&log, &batch(&[put(b"a", b"1"), put(b"b", b"2")]), true).0.unwrap();
            let mut before = fs::read(&path).unwrap();
            before.truncate(log.len() as usize);
            *faulty.room.lock().unwrap() = room;
            let (result, applied) =
                append(&log, &batch(&[put(b"c", &[b'v'; 50]), put(b"d", &[b'v'; 50])]), false);
            let error = result.unwrap_err();
            assert!(matches!(error, Error::Full { .. }) && error.is_rolled_back(), "{error}");
            assert!(!applied);
            assert_eq!(fs::read(&path).unwrap(), before);

            *faulty.room.lock().unwrap() = usize::MAX;
            append(&log, &batch(&[put(b"e", b"5")]), true).0.unwrap();
            log.close().unwrap();
            assert_eq!(open(&path).unwrap().1.keys().collect::<Vec<_>>(), [b"a", b"b", b"e"]);
        }
    }
}

/// A batch that fails between two of its frames, because the disk is full, leaves none of them in the file.
#[test]
fn a_disk_that_fills_up_between_two_pieces_undoes_the_batch() {
    let (_directory, path) = scratch();
    let (log, faulty) = open_faulty(&path, usize::MAX, ErrorKind::StorageFull);
    append(&log, &batch(&[put(b"a", b"1")]), true).0.unwrap();
    let mut before = fs::read(&path).unwrap();
    before.truncate(log.len() as usize);
    let (value, keys) = (vec![b'v'; 1000], (0..4000u32).map(u32::to_be_bytes).collect::<Vec<_>>());
    let large: Vec<_> = keys.iter().map(|key| put(key, &value)).collect();
    *faulty.room.lock().unwrap() = PIECE * 2;
    let (result, applied) = append(&log, &batch(&large), true);
    assert!(result.unwrap_err().is_rolled_back() && !applied);
    assert_eq!(fs::read(&path).unwrap(), before);

    *faulty.room.lock().unwrap() = usize::MAX;
    append(&log, &batch(&large), true).0.unwrap();
    append(&log, &batch(&[put(b"b", b"2")]), true).0.unwrap();
    log.close().unwrap();
    let state = open(&path).unwrap().1;
    assert_eq!(state.len(), 4002);
    assert!(keys.iter().all(|key| state[&key[..]] == value));
    // The remaining bytes are two batches of one frame each and the sync marker.
    let headers = headers(&fs::read(&path).unwrap());
    assert!(headers.len() >= 3 + batch(&large).bytes().div_ceil(PIECE));
    assert!(headers.iter().all(|(_, header)| header.frame().body <= PIECE));
}

/// The first write to an AOF of Redis may fail at any byte of the `SELECT 0` and the start line before it: an AOF that can
/// still be cut is then as before, and one that cannot be cut is completed after a restart.
#[test]
fn first_write_to_a_log_of_redis_may_fail_at_any_byte() {
    let (batches, expected) = appended_to_database_3();
    for (room, no_cut) in
        (0..record::SELECT_0.len() + frame::START).flat_map(|room| [(room, false), (room, true)])
    {
        let (_directory, path) = scratch();
        fs::write(&path, ENDS_IN_DATABASE_3).unwrap();
        let (mut log, faulty) = open_faulty(&path, room, ErrorKind::StorageFull);
        faulty.no_cut.store(no_cut, Ordering::Relaxed);
        assert!(append(&log, &batches[0], true).0.unwrap_err().is_rolled_back() != no_cut);
        let written = if no_cut { room } else { 0 };
        assert_eq!(fs::read(&path).unwrap().len(), ENDS_IN_DATABASE_3.len() + written);
        *faulty.room.lock().unwrap() = usize::MAX;
        if no_cut {
            drop((log, faulty));
            log = open(&path).unwrap().0;
        }
        batches.iter().for_each(|batch| append(&log, batch, true).0.unwrap());
        log.close().unwrap();
        assert_eq!(open(&path).unwrap().1, expected, "{room} bytes, cannot be cut: {no_cut}");
    }
}

/// Padding behind a batch is written only if there is space for all of it; without space, batches are written
/// without padding.
#[test]
fn disk_without_space_for_padding_takes_batches() {
    let (_directory, path) = scratch();
    for room in [0, 1000, 100_000] {
        let (log, faulty) = open_faulty(&path, usize::MAX, ErrorKind::StorageFull);
        let batch = batch(&[put(b"a", &[b'v'; 300])]);
        let bytes = Image::new().append(&batch).bytes.len() - frame::START;
        *faulty.room.lock().unwrap() = bytes + room;
        let before = log.len();
        append(&log, &batch, true).0.unwrap();
        let filler = fs::metadata(&path).unwrap().len() - log.len();
        assert_eq!(filler, if room < *PREPARED.start() { 0 } else { *PREPARED.start() as u64 });
        assert_eq!(log.len(), before + bytes as u64);
        log.close().unwrap();
        assert_eq!(fs::metadata(&path).unwrap().len(), log.len());
    }
}

#[test]
fn a_write_error_stops_the_log_without_a_torn_record() {
    let (_directory, path) = scratch();
    let (log, _) = open_faulty(&path, 120, ErrorKind::Other);
    append(&log, &batch(&[put(b"a", b"1")]), false).0.unwrap();
    let before = fs::read(&path).unwrap();
    let (result, applied) = append(&log, &batch(&[put(b"b", &[b'v'; 50])]), false);
    assert!(!result.unwrap_err().is_rolled_back());
    assert!(!applied);
    assert_eq!(fs::read(&path).unwrap(), before);
    assert_refuses(&log);
}

#[test]
fn a_full_disk_whose_file_cannot_be_cut_stops_the_log() {
    let (_directory, path) = scratch();
    let (log, faulty) = open_faulty(&path, 10, ErrorKind::StorageFull);
    faulty.no_cut.store(true, Ordering::Relaxed);
    let (result, applied) = append(&log, &batch(&[put(b"a", b"1")]), false);
    assert!(!result.unwrap_err().is_rolled_back());
    assert!(!applied);
    assert_refuses(&log);
    drop((log, faulty));
    assert_eq!(open(&path).unwrap().1, State::new());
}

#[test]
fn a_failed_sync_applies_nothing_and_stops_the_log() {
    let (_directory, path) = scratch();
    let (log, faulty) = open_faulty(&path, usize::MAX, ErrorKind::Other);
    append(&log, &batch(&[put(b"a", b"1")]), true).0.unwrap();
    faulty.no_sync.store(true, Ordering::Relaxed);
    let (result, applied) = append(&log, &batch(&[put(b"b", b"2")]), true);
    assert!(!result.unwrap_err().is_rolled_back());
    assert!(!applied);
    faulty.no_sync.store(false, Ordering::Relaxed);
    assert_refuses(&log);
    assert!(log.close().is_err(), "closed as if nothing had happened");
    assert_eq!(open(&path).unwrap().1.keys().collect::<Vec<_>>(), [b"a"]);
}

#[test]
fn a_failed_sync_of_its_own_stops_the_log() {
    let (_directory, path) = scratch();
    let (log, faulty) = open_faulty(&path, usize::MAX, ErrorKind::Other);
    append(&log, &batch(&[put(b"a", b"1")]), false).0.unwrap();
    faulty.no_sync.store(true, Ordering::Relaxed);
    assert!(log.sync().is_err());
    faulty.no_sync.store(false, Ordering::Relaxed);
    assert_refuses(&log);
}

#[test]
fn a_write_that_panicked_stops_the_log() {
    let (_directory, path) = scratch();
    let (log, _) = open(&path).unwrap();
    let panicked = std::thread::scope(|scope| {
        let write = || log.append(&batch(&[put(b"a", b"1")]), false, || panic!("on purpose"));
        scope.spawn(write).join().is_err()
    });
    assert!(panicked);
    assert!(append(&log, &batch(&[put(b"b", b"2")]), false).0.is_err());
}

/// If an append fails for lack of space, and its truncation has removed the sync marker behind the last batch, the
/// next sync writes the marker again.
#[test]
fn mark_is_written_again_after_an_append_that_found_no_space() {
    let (_directory, path) = scratch();
    let (log, faulty) = open_faulty(&path, usize::MAX, ErrorKind::StorageFull);
    append(&log, &batch(&[put(b"a", b"1")]), true).0.unwrap();
    let is_marked = || {
        let (bytes, len) = (fs::read(&path).unwrap(), log.len());
        frame::Header::read(&bytes[len as usize..], len).is_ok_and(|header| header.synced == len)
    };
    assert!(is_marked());
    *faulty.room.lock().unwrap() = 10;
    assert!(append(&log, &batch(&[put(b"b", b"2")]), true).0.unwrap_err().is_rolled_back());
    *faulty.room.lock().unwrap() = usize::MAX;
    log.sync().unwrap();
    assert!(is_marked());
}

/// If a full disk stops a seal after the sync marker was cut off, the next sync writes the marker again.
#[test]
fn mark_is_written_again_after_a_seal_that_found_no_space() {
    let (_directory, path) = scratch();
    let (log, faulty) = open_faulty(&path, usize::MAX, ErrorKind::StorageFull);
    append(&log, &batch(&[put(b"a", b"1")]), true).0.unwrap();
    *faulty.room.lock().unwrap() = 10;
    assert!(log.seal().unwrap_err().is_rolled_back());
    *faulty.room.lock().unwrap() = usize::MAX;
    log.sync().unwrap();
    let (bytes, len) = (fs::read(&path).unwrap(), log.len());
    assert!(frame::Header::read(&bytes[len as usize..], len).is_ok_and(|header| header.synced == len));
}

/// Opens an AOF with one batch that lacks a sync marker, whose next write fails with `kind` after `room` bytes.
fn open_unmarked(path: &Path, room: usize, kind: ErrorKind) -> (Aof, Arc<Faulty>) {
    let (log, faulty) = open_faulty(path, usize::MAX, kind);
    append(&log, &batch(&[put(b"a", b"1")]), false).0.unwrap();
    *faulty.room.lock().unwrap() = room;
    (log, faulty)
}

/// A seal reports each error of the write of the last sync marker, and a close each but lack of space. The AOF holds all
/// batches after each of them.
#[test]
fn error_of_the_last_mark_is_reported_unless_it_is_lack_of_space() {
    use ErrorKind::{FileTooLarge, Other, PermissionDenied, QuotaExceeded, StorageFull};
    for (kind, is_full) in [
        (StorageFull, true),
        (QuotaExceeded, true),
        (FileTooLarge, true),
        (Other, false),
        (PermissionDenied, false),
    ] {
        for room in [0, 1, HEADER - 1] {
            let (_directory, path) = scratch();
            let (log, faulty) = open_unmarked(&path, room, kind);
            let closed = log.close();
            assert_eq!(closed.is_ok(), is_full, "{kind}: {closed:?}");
            assert_eq!(fs::metadata(&path).unwrap().len(), log.len());
            drop((log, faulty));
            assert_eq!(open(&path).unwrap().1, pairs(&[("a", "1")]));

            let (_directory, path) = scratch();
            let (log, faulty) = open_unmarked(&path, room, kind);
            let error = log.seal().unwrap_err();
            assert_eq!(error.is_rolled_back(), is_full, "{error}");
            *faulty.room.lock().unwrap() = usize::MAX;
            if is_full {
                append(&log, &batch(&[put(b"b", b"2")]), true).0.unwrap();
                log.seal().unwrap();
                log.close().unwrap();
            } else {
                assert_refuses(&log);
                assert!(log.close().is_err(), "closed as if nothing had happened");
            }
            drop((log, faulty));
            assert_eq!(open(&path).unwrap().1.contains_key(&b"b"[..]), is_full);
        }
    }
}

/// A part of a sync marker that cannot be cut off is no end of an AOF.
#[test]
fn part_of_the_last_mark_that_cannot_be_cut_off_is_reported() {
    let (_directory, path) = scratch();
    let (log, faulty) = open_unmarked(&path, 10, ErrorKind::StorageFull);
    faulty.no_cut.store(true, Ordering::Relaxed);
    assert!(!log.seal().unwrap_err().is_rolled_back());
    assert_refuses(&log);
    assert!(log.close().is_err(), "closed as if nothing had happened");
    drop((log, faulty));
    assert_eq!(open(&path).unwrap().1, pairs(&[("a", "1")]));
}

/// A sync marker is written after a rewrite, also if the first batch then ends at the offset of the old file's last
/// sync marker.
#[test]
fn mark_is_written_after_a_rewrite_at_the_offset_of_the_last_one() {
    let (_directory, path) = scratch();
    let (log, _) = open(&path).unwrap();
    append(&log, &batch(&[put(b"a", &[b'v'; 10 + HEADER])]), true).0.unwrap();
    let before = log.len();
    log.rewrite(|_| false).unwrap();
    append(&log, &batch(&[put(b"a", &[b'v'; 10])]), true).0.unwrap();
    assert_eq!(log.len(), before);
    let bytes = fs::read(&path).unwrap();
    assert!(frame::Header::read(&bytes[before as usize..], before).is_ok());
}

/// A backup that is restored after the last check of the path, and before the rewrite takes the name, gets the name
/// back, and the rewrite fails.
#[test]
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn file_that_takes_the_name_before_a_rewrite_does_gets_it_back() {
    let (directory, path) = scratch();
    let moved = directory.path().join("moved");
    let (log, faulty) = open_faulty(&path, usize::MAX, ErrorKind::Other);
    append(&log, &batch(&[put(b"a", b"1")]), true).0.unwrap();
    let (backup, mut checks) = (Image::synced_sample().bytes, 0);
    let (bytes, from, to) = (backup.clone(), path.clone(), moved.clone());
    *faulty.after_check.lock().unwrap() = Box::new(move || {
        checks += 1;
        if checks == 2 {
            fs::rename(&from, &to).unwrap();
            fs::write(&from, &bytes).unwrap();
        }
    });
    let error = log.rewrite(|_| false).unwrap_err();
    assert!(matches!(error, Error::Moved { .. }), "{error}");
    assert!(fs::read(&path).unwrap() == backup && !file::rewrite_path(&path).exists());
    append(&log, &batch(&[put(b"later", b"2")]), true).0.unwrap();
    drop((log, faulty));
    assert_eq!(open(&moved).unwrap().1, pairs(&[("a", "1"), ("later", "2")]));
}

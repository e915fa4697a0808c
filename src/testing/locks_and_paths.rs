//! Tests of locks, of foreign files, and of paths that cannot be used.

use super::engine_case::{Open, error_at, for_each_on_disk, open_at, pairs, scratch};
use crate::engine::{Batch, Error, Fsync, Kind};
use std::{
    fs, thread,
    time::{Duration, Instant},
};

/// Tests that data in use are locked, also against this process. (Tests of the program cover locks against other
/// processes.)
pub fn data_in_use_are_locked(kind: &'static Kind) {
    for_each_on_disk(kind, |cell| {
        let mut open = cell.open();
        open.put(b"key", b"value");
        let error = error_at(cell.kind, &open.path());
        assert!(matches!(error, Error::Locked { .. }), "{error:?}");
        assert!(!error.to_string().contains('\n') && error.to_string().contains("data"), "{error}");
        // The failed attempt changed nothing, and the lock ends with the engine.
        open.put(b"key 2", b"value");
        open.reopen(true);
        assert_eq!(open.count(), 2);
    });
}

/// Tests that opening waits for data that are in use for a short time.
pub fn data_in_use_for_a_moment_are_waited_for(kind: &'static Kind) {
    for_each_on_disk(kind, |cell| {
        let mut open = cell.open();
        open.put(b"key", b"value");
        // Only the first engine has written something: each later drop has less to do.
        let was_waited_for = (0..10).any(|_| waits_for_a_drop(&mut open));
        assert!(
            was_waited_for,
            "{cell}: each of ten drops took longer than opening waits; use a faster disk"
        );
        open.put(b"key 2", b"value");
    });
}

/// Opens the engine again while another thread drops it. Returns `false` if that did not succeed because the drop took
/// about as long as opening waits, which is half a second: a drop may sync several times, and a disk may be slow. The
/// engine is open again in both cases.
fn waits_for_a_drop(open: &mut Open) -> bool {
    let engine = open.take();
    let begin = Instant::now();
    let (opened, time_in_use) = thread::scope(|scope| {
        let user = scope.spawn(|| {
            thread::sleep(Duration::from_millis(20));
            drop(engine);
            begin.elapsed()
        });
        (open.try_open_again(), user.join().unwrap())
    });
    match opened {
        Err(Error::Locked { .. }) if time_in_use > Duration::from_millis(400) => {
            open.open_again();
            false
        }
        outcome => {
            outcome.unwrap();
            true
        }
    }
}

/// Tests that foreign files are refused and not changed.
pub fn files_of_strangers_are_refused_and_left_alone(kind: &'static Kind) {
    let scratch = scratch();
    let file = scratch.path().join("letter.txt");
    fs::write(&file, "Dear reader,\n").unwrap();
    for path in [file.as_path(), scratch.path()] {
        assert!(!(kind.recognise)(path));
        let error = error_at(kind, path);
        assert!(matches!(error, Error::Foreign { .. }), "{error:?}");
    }
    assert_eq!(fs::read(&file).unwrap(), b"Dear reader,\n");
    assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 1);
}

/// Tests that the error for a path that cannot be created names the path in one line.
pub fn a_path_that_cannot_be_created_is_named_in_one_line(kind: &'static Kind) {
    let scratch = scratch();
    let file = scratch.path().join("file");
    fs::write(&file, "not a directory").unwrap();
    for path in [scratch.path().join("missing").join("data"), file.join("data")] {
        let error = error_at(kind, &path);
        let text = error.to_string();
        assert!(matches!(error, Error::Io { .. } | Error::Library { .. }), "{error:?}");
        assert!(text.contains(path.to_str().unwrap()) && !text.contains('\n'), "{text}");
    }
    assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 1);
}

/// Tests that an empty file or directory is either used, or refused in one line.
pub fn an_empty_place_is_taken_or_refused_in_one_line(kind: &'static Kind) {
    let scratch = scratch();
    let directory = scratch.path().join("directory");
    let file = scratch.path().join("file");
    fs::create_dir(&directory).unwrap();
    fs::write(&file, "").unwrap();
    let mut taken = 0;
    for path in [&directory, &file] {
        match open_at(kind, path) {
            Ok(engine) => {
                let mut batch = Batch::default();
                batch.put(b"key", b"value");
                engine.write(&batch, true).unwrap();
                drop(engine);
                assert_eq!(open_at(kind, path).unwrap().count().unwrap(), 1);
                taken += 1;
            }
            Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
        }
    }
    // An engine keeps its data either in a directory or in a file.
    assert_eq!(taken, 1, "{}", kind.info.name);
}

/// Tests that an engine recognises no data of its own in a missing or empty path.
pub fn nothing_is_recognised_where_nothing_is(kind: &'static Kind) {
    let scratch = scratch();
    assert!(!(kind.recognise)(&scratch.path().join("missing")));
    assert!(!(kind.recognise)(scratch.path()));
}

/// Tests that the lock is free at each of many reopens in a row.
pub fn many_reopens_in_a_row_find_the_lock_free(kind: &'static Kind) {
    for_each_on_disk(kind, |cell| {
        let mut open = cell.open();
        for round in 0..10_u8 {
            open.put(&[round], b"value");
            open.reopen(round % 2 == 0 || cell.fsync != Fsync::Always);
        }
        assert_eq!(open.count(), 10);
        let (first, last): (&[u8], &[u8]) = (&[0], &[9]);
        let all = open.all();
        assert_eq!([all[0].clone(), all[9].clone()].to_vec(), pairs(&[(first, b"value"), (last, b"value")]));
    });
}

//! Tests of rewrites of the AOF while writes continue.

use super::*;
use std::os::unix::fs::PermissionsExt;

/// Rewrites the AOF, whose content is `state`, and appends the next of `batches` before each chunk of the scan.
fn rewrite_beside(log: &Aof, state: &mut State, batches: &[Batch<'_>]) -> Result<()> {
    let mut batches = batches.iter();
    let mut last: Option<Vec<u8>> = None;
    log.rewrite(|buffer| {
        if let Some(batch) = batches.next() {
            log.append(batch, false, || apply(state, batch)).unwrap();
        }
        let next = state.iter().find(|(key, _)| last.as_ref().is_none_or(|last| *key > last));
        if let Some((key, value)) = next {
            encode_set(key, value, buffer);
            last = Some(key.clone());
        }
        last.is_some() && next.is_some() || batches.len() > 0
    })
}

fn filled(path: &Path, keys: u8) -> (Aof, State) {
    let (log, mut state) = open(path).unwrap();
    for key in (0..keys).chain(0..keys) {
        let (key, value) = ([key], vec![key; usize::from(key)]);
        let batch = batch(&[put(&key, &value), put(b"\xffall", &value)]);
        log.append(&batch, false, || apply(&mut state, &batch)).unwrap();
    }
    (log, state)
}

#[test]
fn a_rewritten_log_holds_the_same_and_is_smaller() {
    let (_directory, path) = scratch();
    let (log, mut state) = filled(&path, 100);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    let before = log.len();
    rewrite_beside(&log, &mut state, &[]).unwrap();
    assert!(log.len() * 2 < before, "{before} bytes before, {} after", log.len());
    assert_eq!(fs::metadata(&path).unwrap().len(), log.len());
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(!file::rewrite_path(&path).exists());
    assert!(matches!(open(&path), Err(Error::Locked { .. })), "the new file is not locked");
    let next = batch(&[put(b"next", b"1")]);
    log.append(&next, true, || apply(&mut state, &next)).unwrap();
    log.close().unwrap();
    assert_eq!(open(&path).unwrap().1, state);
}

#[test]
fn writes_between_the_steps_of_the_scan_are_kept() {
    let behind = batch(&[put(b"\x01", b"behind the scan")]);
    let ahead = batch(&[put(b"\x70new", b"ahead of it"), delete(b"\x60")]);
    let both = batch(&[delete(b"\x00"), put(b"\x50", b""), delete(b"\x02"), put(b"\x71", b"1")]);
    let clear = batch(&[put(b"\x72", b"gone"), WriteOp::Clear, put(b"\x73", b"stays")]);
    let orders: [&[&Batch<'_>]; 4] = [
        &[&behind, &ahead, &both, &behind],
        &[&behind, &behind, &behind, &both, &clear, &ahead],
        &[&clear],
        &[&ahead, &clear, &both, &clear, &behind],
    ];
    for order in orders {
        let (_directory, path) = scratch();
        let (log, mut state) = filled(&path, 0x75);
        let batches: Vec<Batch<'_>> = order.iter().map(|source| batch(source.ops())).collect();
        rewrite_beside(&log, &mut state, &batches).unwrap();
        drop(log);
        assert_eq!(open(&path).unwrap().1, state);
    }
}

#[test]
fn a_rewrite_that_fails_leaves_the_log_as_it_was() {
    let (_directory, path) = scratch();
    let (log, mut state) = filled(&path, 20);
    let before = fs::read(&path).unwrap();
    let in_the_way = file::rewrite_path(&path);
    fs::create_dir(&in_the_way).unwrap();
    assert!(rewrite_beside(&log, &mut state, &[]).is_err());
    assert_eq!(fs::read(&path).unwrap(), before);
    let next = batch(&[put(b"next", b"1")]);
    log.append(&next, true, || apply(&mut state, &next)).unwrap();
    fs::remove_dir(&in_the_way).unwrap();
    rewrite_beside(&log, &mut state, &[]).unwrap();
    drop(log);
    assert_eq!(open(&path).unwrap().1, state);
}

#[test]
fn a_cancelled_rewrite_leaves_the_log_as_it_was() {
    let (_directory, path) = scratch();
    let (log, _) = filled(&path, 20);
    let before = fs::read(&path).unwrap();
    let mut steps = 0;
    let result = log.rewrite(|buffer| {
        steps += 1;
        if steps == 3 {
            log.cancel_rewrite();
        }
        encode_set(b"half", b"done", buffer);
        true
    });
    assert!(matches!(result, Err(Error::Unsupported { .. })));
    assert!(!file::rewrite_path(&path).exists());
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[test]
fn leftover_of_an_unfinished_rewrite_is_ignored_and_removed() {
    let (_directory, path) = scratch();
    let (log, state) = filled(&path, 20);
    drop(log);
    fs::write(file::rewrite_path(&path), "*3\r\n$3\r\nSET\r\n$4\r\nhalf\r\n$4\r\ndo").unwrap();
    assert_eq!(open(&path).unwrap().1, state);
    assert!(!file::rewrite_path(&path).exists());
}

/// Another server may have its AOF at the path of a rewrite's file.
#[test]
fn file_of_another_process_at_the_path_of_a_rewrite_is_left_as_it_is() {
    let (_directory, path) = scratch();
    let (log, mut state) = filled(&path, 20);
    drop(log);
    let (other, _) = open(&file::rewrite_path(&path)).unwrap();
    let (log, _) = open(&path).unwrap();
    assert!(matches!(rewrite_beside(&log, &mut state, &[]), Err(Error::Locked { .. })));
    assert!(file::rewrite_path(&path).exists());
    other.close().unwrap();
    drop(other);
    // A process that another test starts may share the lock for a moment.
    while let Err(error) = rewrite_beside(&log, &mut state, &[]) {
        assert!(matches!(error, Error::Locked { .. }), "{error}");
    }
    assert!(!file::rewrite_path(&path).exists());
    drop(log);
    assert_eq!(open(&path).unwrap().1, state);
}

#[test]
fn a_link_to_the_log_survives_a_rewrite() {
    let (directory, path) = scratch();
    let (log, _) = filled(&path, 20);
    drop(log);
    let link = directory.path().join("link");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let (log, mut state) = open(&link).unwrap();
    rewrite_beside(&log, &mut state, &[]).unwrap();
    let len = log.len();
    drop(log);
    assert!(link.is_symlink());
    assert_eq!(fs::metadata(&path).unwrap().len(), len);
    assert_eq!(open(&link).unwrap().1, state);
}

#[test]
fn a_log_is_outgrown_at_twice_its_size_and_not_below_64_mib() {
    let (_directory, path) = scratch();
    let (log, _) = open(&path).unwrap();
    const MIB: u64 = 1 << 20;
    for (base, len, expected) in
        [(0, 63 * MIB, false), (0, 64 * MIB, true), (50 * MIB, 99 * MIB, false), (50 * MIB, 100 * MIB, true)]
    {
        log.base.store(base, Ordering::Relaxed);
        log.len.store(len, Ordering::Relaxed);
        assert_eq!(log.is_outgrown(), expected, "{base} {len}");
    }
}

/// Moves the AOF away and opens another at its path, as another server would. Returns the other one and its
/// content.
fn replace(path: &Path, moved: &Path) -> (Aof, State) {
    fs::rename(path, moved).unwrap();
    let (other, mut state) = open(path).unwrap();
    let batch = batch(&[put(b"of the other", b"1")]);
    other.append(&batch, true, || apply(&mut state, &batch)).unwrap();
    (other, state)
}

/// A rewrite of an AOF that was moved, before the rewrite or during it, fails and changes nothing of the AOF that
/// another server has opened at its path.
#[test]
fn rewrite_of_a_moved_log_fails_and_leaves_the_log_of_another_server_alone() {
    for is_moved_before in [true, false] {
        let (directory, path) = scratch();
        let moved = directory.path().join("moved");
        let (log, mut state) = filled(&path, 20);
        let mut other = is_moved_before.then(|| replace(&path, &moved));
        // This stands for a rewrite of the other server, which cannot begin while this one runs.
        let leftover = file::rewrite_path(&path);
        other.iter().for_each(|_| fs::write(&leftover, "of the other").unwrap());
        let error = log.rewrite(|buffer| {
            encode_set(b"half", b"done", buffer);
            let (other, others) = other.get_or_insert_with(|| replace(&path, &moved));
            assert!(matches!(rewrite_beside(other, others, &[]), Err(Error::Locked { .. })));
            false
        });
        let text = error.unwrap_err().to_string();
        assert!(text.contains("was moved, removed or replaced"), "{text}");
        let left = is_moved_before.then(|| b"of the other".to_vec());
        assert_eq!(fs::read(&leftover).ok(), left);
        let (other, mut others) = other.unwrap();
        for (log, state) in [(&log, &mut state), (&other, &mut others)] {
            let batch = batch(&[put(b"later", b"2")]);
            log.append(&batch, true, || apply(state, &batch)).unwrap();
        }
        rewrite_beside(&other, &mut others, &[]).unwrap();
        drop((log, other));
        assert_eq!(open(&path).unwrap().1, others);
        assert_eq!(open(&moved).unwrap().1, state);
    }
}

/// A rewrite fails if another file takes the place of the file that it is writing: that file does not get the AOF's
/// name.
#[test]
fn rewrite_does_not_give_the_name_of_the_log_to_another_file() {
    let (_directory, path) = scratch();
    let (log, state) = filled(&path, 20);
    let leftover = file::rewrite_path(&path);
    let error = log.rewrite(|buffer| {
        encode_set(b"half", b"done", buffer);
        let _all = fs::remove_file(&leftover);
        fs::write(&leftover, "no log").unwrap();
        false
    });
    assert!(error.unwrap_err().to_string().contains("was moved, removed or replaced"));
    assert_eq!(fs::read(&leftover).unwrap(), b"no log");
    drop(log);
    assert_eq!(open(&path).unwrap().1, state);
}

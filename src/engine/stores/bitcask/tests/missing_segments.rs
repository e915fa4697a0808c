//! Tests that missing segments of `bitcask` are detected by the manifest.

use super::{
    super::manifest::{FRESH, MANIFEST, Manifest},
    *,
};

/// Returns a store with four segments or more, of which the last is active.
fn filled() -> Store {
    let mut store = Store::new();
    store.fill(0, FULL * 3 + 5, 5);
    assert!(store.segments().len() >= 4);
    store
}

/// Returns the error of a start and that of a check of the store; `None` for one that succeeds.
fn errors(store: &Store) -> [Option<String>; 2] {
    let [opened, checked] = [try_open(&store.path()).map(drop), check(&store.path()).map(drop)];
    [opened, checked].map(|outcome| outcome.err().map(|error| error.to_string()))
}

fn all_say(store: &Store, words: &str) {
    for error in errors(store) {
        let error = error.unwrap_or_else(|| panic!("not noticed: {words}"));
        assert!(error.contains(words) && error.contains("backup"), "{error}");
    }
}

#[test]
fn any_missing_segment_is_named() {
    let mut store = filled();
    store.merge_oldest();
    store.shut(true);
    let ids = store.segments();
    for id in &ids {
        let path = path_of(&store.path(), *id);
        let bytes = fs::read(&path).unwrap();
        fs::remove_file(&path).unwrap();
        let name = path.file_name().unwrap().to_str().unwrap();
        all_say(&store, &format!("{name} is not there"));
        fs::write(&path, bytes).unwrap();
        assert_eq!(errors(&store), [None, None]);
    }
    for id in &ids[..ids.len() - 1] {
        fs::remove_file(path_of(&store.path(), *id)).unwrap();
    }
    all_say(&store, "segment is not there");
}

#[test]
fn backup_without_the_lock_file_opens() {
    let mut store = filled();
    store.shut(true);
    assert!(open::recognise(&store.path()));
    fs::remove_file(store.path().join("bitcask.lock")).unwrap();
    assert!(open::recognise(&store.path()));
    assert_eq!(check(&store.path()).map(drop).map_err(|error| error.to_string()), Ok(()));
    store.open();
    store.check();
}

#[test]
fn backup_without_the_manifest_is_refused_and_left_alone() {
    let mut store = filled();
    store.shut(true);
    let lock = store.path().join("bitcask.lock");
    fs::remove_file(store.path().join(MANIFEST)).unwrap();
    all_say(&store, "bitcask.segments, the list of the segments, is not there");
    fs::remove_file(&lock).unwrap();
    let before = names(&store.path());
    all_say(&store, "bitcask.segments, the list of the segments, is not there");
    assert_eq!(names(&store.path()), before);
    // Follows the advice of the error.
    fs::write(&lock, "").unwrap();
    store.open();
    store.check();
    assert!(store.path().join(MANIFEST).is_file());
}

#[test]
fn lost_manifest_of_segments_with_a_gap_can_be_made_again() {
    let mut store = Store::new();
    (0..3u8).for_each(|key| {
        store.put(&[key], b"value");
        store.roll();
    });
    assert!(store.merge(2));
    store.shut(true);
    assert!(!store.segments().contains(&2) && store.segments()[0] == 1);
    fs::remove_file(store.path().join(MANIFEST)).unwrap();
    fs::write(store.path().join("bitcask.lock"), "").unwrap();
    all_say(&store, "0000000002.segment is not there");
    all_say(&store, "a merge has removed it");
    // Follows the advice of the error.
    let stand_in = path_of(&store.path(), 2);
    fs::write(&stand_in, "").unwrap();
    assert_eq!(check(&store.path()).map(drop).map_err(|error| error.to_string()), Ok(()));
    store.open();
    store.check();
    assert!(!stand_in.exists());
    store.reopen(true);
    store.check();
}

#[test]
fn damaged_manifest_is_named() {
    let mut store = filled();
    store.shut(true);
    fs::write(store.path().join(MANIFEST), "kvbench bitcask segments 1\n1-4\n").unwrap();
    all_say(&store, "bitcask.segments is damaged");
}

#[test]
fn directory_of_the_version_before_opens_and_gets_a_manifest() {
    for merges in 0..3 {
        let mut store = filled();
        (0..merges).for_each(|_| store.merge_oldest());
        store.put(b"last", b"value");
        store.shut(merges == 1);
        fs::remove_file(store.path().join(MANIFEST)).unwrap();
        fs::write(store.path().join("bitcask.lock"), "").unwrap();
        // The earlier version had created a new segment, and then ended.
        let last = *store.segments().last().unwrap();
        fs::write(path_of(&store.path(), last + 1), "").unwrap();
        assert!(check(&store.path()).is_ok());
        store.open();
        store.check();
        store.shut(true);
        assert_eq!(store.segments().last(), Some(&last));
        fs::remove_file(path_of(&store.path(), last)).unwrap();
        all_say(&store, "is not there, though bitcask.segments lists it");
    }
}

/// Nothing is lost by a kill at any step of the change to a new segment, which is created, listed in the manifest, then
/// written to.
#[test]
fn kill_at_any_step_of_a_roll_loses_nothing() {
    let mut store = filled();
    let manifest = store.path().join(MANIFEST);
    let (before, old) = (fs::read(&manifest).unwrap(), store.model.clone());
    store.roll();
    let after = fs::read(&manifest).unwrap();
    assert_ne!(before, after);
    // The segment is created and not listed; half of the next manifest is written.
    fs::write(store.path().join(FRESH), &after[..after.len() / 2]).unwrap();
    fs::write(&manifest, &before).unwrap();
    assert_eq!(model_after_restart(&store.path()), old);
    // The segment is listed.
    fs::write(&manifest, &after).unwrap();
    assert_eq!(model_after_restart(&store.path()), old);
    // The segment is written to, though the manifest could not be written.
    store.put(b"more", b"value");
    assert_eq!(model_after_restart(&store.path()), store.model);
    fs::write(&manifest, &before).unwrap();
    assert_eq!(model_after_restart(&store.path()), store.model);
    let last = *store.segments().last().unwrap();
    store.reopen(false);
    assert_eq!(Manifest::read(&store.path()).unwrap().unwrap().newest(), last);
    assert!(!store.path().join(FRESH).exists());
}

/// Under `everysec` and `no` a power cut may remove everything that was not synced, which is all of the last segment
/// but its first line: a start accepts that, but refuses a segment without its first line.
#[test]
fn power_cut_may_take_all_of_the_last_segment_that_was_not_synced() {
    let mut store = filled();
    store.roll();
    let before = store.model.clone();
    store.put(b"unsynced", b"value");
    store.shut(false);
    let last = path_of(&store.path(), *store.segments().last().unwrap());
    let bytes = fs::read(&last).unwrap();
    for kept in [bytes[..30].to_vec(), [&bytes[..30], &[0; 300]].concat(), bytes[..bytes.len() - 1].to_vec()]
    {
        fs::write(&last, kept).unwrap();
        assert_eq!(model_after_restart(&store.path()), before);
    }
    // The first line was synced before the segment was listed.
    for lost in [&bytes[..0], &bytes[..29], &[0; 300]] {
        fs::write(&last, lost).unwrap();
        all_say(&store, "is damaged at byte 0");
    }
}

/// While the manifest cannot be written (a directory has the name of the new file), writes continue and no listed
/// segment is removed; later it is written.
#[test]
fn manifest_that_cannot_be_written_is_written_later() {
    let mut store = filled();
    fs::create_dir(store.path().join(FRESH)).unwrap();
    store.fill(0, FULL * 2, 6);
    let last = *store.segments().last().unwrap();
    let listed = |store: &Store| Manifest::read(&store.path()).unwrap().unwrap().newest();
    assert!(listed(&store) < last);
    // No listed segment is removed.
    let ids = store.segments();
    store.engine().files.merge_oldest(&|| false).unwrap_err();
    assert_eq!(store.segments(), ids);
    assert_eq!(model_after_restart(&without(&store, FRESH)), store.model);
    fs::remove_dir(store.path().join(FRESH)).unwrap();
    store.engine().files.retry_manifest().unwrap();
    assert_eq!(listed(&store), last);
    store.merge_oldest();
    store.reopen(false);
    store.check();
}

/// Copies the store without one file to a directory inside the test's temporary directory, and returns the
/// directory.
fn without(store: &Store, name: &str) -> PathBuf {
    let to = store.directory.path().join("without");
    fs::create_dir_all(&to).unwrap();
    for file in names(&store.path()).into_iter().filter(|file| file != name) {
        fs::copy(store.path().join(&file), to.join(&file)).unwrap();
    }
    to
}

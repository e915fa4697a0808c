//! Tests of an open `bitcask` store whose directory is moved, after which a second `bitcask` store is opened in a new
//! directory on the old path.

use super::{
    super::{
        hint,
        segment::{OpenFiles, Segment},
    },
    merging::open_with_few_files,
    *,
};
use crate::engine::stores::bitcask::segment_hint;
use std::{cell::RefCell, os::unix::fs::symlink, sync::Arc};

/// Two stores: one whose directory was moved, and one that was opened on its old path.
struct Pair {
    old: Store,
    /// New path of the moved directory, that of the store `old`.
    moved: PathBuf,
    new: Store,
}

impl Pair {
    /// Fills a store with several segments, moves its directory, and opens a second store on the old path, which gets
    /// other keys and as many segments.
    fn new() -> Self {
        let mut old = Store::new();
        old.fill(0, FULL * 3, 1);
        Self::of(old, |new, segments| {
            while new.segments().len() < segments {
                new.fill(new.model.len() as u32 + 10_000, FULL, 2);
            }
        })
    }

    fn of(old: Store, fill: impl FnOnce(&mut Store, usize)) -> Self {
        let (path, moved) = (old.path(), old.directory.path().join("moved"));
        let segments = old.segments().len();
        fs::rename(&path, &moved).unwrap();
        let (directory, engine) = (tempfile::tempdir_in(old.directory.path()).unwrap(), try_open(&path));
        // `new.path()` becomes a symbolic link to the old path.
        symlink(&path, directory.path().join("data")).unwrap();
        let mut new = Store { directory, engine: Some(engine.unwrap()), model: Model::new() };
        fill(&mut new, segments);
        Self { old, moved, new }
    }

    /// Asserts that the files of the new store are still `files`, and that both stores accept writes and have lost
    /// none.
    fn check(mut self, files: &Contents) {
        assert!(contents(&self.new.path()) == *files, "the files of the new store have changed");
        for store in [&mut self.old, &mut self.new] {
            store.put(b"last", b"written");
            assert_eq!(get(store.engine(), b"last").unwrap().as_deref(), Some(&b"written"[..]));
        }
        self.new.roll();
        self.new.merge_oldest();
        self.new.reopen(true);
        self.new.check();
        self.old.shut(true);
        let opened = try_open(&self.moved).unwrap();
        assert!(all(&opened) == self.old.model);
    }
}

type Contents = BTreeMap<String, Vec<u8>>;

fn contents(path: &Path) -> Contents {
    names(path).into_iter().map(|name| (name.clone(), fs::read(path.join(name)).unwrap())).collect()
}

fn assert_moved<T>(outcome: Result<T>, name: &Path) {
    let Err(error) = outcome else { panic!("{} is not refused", name.display()) };
    let text = error.to_string();
    assert!(text.contains("was moved, removed or replaced") && !error.is_corruption(), "{text}");
    assert!(text.contains(&*name.to_string_lossy()), "{text}");
}

fn newest(store: &Store) -> u32 {
    store.engine().files.segments.ids().pop().unwrap()
}

fn try_roll(store: &Store) -> Result<()> {
    let files = &store.engine().files;
    files.try_roll(&mut files.lock_writer())
}

fn oldest(store: &Store) -> Arc<Segment> {
    store.engine().files.segments.oldest().unwrap()
}

#[test]
fn moved_store_changes_nothing_of_the_store_on_its_path() {
    let pair = Pair::new();
    let (old, files) = (&pair.old, contents(&pair.new.path()));
    let path = &pair.new.path();
    assert_moved(try_roll(old), path);
    assert_moved(old.engine().files.record(), path);
    assert_moved(old.engine().files.merge_oldest(&|| false), path);
    assert_moved(old.engine().files.merge_all(&|| false), path);
    assert_moved(segment_hint::write_hint(&oldest(old)), path);
    pair.check(&files);
}

/// A moved store does not create its next segment if the store on its old path has a segment of that number, active or
/// sealed.
#[test]
fn roll_of_a_moved_store_leaves_the_segment_of_its_number_alone() {
    for behind in [1, 2] {
        let mut old = Store::new();
        old.fill(0, 5, 1);
        let pair = Pair::of(old, |new, segments| {
            while new.segments().len() < segments + behind {
                new.fill(new.model.len() as u32 + 10_000, 10, 2);
            }
            // After a start, sealed segments are closed.
            new.reopen(true);
        });
        let files = contents(&pair.new.path());
        assert!(pair.new.segments().contains(&(newest(&pair.old) + 1)));
        assert_moved(try_roll(&pair.old), &pair.new.path());
        pair.check(&files);
    }
}

#[test]
fn moved_store_writes_on_and_works_again_when_it_is_back() {
    let mut store = Store::new();
    store.fill(0, FULL, 1);
    let (path, moved) = (store.path(), store.directory.path().join("moved"));
    fs::rename(&path, &moved).unwrap();
    store.fill(FULL, FULL * 2, 1);
    assert_moved(try_roll(&store), &path);
    assert!(!path.exists());
    let before = newest(&store);
    fs::rename(&moved, &path).unwrap();
    store.fill(FULL * 3, FULL * 2, 1);
    assert!(newest(&store) > before);
    store.merge_oldest();
    store.reopen(true);
    store.check();
}

/// Returns a store with more segments than may be kept open, and its last sealed segment, which is closed.
fn few_open() -> (Store, Arc<Segment>) {
    let mut store = Store::new();
    fill_segments(&mut store, 40, 1);
    store.shut(true);
    store.engine = Some(open_with_few_files(&store.path()));
    let last = store.engine().files.segments.sealed().pop().unwrap();
    (store, last)
}

/// Writes `count` segments with one key each.
fn fill_segments(store: &mut Store, count: usize, seed: u8) {
    for number in 1..=count as u32 {
        store.put(&number.to_be_bytes(), &value(number, seed));
        store.roll();
    }
}

#[test]
fn hint_is_written_beside_its_own_segment_only() {
    let (old, segment) = few_open();
    let pair = Pair::of(old, |new, segments| fill_segments(new, segments, 1));
    let files = contents(&pair.new.path());
    assert_moved(segment_hint::write_hint(&segment), &segment.path);
    assert!(!hint::path_of(&segment.path).exists());
    drop(segment);
    pair.check(&files);
}

/// A closed segment is opened by its path. If that names a file of another store after a move, reads and merges of the
/// moved store fail; reads succeed again when the directory is back.
#[test]
fn closed_segment_of_a_moved_store_is_neither_read_nor_merged_as_corrupt() {
    let (old, segment) = few_open();
    let (key, expected) = (segment.id.to_be_bytes(), value(segment.id, 1));
    // This segment is kept open after its first read.
    let kept = Segment::sealed(&old.path(), 1, &OpenFiles::new(1)).unwrap();
    let source = old.engine().files.source(&segment, u64::MAX).unwrap().unwrap();
    let pair = Pair::of(old, |new, segments| fill_segments(new, segments, 2));
    let (files, path) = (contents(&pair.new.path()), pair.new.path());
    assert_moved(get(pair.old.engine(), &key), &segment.path);
    assert_moved(pair.old.engine().files.merge(&source, &|| false), &segment.path);
    assert_moved(kept.file().map(drop), &kept.path);
    let away = pair.new.directory.path().join("away");
    fs::rename(&path, &away).unwrap();
    assert_moved(get(pair.old.engine(), &key), &segment.path);
    fs::rename(&pair.moved, &path).unwrap();
    assert_eq!(get(pair.old.engine(), &key).unwrap(), Some(expected));
    assert!(kept.file().unwrap().is_at(&kept.path).unwrap());
    fs::rename(&path, &pair.moved).unwrap();
    fs::rename(&away, &path).unwrap();
    drop((segment, source));
    pair.check(&files);
}

/// A store whose files, but not the directory, were removed changes nothing of the store that was opened in the
/// directory next.
#[test]
fn store_whose_files_were_removed_changes_nothing_of_the_next_one_in_the_directory() {
    let mut old = Store::new();
    old.fill(0, FULL * 2, 1);
    let path = old.path();
    names(&path).iter().for_each(|name| fs::remove_file(path.join(name)).unwrap());
    let new = try_open(&path).unwrap();
    let mut batch = Batch::default();
    batch.put(b"key", b"value");
    new.write(&batch, true).unwrap();
    let files = contents(&path);
    assert_moved(try_roll(&old), &path);
    assert_moved(old.engine().files.record(), &path);
    assert_moved(old.engine().files.merge_oldest(&|| false), &path);
    old.shut(true);
    assert!(contents(&path) == files);
    new.close().unwrap();
    assert_eq!(check(&path).unwrap().holds, "1 keys, 1 records in 1 segments");
}

/// If the directory is moved after a merge has copied the live values, the merge fails and removes no segment, neither
/// of the moved store nor of the one on the old path.
#[test]
fn merge_during_which_the_directory_is_moved_removes_nothing() {
    let mut old = Store::new();
    old.fill(0, FULL * 3, 1);
    let (path, moved, mut new) = (old.path(), old.directory.path().join("moved"), None);
    let (segments, cell) = (old.segments(), RefCell::new(&mut new));
    let stop = || {
        cell.borrow_mut().get_or_insert_with(|| {
            fs::rename(&path, &moved).unwrap();
            let engine = try_open(&path).unwrap();
            let mut batch = Batch::default();
            batch.put(b"of the new one", b"value");
            engine.write(&batch, true).unwrap();
            engine
        });
        false
    };
    assert_moved(old.engine().files.merge_oldest(&stop), &path);
    assert_eq!(super::segments(&moved)[..segments.len()], segments);
    let new = new.unwrap();
    assert_eq!(all(&new), Model::from([(b"of the new one".to_vec(), b"value".to_vec())]));
    new.close().unwrap();
    assert_eq!(all(&try_open(&path).unwrap()).len(), 1);
    old.shut(false);
    assert!(all(&try_open(&moved).unwrap()) == old.model);
}

//! Whose data a path holds, and who may open them.

use crate::cells::{EngineCase, error_at, names, open_at, options, scratch};
use kvbench::engine::{Batch, Error, Fsync, KINDS, Kind, Location};
use std::{fs, os::unix::fs::symlink};

/// Whether two engines keep their data in one format, on purpose.
fn share_a_format(one: &Kind, other: &Kind) -> bool {
    one.info.storage_format() == other.info.storage_format()
}

#[test]
fn data_of_another_engine_are_refused_and_left_alone() {
    for owner in KINDS {
        let cell = EngineCase { kind: owner, fsync: Fsync::Always, memory: false };
        let mut open = cell.open();
        open.put(b"key", b"value");
        open.shut(true);
        let path = open.path();
        for kind in KINDS {
            println!("{} on data of {}", kind.info.name, owner.info.name);
            assert_eq!((kind.recognise)(&path), share_a_format(kind, owner));
            if share_a_format(kind, owner) {
                assert_eq!(open_at(kind, &path).unwrap().count().unwrap(), 1);
                continue;
            }
            let error = error_at(kind, &path);
            let Error::Foreign { found, .. } = &error else { panic!("{error:?}") };
            let sharing = KINDS.iter().filter(|kind| share_a_format(kind, owner)).map(|kind| kind.info.name);
            assert_eq!(found, &format!("data of {}", sharing.collect::<Vec<_>>().join(" or ")));
        }
        let again = cell.kind.open(&open.options).unwrap();
        assert_eq!(again.count().unwrap(), 1);
    }
}

/// A link to a disk that is not mounted is one.
#[test]
fn link_to_nothing_is_named_as_such() {
    for kind in KINDS {
        let directory = scratch();
        let path = directory.path().join("data");
        std::os::unix::fs::symlink(directory.path().join("gone"), &path).unwrap();
        match open_at(kind, &path) {
            // Data that are one file are created where the link points.
            Ok(engine) => engine.close().unwrap(),
            Err(error) => {
                let text = error.to_string();
                assert!(text.contains("is a symbolic link, and what it names does not exist"), "{text}");
            }
        }
    }
}

#[test]
fn engines_that_need_files_refuse_memory() {
    for kind in KINDS.iter().filter(|kind| !kind.info.capabilities.in_memory) {
        let mut options = options("unused", Fsync::No);
        options.location = Location::Memory;
        let error = kind.open(&options).map(|_| ()).unwrap_err();
        assert!(matches!(error, Error::Unsupported { .. }), "{error:?}");
    }
}

/// What a first start writes before the engine makes a file.
fn mark(engine: &str) -> String {
    format!(
        "The first start of kvbench --store {engine} has not ended here.\n\
         The next one removes what this one has made, and begins again.\n"
    )
}

/// The engines that mark a directory until its first files are made, and a file of each that has data.
const MARKED: [(&str, &str, usize); 7] = [
    ("bitcask", "0000000001.segment", 31),
    ("rocksdb", "000123.log", 1),
    ("rocksdb-blob", "000123.blob", 1),
    ("lmdb", "data.mdb", 2 << 20),
    ("sled", "db", 5 << 20),
    ("sqlite", "data.sqlite3", 2 << 20),
    ("mdbx", "mdbx.dat", 2 << 20),
];

fn directories() -> impl Iterator<Item = &'static Kind> {
    KINDS.iter().filter(|kind| MARKED.iter().any(|(name, ..)| *name == kind.info.name))
}

const MARK: &str = "kvbench-first-start";

#[test]
fn a_first_start_removes_nothing_that_is_not_of_one() {
    for kind in directories() {
        let stranger = |name: &str, bytes: &[u8]| {
            let scratch = scratch();
            fs::write(scratch.path().join(MARK), mark(kind.info.name)).unwrap();
            fs::write(scratch.path().join(name), bytes).unwrap();
            let before = names(scratch.path());
            let error = error_at(kind, scratch.path());
            let text = error.to_string();
            assert!(matches!(error, Error::Interrupted { .. }), "{error:?}");
            assert!(text.contains(name) && !text.contains('\n'), "{text}");
            assert_eq!(names(scratch.path()), before);
            assert_eq!(fs::read(scratch.path().join(name)).unwrap(), bytes);
        };
        stranger("letter.txt", b"Dear reader,\n");
        // Large, or filled: data of the engine itself, whatever the mark says.
        let (_, name, len) = MARKED.iter().find(|(name, ..)| *name == kind.info.name).unwrap();
        stranger(name, &vec![1; *len]);
    }
}

#[test]
fn data_are_kept_when_a_mark_comes_back() {
    // As after a power cut that undid its removal, though that is synced before anybody may write.
    for kind in directories() {
        let cell = EngineCase { kind, fsync: Fsync::Always, memory: false };
        let mut open = cell.open();
        let value = vec![7; 100_000];
        (0..100_u32).for_each(|n| open.put(&n.to_be_bytes(), &value));
        open.shut(false);
        fs::write(open.path().join(MARK), mark(kind.info.name)).unwrap();
        let error = error_at(kind, &open.path());
        assert!(matches!(error, Error::Interrupted { .. }), "{error:?}");
        fs::remove_file(open.path().join(MARK)).unwrap();
        open.open_again();
        assert_eq!(open.count(), 100);
    }
}

#[test]
fn a_mark_that_is_not_whole_means_nothing() {
    for kind in directories() {
        let whole = mark(kind.info.name);
        for len in [0, 10, whole.len() - 1] {
            let scratch = scratch();
            fs::write(scratch.path().join(MARK), &whole[..len]).unwrap();
            fs::write(scratch.path().join("letter.txt"), "Dear reader,\n").unwrap();
            assert!(matches!(error_at(kind, scratch.path()), Error::Foreign { .. }));
            fs::remove_file(scratch.path().join("letter.txt")).unwrap();
            drop(open_at(kind, scratch.path()).unwrap());
            assert!(!names(scratch.path()).iter().any(|name| name == MARK));
        }
    }
}

/// `fjall` and `canopydb` create their files in a directory of the mark's name.
#[test]
fn a_killed_first_start_with_a_directory_keeps_nobody_out() {
    for kind in directories() {
        let scratch = scratch();
        fs::create_dir(scratch.path().join(MARK)).unwrap();
        fs::write(scratch.path().join(MARK).join("0.jnl"), "a part").unwrap();
        drop(open_at(kind, scratch.path()).unwrap());
        assert!(!names(scratch.path()).iter().any(|name| name == MARK), "{}", kind.info.name);
    }
}

#[test]
fn a_store_behind_a_symbolic_link_has_its_size() {
    for kind in directories() {
        let (scratch, links) = (scratch(), scratch());
        let link = links.path().join("link");
        symlink(scratch.path(), &link).unwrap();
        let engine = open_at(kind, &link).unwrap();
        let mut batch = Batch::default();
        let value = vec![7; 100_000];
        batch.put(b"key", &value);
        engine.write(&batch, true).unwrap();
        assert!(engine.disk_size().unwrap() > 0, "{}", kind.info.name);
    }
}

#[test]
fn a_first_start_of_another_engine_is_refused_by_name() {
    for owner in directories() {
        let scratch = scratch();
        fs::write(scratch.path().join(MARK), mark(owner.info.name)).unwrap();
        fs::write(scratch.path().join("LOCK"), "").unwrap();
        for kind in directories().filter(|kind| kind.info.name != owner.info.name) {
            let error = error_at(kind, scratch.path());
            let Error::Foreign { found, .. } = &error else { panic!("{error:?}") };
            assert_eq!(found, &format!("data of {}", owner.info.name));
        }
        assert_eq!(names(scratch.path()), ["LOCK", MARK]);
        fs::remove_file(scratch.path().join("LOCK")).unwrap();
        // Alone it keeps nobody out.
        let Some(other) = directories().find(|kind| kind.info.name != owner.info.name) else { continue };
        drop(open_at(other, scratch.path()).unwrap());
    }
}

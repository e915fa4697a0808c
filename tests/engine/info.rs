//! What the engines say of themselves.

use kvbench::engine::{Compression, Durability, Fsync, KINDS, Kind};

const LOCK: &str = include_str!("../../Cargo.lock");

#[test]
fn versions_are_those_of_the_lock_file() {
    for kind in KINDS {
        for part in kind.info.library.split(", ") {
            // The standard library is in no lock file.
            if part.starts_with("std::") {
                continue;
            }
            let (name, version) = part.split_once(' ').unwrap();
            let entry = format!("name = \"{name}\"\nversion = \"{version}\"\n");
            assert!(LOCK.contains(&entry), "{} is not the {part} it says", kind.info.name);
        }
    }
}

#[test]
fn names_are_unique_and_found() {
    for kind in KINDS {
        let found = Kind::find(kind.info.name).unwrap();
        assert!(std::ptr::eq(found.info, kind.info));
    }
    assert!(Kind::find("no such engine").is_none());
}

#[test]
fn every_engine_stores_plain_and_loses_nothing_under_always() {
    for kind in KINDS {
        assert_eq!(kind.info.compression.first(), Some(&Compression::None), "{}", kind.info.name);
        let loss = kind.info.loss(Fsync::Always);
        assert_eq!((loss.kill, loss.power_cut), ("nothing", "nothing"), "{}", kind.info.name);
    }
}

#[test]
fn every_caveat_is_true_somewhere_and_none_of_memory_is_said_of_files() {
    for kind in KINDS {
        let info = kind.info;
        let files = Fsync::ALL.map(Durability::Files);
        let memory = info.in_memory.then_some(Durability::Memory);
        for caveat in info.caveats {
            let places: Vec<_> = files.into_iter().chain(memory).filter(|at| caveat.holds(*at)).collect();
            assert!(!places.is_empty(), "{}: nobody is told {:?}", info.name, caveat.text);
        }
        for durability in files {
            let memory = info.caveats_at(durability).find(|text| {
                let text = text.to_lowercase();
                text.contains(":memory:") || text.contains("in-memory file system")
            });
            assert_eq!(memory, None, "{} under {}", info.name, durability.word());
        }
    }
}

//! What the engines say of themselves.

use kvbench::engine::{Compression, Durability, Fsync, KINDS, Kind, Loss, LossBound, LossClass};

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
fn every_engine_stores_plain_and_but_for_two_loses_nothing_under_always() {
    for kind in KINDS {
        assert_eq!(kind.info.compression.first(), Some(&Compression::None), "{}", kind.info.name);
        let loss = kind.info.loss(Fsync::Always);
        // Of canopydb's log a full disk can take what was synced.
        assert_eq!(loss.kill == LossBound::NOTHING, kind.info.name != "canopydb", "{}", kind.info.name);
        // No sync from outside makes up for the order in which sled uses its space again.
        let keeps = !["sled", "canopydb"].contains(&kind.info.name);
        assert_eq!(loss == Loss::NOTHING, keeps, "{}", kind.info.name);
    }
}

#[test]
fn every_caveat_is_true_somewhere_and_none_of_memory_is_said_of_files() {
    for kind in KINDS {
        let info = kind.info;
        let files = Fsync::ALL.map(Durability::Files);
        let memory = info.capabilities.in_memory.then_some(Durability::Memory);
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

#[test]
fn what_is_lost_is_said_by_the_same_words_as_by_its_extent() {
    for (kind, fsync) in KINDS.iter().flat_map(|kind| Fsync::ALL.map(|fsync| (kind, fsync))) {
        let loss = kind.info.loss(fsync);
        assert!(loss.power_cut.extent >= loss.kill.extent, "{} {fsync}", kind.info.name);
        for lost in [loss.kill, loss.power_cut] {
            let expected = match lost.words {
                "nothing" => LossClass::Nothing,
                words if words.contains("everything") || words.contains("whole database") => {
                    LossClass::Everything
                }
                words if words.contains("buffer") => LossClass::Buffer,
                words if words.contains("not written") => LossClass::Unwritten,
                _ => LossClass::Seconds,
            };
            assert_eq!(lost.extent, expected, "{} {fsync}: {}", kind.info.name, lost.words);
        }
    }
}

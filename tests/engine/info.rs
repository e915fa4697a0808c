//! What the engines say of themselves.

use crate::cells::for_each_on_disk;
use kvbench::engine::{
    Compression, DISTRIBUTED, Durability, Fsync, KINDS, Kind, Loss, LossBound, LossClass, absent,
    absent_hint, feature,
};
use std::process::Command;

const PUBLICATIONS: &str = include_str!("../../docs/publications.md");

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

/// In the suite of redb's program each thread reads from one snapshot. The other engines' reads begin nothing that it
/// would save.
#[test]
fn every_engine_whose_reads_begin_with_a_transaction_or_a_shared_state_has_snapshots() {
    let names = ["lmdb", "redb", "sqlite", "fjall", "mdbx", "canopydb"];
    for_each_on_disk(|cell| {
        let open = cell.open();
        let has_snapshots = open.engine().snapshot().unwrap().is_some();
        assert_eq!(has_snapshots, names.contains(&cell.kind.info.name), "{cell}");
    });
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

/// The stores of `docs/stores.json`, each with its line.
fn written() -> Vec<(String, &'static str)> {
    let lines = include_str!("../../docs/stores.json").lines().filter(|line| line.starts_with('{'));
    let named = lines.map(|line| (line.split('"').nth(3).unwrap().to_owned(), line.trim_end_matches(',')));
    named.collect()
}

/// Scripts that run before there is a program read the facts from a file.
#[test]
fn the_file_of_facts_is_what_the_program_prints() {
    let output = Command::new(env!("CARGO_BIN_EXE_kvbench")).args(["stores", "--json"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let parsed: serde_json::Value = serde_json::from_str(&text).unwrap();
    let stores = parsed.as_array().unwrap();
    assert_eq!(stores.len(), KINDS.len() + DISTRIBUTED.len());
    let written = written();
    for line in text.lines().filter(|line| line.starts_with('{')) {
        let line = line.trim_end_matches(',');
        assert!(
            written.iter().any(|(_, other)| *other == line),
            "put this line into docs/stores.json: {line}"
        );
    }
    for (name, _) in &written {
        let is_known = Kind::find(name).is_some() || feature(name).is_some();
        assert!(is_known, "docs/stores.json has {name}, which is in no list");
    }
    for (name, _) in absent() {
        assert!(written.iter().any(|(other, _)| *other == name), "docs/stores.json lacks {name}");
    }
}

#[test]
fn the_page_of_engines_has_a_section_for_each() {
    let page = include_str!("../../docs/engines.md");
    let titles: Vec<_> = page.lines().filter(|line| line.starts_with("## ")).collect();
    for (name, line) in written().into_iter().filter(|(_, line)| !line.contains("\"distributed\"")) {
        assert!(titles.iter().any(|title| title.contains(&format!("`{name}`"))), "{name}: {line}");
    }
}

#[test]
fn engines_of_the_same_design_are_in_the_table_of_publications() {
    for info in KINDS.iter().map(|kind| kind.info) {
        let store = format!("`{}`", info.name);
        for name in info.same_design {
            let is_of = |row: &str| {
                let mut cells = row.split('|').skip(1);
                let systems = cells.next().unwrap_or_default().to_ascii_lowercase();
                // A name may be longer than in the table: BoltDB, bolt.
                let is_named = |system: &str| system.contains(name) || name.contains(system.trim());
                systems.split(',').any(is_named) && cells.any(|cell| cell.contains(&store))
            };
            assert!(PUBLICATIONS.lines().any(is_of), "{name}: {store}");
            assert!(Kind::find(name).is_none(), "{name}");
        }
    }
    assert_eq!(absent_hint("oracle"), None);
}

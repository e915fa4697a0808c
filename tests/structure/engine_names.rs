//! No code asks for an engine by its name: what differs between engines is in their `Info`, and lists come from
//! `kvbench stores --json`. The names themselves are read from `docs/stores.json`.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// Files that name engines, with the names and the reason.
const EXCEPTIONS: &[(&str, &[&str], &str)] = &[
    ("Makefile", &["lmdb", "sled", "redb"], "engines of the demo: a choice, which the caller can change"),
    (
        "Makefile",
        &["canopydb", "tikv"],
        "features that are not in the default build are checked and tested too",
    ),
    (
        "benches/bare/side/mod.rs",
        &["rocksdb", "lmdb", "redb", "sqlite", "fjall", "mdbx", "canopydb"],
        "the one list of bare sides: a line and a file each",
    ),
    ("benches/compare_proof.py", &["btree", "lmdb", "redb"], "stores of the proof: a choice of the caller"),
    ("benches/interleave_proof.py", &["btree", "redb"], "stores of the proof: a choice of the caller"),
    ("benches/lmdb_renew.c", &["lmdb"], "measures a call of LMDB's own library"),
    ("benches/peers/cold.py", &["lmdb"], "an example of a command line"),
    ("benches/peers/load.py", &["redb"], "an example of a command line"),
    ("benches/peers/stalls.py", &["lmdb"], "an example of a command line"),
    (
        "benches/sensitivity.py",
        &["rocksdb", "fjall", "redb", "sqlite", "lmdb", "mdbx"],
        "each engine with a setting that its users change",
    ),
    ("docs/reference/run", &["sled"], "left out where memory is little, by what was measured"),
    ("src/bench/plan/suites/cell_builder.rs", &["redis"], "the server redis-server, not the engine"),
    ("src/bench/plan/suites/mod.rs", &["redb"], "the suite of this name"),
    ("src/command/admin/connection.rs", &["redis"], "HELLO's reply"),
    ("src/engine/synthetic/calibration/known_file_writes.rs", &["map"], "the verb of an error message"),
    (
        "src/engine/synthetic/mod.rs",
        &["redb", "sled"],
        "a twin of redb; sled-flush-only wraps the library of sled",
    ),
    ("src/engine/synthetic/twins.rs", &["redb"], "a twin of redb, on disk"),
    ("tools/check-rocksdb", &["rocksdb"], "about the build of RocksDB"),
    ("tools/cluster", &["tikv"], "starts clusters of this name"),
    ("tools/rocksdb-cxx", &["rocksdb"], "about the build of RocksDB"),
    ("tools/try-readme", &["rocksdb"], "its build takes long, and can be left out"),
];

/// Names that are ordinary words outside of string literals.
const WORDS: [&str; 2] = ["map", "redis"];

fn names() -> Vec<String> {
    let facts: serde_json::Value = serde_json::from_str(include_str!("../../docs/stores.json")).unwrap();
    facts.as_array().unwrap().iter().map(|facts| facts["name"].as_str().unwrap().to_owned()).collect()
}

/// The files of a folder, without those of the engines, of tests, and of published results.
fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let (path, name) = (entry.path(), entry.file_name().into_string().unwrap());
        if path.is_dir() {
            if name != "tests" && !path.ends_with("src/engine/stores") {
                files(&path, found);
            }
        } else if !name.ends_with("tests.rs") && !name.ends_with(".json") {
            found.push(path);
        }
    }
}

/// Returns `true` if a line of code has the name: in Rust as a literal, elsewhere as a word.
fn has_name(line: &str, name: &str, is_rust: bool) -> bool {
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '-' || letter == '_';
    match is_rust {
        true => !line.starts_with("//") && line.contains(&format!("\"{name}\"")),
        false => {
            let is_word = |at: usize| {
                let (before, after) = (&line[..at], &line[at + name.len()..]);
                !before.ends_with(is_part) && !after.starts_with(is_part)
            };
            let mut places = line.match_indices(name);
            !WORDS.contains(&name) && !line.starts_with('#') && places.any(|(at, _)| is_word(at))
        }
    }
}

#[test]
fn engines_are_named_in_their_own_files_only() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut places = vec![root.join("Makefile"), root.join("docs/reference/run")];
    ["src", "benches", "tools"].iter().for_each(|folder| files(&root.join(folder), &mut places));
    assert!(places.len() > 100, "{} files", places.len());
    let names = names();
    let mut used = BTreeSet::new();
    for path in places {
        let Ok(text) = fs::read_to_string(&path) else { continue };
        let place = path.strip_prefix(root).unwrap().to_str().unwrap();
        let is_rust = place.ends_with(".rs");
        for line in text.lines().map(str::trim).take_while(|line| *line != "mod tests {") {
            for name in names.iter().filter(|name| has_name(line, name, is_rust)) {
                let allowed = |(file, names, _): &(&str, &[&str], &str)| {
                    *file == place && names.contains(&name.as_str())
                };
                let exception = EXCEPTIONS.iter().position(allowed);
                let exception = exception.unwrap_or_else(|| {
                    panic!("{place} names {name}: {line}; ask its Info, or `kvbench stores --json`")
                });
                used.insert((exception, name.clone()));
            }
        }
    }
    for (index, (file, names, _)) in EXCEPTIONS.iter().enumerate() {
        for name in *names {
            assert!(used.contains(&(index, name.to_string())), "{file} no longer names {name}");
        }
    }
}

#[test]
fn a_name_is_found() {
    for (line, is_rust, expected) in [
        ("Kind::find(\"lmdb\")", true, true),
        ("// \"lmdb\"", true, false),
        ("lmdb::KIND,", true, false),
        ("case $store in lmdb|sqlite) ;;", false, true),
        ("lmdb_size=1; my-lmdb", false, false),
        ("# lmdb", false, false),
    ] {
        assert_eq!(has_name(line, "lmdb", is_rust), expected, "{line}");
    }
    assert!(!has_name("map(str, words)", "map", false));
}

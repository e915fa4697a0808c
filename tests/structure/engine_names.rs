//! No code asks for an engine by its name: what differs between engines is in their `Info`, and lists come from
//! `kvbench stores --json`. The names themselves are read from `docs/stores.json`.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};
use syn::{
    Lit,
    buffer::{Cursor, TokenBuffer},
};

/// Files that name engines, with the names and the reason.
const EXCEPTIONS: &[(&str, &[&str], &str)] = &[
    ("Makefile", &["lmdb", "sled", "redb"], "engines of the demo: a choice, which the caller can change"),
    (
        "Makefile",
        &["fjall"],
        "with those of the demo an engine in Rust, which is checked for other systems without a C compiler",
    ),
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
    (
        "benches/between_runs.py",
        &["btree", "rocksdb", "lmdb", "redb", "sqlite"],
        "stores of the runs: a choice of the caller",
    ),
    ("benches/compare_proof.py", &["btree", "lmdb", "redb"], "stores of the proof: a choice of the caller"),
    ("benches/duel_proof.py", &["rocksdb", "redb"], "stores of the proof: a choice of the caller"),
    ("benches/lmdb_renew.c", &["lmdb"], "measures a call of LMDB's own library"),
    ("benches/peers/cold.py", &["lmdb"], "an example of a command line"),
    ("benches/peers/load.py", &["redb"], "an example of a command line"),
    ("benches/peers/stalls.py", &["lmdb"], "an example of a command line"),
    (
        "benches/sensitivity.py",
        &["rocksdb", "fjall", "redb", "sqlite", "lmdb", "mdbx"],
        "each engine with a setting that its users change",
    ),
    (
        "benches/turns_proof.py",
        &["btree", "bitcask", "rocksdb", "redb", "sqlite", "fjall", "lmdb", "mdbx"],
        "nine stores that take turns, and two that delay writes",
    ),
    ("docs/reference/run", &["sled"], "left out where memory is little, by what was measured"),
    ("src/bench/plan/suites/cell_builder.rs", &["redis"], "the server redis-server, not the engine"),
    ("src/bench/plan/suites/mod.rs", &["redb"], "the suite of this name"),
    ("src/cli/bench/mod.rs", &["btree", "rocksdb", "lmdb", "redb"], "examples of command lines"),
    ("src/cli/duel.rs", &["redb", "fjall"], "examples of command lines"),
    ("src/cli/mod.rs", &["btree", "rocksdb", "lmdb", "redb"], "examples of command lines"),
    ("src/cli/reproduce.rs", &["redb"], "examples with the publication of this name"),
    ("src/cli/torture.rs", &["rocksdb", "lmdb"], "examples of command lines"),
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
    ("tools/try-duel-action", &["sled"], "plants a loss in a copy of this crate"),
    ("tools/try-readme", &["rocksdb"], "its build takes long, and can be left out"),
];

/// Names that are also ordinary words: they are found only where a string literal is nothing else.
const WORDS: [&str; 2] = ["map", "redis"];

fn names() -> Vec<String> {
    let facts: serde_json::Value = serde_json::from_str(include_str!("../../docs/stores.json")).unwrap();
    facts.as_array().unwrap().iter().map(|facts| facts["name"].as_str().unwrap().to_owned()).collect()
}

/// The files of a folder, without those of the engines and their older versions, of tests, and of published results.
pub(crate) fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let (path, name) = (entry.path(), entry.file_name().into_string().unwrap());
        if path.is_dir() {
            let is_of_engines = path.ends_with("src/engine/stores") || path.ends_with("tools/history");
            if name != "tests" && !is_of_engines {
                files(&path, found);
            }
        } else if !name.ends_with("tests.rs") && !name.ends_with(".json") {
            found.push(path);
        }
    }
}

/// Returns `true` if a text has the name as a word.
fn has_name(text: &str, name: &str) -> bool {
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '-' || letter == '_';
    let is_word = |at: usize| {
        let (before, after) = (&text[..at], &text[at + name.len()..]);
        !before.ends_with(is_part) && !after.starts_with(is_part)
    };
    let mut places = text.match_indices(name);
    text == name || !WORDS.contains(&name) && places.any(|(at, _)| is_word(at))
}

/// The parts of a file that can name an engine: in Rust the string literals up to the tests, elsewhere the lines
/// without comments.
fn texts(content: &str, is_rust: bool) -> Vec<String> {
    let lines = content.lines().map(str::trim);
    if !is_rust {
        return lines.filter(|line| !line.starts_with('#')).map(str::to_owned).collect();
    }
    let code: Vec<_> = content.lines().take_while(|line| line.trim() != "mod tests {").collect();
    let tokens = TokenBuffer::new2(code.join("\n").parse().unwrap());
    let mut found = Vec::new();
    add_literals(tokens.begin(), &mut found);
    found
}

/// Adds the string literals of tokens to `found`, without those that are comments.
fn add_literals(mut tokens: Cursor<'_>, found: &mut Vec<String>) {
    loop {
        if let Some((inside, _, _, rest)) = tokens.any_group() {
            let is_assigned = |rest: Cursor<'_>| rest.punct().is_some_and(|(sign, _)| sign.as_char() == '=');
            let is_comment = inside.ident().is_some_and(|(name, rest)| name == "doc" && is_assigned(rest));
            if !is_comment {
                add_literals(inside, found);
            }
            tokens = rest;
        } else if let Some((literal, rest)) = tokens.literal() {
            match Lit::new(literal) {
                Lit::Str(text) => found.push(text.value()),
                Lit::ByteStr(text) => found.push(String::from_utf8_lossy(&text.value()).into_owned()),
                _ => {}
            }
            tokens = rest;
        } else if let Some((_, rest)) = tokens.token_tree() {
            tokens = rest;
        } else {
            break;
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
        for text in texts(&text, place.ends_with(".rs")) {
            for name in names.iter().filter(|name| has_name(&text, name)) {
                let allowed = |(file, names, _): &(&str, &[&str], &str)| {
                    *file == place && names.contains(&name.as_str())
                };
                let exception = EXCEPTIONS.iter().position(allowed);
                let exception = exception.unwrap_or_else(|| {
                    panic!("{place} names {name}: {text}; ask its Info, or `kvbench stores --json`")
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
    for (content, is_rust, expected) in [
        ("Kind::find(\"lmdb\")", true, true),
        ("println!(\"as\\nlmdb does\")", true, true),
        ("#[cfg(feature = \"lmdb\")]", true, true),
        ("[b\"lmdb\"]", true, true),
        ("// \"lmdb\"\n/// \"lmdb\"\nfn f() {}", true, false),
        ("lmdb::KIND,", true, false),
        ("f(\"my-lmdb\")", true, false),
        ("mod tests {\n\"lmdb\"\n}", true, false),
        ("case $store in lmdb|sqlite) ;;", false, true),
        ("lmdb_size=1; my-lmdb", false, false),
        ("# lmdb", false, false),
    ] {
        let found = texts(content, is_rust).iter().any(|text| has_name(text, "lmdb"));
        assert_eq!(found, expected, "{content}");
    }
    assert!(has_name("map", "map") && !has_name("a memory map", "map"));
}

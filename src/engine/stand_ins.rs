//! Well-known engines that kvbench does not have, and the stores that stand for each (docs/publications.md).

/// Names of an engine, in lower case, and the stores of the same design, the closest first.
const STAND_INS: &[(&[&str], &[&str])] = &[
    (&["bolt", "bbolt", "boltdb"], &["lmdb", "mdbx", "redb"]),
    (&["leveldb", "goleveldb"], &["fjall", "rocksdb"]),
    (&["pebble", "pebbledb"], &["fjall", "rocksdb"]),
    (&["badger", "badgerdb"], &["rocksdb-blob"]),
    (&["buntdb"], &["btree"]),
    (&["cznic/kv"], &["sqlite"]),
    (&["nutsdb"], &["map", "bitcask"]),
];

/// Returns the stores that stand for the engine `name`, as a hint for the user; `None` if the engine is unknown.
pub fn hint(name: &str) -> Option<String> {
    let name = name.to_ascii_lowercase();
    let (_, stores) = STAND_INS.iter().find(|(names, _)| names.contains(&&*name))?;
    Some(format!(
        "kvbench has no {name}; stores of the same design: {} (docs/publications.md)",
        stores.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stand_in_is_in_the_row_of_its_engine_in_the_documentation() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/publications.md");
        let page = std::fs::read_to_string(page).unwrap();
        for (names, stores) in STAND_INS {
            let is_of = |row: &&str| {
                row.split('|')
                    .nth(1)
                    .is_some_and(|system| names.iter().any(|name| system.to_ascii_lowercase().contains(name)))
            };
            let rows: Vec<_> = page.lines().filter(|line| line.starts_with("| ")).filter(is_of).collect();
            assert!(!rows.is_empty(), "{names:?}");
            for store in *stores {
                assert!(rows.iter().any(|row| row.contains(&format!("`{store}`"))), "{names:?}: {store}");
            }
        }
        assert_eq!(hint("oracle"), None);
    }
}

//! The table of versions in docs/clients.md is that of the files by which they are installed.

use super::SOURCES;
use std::{fs, path::Path};

/// Name, file, and what stands before the version in it.
const LIBRARIES: &[(&str, &str, &str)] = &[
    ("redis-py", "python/requirements.txt", "redis=="),
    ("node-redis", "node/package.json", "\"redis\": \""),
    ("ioredis", "node/package.json", "\"ioredis\": \""),
    ("go-redis", "go/go.mod", "github.com/redis/go-redis/v9 v"),
    ("redigo", "go/go.mod", "github.com/gomodule/redigo v"),
    ("redis_exporter", "exporter/go.mod", "github.com/oliver006/redis_exporter v"),
    ("Jedis", "java/pom.xml", "<artifactId>jedis</artifactId>\n      <version>"),
    ("Lettuce", "java/pom.xml", "<artifactId>lettuce-core</artifactId>\n      <version>"),
    ("redis-rs", "rust/Cargo.lock", "name = \"redis\"\nversion = \""),
    ("fred", "rust/Cargo.lock", "name = \"fred\"\nversion = \""),
];

#[test]
fn the_table_of_client_libraries_has_the_versions_that_are_tested() {
    let page = include_str!("../../../docs/clients.md");
    for (name, file, before) in LIBRARIES {
        let text = fs::read_to_string(Path::new(SOURCES).join(file)).unwrap();
        let (_, rest) = text.split_once(before).unwrap_or_else(|| panic!("no {before:?} in {file}"));
        let is_version = |c: char| c.is_ascii_alphanumeric() || c == '.';
        let version = rest.split(|c| !is_version(c)).next().unwrap();
        let row = format!("| {name} | {version} |");
        assert!(page.contains(&row), "docs/clients.md: no row {row}");
    }
    let table = page.lines().skip_while(|line| !line.starts_with("| client |"));
    let rows = table.take_while(|line| line.starts_with('|')).filter(|line| line.starts_with("| ")).count();
    let programs = super::programs::NAMES.iter().filter(|name| page.contains(&format!("| {name} |"))).count();
    assert_eq!(programs, super::programs::NAMES.len());
    assert_eq!(rows, 1 + programs + LIBRARIES.len(), "docs/clients.md has rows that are not tested");
}

//! The published schema is that of the types, and results keep to it.

use crate::support::bench::result_of;
use std::fs;

const SCHEMA: &str = include_str!("../../docs/result.schema.json");

#[test]
fn the_published_schema_is_that_of_the_types() {
    assert!(
        SCHEMA == kvbench::bench::schema(),
        "docs/result.schema.json is stale: kvbench result-schema > docs/result.schema.json"
    );
}

#[test]
fn results_keep_to_the_schema() {
    let dir = tempfile::tempdir().unwrap();
    result_of(
        dir.path(),
        &["--stores", "map", "--operations", "500", "--keys", "100", "--fsync", "always,memory"],
    );
    let result = serde_json::from_slice(&fs::read(dir.path().join("result.json")).unwrap()).unwrap();
    let schema = serde_json::from_str(SCHEMA).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let errors: Vec<String> = validator.iter_errors(&result).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{errors:?}");
    assert!(!validator.is_valid(&serde_json::json!({ "schema": "one" })));
}

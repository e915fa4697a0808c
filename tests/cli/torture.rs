//! `kvbench torture`: flags and files that it refuses before it tests anything.

use crate::program::{misuse, misuse_in};
use std::fs;

#[test]
fn flags_about_another_program_are_refused_without_one() {
    for flags in [["--promise", "tail"], ["--name", "other"]] {
        for store in [&[][..], &["--store", "map"], &["--fsync", "no"]] {
            let said = misuse(&[&["torture"], store, &flags].concat());
            assert!(said.contains(flags[0]), "{store:?} {flags:?}: {said}");
        }
    }
}

#[test]
fn a_result_file_that_cannot_be_used_is_found_before_the_first_round() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("letter"), "Dear reader,\n").unwrap();
    for (flag, file, told) in [
        ("--table", "none.json", "No such file"),
        ("--table", "letter", "not a result of kvbench torture"),
        ("--output", "letter", "not a result of kvbench torture"),
        ("--output", "none/results.json", "No such file"),
        ("--output", ".", "directory"),
    ] {
        let said = misuse_in(dir.path(), &["torture", flag, file]);
        assert!(said.contains(file) && said.contains(told), "{flag} {file}: {said}");
    }
    assert_eq!(crate::support::names(dir.path()), ["letter"]);
}

//! What the documents say can be followed: links lead to files, and commands are accepted.

use crate::{program::run, support::stores};
use std::{
    fs,
    path::{Path, PathBuf},
};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// The documents that people write and read.
fn documents() -> Vec<PathBuf> {
    let inside = |folder: &str| {
        let files = fs::read_dir(Path::new(ROOT).join(folder)).unwrap().map(|entry| entry.unwrap().path());
        files.filter(|path| path.extension().is_some_and(|end| end == "md")).collect::<Vec<_>>()
    };
    let documents = [inside(""), inside("docs"), inside("docs/example")].concat();
    assert!(documents.len() > 5, "{documents:?}");
    documents
}

/// Lines of shell between fences, with their continuations joined and numbers where they stand for one.
fn commands(text: &str) -> Vec<String> {
    let blocks = text.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    blocks
        .flat_map(|block| {
            block
                .replace("\\\n", " ")
                .replace("$!", "1")
                .replace("{port}", "1")
                .lines()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        })
        .collect()
}

/// The words of a command line up to a comment, a pipe or a redirection; quotes are only around single words.
fn words(line: &str) -> Vec<&str> {
    let line = line.split_whitespace().map(|word| word.trim_matches('\''));
    line.take_while(|word| !matches!(word.chars().next(), Some('#' | '|' | '>' | '&'))).collect()
}

#[test]
fn links_lead_to_files() {
    for document in documents() {
        let text = fs::read_to_string(&document).unwrap();
        let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        for target in targets.filter(|target| !target.contains("://") && !target.starts_with('#')) {
            let path = target.split('#').next().unwrap();
            let there = document.parent().unwrap().join(path).exists();
            assert!(there, "{}: nothing at {target}", document.display());
        }
    }
}

#[test]
fn commands_are_accepted() {
    let dir = tempfile::tempdir().unwrap();
    let mut count = 0;
    for document in documents() {
        for line in commands(&fs::read_to_string(&document).unwrap()) {
            // What another program is to start stands between quotes.
            let quoted = line.split_once("'kvbench ").and_then(|(_, rest)| rest.split('\'').next());
            let line = quoted.map_or(line.clone(), |rest| format!("kvbench {rest}"));
            let words = words(&line);
            let arguments = words.iter().skip_while(|word| **word != "kvbench").skip(1);
            // Behind that is the command line of another program.
            let arguments = arguments.take_while(|word| **word != "--");
            let arguments: Vec<_> = arguments.copied().collect();
            let names_store = |word: &&str| word.split(',').all(|name| stores().any(|store| store == name));
            let foreign = arguments.iter().skip_while(|word| !word.starts_with("--store")).nth(1);
            if arguments.is_empty() || foreign.is_some_and(|name| !names_store(name) && *name != "nothing") {
                continue;
            }
            // Parsed, then ended by `--help`, which a bad argument before it does not let through.
            let ended = run(dir.path(), &[&arguments[..], &["--help"]].concat());
            assert!(ended.status.success(), "{}: {line}\n{}", document.display(), ended.stderr);
            count += 1;
        }
    }
    assert!(count >= 10, "{count} commands");
}

#[test]
fn files_that_commands_name_are_there() {
    for document in documents() {
        for line in commands(&fs::read_to_string(&document).unwrap()) {
            let ours =
                |word: &&str| ["benches/", "tools/", "tests/"].iter().any(|start| word.starts_with(start));
            for path in words(&line).into_iter().filter(ours) {
                assert!(Path::new(ROOT).join(path).exists(), "{}: no {path}", document.display());
            }
        }
    }
}

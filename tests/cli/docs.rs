//! What the documents say can be followed: links lead to files and headings, commands and flags are accepted, and
//! whoever reads a figure finds the command that makes it.

use crate::{
    program::{field, run},
    support::stores,
};
use kvbench::engine::{Fsync, Kind, LossClass};
use std::{
    collections::BTreeSet,
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
    let documents = [inside(""), inside("docs"), inside("docs/reference")].concat();
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

/// A line that begins with a fence and goes on opens a block: behind a block it turns the text that follows into code.
#[test]
fn fences_open_and_close() {
    for document in documents() {
        let mut is_open = false;
        for (number, line) in fs::read_to_string(&document).unwrap().lines().enumerate() {
            let Some(rest) = line.trim_start().strip_prefix("```") else { continue };
            let place = format!("{}:{}: {line}", document.display(), number + 1);
            assert!(!rest.contains([' ', '`']), "text behind a fence: {place}");
            assert!(is_open == rest.is_empty(), "a fence that opens a block names its language: {place}");
            is_open = !is_open;
        }
        assert!(!is_open, "{}: the last block is open", document.display());
    }
}

/// Text without its fenced blocks.
fn prose(text: &str) -> String {
    text.split("\n```").step_by(2).collect::<Vec<_>>().join("\n")
}

/// What stands between single backquotes.
fn code(text: &str) -> Vec<String> {
    prose(text)
        .lines()
        .flat_map(|line| line.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>())
        .collect()
}

/// The anchors that GitHub gives to the headings of a document.
fn anchors(text: &str) -> BTreeSet<String> {
    let kept = |letter: char| match letter {
        ' ' => Some('-'),
        '-' | '_' => Some(letter),
        letter => letter.is_alphanumeric().then(|| letter.to_ascii_lowercase()),
    };
    let prose = prose(text);
    let headings = prose.lines().filter(|line| line.starts_with('#'));
    headings.map(|line| line.trim_start_matches('#').trim().chars().filter_map(kept).collect()).collect()
}

#[test]
fn links_lead_to_files_and_headings() {
    let mut count = 0;
    for document in documents() {
        let text = fs::read_to_string(&document).unwrap();
        let links = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        let pictures = ["src=\"", "srcset=\""].map(|name| text.split(name).skip(1));
        let pictures = pictures.into_iter().flatten().filter_map(|rest| rest.split('"').next());
        for target in links.chain(pictures).filter(|target| !target.contains("://")) {
            let (path, heading) = target.split_once('#').unwrap_or((target, ""));
            let file = if path.is_empty() { document.clone() } else { document.parent().unwrap().join(path) };
            assert!(file.exists(), "{}: nothing at {target}", document.display());
            if !heading.is_empty() {
                let there = anchors(&fs::read_to_string(file).unwrap());
                assert!(
                    there.contains(heading),
                    "{}: no heading for {target}: {there:?}",
                    document.display()
                );
                count += 1;
            }
        }
    }
    assert!(count >= 5, "{count} links to headings");
}

#[test]
fn readme_is_short_and_leads_to_every_document() {
    let readme = fs::read_to_string(Path::new(ROOT).join("README.md")).unwrap();
    assert!(readme.lines().count() <= 150, "{} lines", readme.lines().count());
    for document in documents() {
        let path = document.strip_prefix(ROOT).unwrap().to_str().unwrap();
        let leads = readme.contains(&format!("({path})")) || readme.contains(&format!("({path}#"));
        // The changelog is where everybody looks for it.
        let is_found = ["README.md", "CHANGELOG.md"].contains(&path);
        assert!(leads || is_found, "README.md does not lead to {path}");
    }
}

#[test]
fn commands_are_accepted() {
    let dir = tempfile::tempdir().unwrap();
    let mut count = 0;
    for document in documents() {
        let text = fs::read_to_string(&document).unwrap();
        let inline = code(&text).into_iter().filter(|code| code.starts_with("kvbench "));
        for line in commands(&text).into_iter().chain(inline) {
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
            let ours = |word: &&str| {
                ["benches/", "docs/", "tools/", "tests/"].iter().any(|start| word.starts_with(start))
            };
            for path in words(&line).into_iter().filter(ours) {
                assert!(Path::new(ROOT).join(path).exists(), "{}: no {path}", document.display());
            }
        }
    }
}

#[test]
fn files_that_prose_names_are_there() {
    let roots = ["src/", "tests/", "benches/", "docs/", "tools/", "examples/", "fuzz/", ".ci/", ".github/"];
    let mut count = 0;
    for document in documents() {
        for path in code(&fs::read_to_string(&document).unwrap()) {
            // What stands for a name is in capitals; what fuzzing leaves is made by it.
            let is_one = roots.iter().any(|root| path.starts_with(root))
                && !path.contains([' ', '*'])
                && !path.contains("NAME")
                && !path.contains("FAMILY")
                && path != "fuzz/artifacts";
            if is_one {
                assert!(Path::new(ROOT).join(&path).exists(), "{}: no {path}", document.display());
                count += 1;
            }
        }
    }
    assert!(count >= 20, "{count} files");
}

/// Flags of other programs that documents name, and those of builds with `--features tikv,redis`.
const FOREIGN: [&str; 13] = [
    "--locked",
    "--release",
    "--no-default-features",
    "--features",
    "--cells",
    "--pd",
    "--nodes",
    "--prefix",
    "--cluster-password-file",
    "--cluster-tls-ca",
    "--cluster-tls-cert",
    "--cluster-tls-key",
    "--cluster-user",
];

#[test]
fn flags_between_backquotes_are_flags() {
    let dir = tempfile::tempdir().unwrap();
    let commands =
        ["serve", "bench", "report", "compare", "duel", "export", "reproduce", "stores", "check", "repair"];
    let linux =
        if cfg!(all(target_os = "linux", feature = "torture")) { &["calibrate", "torture"][..] } else { &[] };
    let help = commands.iter().chain(linux).map(|command| run(dir.path(), &[command, "--help"]).stdout);
    let help = help.collect::<String>();
    // The flags in that one are those of clients.
    for document in documents().into_iter().filter(|document| !document.ends_with("docs/clients.md")) {
        let text = fs::read_to_string(&document).unwrap();
        for flag in code(&text).iter().filter(|code| code.starts_with("--")) {
            let flag = flag.split([' ', '=']).next().unwrap();
            let known = help
                .split(|letter: char| letter != '-' && !letter.is_alphanumeric())
                .any(|word| word == flag);
            assert!(known || FOREIGN.contains(&flag), "{}: no {flag}", document.display());
        }
    }
}

/// Of documents with measurements: each section with figures names what makes them.
#[test]
fn figures_have_their_commands() {
    let mut count = 0;
    for name in ["performance", "durability", "calibration", "engines", "architecture"] {
        let text = fs::read_to_string(Path::new(ROOT).join(format!("docs/{name}.md"))).unwrap();
        let mut sections = text.split("\n## ");
        // One command may make a whole document, and is then named before its first section.
        let made_by = sections.next().is_some_and(|beginning| beginning.contains("Made by `"));
        for section in sections {
            // In durability.md, times in prose are those of the method.
            if !has_figures_in_a_table(section) && (name == "durability" || !has_measured_times(section)) {
                continue;
            }
            let makes = ["```sh", "`kvbench ", "`cargo bench", "`benches/", "(performance.md#"];
            let has_command = made_by || makes.iter().any(|start| section.contains(start));
            let title = section.lines().next().unwrap();
            assert!(has_command, "docs/{name}.md: no command makes the figures of \"{title}\"");
            count += 1;
        }
    }
    assert!(count >= 8, "{count} sections with figures");
}

fn has_figures_in_a_table(section: &str) -> bool {
    let is_figure = |cell: &str| cell.trim().starts_with(|letter: char| letter.is_ascii_digit());
    section.lines().any(|line| line.starts_with('|') && line.split('|').any(is_figure))
}

/// Whether a number stands before a unit of something that was measured.
fn has_measured_times(section: &str) -> bool {
    let units = ["times", "ms", "us", "GETs", "SETs", "requests/s", "instructions"];
    let words: Vec<_> =
        section.split_whitespace().map(|word| word.trim_matches(['(', ')', '.', ',', ':'])).collect();
    words
        .windows(2)
        .any(|pair| pair[0].starts_with(|letter: char| letter.is_ascii_digit()) && units.contains(&pair[1]))
}

/// A reader copies the first session before the table of losses.
#[test]
fn the_first_session_uses_a_store_and_policy_that_cannot_lose_the_whole_database() {
    let readme = fs::read_to_string(Path::new(ROOT).join("README.md")).unwrap();
    let mut count = 0;
    for line in readme.lines().filter(|line| line.starts_with("kvbench ") && line.contains(" store=")) {
        let store = Kind::find(field(line, "store").unwrap());
        // A build may lack the store.
        let Some(store) = store else { continue };
        let fsync = field(line, "fsync").unwrap();
        let fsync = Fsync::ALL.into_iter().find(|policy| policy.as_str() == fsync).unwrap();
        let loss = store.info.loss(fsync);
        assert!(loss.kill.extent.max(loss.power_cut.extent) < LossClass::Everything, "{line}");
        count += 1;
    }
    assert!(count > 0 || Kind::find("lmdb").is_none());
}

/// The registry has another program named kvbench.
#[test]
fn package_has_a_name_of_its_own_and_the_archives_are_where_binstall_looks() {
    let read = |path: &str| fs::read_to_string(Path::new(ROOT).join(path)).unwrap();
    let name = env!("CARGO_PKG_NAME");
    assert_eq!(name, "kvbench-engines");
    for page in ["README.md", "docs/own-engine.md", "CHANGELOG.md"] {
        assert!(read(page).contains(name), "{page}");
        assert!(!read(page).contains("cargo install kvbench "), "{page}");
    }
    let archive = read("tools/archive");
    assert!(
        archive.contains("name=kvbench-$version-$target") && archive.contains("$name.tar.gz"),
        "{archive}"
    );
    let manifest = read("Cargo.toml");
    assert!(manifest.contains("/v{ version }/kvbench-{ version }-{ target }.tar.gz\""), "pkg-url");
    assert!(manifest.contains("bin-dir = \"kvbench-{ version }-{ target }/{ bin }\""), "bin-dir");
    let workflow = read(".github/workflows/release.yml");
    assert!(workflow.contains("tools/archive ") && workflow.contains("tools/try-archive "), "{workflow}");
}

/// Each metric of a result has its source and its limits in docs/measuring.md.
#[test]
#[cfg(feature = "bench")]
fn the_source_of_each_metric_is_told() {
    let page = fs::read_to_string(Path::new(ROOT).join("docs/measuring.md")).unwrap();
    let words = code(&page);
    for metric in kvbench::bench::result::metric::METRICS {
        assert!(words.iter().any(|word| word == metric.name), "docs/measuring.md lacks `{}`", metric.name);
    }
}

/// Whoever knows an engine better finds its settings, and what could be objected to them.
#[test]
fn settings_of_each_local_store_are_in_the_table_of_objections() {
    let page = fs::read_to_string(Path::new(ROOT).join("docs/engines.md")).unwrap();
    let section =
        page.split("\n## ").find(|section| section.starts_with("Settings in the benchmark")).unwrap();
    let words = code(section);
    for kind in kvbench::engine::KINDS {
        let name = kind.info.name;
        assert!(words.iter().any(|word| word == name), "docs/engines.md: no settings of `{name}`");
    }
}

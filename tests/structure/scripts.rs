//! The build script, the Makefile, and the lists of names beside them.

use crate::engine_names::files;
use std::{
    collections::BTreeSet,
    env,
    ffi::OsStr,
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Output},
};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

fn read(file: &str) -> String {
    fs::read_to_string(Path::new(ROOT).join(file)).unwrap()
}

fn run(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    assert!(status.success(), "{command:?}: {}", String::from_utf8_lossy(&stderr));
    String::from_utf8(stdout).unwrap()
}

/// A program that runs in a directory, without a repository that the environment names.
fn program_in(directory: &Path, program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    for variable in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"] {
        command.env_remove(variable);
    }
    command.current_dir(directory);
    command
}

/// `git` in a directory, without the settings of the user.
fn git(directory: &Path, words: &[&str]) {
    let mut git = program_in(directory, "git");
    git.env("GIT_CONFIG_GLOBAL", "/dev/null");
    run(git.args(["-c", "user.name=test", "-c", "user.email=test@example.com"]).args(words));
}

/// What the build script prints in a directory.
fn build_script(program: &Path, directory: &Path) -> String {
    run(&mut program_in(directory, program))
}

#[test]
fn a_change_of_each_source_marks_the_commit() {
    let scratch = tempfile::tempdir().unwrap();
    let (program, repository) = (scratch.path().join("build-script"), scratch.path().join("repository"));
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let mut compile = Command::new(rustc);
    run(compile.current_dir(ROOT).args(["--edition", "2024", "build.rs", "-o"]).arg(&program));

    let write = |file: &str, text: &str| {
        let path = repository.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    // Each with the path that the build script watches.
    let sources = [
        ("src/bench/mod.rs", "src"),
        ("Cargo.toml", "Cargo.toml"),
        ("Cargo.lock", "Cargo.lock"),
        (".cargo/config.toml", ".cargo"),
        ("build.rs", "build.rs"),
        ("tools/rocksdb-cxx", "tools/rocksdb-cxx"),
    ];
    for (file, _) in sources {
        write(file, "first\n");
    }
    write("docs/page.md", "first\n");
    git(scratch.path(), &["init", "--quiet", "repository"]);
    git(&repository, &["add", "."]);
    git(&repository, &["commit", "--quiet", "--message", "first"]);

    let is_marked = || {
        let printed = build_script(&program, &repository);
        let commit = printed.lines().find_map(|line| line.strip_prefix("cargo::rustc-env=KVBENCH_COMMIT="));
        commit.unwrap().ends_with('+')
    };
    let is_watched = |path: &str| {
        let printed = build_script(&program, &repository);
        printed.lines().any(|line| line.strip_prefix("cargo::rerun-if-changed=") == Some(path))
    };
    write("docs/page.md", "another text\n");
    assert!(!is_marked());
    for (file, watched) in sources {
        write(file, "another text\n");
        assert!(is_marked(), "{file}");
        write(file, "first\n");
        assert!(!is_marked(), "{file}");
        assert!(is_watched(watched), "{file}");
    }
    // Cargo runs the script in each build if a path that it watches does not exist, as in the published crate.
    fs::remove_dir_all(repository.join(".cargo")).unwrap();
    assert!(!is_watched(".cargo"));
}

/// A test or program is named by the string that it gives to `skip`.
#[test]
fn what_ci_may_skip_exists() {
    let script = read(".ci/run");
    let (_, list) = script.split_once("${KVBENCH_MAY_SKIP-").unwrap();
    let (list, _) = list.split_once('}').unwrap();
    let mut paths = Vec::new();
    for folder in ["src", "tests"] {
        files(&Path::new(ROOT).join(folder), &mut paths);
    }
    paths.retain(|path| path.extension() == Some(OsStr::new("rs")));
    let texts: Vec<_> = paths.iter().map(|path| fs::read_to_string(path).unwrap()).collect();
    for name in list.split(',') {
        let literal = format!("\"{name}\"");
        assert!(texts.iter().any(|text| text.contains(&literal)), "no test skips {literal}");
    }
}

/// A filter without a test runs none, and succeeds.
#[test]
fn what_ci_runs_as_root_exists() {
    let workflow = read(".github/workflows/ci.yml").replace("\\\n", " ");
    let mut found = 0;
    for line in workflow.lines().filter_map(|line| line.trim().strip_prefix("$run --")) {
        let Some((target, filters)) = line.split_once(" -- ") else {
            let name = line.strip_prefix("test ").unwrap();
            assert!(read(&format!("tests/{name}/main.rs")).contains("#[test]"), "{name}");
            continue;
        };
        for filter in filters.split_whitespace() {
            let (module, test) = filter.split_once("::").unwrap();
            let file = match target.strip_prefix("test ") {
                Some(name) => format!("tests/{name}/{module}.rs"),
                None => format!("src/bench/run/{module}.rs"),
            };
            assert!(read(&file).contains(&format!("fn {test}")), "{filter}");
            found += 1;
        }
    }
    assert!(found >= 9, "{found}");
}

#[test]
fn the_image_is_built_without_what_git_ignores() {
    let patterns = |file: &str| -> BTreeSet<String> {
        let text = read(file);
        let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        lines.map(|line| line.trim_start_matches("**/").trim_matches('/').to_owned()).collect()
    };
    assert_eq!(patterns(".dockerignore"), patterns(".gitignore"));
}

/// The action builds kvbench in its sources, and starts it in the directory of the workflow.
#[test]
fn duel_action_finds_its_build_in_a_relative_target_directory() {
    let scratch = tempfile::tempdir().unwrap();
    let [sources, workflow, programs] =
        ["sources", "workflow", "programs"].map(|name| scratch.path().join(name));
    for directory in [&sources.join("tools"), &sources.join("docs"), &workflow, &programs] {
        fs::create_dir_all(directory).unwrap();
    }
    for file in ["tools/duel-action", "docs/stores.json", "Cargo.toml"] {
        fs::copy(Path::new(ROOT).join(file), sources.join(file)).unwrap();
    }
    // In place of cargo, with a configured build target: its last argument is the target directory, in which it makes a
    // program that reports.
    let cargo = programs.join("cargo");
    let script = r#"#!/bin/sh
for target; do :; done
mkdir -p "$target/triple/release"
printf '#!/bin/sh\necho report\n' >"$target/triple/release/kvbench"
chmod +x "$target/triple/release/kvbench"
echo '{"reason":"compiler-artifact","executable":null}'
echo "{\"reason\":\"compiler-artifact\",\"executable\":\"$target/triple/release/kvbench\",\"fresh\":false}"
"#;
    fs::write(&cargo, script).unwrap();
    fs::set_permissions(&cargo, fs::Permissions::from_mode(0o755)).unwrap();

    let path = env::var_os("PATH").unwrap();
    let path = env::join_paths([programs].into_iter().chain(env::split_paths(&path))).unwrap();
    let mut action = program_in(&workflow, sources.join("tools/duel-action"));
    action.args(["sled", "0.34.6", "0.34.7"]).env("PATH", path).env("CARGO_TARGET_DIR", "build");
    for variable in ["GITHUB_STEP_SUMMARY", "PULL_REQUEST"] {
        action.env_remove(variable);
    }
    assert_eq!(run(&mut action), "report\n");
    assert!(workflow.join("build/triple/release/kvbench").exists());
}

/// The path of a home directory can have a space.
#[test]
fn recipes_quote_the_target_directory() {
    for line in read("Makefile").lines().filter(|line| line.starts_with('\t')) {
        for variable in ["$(CARGO_TARGET_DIR)", "$(FUZZ)"] {
            let quoted = format!("\"{variable}");
            assert_eq!(line.matches(variable).count(), line.matches(&quoted).count(), "{line}");
        }
    }
}

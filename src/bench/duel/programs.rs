//! The two programs of a duel: whether each is a kvbench that understands the messages of this one.

use crate::{
    bench::{
        result::{BuildDescription, Duel, Program, Side},
        run::{build_description, job_messages::PROTOCOL},
    },
    engine::{Kind, kinds},
};
use std::{
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

/// Maximum time that a program may take to describe itself.
const DESCRIPTION_TIMEOUT: Duration = Duration::from_secs(20);

/// Reasons why two programs cannot be compared.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum Error {
    #[error("{}: {source}", .path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("{}: {source}; name two kvbench programs: kvbench duel OLD NEW", .path.display())]
    NoProgram { path: PathBuf, source: io::Error },
    #[error(
        "{} is no kvbench that can take part in a duel: it does not answer `{}`; build it from a version that has \
        `kvbench duel`, with --features bench",
        .path.display(),
        build_description::SUBCOMMAND
    )]
    NoKvbench { path: PathBuf },
    #[error(
        "{} has version {found} of the messages between a run and its processes, this program has {PROTOCOL}; build \
        both programs of the duel, and the one that compares them, from nearer versions of kvbench",
        .path.display()
    )]
    OtherProtocol { path: PathBuf, found: u32 },
    #[error("--stores {store}: {path} has {able}")]
    NoStore { store: String, path: String, able: String },
    #[error("--stores {store}: {path} has {found}, and this program expects {expected}; build both again")]
    OtherBuild { path: String, store: String, found: String, expected: String },
    #[error("the two programs and this one have no store in common; build them with the same features")]
    NoCommonStore,
    #[error("--base and --head are both {name} {version}; name two versions")]
    SameVersion { name: String, version: String },
    #[error(
        "--crate {0}: no store of this build is made with it; `kvbench stores --json` shows the crates, and another build \
        may have more"
    )]
    NoEngineOfCrate(String),
    #[error(
        "--crate {0}: no direct dependency of kvbench, which gets it through another crate, so its version cannot be \
        chosen; build a kvbench for each version, and compare the programs: kvbench duel OLD NEW"
    )]
    NoDependency(String),
    #[error(
        "--stores {store}: the builds for --crate {name} have only the stores of this crate and those of every build; \
        leave it out"
    )]
    NotInBuilds { store: String, name: String },
    #[error(
        "{name} {version} has another interface: the adapter is written for {name} {written_for}; tools/history has older \
        versions of some engines, otherwise build a kvbench for each version and compare the programs: kvbench duel OLD NEW"
    )]
    OtherInterface { name: String, version: String, written_for: String },
    #[error(
        "{} is no checkout of kvbench; run the command in one, or name it with --kvbench PATH, or a repository with \
        --kvbench git+URL",
        .path.display()
    )]
    NoSources { path: PathBuf },
    #[error(
        "--kvbench git+{0}: this program does not know its commit, because its sources were changed or had none; add #COMMIT"
    )]
    NoCommit(String),
    #[error("cannot start git, which clones --kvbench: {0}")]
    NoGit(io::Error),
    #[error("--kvbench {from} cannot be cloned: {text}")]
    NotCloned { from: String, text: String },
    #[error("there is neither $XDG_CACHE_HOME nor $HOME; name a directory for the builds with --target-dir")]
    NoCache,
    #[error("cannot start cargo, which builds both programs: {0}")]
    NoCargo(io::Error),
    #[error("there is no crate {name} in {}: {text}", .path.display())]
    NoCrate { name: String, path: PathBuf, text: String },
    #[error("{name} cannot be taken from {asked}: {text}")]
    NoVersion { name: String, asked: String, text: String },
    #[error("{name} was asked for from {asked}, but cargo takes version {found} from elsewhere")]
    NotChosen { name: String, asked: String, found: String },
    #[error(
        "kvbench does not build with {name} {version}; if the errors are in its adapter, that version has another \
        interface: build a kvbench for each version, and compare the two programs: kvbench duel OLD NEW"
    )]
    Build { name: String, version: String },
    #[error("the builds with {base} and {head} are the same program: there is nothing to compare")]
    SameProgram { base: String, head: String },
}

/// Asks a program for its description.
///
/// # Errors
///
/// Fails if the file cannot be read, or if it is no kvbench with the messages of this one.
pub fn describe(path: &Path) -> Result<Program, Error> {
    let no_program = |source| Error::NoProgram { path: path.into(), source };
    let absolute = fs::canonicalize(path).map_err(no_program)?;
    let checksum = crc32fast::hash(&fs::read(&absolute).map_err(no_program)?);
    let output = output(&absolute).map_err(no_program)?;
    let text = output.ok_or_else(|| Error::NoKvbench { path: path.into() })?;
    let build = parse(path, &text)?;
    Ok(Program { path: absolute.display().to_string(), checksum, chosen: None, build })
}

/// Parses what the program at `path` prints as its description.
fn parse(path: &Path, text: &[u8]) -> Result<BuildDescription, Error> {
    let no_kvbench = || Error::NoKvbench { path: path.into() };
    // Read first: later versions may describe themselves in another way.
    let value: serde_json::Value = serde_json::from_slice(text).map_err(|_| no_kvbench())?;
    let found = value.get("protocol").and_then(serde_json::Value::as_u64).ok_or_else(no_kvbench)?;
    if found != u64::from(PROTOCOL) {
        let found = u32::try_from(found).unwrap_or(u32::MAX);
        return Err(Error::OtherProtocol { path: path.into(), found });
    }
    serde_json::from_value(value).map_err(|_| no_kvbench())
}

/// Returns what a program prints as its description, or `None` if it fails or does not end within
/// [`DESCRIPTION_TIMEOUT`].
fn output(program: &Path) -> io::Result<Option<Vec<u8>>> {
    let mut child = Command::new(program)
        .arg(build_description::SUBCOMMAND)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let (sender, receiver) = mpsc::channel();
    if let Some(mut stdout) = child.stdout.take() {
        thread::spawn(move || {
            let mut text = Vec::new();
            let read = stdout.read_to_end(&mut text);
            // Fails if this program no longer waits.
            let _ = sender.send(read.map(|_| text));
        });
    }
    let text = receiver.recv_timeout(DESCRIPTION_TIMEOUT).ok().and_then(Result::ok);
    if text.is_none() {
        // Fails if the program has ended.
        let _ = child.kill();
    }
    let status = child.wait()?;
    Ok(text.filter(|_| status.success()))
}

/// Returns the stores that both programs and this one have.
///
/// # Errors
///
/// Fails if there is no such store.
pub fn common_stores(duel: &Duel) -> Result<Vec<String>, Error> {
    let has = |side: Side, store: &str| duel.program(side).build.libraries.contains_key(store);
    let names =
        kinds().map(|kind| kind.info.name).filter(|name| Side::BOTH.iter().all(|side| has(*side, name)));
    let names: Vec<String> = names.map(Into::into).collect();
    if names.is_empty() { Err(Error::NoCommonStore) } else { Ok(names) }
}

/// Returns an error if a program of the duel lacks one of `stores`.
///
/// # Errors
///
/// Fails with the first such program and store.
pub fn check_stores(duel: &Duel, stores: &[String]) -> Result<(), Error> {
    Side::BOTH.map(|side| duel.program(side)).into_iter().try_for_each(|program| check_has(program, stores))
}

/// Returns an error if one of `stores` (if they are empty: of all) is in another program ([`Kind::in_program`]) that cannot
/// measure it for this one.
///
/// # Errors
///
/// Fails if such a program cannot be read, is no kvbench with the messages of this one, lacks the store, or is of another
/// build than this one: its result would name the wrong versions.
pub fn check_programs_of(stores: &[String]) -> Result<(), Error> {
    let own = build_description::describe_this_program();
    let is_asked_for = |kind: &&Kind| stores.is_empty() || stores.iter().any(|store| store == kind.info.name);
    for kind in kinds().filter(is_asked_for) {
        let Some(path) = kind.program else { continue };
        let (store, program) = (kind.info.name.to_owned(), describe(path)?);
        check_has(&program, std::slice::from_ref(&store))?;
        let build = &program.build;
        let words = |library: &str, build: &BuildDescription| {
            format!(
                "{library}, kvbench {} of commit {}",
                build.version,
                build.commit.as_deref().unwrap_or("unknown")
            )
        };
        let found = words(build.libraries.get(&store).map_or("", String::as_str), build);
        let expected = words(kind.info.library, &own);
        if found != expected {
            return Err(Error::OtherBuild { path: program.path, store, found, expected });
        }
    }
    Ok(())
}

/// Returns an error if a program lacks one of `stores`.
fn check_has(program: &Program, stores: &[String]) -> Result<(), Error> {
    match stores.iter().find(|store| !program.build.libraries.contains_key(*store)) {
        None => Ok(()),
        Some(store) => {
            let able = program.build.libraries.keys().cloned().collect::<Vec<_>>().join(", ");
            Err(Error::NoStore { store: store.clone(), path: program.path.clone(), able })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::run::build_description::describe_this_program;

    /// Returns the error for a program that prints `text`.
    fn refused(text: &str) -> Error {
        parse(Path::new("program"), text.as_bytes()).unwrap_err()
    }

    #[test]
    fn programs_that_do_not_understand_the_messages_are_refused() {
        assert!(matches!(refused("hello"), Error::NoKvbench { .. }));
        assert!(matches!(refused("{}"), Error::NoKvbench { .. }));
        let other = serde_json::json!({ "protocol": PROTOCOL + 1, "unknown": 1 }).to_string();
        assert!(matches!(refused(&other), Error::OtherProtocol { found, .. } if found == PROTOCOL + 1));
        let own = serde_json::to_string(&describe_this_program()).unwrap();
        assert_eq!(serde_json::from_str::<BuildDescription>(&own).unwrap(), describe_this_program());
        assert!(matches!(describe(Path::new("/no/such/program")), Err(Error::NoProgram { .. })));
    }
}

//! Programs of a duel between two versions of an engine's crate: kvbench is built twice, each time with another version.
//!
//! Each build has a directory with links to the sources, a copy of the lock file, and a `Cargo.toml` that requires
//! exactly the version (of a git repository: the commit), and for a crate that is not on crates.io says where it is
//! (`[patch.crates-io]`). Both are built in one target directory, which is kept, so that only the crate and kvbench itself
//! are compiled twice.

use super::{
    crate_source::{CrateSource, ENCODED_RUSTFLAGS, Found, Package, built_program, cargo},
    programs::{Error, describe},
};
use crate::{
    bench::{
        result::{Duel, Program},
        run::stored_calibration::user_cache,
    },
    engine::{feature, kinds},
};
use std::{
    env, fs, io,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// Name of kvbench's package, by which its sources are recognised.
const PACKAGE: &str = env!("CARGO_PKG_NAME");

/// Two versions of an engine's crate whose performance is compared.
#[derive(Clone, Debug)]
pub struct CrateVersions {
    /// Name of the crate.
    pub name: String,
    /// The crate before the change.
    pub base: CrateSource,
    /// The crate after the change, which is compared with `base`.
    pub head: CrateSource,
    /// Sources of kvbench: a checkout or a git repository; `None` for the working directory.
    pub sources: Option<CrateSource>,
    /// Directory for copies and builds, which are kept; `None` for one in the user's cache directory.
    pub directory: Option<PathBuf>,
}

/// Returns the stores of this build that use a crate.
pub fn stores_of_crate(name: &str) -> Vec<String> {
    let uses = |library: &str| library.split(", ").any(|part| part.split(' ').next() == Some(name));
    kinds().map(|kind| kind.info).filter(|info| uses(info.library)).map(|info| info.name.into()).collect()
}

impl CrateVersions {
    /// Checks, without a build, that the builds can have `stores`: those that use the crate, and those of every build.
    ///
    /// # Errors
    ///
    /// Fails if no store of this build uses the crate, and with the first of `stores` that another Cargo feature adds.
    pub fn check_stores(&self, stores: &[String]) -> Result<(), Error> {
        let own = self.feature()?;
        match stores.iter().find(|store| feature(store).is_some_and(|feature| feature != own)) {
            None => Ok(()),
            Some(store) => Err(Error::NotInBuilds { store: store.clone(), name: self.name.clone() }),
        }
    }

    /// Returns the Cargo feature of the stores that use the crate.
    fn feature(&self) -> Result<&'static str, Error> {
        let feature = stores_of_crate(&self.name).first().and_then(|store| feature(store));
        feature.ok_or_else(|| Error::NoEngineOfCrate(self.name.clone()))
    }

    /// Builds kvbench with each of the two versions of the crate.
    ///
    /// # Errors
    ///
    /// Fails if no store of this build uses the crate, if kvbench uses it only through another crate, if a source does not
    /// have the crate, if the sources are equal or have another interface than the adapter, if kvbench's sources or a
    /// directory for the builds are missing, if a file cannot be read or written, if a version cannot be chosen or a build
    /// fails, if Cargo takes the crate from elsewhere, or if both builds are the same program.
    pub fn build(&self) -> Result<Duel, Error> {
        let Self { name, base, head, .. } = self;
        if base == head {
            return Err(Error::SameVersion { name: name.clone(), version: base.to_string() });
        }
        let stores = stores_of_crate(name);
        let feature = self.feature()?;
        let sources = self.checkout()?;
        let manifest = read(&sources.join("Cargo.toml"))?;
        let required = requirement(&manifest, name).ok_or_else(|| Error::NoDependency(name.clone()))?;
        let found = |source| {
            let found = Found::new(name, source)?;
            if let Some(version) = &found.version {
                check_interface(name, version, required)?;
            }
            Ok(found)
        };
        let (old, new) = (found(base)?, found(head)?);
        let directory = self.directory(&sources)?;
        let prepare = |source| {
            let build = Build { name, source, feature, required, sources: &sources, directory: &directory };
            build.prepare(&manifest).map(|package| (build, package))
        };
        let (old, new) = (prepare(&old)?, prepare(&new)?);
        // A tag and its commit, or two names of a directory.
        if old.1.identity() == new.1.identity() {
            return Err(Error::SameVersion { name: name.clone(), version: old.1.identity() });
        }
        let side = |(build, package): (Build<'_>, Package)| {
            let (program, version) = build.program(&package)?;
            Ok(with_library(program, &stores, name, &version))
        };
        let duel = Duel { old: side(old)?, new: side(new)? };
        match duel.old.checksum == duel.new.checksum {
            true => Err(Error::SameProgram { base: base.to_string(), head: head.to_string() }),
            false => Ok(duel),
        }
    }

    /// Returns the directory with kvbench's sources. Those of a git repository are cloned into the directory for the builds
    /// the first time.
    fn checkout(&self) -> Result<PathBuf, Error> {
        let path = match &self.sources {
            None => ".".into(),
            Some(CrateSource::Git { url, revision }) => {
                let own = || option_env!("KVBENCH_COMMIT").and_then(committed);
                let revision =
                    revision.as_deref().or_else(own).ok_or_else(|| Error::NoCommit(url.clone()))?;
                sources_of_commit(url, revision, &self.place()?)?
            }
            // A directory may have a name that begins with a digit.
            Some(path) => path.to_string().into(),
        };
        let is_kvbench = |text: String| text.lines().any(|line| line == format!("name = \"{PACKAGE}\""));
        let is_checkout =
            read(&path.join("Cargo.toml")).is_ok_and(is_kvbench) && path.join("Cargo.lock").exists();
        match fs::canonicalize(&path) {
            Ok(path) if is_checkout => Ok(path),
            _ => Err(Error::NoSources { path }),
        }
    }

    /// Returns the directory for all builds.
    fn place(&self) -> Result<PathBuf, Error> {
        let place = self.directory.clone().or_else(|| Some(user_cache()?.join("kvbench").join("duel")));
        place.ok_or(Error::NoCache)
    }

    /// Creates the directory for the builds of these sources if it is missing, and returns its absolute path.
    fn directory(&self, sources: &Path) -> Result<PathBuf, Error> {
        // Cargo would take files of other sources under the same path for those that it has compiled.
        let number = crc32fast::hash(sources.as_os_str().as_encoded_bytes());
        let place = self.place()?.join(format!("{number:08x}"));
        fs::create_dir_all(&place).map_err(in_file(&place))?;
        fs::canonicalize(&place).map_err(in_file(&place))
    }
}

/// Returns a build's commit, or `None` if the build had changes that no commit has.
fn committed(commit: &str) -> Option<&str> {
    (!commit.ends_with('+')).then_some(commit)
}

/// Clones a git repository into `place`, unless an earlier duel has done so, and returns the directory with the files of
/// `revision`, a commit or tag.
fn sources_of_commit(url: &str, revision: &str, place: &Path) -> Result<PathBuf, Error> {
    let from = CrateSource::Git { url: url.into(), revision: Some(revision.into()) }.to_string();
    let path = place.join(format!("kvbench-{:08x}", crc32fast::hash(from.as_bytes())));
    if path.exists() {
        return Ok(path);
    }
    fs::create_dir_all(place).map_err(in_file(place))?;
    let new = tempfile::tempdir_in(place).map_err(in_file(place))?;
    let clone = new.path().join("kvbench");
    let clone_name = clone.display().to_string();
    for words in [
        &["clone", "--quiet", "--no-checkout", "--", url, &clone_name][..],
        &["-C", &clone_name, "checkout", "--quiet", "--detach", revision],
    ] {
        let mut git = Command::new("git");
        // Git sets them for its hooks, and would then check the revision out in the repository of the hook.
        for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"] {
            git.env_remove(name);
        }
        let output = git.args(words).stdin(Stdio::null()).output().map_err(Error::NoGit)?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            return Err(Error::NotCloned { from, text });
        }
    }
    // Another duel may have been faster.
    fs::rename(&clone, &path)
        .or_else(|error| if path.exists() { Ok(()) } else { Err(error) })
        .map_err(in_file(&path))?;
    Ok(path)
}

/// Build of kvbench with one version of a crate.
struct Build<'b> {
    name: &'b str,
    source: &'b Found,
    feature: &'b str,
    /// Version of the crate that kvbench's own `Cargo.toml` requires.
    required: &'b str,
    sources: &'b Path,
    /// Directory for the builds of both versions.
    directory: &'b Path,
}

impl Build<'_> {
    /// Makes the package of this build, and returns the crate that Cargo takes for it. `manifest` is the text of
    /// kvbench's `Cargo.toml`.
    fn prepare(&self, manifest: &str) -> Result<Package, Error> {
        let copy = self.copy_path();
        self.copy(&copy, manifest)?;
        self.choose_version(&copy)
    }

    /// Builds kvbench with `package`, as [prepared](Self::prepare), and asks the program for its description. Returns it
    /// with the version of the crate, and the place of a crate that is not on crates.io.
    fn program(&self, package: &Package) -> Result<(Program, String), Error> {
        let Self { name, source, directory, .. } = self;
        let copy = self.copy_path();
        let version = match &source.source {
            CrateSource::Published(_) => package.version.clone(),
            place => format!("{} ({place})", package.version),
        };
        eprintln!("kvbench: building kvbench with {name} {version}");
        let features = format!("bench,{}", self.feature);
        let target = directory.join("target");
        let place = target.display().to_string();
        let words = [
            "build",
            "--release",
            "--locked",
            "--no-default-features",
            "--features",
            &features,
            "--target-dir",
            &place,
            "--message-format",
            "json-render-diagnostics",
            // Cargo does so itself only for crates that are not in a directory: a lint of a newer compiler is no error.
            // Cargo reads this only if no variable has flags; see `capped_rustflags`.
            "--config",
            "target.'cfg(all())'.rustflags = ['--cap-lints', 'warn']",
        ];
        let variable = |name| env::var(name).ok();
        let rustflags = capped_rustflags(variable(ENCODED_RUSTFLAGS), variable("RUSTFLAGS"));
        let output = cargo(&copy, &words, rustflags, Stdio::inherit())?;
        // With a configured build target, the file is not in `release`.
        let built = built_program(&output.stdout).filter(|_| output.status.success());
        let Some(built) = built else { return Err(Error::Build { name: (*name).into(), version }) };
        // The build with the other version replaces this file.
        let program = copy.join("kvbench");
        let new = copy.join("kvbench.new");
        fs::copy(&built, &new).map_err(in_file(&built))?;
        fs::rename(&new, &program).map_err(in_file(&program))?;
        Ok((describe(&program)?, version))
    }

    /// Returns the directory for this build's package.
    fn copy_path(&self) -> PathBuf {
        let Self { name, source, .. } = self;
        self.directory.join(match &source.source {
            CrateSource::Published(version) => format!("{name}-{version}"),
            CrateSource::Directory(_) | CrateSource::Git { .. } => {
                format!("{name}-{:08x}", crc32fast::hash(source.patch(name).as_bytes()))
            }
        })
    }

    /// Makes the directory `copy` a package with links to kvbench's sources, and with a `Cargo.toml` that requires
    /// exactly this version of the crate, from its source.
    fn copy(&self, copy: &Path, manifest: &str) -> Result<(), Error> {
        fs::create_dir_all(copy).map_err(in_file(copy))?;
        for entry in fs::read_dir(self.sources).map_err(in_file(self.sources))?.flatten() {
            let name = entry.file_name();
            let is_linked =
                !["Cargo.toml", "Cargo.lock", ".git", "target", "kvbench"].iter().any(|own| name == *own);
            let link = copy.join(&name);
            if is_linked && !link.exists() {
                // Fails for a link to a file that no longer exists.
                let _ = fs::remove_file(&link);
                symlink(entry.path(), &link).map_err(in_file(&link))?;
            }
        }
        let path = copy.join("Cargo.toml");
        let required = with_requirement(manifest, self.name, &self.source.requirement());
        // The patch is for other crates that use this one.
        let text = required + &self.source.patch(self.name);
        // A new file would be a reason to compile again.
        if !fs::read_to_string(&path).is_ok_and(|old| old == text) {
            fs::write(&path, text).map_err(in_file(&path))?;
        }
        Ok(())
    }

    /// Makes the lock file of a copy: that of the sources with this version of the crate, which is returned. The lock file
    /// with a published version stays as it is if it was made from the lock file that the sources have now: a new file
    /// would be a reason to compile again. That with a directory or a Git repository is always made again.
    fn choose_version(&self, copy: &Path) -> Result<Package, Error> {
        let Self { name, source, required, .. } = self;
        let (lock, made_from) = (copy.join("Cargo.lock"), copy.join("Cargo.lock.made-from"));
        let text = read(&self.sources.join("Cargo.lock"))?;
        let is_fixed = matches!(source.source, CrateSource::Published(_));
        if is_fixed
            && read(&made_from).is_ok_and(|old| old == text)
            && let Ok(package) = source.chosen(name, copy)
        {
            return Ok(package);
        }
        fs::write(&lock, &text).map_err(in_file(&lock))?;
        let precise = match &source.source {
            CrateSource::Published(version) => &["--precise", version][..],
            CrateSource::Directory(_) | CrateSource::Git { .. } => &[],
        };
        let chosen =
            cargo(copy, &[&["update", "--package", name][..], precise].concat(), None, Stdio::piped())?;
        if !chosen.status.success() {
            let text = String::from_utf8_lossy(&chosen.stderr).trim().to_owned();
            return Err(Error::NoVersion { name: (*name).into(), asked: source.source.to_string(), text });
        }
        let package = source.chosen(name, copy)?;
        check_interface(name, &package.version, required)?;
        fs::write(&made_from, &text).map_err(in_file(&made_from))?;
        Ok(package)
    }
}

/// Returns an error if `version` of a crate has another interface than the version `required`, for which kvbench's
/// adapter is written.
fn check_interface(name: &str, version: &str, required: &str) -> Result<(), Error> {
    match interface(version) == interface(required) {
        true => Ok(()),
        false => Err(Error::OtherInterface {
            name: name.into(),
            version: version.into(),
            written_for: interface(required).join("."),
        }),
    }
}

/// Returns `program` with `version` as that of the crate in its description of `stores`: the adapter of the engine
/// names the version for which it was written.
fn with_library(program: Program, stores: &[String], name: &str, version: &str) -> Program {
    let mut program = Program { chosen: Some(format!("{name} {version}")), ..program };
    for (store, library) in &mut program.build.libraries {
        if stores.contains(store) {
            let parts = library.split(", ").map(|part| match part.split(' ').next() == Some(name) {
                true => format!("{name} {version}"),
                false => part.to_owned(),
            });
            *library = parts.collect::<Vec<_>>().join(", ");
        }
    }
    program
}

/// Returns the index and the text of the line of the dependency `name` in a manifest (`Cargo.toml`); `None` if there is
/// no such line.
fn dependency<'m>(manifest: &'m str, name: &str) -> Option<(usize, &'m str)> {
    let lines = manifest.lines().enumerate().skip_while(|(_, line)| *line != "[dependencies]");
    let mut own = lines.skip(1).take_while(|(_, line)| !line.starts_with('['));
    own.find(|(_, line)| line.split(" = ").next() == Some(name))
}

/// Returns the version that a line of a manifest (`Cargo.toml`) requires, or `None` if it requires none.
fn required(line: &str) -> Option<&str> {
    let rest = line.split_once("version = \"").or_else(|| line.split_once(" = \""))?.1;
    rest.split('"').next()
}

/// Returns the version of the crate `name` that a manifest (`Cargo.toml`) requires, or `None` if the crate is no
/// dependency.
fn requirement<'m>(manifest: &'m str, name: &str) -> Option<&'m str> {
    required(dependency(manifest, name)?.1)
}

/// Returns the text of `manifest` (`Cargo.toml`) with `keys`, such as `version = "=4.3.1"`, in place of the version in the
/// dependency `name`.
fn with_requirement(manifest: &str, name: &str, keys: &str) -> String {
    let found = dependency(manifest, name);
    let lines = manifest.lines().enumerate().map(|(number, line)| match (found, required(line)) {
        (Some((own, _)), Some(old)) if own == number => {
            let (in_table, alone) = (format!("version = \"{old}\""), format!("\"{old}\""));
            match line.contains(&in_table) {
                true => line.replacen(&in_table, keys, 1),
                false => line.replacen(&alone, &format!("{{ {keys} }}"), 1),
            }
        }
        _ => line.to_owned(),
    });
    lines.map(|line| line + "\n").collect()
}

/// Returns the parts of a crate's version of which a difference means another programming interface: the major version,
/// and before 1.0 the minor one too.
fn interface(version: &str) -> Vec<&str> {
    let mut parts = version.split(['.', '-', '+']);
    match parts.next() {
        Some("0") => vec!["0", parts.next().unwrap_or_default()],
        major => major.into_iter().collect(),
    }
}

/// Returns the value of `CARGO_ENCODED_RUSTFLAGS` with which no lint is an error, for a build in an environment with the
/// values `encoded` of this variable and `plain` of `RUSTFLAGS`. Returns `None` if neither is set: Cargo then reads the
/// flags in its configuration.
fn capped_rustflags(encoded: Option<String>, plain: Option<String>) -> Option<String> {
    let flags = encoded.or_else(|| Some(plain?.split_whitespace().collect::<Vec<_>>().join("\x1f")))?;
    let cap = "--cap-lints\x1fwarn";
    Some(if flags.is_empty() { cap.into() } else { format!("{flags}\x1f{cap}") })
}

fn read(path: &Path) -> Result<String, Error> {
    fs::read_to_string(path).map_err(in_file(path))
}

fn in_file(path: &Path) -> impl FnOnce(io::Error) -> Error {
    move |source| Error::File { path: path.into(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: &str = "[package]\nname = \"p\"\nversion = \"0.1.0\"\n\n[dependencies]\nother = \"1\"\n\
                            engine = { version = \"4.4\", optional = true }\n\n[dev-dependencies]\nengine = \"5\"\n";

    #[test]
    fn repository_is_cloned_once_for_each_revision() {
        let dir = tempfile::tempdir().unwrap();
        let repository = dir.path().join("repository");
        fs::create_dir(&repository).unwrap();
        let git = |words: &[&str]| {
            let name = ["-c", "user.name=test", "-c", "user.email=test@localhost"];
            let output =
                Command::new("git").current_dir(&repository).args(name).args(words).output().unwrap();
            assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8(output.stdout).unwrap().trim().to_owned()
        };
        git(&["init", "--quiet"]);
        let commit = |text: &str| {
            fs::write(repository.join("Cargo.toml"), text).unwrap();
            git(&["add", "."]);
            git(&["commit", "--quiet", "--message", text]);
            git(&["rev-parse", "--short=12", "HEAD"])
        };
        let (first, _) = (commit("first"), commit("second"));
        git(&["tag", "v1"]);
        commit("third");
        let (url, place) = (repository.display().to_string(), dir.path().join("builds"));
        let text = |revision: &str| {
            let path = sources_of_commit(&url, revision, &place).unwrap();
            fs::read_to_string(path.join("Cargo.toml")).unwrap()
        };
        assert_eq!([&first, "v1", "HEAD"].map(text), ["first", "second", "third"]);

        let error = sources_of_commit(&url, "v2", &place).unwrap_err().to_string();
        assert!(error.contains("repository#v2 cannot be cloned: ") && error.contains("v2"), "{error}");
        // A clone is not made again, and that of an error is no clone.
        fs::remove_dir_all(&repository).unwrap();
        assert_eq!(text("v1"), "second");
        sources_of_commit(&url, "v2", &place).unwrap_err();
        assert_eq!(fs::read_dir(&place).unwrap().count(), 3);
        assert_eq!([committed("0123abc"), committed("0123abc+")], [Some("0123abc"), None]);
    }

    #[test]
    fn the_manifest_of_a_copy_requires_exactly_the_version() {
        assert_eq!(requirement(MANIFEST, "engine"), Some("4.4"));
        assert_eq!(requirement(MANIFEST, "other"), Some("1"));
        assert_eq!(requirement(MANIFEST, "absent"), None);
        let expected = MANIFEST.replace("\"4.4\"", "\"=4.3.1\"");
        assert_eq!(with_requirement(MANIFEST, "engine", "version = \"=4.3.1\""), expected);
        let expected = MANIFEST.replace("other = \"1\"", "other = { version = \"=1.2.3\" }");
        assert_eq!(with_requirement(MANIFEST, "other", "version = \"=1.2.3\""), expected);
    }

    /// A version in a repository need not be one that kvbench requires, and can be one like 4.5.0-dev.
    #[test]
    fn the_manifest_of_a_copy_requires_the_commit_of_a_repository_and_no_version() {
        let source: CrateSource = "git+https://host/r#v4.5.0-dev".parse().unwrap();
        let found = Found::new("engine", &source).unwrap();
        let place = "git = \"https://host/r\", rev = \"v4.5.0-dev\"";
        assert_eq!(found.requirement(), place);
        let expected = MANIFEST.replace("version = \"4.4\"", place);
        assert_eq!(with_requirement(MANIFEST, "engine", &found.requirement()), expected);
        assert_eq!(found.patch("engine"), format!("\n[patch.crates-io]\nengine = {{ {place} }}\n"));
    }

    #[test]
    fn versions_of_one_interface() {
        for (one, other, is_same) in [
            ("4.4", "4.0.1", true),
            ("4", "3.9.0", false),
            ("0.25.0", "0.25", true),
            ("0.25", "0.24.1", false),
        ] {
            assert_eq!(interface(one) == interface(other), is_same, "{one} {other}");
        }
    }

    #[test]
    fn flags_of_the_environment_do_not_make_lints_errors() {
        for (encoded, plain, expected) in [
            (None, None, None),
            (None, Some("-D warnings"), Some("-D\x1fwarnings\x1f--cap-lints\x1fwarn")),
            (None, Some("  "), Some("--cap-lints\x1fwarn")),
            (Some("--cfg\x1fa=\"b c\""), None, Some("--cfg\x1fa=\"b c\"\x1f--cap-lints\x1fwarn")),
            (Some(""), Some("-D warnings"), Some("--cap-lints\x1fwarn")),
        ] {
            let flags = capped_rustflags(encoded.map(String::from), plain.map(String::from));
            assert_eq!(flags.as_deref(), expected, "{encoded:?} {plain:?}");
        }
    }

    /// The adapter of each engine names its crate as the manifest does.
    #[test]
    fn this_build_has_the_crate_of_each_store() {
        let manifest = include_str!("../../../Cargo.toml");
        let optional = kinds().filter(|kind| feature(kind.info.name).is_some());
        for info in optional.map(|kind| kind.info) {
            let name = info.library.split(' ').next().unwrap();
            assert!(stores_of_crate(name).iter().any(|store| store == info.name), "{name}");
            assert!(requirement(manifest, name).is_some(), "{name}");
        }
    }
}

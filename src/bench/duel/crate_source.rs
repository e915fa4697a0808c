//! Places from which `kvbench duel --crate` takes an engine's crate: crates.io, a directory, or a git repository.

use super::programs::Error;
use serde::Deserialize;
use std::{
    env,
    ffi::OsStr,
    fmt,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    str::FromStr,
};

/// Variable with flags for rustc, separated by the character 0x1f, which Cargo reads before `RUSTFLAGS`.
pub(super) const ENCODED_RUSTFLAGS: &str = "CARGO_ENCODED_RUSTFLAGS";

/// Place from which a crate is taken, as the user writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CrateSource {
    /// Version on crates.io: `4.3.0`.
    Published(String),
    /// Directory of the crate, or of a workspace that has it: `./redb`.
    Directory(PathBuf),
    /// Git repository, and the commit or tag: `git+https://host/redb#v4.4.0`.
    Git {
        /// Address of the repository, without `git+`.
        url: String,
        /// Commit or tag; `None` for the repository's default branch.
        revision: Option<String>,
    },
}

impl FromStr for CrateSource {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Some(address) = text.strip_prefix("git+") {
            let (url, revision) = address.split_once('#').unzip();
            let url = url.unwrap_or(address).to_owned();
            return Ok(Self::Git { url, revision: revision.map(Into::into) });
        }
        let is_version = text.starts_with(|first: char| first.is_ascii_digit());
        Ok(if is_version { Self::Published(text.into()) } else { Self::Directory(text.into()) })
    }
}

impl fmt::Display for CrateSource {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Published(version) => out.write_str(version),
            Self::Directory(path) => path.display().fmt(out),
            Self::Git { url, revision: None } => write!(out, "git+{url}"),
            Self::Git { url, revision: Some(revision) } => write!(out, "git+{url}#{revision}"),
        }
    }
}

/// Source of a crate in which the crate was looked for.
pub(super) struct Found {
    pub source: CrateSource,
    /// Version of the crate; `None` for a git repository, whose version Cargo finds out.
    pub version: Option<String>,
    /// Absolute path of the crate's manifest (`Cargo.toml`), for a directory.
    manifest: Option<PathBuf>,
}

/// Package in the output of `cargo metadata`.
#[derive(Debug, Deserialize)]
pub(super) struct Package {
    name: String,
    pub version: String,
    /// Source from which Cargo takes the package; `None` for a directory.
    source: Option<String>,
    manifest_path: PathBuf,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

/// Message of `cargo build --message-format json`.
#[derive(Deserialize)]
struct BuildMessage {
    /// Path of the program that was built, or was up to date; `None` in a message about something else.
    executable: Option<PathBuf>,
}

impl Package {
    /// Returns the version and the place of the package's code as text: the directory, or the repository with the commit,
    /// whatever names the commit.
    pub fn identity(&self) -> String {
        let place = match self.source.as_deref() {
            None => self.manifest_path.display().to_string(),
            Some(source) => match (source.split_once('?'), source.split_once('#')) {
                (Some((address, _)), Some((_, commit))) => format!("{address}#{commit}"),
                _ => source.to_owned(),
            },
        };
        format!("{} from {place}", self.version)
    }
}

impl Found {
    /// Looks for the crate `name` in `source`, if that is a directory.
    ///
    /// # Errors
    ///
    /// Fails if the directory has no such crate, or if cargo cannot be started.
    pub fn new(name: &str, source: &CrateSource) -> Result<Self, Error> {
        let (version, manifest) = match source {
            CrateSource::Published(version) => (Some(version.clone()), None),
            CrateSource::Git { .. } => (None, None),
            CrateSource::Directory(path) => {
                let absent = |text: &str| Error::NoCrate {
                    name: name.into(),
                    path: path.clone(),
                    text: text.trim().to_owned(),
                };
                if !path.is_dir() {
                    return Err(absent("no such directory"));
                }
                let package = packages(path, &["--no-deps"])?
                    .map_err(|text| absent(&text))?
                    .into_iter()
                    .find(|package| package.name == name)
                    .ok_or_else(|| absent("its Cargo.toml has no such package"))?;
                (Some(package.version), Some(package.manifest_path))
            }
        };
        Ok(Self { source: source.clone(), version, manifest })
    }

    /// Returns the keys of a dependency in a manifest that say where the crate is; empty for a published version.
    fn place(&self) -> String {
        match &self.source {
            CrateSource::Published(_) => String::new(),
            CrateSource::Directory(path) => {
                let directory = self.manifest.as_deref().and_then(Path::parent).unwrap_or(path);
                format!("path = {:?}", directory.display().to_string())
            }
            CrateSource::Git { url, revision: None } => format!("git = {url:?}"),
            CrateSource::Git { url, revision: Some(revision) } => {
                format!("git = {url:?}, rev = {revision:?}")
            }
        }
    }

    /// Returns the section of kvbench's manifest with which Cargo takes the crate `name` from this source; empty for a
    /// published version.
    pub fn patch(&self, name: &str) -> String {
        match self.place() {
            place if place.is_empty() => place,
            place => format!("\n[patch.crates-io]\n{name} = {{ {place} }}\n"),
        }
    }

    /// Returns the keys that require exactly this crate in kvbench's dependency on it: the version or, for a git
    /// repository, the repository with the commit. A patch would have no effect on a dependency that requires another
    /// version.
    pub fn requirement(&self) -> String {
        self.version.as_ref().map_or_else(|| self.place(), |version| format!("version = \"={version}\""))
    }

    /// Returns `true` if `package` comes from this source.
    fn provides(&self, package: &Package) -> bool {
        let from = package.source.as_deref();
        match &self.source {
            CrateSource::Published(version) => from.is_some() && *version == package.version,
            CrateSource::Directory(_) => {
                from.is_none() && self.manifest.as_ref() == Some(&package.manifest_path)
            }
            CrateSource::Git { url, .. } => from
                .and_then(|from| from.strip_prefix("git+")?.strip_prefix(url.as_str()))
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(['?', '#'])),
        }
    }

    /// Returns the package that Cargo takes for the crate `name` in the directory `copy`, if it comes from this source.
    ///
    /// # Errors
    ///
    /// Fails if Cargo takes the crate from elsewhere, as it does (with no more than a warning) if the version in the
    /// source is not the required one, or if cargo fails.
    pub fn chosen(&self, name: &str, copy: &Path) -> Result<Package, Error> {
        let asked = || self.source.to_string();
        let fail = |text| Error::NoVersion { name: name.into(), asked: asked(), text };
        let (own, others): (Vec<_>, Vec<_>) = packages(copy, &["--locked"])?
            .map_err(fail)?
            .into_iter()
            .filter(|package| package.name == name)
            .partition(|package| self.provides(package));
        let found = || others.iter().map(|package| package.version.as_str()).collect::<Vec<_>>().join(", ");
        let other = || Error::NotChosen { name: name.into(), asked: asked(), found: found() };
        own.into_iter().next().ok_or_else(other)
    }
}

/// Returns the packages that `cargo metadata` finds in a directory, or the error message of cargo.
fn packages(directory: &Path, words: &[&str]) -> Result<Result<Vec<Package>, String>, Error> {
    let words = [&["metadata", "--format-version", "1"], words].concat();
    let output = cargo(directory, &words, None, Stdio::piped())?;
    if !output.status.success() {
        return Ok(Err(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    let metadata = serde_json::from_slice::<Metadata>(&output.stdout);
    Ok(metadata.map(|metadata| metadata.packages).map_err(|error| error.to_string()))
}

/// Returns the path of kvbench's program from `messages`, the output of `cargo build --message-format json`; `None` if it
/// was not built.
pub(super) fn built_program(messages: &[u8]) -> Option<PathBuf> {
    let lines = messages.split(|byte| *byte == b'\n');
    let mut programs = lines.filter_map(|line| serde_json::from_slice::<BuildMessage>(line).ok()?.executable);
    programs.find(|path| path.ends_with("kvbench"))
}

/// Runs cargo with the arguments `words` in a directory, and returns its exit status and output. `rustflags` is the value
/// of `CARGO_ENCODED_RUSTFLAGS`; `None` leaves the variable as it is. `stderr` receives the progress and the error
/// messages. Fails only if cargo cannot be started.
pub(super) fn cargo(
    directory: &Path,
    words: &[impl AsRef<OsStr>],
    rustflags: Option<String>,
    stderr: Stdio,
) -> Result<Output, Error> {
    let program = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.current_dir(directory).args(words).stdin(Stdio::null()).stderr(stderr);
    command.envs(rustflags.map(|flags| (ENCODED_RUSTFLAGS, flags)));
    command.output().map_err(Error::NoCargo)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// With a configured build target, the path has the name of the target.
    #[test]
    fn the_built_program_is_where_cargo_says() {
        let messages = concat!(
            r#"{"reason":"compiler-artifact","target":{"name":"kvbench"},"executable":null,"fresh":true}"#,
            "\n",
            r#"{"reason":"build-script-executed","env":[]}"#,
            "\nno JSON\n",
            r#"{"reason":"compiler-artifact","executable":"/t/triple/release/kvbench","fresh":true}"#,
            "\n",
            r#"{"reason":"build-finished","success":true}"#,
            "\n",
        );
        let expected = Some(PathBuf::from("/t/triple/release/kvbench"));
        assert_eq!(built_program(messages.as_bytes()), expected);
        assert_eq!(built_program(br#"{"reason":"build-finished","success":false}"#), None);
    }

    #[test]
    fn a_source_is_a_version_a_directory_or_a_repository() {
        let git = |revision: Option<&str>| CrateSource::Git {
            url: "https://host/r".into(),
            revision: revision.map(Into::into),
        };
        for (text, source) in [
            ("4.3.0", CrateSource::Published("4.3.0".into())),
            (".", CrateSource::Directory(".".into())),
            ("../redb", CrateSource::Directory("../redb".into())),
            ("redb", CrateSource::Directory("redb".into())),
            ("/src/redb", CrateSource::Directory("/src/redb".into())),
            ("git+https://host/r", git(None)),
            ("git+https://host/r#main", git(Some("main"))),
        ] {
            let parsed: CrateSource = text.parse().unwrap();
            assert_eq!(parsed, source);
            assert_eq!(parsed.to_string(), text);
        }
    }

    fn package(version: &str, source: Option<&str>, manifest_path: &str) -> Package {
        Package {
            name: "engine".into(),
            version: version.into(),
            source: source.map(Into::into),
            manifest_path: manifest_path.into(),
        }
    }

    #[test]
    fn a_package_from_elsewhere_is_not_the_one_that_was_asked_for() {
        const REGISTRY: Option<&str> = Some("registry+https://github.com/rust-lang/crates.io-index");
        let found = |text: &str, manifest: Option<&str>| Found {
            source: text.parse().unwrap(),
            version: None,
            manifest: manifest.map(Into::into),
        };
        let (published, git) = (found("4.3.0", None), found("git+https://host/r#v1", None));
        let directory = found("./r", Some("/r/Cargo.toml"));
        let in_git = |address: &str| package("4.3.0", Some(address), "/cache/Cargo.toml");
        for (found, package, is_provided) in [
            (&published, package("4.3.0", REGISTRY, "/cache/Cargo.toml"), true),
            (&published, package("4.4.0", REGISTRY, "/cache/Cargo.toml"), false),
            (&published, package("4.3.0", None, "/r/Cargo.toml"), false),
            (&directory, package("4.3.0", None, "/r/Cargo.toml"), true),
            (&directory, package("4.3.0", None, "/other/Cargo.toml"), false),
            (&directory, package("4.3.0", REGISTRY, "/r/Cargo.toml"), false),
            (&git, in_git("git+https://host/r?rev=v1#c0ffee"), true),
            (&git, in_git("git+https://host/r#c0ffee"), true),
            (&git, in_git("git+https://host/other?rev=v1#c0ffee"), false),
            (&git, in_git("git+https://host/r2?rev=v1#c0ffee"), false),
            (&git, package("4.3.0", REGISTRY, "/cache/Cargo.toml"), false),
        ] {
            assert_eq!(found.provides(&package), is_provided, "{} {package:?}", found.source);
        }
    }

    #[test]
    fn packages_of_one_commit_or_directory_are_the_same() {
        let in_git = |address: &str| package("4.3.0", Some(address), "/cache/Cargo.toml").identity();
        let tag = in_git("git+https://host/r?rev=v1#c0ffee");
        assert_eq!(tag, in_git("git+https://host/r?rev=c0ffee#c0ffee"));
        assert_ne!(tag, in_git("git+https://host/r?rev=v1#badcafe"));
        assert_ne!(tag, in_git("git+https://host/fork?rev=v1#c0ffee"));
        let directory = |path| package("4.3.0", None, path).identity();
        assert_ne!(directory("/r/Cargo.toml"), directory("/fork/Cargo.toml"));
    }

    #[test]
    fn a_crate_is_found_in_its_directory_and_in_its_workspace() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap();
        fs::create_dir_all(path.join("engine/src")).unwrap();
        fs::write(path.join("Cargo.toml"), "[workspace]\nmembers = [\"engine\"]\nresolver = \"2\"\n")
            .unwrap();
        let manifest = "[package]\nname = \"engine\"\nversion = \"4.5.0-dev\"\nedition = \"2021\"\n";
        fs::write(path.join("engine/Cargo.toml"), manifest).unwrap();
        fs::write(path.join("engine/src/lib.rs"), "").unwrap();
        for place in [path.clone(), path.join("engine")] {
            let found = Found::new("engine", &CrateSource::Directory(place)).unwrap();
            assert_eq!(found.version.as_deref(), Some("4.5.0-dev"));
            let place = path.join("engine").display().to_string();
            assert_eq!(
                found.patch("engine"),
                format!("\n[patch.crates-io]\nengine = {{ path = {place:?} }}\n")
            );
        }
        for (name, place, cause) in
            [("other", path.clone(), "no such package"), ("engine", path.join("no"), "no such directory")]
        {
            let error = Found::new(name, &CrateSource::Directory(place)).err().unwrap().to_string();
            assert!(error.contains(cause), "{error}");
        }
    }
}

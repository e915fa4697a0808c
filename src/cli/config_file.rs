//! Configuration file of `--config FILE`: flags of `serve` as lines `name value`, which the command line
//! overrides.

use super::serve::Serve;
use clap::{
    Arg, Args, Command,
    error::{ContextKind, ContextValue, ErrorKind},
    parser::ValueSource,
};
use std::{ffi::OsString, fs, io, path::PathBuf};

/// Error in a configuration file. Each message names the file, and the line if one line causes the error.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum Error {
    #[error("cannot read --config {}: {source}", .path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{}:{line}: {reason}", .path.display())]
    Line { path: PathBuf, line: usize, reason: String },
}

/// Returns the arguments of a command line with the flags of its last `--config` file inserted before its own flags,
/// which override them. Lines with a flag that the command line excludes are left out. Returns the arguments unchanged
/// if the subcommand is not `serve`, or without `--config`.
///
/// # Errors
///
/// If the file cannot be read, or if `serve` does not accept a line, or two lines together, or a line without a flag that
/// is missing in the file and on the command line.
pub fn expand(mut words: Vec<OsString>) -> Result<Vec<OsString>, Error> {
    let place = match words.get(1) {
        Some(word) if word == "serve" => 2,
        Some(word) if word.to_string_lossy().starts_with('-') => 1,
        _ => return Ok(words),
    };
    let command = Serve::augment_args(Command::new("kvbench")).args_override_self(true);
    // Mistakes of the command line are reported when it is read together with the flags of the file.
    let own = words.iter().take(1).chain(words.iter().skip(place));
    let Ok(matches) = command.clone().ignore_errors(true).try_get_matches_from(own) else { return Ok(words) };
    let Some(path) = matches.get_one::<PathBuf>("config") else { return Ok(words) };
    let text = fs::read_to_string(path).map_err(|source| Error::Read { path: path.clone(), source })?;
    let is_given = |arg: &&Arg| matches.value_source(arg.get_id().as_str()) == Some(ValueSource::CommandLine);
    let given: Vec<&Arg> = command.get_arguments().filter(is_given).collect();
    let (mut flags, mut lines): (Vec<OsString>, Vec<(&Arg, usize)>) = Default::default();
    for (number, line) in (1..).zip(text.lines()) {
        let failed = |reason| Error::Line { path: path.clone(), line: number, reason };
        let Some((arg, flag)) = flag(&command, line).map_err(failed)? else { continue };
        if given.iter().any(|given| overrides(&command, given, arg)) {
            continue;
        }
        if let Some((other, line)) = lines.iter().find(|(other, _)| exclude_each_other(&command, arg, other))
        {
            let name = |arg: &Arg| arg.get_long().unwrap_or_default().to_owned();
            return Err(failed(format!(
                "--{} cannot be used with --{} of line {line}",
                name(arg),
                name(other)
            )));
        }
        lines.push((arg, number));
        flags.push(flag.into());
    }
    words.splice(place..place, flags.iter().cloned());
    let all: Vec<_> = words.iter().take(1).chain(words.iter().skip(place)).cloned().collect();
    let missing = missing_flags(&command, all);
    for ((arg, line), flag) in lines.into_iter().zip(flags) {
        let needed = missing_flags(&command, vec!["kvbench".into(), flag]);
        let needed: Vec<_> = needed.into_iter().filter(|flag| missing.contains(flag)).collect();
        if !needed.is_empty() {
            let name = arg.get_long().unwrap_or_default();
            let reason = format!("--{name} needs {}", needed.join(" and "));
            return Err(Error::Line { path: path.clone(), line, reason });
        }
    }
    Ok(words)
}

/// Returns the flags that other flags in the arguments `words` need and that are not among them.
fn missing_flags(command: &Command, words: Vec<OsString>) -> Vec<String> {
    let error = command.clone().try_get_matches_from(words).err();
    let error = error.filter(|error| error.kind() == ErrorKind::MissingRequiredArgument);
    match error.as_ref().and_then(|error| error.get(ContextKind::InvalidArg)) {
        Some(ContextValue::Strings(flags)) => flags.clone(),
        _ => Vec::new(),
    }
}

/// Returns `true` if the flag `given` of the command line overrides a line of the file with the flag `arg`: it is the
/// same flag, or excludes it. Commands that the file disables stay disabled.
fn overrides(command: &Command, given: &Arg, arg: &Arg) -> bool {
    let is_same = given.get_id() == arg.get_id() && arg.get_id() != "disable_command";
    is_same || exclude_each_other(command, given, arg)
}

fn exclude_each_other(command: &Command, one: &Arg, other: &Arg) -> bool {
    let excludes = |one, other: &Arg| {
        command.get_arg_conflicts_with(one).iter().any(|excluded| excluded.get_id() == other.get_id())
    };
    excludes(one, other) || excludes(other, one)
}

/// Returns the flag for a line of the configuration file, and its text (`--port=6380` for `port 6380`), or `None` if the
/// line is empty or a comment. Fails with the reason if `serve` does not accept the flag.
fn flag<'a>(command: &'a Command, line: &str) -> Result<Option<(&'a Arg, String)>, String> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    let (name, value) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let name = name.trim_start_matches("--");
    let Some(value) = unquoted(value.trim()) else {
        return Err(format!(
            "the value of {name} begins with a double quote and does not end with one; add it"
        ));
    };
    if name == "config" {
        return Err("a config file cannot name another one; remove this line".into());
    }
    let is_named = |arg: &&Arg| {
        arg.get_long() == Some(name) || arg.get_all_aliases().unwrap_or_default().contains(&name)
    };
    let Some(arg) = command.get_arguments().find(is_named) else {
        return Err(format!("there is no flag --{name}; see kvbench serve --help"));
    };
    if value.is_empty() {
        return Err(format!("{name} has no value: write {name} VALUE"));
    }
    let flag = format!("--{name}={value}");
    match command.clone().try_get_matches_from(["kvbench", &flag]) {
        // Flags that need others are checked when all flags are read.
        Err(error) if error.kind() != ErrorKind::MissingRequiredArgument => {
            let text = error.to_string();
            // The rest of clap's message is about the command line.
            let is_hint =
                |line: &str| line.starts_with("Usage: ") || line.starts_with("For more information");
            let lines = text.lines().take_while(|line| !is_hint(line));
            let lines: Vec<_> = lines.map(str::trim).filter(|line| !line.is_empty()).collect();
            Err(lines.join(" ").trim_start_matches("error: ").to_owned())
        }
        _ => Ok(Some((arg, flag))),
    }
}

/// Removes the double quotes that may enclose a value with spaces. Returns `None` if the second one is missing.
fn unquoted(value: &str) -> Option<&str> {
    match value.strip_prefix('"') {
        Some(rest) => rest.strip_suffix('"'),
        None => Some(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the arguments that are inserted before the flags `own` of the command line for a file with `text`, or
    /// the error.
    fn inserted(text: &str, own: &[&str]) -> Result<Vec<String>, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("conf");
        fs::write(&path, text).unwrap();
        let config = format!("--config={}", path.display());
        let words = ["kvbench", "serve", &config].into_iter().chain(own.iter().copied());
        let expanded = expand(words.map(Into::into).collect()).map_err(|error| error.to_string())?;
        let inserted = expanded.get(2..expanded.len() - 1 - own.len()).unwrap();
        Ok(inserted.iter().map(|word| word.clone().into_string().unwrap()).collect())
    }

    #[test]
    fn value_with_one_double_quote_is_refused() {
        for line in ["path \"my data.db", "path \"", "requirepass \"a b"] {
            let error = inserted(line, &[]).unwrap_err();
            assert!(error.contains("begins with a double quote"), "{line}: {error}");
        }
        assert_eq!(inserted("path \"my data.db\"", &[]).unwrap(), ["--path=my data.db"]);
        assert_eq!(inserted("path \"\"a\"", &[]).unwrap(), ["--path=\"a"]);
    }

    #[test]
    fn lines_with_a_flag_of_the_command_line_or_one_that_it_excludes_are_left_out() {
        for (text, own, expected) in [
            ("nodes a:1,b:1\nfsync no", &["--nodes", "c:1"][..], &["--fsync=no"][..]),
            ("nodes a:1\nnodes b:1", &[], &["--nodes=a:1", "--nodes=b:1"]),
            ("path data", &["--nodes", "c:1"], &[]),
            ("pd a:1", &["--path", "data"], &[]),
            ("port 1", &["-p", "2"], &[]),
            ("requirepass a", &["--password-file", "b"], &[]),
            ("password-file a", &["--requirepass", "b"], &[]),
            ("tls-cert-file a", &["--tls-cert", "b"], &[]),
            ("disable-command GET", &["--disable-command", "SET"], &["--disable-command=GET"]),
        ] {
            assert_eq!(inserted(text, own).unwrap(), expected, "{text:?} {own:?}");
        }
    }

    #[test]
    fn lines_that_exclude_each_other_are_named() {
        let told = inserted("# A remark.\nrequirepass a\n\npassword-file b\n", &[]).unwrap_err();
        assert!(told.contains("conf:4: --password-file") && told.contains("--requirepass"), "{told}");
        assert!(told.ends_with("of line 2"), "{told}");
        assert_eq!(inserted("requirepass a\npassword-file b", &["--password-file", "c"]), Ok(Vec::new()));
    }

    #[test]
    fn line_without_a_flag_that_it_needs_is_named_if_the_command_line_lacks_it_too() {
        let text = "timeout 1\ntls-cert a";
        let told = inserted(text, &["--tls-port", "0"]).unwrap_err();
        assert!(told.ends_with("conf:2: --tls-cert needs --tls-key <FILE>"), "{told}");
        let own = &["--tls-port", "0", "--tls-key", "b"];
        assert_eq!(inserted(text, own).unwrap(), ["--timeout=1", "--tls-cert=a"]);
        // clap reports mistakes of the command line alone.
        assert_eq!(inserted("timeout 1", &["--tls-port", "0"]).unwrap(), ["--timeout=1"]);
    }
}

//! Machine, software and settings of a benchmark run, as text.

use super::report_tables::Report;
use crate::{
    bench::result::{
        Calibration, Environment, Run, Target, comparability::Level, interleaved_comparison::Comparison,
        metric::Unit, number_format, run_file::RunFile,
    },
    engine::{Fsync, Kind, Location, OpenOptions, Setting, synthetic},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

/// Name of the fact that lists what the run has not measured.
pub const LEFT_OUT: &str = "Left out";

/// Name of each fact that says what makes an interleaved comparison of the run doubtful.
pub const IN_TURNS: &str = "In turns";

/// Machine, software and settings of a benchmark run, as text.
pub struct EnvironmentText<'a> {
    /// Title of the run: its suite or first table, its start time, and its environment if the report has several.
    pub title: String,
    /// Number of the run's environment in the report, from 1.
    pub number: usize,
    /// Name and value of each fact about the machine, the software and the settings.
    pub facts: Vec<(&'static str, String)>,
    /// Warnings about conditions that make the results of the run unreliable.
    pub warnings: Vec<&'a str>,
    /// Shell command that repeats the run.
    pub command: String,
    /// Link to the result file, if the report has a copy.
    pub link: Option<Link>,
}

/// Link from the report to a file.
pub struct Link {
    /// URL of the file, relative to the report.
    pub url: String,
    /// Path of the file as text, relative to the report.
    pub text: String,
}

impl Link {
    /// Returns the link to the file at `path`, relative to the report.
    pub fn to(path: &Path) -> Self {
        // Without "./", a name with a colon would begin with a scheme.
        let mut url = ".".to_owned();
        for part in path {
            url.push('/');
            for byte in part.as_encoded_bytes() {
                if byte.is_ascii_alphanumeric() || b"-._~".contains(byte) {
                    url.push(char::from(*byte));
                } else {
                    url.push_str(&format!("%{byte:02X}"));
                }
            }
        }
        Self { url, text: path.display().to_string() }
    }
}

/// Returns the machine, software and settings of each run of a report as text. The paths of the report's copies of the
/// result files (`link`) are left `None`.
pub fn of_runs<'a>(report: &Report<'a>) -> Vec<EnvironmentText<'a>> {
    let several = report.environments.iter().any(|number| *number > 1);
    let runs = report.runs.iter().zip(&report.environments);
    runs.map(|(file, number)| describe(file, *number, several)).collect()
}

fn describe(file: &RunFile, number: usize, several: bool) -> EnvironmentText<'_> {
    let run = &file.run;
    let first = run.cells.iter().find(|cell| !cell.reference).map(|cell| cell.table.as_str());
    let work = run.suite.as_deref().or(first).unwrap_or("nothing measured");
    let environment = if several { format!(", environment {number}") } else { String::new() };
    let mut warnings: Vec<&str> = run.environment.warnings.iter().map(String::as_str).collect();
    if !run.finished {
        warnings.push("This run was not finished; repeat its command with --resume to continue it.");
    }
    // With --force the run could not be continued, and its result would be replaced.
    let arguments = run.command.iter().filter(|word| *word != "--force").cloned();
    let command: Vec<_> = std::iter::once("kvbench".to_owned()).chain(arguments).collect();
    EnvironmentText {
        title: format!("{work}, {}{environment}", run.started),
        number,
        facts: facts(file),
        warnings,
        command: number_format::shell_command(&command),
        link: None,
    }
}

fn facts(file: &RunFile) -> Vec<(&'static str, String)> {
    let run = &file.run;
    let place = &run.environment;
    let (unknown, none) = (|| "unknown".to_owned(), || "none".to_owned());
    let text = |value: &Option<String>| value.clone().unwrap_or_else(unknown);
    let libraries = place.libraries.iter().map(|(engine, library)| format!("{engine} ({library})"));
    let mut facts = vec![
        ("File", file.path.file_name().map_or_else(unknown, |name| name.to_string_lossy().into_owned())),
        ("Processor", text(&place.cpu)),
        ("Cores", place.cores.to_string()),
        ("Memory", place.memory_bytes.map_or_else(unknown, number_format::size)),
        (
            "Memory limit",
            place.memory_limit_bytes.map_or_else(none, |bytes| limit(bytes, place.driver_memory_bytes)),
        ),
        (
            "Page cache before each cell",
            place.cold.clone().unwrap_or_else(|| "as the cell before left it".to_owned()),
        ),
        ("Processors", place.cpus.clone().unwrap_or_else(|| "not pinned".to_owned())),
        ("System", place.system.clone()),
        ("Frequency governor", text(&place.governor)),
        ("Directory", place.directory.clone()),
        ("File system", text(&place.file_system)),
        ("Device", text(&place.device)),
        (
            "fsync of 4 KiB",
            place.fsync_us.map_or_else(unknown, |us| number_format::short(Unit::Microseconds, us)),
        ),
        ("Device read-ahead", place.read_ahead_kib.map_or_else(unknown, |kib| format!("{kib} KiB"))),
        ("Random read of 4 KiB", random_reads(place)),
        ("Load average", place.load_average.map_or_else(unknown, |load| format!("{load:.2}"))),
        ("kvbench", format!("{}, commit {}", run.version, text(&place.commit))),
        ("Calibration", place.calibration.as_ref().map_or_else(|| "not calibrated".into(), calibration)),
        ("Compiler", text(&place.rustc)),
        ("Libraries", libraries.collect::<Vec<_>>().join(", ")),
        ("Repetitions", repetitions(run)),
    ];
    facts.extend(interference(run));
    let settings = settings(run);
    if !settings.is_empty() {
        facts.push(("Settings that were given", settings));
    }
    let computed = computed_settings(run);
    if !computed.is_empty() {
        facts.push(("Settings that this version of kvbench computes from them", computed));
    }
    if !run.left_out.is_empty() {
        facts.push((LEFT_OUT, run.left_out.join("; ")));
    }
    facts
}

/// Returns what other programs did during the run, and how the stores that took turns compare with those alone.
fn interference(run: &Run) -> Vec<(&'static str, String)> {
    let parts = run.samples.iter().filter_map(|sample| Some(sample.disturbance?.part()));
    let most = parts.reduce(f64::max);
    let used = most.map(|most| format!("at most {:.0}% of the processors in a measurement", most * 100.0));
    let in_turns = run.comparisons.iter().filter_map(|comparison| {
        let doubts = comparison.doubts(run.environment.foreign_limit, &run.cells);
        (!doubts.is_empty()).then(|| (IN_TURNS, format!("{}: {}", comparison.id, doubts.join("; "))))
    });
    used.map(|used| ("Used by others", used)).into_iter().chain(in_turns).collect()
}

/// Returns the settings under which each store was opened: cache, compression and read-ahead. Stores that this build
/// does not have, other programs, and servers that were already running, are left out.
fn settings(run: &Run) -> String {
    let of = |target: &Target| {
        let cache = synthetic::info(&target.store)?.cache;
        let size = number_format::size(target.cache_bytes);
        let read_ahead = target.read_ahead.map(|setting| format!(", read-ahead {setting}"));
        let compression = target.compression;
        let read_ahead = read_ahead.unwrap_or_default();
        Some(format!(
            "{}: --cache-size {size} ({cache}), compression {compression}{read_ahead}",
            target.store
        ))
    };
    let settings: BTreeSet<_> = own_targets(run).filter_map(of).collect();
    settings.into_iter().collect::<Vec<_>>().join("; ")
}

/// Returns the settings of the stores' libraries that follow from those that were given, by the engines of this build.
/// If they are not the same for all cells of a store, each is preceded by the fsync policies for which they are.
fn computed_settings(run: &Run) -> String {
    let mut computed: BTreeMap<(&str, String), BTreeSet<&str>> = BTreeMap::new();
    for target in own_targets(run) {
        let location = if target.persistent { Location::Path(PathBuf::new()) } else { Location::Memory };
        let fsync = target.fsync.unwrap_or(Fsync::No);
        let options = OpenOptions { cache_size: target.cache_bytes, ..OpenOptions::new(location, fsync) };
        let settings = Kind::find(&target.store).map_or(Vec::new(), |kind| (kind.settings)(&options));
        let words = settings.into_iter().map(|(name, value)| match value {
            Setting::Bytes(bytes) => format!("{name} {}", number_format::size(bytes)),
            Setting::Mode(mode) => format!("{name} {mode}"),
        });
        let words = words.collect::<Vec<_>>().join(", ");
        let policy = Level::of(target).durability_word();
        computed.entry((target.store.as_str(), words)).or_default().insert(policy);
    }
    computed.retain(|(_, words), _| !words.is_empty());
    let line = |((store, words), policies): (&(&str, String), &BTreeSet<&str>)| match computed
        .keys()
        .filter(|(other, _)| other == store)
        .count()
    {
        1 => format!("{store}: {words}"),
        _ => format!("{store} ({}): {words}", policies.iter().copied().collect::<Vec<_>>().join(", ")),
    };
    computed.iter().map(line).collect::<Vec<_>>().join("; ")
}

/// Returns the targets of a run that kvbench opens itself, without the no-op engine.
fn own_targets(run: &Run) -> impl Iterator<Item = &Target> {
    let is_own = |target: &&Target| target.address.is_none() && target.program.is_none();
    run.cells.iter().filter(|cell| !cell.reference).map(|cell| &cell.target).filter(is_own)
}

/// Returns the memory limit of each store, `bytes`, and the memory of the driver in bytes, if known, as text.
fn limit(bytes: u64, driver: Option<u64>) -> String {
    let size = number_format::size;
    match driver {
        Some(driver) => format!("{} for each store, and {} for the driver", size(bytes), size(driver)),
        None => format!("{} for each store with the driver", size(bytes)),
    }
}

/// Returns the number of repetitions of a run as text; of one with interleaved comparisons, the numbers of their blocks,
/// and the groups in which their stores were loaded.
fn repetitions(run: &Run) -> String {
    let blocks = || run.comparisons.iter().map(|comparison| comparison.blocks.len());
    let count = match (blocks().min(), blocks().max()) {
        (Some(fewest), Some(most)) if fewest == most => format!("{most} blocks"),
        (Some(fewest), Some(most)) => format!("{fewest} to {most} blocks"),
        _ => run.repetitions.to_string(),
    };
    let in_groups = |one: &Comparison| Some(format!("{}: {}", one.id, one.groups_text(&run.cells)?));
    let groups = run.comparisons.iter().filter_map(in_groups);
    std::iter::once(count).chain(groups).collect::<Vec<_>>().join("; ")
}

/// Returns the latency of random reads of the device before and after a run with a cold cache, as text; "not measured"
/// for other runs.
fn random_reads(place: &Environment) -> String {
    let us = |value: Option<f64>| {
        value.map_or_else(|| "unknown".to_owned(), |us| number_format::short(Unit::Microseconds, us))
    };
    match (place.random_read_us, place.random_read_after_us) {
        (None, None) => "not measured".to_owned(),
        (before, after) => format!("{} before the run, {} after it", us(before), us(after)),
    }
}

fn calibration(found: &Calibration) -> String {
    let Calibration { date, figures, failed, undecided, worst_error, worst_figure, .. } = found;
    match found.passed {
        true if !undecided.is_empty() => format!(
            "{date}: none of {figures} figures is wrong; on a busy machine {} were not verified: {}",
            undecided.len(),
            undecided.join(", ")
        ),
        true => format!(
            "{date}: all {figures} figures are within their allowed range; the largest error is {:.2}% \
            ({worst_figure})",
            worst_error * 100.0
        ),
        false if *figures == 0 => format!("{date}: ended with an error: {}", failed.join(", ")),
        false => format!("{date}: {} of {figures} figures were wrong: {}", failed.len(), failed.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::{Link, limit};
    use std::path::Path;

    #[test]
    fn a_link_leads_to_the_file_whatever_its_name() {
        for (path, url) in [
            ("results/run-0.json", "./results/run-0.json"),
            ("results/run #1?.json", "./results/run%20%231%3F.json"),
            ("a:b-50%.json", "./a%3Ab-50%25.json"),
            ("javascript:alert(1).json", "./javascript%3Aalert%281%29.json"),
            ("\u{b5}.json", "./%C2%B5.json"),
        ] {
            let link = Link::to(Path::new(path));
            assert_eq!((link.url.as_str(), link.text.as_str()), (url, path));
        }
    }

    #[test]
    fn a_limit_is_shown_with_the_memory_of_the_driver() {
        assert_eq!(limit(128 << 20, Some(20 << 20)), "128 MiB for each store, and 20.0 MiB for the driver");
        assert_eq!(limit(128 << 20, None), "128 MiB for each store with the driver");
    }
}

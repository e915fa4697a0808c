//! Truth, measured, error: for a terminal and for the documentation.

use super::figure::Figure;
use crate::bench::result::{
    Access, Calibration,
    measure::Unit,
    numbers::{grouped, short},
};

const INTRODUCTION: &str = "\
# Calibration

`kvbench calibrate` measures an engine of known truth on the way that every other engine takes, in process
and over the wire, and holds every column of a result against that truth. It ends with exit code 1 when a
figure is not where the truth allows. `kvbench bench` names what was found of its build in each result.

- Counts and sizes are exact. So are bytes written, but for what the file system writes for itself in the
  name of the process: the engine writes so many whole pages for each operation, and so many later, in the
  background.
- Times are held against what the engine has seen itself. *Truth* is how long it was at work; a true figure
  lies between that and the time from its reply to the operation before until the next one came, which is all
  that the way to it and back can have taken. Both move with a busy machine.
- Bytes of the device are those of all programs of the machine.
- Sizes are those of the live store, of the settled one (all is flushed, no background work is left) and of the
  closed one, as lengths, as blocks, and as blocks within the lengths: RocksDB reserves 74 MiB behind the ends of
  open files. The size of a cell is the last of these, settled.
- Bytes written are those of the measured time and of the settling after it. The store is settled before it too,
  and its file system written back, so that nobody pays for those before. Write amplification is shown from 1 MiB
  of keys and values on; a delete counts both that it removes.
- Memory is in process without what the process had before it opened the engine; a few MiB are the harness'
  own (threads, histograms). Over the wire it is that of the whole server.
";

/// For the documentation.
pub fn markdown(figures: &[Figure], calibration: &Calibration) -> String {
    let commit = calibration.commit.as_deref().unwrap_or("unknown");
    let verdict = if calibration.passed { "All are true." } else { "Not all are true." };
    let mut text = format!(
        "{INTRODUCTION}\nMade by `kvbench calibrate --markdown docs/calibration.md`, commit {commit}, {}: {} figures. \
         {verdict}\n",
        calibration.date, calibration.figures
    );
    for (access, title) in [(Access::InProcess, "In process"), (Access::Wire, "Over the wire")] {
        text.push_str(&format!(
            "\n## {title}\n\n| workload | column | truth | measured | error | allowed | |\n|---|---|---:|---:|---:|---:|---|\n"
        ));
        for figure in figures.iter().filter(|figure| figure.access == access) {
            text.push_str(&format!("| {} |\n", parts(figure).join(" | ")));
        }
    }
    text
}

/// For a terminal.
pub fn text(figures: &[Figure]) -> String {
    let head = ["workload", "column", "truth", "measured", "error", "allowed", ""].map(String::from);
    let mut text = String::new();
    for (access, title) in [(Access::InProcess, "in process"), (Access::Wire, "over the wire")] {
        let figures = figures.iter().filter(|figure| figure.access == access);
        let lines: Vec<_> = [head.clone()].into_iter().chain(figures.map(parts)).collect();
        text.push_str(&format!("\n{title}\n\n"));
        for line in &lines {
            for (place, part) in line.iter().enumerate() {
                let widths = lines.iter().filter_map(|line| line.get(place)).map(|part| part.chars().count());
                let width = widths.max().unwrap_or(0);
                text.push_str(&match place {
                    0 | 1 => format!("{part:<width$}  "),
                    _ => format!("{part:>width$}  "),
                });
            }
            text.truncate(text.trim_end().len());
            text.push('\n');
        }
    }
    text
}

fn parts(figure: &Figure) -> [String; 7] {
    let show = |value: f64| match (value.is_finite(), figure.unit, figure.column) {
        (false, ..) => "any".into(),
        (_, Unit::Bytes, _) => format!("{} B", grouped(value)),
        (.., "operations") => grouped(value),
        (_, unit, _) => short(unit, value),
    };
    let (least, most) = (*figure.allowed.start(), *figure.allowed.end());
    let allowed = if least == most { "exact".into() } else { format!("{} to {}", show(least), show(most)) };
    let error = match figure.measured {
        Some(measured) if measured == figure.truth => "0".into(),
        Some(measured) => format!("{:+.2}%", (measured - figure.truth) / figure.truth * 100.0),
        None => "-".into(),
    };
    [
        figure.workload.clone(),
        figure.column.into(),
        show(figure.truth),
        figure.measured.map_or_else(|| "nothing".into(), show),
        error,
        allowed,
        if figure.is_true() { "true" } else { "WRONG" }.into(),
    ]
}

//! Tables of expected value, measured value and error, for a terminal and for the documentation.

use super::checked_metric::Figure;
use crate::bench::result::{
    Access, Calibration,
    metric::Unit,
    number_format::{distinct, grouped, short},
    text_table,
};

const INTRODUCTION: &str = "\
# Calibration

`kvbench calibrate` measures an engine whose true figures are known, in process and over the wire, with the same
code as every other engine. It compares every column of the result with the true figure, and exits with 1 when a
figure is outside the allowed range. `kvbench bench` records in each result whether its build was calibrated.

- Counts, sizes, and the bytes and calls of the engine's writes are exact. The engine writes a known number of bytes for
  each operation, and a known number later, in the background: whole pages, pages that it overwrites in place (`in
  place`), and small parts of a page with a sync each (`small appends`). Meanwhile another process writes to the same disk.
- Times are compared with what the engine itself has recorded. The *truth* is the time that the engine worked. A correct
  figure is at least that time, and at most the time between the end of the previous operation in the engine and the start
  of the next one, which includes the way there and back. Both vary when the machine is busy. An experiment with a
  figure outside the allowed range is measured again, at most twice, and the command says so: a paused machine fails
  one attempt, a bug fails every attempt. A wrong count is never measured again.
- Bytes and requests of the device are those of a loop device of the cell's own, with the journal and the look-ups of its
  file system. `device writes` syncs each write, while another process writes to the machine's device; `device reads` reads
  a file that was dropped from the page cache; `memory limit` reads a file of 128 MiB twice with 48 MiB of memory, so that
  at most 48 of 128 MiB of the second time may come from the page cache. Without root or loop devices these are not checked.
- In a closed loop, the time between two operations in the engine lengthens one of them, not both. On a busy machine the
  way there and back may take so long that the measurement cannot confirm a value which may be right. Such a value is
  *undecided*: a mean, or a percentile up to the 99th, that exceeds the engine's own time by more than 50% and 1 ms; a
  higher percentile or a maximum that exceeds it by more than 100% and 10 ms; and any figure of more than ten times the
  truth. Undecided values are measured again too. Those that stay undecided are not wrong; results name them.
- Operations of four threads that read at the same time are told apart by their threads. A warm-up of the same
  operations must not count.
- Sizes are those of the live store, of the settled store (everything is flushed, and no background work is left) and of
  the closed store. Each is given as lengths, as blocks, and as blocks within the lengths, because RocksDB reserves
  74 MiB behind the ends of open files. The size of a cell is that of the settled store, as blocks within the lengths.
- Bytes written are those of the measured time and of the settling after it. The store is settled before the measured
  time too, and its file system is written back, so that no cell includes earlier writes. Write amplification is shown
  when at least 1 MiB of keys and values was written; a delete counts the key and the value that it removes.
- Reads, updates, inserts, deletes, scans and read-modify-writes that one thread mixes are judged apart. Of writes that are
  committed in groups the mean latency is known: each thread has one write under way from the begin to the end.
- With a time to live, hits and reads of expired keys may differ by three from the engine's, and by more if time passes
  between the engine and the driver, because each reads the clock at another moment; keys that are removed around the begin
  or the end of the measured time may or may not be counted.
- Instructions are compared with those of a loop of two instructions; those of the driver may add 1%. Where the processor,
  or its virtual machine, has no counter of instructions, they are not checked.
- `recovery` kills a process that updates. To open its files takes a known time for each write in them, and none for
  files that were closed.
- To open a store again is, over the wire, to start a server with its files.
- Memory in process excludes what the process had before it opened the engine. It includes memory of the harness
  (threads, histograms): at most what is resident at the end of the cell, and 2 MiB that are freed before. Over the wire it
  is the memory of the whole server.

That a wrong column is found was tested in two ways. A test halves each column of each workload, and expects that this
column, and no other, is called wrong; and it multiplies each by twenty on a busy machine, and expects that none is
called true. And the code that measures was broken by hand; `kvbench calibrate` failed each time. Broken were: counts
of operations; seconds; each percentile; processor time (halved); memory (read from the wrong line of /proc); lengths
and blocks of files (swapped); bytes written (without the settling); the times of load, close and reopening; reads and
writes (swapped); the latency of groups (halved); operations that an open loop could not begin (left out); allocations
(halved); bytes of the device and blocks of files (sectors for bytes); the start of a server over the wire (not
timed).
";

/// Returns the text of docs/calibration.md: the introduction and the tables of all metrics.
pub fn markdown(figures: &[Figure], calibration: &Calibration) -> String {
    let commit = calibration.commit.as_deref().unwrap_or("unknown");
    let verdict = match (calibration.passed, calibration.undecided.len()) {
        (true, 0) => "All are within their allowed ranges.".to_owned(),
        (true, undecided) => format!(
            "All are within their allowed ranges, but the machine was too busy to verify {undecided} of them."
        ),
        (false, _) => "Not all are within their allowed ranges.".to_owned(),
    };
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

/// Returns a summary for a terminal: for each access the number of metrics, the wrong ones and how many are undecided,
/// and a sentence.
pub fn summary_text(figures: &[Figure], calibration: &Calibration) -> String {
    let mut text = String::new();
    for (access, title) in [(Access::InProcess, "in process"), (Access::Wire, "over the wire")] {
        let own = || figures.iter().filter(|figure| figure.access == access);
        let wrong: Vec<_> = own().filter(|figure| figure.is_wrong()).map(line).collect();
        let workloads = distinct(own().map(|figure| figure.workload.as_str()));
        text.push_str(&format!(
            "{title}: {} metrics of {} workloads, {} wrong, {} undecided\n",
            own().count(),
            workloads.len(),
            wrong.len(),
            own().filter(|figure| figure.is_undecided()).count()
        ));
        wrong.iter().for_each(|line| text.push_str(&format!("  {line}\n")));
    }
    text + &sentence(calibration)
}

/// Returns the outcome of a calibration as a sentence.
fn sentence(found: &Calibration) -> String {
    match found.passed {
        true if !found.undecided.is_empty() => format!(
            "No metric is wrong, but {} of {} are not decided, because the machine was busy; stop other programs and \
             calibrate again: {}\n",
            found.undecided.len(),
            found.figures,
            found.undecided.join("; ")
        ),
        true => format!(
            "This build measures correctly: all {} metrics are within their allowed ranges; the largest error in \
             process is {:.2}% ({}).\n",
            found.figures,
            found.worst_error * 100.0,
            found.worst_figure
        ),
        false => format!(
            "Do not trust results of this build on this machine: {} of {} metrics are wrong.\n",
            found.failed.len(),
            found.figures
        ),
    }
}

/// Returns the tables of all metrics for a terminal.
pub fn text(figures: &[Figure]) -> String {
    let head = ["workload", "column", "truth", "measured", "error", "allowed", ""].map(String::from);
    let mut text = String::new();
    for (access, title) in [(Access::InProcess, "in process"), (Access::Wire, "over the wire")] {
        let figures = figures.iter().filter(|figure| figure.access == access);
        let lines: Vec<_> = [head.clone()].into_iter().chain(figures.map(parts)).map(Vec::from).collect();
        text.push_str(&format!("\n{title}\n\n{}", text_table::text(&lines, 2, "  ")));
    }
    text
}

/// Returns the name of a metric with its measured value, expected value and allowed range, for a message.
pub(super) fn line(figure: &Figure) -> String {
    let [.., truth, measured, _, allowed, _] = parts(figure);
    format!("{}: {measured}, truth {truth}, allowed {allowed}", figure.name())
}

fn parts(figure: &Figure) -> [String; 7] {
    let show = |value: f64| match figure.unit {
        Unit::Bytes => format!("{} B", grouped(value)),
        unit => short(unit, value),
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
        match (figure.is_wrong(), figure.is_undecided()) {
            (true, _) => "WRONG",
            (false, true) => "undecided",
            (false, false) => "true",
        }
        .into(),
    ]
}

//! Rendering of two INFO replies as text: the activity of a server between them.

use super::info_reply::InfoSnapshot;

/// Maximum number of commands in the table of an update.
const COMMANDS: usize = 20;

/// Size of the output in characters.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    pub columns: usize,
    /// Number of lines; `None` if the output is no terminal.
    pub rows: Option<usize>,
}

/// Returns the text of an update, in lines of at most `size.columns` columns unless a single word is longer: the activity
/// of a server between the INFO replies `last` and `now`. Fields that the server does not report are left out, and so are
/// the commands with the fewest calls if a terminal has too few lines.
pub(super) fn render(server: &str, last: &InfoSnapshot, now: &InfoSnapshot, size: Size) -> String {
    let width = size.columns;
    let seconds = now.since(last).as_secs_f64().max(0.001);
    let rate = |name: &str| Some((now.number(name)? - last.number(name)?).max(0.0) / seconds);
    let mut text = head(server, now, width);
    let figures = [
        ("clients", now.number("connected_clients").map(count)),
        ("requests/s", rate("total_commands_processed").map(count)),
        ("in/s", rate("total_net_input_bytes").map(bytes)),
        ("out/s", rate("total_net_output_bytes").map(bytes)),
        ("memory", now.number("used_memory").map(bytes)),
        ("disk", now.number("disk_bytes").map(bytes)),
        ("keys", now.keys().map(count)),
    ];
    line(&mut text, &figures, width);
    commits(&mut text, last, now, seconds, width);
    commands(&mut text, last, now, seconds, size);
    text
}

fn head(server: &str, now: &InfoSnapshot, width: usize) -> String {
    let known = |name: &str| now.text(name).unwrap_or("?").to_owned();
    let what = match (now.text("kvbench_version"), now.text("store")) {
        // Without files there is nothing to sync, whatever the policy is.
        (Some(version), Some(store)) if now.text("aof_enabled") == Some("0") => {
            format!("kvbench {version}, {store}, in memory")
        }
        (Some(version), Some(store)) => format!("kvbench {version}, {store}, fsync {}", known("fsync")),
        _ => format!("redis {}", known("redis_version")),
    };
    let up = now.number("uptime_in_seconds").unwrap_or_default() as u64;
    let up = format!("up {}h {:02}m {:02}s", up / 3600, up / 60 % 60, up % 60);
    // A narrow terminal needs more than one line for what the server is.
    let what = wrapped(what.split(' '), " ", width);
    wrapped([server].into_iter().chain(what.lines()).chain([&*up]), "   ", width)
}

/// Appends a line (more if it is wider than `width` columns) with the names and values of `figures` that are known.
fn line(text: &mut String, figures: &[(&str, Option<String>)], width: usize) {
    let known: Vec<String> =
        figures.iter().filter_map(|(name, value)| Some(format!("{name} {}", value.as_ref()?))).collect();
    if !known.is_empty() {
        text.push_str(&wrapped(known.iter().map(String::as_str), "   ", width));
    }
}

/// Appends a line on the commits since `last`, which only kvbench reports: clients per commit, and latencies. The
/// percentiles are those since the start of the server, and are left out without a commit since `last`.
fn commits(text: &mut String, last: &InfoSnapshot, now: &InfoSnapshot, seconds: f64, width: usize) {
    let grown = |name: &str| Some((now.number(name)? - last.number(name)?).max(0.0));
    let Some(commits) = grown("commits") else { return };
    let mean = |name: &str| Some(grown(name)? / commits).filter(|mean| mean.is_finite());
    let percentile = |name: &str| now.number(name).filter(|micros| commits > 0.0 && *micros > 0.0).map(time);
    line(
        text,
        &[
            ("commits/s", Some(count(commits / seconds))),
            ("clients per commit", mean("commit_clients_total").map(|mean| format!("{mean:.1}"))),
            ("mean commit", mean("commit_usec_total").map(time)),
            ("commit p99 since the start", percentile("commit_usec_p99")),
            ("sync p99 since the start", percentile("sync_usec_p99")),
            ("oldest unsynced", now.number("oldest_unsynced_ms").map(|millis| time(millis * 1000.0))),
        ],
        width,
    );
}

/// Columns of the table of commands, each with its place in the order in which columns are left out if the terminal is
/// too narrow; 0: never.
const COLUMNS: [(&str, u8); 7] =
    [("command", 0), ("calls/s", 0), ("mean", 0), ("p50", 3), ("p99", 0), ("p99.9", 1), ("errors/s", 2)];

/// Appends a table of the commands with the most calls since `last`, and a legend of its columns.
fn commands(text: &mut String, last: &InfoSnapshot, now: &InfoSnapshot, seconds: f64, size: Size) {
    let mean = match now.text("kvbench_version") {
        Some(_) => "mean: this interval, the time of a step divided by its commands;",
        None => "mean: this interval;",
    };
    let steps = if now.text("kvbench_version").is_some() { "of whole steps " } else { "" };
    let legend = format!("{mean} p50 to p99.9: {steps}since the start of the server");
    let legend = wrapped(legend.split(' '), " ", size.columns);
    // The title of the table, three empty lines, and the line of the cursor.
    let others = text.lines().count() + legend.lines().count() + 5;
    let most = size.rows.map_or(COMMANDS, |rows| rows.saturating_sub(others).clamp(1, COMMANDS));
    let mut rows: Vec<(f64, &str)> = now
        .names("cmdstat_")
        .map(|name| {
            let field = format!("cmdstat_{name}");
            let calls = |look: &InfoSnapshot| look.part(&field, "calls").unwrap_or_default();
            ((calls(now) - calls(last)).max(0.0), name)
        })
        .collect();
    rows.sort_by(|(one, name), (other, next)| other.total_cmp(one).then(name.cmp(next)));
    let mut table = vec![COLUMNS.map(|(title, _)| title.to_owned())];
    table.extend(rows.into_iter().take(most).map(|(calls, name)| row(name, calls, last, now, seconds)));
    text.push('\n');
    text.push_str(&grid(&table, size.columns));
    text.push('\n');
    text.push_str(&legend);
}

/// Returns the row of a command in the table of commands. A command without calls in the interval has no times: those
/// of earlier calls would look like present ones.
fn row(name: &str, calls: f64, last: &InfoSnapshot, now: &InfoSnapshot, seconds: f64) -> [String; 7] {
    let field = format!("cmdstat_{name}");
    let grown =
        |part: &str| now.part(&field, part).unwrap_or_default() - last.part(&field, part).unwrap_or_default();
    let latency = format!("latency_percentiles_usec_{name}");
    let if_called = |micros: Option<f64>| match micros.filter(|_| calls > 0.0) {
        Some(micros) => time(micros),
        None => "-".into(),
    };
    let [p50, p99, p999] =
        ["p50", "p99", "p99.9"].map(|percentile| if_called(now.part(&latency, percentile)));
    // Redis counts a request that is refused before it is executed, such as for want of memory, only as rejected.
    let errors = count((grown("failed_calls") + grown("rejected_calls")).max(0.0) / seconds);
    [name.into(), count(calls / seconds), if_called(Some(grown("usec") / calls)), p50, p99, p999, errors]
}

/// Returns a table as text whose lines have at most `width` columns: table columns are left out, in the order of
/// [`COLUMNS`], until the lines fit. Lines that are still too long are cut off.
fn grid(table: &[[String; 7]], width: usize) -> String {
    let widths: [usize; 7] = std::array::from_fn(|column| {
        table.iter().filter_map(|row| row.get(column)).map(String::len).max().unwrap_or_default()
    });
    let used = |left_out: u8| {
        let shown = COLUMNS.iter().zip(widths).filter(|((_, order), _)| *order == 0 || *order > left_out);
        shown.map(|(_, width)| width + 2).sum::<usize>().saturating_sub(2)
    };
    let left_out = (0..3).find(|left_out| used(*left_out) <= width).unwrap_or(3);
    let mut text = String::new();
    for row in table {
        let mut line = String::new();
        for ((cell, width), (_, order)) in row.iter().zip(widths).zip(COLUMNS) {
            match line.is_empty() {
                true => line.push_str(&format!("{cell:<width$}")),
                false if order == 0 || order > left_out => line.push_str(&format!("  {cell:>width$}")),
                false => {}
            }
        }
        text.extend(line.trim_end().chars().take(width));
        text.push('\n');
    }
    text
}

/// Joins `parts` with `separator` to lines of at most `width` columns, unless a part is longer.
fn wrapped<'p>(parts: impl Iterator<Item = &'p str>, separator: &str, width: usize) -> String {
    let (mut text, mut column) = (String::new(), 0);
    for part in parts {
        let fits = column + separator.len() + part.len() <= width;
        if column > 0 {
            text.push_str(if fits { separator } else { "\n" });
            column = if fits { column + separator.len() } else { 0 };
        }
        text.push_str(part);
        column += part.len();
    }
    text.push('\n');
    text
}

/// Formats a number with thousands separators.
fn count(number: f64) -> String {
    let digits = (number.round() as u64).to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn bytes(number: f64) -> String {
    bytesize::ByteSize::b(number as u64).display().iec().to_string()
}

fn time(micros: f64) -> String {
    match micros {
        1e6.. => format!("{:.2} s", micros / 1e6),
        1e3.. => format!("{:.2} ms", micros / 1e3),
        _ => format!("{micros:.1} us"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WIDE: Size = Size { columns: 200, rows: None };

    #[test]
    fn a_picture_has_what_changed_between_two_looks() {
        let info = |calls: u64, commits: u64| {
            InfoSnapshot::parse(&format!(
                "# Server\r\nredis_version:7.0.15\r\nkvbench_version:1.2.3\r\nstore:map\r\nfsync:always\r\n\
                 uptime_in_seconds:3725\r\nconnected_clients:1234\r\ntotal_commands_processed:{calls}\r\n\
                 commits:{commits}\r\ncommit_clients_total:{}\r\ncommit_usec_total:{}\r\n\
                 cmdstat_get:calls={calls},usec={},failed_calls=0\r\ncmdstat_del:calls=1,usec=1,failed_calls=0\r\n\
                 latency_percentiles_usec_get:p50=1.500,p99=2500.000,p99.9=3000000.000\r\ndb0:keys=7,expires=0\r\n",
                commits * 8,
                commits * 1500,
                calls * 3,
            ))
        };
        let (last, now) = (info(100, 10), info(1100, 20));
        let picture = render("here:1", &last, &now, WIDE);
        let lines: Vec<_> = picture.lines().collect();
        assert_eq!(lines[0], "here:1   kvbench 1.2.3, map, fsync always   up 1h 02m 05s");
        assert!(
            lines[1].starts_with("clients 1,234   requests/s ") && lines[1].ends_with("   keys 7"),
            "{picture}"
        );
        assert!(lines[2].contains("clients per commit 8.0   mean commit 1.50 ms"), "{picture}");
        let get: Vec<_> = lines[5].split_whitespace().collect();
        assert_eq!(
            (get[0], &get[2..9]),
            ("get", &["3.0", "us", "1.5", "us", "2.50", "ms", "3.00"][..]),
            "{picture}"
        );
        let del: Vec<_> = lines[6].split_whitespace().collect();
        assert_eq!(
            del,
            ["del", "0", "-", "-", "-", "-", "0"],
            "no times of calls before the interval: {picture}"
        );
        assert!(picture.contains("p50 to p99.9: of whole steps since the start of the server"), "{picture}");
    }

    #[test]
    fn a_terminal_shows_the_busiest_commands_that_fit() {
        let info = |calls: u64| {
            let head = format!("kvbench_version:1.2.3\r\nstore:map\r\nfsync:no\r\ncommits:{calls}\r\n");
            let commands = (0..30).map(|n| format!("cmdstat_c{n:02}:calls={},usec=1\r\n", calls * n));
            InfoSnapshot::parse(&(head + &commands.collect::<String>()))
        };
        let shown = |rows: Option<usize>| {
            let picture = render("here:1", &info(1), &info(2), Size { columns: 80, rows });
            let commands =
                picture.lines().filter(|line| line.starts_with('c') && line.contains(" us ")).count();
            assert!(picture.contains("\nc29 ") && picture.starts_with("here:1"), "{picture}");
            (picture.lines().count(), commands)
        };
        assert_eq!(shown(None).1, COMMANDS);
        assert_eq!(shown(Some(100)), shown(None));
        for rows in [16, 24, 29] {
            let (lines, commands) = shown(Some(rows));
            // An empty line and the line of the cursor follow.
            assert_eq!(lines + 2, rows);
            assert!(commands > 1, "{rows}: {commands}");
        }
        assert_eq!(shown(Some(5)).1, 1);
    }

    #[test]
    fn refused_requests_are_errors() {
        let info = |refused: u64| {
            let text =
                format!("cmdstat_set:calls=5,usec=1,rejected_calls={refused},failed_calls={refused}\r\n");
            InfoSnapshot::parse(&text)
        };
        let row = row("set", 0.0, &info(10), &info(30), 2.0);
        assert_eq!(row[6], "20");
    }

    /// Otherwise the percentiles would look like those of the commits in the interval.
    #[test]
    fn percentiles_of_commits_say_since_when_and_need_a_commit() {
        let info = |commits: u64| {
            InfoSnapshot::parse(&format!(
                "kvbench_version:1.2.3\r\ncommits:{commits}\r\ncommit_usec_p99:2500\r\nsync_usec_p99:900\r\n"
            ))
        };
        let picture = render("here:1", &info(10), &info(20), WIDE);
        assert!(
            picture.contains("   commit p99 since the start 2.50 ms   sync p99 since the start 900.0 us\n"),
            "{picture}"
        );
        let picture = render("here:1", &info(20), &info(20), WIDE);
        assert!(picture.contains("commits/s 0\n"), "{picture}");
        assert!(!picture.contains("commit p99") && !picture.contains("sync p99"), "{picture}");
    }

    #[test]
    fn lines_of_an_update_are_not_wider_than_the_terminal() {
        let info = |calls: u64| {
            InfoSnapshot::parse(&format!(
                "kvbench_version:1.2.3\r\nstore:rocksdb-blob\r\nfsync:everysec\r\nconnected_clients:1234\r\n\
                 total_commands_processed:{calls}\r\ntotal_net_input_bytes:{calls}\r\nused_memory:123456789\r\n\
                 commits:{calls}\r\ncommit_clients_total:{calls}\r\ncommit_usec_total:{calls}\r\n\
                 cmdstat_config|resetstat:calls={calls},usec={calls},failed_calls={calls}\r\n\
                 latency_percentiles_usec_config|resetstat:p50=1.5,p99=2500.0,p99.9=3000000.0\r\n"
            ))
        };
        for width in [40, 60, 72, 80, 120] {
            let picture =
                render("127.0.0.1:6380", &info(100), &info(10_000_000), Size { columns: width, rows: None });
            assert!(picture.lines().all(|line| line.len() <= width), "{width}: {picture}");
            for column in ["calls/s", "mean", "p99"] {
                assert!(width < 60 || picture.contains(column), "{width}: {picture}");
            }
            assert_eq!(picture.contains("errors/s"), width >= 72, "{width}: {picture}");
        }
    }
}

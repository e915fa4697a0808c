//! Rendering of two INFO replies as text: the activity of a server between them.

use super::look::InfoSnapshot;
use std::fmt::Write;

/// Maximum number of commands that are listed.
const COMMANDS: usize = 20;

/// Returns the lines of an update. Fields that the server does not report are left out.
pub(super) fn render(server: &str, last: &InfoSnapshot, now: &InfoSnapshot) -> String {
    let seconds = now.since(last).as_secs_f64().max(0.001);
    let rate = |name: &str| Some((now.number(name)? - last.number(name)?).max(0.0) / seconds);
    let mut text = head(server, now);
    let figures = [
        ("clients", now.number("connected_clients").map(count)),
        ("requests/s", rate("total_commands_processed").map(count)),
        ("in/s", rate("total_net_input_bytes").map(bytes)),
        ("out/s", rate("total_net_output_bytes").map(bytes)),
        ("memory", now.number("used_memory").map(bytes)),
        ("disk", now.number("disk_bytes").map(bytes)),
        ("keys", now.keys().map(count)),
    ];
    line(&mut text, &figures);
    commits(&mut text, last, now, seconds);
    commands(&mut text, last, now, seconds);
    text
}

fn head(server: &str, now: &InfoSnapshot) -> String {
    let known = |name: &str| now.text(name).unwrap_or("?").to_owned();
    let what = match (now.text("kvbench_version"), now.text("store")) {
        (Some(version), Some(store)) => format!("kvbench {version}, {store}, fsync {}", known("fsync")),
        _ => format!("redis {}", known("redis_version")),
    };
    let up = now.number("uptime_in_seconds").unwrap_or_default() as u64;
    format!("{server}   {what}   up {}h {:02}m {:02}s\n", up / 3600, up / 60 % 60, up % 60)
}

/// Appends a line with the names and values that are known.
fn line(text: &mut String, figures: &[(&str, Option<String>)]) {
    let known: Vec<String> =
        figures.iter().filter_map(|(name, value)| Some(format!("{name} {}", value.as_ref()?))).collect();
    if !known.is_empty() {
        let _ = writeln!(text, "{}", known.join("   "));
    }
}

/// Appends a line on commits, which only kvbench reports: clients per commit, and latencies.
fn commits(text: &mut String, last: &InfoSnapshot, now: &InfoSnapshot, seconds: f64) {
    let grown = |name: &str| Some((now.number(name)? - last.number(name)?).max(0.0));
    let Some(commits) = grown("commits") else { return };
    let mean = |name: &str| Some(grown(name)? / commits).filter(|mean| mean.is_finite());
    let micros = |name: &str| now.number(name).filter(|micros| *micros > 0.0).map(time);
    line(
        text,
        &[
            ("commits/s", Some(count(commits / seconds))),
            ("clients a commit", mean("commit_clients_total").map(|mean| format!("{mean:.1}"))),
            ("commit", mean("commit_usec_total").map(time)),
            ("p99", micros("commit_usec_p99")),
            ("sync p99", micros("sync_usec_p99")),
            ("oldest unsynced", now.number("oldest_unsynced_ms").map(|millis| time(millis * 1000.0))),
        ],
    );
}

fn commands(text: &mut String, last: &InfoSnapshot, now: &InfoSnapshot, seconds: f64) {
    let _ = writeln!(
        text,
        "\n{:<16}{:>12}{:>12}{:>12}{:>12}{:>12}{:>12}",
        "command", "calls/s", "each", "p50", "p99", "p99.9", "errors/s"
    );
    let mut rows: Vec<(f64, &str)> = now
        .names("cmdstat_")
        .map(|name| {
            let field = format!("cmdstat_{name}");
            let calls = |look: &InfoSnapshot| look.part(&field, "calls").unwrap_or_default();
            ((calls(now) - calls(last)).max(0.0), name)
        })
        .collect();
    rows.sort_by(|(one, name), (other, next)| other.total_cmp(one).then(name.cmp(next)));
    for (calls, name) in rows.into_iter().take(COMMANDS) {
        let field = format!("cmdstat_{name}");
        let grown = |part: &str| {
            now.part(&field, part).unwrap_or_default() - last.part(&field, part).unwrap_or_default()
        };
        let each = if calls > 0.0 { time(grown("usec") / calls) } else { "-".into() };
        let latency = format!("latency_percentiles_usec_{name}");
        let [p50, p99, p999] =
            ["p50", "p99", "p99.9"].map(|percentile| now.part(&latency, percentile).map_or("-".into(), time));
        let _ = writeln!(
            text,
            "{name:<16}{:>12}{each:>12}{p50:>12}{p99:>12}{p999:>12}{:>12}",
            count(calls / seconds),
            count(grown("failed_calls").max(0.0) / seconds),
        );
    }
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
        let picture = render("here:1", &last, &now);
        let lines: Vec<_> = picture.lines().collect();
        assert_eq!(lines[0], "here:1   kvbench 1.2.3, map, fsync always   up 1h 02m 05s");
        assert!(
            lines[1].starts_with("clients 1,234   requests/s ") && lines[1].ends_with("   keys 7"),
            "{picture}"
        );
        assert!(lines[2].contains("clients a commit 8.0   commit 1.50 ms"), "{picture}");
        let get: Vec<_> = lines[5].split_whitespace().collect();
        assert_eq!(
            (get[0], &get[2..9]),
            ("get", &["3.0", "us", "1.5", "us", "2.50", "ms", "3.00"][..]),
            "{picture}"
        );
        assert!(lines[6].starts_with("del "), "the busiest first: {picture}");
    }
}

//! Formatting of metrics and settings for people.

use crate::bench::result::{Operation, Order, Size, latency_goal::LatencyGoal, metric::Unit};
use std::collections::BTreeMap;

/// Formats a value with its unit and three significant digits: `412 k/s`, `12.3 µs`, `1.50 GiB`, `1.83×`. An integer
/// count, and a count from 100, has all its digits. A rate, time or size of 0 is `0` without a unit.
pub fn short(unit: Unit, value: f64) -> String {
    const RATES: [(f64, &str); 4] = [(1e9, " G/s"), (1e6, " M/s"), (1e3, " k/s"), (1.0, "/s")];
    const TIMES: [(f64, &str); 4] = [(1.0, " s"), (1e-3, " ms"), (1e-6, " \u{b5}s"), (1e-9, " ns")];
    const SIZES: [(f64, &str); 4] =
        [(1_073_741_824.0, " GiB"), (1_048_576.0, " MiB"), (1024.0, " KiB"), (1.0, " B")];
    match unit {
        Unit::PerSecond => scaled(value, &RATES),
        Unit::Microseconds => scaled(value / 1e6, &TIMES),
        Unit::Seconds => scaled(value, &TIMES),
        Unit::Bytes => scaled(value, &SIZES),
        Unit::Times => format!("{}\u{d7}", digits(value)),
        Unit::Count if value.fract() == 0.0 || value.abs() >= 99.95 => grouped(value),
        Unit::Count => digits(value),
    }
}

fn scaled(value: f64, steps: &[(f64, &str)]) -> String {
    let fits = steps.iter().find(|(step, _)| value.abs() >= *step);
    match fits.or(steps.last()) {
        Some((step, unit)) if value != 0.0 => format!("{}{unit}", digits(value / step)),
        _ => "0".to_owned(),
    }
}

/// Formats a value with three significant digits; from 0.1 to 1 with two decimal places, below 0.1 with two significant
/// digits, from 1000 with all integer digits. 0 is `0.00`.
pub fn digits(value: f64) -> String {
    match value.abs() {
        small if small > 0.0 && small < 0.1 => {
            // The exponent of the rounded value: 0.0996 is 0.10.
            let rounded = format!("{small:.1e}");
            let exponent = rounded.split_once('e').and_then(|(_, exponent)| exponent.parse::<i32>().ok());
            let decimals = exponent.and_then(|exponent| usize::try_from(1 - exponent).ok()).unwrap_or(2);
            format!("{value:.decimals$}")
        }
        large if large >= 99.95 => format!("{value:.0}"),
        middle if middle >= 9.995 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// Formats a ratio as [`digits`] does, but with up to two more decimal places if a ratio that is not 1 would be `1.00`.
pub fn ratio(value: f64) -> String {
    let text = digits(value);
    if text != "1.00" {
        return text;
    }
    let longer = [format!("{value:.3}"), format!("{value:.4}")];
    longer.into_iter().find(|longer| longer.trim_end_matches('0') != "1.").unwrap_or(text)
}

/// Formats a metric's value for a table whose heading names the metric: rates from 100 as grouped integers (`412,345`),
/// other values as [`short`] does.
pub fn exact(unit: Unit, value: f64) -> String {
    if unit == Unit::PerSecond && value >= 100.0 { grouped(value) } else { short(unit, value) }
}

/// Formats a time that a person waits for: `45 s`, `12 min`, `6.5 h`.
pub fn duration(seconds: f64) -> String {
    match seconds {
        few if few < 120.0 => format!("{few:.0} s"),
        some if some < 5400.0 => format!("{:.0} min", some / 60.0),
        many => format!("{:.1} h", many / 3600.0),
    }
}

/// Formats the absolute value, rounded, as an integer with commas between groups of three digits: `412,345`.
pub fn grouped(value: f64) -> String {
    let plain = format!("{:.0}", value.abs());
    let mut text = String::new();
    for (position, digit) in plain.chars().enumerate() {
        if position > 0 && (plain.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats the length of keys or values: `16 B` or `10 to 20 B`.
pub fn length(size: Size) -> String {
    match size {
        Size::Fixed(bytes) => format!("{bytes} B"),
        Size::Uniform(from, to) => format!("{from} to {to} B"),
    }
}

/// Returns a latency that must be kept as text: `p99<5.00 ms`.
pub fn latency_goal(goal: LatencyGoal) -> String {
    format!("{}<{}", goal.of, short(Unit::Microseconds, goal.below_us))
}

/// Formats a mix of operations with the share of each kind: `90% get + 10% update`.
pub fn mix(mix: &BTreeMap<Operation, f64>) -> String {
    mix.keys().map(|kind| share(*kind, mix)).collect::<Vec<_>>().join(" + ")
}

/// Formats the share of one kind of operation in a mix, followed by its name: `90% get`; only the name if there is no
/// other kind.
pub fn share(kind: Operation, mix: &BTreeMap<Operation, f64>) -> String {
    let all: f64 = mix.values().sum();
    let weight = mix.get(&kind).copied().unwrap_or_default();
    let name = operation(kind);
    if weight == all {
        return name.to_owned();
    }
    format!("{:.3}% {name}", weight / all * 100.0).replace(".000%", "%")
}

/// Returns the name of a kind of operation: `get-miss`.
pub fn operation(kind: Operation) -> &'static str {
    match kind {
        Operation::Get => "get",
        Operation::GetMiss => "get-miss",
        Operation::Update => "update",
        Operation::Insert => "insert",
        Operation::ReadModifyWrite => "read-modify-write",
        Operation::Scan => "scan",
        Operation::Delete => "delete",
    }
}

/// Formats a number of bytes with three significant digits: `1.50 GiB`.
#[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
pub fn size(bytes: u64) -> String {
    short(Unit::Bytes, bytes as f64)
}

/// Formats the order or distribution in which keys are chosen: `zipfian 0.99`.
pub fn order(order: Order) -> String {
    match order {
        Order::Sequential => "sequential".to_owned(),
        Order::Uniform => "uniform".to_owned(),
        Order::Zipfian(theta) => format!("zipfian {theta}"),
        Order::Latest => "latest".to_owned(),
        Order::HotSet(0.0, _) => "one key".into(),
        Order::HotSet(part, share) => format!("{share} of operations on {part} of keys"),
    }
}

/// Formats the size of the data, the engines' cache and the memory, all given in bytes: `data 1.00 GiB : cache ...`;
/// `None` is shown as unknown.
#[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
pub fn ratio_words(data: f64, cache: Option<u64>, memory: Option<u64>) -> String {
    let known = |size: Option<u64>| size.map_or("unknown".to_owned(), |size| short(Unit::Bytes, size as f64));
    format!("data {} : cache {} : memory {}", short(Unit::Bytes, data), known(cache), known(memory))
}

/// Returns the distinct names, in the order of their first occurrence.
pub fn distinct<T: PartialEq>(names: impl Iterator<Item = T>) -> Vec<T> {
    let mut found = Vec::new();
    for name in names {
        if !found.contains(&name) {
            found.push(name);
        }
    }
    found
}

/// Formats a command line so that a POSIX shell can execute it: quotes arguments where necessary.
pub fn shell_command(words: &[String]) -> String {
    words.iter().map(|word| shell_word(word)).collect::<Vec<_>>().join(" ")
}

/// Returns a command-line argument as a POSIX shell reads it: in single quotes if necessary.
fn shell_word(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+%@".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_words_back() {
        assert_eq!(shell_word("--keys=1000"), "--keys=1000");
        assert_eq!(shell_word("it's here"), r"'it'\''s here'");
        assert_eq!(shell_word(""), "''");
    }

    #[test]
    fn three_digits_and_a_unit() {
        assert_eq!(short(Unit::PerSecond, 412_345.0), "412 k/s");
        assert_eq!(short(Unit::Microseconds, 0.4), "400 ns");
        assert_eq!(short(Unit::Microseconds, 12_340.0), "12.3 ms");
        assert_eq!(short(Unit::Bytes, 1_610_612_736.0), "1.50 GiB");
        assert_eq!(short(Unit::Times, 1.826), "1.83\u{d7}");
        assert_eq!(short(Unit::Bytes, 0.0), "0");
        assert_eq!(short(Unit::Count, 3.0), "3");
        assert_eq!(short(Unit::Count, 2.5), "2.50");
        assert_eq!(short(Unit::Count, 12_345.0), "12,345");
    }

    /// A small value is not 0.
    #[test]
    fn a_value_below_a_tenth_has_two_digits() {
        for (value, text) in [
            (0.0, "0.00"),
            (0.000_123, "0.00012"),
            (0.004, "0.0040"),
            (0.00996, "0.010"),
            (0.095, "0.095"),
            (0.0996, "0.10"),
            (0.104, "0.10"),
            (0.5, "0.50"),
            (-0.004, "-0.0040"),
        ] {
            assert_eq!(digits(value), text);
        }
        assert_eq!(short(Unit::Times, 0.004), "0.0040\u{d7}");
    }

    /// An interval that excludes 1 does not seem to touch it.
    #[test]
    fn a_ratio_beside_1_is_not_shown_as_1() {
        for (value, text) in [
            (1.0, "1.00"),
            (1.004, "1.004"),
            (0.9961, "0.996"),
            (0.9998, "0.9998"),
            (1.000_01, "1.00"),
            (0.99, "0.99"),
            (1.02, "1.02"),
            (2.0, "2.00"),
            (0.05, "0.050"),
        ] {
            assert_eq!(ratio(value), text);
        }
    }

    #[test]
    fn thousands_are_grouped() {
        assert_eq!(exact(Unit::PerSecond, 1_234_567.4), "1,234,567");
        assert_eq!(exact(Unit::PerSecond, 123.0), "123");
        assert_eq!(exact(Unit::PerSecond, 12.34), "12.3/s");
    }
}

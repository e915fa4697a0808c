//! Value parsers of counts, sizes and times, with units.

use bytesize::ByteSize;
use std::ops::RangeInclusive;

/// Unit behind a number: its suffix, and its size as a numerator and a denominator, because no float is exactly 0.001.
type Unit = (&'static str, f64, f64);

/// Units of counts (`5m` is 5,000,000).
const COUNTS: &[Unit] = &[("k", 1e3, 1.0), ("m", 1e6, 1.0), ("g", 1e9, 1.0)];

/// Maximum number of keys or operations of a benchmark. It allows the program to multiply it by small factors.
#[cfg(feature = "bench")]
pub(super) const MOST_OPERATIONS: u64 = 1_000_000_000_000_000;

/// Largest number of driver threads: over the wire each is a client, and a kvbench server accepts 10,000.
#[cfg(feature = "bench")]
pub(super) const MOST_THREADS: u64 = 9_000;

/// Units of times, in seconds.
const TIMES: &[Unit] = &[
    ("us", 1.0, 1e6),
    ("ms", 1.0, 1e3),
    ("s", 1.0, 1.0),
    ("sec", 1.0, 1.0),
    ("m", 60.0, 1.0),
    ("min", 60.0, 1.0),
    ("h", 3600.0, 1.0),
    ("d", 86_400.0, 1.0),
];

/// Maximum of a time in seconds: one year. The clock cannot add a much longer time to the present one.
#[cfg(any(test, feature = "bench", feature = "top"))]
const MOST_SECONDS: f64 = 365.0 * 86_400.0;

/// Unit of a flag's value, a time, if the value names no unit of its own.
#[derive(Clone, Copy, Debug)]
pub(super) enum TimeUnit {
    Microseconds,
    Milliseconds,
    Seconds,
}

impl TimeUnit {
    fn seconds(self) -> f64 {
        match self {
            Self::Microseconds => 1e-6,
            Self::Milliseconds => 1e-3,
            Self::Seconds => 1.0,
        }
    }

    fn examples(self) -> &'static str {
        match self {
            Self::Microseconds => "10000 (microseconds) or 10ms",
            Self::Milliseconds => "100 (milliseconds) or 2s",
            Self::Seconds => "30 (seconds), 30s or 5m",
        }
    }
}

/// Returns the number at the start of `text`, times the size of the unit behind it; a number without a unit is
/// multiplied by 1. `None` if `text` is no such number.
fn scaled(text: &str, units: &[Unit]) -> Option<f64> {
    let text = text.trim().replace('_', "").to_ascii_lowercase();
    let number = text.parse().ok().or_else(|| {
        let (number, unit) = text.split_at(text.find(|letter: char| letter.is_ascii_alphabetic())?);
        let (_, numerator, denominator) = units.iter().find(|(suffix, ..)| *suffix == unit)?;
        Some(number.trim().parse::<f64>().ok()? * numerator / denominator)
    });
    number.filter(|number| number.is_finite())
}

/// Returns a float without a fraction as an integer; `None` if it has one, is negative or is too large. A difference
/// that rounding explains is no fraction: 1.1k.
fn whole(number: f64) -> Option<u64> {
    let rounded = number.round();
    let is_whole = (number - rounded).abs() <= 1e-9 * rounded.max(1.0);
    (is_whole && (0.0..1.8e19).contains(&rounded)).then_some(rounded as u64)
}

fn between(range: &RangeInclusive<u64>) -> String {
    match (range.start(), range.end()) {
        (0, &u64::MAX) => String::new(),
        (start, &u64::MAX) => format!(" of {start} or more"),
        (start, end) => format!(" from {start} to {end}"),
    }
}

/// Returns a parser of counts in `range`: `5000000`, `5_000_000` or `5m`.
pub(super) fn count<T: TryFrom<u64>>(
    range: RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<T, String> + Clone {
    move |text| {
        let exact = text.trim().replace('_', "").parse().ok();
        let number = exact.or_else(|| whole(scaled(text, COUNTS)?)).filter(|number| range.contains(number));
        number.and_then(|number| T::try_from(number).ok()).ok_or_else(|| {
            let example = match range.end() {
                ..1000 => "10",
                1000..5_000_000 => "1000 or 1k",
                _ => "5000000, 5_000_000 or 5m",
            };
            format!("it must be a whole number{}, such as {example}", between(&range))
        })
    }
}

/// Parses a rate above 0, without a unit of time: `20000` or `20k`.
#[cfg(feature = "bench")]
pub(super) fn rate(text: &str) -> Result<f64, String> {
    let number = scaled(text, COUNTS).filter(|number| *number > 0.0);
    number.ok_or_else(|| "it must be a number above 0, such as 20000 or 20k".into())
}

/// Parses a size in bytes: `4096`, `1KiB` or `2GB`.
pub(super) fn size(text: &str) -> Result<ByteSize, String> {
    let wrong = |_| "it must be a size, such as 4096, 64KiB or 1GB".into();
    text.trim().replace('_', "").parse().map_err(wrong)
}

/// Parses a size of at least 1 byte: `4096`, `1KiB` or `2GB`.
pub(super) fn positive_size(text: &str) -> Result<ByteSize, String> {
    let number = size(text)?;
    let wrong = || "it must be a size of 1 byte or more, such as 64KiB or 1GB".into();
    Some(number).filter(|number| number.as_u64() > 0).ok_or_else(wrong)
}

/// Returns a parser of times, whose value is a whole number of `unit` in `range`: `30`, `30s` or `5m`.
pub(super) fn time(
    unit: TimeUnit,
    range: RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<u64, String> + Clone {
    move |text| {
        let exact = text.trim().replace('_', "").parse().ok();
        let with_unit = || whole(scaled(text, TIMES)? / unit.seconds());
        let number = exact.or_else(with_unit).filter(|number| range.contains(number));
        number.ok_or_else(|| format!("it must be a time{}, such as {}", between(&range), unit.examples()))
    }
}

/// Parses a time from 0 to a year, and returns it in seconds: `0.5`, `30s` or `5m`.
#[cfg(any(test, feature = "bench"))]
pub(super) fn seconds(text: &str) -> Result<f64, String> {
    let number = scaled(text, TIMES).filter(|number| *number >= 0.0);
    let wrong = || "it must be a time of 0 or more, such as 0.5 (seconds), 30s or 5m".to_owned();
    number.ok_or_else(wrong).and_then(at_most_a_year)
}

/// Parses a time above 0 and of at most a year, and returns it in seconds: `0.5`, `30s` or `5m`.
#[cfg(any(test, feature = "bench", feature = "top"))]
pub(super) fn positive_seconds(text: &str) -> Result<f64, String> {
    unlimited_positive_seconds(text).and_then(at_most_a_year)
}

#[cfg(any(test, feature = "bench", feature = "top"))]
fn at_most_a_year(seconds: f64) -> Result<f64, String> {
    match seconds <= MOST_SECONDS {
        true => Ok(seconds),
        false => Err("it must be a time of at most a year, 365d".into()),
    }
}

/// Parses a time above 0 without an upper limit, which the caller must check, and returns it in seconds.
#[cfg(any(test, feature = "bench", feature = "top"))]
pub(super) fn unlimited_positive_seconds(text: &str) -> Result<f64, String> {
    let number = scaled(text, TIMES).filter(|number| *number > 0.0);
    number.ok_or_else(|| "it must be a time above 0, such as 0.5 (seconds), 30s or 5m".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_separators_and_suffixes() {
        let parse = count::<u32>(1..=10_000_000);
        let good = [("7", 7), ("5m", 5_000_000), ("5M", 5_000_000), ("5_000_000", 5_000_000), ("1.1k", 1100)];
        for (text, number) in good {
            assert_eq!(parse(text), Ok(number), "{text}");
        }
        for text in ["", "m", "0", "-1", "1.5", "1.0001k", "5x", "5 m m", "11m", "nan", "inf", "1KiB"] {
            assert!(parse(text).is_err_and(|error| error.contains("such as 5000000, ")), "{text}");
        }
        assert_eq!(count::<u64>(0..=u64::MAX)("18446744073709551615"), Ok(u64::MAX));
        assert!(count::<u16>(0..=u64::MAX)("70k").is_err(), "too large for the type");
    }

    #[test]
    fn sizes_have_decimal_and_binary_units() {
        for (text, bytes) in
            [("4096", 4096), ("1KiB", 1024), ("1kb", 1000), ("2 GiB", 2 << 30), ("1_000", 1000)]
        {
            assert_eq!(size(text), Ok(ByteSize(bytes)), "{text}");
        }
        for text in ["", "much", "12 parsecs", "-1", "1s"] {
            assert!(size(text).is_err_and(|error| error.contains("64KiB")), "{text}");
        }
        assert_eq!((size("0"), positive_size("1")), (Ok(ByteSize(0)), Ok(ByteSize(1))));
        for text in ["0", "0KiB"] {
            assert!(positive_size(text).is_err_and(|error| error.contains("1 byte or more")), "{text}");
        }
    }

    #[test]
    fn times_are_in_the_unit_of_the_flag_or_in_their_own() {
        let in_seconds = time(TimeUnit::Seconds, 0..=3600);
        for (text, number) in [("30", 30), ("30s", 30), ("5m", 300), ("1h", 3600), ("2000ms", 2)] {
            assert_eq!(in_seconds(text), Ok(number), "{text}");
        }
        for text in ["", "s", "-1", "0.5", "2h", "500ms", "5x", "1KiB"] {
            assert!(in_seconds(text).is_err_and(|error| error.contains("30s or 5m")), "{text}");
        }
        assert_eq!(time(TimeUnit::Microseconds, 0..=u64::MAX)("10ms"), Ok(10_000));
        assert_eq!(time(TimeUnit::Milliseconds, 0..=u64::MAX)("2s"), Ok(2_000));
        assert_eq!((seconds("0"), seconds("250ms"), seconds("1.5m")), (Ok(0.0), Ok(0.25), Ok(90.0)));
        assert!(
            seconds("-1s").is_err() && positive_seconds("0").is_err() && positive_seconds("nan").is_err()
        );
    }

    /// A longer time would be more than the clock can add to the present time.
    #[test]
    fn times_of_a_benchmark_are_at_most_a_year() {
        assert_eq!((seconds("365d"), positive_seconds("365d")), (Ok(31_536_000.0), Ok(31_536_000.0)));
        for text in ["366d", "31536000.1", "1e19", "1e21"] {
            let told = |parsed: Result<f64, String>| parsed.is_err_and(|error| error.contains("365d"));
            assert!(told(seconds(text)) && told(positive_seconds(text)), "{text}");
        }
    }

    #[test]
    fn a_time_with_a_unit_is_the_same_number_as_in_seconds() {
        for (text, number) in [("410ms", 0.41), ("100us", 0.0001), ("1.1ms", 0.0011), ("0.3s", 0.3)] {
            assert_eq!(seconds(text), Ok(number), "{text}");
        }
    }
}

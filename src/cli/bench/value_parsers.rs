//! Value parsers of the flags of `bench`.

use crate::cli::units;
use crate::{
    bench::{
        plan::options::{Cpus, Suite},
        result::{
            Loses, Operation, Order, Size,
            latency_goal::{LatencyGoal, Percentile},
            statistics::margin::Margin,
        },
    },
    engine::LossClass,
};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use std::collections::BTreeMap;

/// Returns the parser of the word of one of `suites`, whose help lists all of them.
pub(in crate::cli) fn suite_parser(
    suites: impl Iterator<Item = &'static Suite> + Clone + Send + Sync + 'static,
) -> impl TypedValueParser<Value = &'static Suite> {
    let value = |suite: &Suite| PossibleValue::new(suite.word()).help(suite.about);
    PossibleValuesParser::new(suites.clone().map(value)).try_map(move |word| {
        suites.clone().find(|suite| suite.word() == word).ok_or("there is no such suite")
    })
}

/// Returns a line for each of `suites`: its word, in a column of `width` characters, and its description.
pub(in crate::cli) fn suite_lines(suites: impl Iterator<Item = &'static Suite>, width: usize) -> String {
    let line = |suite: &Suite| format!("  {:<width$} {}", suite.word(), suite.about);
    suites.map(line).collect::<Vec<_>>().join("\n")
}

#[derive(Clone, Debug)]
pub(super) struct Mix(pub BTreeMap<Operation, f64>);

fn positive(text: &str) -> Result<f64, String> {
    not_negative(text)
        .and_then(|number| if number > 0.0 { Ok(number) } else { Err("must be above 0".into()) })
}

fn not_negative(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|error| format!("{error}"))?;
    if number.is_finite() && number >= 0.0 { Ok(number) } else { Err("must be 0 or more".into()) }
}

pub(super) fn part(text: &str) -> Result<f64, String> {
    not_negative(text)
        .and_then(|number| if number <= 1.0 { Ok(number) } else { Err("must be at most 1".into()) })
}

/// Parses the name of a workload, which is a part of the default name of the result file.
pub(super) fn workload_name(text: &str) -> Result<String, String> {
    let is_wrong = |letter: char| letter == '/' || letter.is_control();
    match text.trim().is_empty() || text.contains(is_wrong) {
        true => Err("it must be a word or more, without / and control characters, such as sessions".into()),
        false => Ok(text.into()),
    }
}

pub(super) fn mix(text: &str) -> Result<Mix, String> {
    let mut parts = BTreeMap::new();
    for part in text.split(',') {
        let (name, weight) = part.split_once('=').unwrap_or((part, "1"));
        let operation: Operation = serde_json::from_value(name.trim().into()).map_err(|_| {
            format!("there is no operation {name}; choose from get, get-miss, update, insert, read-modify-write, scan, delete")
        })?;
        if parts.insert(operation, positive(weight.trim())?).is_some() {
            return Err(format!("{name} is there twice; write it once, with the sum of its shares"));
        }
    }
    Ok(Mix(parts))
}

/// Parses a latency that must be kept, in whole nanoseconds: `p99<5ms`.
pub(super) fn latency_goal(text: &str) -> Result<LatencyGoal, String> {
    let goal = text.split_once('<').and_then(|(name, time)| {
        let (of, _) = Percentile::ALL.into_iter().find(|(_, known)| *known == name.trim())?;
        let nanoseconds = (units::positive_seconds(time.trim()).ok()? * 1e9).round();
        (nanoseconds > 0.0).then_some(LatencyGoal { of, below_us: nanoseconds / 1e3 })
    });
    goal.ok_or_else(|| "it must be p50, p90, p99, p99.9 or max, <, and a time, such as 'p99<5ms'".into())
}

/// Parses the length of a soak in minutes: from six seconds to a week.
pub(super) fn minutes(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(minutes) if (0.1..=7.0 * 24.0 * 60.0).contains(&minutes) => Ok(minutes),
        _ => Err("it must be a number of minutes from 0.1 to 10080".into()),
    }
}

/// Parses a time to live of at most ten years, and returns it in milliseconds: `0.5`, `30s` or `5m`.
pub(super) fn ttl(text: &str) -> Result<u64, String> {
    let ms = units::unlimited_positive_seconds(text)? * 1e3;
    match ms.round() {
        ms if (1.0..=3650.0 * 86_400_000.0).contains(&ms) => Ok(ms as u64),
        _ => Err("it must be a time from 1ms to 3650d, such as 500ms, 30s or 5m".into()),
    }
}

/// Parses the allowed loss of `--may-lose`: `second`, or `kill=nothing,power=second`. In the second form, a fault (kill
/// or power cut) that is not named may lose nothing.
pub(super) fn may_lose(text: &str) -> Result<Loses, String> {
    let class = |word: &str| match word {
        "nothing" => Ok(LossClass::Nothing),
        "second" => Ok(LossClass::Seconds),
        "anything" => Ok(LossClass::Everything),
        other => Err(format!("there is no loss {other}; choose nothing, second or anything")),
    };
    if !text.contains('=') {
        let class = class(text)?;
        return Ok(Loses { kill: class, power_cut: class });
    }
    let mut loses = Loses { kill: LossClass::Nothing, power_cut: LossClass::Nothing };
    for part in text.split(',') {
        match part.split_once('=') {
            Some(("kill", word)) => loses.kill = class(word)?,
            Some(("power", word)) => loses.power_cut = class(word)?,
            _ => return Err(format!("{part}: write kill=nothing,power=second")),
        }
    }
    Ok(loses)
}

pub(super) fn size(text: &str) -> Result<Size, String> {
    let number = |text: &str| match u32::try_from(units::size(text)?.as_u64()) {
        Ok(bytes @ 0..=0x1000_0000) => Ok(bytes),
        _ => Err("more than 256 MiB".to_owned()),
    };
    match text.split_once('-') {
        None => Ok(Size::Fixed(number(text)?)),
        Some((low, high)) => match (number(low)?, number(high)?) {
            (low, high) if low <= high => Ok(Size::Uniform(low, high)),
            _ => Err("the second length is less than the first".into()),
        },
    }
}

pub(super) fn order(text: &str) -> Result<Order, String> {
    let fraction = |text: &str| {
        positive(text).and_then(|number| match number < 1.0 {
            true => Ok(number),
            false => Err("must be less than 1".into()),
        })
    };
    match text.split(':').collect::<Vec<_>>().as_slice() {
        ["sequential"] => Ok(Order::Sequential),
        ["uniform"] => Ok(Order::Uniform),
        ["zipfian"] => Ok(Order::Zipfian(0.99)),
        ["zipfian", theta] => Ok(Order::Zipfian(fraction(theta)?)),
        ["latest"] => Ok(Order::Latest),
        ["hot", keys, operations] => Ok(Order::HotSet(fraction(keys)?, fraction(operations)?)),
        _ => Err("choose sequential, uniform, zipfian, zipfian:THETA, latest or hot:KEYS:OPERATIONS".into()),
    }
}

pub(in crate::cli) fn cpus(text: &str) -> Result<Cpus, String> {
    let mut cpus = Cpus::default();
    for part in text.split('/') {
        let (place, list) = part.split_once('=').ok_or("write server=0,1/driver=2,3")?;
        let list: Result<Vec<usize>, _> = list.split(',').map(|number| number.trim().parse()).collect();
        let list = list.map_err(|error| format!("{part}: {error}"))?;
        match place.trim() {
            "server" => cpus.server = Some(list),
            "driver" => cpus.driver = Some(list),
            other => return Err(format!("there is no place {other}; use server= or driver=")),
        }
    }
    Ok(cpus)
}

/// Parses a percentage from 0 to below 100, with or without the sign, as a fraction: `10%` is 0.1.
pub(in crate::cli) fn percent(text: &str) -> Result<f64, String> {
    let below_100 = fraction_of_percent(text).filter(|fraction| *fraction < 1.0);
    below_100.ok_or_else(|| "it must be a percentage from 0 to below 100, such as 10%".to_owned())
}

/// Parses a percentage from 0 to 100, with or without the sign, as a fraction: `100%` is 1.0.
pub(in crate::cli) fn percent_to_100(text: &str) -> Result<f64, String> {
    fraction_of_percent(text).ok_or_else(|| "it must be a percentage from 0 to 100, such as 10%".to_owned())
}

/// Returns a percentage from 0 to 100, with or without the sign, as a fraction; `None` if `text` is no such number.
fn fraction_of_percent(text: &str) -> Option<f64> {
    let number: f64 = text.strip_suffix('%').unwrap_or(text).trim().parse().ok()?;
    (0.0..=100.0).contains(&number).then_some(number / 100.0)
}

/// Parses the difference below which stores count as equal, in percent with or without the sign: `3%`.
pub(in crate::cli) fn detect(text: &str) -> Result<Margin, String> {
    let margin = percent_to_100(text).ok().and_then(Margin::new);
    margin.ok_or_else(|| "it must be a percentage above 0 and at most 100, such as 3%".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latency_goals_are_whole_nanoseconds() {
        for (text, of, below_us) in [
            ("p99<100us", Percentile::P99, 100.0),
            ("p99.9 < 5ms", Percentile::P999, 5000.0),
            ("max<0.0000015", Percentile::Max, 1.5),
        ] {
            assert_eq!(latency_goal(text), Ok(LatencyGoal { of, below_us }), "{text}");
        }
        for text in ["p99", "p98<1ms", "p99<0", "p99<0.0001us"] {
            assert!(latency_goal(text).is_err_and(|error| error.contains("'p99<5ms'")), "{text}");
        }
    }

    #[test]
    fn only_some_percentages_may_be_100() {
        for (text, fraction) in [("0", 0.0), ("10%", 0.1), ("2.5 %", 0.025)] {
            assert_eq!((percent(text), percent_to_100(text)), (Ok(fraction), Ok(fraction)), "{text}");
        }
        for text in ["100", "100%", "100.0"] {
            assert_eq!(percent_to_100(text), Ok(1.0), "{text}");
            assert!(percent(text).is_err_and(|error| error.contains("from 0 to below 100,")), "{text}");
        }
        for text in ["", "%", "-1", "100.1", "nan", "much"] {
            assert!(percent_to_100(text).is_err_and(|error| error.contains("from 0 to 100,")), "{text}");
        }
    }
}

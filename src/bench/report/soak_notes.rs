//! Sentences about soaks, and about searches for a rate.

use crate::bench::result::{
    Measurement,
    metric::{P99, THROUGHPUT, Unit},
    number_format,
    soak::Growth,
};

/// Returns what follows from the soak of a measurement, in one sentence; `None` if the measurement is not a soak.
pub fn sentence(measurement: &Measurement) -> Option<String> {
    let soak = measurement.soak.as_ref()?;
    let findings = soak.findings();
    let rate = |value| number_format::short(THROUGHPUT.unit, value);
    let steady = match findings.steady_from {
        None if findings.growing.is_none() => format!("{} in the last half", rate(findings.throughput)),
        Some(0) => format!("steady from the start at {}", rate(findings.throughput)),
        Some(seconds) => format!("steady from {seconds} s on at {}", rate(findings.throughput)),
        None => format!("no steady state was reached; {} in the last half", rate(findings.throughput)),
    };
    let drained = measurement
        .settle_seconds
        .map(|_| format!("{} over all, with the deferred work after the end", rate(measurement.throughput)));
    let time = |us| number_format::short(P99.unit, us);
    let (p99, max) = (time(measurement.latency.p99_us), time(measurement.latency.max_us));
    let median = findings.p99_us.map_or(String::new(), |us| format!(", in the median second {}", time(us)));
    let latency = Some(format!("p99 {p99}{median}, max {max}"));
    let idle = (findings.idle > 0.0).then(|| {
        format!("in {}% of the seconds no operation ended", number_format::digits(findings.idle * 100.0))
    });
    let growing = match findings.growing {
        None => Some("too short to tell when it is steady and what grows".to_owned()),
        Some(_) if soak.backlogs.is_empty() => Some("no backlog was measured".to_owned()),
        Some(growing) if growing.is_empty() => Some("no backlog is shown to grow to the end".to_owned()),
        Some(growing) => {
            let one = |growth: Growth| {
                let unit = if growth.series.ends_with("bytes") { Unit::Bytes } else { Unit::Count };
                format!("{} by {} a minute", growth.series, number_format::short(unit, growth.per_minute))
            };
            let all = growing.into_iter().map(one).collect::<Vec<_>>().join(", ");
            Some(format!("it cannot go on like this: to the end grows {all}"))
        }
    };
    Some([Some(steady), drained, latency, idle, growing].into_iter().flatten().collect::<Vec<_>>().join("; "))
}

/// Returns the result of the search that found the rate of a measurement, in one sentence; `None` without one.
pub fn search_sentence(measurement: &Measurement) -> Option<String> {
    let search = measurement.rate_search.as_ref()?;
    let rate = |value| number_format::short(THROUGHPUT.unit, value);
    let latency = measurement.latency.at(search.goal.of);
    Some(format!(
        "{} keeps {} (verified for {}: {} {}); a higher rate is limited by {}",
        rate(measurement.throughput),
        number_format::latency_goal(search.goal),
        number_format::duration(measurement.seconds),
        search.goal.of,
        number_format::short(P99.unit, latency),
        search.limited_by
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::result::soak::{OPERATIONS, Soak};

    #[test]
    fn a_soak_that_is_too_short_is_not_called_unsteady() {
        for (seconds, begin, end) in [
            (49, "1.00 k/s in the last half; ", "; too short to tell when it is steady and what grows"),
            (50, "steady from the start at 1.00 k/s; ", "; no backlog was measured"),
        ] {
            let series = [(OPERATIONS.to_owned(), vec![Some(1000.0); seconds])];
            let soak = Soak { series: series.into(), backlogs: Vec::new() };
            let text = sentence(&Measurement { soak: Some(soak), ..Measurement::default() }).unwrap();
            assert!(text.starts_with(begin) && text.ends_with(end), "{text}");
        }
    }

    #[test]
    fn one_second_without_operations_in_an_hour_is_not_rounded_to_none() {
        let mut operations: Vec<_> = (0..3600).map(|second| Some(f64::from(1000 + second % 7))).collect();
        operations[1800] = Some(0.0);
        let soak = Soak { series: [(OPERATIONS.to_owned(), operations)].into(), backlogs: Vec::new() };
        let measurement = Measurement { soak: Some(soak), ..Measurement::default() };
        let text = sentence(&measurement).unwrap();
        assert!(text.contains("; in 0.028% of the seconds no operation ended; "), "{text}");
    }
}

//! Bar charts made of characters.

use crate::bench::result::number_format;
use std::fmt::Write;

/// Length of the longest bar, in characters.
const MAX_WIDTH: f64 = 40.0;

/// Returns a chart of the values above zero on a logarithmic scale, since they differ by factors of a thousand.
/// The scale begins one decade below the smallest value. Empty if no value is above zero.
pub(super) fn chart(title: &str, bars: &[(String, f64)]) -> String {
    let shown: Vec<_> = bars.iter().filter(|(_, value)| *value > 0.0).collect();
    let logs = || shown.iter().map(|(_, value)| value.log10());
    let (Some(least), Some(most)) = (logs().reduce(f64::min), logs().reduce(f64::max)) else {
        return String::new();
    };
    let width = shown.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let mut text = format!("```text\n{title}, logarithmic\n");
    for (name, value) in shown {
        let part = (value.log10() - least + 1.0) / (most - least + 1.0);
        let bar = "\u{2588}".repeat((part * MAX_WIDTH).round() as usize);
        let _ = writeln!(text, "{name:<width$} {bar} {}", number_format::grouped(*value));
    }
    text + "```\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_factor_of_ten_is_always_as_long() {
        let bars = [("a", 10.0), ("b", 100.0), ("c", 1000.0), ("none", 0.0)];
        let text = chart("set", &bars.map(|(name, value)| (name.to_owned(), value)));
        let lengths: Vec<_> =
            text.lines().map(|line| line.chars().filter(|c| *c == '\u{2588}').count()).collect();
        assert_eq!(lengths, [0, 0, 13, 27, 40, 0], "{text}");
        assert_eq!(chart("set", &[]), "");
    }
}

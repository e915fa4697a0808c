//! A comparison as text for a terminal or the log of a build.

use super::{CellChange, Change, Comparison, Verdict};
use crate::bench::{
    result::numbers,
    result::{measure::Unit, spread::ENOUGH},
};
use std::fmt;

const HEAD: [&str; 6] = ["cell", "median", "ratio (95%)", "", "p99 ratio (95%)", ""];

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for warning in &self.warnings {
            writeln!(f, "warning: {}", printable(warning))?;
        }
        let mut lines = vec![HEAD.map(str::to_owned)];
        lines.extend(self.cells.iter().map(|cell| line(&cell.id, &cell.change, self.limit)));
        grid(f, &lines)?;
        for (which, ids) in [("first", &self.only_first), ("second", &self.only_second)] {
            for id in ids {
                writeln!(f, "only in the {which} run: {}", printable(id))?;
            }
        }
        writeln!(f, "{}", self.summary())
    }
}

impl Comparison {
    fn summary(&self) -> String {
        let figures = || {
            self.cells.iter().filter_map(|cell| match &cell.change {
                CellChange::Figures { figure, p99 } => Some([Some(figure), p99.as_ref()]),
                _ => None,
            })
        };
        let count = |wanted: Verdict| {
            let has = |change: &Change| change.verdict(self.limit) == wanted;
            figures().filter(|changes| changes.iter().flatten().any(|change| has(change))).count()
        };
        let mut text = format!("{} cells compared", figures().count());
        let blind = count(Verdict::CannotTell);
        if blind > 0 {
            text.push_str(&format!("; of {blind} it cannot be told, with fewer than {ENOUGH} repetitions"));
        }
        let broken = self.cells.iter().filter(|cell| matches!(cell.change, CellChange::FailsNow)).count();
        if broken > 0 {
            text.push_str(&format!("; {broken} fail now"));
        }
        match self.limit {
            Some(limit) => {
                let slow = count(Verdict::TooSlow);
                text.push_str(&format!("; {slow} slower by more than {}% beyond the noise", limit * 100.0));
            }
            None => {
                let (slower, faster) = (count(Verdict::Slower), count(Verdict::Faster));
                text.push_str(&format!("; {slower} slower and {faster} faster beyond the noise"));
            }
        }
        text
    }
}

fn line(id: &str, change: &CellChange, limit: Option<f64>) -> [String; 6] {
    let id = printable(id);
    let say = |words: &str| {
        let blank = String::new;
        [id.clone(), blank(), blank(), words.to_owned(), blank(), blank()]
    };
    match change {
        CellChange::Figures { figure, p99 } => {
            let show = |value| numbers::short(figure.measure.unit, value);
            [
                id,
                format!("{} -> {}", show(figure.first), show(figure.second)),
                ratio(figure),
                verdict(figure, limit),
                p99.as_ref().map(ratio).unwrap_or_default(),
                p99.as_ref().map(|change| verdict(change, limit)).unwrap_or_default(),
            ]
        }
        CellChange::FailsNow => say("FAILS NOW"),
        CellChange::Mended => say("failed before"),
        CellChange::NoFigures => say("no figures"),
        CellChange::Unsupported => say("n/a"),
        CellChange::OtherWork => say("other work under the same id"),
    }
}

fn ratio(change: &Change) -> String {
    match change.interval {
        Some((low, high)) => format!("{:.3} ({low:.3} to {high:.3})", change.ratio),
        None => format!("{:.3}", change.ratio),
    }
}

fn verdict(change: &Change, limit: Option<f64>) -> String {
    let (worse, better) = match change.measure.unit {
        Unit::Microseconds | Unit::Seconds => ("longer", "shorter"),
        Unit::Bytes | Unit::Times => ("larger", "smaller"),
        Unit::PerSecond => ("slower", "faster"),
    };
    match change.verdict(limit) {
        Verdict::CannotTell => "cannot tell".to_owned(),
        Verdict::Same => "same within noise".to_owned(),
        Verdict::Faster => better.to_owned(),
        Verdict::Slower => worse.to_owned(),
        Verdict::TooSlow => worse.to_uppercase(),
    }
}

fn grid(f: &mut fmt::Formatter<'_>, lines: &[[String; 6]]) -> fmt::Result {
    let mut widths = [0; 6];
    for line in lines {
        for (width, field) in widths.iter_mut().zip(line) {
            *width = field.chars().count().max(*width);
        }
    }
    for line in lines {
        let mut text = String::new();
        for (field, width) in line.iter().zip(widths) {
            text.push_str(&format!("{field:<width$}  "));
        }
        writeln!(f, "{}", text.trim_end())?;
    }
    Ok(())
}

/// Text from a file, without what a terminal would take for orders.
fn printable(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { '\u{fffd}' } else { letter }).collect()
}

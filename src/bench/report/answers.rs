//! The questions people come with, answered from the cells that can answer them.

use super::{
    contest::{Contest, contests},
    entry::{Entry, State},
    model::Report,
    questions::{QUESTIONS, Question},
};
use crate::bench::{
    result::numbers,
    result::{
        level::Level,
        measure::Measure,
        spread::{ENOUGH, Spread},
    },
};
use std::collections::BTreeMap;

/// A question and what the runs say to it.
pub struct Answer {
    /// The question.
    pub question: &'static str,
    /// Which workloads count.
    pub scope: &'static str,
    /// An answer for each level; none where nothing was measured that fits.
    pub findings: Vec<Finding>,
}

/// What the cells of one level say.
pub struct Finding {
    /// The level, and the machine where there are several.
    pub level: String,
    /// Who is best, or that nobody is.
    pub headline: String,
    /// By how much, and how certain that is.
    pub reason: String,
    /// The comparisons behind it.
    pub details: Vec<String>,
    /// What a reader must know of the engine in the headline.
    pub caveats: Vec<String>,
}

/// Answers all questions.
pub fn answers(report: &Report<'_>) -> Vec<Answer> {
    let answer = |question: &Question| Answer {
        question: question.text,
        scope: question.scope,
        findings: findings(report, question),
    };
    QUESTIONS.iter().map(answer).collect()
}

fn findings(report: &Report<'_>, question: &Question) -> Vec<Finding> {
    let several = report.entries().any(|entry| entry.group > 0);
    let mut findings = Vec::new();
    for part in parts(report.entries().filter(|entry| !entry.cell.reference && (question.fits)(entry))) {
        let outcomes: Vec<_> = contests(part.iter().copied())
            .into_iter()
            .filter_map(|one| decide(one, question.measure))
            .collect();
        let Some(first) = part.first().filter(|_| !outcomes.is_empty()) else { continue };
        let machine = if several { format!(", run group {}", first.group + 1) } else { String::new() };
        let level = format!("{}{machine}", Level::of(&first.cell.target));
        findings.push(finding(level, &outcomes, question.measure));
    }
    findings
}

/// Cells by level and machine.
fn parts<'r, 'a>(entries: impl Iterator<Item = &'r Entry<'a>>) -> Vec<Vec<&'r Entry<'a>>> {
    let mut parts: Vec<Vec<&Entry<'_>>> = Vec::new();
    for entry in entries {
        let key = |entry: &Entry<'a>| (Level::of(&entry.cell.target), entry.group);
        let same =
            |part: &&mut Vec<&'r Entry<'a>>| part.first().is_some_and(|first| key(first) == key(entry));
        match parts.iter_mut().find(same) {
            Some(part) => part.push(entry),
            None => parts.push(vec![entry]),
        }
    }
    parts
}

/// A contest with a leader.
struct Outcome<'r, 'a> {
    contest: Contest<'r, 'a>,
    leader: Ranked<'r, 'a>,
    next: Option<Ranked<'r, 'a>>,
    verdict: Verdict,
}

#[derive(Clone, Copy)]
struct Ranked<'r, 'a> {
    entry: &'r Entry<'a>,
    spread: Spread,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// The ranges do not overlap.
    Clear,
    /// They do.
    Close,
    /// So few repetitions that a range says nothing.
    Unsure,
    /// Nobody else was measured.
    Alone,
}

/// Ranks the cells of a contest; `None` where none has the figure.
fn decide<'r, 'a>(contest: Contest<'r, 'a>, measure: &Measure) -> Option<Outcome<'r, 'a>> {
    let ranked = |entry: &&'r Entry<'a>| Some(Ranked { entry, spread: entry.spread(measure)? });
    let mut ranking: Vec<_> = contest.entries.iter().filter_map(ranked).collect();
    ranking.sort_by(|a, b| measure.better.order(a.spread.median, b.spread.median));
    let mut places = ranking.iter().copied();
    let leader = places.next()?;
    let others: Vec<_> = places.collect();
    let verdict = if others.is_empty() {
        Verdict::Alone
    } else if ranking.iter().any(|one| one.spread.samples < ENOUGH) {
        Verdict::Unsure
    } else if others.iter().any(|other| other.spread.overlaps(&leader.spread)) {
        Verdict::Close
    } else {
        Verdict::Clear
    };
    Some(Outcome { contest, leader, next: others.first().copied(), verdict })
}

impl Outcome<'_, '_> {
    fn factor(&self) -> f64 {
        let Some(next) = &self.next else { return 1.0 };
        let (one, other) = (self.leader.spread.median, next.spread.median);
        if one > other { one / other } else { other / one }
    }

    /// Cells that would have taken part, had they not failed.
    fn absent(&self) -> String {
        let failed = |entry: &&&Entry<'_>| matches!(entry.state, State::Faulty(_));
        let names: Vec<_> = self.contest.entries.iter().filter(failed).map(|entry| entry.label()).collect();
        if names.is_empty() { String::new() } else { format!(" Failed: {}.", names.join(", ")) }
    }

    fn describe(&self, measure: &Measure) -> String {
        let value = |ranked: &Ranked<'_, '_>| numbers::short(measure.unit, ranked.spread.median);
        let range = |ranked: &Ranked<'_, '_>| {
            let Spread { min, max, .. } = ranked.spread;
            format!("{} to {}", numbers::short(measure.unit, min), numbers::short(measure.unit, max))
        };
        let absent = self.absent();
        let Some(next) = &self.next else {
            let lone = format!("{}, and no other was measured.", value(&self.leader));
            return format!("{lone}{absent}");
        };
        let factor = numbers::digits(self.factor());
        let rival = next.entry.label();
        let figures = format!("{} against {} of {rival}", value(&self.leader), value(next));
        match self.verdict {
            Verdict::Clear => format!("{factor}\u{d7} better than the next: {figures}.{absent}"),
            Verdict::Unsure => format!(
                "{factor}\u{d7} better than the next, by fewer than {ENOUGH} repetitions, so perhaps by chance: {figures}.{absent}"
            ),
            _ => format!(
                "The ranges overlap: {} at {}, {rival} at {}.{absent}",
                self.leader.entry.label(),
                range(&self.leader),
                range(next)
            ),
        }
    }

    fn headline(&self) -> String {
        match self.verdict {
            Verdict::Close => "No clear winner".to_owned(),
            Verdict::Alone => format!("{} only", self.leader.entry.label()),
            Verdict::Clear | Verdict::Unsure => self.leader.entry.label(),
        }
    }
}

fn finding(level: String, outcomes: &[Outcome<'_, '_>], measure: &Measure) -> Finding {
    let details = outcomes
        .iter()
        .map(|one| format!("{}: {}. {}", one.contest.title, one.headline(), one.describe(measure)))
        .collect();
    let (headline, reason) = match outcomes {
        [one] => (one.headline(), format!("{}: {}", one.contest.title, one.describe(measure))),
        several => summary(several),
    };
    let mut caveats = Vec::new();
    let named =
        outcomes.iter().map(|one| one.leader.entry).filter(|entry| headline.starts_with(&entry.label()));
    for caveat in named.flat_map(|entry| &entry.cell.target.caveats) {
        if !caveats.contains(caveat) {
            caveats.push(caveat.clone());
        }
    }
    Finding { level, headline, reason, details, caveats }
}

/// One sentence over several contests. Counting avoids an average over workloads nobody asked for.
fn summary(outcomes: &[Outcome<'_, '_>]) -> (String, String) {
    let mut wins: BTreeMap<String, usize> = BTreeMap::new();
    for outcome in outcomes.iter().filter(|one| matches!(one.verdict, Verdict::Clear | Verdict::Unsure)) {
        *wins.entry(outcome.leader.entry.label()).or_default() += 1;
    }
    let count = |verdict| outcomes.iter().filter(|one| one.verdict == verdict).count();
    let unsure = match count(Verdict::Unsure) {
        0 => String::new(),
        some => format!(" Fewer than {ENOUGH} repetitions in {some}, so perhaps by chance."),
    };
    let all = outcomes.len();
    let factors = Spread::of(outcomes.iter().map(Outcome::factor));
    if let (Some((winner, _)), Some(by)) = (wins.iter().find(|(_, count)| **count == all), factors) {
        let by = format!("{}\u{d7} to {}\u{d7}", numbers::digits(by.min), numbers::digits(by.max));
        return (
            winner.clone(),
            format!("First in each of {all} workloads, {by} better than the next.{unsure}"),
        );
    }
    let mut parts: Vec<_> = wins.iter().map(|(label, wins)| format!("{label} is first in {wins}")).collect();
    for (verdict, words) in
        [(Verdict::Close, "no clear winner in"), (Verdict::Alone, "nothing to compare in")]
    {
        match count(verdict) {
            0 => {}
            some => parts.push(format!("{words} {some}")),
        }
    }
    let headline = match wins.len() {
        0 if count(Verdict::Alone) == all => "Nothing to compare",
        0 if count(Verdict::Close) == all => {
            return ("No clear winner".to_owned(), format!("In none of {all} workloads."));
        }
        0 => "No clear winner",
        _ => "Depends on the workload",
    };
    (headline.to_owned(), format!("Of {all} workloads {}.{unsure}", parts.join(", ")))
}

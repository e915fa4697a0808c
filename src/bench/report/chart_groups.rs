//! Charts of a table of the HTML report, grouped by what they show: results, latency percentiles, throughput over time
//! and so on.

use super::{
    charts::{self, Styles},
    comparison_group::ComparisonGroup,
    measured_cell::Entry,
};
use crate::bench::result::metric::{self, DISK, Metric, SPACE_AMPLIFICATION, THROUGHPUT};

/// Group of charts of one kind in the HTML report, such as "Latency percentiles".
pub struct ChartGroup {
    /// Heading of the group of charts.
    pub title: &'static str,
    /// Explanation of how to read the charts.
    pub about: &'static str,
    /// `true` if the charts need the legend of the stores.
    pub has_legend: bool,
    /// Charts of the group.
    pub charts: Vec<Chart>,
}

/// Chart with its title.
pub struct Chart {
    /// Title of the chart.
    pub title: String,
    /// Chart as an SVG image.
    pub svg: String,
}

type Drawn = Option<Result<String, askama::Error>>;

/// Draws the charts of a table's comparison groups, arranged by kind. Kinds without a chart are left out.
pub fn groups(
    contests: &[ComparisonGroup<'_, '_>],
    styles: &Styles,
) -> Result<Vec<ChartGroup>, askama::Error> {
    let plain = |title: &str| title.to_owned();
    let groups = [
        results(contests, styles)?,
        ChartGroup {
            title: "Latency percentiles",
            about: "Of all repetitions together; the scale is logarithmic.",
            has_legend: true,
            charts: draw(contests, |one| charts::latency(one, styles), plain)?,
        },
        ChartGroup {
            title: "Latency and offered load",
            about: "The 99th percentile at each rate of operations that begin whether or not those before have ended; \
                    the scale of latency is logarithmic. Where a line goes up, the store takes no more.",
            has_legend: true,
            charts: loads(contests, styles)?,
        },
        ChartGroup {
            title: "By kind of operation",
            about: "Where operations are mixed, each kind by itself: operations each second, and latency from the \
                    median to the 99th percentile on a logarithmic scale. Medians of the repetitions.",
            has_legend: false,
            charts: kinds(contests, styles)?,
        },
        ChartGroup {
            title: "Throughput over time",
            about: "Of the repetition with the median throughput. A dip may be a flush, a compaction or a rewrite.",
            has_legend: true,
            charts: draw(contests, |one| charts::timeline(one, styles), plain)?,
        },
        ChartGroup {
            title: "Soak",
            about: "What happened in each second, as means of some seconds. Gauges of the engines are those of \
                    deferred work.",
            has_legend: true,
            charts: soaks(contests, styles)?,
        },
        ChartGroup {
            title: "Size on disk",
            about: "Lower is better.",
            has_legend: false,
            charts: sizes(contests, styles)?,
        },
    ];
    Ok(groups.into_iter().filter(|group| !group.charts.is_empty()).collect())
}

/// Draws a bar chart of the main metric, mostly throughput, for each comparison group.
fn results(contests: &[ComparisonGroup<'_, '_>], styles: &Styles) -> Result<ChartGroup, askama::Error> {
    let measure = |one: &ComparisonGroup<'_, '_>| {
        one.entries.first().map_or(&THROUGHPUT, |entry| metric::of_figure(entry.cell.figure))
    };
    let alike = contests.iter().all(|one| std::ptr::eq(measure(one), &THROUGHPUT));
    let (title, about) = match alike {
        true => (
            "Throughput",
            "Operations each second: the median, and the range of the repetitions as a whisker.",
        ),
        false => ("Results", "Medians, each in its unit, and the range of the repetitions as a whisker."),
    };
    let mut charts = Vec::new();
    for one in contests {
        let measure = measure(one);
        let what = if alike { String::new() } else { format!(": {}", measure.title.to_lowercase()) };
        if let Some(svg) = charts::bars(one, measure, styles).transpose()? {
            charts.push(Chart { title: format!("{}{what}", one.title), svg });
        }
    }
    Ok(ChartGroup { title, about, has_legend: false, charts })
}

fn loads(contests: &[ComparisonGroup<'_, '_>], styles: &Styles) -> Result<Vec<Chart>, askama::Error> {
    let drawn = charts::latency_by_load::of(contests).into_iter();
    let drawn =
        drawn.filter_map(|loads| Some((charts::latency_by_load::chart(&loads, styles)?, loads.title)));
    drawn.map(|(svg, title)| Ok(Chart { title, svg: svg? })).collect()
}

fn kinds(contests: &[ComparisonGroup<'_, '_>], styles: &Styles) -> Result<Vec<Chart>, askama::Error> {
    let mut found = Vec::new();
    for one in contests {
        let both = [
            ("throughput", charts::by_operation::throughput(one, styles)),
            ("latency p50 / p99", charts::by_operation::latency(one, styles)),
        ];
        for (what, svg) in both {
            found.extend(svg.transpose()?.map(|svg| Chart { title: format!("{}: {what}", one.title), svg }));
        }
    }
    Ok(found)
}

fn soaks(contests: &[ComparisonGroup<'_, '_>], styles: &Styles) -> Result<Vec<Chart>, askama::Error> {
    let mut found = Vec::new();
    for one in contests {
        for kind in charts::soak::kinds(one) {
            let svg = charts::soak::chart(one, &kind, styles).transpose()?;
            found.extend(svg.map(|svg| Chart { title: format!("{}: {}", one.title, kind.title), svg }));
        }
    }
    Ok(found)
}

/// Function that returns `true` if a size is shown for this cell: of the cells that share files, only those that
/// measure the size or, without them, the first one.
type Owns = fn(&Entry<'_>) -> bool;

fn sizes(contests: &[ComparisonGroup<'_, '_>], styles: &Styles) -> Result<Vec<Chart>, askama::Error> {
    let measures: [(&'static Metric, Owns); 2] = [
        (&DISK, |entry| entry.shows_size()),
        (&SPACE_AMPLIFICATION, |entry| entry.shows_space_amplification()),
    ];
    let mut found = Vec::new();
    for (measure, owns) in measures {
        let chart = |one: &ComparisonGroup<'_, '_>| {
            let fits = one.entries.iter().any(|entry| owns(entry));
            fits.then(|| charts::bars(one, measure, styles)).flatten()
        };
        found.extend(draw(contests, chart, |title| format!("{}: {title}", measure.title))?);
    }
    Ok(found)
}

fn draw(
    contests: &[ComparisonGroup<'_, '_>],
    chart: impl Fn(&ComparisonGroup<'_, '_>) -> Drawn,
    name: impl Fn(&str) -> String,
) -> Result<Vec<Chart>, askama::Error> {
    let drawn = contests.iter().filter_map(|one| Some((name(&one.title), chart(one)?)));
    drawn.map(|(title, svg)| Ok(Chart { title, svg: svg? })).collect()
}

//! `kvbench stores`: properties and loss bounds of the engines of this build, and the crash tests behind them.

use crate::{
    engine::{DISTRIBUTED, Fsync, Info, Kind, feature, kinds},
    torture::results::Results,
};
use serde::Serialize;
use std::fmt::{self, Write};

/// Returns the properties, loss bounds, crash tests and caveats of each of `stores`, for a terminal.
pub fn details_text(stores: &[&'static Kind]) -> String {
    let mut text = String::new();
    let proved = Results::published();
    for kind in stores {
        // Writing to a String cannot fail.
        let _ = describe_one(kind.info, &proved, &mut text);
    }
    text
}

/// Returns a table of all stores for a terminal: one line for each store and fsync policy, with the loss bounds.
pub fn table_text() -> String {
    let mut rows = vec![[
        "--store".to_owned(),
        "engine".into(),
        "ordered".into(),
        ":memory:".into(),
        "--fsync".into(),
        "a kill loses".into(),
        "a power cut loses".into(),
    ]];
    for info in kinds().chain(DISTRIBUTED).map(|kind| kind.info) {
        let mut head = [
            info.name,
            &info.family.to_string(),
            word(info.capabilities.ordered),
            word(info.capabilities.in_memory),
        ]
        .map(str::to_owned);
        for fsync in Fsync::ALL.into_iter().filter(|fsync| info.supports(*fsync)) {
            let loss = info.loss(fsync);
            let [name, family, ordered, in_memory] = std::mem::take(&mut head);
            let words = [loss.kill.words, loss.power_cut.words].map(str::to_owned);
            let [kill, power_cut] = words;
            rows.push([name, family, ordered, in_memory, fsync.to_string(), kill, power_cut]);
        }
    }
    let widths: [usize; 7] = std::array::from_fn(|column| {
        rows.iter().filter_map(|row| row.get(column)).map(String::len).max().unwrap_or(0)
    });
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}"));
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text + "\nkvbench stores NAME: libraries, settings, crash tests and caveats of a store\n"
}

/// Returns the table of the stores of this build, without those on clusters, as Markdown for the README.
pub fn markdown() -> String {
    let mut text = String::from(
        "| `--store` | | ordered | `:memory:` | `--fsync` | a killed process loses | a power cut loses |\n\
         |---|---|---|---|---|---|---|\n",
    );
    for info in kinds().map(|kind| kind.info) {
        let about = format!("{}: {}", info.family, info.library);
        let mut head = format!(
            "`{}` | {about} | {} | {}",
            info.name,
            word(info.capabilities.ordered),
            word(info.capabilities.in_memory)
        );
        for fsync in Fsync::ALL {
            let loss = info.loss(fsync);
            text.push_str(&format!("| {head} | `{fsync}` | {} | {} |\n", loss.kill, loss.power_cut));
            head = " | | | ".into();
        }
    }
    text
}

/// Facts about an engine as JSON, for scripts.
#[derive(Serialize)]
struct Facts {
    #[serde(flatten)]
    info: &'static Info,
    /// Cargo feature that a build with the engine needs; `None` if it needs none.
    feature: Option<&'static str>,
}

/// Returns the facts about `stores`, or about all stores of this build if it is empty, as a JSON array with one store on
/// each line, so that `sed` can read it too.
///
/// # Errors
///
/// Fails if a fact cannot be written as JSON.
pub fn json(stores: &[&'static Kind]) -> serde_json::Result<String> {
    let mut text = String::from("[");
    let all = kinds().chain(DISTRIBUTED).filter(|_| stores.is_empty());
    for info in all.chain(stores.iter().copied()).map(|kind| kind.info) {
        let separator = if text.len() > 1 { ",\n" } else { "\n" };
        let facts = Facts { info, feature: feature(info.name) };
        text.push_str(&format!("{separator}{}", serde_json::to_string(&facts)?));
    }
    Ok(text + "\n]\n")
}

fn word(yes: bool) -> &'static str {
    if yes { "yes" } else { "no" }
}

fn describe_one(info: &Info, proved: &Results, text: &mut String) -> fmt::Result {
    writeln!(text, "{} - {}, {}", info.name, info.family, info.library)?;
    writeln!(
        text,
        "  ordered scans: {}   :memory: {}",
        word(info.capabilities.ordered),
        word(info.capabilities.in_memory)
    )?;
    let compression: Vec<_> = info.compression.iter().map(ToString::to_string).collect();
    writeln!(
        text,
        "  compression: {}   DBSIZE: {}   writers: {}",
        compression.join(", "),
        count(info),
        info.writers
    )?;
    writeln!(text, "  cache: {}", info.cache)?;
    for fsync in Fsync::ALL.into_iter().filter(|fsync| info.supports(*fsync)) {
        let loss = info.loss(fsync);
        writeln!(
            text,
            "  --fsync {fsync:<9} a kill loses {}; a power cut loses {}",
            loss.kill, loss.power_cut
        )?;
        writeln!(text, "{:19}{}", "", proof(info, fsync, proved))?;
    }
    for caveat in info.caveats {
        writeln!(text, "  * {}", caveat.text)?;
    }
    writeln!(text)
}

fn count(info: &Info) -> &'static str {
    if info.capabilities.constant_count { "known" } else { "scans every key" }
}

/// Returns the numbers of crash-test rounds behind the loss bounds of a store under an fsync policy, as text.
fn proof(info: &Info, fsync: Fsync, proved: &Results) -> String {
    let tried = |mode, strikes| match proved.rounds(info.name, info.storage_format(), fsync.as_str(), mode) {
        0 => format!("no {strikes} tested"),
        1 => format!("1 round of {strikes} without a failure"),
        rounds => format!("{rounds} rounds of {strikes} without a failure"),
    };
    format!("{}, {}", tried("kill", "kills"), tried("power", "power cuts"))
}

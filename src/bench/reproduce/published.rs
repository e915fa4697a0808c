//! Published results, with source, machine and date, as the JSON of a publication has them.

use crate::bench::result::number_format;
use serde::Deserialize;

/// Published results of one publication, with their experiment and source.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Published {
    pub title: String,
    /// Citation of the published results: a README, an article or a paper.
    pub source: String,
    /// Date of publication, as far as it is stated.
    pub date: String,
    /// Description of the published experiment, one sentence for each point.
    pub experiment: Vec<String>,
    /// Differences of kvbench's experiment from the published one, and known problems of the published results.
    pub remarks: Vec<String>,
    /// `true` if the publication states its number of keys.
    pub states_keys: bool,
    /// Layout in which the tables are shown beside the results of kvbench.
    pub layout: Layout,
    pub tables: Vec<Table>,
}

/// Layout of a report: the tables and charts of the publication with this name.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Layout {
    Kvbench,
    KvstoreBench,
    Smallnest,
    Xdag,
    Redb,
    Ycsb,
}

/// Published table of measurements, as it was printed.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Table {
    pub name: String,
    pub machine: String,
    pub unit: String,
    /// Headings of the table's columns with values.
    pub columns: Vec<String>,
    /// Rows of the table: the row name, then the values as they were published; `None` for a missing value.
    pub rows: Vec<Vec<Option<String>>>,
}

impl Published {
    /// Returns the names of the publication's stores that are not among `ours`, each once.
    pub fn absent(&self, ours: &[&str]) -> Vec<String> {
        let absent = self.tables.iter().flat_map(Table::stores).filter(|store| !ours.contains(store));
        number_format::distinct(absent.map(str::to_owned))
    }
}

impl Table {
    /// Returns the published value in a row and a column, as it was printed; `None` if there is none.
    pub fn figure(&self, row: &str, column: &str) -> Option<&str> {
        let place = self.columns.iter().position(|name| name == column)?;
        let row =
            self.rows.iter().find(|found| found.first().is_some_and(|name| name.as_deref() == Some(row)))?;
        row.get(place + 1)?.as_deref()
    }

    /// Returns the names of the table's rows.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.rows.iter().filter_map(|row| row.first()?.as_deref())
    }

    /// Returns the stores of the table: the first part of row names that have parts or are names of Go benchmarks,
    /// otherwise the column headings.
    fn stores(&self) -> Vec<&str> {
        let of_row = |name: &str| name.contains(" | ") || name.contains("DB");
        if !self.names().any(of_row) {
            let is_store =
                |name: &&String| !matches!(name.as_str(), "XDAG" | "operations" | "choice of records");
            return self.columns.iter().filter(is_store).map(String::as_str).collect();
        }
        self.names()
            .filter_map(|name| {
                let end = name.find(" | ").or_else(|| name.find("DB").map(|place| place + 2))?;
                name.get(..end)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::plan::{options::Suite, suites};

    fn facts(publication: &Suite) -> Published {
        serde_json::from_str(publication.published.unwrap()).unwrap()
    }

    fn facts_of(name: &str) -> Published {
        facts(suites::find(&format!("reproduce-{name}")).unwrap())
    }

    /// Each publication has a title, a source, a date and tables. Each table has a machine, a unit, and rows with
    /// unique names and one value or gap for each column.
    #[test]
    fn every_table_is_whole_and_has_its_source() {
        for publication in suites::publications() {
            let facts = facts(publication);
            let texts = [&facts.title, &facts.source, &facts.date];
            assert!(texts.iter().all(|text| !text.is_empty()), "{}", publication.name);
            assert!(!facts.tables.is_empty(), "{}", publication.name);
            for table in &facts.tables {
                assert!(!table.machine.is_empty() && !table.unit.is_empty(), "{}", table.name);
                assert!(table.rows.iter().all(|row| row.len() == table.columns.len() + 1), "{}", table.name);
                let mut names: Vec<_> = table.names().collect();
                names.sort_unstable();
                names.dedup();
                assert_eq!(names.len(), table.rows.len(), "{}: a row stands twice", table.name);
            }
        }
    }

    /// Compares one value of each publication with the original.
    #[test]
    fn published_values_match_the_originals() {
        let figure = |publication, table: usize, row: &str, column: &str| {
            facts_of(publication).tables[table].figure(row, column).map(str::to_owned)
        };
        let kvbench = figure("kvbench", 0, "redis | 256 | 256 | no | no", "SET/sec");
        assert_eq!(kvbench.as_deref(), Some("690607"));
        let nuts = figure("kvstore-bench", 0, "NutsDBGet", "ns/op");
        assert_eq!(nuts.as_deref(), Some("781"));
        assert_eq!(figure("smallnest", 6, "set", "rocksdb").as_deref(), Some("52700"));
        assert_eq!(figure("xdag", 0, "get", "XDAG").as_deref(), Some("13905"));
        assert_eq!(figure("xdag", 0, "set", "XDAG"), None);
        assert_eq!(figure("redb", 0, "removals", "rocksdb").as_deref(), Some("6900ms"));
        assert_eq!(figure("ycsb", 0, "b", "operations").as_deref(), Some("95% read, 5% update"));
    }

    /// "time" in smallnest's tables is 1e9 / throughput / threads, in XDAG's tables 1e9 / throughput. Two of
    /// XDAG's values do not follow from its throughputs; they are kept as they were published.
    #[test]
    fn published_times_follow_from_published_throughputs() {
        let strange = |publication, threads: fn(&str, &str) -> f64| {
            let facts = facts_of(publication);
            let mut strange = Vec::new();
            for pair in facts.tables.chunks(2) {
                for (row, column) in
                    pair[0].names().flat_map(|row| pair[0].columns.iter().map(move |c| (row, c)))
                {
                    let number = |table: &Table| table.figure(row, column)?.parse::<f64>().ok();
                    let (Some(rate), Some(time)) = (number(&pair[0]), number(&pair[1])) else { continue };
                    let expected = 1e9 / rate / threads(&pair[0].name, row);
                    if rate > 0.0 && (time - expected).abs() > 1.0 + 0.02 * expected {
                        strange.push(format!("{}, {row}, {column}", pair[0].name));
                    }
                }
            }
            strange
        };
        let threads = |table: &str, row: &str| match (row, table.starts_with("hard disk")) {
            ("setmixed", _) => 1.0,
            (_, true) => 40.0,
            (_, false) => 20.0,
        };
        assert_eq!(strange("smallnest", threads), [""; 0]);
        let desktop = "desktop #1, 154,696 key-values, throughputs";
        let known = [format!("{desktop}, set, lmdb"), format!("{desktop}, setmixed, rocksdb")];
        assert_eq!(strange("xdag", |_, _| 1.0), known);
    }
}

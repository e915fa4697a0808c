//! README's verdicts are those of the report in docs/reference.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

fn file(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Each line names the stores that may be the best, with their memory, size on disk and times to reopen in brackets, then
/// others with their ratio to the best: `lmdb` (67 MiB, 64 MiB, 42 ms, after a kill 1.2 s); `redb` 0.46.
#[test]
fn the_verdicts_of_readme_are_those_of_the_reference_report() {
    let (readme, report) = (file("README.md"), file("docs/reference/report/report.md"));
    let verdicts: Vec<_> = readme.lines().filter_map(|line| line.strip_prefix("- **")).collect();
    assert!(verdicts.len() >= 5, "README names the best stores of five scenarios or more: {verdicts:?}");
    for line in verdicts {
        let (title, stores) = line.split_once("**").unwrap();
        let ranking = report.split_once(&format!("### {title}\n")).expect(title).1;
        let ranking = ranking.split("\n#").next().unwrap();
        let mut rows = ranking.lines().map(|row| row.split('|').map(str::trim).collect::<Vec<_>>());
        let header = rows.find(|row| row.len() > 2).expect("a table");
        let rows: BTreeMap<_, _> = rows.filter(|row| row.len() > 2).map(|row| (row[1], row)).collect();
        let column = |store: &str, title: &str| {
            header.iter().position(|column| *column == title).map(|column| rows[store][column])
        };
        let price = |store: &str| {
            let columns = ["Memory", "Disk", "Reopens in", "Recovers in"].into_iter().filter_map(|title| {
                let value = column(store, title).filter(|value| !value.is_empty())?;
                Some(if title == "Recovers in" { format!("after a kill {value}") } else { value.to_owned() })
            });
            columns.collect::<Vec<_>>().join(", ")
        };
        let mut named = BTreeSet::new();
        for pair in stores.split('`').skip(1).collect::<Vec<_>>().chunks(2) {
            let [store, after] = *pair else { panic!("{line}") };
            let claimed = after.split_whitespace().next().map(|word| word.trim_end_matches([',', ';', '.']));
            match claimed.filter(|claimed| claimed.parse::<f64>().is_ok()) {
                Some(_) => assert_eq!(rows[store][2].split(' ').next(), claimed, "{title}: {store}"),
                None => {
                    assert!(named.insert(store), "{title}: {store} twice");
                    assert!(after.starts_with(&format!(" ({})", price(store))), "{title}: {store}{after}");
                }
            }
        }
        let may_be_best = |ratio: &str| ratio.starts_with(['*', '?', '\u{2248}']);
        let best = rows.iter().filter(|(_, row)| may_be_best(row[2])).map(|(store, _)| *store);
        assert_eq!(named, best.collect(), "{title}: the stores that may be the best");
    }
}

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

/// Each line names the stores that may be the best, then others with their ratio to the best: `lmdb` 0.46.
#[test]
fn the_verdicts_of_readme_are_those_of_the_reference_report() {
    let (readme, report) = (file("README.md"), file("docs/reference/report/report.md"));
    let verdicts: Vec<_> = readme.lines().filter_map(|line| line.strip_prefix("- **")).collect();
    assert!(verdicts.len() >= 5, "README names the best stores of five scenarios or more: {verdicts:?}");
    for line in verdicts {
        let (title, stores) = line.split_once("**").unwrap();
        let ranking = report.split_once(&format!("### {title}\n")).expect(title).1;
        let ranking = ranking.split("\n#").next().unwrap();
        let rows = ranking.lines().map(|row| row.split('|').map(str::trim).collect::<Vec<_>>());
        let ratios: BTreeMap<_, _> =
            rows.filter(|row| row.len() > 2).map(|row| (row[1].to_owned(), row[2].to_owned())).collect();
        let mut named = BTreeSet::new();
        for pair in stores.split('`').skip(1).collect::<Vec<_>>().chunks(2) {
            let [store, after] = *pair else { panic!("{line}") };
            let claimed = after.split_whitespace().next().map(|word| word.trim_end_matches([',', ';', '.']));
            match claimed.filter(|claimed| claimed.parse::<f64>().is_ok()) {
                Some(_) => assert_eq!(ratios[store].split(' ').next(), claimed, "{title}: {store}"),
                None => assert!(named.insert(store), "{title}: {store} twice"),
            }
        }
        let may_be_best = |ratio: &str| ratio.starts_with(['*', '?', '\u{2248}']);
        let best = ratios.iter().filter(|(_, ratio)| may_be_best(ratio)).map(|(store, _)| store.as_str());
        assert_eq!(named, best.collect(), "{title}: the stores that may be the best");
    }
}

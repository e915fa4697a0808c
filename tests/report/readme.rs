//! README's verdicts are those of the report in docs/reference.

use std::{fs, path::Path};

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
        let ratio_of = |store: &str| {
            let row = ranking.lines().find(|row| row.starts_with(&format!("| {store} ")));
            row.unwrap_or_else(|| panic!("{title}: {store}")).split('|').nth(2).unwrap().trim().to_owned()
        };
        let words: Vec<_> = stores.split('`').collect();
        let mut best = 0;
        for pair in words[1..].chunks(2) {
            let (store, after) = (pair[0], pair[1]);
            let claimed = after.split_whitespace().next().map(|word| word.trim_end_matches([',', ';', '.']));
            let ratio = ratio_of(store);
            if claimed.is_some_and(|claimed| claimed.parse::<f64>().is_ok()) {
                assert_eq!(ratio.split(' ').next(), claimed, "{title}: {store}");
            } else {
                assert!(ratio.starts_with(['*', '?', '\u{2248}']), "{title}: {store} has {ratio}");
                best += 1;
            }
        }
        let all = ranking.lines().filter(|row| row.starts_with('|'));
        let marked = |row: &&str| {
            row.split('|').nth(2).is_some_and(|cell| cell.trim().starts_with(['*', '?', '\u{2248}']))
        };
        assert_eq!(best, all.filter(marked).count(), "{title}: each store that may be the best is named");
    }
}

//! `--help`, `kvbench stores`, and arguments that make no sense.

use crate::{
    program::{misuse, run},
    support::stores,
};
use kvbench::engine::{Fsync, Kind, Status, feature};

const FLAGS: [&str; 32] = [
    "--store",
    "--path",
    "--fsync",
    "--max-unsynced",
    "--cache-size",
    "--map-size",
    "--compression",
    "--port",
    "--bind",
    "--unixsocket",
    "--unixsocket-perm",
    "--maxclients",
    "--tcp-backlog",
    "--tcp-keepalive",
    "--timeout",
    "--client-query-buffer-limit",
    "--client-output-buffer-limit",
    "--shutdown-timeout",
    "--requirepass",
    "--password-file",
    "--protected-mode",
    "--disable-command",
    "--tls-port",
    "--tls-cert",
    "--tls-key",
    "--tls-ca",
    "--tls-auth-clients",
    "--threads",
    "--log-level",
    "--log-format",
    "--metrics",
    "--config",
];

pub(crate) fn output(args: &[&str]) -> String {
    let dir = tempfile::tempdir().unwrap();
    let ended = run(dir.path(), args);
    assert!(ended.status.success(), "{args:?}: {}", ended.stderr);
    assert_eq!(ended.stderr, "");
    ended.stdout
}

#[test]
fn help_has_every_flag_under_a_heading_and_ends_with_examples() {
    for args in [&["--help"][..], &["serve", "--help"]] {
        let help = output(args);
        let heading = |name| help.find(&format!("\n{name}:\n")).unwrap_or_else(|| panic!("{help}"));
        let order = ["Store", "Network", "Access", "Process", "Examples"].map(heading);
        assert!(order.is_sorted(), "{help}");
        let store = order[0];
        for flag in FLAGS {
            let at = help.find(&format!("{flag} <")).unwrap_or_else(|| panic!("{args:?}: no {flag}"));
            assert!(at > store, "{args:?}: {flag} is under no heading");
        }
    }
}

/// An example that no longer works is worse than none.
#[test]
fn the_examples_of_the_help_are_accepted() {
    let help = output(&["--help"]);
    let examples = help.lines().filter_map(|line| line.strip_prefix("  kvbench"));
    let mut count = 0;
    for example in examples {
        // Two spaces part the command from what it does.
        let command = example.split("  ").next().unwrap_or_default();
        let args: Vec<_> = command.split_whitespace().collect();
        if !args.iter().skip_while(|arg| **arg != "--store").nth(1).is_none_or(|s| stores().any(|o| o == *s))
        {
            continue;
        }
        // Parsed, then ended by `--version`, which a bad argument before it does not let through.
        output(&[&args[..], &["--help"]].concat());
        count += 1;
    }
    assert!(count >= 3, "{help}");
}

#[test]
fn version_is_that_of_the_package() {
    assert_eq!(output(&["--version"]), concat!("kvbench ", env!("CARGO_PKG_VERSION"), "\n"));
}

#[test]
fn stores_describes_each_named_store_in_full() {
    let text = output(&[&["stores"], &stores().collect::<Vec<_>>()[..]].concat());
    let sections: Vec<_> = text.split_terminator("\n\n").collect();
    assert_eq!(sections.len(), stores().count());
    for (section, store) in sections.iter().zip(stores()) {
        let info = Kind::find(store).unwrap().info;
        assert!(section.starts_with(&format!("{store} - ")) && section.contains(info.library), "{section}");
        assert!(section.contains(info.cache), "{section}");
        for fsync in Fsync::ALL {
            let loss = info.loss(fsync);
            let line = section.lines().find(|line| line.trim().starts_with(&format!("--fsync {fsync} ")));
            let line = line.unwrap_or_else(|| panic!("{store} says nothing about {fsync}"));
            assert!(line.contains(loss.kill.words) && line.contains(loss.power_cut.words), "{line}");
        }
        // Crash tests of experimental stores are not published.
        let is_tested = info.status != Status::Experimental;
        let proof = section.lines().find(|line| line.contains(" rounds of kills without a failure, "));
        assert!(
            !is_tested || proof.is_some_and(|line| line.ends_with(" rounds of power cuts without a failure")),
            "{section}"
        );
        for caveat in info.caveats {
            assert!(section.contains(caveat.text), "{store}: {}", caveat.text);
        }
    }
}

/// The facts of README's table, which `kvbench stores --markdown` prints.
#[test]
fn stores_prints_a_table_with_the_losses_of_each_fsync_policy() {
    let text = output(&["stores"]);
    let header = text.lines().next().unwrap();
    let columns: Vec<_> = ["--store", "ordered", ":memory:", "--fsync", "a kill loses", "a power cut loses"]
        .map(|title| header.find(title).unwrap_or_else(|| panic!("{header}")))
        .into();
    assert!(columns.is_sorted());
    let mut rows = text.lines().skip(1);
    for store in stores() {
        let info = Kind::find(store).unwrap().info;
        for fsync in Fsync::ALL {
            let row = rows.next().unwrap();
            let cell =
                |column: usize| row.get(columns[column]..).unwrap_or_default().split("  ").next().unwrap();
            let is_first = fsync == Fsync::Always;
            assert_eq!(cell(0), if is_first { store } else { "" }, "{row}");
            assert_eq!(
                cell(1),
                if !is_first {
                    ""
                } else if info.capabilities.ordered {
                    "yes"
                } else {
                    "no"
                },
                "{row}"
            );
            assert_eq!(cell(3), fsync.as_str(), "{row}");
            assert_eq!((cell(4), cell(5)), (info.loss(fsync).kill.words, info.loss(fsync).power_cut.words));
        }
    }
    assert!(text.lines().last().unwrap().contains("kvbench stores NAME"), "{text}");
    assert!(misuse(&["stores", "oracle"]).contains("oracle"));
}

#[test]
fn facts_are_those_of_the_named_stores() {
    let named = |args: &[&str]| -> Vec<String> {
        let text = output(&[&["stores", "--json"], args].concat());
        let facts: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap();
        facts.iter().map(|facts| facts["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(named(&["btree"]), ["btree"]);
    assert_eq!(named(&["btree", "map"]), ["btree", "map"]);
    assert!(stores().all(|store| named(&[]).iter().any(|name| name == store)));
    assert!(misuse(&["stores", "--json", "oracle"]).contains("oracle"));
}

/// Flags at the start of a line of a help text.
fn flags(help: &str) -> Vec<&str> {
    // Text that a narrow terminal wraps is indented further.
    let starts = |line: &str| ["  -", "      --"].iter().any(|start| line.starts_with(start));
    let flags = help.lines().filter(|line| starts(line)).filter_map(|line| line.split("--").nth(1));
    flags
        .map(|flag| flag.split([' ', '=']).next().unwrap())
        .filter(|flag| !["help", "version"].contains(flag))
        .collect()
}

#[test]
fn short_help_shows_ten_flags_and_leads_to_the_long_one() {
    for (args, shown) in [
        (&["-h"][..], ["store", "path", "fsync", "port", "cache-size", "config"]),
        (&["serve", "-h"], ["store", "path", "fsync", "port", "cache-size", "config"]),
        (&["bench", "-h"], ["suite", "mix", "stores", "fsync", "quick", "output"]),
    ] {
        let help = output(args);
        let flags = flags(&help);
        assert!(flags.len() <= 10, "{args:?}: {flags:?}");
        assert!(shown.iter().all(|flag| flags.contains(flag)), "{args:?}: {flags:?}");
        assert!(help.contains("[default: ") && help.contains("--help"), "{help}");
        assert!(help.lines().count() <= 70, "{args:?}: {} lines", help.lines().count());
        let long = output(&[&args[..args.len() - 1], &["--help"]].concat());
        assert!(self::flags(&long).len() > 30 && long.lines().count() > 2 * help.lines().count());
    }
    let help = output(&["bench", "-h"]);
    for suite in kvbench::bench::plan::suites::bench_suites() {
        assert_eq!(help.matches(&format!("\n  {:<10} ", suite.name)).count(), 1, "{}: {help}", suite.name);
    }
}

#[test]
fn workloads_of_a_suite_are_chosen_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let plan = |args: &str| {
        let args = format!("bench --dry-run --stores btree --fsync no --keys 1k {args}");
        run(dir.path(), &args.split_whitespace().collect::<Vec<_>>())
    };
    let rows = |args: &str| {
        let ended = plan(args);
        assert!(ended.status.success(), "{args}: {}", ended.stderr);
        let is_planned = |row: &&str| {
            ended.stdout.contains(&format!("/{row}\n")) || ended.stdout.contains(&format!("/{row} "))
        };
        ["load", "a", "b", "c", "d", "e", "f"].into_iter().filter(is_planned).collect::<Vec<_>>()
    };
    assert_eq!(rows("--suite ycsb").len(), 7);
    assert_eq!(rows("--suite ycsb --workloads b,c"), ["b", "c"]);
    assert_eq!(rows("--suite ycsb --workloads YCSB-E"), ["e"]);
    for (args, told) in [
        ("--suite ycsb --workloads b,x", "--workloads x: --suite ycsb has load, a, b, c, d, e, f"),
        ("--suite redb --workloads len", "leave --workloads out"),
        ("--workloads b", "--suite"),
        ("--workloads b --mix get=1", "--workloads names workloads of a suite; add --suite ycsb"),
        ("--workloads b --find-rate p99<5ms", "--workloads names workloads of a suite; add --suite ycsb"),
    ] {
        let ended = plan(args);
        assert!(!ended.status.success() && ended.stderr.contains(told), "{args}: {}", ended.stderr);
    }
}

#[test]
fn arguments_that_make_no_sense_are_named() {
    for (args, named) in [
        (&["--no-such-flag"][..], "--no-such-flag"),
        (&["no-such-command"], "no-such-command"),
        (&["--store", "oracle"], "--store"),
        (&["--fsync", "sometimes"], "--fsync"),
        (&["--cache-size", "much"], "--cache-size"),
        (&["--map-size", "12 parsecs"], "--map-size"),
        (&["--compression", "zip"], "--compression"),
        (&["--threads", "0"], "--threads"),
        (&["--log-level", "loud"], "--log-level"),
        (&["--port", "0", "stores"], "--port"),
    ] {
        let said = misuse(args);
        assert!(said.contains(named), "{args:?}: {said}");
    }
    assert!(stores().all(|store| misuse(&["--store", "oracle"]).contains(store)), "names the stores");
}

#[test]
fn the_list_of_commands_is_that_of_the_program() {
    let listed = output(&["commands"]);
    assert!(listed == include_str!("../../docs/commands.md"), "stale: kvbench commands > docs/commands.md");
    for spec in kvbench::command::table() {
        let row = format!("| `{}` |", spec.name.to_ascii_uppercase());
        assert!(listed.contains(&row) && listed.contains(spec.summary), "{row}");
    }
}

/// README's table has the stores of the default build, each with the lines of all its policies.
#[test]
fn the_readme_says_what_the_stores_promise() {
    let readme = include_str!("../../README.md");
    let table = output(&["stores", "--markdown"]);
    let stores: Vec<_> = table.split("\n| `").skip(1).collect();
    assert!(stores.len() >= 3, "{table}");
    let head = table.split("\n| `").next().unwrap();
    assert!(readme.contains(head), "README has another head than `kvbench stores --markdown`: {head}");
    let rows = readme.split(head).nth(1).unwrap().lines().skip(1).take_while(|line| line.starts_with('|'));
    for row in rows.filter(|line| line.starts_with("| `")) {
        let name = row.split('`').nth(1).unwrap();
        assert!(
            Kind::find(name).is_some() || feature(name).is_some(),
            "README has {name}, which is no store"
        );
    }
    for lines in stores {
        let name = lines.split('`').next().unwrap();
        if Kind::find(name).unwrap().info.status == Status::Stable {
            let lines = format!("\n| `{}\n", lines.trim_end());
            assert!(
                readme.contains(&lines),
                "README lacks this output of `kvbench stores --markdown`: {lines}"
            );
        }
    }
}

/// Whoever does not know the names of the publications finds them, and the command to go on with.
#[test]
fn reproduce_without_a_publication_lists_them() {
    let said = misuse(&["reproduce"]);
    for line in [
        "\n  redb          The table of redb's README\n",
        "\n  ycsb          YCSB's core workloads over 20 GB\n",
    ] {
        assert!(said.contains(line), "{said}");
    }
    assert!(said.ends_with("\nTo go on: kvbench reproduce redb --quick\n"), "{said}");
    assert_eq!(said.lines().count(), 8, "{said}");
    assert_eq!(misuse(&["reproduce", "--quick"]), said);
}

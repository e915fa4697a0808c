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
fn stores_lists_every_engine_with_what_each_fsync_word_loses() {
    let text = output(&["stores"]);
    let sections: Vec<_> = text.split_terminator("\n\n").collect();
    assert_eq!(sections.len(), stores().count() + kvbench::engine::DISTRIBUTED.len());
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
        let proof = section.lines().find(|line| line.contains(" rounds of kills without a fault, "));
        assert!(
            proof.is_some_and(|line| line.ends_with(" rounds of power cuts without a fault")),
            "{section}"
        );
        for caveat in info.caveats {
            assert!(section.contains(caveat.text), "{store}: {}", caveat.text);
        }
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

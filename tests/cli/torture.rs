//! `kvbench torture`: flags and files that it refuses before it tests anything.

use crate::{
    program::{misuse, misuse_in},
    support::{KVBENCH, wait_until},
};
use kvbench::{engine::DISTRIBUTED, testing::engine_case::names};
use std::fs;

#[test]
fn flags_about_another_program_are_refused_without_one() {
    for flags in [["--promise", "tail"], ["--name", "other"]] {
        for store in [&[][..], &["--store", "map"], &["--fsync", "no"]] {
            let said = misuse(&[&["torture"], store, &flags].concat());
            assert!(said.contains(flags[0]), "{store:?} {flags:?}: {said}");
        }
    }
}

#[test]
fn flags_that_would_be_ignored_are_refused() {
    for (flags, told) in [
        (&["--cut", "drop"][..], "--cut has no effect with --mode kill; add --mode power, full or eio"),
        (&["--mode", "kill", "--cut", "pages,torn"], "--cut has no effect"),
        (&["--table", "results.json", "--rounds", "2"], "'--table <FILE>' cannot be used"),
        (&["--table", "results.json", "--store", "map"], "'--table <FILE>' cannot be used"),
        (&["--table", "results.json", "--mode", "power"], "'--table <FILE>' cannot be used"),
    ] {
        let said = misuse(&[&["torture"], flags].concat());
        assert!(said.contains(told), "{flags:?}: {said}");
    }
}

#[test]
fn a_store_on_other_machines_is_refused() {
    for kind in DISTRIBUTED {
        let name = kind.info.name;
        let said = misuse(&["torture", "--store", &format!("map,{name}")]);
        assert!(said.contains(&format!("--store {name} cannot be tested")), "{said}");
    }
}

#[test]
fn a_program_without_a_place_for_its_port_or_directory_is_refused() {
    for (arguments, missing) in
        [(&["--dir", "{dir}"][..], "{port}"), (&["--port={port}"], "{dir}"), (&[], "{port}")]
    {
        let said = misuse(&[&["torture", "--rounds", "1", "--", "true"], arguments].concat());
        assert!(said.contains(&format!("true needs an argument with {missing}")), "{arguments:?}: {said}");
        assert!(said.contains("-- redis-server --port {port} --dir {dir}"), "{arguments:?}: {said}");
    }
}

/// Exit code 1 would say that a write was lost.
#[test]
fn a_program_that_does_not_start_is_no_failed_round() {
    for (program, told) in [("/nosuch", "cannot start /nosuch"), ("true", "the server does not start")] {
        let dir = tempfile::tempdir().unwrap();
        let said = misuse_in(dir.path(), &["torture", "--rounds", "1", "--", program, "{port}", "{dir}"]);
        assert!(said.contains(told) && said.contains("the test could not be run"), "{said}");
        let log = said.trim().rsplit(' ').next().unwrap();
        assert!(log.ends_with("server.log") && fs::exists(log).unwrap(), "{said}");
    }
}

/// A kill of the script would not be one of the server.
#[test]
fn a_server_that_a_script_starts_without_exec_is_refused_and_ends() {
    let dir = tempfile::tempdir().unwrap();
    let script = format!("{KVBENCH} --port {{port}} --path {{dir}}/data; true");
    let said = misuse_in(dir.path(), &["torture", "--rounds", "1", "--", "sh", "-c", &script]);
    let (_, rest) = said.split_once("another process (").unwrap_or_else(|| panic!("{said}"));
    let (server, rest) = rest.split_once(") answers at the port").unwrap();
    assert!(rest.contains("let it `exec` the server"), "{said}");
    let command_line = format!("/proc/{server}/cmdline");
    // Empty for a process that has ended and was not waited for.
    wait_until("the server goes on", || fs::read(&command_line).unwrap_or_default().is_empty());
}

#[test]
fn a_file_at_dir_is_named_with_its_flag() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("data.db"), "").unwrap();
    let said = misuse_in(dir.path(), &["torture", "--dir", "data.db"]);
    assert!(said.contains("cannot use data.db: ") && said.contains("--dir can name another place"), "{said}");
}

#[test]
fn a_result_file_that_cannot_be_used_is_found_before_the_first_round() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("letter"), "Dear reader,\n").unwrap();
    for (flag, file, told) in [
        ("--table", "none.json", "No such file"),
        ("--table", "letter", "not a result of kvbench torture"),
        ("--output", "letter", "not a result of kvbench torture"),
        ("--output", "none/results.json", "No such file"),
        ("--output", ".", "directory"),
    ] {
        let said = misuse_in(dir.path(), &["torture", flag, file]);
        assert!(said.contains(file) && said.contains(told), "{flag} {file}: {said}");
    }
    assert_eq!(names(dir.path()), ["letter"]);
}

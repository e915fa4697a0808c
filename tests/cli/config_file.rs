//! `--config FILE`.

use crate::program::{misuse_in, serve, setting};
use std::fs;

#[test]
fn flags_come_from_a_file_and_those_of_the_command_line_win() {
    let dir = tempfile::tempdir().unwrap();
    let file = "# A remark.\nstore btree\n\npath \":memory:\"\n  maxclients   77\n--timeout 30\ndisable-command FLUSHDB\n";
    fs::write(dir.path().join("kvbench.conf"), file).unwrap();
    for words in [&["--config", "kvbench.conf"][..], &["serve", "--config=kvbench.conf"]] {
        let server =
            serve(dir.path(), &[words, &["--maxclients", "33", "--disable-command", "debug"]].concat());
        let mut client = server.connect();
        for (name, value) in
            [("store", "btree"), ("path", ":memory:"), ("maxclients", "33"), ("timeout", "30")]
        {
            assert_eq!(setting(&mut client, name), value, "{name}");
        }
        for command in ["FLUSHDB", "DEBUG"] {
            let reply = format!("{:?}", client.call(&[command, "settle"]));
            assert!(reply.contains("unknown command"), "both flags count: {reply}");
        }
    }
}

#[test]
fn what_is_wrong_in_a_file_is_told_with_its_line() {
    let dir = tempfile::tempdir().unwrap();
    for (file, told) in [
        ("store map\nnosuch 1\n", "kvbench.conf:2: there is no flag --nosuch"),
        ("\n\nstore oracle\n", "kvbench.conf:3: invalid value 'oracle' for '--store"),
        ("port 65536\n", "kvbench.conf:1: invalid value '65536' for '--port"),
        ("threads\n", "kvbench.conf:1: threads has no value"),
        ("config other.conf\n", "kvbench.conf:1: a file names no other"),
        ("tls-port 0\n", "--tls-cert"),
    ] {
        fs::write(dir.path().join("kvbench.conf"), file).unwrap();
        let said = misuse_in(dir.path(), &["--config", "kvbench.conf"]);
        assert!(said.contains(told), "{file:?}: {said}");
    }
    let said = misuse_in(dir.path(), &["--config", "none.conf"]);
    assert!(said.contains("--config none.conf"), "{said}");
}

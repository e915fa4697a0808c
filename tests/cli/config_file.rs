//! `--config FILE`.

use crate::program::{misuse_in, serve, setting};
use redis_protocol::resp2::types::OwnedFrame;
use std::{fs, os::unix::fs::PermissionsExt};

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
fn a_line_that_excludes_a_flag_of_the_command_line_is_ignored() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("kvbench.conf"), "requirepass file\npath data\n").unwrap();
    fs::write(dir.path().join("p"), "line\n").unwrap();
    fs::set_permissions(dir.path().join("p"), fs::Permissions::from_mode(0o600)).unwrap();
    let server = serve(dir.path(), &["--config", "kvbench.conf", "--password-file", "p"]);
    let mut client = server.connect();
    assert!(matches!(client.call(&["AUTH", "file"]), OwnedFrame::Error(_)));
    assert_eq!(client.call(&["AUTH", "line"]), OwnedFrame::SimpleString(b"OK".into()));
    assert_eq!(setting(&mut client, "path"), "data", "the other lines count");
}

#[test]
fn of_several_config_flags_the_last_is_read_and_rewritten() {
    let dir = tempfile::tempdir().unwrap();
    let read = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
    fs::write(dir.path().join("first"), "store map\ntimeout 1\n").unwrap();
    fs::write(dir.path().join("second"), "store btree\ntimeout 2\n").unwrap();
    let server = serve(dir.path(), &["--config", "first", "--config=second"]);
    let mut client = server.connect();
    assert_eq!(
        (setting(&mut client, "store"), setting(&mut client, "timeout")),
        ("btree".into(), "2".into())
    );
    client.call(&["CONFIG", "SET", "timeout", "3"]);
    assert_eq!(client.call(&["CONFIG", "REWRITE"]), OwnedFrame::SimpleString(b"OK".into()));
    assert_eq!(read("first"), "store map\ntimeout 1\n");
    assert_eq!(read("second"), "store btree\ntimeout 3\n");
}

#[test]
fn what_is_wrong_in_a_file_is_told_with_its_line() {
    let dir = tempfile::tempdir().unwrap();
    for (file, told) in [
        ("store map\nnosuch 1\n", "kvbench.conf:2: there is no flag --nosuch"),
        ("\n\nstore oracle\n", "kvbench.conf:3: invalid value 'oracle' for '--store"),
        ("port 65536\n", "kvbench.conf:1: invalid value '65536' for '--port"),
        ("threads\n", "kvbench.conf:1: threads has no value"),
        ("config other.conf\n", "kvbench.conf:1: a config file cannot name another one"),
        ("requirepass x\npassword-file p\n", "kvbench.conf:2: --password-file"),
        ("cache-size 0\n", "kvbench.conf:1: invalid value '0' for '--cache-size <SIZE>': it must be"),
        (
            "store map\nfsync sometimes\n",
            "kvbench.conf:2: invalid value 'sometimes' for '--fsync <FSYNC>' [possible values: always, everysec, no]\n",
        ),
        ("tls-port 0\n", "kvbench.conf:1: --tls-port needs --tls-cert <FILE> and --tls-key <FILE>"),
        ("timeout 1\nunixsocket-perm 700\n", "kvbench.conf:2: --unixsocket-perm needs --unixsocket <PATH>"),
        ("compression lz4\n", "--config kvbench.conf: --compression lz4 does not work with --store map"),
    ] {
        fs::write(dir.path().join("kvbench.conf"), file).unwrap();
        let said = misuse_in(dir.path(), &["--config", "kvbench.conf"]);
        assert!(said.contains(told), "{file:?}: {said}");
    }
    let said = misuse_in(dir.path(), &["--config", "none.conf"]);
    assert!(said.contains("--config none.conf"), "{said}");
}

#[test]
fn config_rewrite_changes_what_was_set_and_keeps_the_rest() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("kvbench.conf");
    let file = "# A remark.\nstore btree\n\n--fsync  always\n# Another.\ncache-size 64MiB\ntimeout 30\nfsync always\n";
    fs::write(&path, file).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    let server = serve(dir.path(), &["--config", "kvbench.conf"]);
    let mut client = server.connect();
    assert_eq!(client.call(&["CONFIG", "REWRITE"]), OwnedFrame::SimpleString(b"OK".into()));
    assert_eq!(fs::read_to_string(&path).unwrap(), file, "nothing was set");
    for (name, value) in [
        ("appendfsync", "everysec"),
        ("client-output-buffer-limit", "normal 1mb 0 0"),
        ("latency-monitor-threshold", "25"),
        ("loglevel", "warning"),
        ("maxclients", "20"),
        ("protected-mode", "no"),
        ("slowlog-log-slower-than", "-1"),
        ("slowlog-max-len", "9"),
    ] {
        assert_eq!(
            client.call(&["CONFIG", "SET", name, value]),
            OwnedFrame::SimpleString(b"OK".into()),
            "{name}"
        );
    }
    assert_eq!(client.call(&["CONFIG", "REWRITE"]), OwnedFrame::SimpleString(b"OK".into()));
    let rewritten = "# A remark.\nstore btree\n\nfsync everysec\n# Another.\ncache-size 64MiB\ntimeout 30\n\
        # Generated by CONFIG REWRITE\nclient-output-buffer-limit 1048576\nlatency-monitor-threshold 25\n\
        log-level warn\nmaxclients 20\nprotected-mode no\nslowlog-log-slower-than -1\nslowlog-max-len 9\n";
    assert_eq!(fs::read_to_string(&path).unwrap(), rewritten);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
    drop(server);
    let server = serve(dir.path(), &["--config", "kvbench.conf"]);
    let mut client = server.connect();
    for (name, value) in
        [("appendfsync", "everysec"), ("slowlog-log-slower-than", "-1"), ("latency-monitor-threshold", "25")]
    {
        assert_eq!(setting(&mut client, name), value, "{name}");
    }
}

/// Whatever CONFIG SET takes, the next start takes from the file.
#[test]
fn the_largest_numbers_are_rewritten_so_that_the_server_starts_again() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("kvbench.conf"), "path :memory:\nmaxclients 20\n").unwrap();
    let start = || serve(dir.path(), &["--config", "kvbench.conf"]);
    let largest = [
        ("client-output-buffer-limit", "normal 9223372036854775807 0 0"),
        ("client-query-buffer-limit", "4293918720"),
        ("latency-monitor-threshold", "9223372036854775807"),
        ("maxclients", "20"),
        ("slowlog-log-slower-than", "9223372036854775807"),
        ("slowlog-max-len", "9223372036854775807"),
        ("timeout", "2147483647"),
    ];
    let server = start();
    let mut client = server.connect();
    for (name, value) in largest {
        let reply = client.call(&["CONFIG", "SET", name, value]);
        assert_eq!(reply, OwnedFrame::SimpleString(b"OK".into()), "{name}");
    }
    for (name, larger) in [
        ("client-output-buffer-limit", "normal 9223372036854775808 0 0"),
        ("client-query-buffer-limit", "4293918721"),
        ("client-query-buffer-limit", "4294967295"),
        ("client-query-buffer-limit", "5gb"),
        ("latency-monitor-threshold", "9223372036854775808"),
        ("maxclients", "21"),
        ("slowlog-log-slower-than", "9223372036854775808"),
        ("slowlog-max-len", "9223372036854775808"),
        ("timeout", "2147483648"),
    ] {
        let reply = client.call(&["CONFIG", "SET", name, larger]);
        assert!(matches!(reply, OwnedFrame::Error(_)), "{name} {larger}: {reply:?}");
    }
    assert_eq!(client.call(&["CONFIG", "REWRITE"]), OwnedFrame::SimpleString(b"OK".into()));
    drop(server);
    let server = start();
    let mut client = server.connect();
    for (name, value) in largest {
        assert_eq!(setting(&mut client, name), value, "{name}");
    }
}

#[test]
fn config_rewrite_tells_why_it_cannot() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("kvbench.conf");
    fs::write(&path, "store map\n").unwrap();
    let server = serve(dir.path(), &["--config", "kvbench.conf"]);
    let mut client = server.connect();
    client.call(&["CONFIG", "SET", "requirepass", "secret"]);
    let reply = format!("{:?}", client.call(&["CONFIG", "REWRITE"]));
    assert!(reply.contains("Rewriting config file") && reply.contains("--password-file"), "{reply}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "store map\n");
    fs::remove_file(&path).unwrap();
    let server = {
        fs::write(&path, "store map\npath other.db\n").unwrap();
        serve(dir.path(), &["--config", "kvbench.conf"])
    };
    fs::remove_file(&path).unwrap();
    let reply = format!("{:?}", server.connect().call(&["CONFIG", "REWRITE"]));
    assert!(reply.contains("ERR Rewriting config file: No such file or directory\""), "{reply}");
}

//! Who may come in: passwords, protected mode, commands that are switched off, certificates.

use crate::{
    program::{failure, misuse, misuse_in, serve, serve_exactly, setting},
    support::{Client, KVBENCH, PATIENCE, Server},
};
use kvbench::testing::engine_case::names;
use redis_protocol::resp2::types::OwnedFrame;
use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::Path,
    process::Command,
    thread,
    time::{Duration, Instant},
};

const MEMORY: [&str; 2] = ["--path", ":memory:"];

fn write(path: &Path, text: &str, mode: u32) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn is_right(client: &mut Client, password: &str) -> bool {
    client.call(&["AUTH", password]) == OwnedFrame::SimpleString(b"OK".to_vec())
}

/// Returns the log once it says `words`.
fn await_log(log: &Path, words: &str) -> String {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let text = fs::read_to_string(log).unwrap();
        if text.contains(words) {
            return text;
        }
        assert!(Instant::now() < deadline, "no {words:?} in {text}");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn the_password_is_that_of_the_file_less_its_newline() {
    for (text, password) in [("a b", "a b"), ("a b\n", "a b"), ("a b\r\n", "a b"), ("a b\n\n", "a b\n")] {
        let dir = tempfile::tempdir().unwrap();
        write(&dir.path().join("p"), text, 0o600);
        let server = serve(dir.path(), &[&MEMORY[..], &["--password-file", "p"]].concat());
        let mut client = server.connect();
        let OwnedFrame::Error(error) = client.call(&["DBSIZE"]) else { panic!("no password is asked for") };
        assert!(error.starts_with("NOAUTH"), "{error}");
        assert!(!is_right(&mut client, "a"), "{text:?}");
        assert!(is_right(&mut client, password), "{text:?}");
        assert_eq!(client.call(&["DBSIZE"]), OwnedFrame::Integer(0));
    }
}

#[test]
fn a_password_file_that_others_can_read_or_that_is_none_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let refused = || failure(dir.path(), &["--port", "0", "--password-file", "p"]);
    assert!(refused().contains("--password-file p"));
    for mode in [0o640, 0o604, 0o620, 0o644] {
        write(&dir.path().join("p"), "secret", mode);
        let line = refused();
        assert!(line.contains("--password-file p") && line.contains(&format!("{mode:o}")), "{line}");
        assert!(line.contains("chmod 600"), "{line}");
    }
    for text in ["", "\n", &"x".repeat(20_000)] {
        write(&dir.path().join("p"), text, 0o600);
        assert!(refused().contains("--password-file p holds no password"), "{}", refused());
    }
    // Refused before the store is opened.
    assert_eq!(names(dir.path()), ["p"]);
    assert!(misuse(&["--requirepass", "x", "--password-file", "p"]).contains("--password-file"));
    assert!(misuse(&["--requirepass", ""]).contains("--requirepass"));
}

/// systemd permits the user of the service to read them by an access control list, which is shown as the group's.
#[test]
fn a_credential_of_systemd_may_be_readable_by_its_group() {
    let dir = tempfile::tempdir().unwrap();
    let start = |file: &str, mode| {
        let path = dir.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        write(&path, "secret", mode);
        let mut command = Command::new(KVBENCH);
        command.args(MEMORY).arg("--password-file").arg(path).env("CREDENTIALS_DIRECTORY", dir.path());
        Server::try_start_command(&mut command)
    };
    assert!(is_right(&mut start("password", 0o440).unwrap().connect(), "secret"));
    for (file, mode) in [("for-all", 0o444), ("for-writers", 0o460), ("other/password", 0o440)] {
        assert_eq!(start(file, mode).err().and_then(|status| status.code()), Some(1), "{file} {mode:o}");
    }
}

#[test]
fn a_password_shows_up_nowhere() {
    let dir = tempfile::tempdir().unwrap();
    let args = ["--path", ":memory:", "--port", "0", "--log-level", "trace", "--requirepass", "tell-nobody"];
    let (server, log) = serve_exactly(dir.path(), &args);
    let mut client = server.connect();
    assert!(!is_right(&mut client, "tell-nobody!"));
    assert!(is_right(&mut client, "tell-nobody"));
    let answer = format!("{:?}", client.call(&["CONFIG", "GET", "*"]));
    assert!(!answer.contains("tell-nobody") && !server.start_line.contains("tell-nobody"), "{answer}");
    assert!(server.terminate().success());
    let log = fs::read_to_string(log).unwrap();
    assert!(!log.contains("tell-nobody"), "{log}");
}

#[test]
fn http_is_logged_once_with_the_address_it_came_from() {
    let dir = tempfile::tempdir().unwrap();
    let (server, log) = serve_exactly(dir.path(), &["--path", ":memory:", "--port", "0"]);
    for (request, name) in
        [("POST / HTTP/1.1\r\nHost: x\r\n\r\nSET a b\r\n", "HTTP"), ("\x16\x03\x01\0", "TLS")]
    {
        let mut client = server.connect();
        let address = client.stream.local_addr().unwrap();
        client.send(request);
        let log = await_log(&log, &format!("({address}) closed: it speaks {name}"));
        assert_eq!(log.matches(&address.to_string()).count(), 1, "{log}");
        assert!(log.contains("WARN"), "{log}");
    }
    assert_eq!(server.connect().call(&["DBSIZE"]), OwnedFrame::Integer(0));
}

#[test]
fn an_open_server_says_so_at_the_start() {
    let said = |more: &[&str]| {
        let dir = tempfile::tempdir().unwrap();
        let (_server, log) = serve_exactly(dir.path(), &[&MEMORY[..], &["--port", "0"], more].concat());
        fs::read_to_string(log).unwrap()
    };
    let open = ["--bind", "0.0.0.0"];
    let protected = said(&open);
    assert!(protected.contains("protected mode") && protected.contains("--password-file"), "{protected}");
    let exposed = said(&[&open[..], &["--protected-mode", "no"]].concat());
    assert!(exposed.contains("everybody who can reach this machine"), "{exposed}");
    for quiet in [&[][..], &["--protected-mode", "no"], &["--bind", "0.0.0.0", "--requirepass", "x"]] {
        assert!(!said(quiet).contains("WARN"), "{}", said(quiet));
    }
    let dir = tempfile::tempdir().unwrap();
    let server = serve(dir.path(), &MEMORY);
    assert_eq!(setting(&mut server.connect(), "protected-mode"), "yes");
}

#[test]
fn a_command_that_is_switched_off_is_nowhere_to_be_found() {
    let dir = tempfile::tempdir().unwrap();
    let flags = ["--disable-command", "FlushDB", "--disable-command", "shutdown"];
    let server = serve(dir.path(), &[&MEMORY[..], &flags].concat());
    let mut client = server.connect();
    let all = kvbench::command::table().count() as i64;
    assert_eq!(client.call(&["COMMAND", "COUNT"]), OwnedFrame::Integer(all - 2));
    assert_eq!(client.call(&["COMMAND", "INFO", "flushdb"]), OwnedFrame::Array(vec![OwnedFrame::Null]));
    assert_eq!(client.call(&["COMMAND", "DOCS", "flushdb"]), OwnedFrame::Array(Vec::new()));
    for words in [["FLUSHDB"], ["shutdown"]] {
        let OwnedFrame::Error(error) = client.call(&words) else { panic!("{words:?} is there") };
        assert!(error.starts_with("ERR unknown command"), "{error}");
    }
    // A mistyped name would leave the command in place.
    let said = misuse(&["--disable-command", "FLUSHDBB"]);
    assert!(said.contains("--disable-command") && said.contains("FLUSHDBB"), "{said}");
}

#[test]
fn ways_in_that_make_no_sense_are_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let line = misuse_in(dir.path(), &["--path", ":memory:", "--port", "off"]);
    assert!(line.contains("--port off") && line.contains("--tls-port"), "{line}");
    for (args, named) in [
        (&["--tls-port", "0"][..], "--tls-cert"),
        (&["--tls-port", "0", "--tls-cert", "c"], "--tls-key"),
        (&["--tls-cert", "c"], "--tls-port"),
        (&["--tls-ca", "c"], "--tls-port"),
        (&["--unixsocket-perm", "700"], "--unixsocket"),
        (&["--unixsocket", "s", "--unixsocket-perm", "999"], "--unixsocket-perm"),
        (&["--protected-mode", "maybe"], "--protected-mode"),
        (&["--client-query-buffer-limit", "4GiB"], "--client-query-buffer-limit"),
        (&["--client-query-buffer-limit", "4294967295"], "--client-query-buffer-limit"),
        (&["--client-query-buffer-limit", "1KiB"], "--client-query-buffer-limit"),
        (&["--timeout", "soon"], "--timeout"),
        (&["--tcp-backlog", "0"], "--tcp-backlog"),
    ] {
        let said = misuse(args);
        assert!(said.contains(named), "{args:?}: {said}");
    }
}

#[cfg(feature = "tls")]
mod tls {
    use super::*;
    use rcgen::{CertifiedKey, generate_simple_self_signed};

    #[test]
    fn certificates_that_are_none_name_the_flag_and_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let make = || generate_simple_self_signed(["localhost".into()]).unwrap();
        let CertifiedKey { cert, signing_key } = make();
        fs::write(dir.path().join("cert"), cert.pem()).unwrap();
        fs::write(dir.path().join("key"), signing_key.serialize_pem()).unwrap();
        fs::write(dir.path().join("other"), make().signing_key.serialize_pem()).unwrap();
        fs::write(dir.path().join("text"), "a letter").unwrap();
        let refused = |cert: &str, key: &str, more: &[&str]| {
            let tls = ["--port", "0", "--tls-port", "0", "--tls-cert", cert, "--tls-key", key];
            let args = [&tls[..], more].concat();
            if more.contains(&"yes") { misuse_in(dir.path(), &args) } else { failure(dir.path(), &args) }
        };
        for (line, named) in [
            (refused("none", "key", &[]), "--tls-cert none"),
            (refused("text", "key", &[]), "--tls-cert text"),
            (refused("cert", "none", &[]), "--tls-key none"),
            (refused("cert", "text", &[]), "--tls-key text"),
            (refused("cert", "other", &[]), "--tls-cert cert"),
            (refused("cert", "key", &["--tls-ca", "none"]), "--tls-ca none"),
            (refused("cert", "key", &["--tls-ca", "key"]), "--tls-ca key"),
            (refused("cert", "key", &["--tls-auth-clients", "yes"]), "--tls-ca"),
        ] {
            assert!(line.contains(named), "{named} in {line}");
        }
        assert!(!dir.path().join("map.db").exists(), "the store was opened before that");
    }
}

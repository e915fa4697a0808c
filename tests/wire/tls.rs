//! TLS, as redis-cli and redis-py speak it.

use crate::{
    clients::{output, python, session_py},
    differential::access::outer_address,
    frames::{ask, info},
    support::{Client, RunToEnd, Server},
};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use std::{
    fs,
    io::Read,
    net::SocketAddr,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};
use tempfile::TempDir;

const PASSWORD: &str = "a long secret";

/// Certificates: `ca.pem`, and of it `server.pem` and `client.pem` with their keys; and of another CA
/// `stranger.pem`.
fn certificates() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: String| fs::write(dir.path().join(name), text).unwrap();
    let authority = |name: &str| {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
    };
    let (ca, other) = (authority("test authority"), authority("another authority"));
    write("ca.pem", ca.pem());
    for (name, issuer) in [("server", &ca), ("client", &ca), ("stranger", &other)] {
        let mut params = CertificateParams::new(["localhost".into(), "127.0.0.1".into()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        write(&format!("{name}.pem"), params.signed_by(&key, issuer).unwrap().pem());
        write(&format!("{name}.key"), key.serialize_pem());
    }
    dir
}

const TLS: [&str; 6] = ["--tls-port", "0", "--tls-cert", "server.pem", "--tls-key", "server.key"];

/// A server with the certificates in `dir`, and its address for TLS.
fn start(dir: &Path, more: &[&str]) -> (Server, SocketAddr) {
    let store = ["--store", "map", "--path", ":memory:"];
    let server = Server::start(dir, &[&store[..], &TLS, more].concat());
    let address = tls_address(&server.start_line);
    (server, address)
}

fn tls_address(start_line: &str) -> SocketAddr {
    let word = start_line.split_whitespace().find_map(|word| word.split_once("tls://"));
    word.unwrap_or_else(|| panic!("no address for TLS: {start_line}")).1.parse().unwrap()
}

/// redis-cli that knows the authority, with `more` arguments.
fn redis_cli(dir: &Path, address: SocketAddr, more: &[&str]) -> Command {
    let mut cli = Command::new("redis-cli");
    cli.current_dir(dir).args(["--tls", "--cacert", "ca.pem", "-h", "127.0.0.1", "-p"]);
    cli.arg(address.port().to_string()).args(more);
    cli
}

/// What it answers to PING, or why it cannot ask.
fn ping(dir: &Path, address: SocketAddr, more: &[&str]) -> String {
    let mut cli = redis_cli(dir, address, more);
    let ended = cli.arg("PING").run_to_end();
    String::from_utf8_lossy(&[ended.stdout, ended.stderr].concat()).trim().into()
}

#[test]
fn redis_cli_runs_a_session_with_tls_and_a_password() {
    let dir = certificates();
    let (server, address) = start(dir.path(), &["--requirepass", PASSWORD]);
    let session = "PING\nset k \"a b\"\nGET k\nincr n\nnosuch\ndbsize\n";
    let printed = "PONG\nOK\n\"a b\"\n(integer) 1\n(error) ERR unknown command 'nosuch', with args beginning \
                   with: \n(integer) 2\n";
    for flag in ["-2", "-3"] {
        let flags = [flag, "--no-raw", "--no-auth-warning", "-a", PASSWORD];
        let said = output(&mut redis_cli(dir.path(), address, &flags), session.as_bytes());
        assert_eq!(said.replace("\n\n", "\n"), printed, "redis-cli {flag}");
        let flushed = output(redis_cli(dir.path(), address, &flags).arg("FLUSHDB"), b"");
        assert_eq!(flushed, "OK\n");
    }
    assert!(ping(dir.path(), address, &[]).contains("NOAUTH"));
    // The plain port asks for the same password.
    let mut plain = server.connect();
    plain.send("GET k\r\n");
    plain.expect("-NOAUTH Authentication required.\r\n");
}

/// TLS is above the store; one that blocks on a device has another path to it than one in memory.
#[test]
fn redis_py_runs_its_session_over_tls_in_both_protocols() {
    let Some(python) = python("redis-py over TLS") else { return };
    let dir = certificates();
    let path = |name: &str| dir.path().join(name).display().to_string();
    let (cert, key) = (path("server.pem"), path("server.key"));
    let flags = ["--tls-port", "0", "--tls-cert", &cert, "--tls-key", &key, "--requirepass", PASSWORD];
    for place in [":memory:", "data"] {
        let server = Server::start(dir.path(), &[&["--path", place], &flags[..]].concat());
        let port = tls_address(&server.start_line).port().to_string();
        for protocol in ["2", "3"] {
            let mut session = Command::new(&python);
            session.args([&*session_py(), &port, protocol, PASSWORD, &path("ca.pem")]);
            assert_eq!(output(&mut session, b""), "done\n");
        }
    }
}

#[test]
fn clients_show_certificates_as_they_are_asked_to() {
    let dir = certificates();
    let ping = |address, more: &[&str]| ping(dir.path(), address, more);
    let known = ["--cert", "client.pem", "--key", "client.key"];
    let stranger = ["--cert", "stranger.pem", "--key", "stranger.key"];
    // The flags, and whether clients without, with a good and with a strange certificate are served.
    for (flags, served) in [
        (&[][..], [true, true, true]),
        (&["--tls-ca", "ca.pem"], [false, true, false]),
        (&["--tls-ca", "ca.pem", "--tls-auth-clients", "yes"], [false, true, false]),
        (&["--tls-ca", "ca.pem", "--tls-auth-clients", "optional"], [true, true, false]),
        (&["--tls-ca", "ca.pem", "--tls-auth-clients", "no"], [true, true, true]),
    ] {
        let (_server, address) = start(dir.path(), flags);
        for (client, served) in [&[][..], &known, &stranger].into_iter().zip(served) {
            let said = ping(address, client);
            assert_eq!(said == "PONG", served, "{flags:?} {client:?}: {said}");
        }
    }
}

#[test]
fn a_client_that_does_not_know_the_authority_does_not_talk() {
    let dir = certificates();
    let (_server, address) = start(dir.path(), &[]);
    fs::rename(dir.path().join("stranger.pem"), dir.path().join("ca.pem")).unwrap();
    let said = ping(dir.path(), address, &[]);
    assert!(said.contains("certificate verify failed"), "{said}");
}

/// A client that is turned away is told nothing over TLS, which would need a handshake.
#[test]
fn protected_mode_turns_other_machines_away_over_tls_too() {
    let dir = certificates();
    let (server, address) = start(dir.path(), &["--bind", "0.0.0.0"]);
    Client::connect(SocketAddr::new(outer_address(), address.port())).expect_closed();
    let mut local = Client::connect(SocketAddr::new([127, 0, 0, 1].into(), server.address.port()));
    // A client that is not turned away is closed too, when it has begun no handshake for long.
    assert_eq!(info(&mut local, "rejected_connections"), 1);
    assert_eq!(ping(dir.path(), address, &[]), "PONG");
}

/// Neither plain bytes on the port for TLS nor the reverse do anything, nor does a client that says nothing.
#[test]
fn plain_bytes_on_the_port_for_tls_close_only_themselves() {
    let dir = certificates();
    let (server, address) = start(dir.path(), &[]);
    let _silent = Client::connect(address);
    let mut plain = Client::connect(address);
    plain.send("SET k v\r\n*1\r\n$4\r\nPING\r\n");
    let mut said = Vec::new();
    let _ = plain.stream.read_to_end(&mut said);
    assert!(!said.contains(&b'+'), "{}", said.escape_ascii());
    assert!(!ping(dir.path(), server.address, &[]).contains("PONG"));
    assert_eq!(ping(dir.path(), address, &[]), "PONG");
    let mut client = server.connect();
    client.send("DBSIZE\r\n");
    client.expect(":0\r\n");
}

#[test]
fn client_in_its_handshake_can_be_killed() {
    let dir = certificates();
    let (server, address) = start(dir.path(), &[]);
    let mut silent = Client::connect(address);
    let mut admin = server.connect();
    let port = silent.stream.local_addr().unwrap().port();
    loop {
        // 0 until the connection is accepted.
        if ask(&mut admin, &["CLIENT", "KILL", "ADDR", &format!("127.0.0.1:{port}")]) == b":1\r\n" {
            break;
        }
    }
    // Within less than the time that a handshake may take.
    silent.stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    silent.expect_closed();
}

/// What a page makes a browser send, from a program that speaks TLS.
const HTTP: &str = "
import socket, ssl, sys
context = ssl.create_default_context(cafile='ca.pem')
plain = socket.create_connection(('127.0.0.1', int(sys.argv[1])), timeout=60)
client = context.wrap_socket(plain, server_hostname='localhost')
client.sendall(b'POST / HTTP/1.1\\r\\nHost: localhost\\r\\nContent-Length: 15\\r\\n\\r\\nSET pwned 1\\r\\n\\r\\n')
said = b''
try:
    while part := client.recv(1000):
        said += part
except TimeoutError:
    said = b'still open'
except OSError:
    pass
print(said)
";

#[test]
fn a_browser_that_speaks_tls_is_closed_without_a_word_too() {
    let Some(python) = python("a_browser_that_speaks_tls_is_closed_without_a_word_too") else { return };
    let dir = certificates();
    let (server, address) = start(dir.path(), &[]);
    let mut browser = Command::new(python);
    browser.args(["-c", HTTP, &address.port().to_string()]).current_dir(dir.path());
    assert_eq!(output(&mut browser, b""), "b''\n");
    let mut client = server.connect();
    client.send("DBSIZE\r\n");
    client.expect(":0\r\n");
    assert_eq!(ping(dir.path(), address, &[]), "PONG");
}

/// With `--port off` nobody can talk in the clear.
#[test]
fn tls_can_be_the_only_way_in() {
    let dir = certificates();
    let mut process = Command::new(crate::support::KVBENCH)
        .current_dir(dir.path())
        .args(["--path", ":memory:", "--port", "off"])
        .args(TLS)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let stdout = process.stdout.take().unwrap();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line).unwrap();
    assert!(line.contains(" address=tls://127.0.0.1:"), "{line}");
    assert_eq!(ping(dir.path(), tls_address(&line), &[]), "PONG");
    process.kill().unwrap();
    process.wait().unwrap();
}

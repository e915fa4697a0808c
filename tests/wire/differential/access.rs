//! Passwords, protected mode and commands that are switched off: byte for byte as Redis does it.

use super::{
    redis::{PASSWORD, Redis},
    rest,
};
use crate::{
    every_store::in_memory,
    support::{Client, request},
};
use kvbench::command::table;
use std::net::{IpAddr, Shutdown, SocketAddr, UdpSocket};

/// What is sent on a connection of its own, `%` for the password, before QUIT.
const CONVERSATIONS: &[&str] = &[
    "GET k",
    "EXEC",
    "MULTI\r\nEXEC\r\nDISCARD",
    "EXEC now\r\nAUTH %\r\nEXEC",
    "PING",
    "SET k v",
    "COMMAND",
    "CONFIG GET *",
    "FLUSHDB",
    "SHUTDOWN",
    "CLIENT SETNAME me",
    "AUTH",
    "AUTH wrong",
    "AUTH \"\"",
    "AUTH \"a long secre\"",
    "AUTH \"a long secret \"",
    "AUTH %",
    "AUTH %\r\nGET k",
    "auth % \r\nSET k v\r\nGET k\r\nDEL k",
    "AUTH default %\r\nGET k",
    "AUTH Default %\r\nGET k",
    "AUTH other %\r\nGET k",
    "AUTH default wrong\r\nGET k",
    "AUTH a b c",
    "AUTH wrong\r\nAUTH %\r\nAUTH wrong\r\nGET k",
    "HELLO",
    "HELLO 2",
    "HELLO 3",
    "HELLO 9",
    "HELLO x",
    "HELLO 3 bogus",
    "HELLO 3 SETNAME me",
    "HELLO 2 SETNAME \"a b\"",
    "HELLO 3 AUTH default",
    "HELLO 2 AUTH default wrong\r\nGET k",
    "HELLO 3 AUTH default wrong bogus\r\nGET k",
    "HELLO 3 AUTH other %\r\nGET k",
    "HELLO 2 AUTH default %\r\nGET k",
    "HELLO 3 AUTH default %\r\nGET k\r\nHELLO",
    "HELLO 2 SETNAME me AUTH default %\r\nCLIENT GETNAME",
    "HELLO 2 AUTH default % SETNAME you\r\nCLIENT GETNAME",
    "NOSUCH a b",
    "GET",
    "ECHO a b",
    "CLIENT",
    "QUIT now",
    "AUTH %\r\nCLIENT REPLY OFF\r\nPING\r\nSET k v\r\nNOSUCH\r\nCLIENT REPLY SKIP\r\nCLIENT REPLY ON\r\nGET k\r\nDEL k",
    "AUTH %\r\nCLIENT REPLY SKIP\r\nPING\r\nPING a",
    "AUTH %\r\nPING\r\nCLIENT REPLY SKIP\r\nSET k v\r\nSET k w\r\nGET k\r\nCLIENT REPLY SKIP\r\nDEL k\r\nGET k",
    "AUTH %\r\nCLIENT REPLY SKIP\r\nGET k\r\nGET k\r\nCLIENT REPLY SKIP\r\nCLIENT REPLY SKIP\r\nGET k\r\nGET k",
    "CLIENT REPLY OFF\r\nPING",
    "AUTH %\r\nCLIENT REPLY OFF\r\nPING\r\n*1\r\n:4\r\n",
    "AUTH %\r\nCLIENT REPLY SKIP\r\n*1\r\n:4\r\n",
    "AUTH %\r\nGET k\r\n*1\r\n:4\r\n",
    "AUTH %\r\nRESET\r\nPING",
    "RESET",
    "RESET\r\nPING",
    "HELLO 2 AUTH default % BOGUS\r\nGET k",
    "HELLO 2 AUTH default wrong SETNAME me\r\nAUTH %\r\nCLIENT GETNAME",
    "HELLO 2 SETNAME me\r\nAUTH %\r\nCLIENT GETNAME",
    "HELLO 3 SETNAME me AUTH default % BOGUS\r\nCLIENT GETNAME\r\nGET k",
    "HELLO 3 SETNAME me SETNAME \"a b\" AUTH default %\r\nAUTH %\r\nCLIENT GETNAME",
    "AUTH %\r\nCLIENT REPLY SKIP\r\nRESET\r\nPING\r\nAUTH %\r\nGET k",
    "AUTH %\r\nCLIENT REPLY OFF\r\nRESET\r\nPING\r\nAUTH %\r\nGET k",
    "AUTH %\r\nHELLO 3\r\nGET k\r\nRESET\r\nAUTH %\r\nGET k",
    "AUTH %\r\nMULTI\r\nGET none\r\nHELLO 3\r\nGET none\r\nLCS a b IDX\r\nCONFIG GET nosuch\r\nHELLO 2\r\nGET none\r\nEXEC\r\nGET none",
    "AUTH %\r\nMULTI\r\nHELLO 3 SETNAME \"a b\"\r\nHELLO 3 AUTH nobody %\r\nGET none\r\nHELLO 3 SETNAME me\r\nGET none\r\nEXEC\r\nGET none",
    "AUTH %\r\nHELLO 3 \"a\\x00b\"",
    "*1\r\n$4\r\nPING\r\n*2\r\n$4\r\nECHO\r\n$2\r\nhi",
    // More and longer than a stranger may send.
    "*10\r\n$3\r\nDEL\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n$1\r\nd\r\n$1\r\ne\r\n$1\r\nf\r\n$1\r\ng\r\n$1\r\nh\r\n$1\r\ni",
    "*11\r\n",
    "*2147483648\r\n",
    "*2\r\n$4\r\nECHO\r\n$16385\r\n",
    "*2\r\n$4\r\nECHO\r\n$536870913\r\n",
    "AUTH wrong\r\n*11\r\n",
    // Not after the password, in the same pipeline.
    "AUTH %\r\n*12\r\n$3\r\nDEL\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n$1\r\nd\r\n$1\r\ne\r\n$1\r\nf\r\n$1\r\ng\r\n$1\r\nh\r\n$1\r\ni\
     \r\n$1\r\nj\r\n$1\r\nk",
    // HTTP gets no answer.
    "POST / HTTP/1.1\r\nHost: localhost",
    "post",
    "Host: localhost",
    "HOST: a b c d e f",
    "*1\r\n$4\r\nPoSt",
    "*2\r\n$5\r\nhost:\r\n$1\r\nx",
    "GET / HTTP/1.1\r\nHost: localhost\r\n",
    "OPTIONS * HTTP/1.1\r\nHost: localhost\r\n",
    "POSTS",
    "Hosts:",
];

/// Replies with the numbers of connections left out.
fn converse(address: SocketAddr, conversation: &str) -> String {
    let mut client = Client::connect(address);
    client.send(format!("{}\r\nQUIT\r\n", conversation.replace('%', &format!("\"{PASSWORD}\""))));
    // Who waits for more than was sent learns that no more comes.
    client.stream.shutdown(Shutdown::Write).unwrap();
    let said = rest(&mut client);
    let mut parts = said.split("id\\r\\n:");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |said, part| said + "id" + part.trim_start_matches(|c: char| c.is_ascii_digit()))
}

fn compare(args: &[&str]) {
    let (redis, running) = (Redis::start_with(args), in_memory(args));
    for conversation in CONVERSATIONS {
        // What describes either server, and that Redis has more settings, is another matter.
        let describes = ["COMMAND", "CONFIG GET *"].contains(conversation);
        if describes && args.is_empty() || args.is_empty() && *conversation == "SHUTDOWN" {
            continue;
        }
        let ours = converse(running.server.address, conversation);
        assert_eq!(ours, converse(redis.address, conversation), "{conversation:?}");
    }
}

#[test]
fn passwords_are_asked_for_as_by_redis() {
    compare(&["--requirepass", PASSWORD]);
}

/// RESET takes them away again, also for a request that has begun before it.
#[test]
fn reset_restores_the_limits_of_before_the_password() {
    let args = ["--requirepass", PASSWORD];
    let (redis, running) = (Redis::start_with(&args), in_memory(&args));
    for (begun, request) in [
        ("", "*11\r\n"),
        ("", "*2\r\n$4\r\nECHO\r\n$16385\r\n"),
        ("*1000000\r\n", "$4\r\n"),
        ("*2\r\n$4\r\nECHO\r\n$16385\r\n", "x"),
        ("", "*10\r\n$4\r\nECHO\r\n$16384\r\n"),
    ] {
        let said = |address, request: &str| {
            let mut client = Client::connect(address);
            client.send(format!("AUTH \"{PASSWORD}\"\r\n"));
            client.expect("+OK\r\n");
            client.send(format!("RESET\r\n{begun}"));
            client.expect("+RESET\r\n");
            client.send(request);
            // It may have been closed.
            let _ = client.stream.shutdown(Shutdown::Write);
            client.buffer.escape_ascii().to_string() + &rest(&mut client)
        };
        let ours = said(running.server.address, request);
        // Redis refuses the first part of a request before the second one comes.
        let theirs = said(redis.address, if begun.is_empty() { request } else { "" });
        assert_eq!(ours, theirs, "{begun:?} {request:?}");
        assert_eq!(ours.contains("unauthenticated"), !request.contains("*10"), "{ours}");
    }
}

/// Whatever is in the list of commands; only these four may come before the password, as in Redis.
#[test]
fn every_other_command_asks_for_the_password() {
    let running = in_memory(&["--requirepass", PASSWORD]);
    let (mut refused, mut allowed) = (0, Vec::new());
    for spec in table() {
        let mut words = vec![spec.name];
        // An unknown subcommand has its own error, as in Redis, also before the password.
        words.extend(spec.subcommands.first().map(|subcommand| subcommand.word()));
        let arity = spec.subcommands.first().map_or(spec.arity, |subcommand| subcommand.arity);
        words.resize(arity.unsigned_abs() as usize, "1");
        let mut client = running.connect();
        client.send(request(&words));
        client.stream.shutdown(Shutdown::Write).unwrap();
        // An EXEC that is refused names the transaction first, as in Redis.
        let transaction =
            if spec.name == "exec" { "EXECABORT Transaction discarded because of: " } else { "" };
        if rest(&mut client) == format!("-{transaction}NOAUTH Authentication required.\\r\\n") {
            refused += 1;
        } else {
            allowed.push(spec.name);
        }
    }
    allowed.sort_unstable();
    assert_eq!(allowed, ["auth", "hello", "quit", "reset"]);
    assert_eq!(refused, table().count() - allowed.len());
}

#[test]
fn a_server_without_a_password_answers_auth_as_redis_does() {
    compare(&[]);
}

/// A value and a request beyond what strangers may send, right behind the password.
#[test]
fn the_limits_of_strangers_end_within_a_pipeline() {
    let args = ["--requirepass", PASSWORD];
    let (redis, running) = (Redis::start_with(&args), in_memory(&args));
    let value = "v".repeat(100_000);
    let conversation = format!("AUTH %\r\n*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$100000\r\n{value}\r\nGET k");
    let ours = converse(running.server.address, &conversation);
    assert_eq!(ours, converse(redis.address, &conversation));
    assert!(ours.contains(&value));
}

#[test]
fn a_command_that_is_switched_off_is_unknown_as_in_redis() {
    let redis = Redis::start_with(&["--rename-command", "FLUSHDB", "", "--rename-command", "MSET", ""]);
    let running = in_memory(&["--disable-command", "flushdb", "--disable-command", "MSET"]);
    for conversation in ["FLUSHDB", "flushdb async", "MSET a b", "SET k v\r\nMSET a\r\nGET k", "MGET k none"]
    {
        let ours = converse(running.server.address, conversation);
        assert_eq!(ours, converse(redis.address, conversation), "{conversation:?}");
    }
}

/// An address of this machine that is not loopback. Nothing is sent to find it.
pub fn outer_address() -> IpAddr {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    // An address of documentation, which is reached as any other is.
    socket.connect("198.51.100.1:9").expect("this test needs an address that is not loopback: a network");
    let address = socket.local_addr().unwrap().ip();
    assert!(!address.is_loopback(), "this test needs an address that is not loopback");
    address
}

#[test]
fn protected_mode_turns_other_machines_away_as_redis_does() {
    let outer = outer_address();
    let open = ["--bind", "0.0.0.0"];
    let words = |address: SocketAddr, ip: IpAddr| {
        let mut client = Client::connect(SocketAddr::new(ip, address.port()));
        // It may be gone already.
        let _ = std::io::Write::write_all(&mut client.stream, b"PING\r\nQUIT\r\n");
        rest(&mut client)
    };
    let denied = words(Redis::start_with(&open).address, outer);
    assert!(denied.starts_with("-DENIED Redis is running in protected mode"), "{denied}");
    let running = in_memory(&open);
    assert_eq!(words(running.server.address, outer), denied);
    let local = [127, 0, 0, 1].into();
    assert_eq!(words(running.server.address, local), "+PONG\\r\\n+OK\\r\\n");
    for args in [["--protected-mode", "no"], ["--requirepass", PASSWORD]] {
        let args = [&open[..], &args].concat();
        let redis = words(Redis::start_with(&args).address, outer);
        assert_eq!(words(in_memory(&args).server.address, outer), redis);
    }
}

//! What looks at all keys, or compares values, and takes long: other clients of the same worker do not wait for it.

use crate::support::{Server, request, wait_until};
use std::{fs, path::Path, thread, time::Duration};

/// While the last of `commands` cannot go on, others are answered by the only worker.
fn holds_nobody_up(dir: &Path, file: &str, server: &Server, commands: &[&[&str]]) {
    let [hold, held] = ["hold", "held"].map(|extension| dir.join(file).with_added_extension(extension));
    let (mut long, mut other) = (server.connect(), server.connect());
    for client in [&mut long, &mut other] {
        client.send("PING\r\n");
        client.expect("+PONG\r\n");
    }
    fs::write(&hold, "").unwrap();
    commands.iter().for_each(|command| long.send(request(command)));
    wait_until(&format!("{commands:?} looks at no keys"), || held.exists());
    other.send("PING\r\n");
    other.expect("+PONG\r\n");
    other.send("GET key\r\nMGET key none\r\n");
    other.expect("$5\r\nvalue\r\n*2\r\n$5\r\nvalue\r\n$-1\r\n");
    fs::remove_file(&hold).unwrap();
    for command in commands {
        let reply = format!("{:?}", long.reply());
        assert!(!reply.starts_with("Error"), "{command:?}: {reply}");
    }
    fs::remove_file(&held).unwrap();
}

/// With and without files: the second commits on the clients' own thread.
fn on_one_worker(keys: &str, commands: &[&[&str]]) {
    for (path, file) in [("data", "data"), (":memory:", "slow-scan")] {
        let dir = tempfile::tempdir().unwrap();
        let server = Server::start(dir.path(), &["--store", "slow-scan", "--path", path, "--threads", "1"]);
        let mut client = server.connect();
        client.send(keys);
        client.expect("+OK\r\n".repeat(keys.lines().count()));
        for command in commands {
            holds_nobody_up(dir.path(), file, &server, &[command]);
        }
    }
}

#[test]
fn other_clients_are_answered_while_one_looks_at_all_keys() {
    on_one_worker(
        "SET key value\r\n",
        &[&["KEYS", "*"], &["DBSIZE"], &["SCAN", "0"], &["RANDOMKEY"], &["INFO"]],
    );
}

/// With keys in others, those of one database are looked for.
#[test]
fn other_clients_are_answered_while_one_empties_or_exchanges_databases() {
    on_one_worker(
        "SET key value\r\nSELECT 1\r\nSET key value\r\n",
        &[&["DBSIZE"], &["SWAPDB", "2", "3"], &["FLUSHDB"]],
    );
}

/// The time of LCS is the product of two lengths.
#[test]
fn other_clients_are_answered_while_one_compares_values() {
    on_one_worker("SET key value\r\nSET other text\r\n", &[&["LCS", "other", "key", "LEN"]]);
}

/// The worker executes the first read of a client itself. Since that was slow, it leaves the next one to another thread.
#[test]
fn other_clients_are_answered_while_a_client_reads_slowly_again() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &["--store", "slow-read", "--path", "data", "--threads", "1"]);
    let [hold, held] = ["data.hold", "data.held"].map(|name| dir.path().join(name));
    let (mut slow, mut other) = (server.connect(), server.connect());
    slow.send("SET key value\r\n");
    slow.expect("+OK\r\n");
    other.send("PING\r\n");
    other.expect("+PONG\r\n");
    for is_first in [true, false] {
        fs::write(&hold, "").unwrap();
        slow.send("GET key\r\n");
        wait_until("the key is not read", || held.exists());
        if is_first {
            // The read lasts at least as long.
            thread::sleep(Duration::from_millis(5));
        } else {
            other.send("PING\r\n");
            other.expect("+PONG\r\n");
        }
        fs::remove_file(&hold).unwrap();
        slow.expect("$5\r\nvalue\r\n");
        fs::remove_file(&held).unwrap();
    }
}

/// Only the requests that are queued tell what EXEC will do.
#[test]
fn other_clients_are_answered_while_a_transaction_looks_at_all_keys() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &["--store", "slow-scan", "--path", ":memory:", "--threads", "1"]);
    let mut client = server.connect();
    client.send("SET key value\r\nSELECT 1\r\nSET key value\r\n");
    client.expect("+OK\r\n+OK\r\n+OK\r\n");
    let commands: [&[&[&str]]; 2] =
        [&[&["MULTI"], &["KEYS", "*"], &["EXEC"]], &[&["SELECT", "1"], &["MULTI"], &["FLUSHDB"], &["EXEC"]]];
    for commands in commands {
        holds_nobody_up(dir.path(), "slow-scan", &server, commands);
    }
}

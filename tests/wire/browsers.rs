//! What a web page can make a browser send to a port of this machine: none of it may do anything.

use crate::{
    every_store::in_memory,
    frames::ask,
    support::{Client, Server},
};
use std::io::{Read, Write};

const COMMANDS: &str = "\r\nSET pwned 1\r\n*3\r\n$3\r\nSET\r\n$5\r\npwned\r\n$1\r\n1\r\n\r\n";

const HEADERS: &str = "Host: 127.0.0.1:6380\r\nConnection: keep-alive\r\nUser-Agent: Mozilla/5.0 (X11; Linux \
    x86_64)\r\nAccept: */*\r\nOrigin: http://evil.example\r\nAccept-Encoding: gzip, deflate, br\r\n";

/// What a browser sends before the body that a page has chosen.
fn http(first: &str, more: &str) -> Vec<u8> {
    format!("{first}\r\n{HEADERS}{more}Content-Length: {}\r\n\r\n{COMMANDS}", COMMANDS.len()).into()
}

fn requests() -> Vec<Vec<u8>> {
    let multipart = "Content-Type: multipart/form-data; boundary=----WebKitFormBoundary7MA4YWxk\r\n";
    let mut requests: Vec<_> = [
        ("POST / HTTP/1.1", "Content-Type: text/plain;charset=UTF-8\r\n"),
        ("POST / HTTP/1.1", "Content-Type: application/x-www-form-urlencoded\r\n"),
        ("POST / HTTP/1.1", multipart),
        ("POST /SET/pwned?1 HTTP/1.0", ""),
        ("PUT / HTTP/1.1", ""),
        ("PATCH / HTTP/1.1", ""),
        ("DELETE / HTTP/1.1", ""),
        ("OPTIONS / HTTP/1.1", "Access-Control-Request-Method: SET\r\n"),
        ("GET / HTTP/1.1", ""),
        ("GET /'quoted' HTTP/1.1", ""),
        ("HEAD / HTTP/1.1", ""),
        ("GET / HTTP/1.1", "Upgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"),
        // Methods that only a page of this very address, as it seems to the browser, may choose.
        ("SET /pwned HTTP/1.1", ""),
        ("MSET /pwned HTTP/1.1", ""),
        ("INCRBY /pwned HTTP/1.1", ""),
        ("set http://127.0.0.1:6380/pwned HTTP/1.1", ""),
        ("PRI * HTTP/2.0", ""),
    ]
    .map(|(first, more)| http(first, more))
    .into();
    // Of headers alone: a proxy that swallows the first line.
    requests.push(http("", "")[2..].to_vec());
    // TLS whose ticket the page's server has chosen.
    let hello = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".iter().copied();
    requests.push(hello.chain(COMMANDS.bytes()).collect());
    requests
}

/// Fails unless the server closes without a word.
fn expect_no_word(client: &mut Client, request: &[u8]) {
    let mut said = Vec::new();
    // Closing while something is unread resets the connection.
    let _ = client.stream.read_to_end(&mut said);
    assert_eq!(said.escape_ascii().to_string(), "", "{}", request.escape_ascii());
}

fn expect_empty(server: &Server) {
    assert_eq!(ask(&mut server.connect(), &["DBSIZE"]), b":0\r\n");
}

#[test]
fn a_browser_is_closed_without_a_word_and_nothing_is_run() {
    let running = in_memory(&[]);
    for request in requests() {
        let mut client = running.connect();
        client.send(&request);
        expect_no_word(&mut client, &request);
        expect_empty(&running.server);
    }
}

/// However the network cuts it.
#[test]
fn a_browser_that_sends_in_pieces_is_closed_as_well() {
    let running = in_memory(&[]);
    for request in requests() {
        let mut client = running.connect();
        for piece in request.chunks(7) {
            // Later pieces find the connection closed.
            if client.stream.write_all(piece).is_err() {
                break;
            }
            std::thread::yield_now();
        }
        expect_no_word(&mut client, &request);
        expect_empty(&running.server);
    }
}

/// What was asked for in the Redis protocol before is answered, and what only looks like HTTP is served.
#[test]
fn only_what_is_http_closes() {
    let running = in_memory(&[]);
    let mut client = running.connect();
    client.send("SET HTTP/1.1 v\r\nGET HTTP/1.1\r\nMSET a HTTP/1.1 b HTTP/1.1\r\n");
    client.expect("+OK\r\n$1\r\nv\r\n+OK\r\n");
    assert_eq!(ask(&mut client, &["SET", "k", "HTTP/1.1"]), b"+OK\r\n");
    assert_eq!(ask(&mut client, &["GET", "k"]), b"$8\r\nHTTP/1.1\r\n");
    client.send("PING\r\nPOST / HTTP/1.1\r\nPING\r\n");
    client.expect("+PONG\r\n");
    client.expect_closed();
}

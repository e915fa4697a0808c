//! Replies as bytes: where each ends, in RESP2 and RESP3, and nothing else about it.

use crate::support::{Client, Server, request, wait_until};
use std::fs;

/// Reads the complete elements of a reply from `at` on, and counts down `missing`, the number of elements that the reply
/// still needs. An array is an element that its members follow. Returns `true` when the reply is complete.
fn read_elements(bytes: &[u8], at: &mut usize, missing: &mut usize) -> bool {
    while *missing > 0 {
        let rest = &bytes[*at..];
        let Some(line) = rest.windows(2).position(|pair| pair == b"\r\n") else { return false };
        let number = || str::from_utf8(&rest[1..line]).unwrap().parse::<i64>().unwrap();
        let head = line + 2;
        let (len, members) = match rest[0] {
            b'+' | b'-' | b':' | b'_' | b',' => (head, 0),
            b'$' | b'=' => (usize::try_from(number()).map_or(head, |len| head + len + 2), 0),
            b'*' | b'~' => (head, number()),
            b'%' => (head, 2 * number()),
            _ => panic!("no reply: {}", rest[..rest.len().min(100)].escape_ascii()),
        };
        if len > rest.len() {
            return false;
        }
        *at += len;
        // A null array has no members.
        *missing = *missing - 1 + usize::try_from(members).unwrap_or(0);
    }
    true
}

/// Length of the complete reply that `bytes` begins with.
pub fn reply_len(bytes: &[u8]) -> Option<usize> {
    let (mut at, mut missing) = (0, 1);
    read_elements(bytes, &mut at, &mut missing).then_some(at)
}

/// The next `count` replies.
pub fn replies(client: &mut Client, count: usize) -> Vec<Vec<u8>> {
    let (mut replies, mut begin, mut at, mut missing) = (Vec::new(), 0, 0, 1);
    while replies.len() < count {
        if read_elements(&client.buffer, &mut at, &mut missing) {
            replies.push(client.buffer[begin..at].to_vec());
            (begin, missing) = (at, 1);
        } else {
            client.receive().expect("a reply");
        }
    }
    client.buffer.drain(..at);
    replies
}

/// Returns the bulk string reply of `bytes`.
pub fn bulk(bytes: &[u8]) -> Vec<u8> {
    [format!("${}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()
}

/// Sends one request and returns its reply.
pub fn ask<A: AsRef<[u8]>>(client: &mut Client, args: &[A]) -> Vec<u8> {
    client.send(request(args));
    replies(client, 1).remove(0)
}

/// Sends `bytes` and returns `count` replies, reading while it writes: neither side may wait for the
/// other's full buffers.
pub fn exchange(client: &mut Client, bytes: &[u8], count: usize) -> Vec<Vec<u8>> {
    let mut sender = Client { stream: client.stream.try_clone().unwrap(), buffer: Vec::new() };
    std::thread::scope(|scope| {
        scope.spawn(move || sender.send(bytes));
        replies(client, count)
    })
}

/// An array reply with its elements in byte order.
pub fn sorted(array: &[u8]) -> Vec<u8> {
    let mut at = array.iter().position(|&byte| byte == b'\n').unwrap() + 1;
    let mut sorted = array[..at].to_vec();
    let mut elements = Vec::new();
    while let Some(len) = reply_len(&array[at..]) {
        elements.push(&array[at..at + len]);
        at += len;
    }
    elements.sort_unstable();
    sorted.extend(elements.concat());
    sorted
}

/// A numeric field of INFO.
pub fn info(client: &mut Client, field: &str) -> u64 {
    let text = String::from_utf8(ask(client, &["INFO"])).unwrap();
    let value = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    value.unwrap_or_else(|| panic!("no {field} in {text}")).parse().unwrap()
}

/// What a server has read from its sockets, to wait until it has read more.
pub struct Received(u64);

impl Received {
    pub fn so_far(watcher: &mut Client) -> Self {
        Self(info(watcher, "total_net_input_bytes"))
    }

    /// Returns when the server has read `bytes` more, those of the watcher not counted.
    pub fn wait_for(mut self, bytes: usize, watcher: &mut Client) {
        let question = request(&["INFO"]).len() as u64;
        wait_until("the server does not read what was sent", || {
            self.0 += question;
            info(watcher, "total_net_input_bytes") >= self.0 + bytes as u64
        });
    }
}

/// Resident memory of the server, in bytes.
pub fn rss(server: &Server) -> u64 {
    memory(server, "VmRSS:")
}

/// The most it has ever had.
pub fn peak_rss(server: &Server) -> u64 {
    memory(server, "VmHWM:")
}

/// How many bytes the peak has grown since it was `before`. The kernel counts resident pages approximately, and
/// after the peak was read it may show a little less.
pub fn peak_growth(server: &Server, before: u64) -> u64 {
    peak_rss(server).saturating_sub(before)
}

fn memory(server: &Server, field: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", server.process.id())).unwrap();
    let kib = status.lines().find_map(|line| line.strip_prefix(field)?.trim().strip_suffix(" kB"));
    kib.unwrap().parse::<u64>().unwrap() << 10
}

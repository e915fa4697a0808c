//! Clients that write until the server is gone, and the look at what they left.

use crate::{
    history::{History, State},
    support::{Client, Server, request},
};
use rand::{Rng, rngs::StdRng};
use redis_protocol::resp2::types::OwnedFrame;
use std::{
    collections::VecDeque,
    io::Write,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::Duration,
};

/// Requests of one client that wait for their replies.
const DEPTH: usize = 8;

/// Runs all histories against `server`, and `end`s it once `enough` writes are acknowledged.
pub fn write_until(
    server: Server,
    histories: &mut [History],
    rngs: &mut [StdRng],
    enough: usize,
    end: impl FnOnce(Server),
) {
    let acknowledged = AtomicUsize::new(0);
    thread::scope(|scope| {
        let mut clients = Vec::new();
        for (history, rng) in histories.iter_mut().zip(rngs) {
            let client = server.connect();
            let acknowledged = &acknowledged;
            clients.push(scope.spawn(move || write(client, history, rng, acknowledged)));
        }
        while acknowledged.load(Ordering::Relaxed) < enough {
            assert!(!clients.iter().any(|client| client.is_finished()), "a client ended before the server");
            thread::sleep(Duration::from_millis(1));
        }
        end(server);
    });
}

/// Writes with [`DEPTH`] requests under way until the connection breaks.
fn write(mut client: Client, history: &mut History, rng: &mut StdRng, acknowledged: &AtomicUsize) {
    let mut expected = VecDeque::new();
    loop {
        let mut bytes = Vec::new();
        while expected.len() < DEPTH {
            let next = history.send(rng);
            bytes.extend(request(&next.args));
            expected.push_back(next.expected);
        }
        if client.stream.write_all(&bytes).is_err() {
            return;
        }
        for _ in 0..rng.random_range(1..=DEPTH) {
            let Ok(reply) = client.try_reply() else { return };
            assert_eq!(Some(reply), expected.pop_front());
            history.acknowledged += 1;
            acknowledged.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// What the store holds of the keys of `history`.
pub fn look(client: &mut Client, history: &History) -> State {
    let mut state = State::new();
    for keys in history.keys().chunks(64) {
        let mut args = vec!["MGET"];
        args.extend(keys.iter().map(String::as_str));
        let OwnedFrame::Array(values) = client.call(&args) else { panic!("no array for {args:?}") };
        assert_eq!(values.len(), keys.len());
        for (key, value) in keys.iter().zip(values) {
            match value {
                OwnedFrame::BulkString(value) => drop(state.insert(key.clone(), value)),
                OwnedFrame::Null => {}
                other => panic!("{key}: {other:?}"),
            }
        }
    }
    state
}

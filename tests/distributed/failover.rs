//! A node is lost.

use crate::{
    cluster::{self, alone, prefix, serve},
    support::{Client, PATIENCE},
};
use redis_protocol::resp2::types::{OwnedFrame, Resp2Frame};
use std::{
    collections::HashMap,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// What one client knows of the keys that it writes.
#[derive(Default)]
struct Known {
    /// The last value of each key that was acknowledged.
    acknowledged: HashMap<String, u64>,
    /// Values whose writes were answered by an error: each may be there or not.
    unsure: HashMap<String, Vec<u64>>,
    /// Increments of the client's own counter that were acknowledged, and those of which nothing is known.
    increments: (i64, i64),
    errors: Vec<String>,
}

fn is_ok(reply: &OwnedFrame) -> bool {
    matches!(reply, OwnedFrame::SimpleString(word) if word == b"OK")
}

/// What goes on around the clients. Times are milliseconds since the begin.
struct Run {
    begin: Instant,
    stop: AtomicBool,
    /// When the node was killed; 0 before.
    killed: AtomicU64,
    /// When the first write was acknowledged that was sent after that.
    back: AtomicU64,
}

impl Run {
    fn now(&self) -> u64 {
        self.begin.elapsed().as_millis() as u64
    }

    fn note(&self, sent: u64) {
        let killed = self.killed.load(Ordering::Relaxed);
        if killed > 0 && sent > killed {
            self.back.fetch_min(self.now(), Ordering::Relaxed);
        }
    }
}

/// Writes ever higher values, now and then to a new key, until it is told to stop.
fn write(mut client: Client, name: usize, run: &Run) -> Known {
    let mut known = Known::default();
    for value in 1_u64.. {
        if run.stop.load(Ordering::Relaxed) {
            break;
        }
        let (key, sent) = (format!("{name}:{}", value / 20), run.now());
        let reply = client.call(&["SET", &key, &value.to_string()]);
        match &reply {
            reply if is_ok(reply) => {
                known.unsure.remove(&key);
                known.acknowledged.insert(key, value);
                run.note(sent);
            }
            OwnedFrame::Error(error) => {
                known.unsure.entry(key).or_default().push(value);
                known.errors.push(error.to_string());
            }
            reply => panic!("{reply:?}"),
        }
        match client.call(&["INCR", &format!("counter:{name}")]) {
            OwnedFrame::Integer(_) => known.increments.0 += 1,
            OwnedFrame::Error(error) => {
                known.increments.1 += i64::from(!error.contains("nothing was written"));
                known.errors.push(error.to_string());
            }
            reply => panic!("{reply:?}"),
        }
    }
    known
}

#[test]
fn nothing_acknowledged_is_lost_with_a_node() {
    const CLIENTS: usize = 20;
    let _nodes = alone();
    let prefix = prefix("failover");
    let (one, other) = (serve(&prefix), serve(&prefix));
    let run = Run {
        begin: Instant::now(),
        stop: AtomicBool::new(false),
        killed: AtomicU64::new(0),
        back: AtomicU64::new(u64::MAX),
    };
    let known = Mutex::new(Vec::new());
    let (node, pause) = thread::scope(|scope| {
        for name in 0..CLIENTS {
            let client = if name % 2 == 0 { one.connect() } else { other.connect() };
            let (known, run) = (&known, &run);
            scope.spawn(move || {
                let found = write(client, name, run);
                known.lock().unwrap().push((name, found));
            });
        }
        // They are told to stop also when something here fails.
        let _stop = Stop(&run.stop);
        thread::sleep(Duration::from_secs(2));
        let node = cluster::leader(&prefix);
        cluster::tool(&["kill", &node]);
        let killed = run.now();
        run.killed.store(killed, Ordering::Relaxed);
        while run.back.load(Ordering::Relaxed) == u64::MAX {
            assert!(run.begin.elapsed() < PATIENCE, "no write is acknowledged again");
            thread::sleep(Duration::from_millis(10));
        }
        let pause = run.back.load(Ordering::Relaxed) - killed;
        thread::sleep(Duration::from_secs(2));
        (node, pause)
    });
    let known = known.into_inner().unwrap();
    let mut client = one.connect();
    let mut lost = Vec::new();
    for (key, value) in known.iter().flat_map(|(_, known)| &known.acknowledged) {
        let found = client.call(&["GET", key]);
        let found: u64 = found.as_str().and_then(|text| text.parse().ok()).unwrap_or(0);
        let unsure = known.iter().find_map(|(_, known)| known.unsure.get(key));
        if found != *value && !unsure.is_some_and(|unsure| unsure.contains(&found)) {
            lost.push(format!("{key}: {value} was acknowledged, {found} is there"));
        }
    }
    for (name, Known { increments: (sure, unsure), .. }) in &known {
        let found = client.call(&["GET", &format!("counter:{name}")]);
        let found: i64 = found.as_str().and_then(|text| text.parse().ok()).unwrap_or(0);
        if !(*sure..=sure + unsure).contains(&found) {
            lost.push(format!(
                "counter:{name}: {sure} were acknowledged, {unsure} are not known, {found} is there"
            ));
        }
    }
    let errors: Vec<_> = known.iter().flat_map(|(_, known)| &known.errors).collect();
    let written: usize = known.iter().map(|(_, known)| known.acknowledged.len()).sum();
    println!(
        "node {node} killed: {written} keys, {} lost, {} writes answered by an error, writes acknowledged again after {pause} ms",
        lost.len(),
        errors.len()
    );
    if let Some(error) = errors.first() {
        println!("such as: {error}");
    }
    cluster::tool(&["start", &node]);
    assert_eq!(lost, Vec::<String>::new());
    assert!(written > CLIENTS, "too few writes to tell anything");
    let is_clear = |error: &&&String| error.contains("tikv") && error.starts_with("ERR ");
    assert!(errors.iter().all(|error| is_clear(&error)), "{errors:?}");
}

struct Stop<'s>(&'s AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

//! A node is lost.

use crate::{
    cluster::{self, CLUSTER, alone, prefix, serve},
    support::{Client, PATIENCE},
};
use redis_protocol::resp2::types::{OwnedFrame, Resp2Frame};
use std::{
    collections::HashMap,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
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
    /// Values of which the error said that nothing was written.
    refused: HashMap<String, Vec<u64>>,
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
    /// Clients of which a write was acknowledged that was sent after that.
    returned: AtomicUsize,
    /// When the last of them returned.
    back: AtomicU64,
}

impl Run {
    fn now(&self) -> u64 {
        self.begin.elapsed().as_millis() as u64
    }

    /// Whether a write was sent after the node was killed.
    fn is_after(&self, sent: u64) -> bool {
        let killed = self.killed.load(Ordering::Relaxed);
        killed > 0 && sent > killed
    }

    fn note_return(&self) {
        self.back.fetch_max(self.now(), Ordering::Relaxed);
        self.returned.fetch_add(1, Ordering::Relaxed);
    }
}

/// Writes ever higher values, now and then to a new key, until it is told to stop. Where there are slots, all its keys
/// are in one.
fn write(mut client: Client, name: usize, run: &Run) -> Known {
    let mut known = Known::default();
    let mut has_returned = false;
    for value in 1_u64.. {
        if run.stop.load(Ordering::Relaxed) {
            break;
        }
        let (key, sent) = (format!("{{{name}}}:{}", value / 20), run.now());
        let reply = client.call(&["SET", &key, &value.to_string()]);
        match &reply {
            reply if is_ok(reply) => {
                known.unsure.remove(&key);
                known.acknowledged.insert(key, value);
                if !has_returned && run.is_after(sent) {
                    has_returned = true;
                    run.note_return();
                }
            }
            OwnedFrame::Error(error) => {
                let is_refused = error.contains("nothing was written");
                let values = if is_refused { &mut known.refused } else { &mut known.unsure };
                values.entry(key).or_default().push(value);
                known.errors.push(error.to_string());
            }
            reply => panic!("{reply:?}"),
        }
        match client.call(&["INCR", &format!("counter:{{{name}}}")]) {
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

/// What is there, in the end, of what clients know.
#[derive(Default)]
struct Found {
    /// What was acknowledged and is not there.
    lost: Vec<String>,
    /// What was refused or never sent and is there.
    extra: Vec<String>,
}

fn compare(client: &mut Client, known: &[(usize, Known)]) -> Found {
    let mut all = Found::default();
    let mut number = |key: &str| -> u64 {
        let found = client.call(&["GET", key]);
        found.as_str().and_then(|text| text.parse().ok()).unwrap_or(0)
    };
    for (name, known) in known {
        for (key, value) in &known.acknowledged {
            let found = number(key);
            let has =
                |values: &HashMap<String, Vec<u64>>| values.get(key).is_some_and(|all| all.contains(&found));
            if found != *value && !has(&known.unsure) {
                all.lost.push(format!("{key}: {value} was acknowledged, {found} is there"));
            }
            if has(&known.refused) {
                all.extra.push(format!(
                    "{key}: {found} is there, of which the error said that nothing was written"
                ));
            }
        }
        let ((sure, unsure), found) = (known.increments, number(&format!("counter:{{{name}}}")) as i64);
        let counts =
            format!("counter:{name}: {sure} were acknowledged, {unsure} are not known, {found} is there");
        if found < sure {
            all.lost.push(counts);
        } else if found > sure + unsure {
            all.extra.push(counts);
        }
    }
    all
}

/// Redis Cluster copies writes to replicas after they were acknowledged: there the losses are printed.
#[test]
fn nothing_acknowledged_is_lost_with_a_node() {
    const CLIENTS: usize = 20;
    let _nodes = alone();
    cluster::await_replicas();
    let prefix = prefix("failover");
    let (one, other) = (serve(&prefix), serve(&prefix));
    let run = Run {
        begin: Instant::now(),
        stop: AtomicBool::new(false),
        killed: AtomicU64::new(0),
        returned: AtomicUsize::new(0),
        back: AtomicU64::new(0),
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
        let node = cluster::a_leader(&prefix);
        cluster::tool(&["kill", &node]);
        let killed = run.now();
        run.killed.store(killed, Ordering::Relaxed);
        while run.returned.load(Ordering::Relaxed) < CLIENTS {
            assert!(run.begin.elapsed() < PATIENCE, "some clients cannot write again");
            thread::sleep(Duration::from_millis(10));
        }
        let pause = run.back.load(Ordering::Relaxed) - killed;
        thread::sleep(Duration::from_secs(2));
        (node, pause)
    });
    let known = known.into_inner().unwrap();
    let Found { lost, extra } = compare(&mut one.connect(), &known);
    let errors: Vec<_> = known.iter().flat_map(|(_, known)| &known.errors).collect();
    let written: usize = known.iter().map(|(_, known)| known.acknowledged.len()).sum();
    println!(
        "node {node} killed: {written} keys, {} lost, {} writes answered by an error, all clients write again after {pause} ms",
        lost.len(),
        errors.len()
    );
    if let Some(error) = errors.first() {
        println!("such as: {error}");
    }
    cluster::tool(&["start", &node]);
    cluster::await_replicas();
    for words in &lost {
        println!("{words}");
    }
    assert!(lost.is_empty() || CLUSTER.has_slots(), "{lost:?}");
    assert_eq!(extra, Vec::<String>::new());
    assert!(written > CLIENTS, "too few writes to tell anything");
    let is_clear = |error: &&&String| error.contains(CLUSTER.name()) && error.starts_with("ERR ");
    assert!(errors.iter().all(|error| is_clear(&error)), "{errors:?}");
}

struct Stop<'s>(&'s AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

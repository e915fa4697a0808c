//! WATCH and EXEC of several connections that change each other's keys.

use super::{Redis, ask_all, compare_one, deadlines::compare_contents, seeds, stream::Stream};
use crate::{every_store::on_every_store, frames::replies};

/// Steps of one seed.
const STEPS: usize = 1500;

/// What is asked in most steps: few keys, so that connections meet, and mostly right, so that transactions are done.
const USUAL: &[&str] = &[
    "WATCH k1",
    "WATCH k1 k2",
    "WATCH none k1 k2 k3",
    "UNWATCH",
    "MULTI",
    "MULTI",
    "MULTI",
    "EXEC",
    "EXEC",
    "EXEC",
    "DISCARD",
    "RESET",
    "SELECT 0",
    "SELECT 1",
    "SWAPDB 0 1",
    "FLUSHDB",
    "FLUSHALL",
    "SET k1 v",
    "SETNX k1 v",
    "INCR k2",
    "APPEND k3 x",
    "DEL k1",
    "DEL none",
    "EXPIRE k2 1000000",
    "PERSIST k2",
    "RENAME k1 k2",
    "COPY k2 k3 REPLACE",
    "MOVE k1 1",
    "GETDEL k2",
    "GET k1",
    "MGET k1 k2 k3",
];

#[test]
fn transactions_meet_writes_of_others_as_in_redis() {
    let redis = Redis::start();
    on_every_store(|running| {
        let (mut done, mut undone) = (0, 0);
        for seed in seeds() {
            println!("KVBENCH_SEED={seed}");
            let mut pairs = [(); 3].map(|()| [running.connect(), redis.connect()]);
            let mut stream = Stream::new(seed, running.key_limits().is_some());
            ask_all(&mut pairs[0], &["FLUSHALL"]);
            for step in 0..STEPS {
                let pair = &mut pairs[*stream.pick(&[0, 1, 2])];
                let request = if *stream.pick(&[true, true, true, true, true, true, true, false]) {
                    let line = stream.pick(USUAL);
                    stream.whole(line)
                } else {
                    stream.request()
                };
                if request.varies() {
                    continue;
                }
                let [ours, theirs] = pair.each_mut().map(|client| {
                    client.send(&request.bytes);
                    replies(client, 1).remove(0)
                });
                done += usize::from(theirs.starts_with(b"*") && request.command == b"exec");
                undone += usize::from(theirs.starts_with(b"*-1"));
                compare_one(&request, &ours, &theirs, step);
            }
            drop(pairs);
            compare_contents(&mut [running.connect(), redis.connect()]);
        }
        assert!(done > undone && undone > 10, "{done} transactions, {undone} of them undone");
    });
}

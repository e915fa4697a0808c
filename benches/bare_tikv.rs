#![allow(missing_docs, clippy::expect_used, reason = "a failure must stop the benchmark")]
//! Rate of TiKV's own client, with which docs/distributed.md compares kvbench over the same cluster.
//!
//! cargo bench --features tikv --bench bare_tikv -- PD set|get CLIENTS KEYS REQUESTS
//!
//! CLIENTS tasks write KEYS keys in one transaction, or read them in one call, as a connection with pipelines of KEYS
//! requests does. Keys and values are those of `redis-benchmark -d 64 -r 100000`.

use rand::{Rng, SeedableRng, rngs::SmallRng};
use std::{env, time::Instant};
use tikv_client::{CheckLevel, TransactionClient, TransactionOptions};

fn key(random: &mut SmallRng) -> Vec<u8> {
    format!("bare/key:{:012}", random.random_range(0..100_000)).into()
}

async fn work(client: TransactionClient, writes: bool, seed: u64, keys: usize, turns: usize) {
    let (mut random, value) = (SmallRng::seed_from_u64(seed), vec![b'x'; 64]);
    let options = || TransactionOptions::new_optimistic().drop_check(CheckLevel::None);
    for _ in 0..turns {
        let keys: Vec<_> = (0..keys).map(|_| key(&mut random)).collect();
        if !writes {
            let now = client.current_timestamp().await.expect("a timestamp");
            let pairs = client.snapshot(now, options()).batch_get(keys).await.expect("values");
            drop(pairs.collect::<Vec<_>>());
            continue;
        }
        // Another task may have written one of the keys.
        loop {
            let mut transaction = client.begin_with_options(options()).await.expect("a transaction");
            for key in &keys {
                transaction.put(key.clone(), value.clone()).await.expect("room in memory");
            }
            if transaction.commit().await.is_ok() {
                break;
            }
            drop(transaction.rollback().await);
        }
    }
}

fn main() {
    let args: Vec<_> = env::args().filter(|arg| arg != "--bench").collect();
    let [_, pd, mode, numbers @ ..] = args.as_slice() else {
        eprintln!("usage: bare_tikv PD set|get CLIENTS KEYS REQUESTS");
        std::process::exit(2);
    };
    let number = |index: usize| numbers.get(index).and_then(|text| text.parse().ok()).expect("a number");
    let (clients, keys, requests): (usize, usize, usize) = (number(0), number(1), number(2));
    let (writes, turns) = (mode == "set", requests / clients / keys);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("threads").block_on(async {
        let client = TransactionClient::new(vec![pd.clone()]).await.expect("a cluster");
        let begin = Instant::now();
        let tasks: Vec<_> = (0..clients)
            .map(|task| tokio::spawn(work(client.clone(), writes, task as u64, keys, turns)))
            .collect();
        for task in tasks {
            task.await.expect("no panic");
        }
        let rate = (clients * keys * turns) as f64 / begin.elapsed().as_secs_f64();
        println!("bare {mode} clients={clients} keys={keys} {rate:.0} keys/s");
    });
}

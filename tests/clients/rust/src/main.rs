//! Sessions of redis-rs and fred with a server: session PORT... Ends with a panic at a wrong reply.

mod fred_client;
mod redis_rs;

use std::env;

/// A key and value of every byte.
fn every_byte() -> Vec<u8> {
    (0..=255).collect()
}

fn complete() -> bool {
    env::var_os("COMPLETE").is_some()
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    for port in env::args().skip(1).map(|port| port.parse().expect("a port")) {
        for resp3 in [false, true] {
            redis_rs::sync(port, resp3);
            runtime.block_on(redis_rs::tokio(port, resp3));
            runtime.block_on(fred_client::session(port, resp3));
        }
    }
    println!("done");
}

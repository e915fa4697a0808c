//! The cluster under test.

use crate::support::Server;
use std::{
    env,
    io::{Read, Write},
    net::TcpStream,
    process::Command,
    sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

/// A test that kills a node runs alone.
static NODES: RwLock<()> = RwLock::new(());

/// For a test that leaves the nodes alone.
pub fn shared() -> RwLockReadGuard<'static, ()> {
    NODES.read().unwrap_or_else(PoisonError::into_inner)
}

/// For a test that kills one.
pub fn alone() -> RwLockWriteGuard<'static, ()> {
    NODES.write().unwrap_or_else(PoisonError::into_inner)
}

/// Its placement drivers, as `--pd` takes them.
pub fn pd() -> String {
    env::var("KVBENCH_PD").expect("KVBENCH_PD=HOST:PORT,... names the cluster for this test")
}

/// A server over the cluster.
pub fn serve(prefix: &str) -> Server {
    let directory = tempfile::tempdir().unwrap();
    Server::start(directory.path(), &["--store", "tikv", "--pd", &pd(), "--prefix", prefix])
}

/// A prefix that no other test has.
pub fn prefix(test: &str) -> String {
    let directory = tempfile::tempdir().unwrap();
    format!("{test}-{}/", directory.path().file_name().unwrap().display())
}

/// What the placement driver says: a page of its interface.
fn ask(path: &str) -> serde_json::Value {
    let pd = pd();
    let address = pd.split(',').next().unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET /pd/api/v1/{path} HTTP/1.0\r\nHost: {address}\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    serde_json::from_str(body).unwrap()
}

/// The number, in `tools/cluster`, of the node that leads the range with `key`.
pub fn leader(key: &str) -> String {
    // TiKV writes a key in groups of eight bytes, each with a byte behind it that tells how many count.
    let mut encoded = String::new();
    for group in key.as_bytes().chunks(8) {
        (0..8).for_each(|at| encoded += &format!("%{:02x}", group.get(at).copied().unwrap_or(0)));
        encoded += &format!("%{:02x}", 0xff - (8 - group.len()));
    }
    let store = &ask(&format!("region/key/{encoded}"))["leader"]["store_id"];
    let store = ask(&format!("store/{store}"));
    let address = store["store"]["address"].as_str().unwrap();
    address.strip_prefix("127.0.0.1:2016").expect("a node of tools/cluster").to_owned()
}

/// `tools/cluster tikv` with these words.
pub fn tool(words: &[&str]) {
    let tool = concat!(env!("CARGO_MANIFEST_DIR"), "/tools/cluster");
    let status = Command::new(tool).arg("tikv").args(words).status().unwrap();
    assert!(status.success(), "{tool} tikv {words:?}: {status}");
}

//! The cluster under test.

use crate::support::{Client, KVBENCH, PATIENCE, Server};
use kvbench::engine::{DISTRIBUTED, Kind};
use redis_protocol::resp2::types::Resp2Frame;
use std::{
    env,
    io::{Read, Seek, Write},
    net::{SocketAddr, TcpStream},
    process::Command,
    sync::{LazyLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
    thread,
    time::{Duration, Instant},
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

/// A kind of cluster that can be under test.
pub struct Cluster {
    pub kind: &'static Kind,
    /// The variable of the environment that has its nodes.
    variable: &'static str,
    /// The flag that takes them.
    flag: &'static str,
}

/// The one whose nodes the environment has.
pub static CLUSTER: LazyLock<Cluster> = LazyLock::new(|| {
    let all = DISTRIBUTED.iter().map(|kind| match kind.info.capabilities.hash_slots {
        true => Cluster { kind, variable: "KVBENCH_NODES", flag: "--nodes" },
        false => Cluster { kind, variable: "KVBENCH_PD", flag: "--pd" },
    });
    let mut given = all.filter(|cluster| env::var_os(cluster.variable).is_some());
    given.next().expect("KVBENCH_PD or KVBENCH_NODES, HOST:PORT,..., names the cluster for this test")
});

impl Cluster {
    pub fn name(&self) -> &'static str {
        self.kind.info.name
    }

    /// Whether it is a Redis Cluster.
    pub fn has_slots(&self) -> bool {
        self.kind.info.capabilities.hash_slots
    }

    fn nodes(&self) -> String {
        env::var(self.variable).unwrap()
    }

    /// The arguments of a server over it.
    pub fn arguments(&self, prefix: &str) -> Vec<String> {
        ["--store", self.name(), self.flag, &self.nodes(), "--prefix", prefix].map(String::from).into()
    }
}

/// A server over the cluster.
pub fn serve(prefix: &str) -> Server {
    let directory = tempfile::tempdir().unwrap();
    let arguments = CLUSTER.arguments(prefix);
    Server::start(directory.path(), &arguments.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Returns the error of a server with these arguments that does not start, or nothing if it serves.
pub fn refusal(arguments: &[String]) -> Option<String> {
    let mut errors = tempfile::tempfile().unwrap();
    let mut command = Command::new(KVBENCH);
    command.args(arguments).stderr(errors.try_clone().unwrap());
    Server::try_start_command(&mut command).err()?;
    let mut words = String::new();
    errors.rewind().unwrap();
    errors.read_to_string(&mut words).unwrap();
    Some(words)
}

/// A prefix that no other test has.
pub fn prefix(test: &str) -> String {
    let directory = tempfile::tempdir().unwrap();
    format!("{test}-{}/", directory.path().file_name().unwrap().display())
}

/// What the placement driver says: a page of its interface.
fn ask(path: &str) -> serde_json::Value {
    serde_json::from_str(&exchange("GET", path, "")).unwrap()
}

/// Sends a request to the placement driver's interface, and returns the body of the reply.
fn exchange(method: &str, path: &str, body: &str) -> String {
    let (nodes, length) = (CLUSTER.nodes(), body.len());
    let address = nodes.split(',').next().unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!("{method} /pd/api/v1/{path} HTTP/1.0\r\nHost: {address}\r\nContent-Length: {length}");
    write!(stream, "{head}\r\n\r\n{body}").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split_once("\r\n\r\n").unwrap().1.into()
}

/// Returns the addresses of the placement driver and the nodes of a TiKV cluster.
#[cfg(feature = "tikv")]
pub fn machines() -> Vec<SocketAddr> {
    let stores = ask("stores");
    let stores = stores["stores"].as_array().unwrap().iter();
    let stores = stores.map(|store| store["store"]["address"].as_str().unwrap().to_owned());
    let pd = CLUSTER.nodes().split(',').map(String::from).collect::<Vec<_>>();
    pd.into_iter().chain(stores).map(|address| address.parse().unwrap()).collect()
}

/// A connection to a node, if it runs.
fn node(address: SocketAddr) -> Option<Client> {
    TcpStream::connect(address).ok().map(|_| Client::connect(address))
}

/// Connections to the masters of a Redis Cluster, each with the node's number in `tools/cluster` and its name.
pub fn masters() -> Vec<(u16, String, Client)> {
    let nodes = CLUSTER.nodes();
    let seed = nodes.split(',').find_map(|seed| node(seed.parse().unwrap()));
    let reply = seed.expect("a node of KVBENCH_NODES runs").call(&["CLUSTER", "NODES"]);
    let is_master = |line: &&str| line.contains("master") && !line.contains("fail");
    let lines = reply.as_str().unwrap().lines().filter(is_master);
    let known = lines.filter_map(|line| {
        let words: Vec<_> = line.split([' ', '@']).collect();
        let address: SocketAddr = words[1].parse().unwrap();
        Some((address.port() - 17_000, words[0].to_owned(), node(address)?))
    });
    known.collect()
}

/// Waits until each master of a Redis Cluster has a replica that has its data: no other can take over.
pub fn await_replicas() {
    let begin = Instant::now();
    let has_replica = |client: &mut Client| {
        let reply = client.call(&["INFO", "replication"]);
        reply.as_str().unwrap().contains("state=online")
    };
    let are_whole = || {
        let mut masters = masters();
        masters.len() >= 3 && masters.iter_mut().all(|(_, _, client)| has_replica(client))
    };
    while CLUSTER.has_slots() && !are_whole() {
        assert!(begin.elapsed() < PATIENCE, "a master has no replica");
        thread::sleep(Duration::from_millis(100));
    }
}

/// The number, in `tools/cluster`, of a node whose loss stops writes below `prefix`.
pub fn a_leader(prefix: &str) -> String {
    if CLUSTER.has_slots() { masters()[0].0.to_string() } else { leader(prefix) }
}

/// The number, in `tools/cluster`, of the node that leads the range with `key`.
fn leader(key: &str) -> String {
    let store = &region(key)["leader"]["store_id"];
    let store = ask(&format!("store/{store}"));
    let address = store["store"]["address"].as_str().unwrap();
    address.strip_prefix("127.0.0.1:2016").expect("a node of tools/cluster").to_owned()
}

/// Has two regions of a TiKV cluster of `tools/cluster` have the keys with `prefix`, and returns a key of each. `client`
/// writes them.
#[cfg(feature = "tikv")]
pub fn split(prefix: &str, client: &mut Client) -> [String; 2] {
    // A region is divided in the middle of its keys, and needs more than 1,024 of them for that.
    let keys: Vec<_> = (0..3000).map(|number| format!("{number:04}")).collect();
    for some in keys.chunks(1000) {
        let pairs = some.iter().flat_map(|key| [key.as_str(), "v"]);
        let reply = client.call(&[&["MSET"][..], &pairs.collect::<Vec<_>>()].concat());
        assert_eq!(reply.as_str(), Some("OK"), "{reply:?}");
    }
    let (begin, first, last) = (Instant::now(), &keys[0], &keys[keys.len() - 1]);
    let id = |key: &str| region(&format!("{prefix}{key}"))["id"].as_u64().unwrap();
    while id(first) == id(last) {
        assert!(begin.elapsed() < PATIENCE, "the region is not divided");
        let operator = serde_json::json!({"name": "split-region", "region_id": id(first), "policy": "scan"});
        exchange("POST", "operators", &operator.to_string());
        thread::sleep(Duration::from_millis(500));
    }
    [first.clone(), last.clone()]
}

/// Returns what the placement driver knows of the region with `key`.
fn region(key: &str) -> serde_json::Value {
    // TiKV writes a key in groups of eight bytes, each with a byte behind it that tells how many count.
    let mut encoded = String::new();
    for group in key.as_bytes().chunks(8) {
        (0..8).for_each(|at| encoded += &format!("%{:02x}", group.get(at).copied().unwrap_or(0)));
        encoded += &format!("%{:02x}", 0xff - (8 - group.len()));
    }
    ask(&format!("region/key/{encoded}"))
}

/// `tools/cluster` of the cluster with these words.
pub fn tool(words: &[&str]) {
    let tool = concat!(env!("CARGO_MANIFEST_DIR"), "/tools/cluster");
    let status = Command::new(tool).arg(CLUSTER.name()).args(words).status().unwrap();
    assert!(status.success(), "{tool} {} {words:?}: {status}", CLUSTER.name());
}

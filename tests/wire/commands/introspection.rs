//! What clients ask about the server and about their connection.

use super::{expect, wire};
use crate::{
    every_store::{in_memory, on_every_store},
    frames::{ask, replies},
};
use kvbench::{command::table, engine::Kind};

fn text(reply: Vec<u8>) -> String {
    String::from_utf8(reply).unwrap()
}

#[test]
fn hello_answers_in_redis_order() {
    let running = in_memory(&[]);
    let mut client = running.connect();
    let id = text(ask(&mut client, &["CLIENT", "ID"]));
    let fields = |proto| {
        format!(
            "$6\nserver\n$5\nredis\n$7\nversion\n$6\n7.0.15\n$5\nproto\n:{proto}\n$2\nid\n{}\n\
             $4\nmode\n$10\nstandalone\n$4\nrole\n$6\nmaster\n$7\nmodules\n*0",
            id.trim_end()
        )
    };
    expect(&mut client, &["HELLO"], &format!("*14\n{}", fields(2)));
    expect(&mut client, &["HELLO", "3"], &format!("%7\n{}", fields(3)));
    expect(&mut client, &["HELLO"], &format!("%7\n{}", fields(3)));
    let words = ["hello", "2", "auth", "default", "any", "setname", "me"];
    expect(&mut client, &words, &format!("*14\n{}", fields(2)));
    expect(&mut client, &["CLIENT", "GETNAME"], "$2\nme");
}

#[test]
fn client_ids_ascend_and_client_info_tells_what_was_set() {
    let running = in_memory(&[]);
    let mut clients = [running.connect(), running.connect()];
    let ids = clients.each_mut().map(|client| {
        let reply = text(ask(client, &["CLIENT", "ID"]));
        reply[1..].trim_end().parse::<u64>().unwrap()
    });
    assert!(ids[0] < ids[1]);
    let client = &mut clients[1];
    expect(client, &["CLIENT", "SETNAME", "me"], "+OK");
    expect(client, &["CLIENT", "SETINFO", "lib-name", "mylib"], "+OK");
    expect(client, &["CLIENT", "SETINFO", "LIB-VER", "1.2"], "+OK");
    let address = client.stream.local_addr().unwrap();
    let info = text(ask(client, &["CLIENT", "INFO"]));
    for field in [
        format!("id={} ", ids[1]),
        format!("addr={address} "),
        format!("laddr={} ", running.server.address),
        "name=me ".into(),
        "lib-name=mylib ".into(),
        "lib-ver=1.2\n".into(),
        "resp=2 ".into(),
    ] {
        assert!(info.contains(&field), "{field} in {info}");
    }
    ask(client, &["HELLO", "3"]);
    let info = text(ask(client, &["CLIENT", "INFO"]));
    assert!(info.starts_with('=') && info.contains("\r\ntxt:id=") && info.contains(" resp=3 "), "{info}");
}

#[test]
fn info_has_redis_sections_and_what_is_true() {
    on_every_store(|running| {
        let mut client = running.connect();
        expect(&mut client, &["MSET", "a", "1", "b", "2", "c", "3"], "+OK");
        let info = text(ask(&mut client, &["INFO"]));
        let expected = [
            "# Server",
            "redis_version:7.0.15",
            "redis_mode:standalone",
            &format!("store:{}", running.store),
            &format!("process_id:{}", running.server.process.id()),
            &format!("tcp_port:{}", running.server.address.port()),
            "# Clients",
            "connected_clients:1",
            "# Memory",
            "# Persistence",
            "loading:0",
            "fsync:no",
            "writes_refused:0",
            "# Stats",
            "total_connections_received:1",
            "total_commands_processed:2",
            "# Replication",
            "role:master",
            "# Keyspace",
        ];
        let mut lines = info.split("\r\n");
        for line in expected {
            assert!(lines.any(|other| other == line), "{line}, in this order, in {info}");
        }
        let counts = Kind::find(running.store).unwrap().info.capabilities.constant_count;
        assert_eq!(lines.next(), Some(if counts { "db0:keys=3,expires=0,avg_ttl=0" } else { "" }), "{info}");
    });
}

#[test]
fn info_gives_the_sections_that_are_asked_for() {
    let running = in_memory(&[]);
    let mut client = running.connect();
    let mut sections = |words: &[&str]| {
        let info = text(ask(&mut client, &[&["INFO"], words].concat()));
        info.lines().filter_map(|line| line.strip_prefix("# ").map(String::from)).collect::<Vec<_>>()
    };
    let all = sections(&[]);
    let default = [
        "Server",
        "Clients",
        "Memory",
        "Persistence",
        "Stats",
        "Replication",
        "CPU",
        "Modules",
        "Errorstats",
        "Cluster",
        "Keyspace",
    ];
    assert_eq!(all, default);
    assert_eq!(sections(&["DEFAULT"]), default);
    for word in ["all", "Everything"] {
        let all = sections(&[word]);
        assert_eq!(all.len(), default.len() + 2);
        assert!(all.contains(&"Commandstats".into()) && all.contains(&"Latencystats".into()), "{all:?}");
    }
    assert_eq!(sections(&["server"]), ["Server"]);
    assert_eq!(sections(&["KEYSPACE", "clients"]), ["Clients", "Keyspace"]);
    assert!(sections(&["nosuch"]).is_empty());
    expect(&mut client, &["INFO", "cluster"], "$30\n# Cluster\ncluster_enabled:0\n");
    ask(&mut client, &["HELLO", "3"]);
    expect(&mut client, &["INFO", "cluster"], "=34\ntxt:# Cluster\ncluster_enabled:0\n");
}

#[test]
fn command_describes_the_table() {
    let running = in_memory(&[]);
    let mut client = running.connect();
    let count = table().count();
    expect(&mut client, &["COMMAND", "COUNT"], &format!(":{count}"));
    for words in [&["COMMAND"][..], &["command", "info"]] {
        let all = ask(&mut client, words);
        assert!(all.starts_with(&wire(&format!("*{count}"))));
    }
    // What is told of each is compared with redis-server in the differential tests.
    let get = text(ask(&mut client, &["COMMAND", "INFO", "GET"]));
    let get = get.strip_prefix("*1\r\n").unwrap().replace("\r\n", "\n");
    expect(&mut client, &["COMMAND", "INFO", "GET", "nosuch"], &format!("*2\n{get}$-1"));
    let docs =
        "$3\nget\n*6\n$7\nsummary\n$23\nGet the value of a key.\n$5\nsince\n$5\n1.0.0\n$5\ngroup\n$6\nstring";
    expect(&mut client, &["COMMAND", "DOCS", "get", "nosuch"], &format!("*2\n{docs}"));
    ask(&mut client, &["HELLO", "3"]);
    let get = text(ask(&mut client, &["COMMAND", "INFO", "Get"]));
    let get = get.strip_prefix("*1\r\n").unwrap().replace("\r\n", "\n");
    expect(&mut client, &["COMMAND", "INFO", "Get", "nosuch"], &format!("*2\n{get}_"));
    let docs = docs.replace("*6", "%3");
    expect(&mut client, &["COMMAND", "DOCS", "GET"], &format!("%1\n{docs}"));
    // Docs of everything: a map of as many pairs, and nothing after it.
    client.send("COMMAND DOCS\r\nPING\r\n");
    let replies = replies(&mut client, 2);
    assert!(replies[0].starts_with(&wire(&format!("%{count}"))));
    assert_eq!(replies[1], b"+PONG\r\n");
}

#[test]
fn config_get_takes_several_patterns() {
    let running = in_memory(&["--maxclients", "123"]);
    let mut client = running.connect();
    expect(&mut client, &["CONFIG", "GET", "maxclients"], "*2\n$10\nmaxclients\n$3\n123");
    expect(
        &mut client,
        &["config", "get", "MAXCL*", "append[of]*", "save", "save", "nosuch"],
        "*8\n$11\nappendfsync\n$2\nno\n$10\nappendonly\n$2\nno\n$10\nmaxclients\n$3\n123\n$4\nsave\n$0\n",
    );
    let all = text(ask(&mut client, &["CONFIG", "GET", "*"]));
    for name in ["store", "path", "port", "threads", "unixsocket"] {
        assert!(all.contains(&format!("\r\n{name}\r\n")), "{name} in {all}");
    }
}

//! Every command of the table: replies in both protocols, names in any case, and what is refused.

mod introspection;
mod keys;
mod script;

use crate::{
    every_store::{in_memory, on_every_store},
    frames::ask,
    support::{Client, request},
};
use kvbench::command::table;

/// Text of a script to bytes of the wire: `\n` stands for CRLF, also after the last line.
fn wire(text: &str) -> Vec<u8> {
    format!("{text}\n").replace('\n', "\r\n").into_bytes()
}

pub fn expect(client: &mut Client, words: &[&str], reply: &str) {
    client.send(request(words));
    println!("{words:?}");
    client.expect(wire(reply));
}

/// The connection still answers, and nothing else was waiting.
fn expect_alive(client: &mut Client) {
    client.send("PING\r\n");
    client.expect("+PONG\r\n");
}

#[test]
fn too_few_and_too_many_arguments_are_refused_in_redis_words() {
    let running = in_memory(&[]);
    let mut client = running.connect();
    for spec in table() {
        let refusal = match spec.name {
            "exec" => {
                "-EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command"
                    .into()
            }
            name => format!("-ERR wrong number of arguments for '{name}' command"),
        };
        let required = spec.arity.unsigned_abs() as usize;
        let mut words = vec![spec.name; required - 1];
        if !words.is_empty() {
            expect(&mut client, &words, &refusal);
        }
        if spec.arity > 0 {
            words.resize(required + 1, spec.name);
            expect(&mut client, &words, &refusal);
        }
        for subcommand in spec.subcommands {
            let refusal = format!("-ERR wrong number of arguments for '{}' command", subcommand.name);
            let required = subcommand.arity.unsigned_abs() as usize;
            let mut words = vec![spec.name, subcommand.word()];
            words.resize(required + 1, "x");
            if subcommand.arity > 0 {
                expect(&mut client, &words, &refusal);
            }
            words.truncate(required - 1);
            if words.len() > 1 {
                expect(&mut client, &words, &refusal);
            }
        }
    }
    expect_alive(&mut client);
}

/// What a command finds out about its arguments by itself.
const REFUSED: &[(&str, &str)] = &[
    ("ping a b", "-ERR wrong number of arguments for 'ping' command"),
    ("mset a 1 b", "-ERR wrong number of arguments for 'mset' command"),
    ("set k v ex", "-ERR syntax error"),
    ("set k v nx xx", "-ERR syntax error"),
    ("set k v ex 0", "-ERR invalid expire time in 'set' command"),
    ("flushdb bogus", "-ERR syntax error"),
    ("flushdb async sync", "-ERR syntax error"),
    ("shutdown bogus", "-ERR syntax error"),
    ("bitfield k set u8 4294967296 1", "-ERR bit offset is not an integer or out of range"),
    // Its second byte would be the first one above 512 MiB.
    ("bitfield k set u16 4294967288 1", "-ERR bit offset is not an integer or out of range"),
    ("bitfield k set i64 #67108864 1", "-ERR bit offset is not an integer or out of range"),
    ("keys * bogus", "-ERR wrong number of arguments for 'keys' command"),
    ("keys * limit", "-ERR syntax error"),
    ("keys * limit x", "-ERR value is not an integer or out of range"),
    ("keys * limit -1", "-ERR LIMIT can't be negative"),
    ("incrby k 1.5", "-ERR value is not an integer or out of range"),
    ("incrby k 9223372036854775808", "-ERR value is not an integer or out of range"),
    ("decrby k -9223372036854775808", "-ERR decrement would overflow"),
    ("select 16", "-ERR DB index is out of range"),
    ("select -1", "-ERR DB index is out of range"),
    ("select x", "-ERR value is not an integer or out of range"),
    ("hello 4", "-NOPROTO unsupported protocol version"),
    ("hello 1", "-NOPROTO unsupported protocol version"),
    ("hello x", "-ERR Protocol version is not an integer or out of range"),
    ("hello 3 bogus", "-ERR Syntax error in HELLO option 'bogus'"),
    ("hello 3 auth default", "-ERR Syntax error in HELLO option 'auth'"),
    ("hello 3 setname", "-ERR Syntax error in HELLO option 'setname'"),
    ("hello 3 auth nobody x", "-WRONGPASS invalid username-password pair or user is disabled."),
    ("client maint_notifications on", "-ERR unknown subcommand 'maint_notifications'. Try CLIENT HELP."),
    ("client setinfo bogus x", "-ERR Unrecognized option 'bogus'"),
    (
        "config set maxmemory 1",
        "-ERR CONFIG SET failed (possibly related to argument 'maxmemory') - can't set immutable config",
    ),
    ("lpush k v", "-ERR unknown command 'lpush': kvbench has strings and keys, and no lists"),
    ("httl h FIELDS 1 f", "-ERR unknown command 'httl': kvbench has strings and keys, and no hashes"),
    (
        "HPEXPIRE h 1 FIELDS 1 f",
        "-ERR unknown command 'HPEXPIRE': kvbench has strings and keys, and no hashes",
    ),
    ("EVAL return 0", "-ERR unknown command 'EVAL': kvbench has strings and keys, and no scripts"),
    ("JSON.SET a b", "-ERR unknown command 'JSON.SET': kvbench has strings and keys, and no modules"),
    ("command bogus", "-ERR unknown subcommand 'bogus'. Try COMMAND HELP."),
    ("nosuch", "-ERR unknown command 'nosuch', with args beginning with: "),
    ("NoSuch a b", "-ERR unknown command 'NoSuch', with args beginning with: 'a' 'b' "),
    ("gett k", "-ERR unknown command 'gett', with args beginning with: 'k' "),
];

#[test]
fn bad_arguments_get_an_error_and_the_connection_lives() {
    on_every_store(|running| {
        let mut client = running.connect();
        for (words, reply) in REFUSED {
            let words: Vec<_> = words.split(' ').collect();
            expect(&mut client, &words, reply);
            expect_alive(&mut client);
        }
        expect(&mut client, &["DBSIZE"], ":0");
        // A refused HELLO left the protocol as it was.
        expect(&mut client, &["GET", "k"], "$-1");
    });
}

#[test]
fn a_name_with_a_space_is_no_client_name() {
    let running = in_memory(&[]);
    let mut client = running.connect();
    let refusal = "-ERR Client names cannot contain spaces, newlines or special characters.";
    for name in ["a b", "a\nb", "\u{e4}", "a\u{7f}"] {
        expect(&mut client, &["CLIENT", "SETNAME", name], refusal);
        expect(&mut client, &["HELLO", "3", "SETNAME", name], refusal);
    }
    expect(&mut client, &["CLIENT", "GETNAME"], "$-1");
    let refusal = "-ERR lib-ver cannot contain spaces, newlines or special characters.";
    expect(&mut client, &["CLIENT", "SETINFO", "LIB-VER", "1 2"], refusal);
}

#[test]
fn long_names_and_arguments_are_quoted_in_part_and_on_one_line() {
    let running = in_memory(&[]);
    let mut client = running.connect();
    let (long, quoted) = ("x".repeat(200), "x".repeat(128));
    let reply = format!("-ERR unknown command '{quoted}', with args beginning with: '{quoted}' ");
    expect(&mut client, &[&long, &long, &long], &reply);
    let reply = "-ERR unknown command 'a  b', with args beginning with: 'c d' ";
    expect(&mut client, &["a\r\nb", "c\nd"], reply);
    let reply = format!("-ERR unknown subcommand '{quoted}'. Try CLIENT HELP.");
    expect(&mut client, &["client", &long], &reply);
}

#[test]
fn numbers_that_are_none_or_overflow_stay_as_they_are() {
    on_every_store(|running| {
        let mut client = running.connect();
        let not_an_integer = "-ERR value is not an integer or out of range";
        for value in ["", "x", " 1", "1 ", "+1", "01", "-0", "1.0", "9223372036854775808"] {
            expect(&mut client, &["SET", "n", value], "+OK");
            for words in [&["INCR", "n"][..], &["DECR", "n"], &["INCRBY", "n", "2"], &["DECRBY", "n", "2"]] {
                expect(&mut client, words, not_an_integer);
            }
            let kept = format!("${}\n{value}", value.len());
            expect(&mut client, &["GET", "n"], &kept);
        }
        let overflow = "-ERR increment or decrement would overflow";
        expect(&mut client, &["SET", "n", "9223372036854775806"], "+OK");
        expect(&mut client, &["INCR", "n"], ":9223372036854775807");
        expect(&mut client, &["INCR", "n"], overflow);
        expect(&mut client, &["DECRBY", "n", "-1"], overflow);
        expect(&mut client, &["SET", "n", "-9223372036854775807"], "+OK");
        expect(&mut client, &["DECR", "n"], ":-9223372036854775808");
        expect(&mut client, &["DECR", "n"], overflow);
        expect(&mut client, &["GET", "n"], "$20\n-9223372036854775808");
    });
}

#[test]
fn quit_is_answered_and_closes_and_what_follows_is_not_run() {
    on_every_store(|running| {
        let mut client = running.connect();
        client.send("SET k v\r\nQUIT\r\nSET k w\r\n");
        client.expect("+OK\r\n+OK\r\n");
        client.expect_closed();
        assert_eq!(ask(&mut running.connect(), &["GET", "k"]), b"$1\r\nv\r\n");
    });
}

#[test]
fn a_pipeline_changes_protocol_where_hello_stands() {
    let running = in_memory(&[]);
    let mut client = running.connect();
    client.send("GET x\r\nHELLO 3\r\nGET x\r\nHELLO 2\r\nGET x\r\n");
    let replies = crate::frames::replies(&mut client, 5);
    assert_eq!(replies[0], b"$-1\r\n");
    assert!(replies[1].starts_with(b"%7\r\n"));
    assert_eq!(replies[2], b"_\r\n");
    assert!(replies[3].starts_with(b"*14\r\n"));
    assert_eq!(replies[4], b"$-1\r\n");
}

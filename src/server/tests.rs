//! What a worker does itself, and what it leaves to other threads.

use super::exchange::{Exchange, Run};
use crate::{
    command::Commands,
    engine::{Batch, Compression, Engine, Fsync, Kind, Location, OpenOptions, ReadAhead},
    resp::{Decoder, Limits},
    store::Store,
};

fn in_memory() -> Box<dyn Engine> {
    let options = OpenOptions {
        location: Location::Memory,
        fsync: Fsync::No,
        cache_size: 0,
        map_size: 0,
        read_ahead: ReadAhead::Auto,
        max_files: u64::MAX,
        compression: Compression::None,
    };
    Kind::find("map").unwrap().open(&options).unwrap()
}

#[test]
fn a_worker_copies_no_long_replies() {
    const LONG: usize = 3 << 20;
    let engine = in_memory();
    let mut batch = Batch::default();
    batch.put(b"short", b"value");
    let long = vec![b'v'; LONG];
    batch.put(b"long", &long);
    engine.write(&batch, false).unwrap();
    let store = Store::new(engine, Fsync::No);

    let mut exchange = Exchange::new();
    exchange.input.extend(b"GET short\r\nMGET short short long\r\nGET short\r\n");
    let mut decoder = Decoder::new(Limits::default());
    decoder.decode(&mut exchange.input, &mut exchange.requests).unwrap();
    exchange.resolve(&Commands::without(&[]));
    assert!(matches!(exchange.next_run(), Some(Run::Read)));
    let short = b"$5\r\nvalue\r\n";
    assert_eq!(exchange.read_on_worker(&store), (1, true));
    assert_eq!(exchange.reply.bytes(), short);
    // The long one, whose reply is sent before the next is made.
    assert_eq!(exchange.read(&store), 1);
    assert_eq!(exchange.reply.len(), LONG + short.len() * 3 + b"*3\r\n".len() + b"$3145728\r\n\r\n".len());
    exchange.reply.truncate(0);
    assert!(matches!(exchange.next_run(), Some(Run::Read)));
    assert_eq!(exchange.read_on_worker(&store), (1, false));
    assert_eq!(exchange.reply.bytes(), short);
    assert!(exchange.next_run().is_none());
}

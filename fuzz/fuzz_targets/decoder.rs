//! The request decoder takes any bytes, in any pieces, without a panic; the pieces do not matter; and
//! what it accepts as RESP, `redis-protocol` reads the same way.
#![no_main]

use kvbench::resp::{Decoder, Input, Limits, Requests};
use libfuzzer_sys::fuzz_target;
use redis_protocol::resp2::{decode::decode, types::OwnedFrame};

type Request = Vec<Vec<u8>>;

fn requests(bytes: &[u8], piece: usize) -> (Vec<Request>, bool) {
    let mut decoder = Decoder::new(Limits::default());
    let (mut input, mut batch, mut all) = (Input::with_capacity(16), Requests::default(), Vec::new());
    for piece in bytes.chunks(piece) {
        input.extend(piece);
        let outcome = decoder.decode(&mut input, &mut batch);
        for index in 0..batch.len() {
            let args = batch.get(index, input.bytes()).expect("decoded");
            all.push(args.from(0).map(<[u8]>::to_vec).collect());
        }
        if outcome.is_err() {
            return (all, true);
        }
        decoder.retire(&mut input, &mut batch);
    }
    (all, false)
}

fn encode(request: &Request) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", request.len()).into_bytes();
    for arg in request {
        bytes.extend(format!("${}\r\n", arg.len()).bytes());
        bytes.extend_from_slice(arg);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

fuzz_target!(|data: &[u8]| {
    let Some((&piece, bytes)) = data.split_first() else { return };
    let whole = requests(bytes, bytes.len().max(1));
    assert_eq!(requests(bytes, usize::from(piece).max(1)), whole);
    for request in &whole.0 {
        let bytes = encode(request);
        assert_eq!(requests(&bytes, bytes.len()).0, [request.clone()]);
        let (frame, len) = decode(&bytes).expect("valid").expect("complete");
        assert_eq!(len, bytes.len());
        let OwnedFrame::Array(args) = frame else { panic!("not an array") };
        for (theirs, ours) in args.iter().zip(request) {
            assert!(matches!(theirs, OwnedFrame::BulkString(bytes) if bytes == ours));
        }
    }
});

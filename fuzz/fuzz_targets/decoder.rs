//! The request decoder takes any bytes, in any pieces, without a panic; the pieces do not matter; and
//! what it accepts as RESP, `redis-protocol` reads the same way, as it was sent and as it is encoded again.
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

/// The number of bytes of what asks for nothing: an array without elements.
fn empty_array(bytes: &[u8]) -> Option<usize> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    let count: i64 = str::from_utf8(bytes.get(1..end)?).ok()?.trim_end().parse().ok()?;
    (count <= 0).then_some(end + 1)
}

/// `redis-protocol` finds the same requests in the same bytes, up to the first that is no array.
fn compare(mut bytes: &[u8], requests: &[Request]) {
    for request in requests {
        while bytes.starts_with(b"*") && let Some(length) = empty_array(bytes) {
            bytes = &bytes[length..];
        }
        if !bytes.starts_with(b"*") {
            return;
        }
        let (frame, length) = decode(bytes).expect("valid").expect("complete");
        let OwnedFrame::Array(args) = frame else { panic!("not an array") };
        assert!(is(&args, request), "{args:?} is not {request:?}");
        bytes = &bytes[length..];
    }
}

fn is(args: &[OwnedFrame], request: &Request) -> bool {
    let is_word = |(theirs, ours): (&OwnedFrame, &Vec<u8>)| matches!(theirs, OwnedFrame::BulkString(bytes) if bytes == ours);
    args.len() == request.len() && args.iter().zip(request).all(is_word)
}

fuzz_target!(|data: &[u8]| {
    let Some((&piece, bytes)) = data.split_first() else { return };
    let whole = requests(bytes, bytes.len().max(1));
    assert_eq!(requests(bytes, usize::from(piece).max(1)), whole);
    compare(bytes, &whole.0);
    for request in &whole.0 {
        let bytes = encode(request);
        assert_eq!(requests(&bytes, bytes.len()).0, [request.clone()]);
        let (frame, len) = decode(&bytes).expect("valid").expect("complete");
        assert_eq!(len, bytes.len());
        let OwnedFrame::Array(args) = frame else { panic!("not an array") };
        assert!(is(&args, request));
    }
});

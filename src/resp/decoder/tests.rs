use super::super::{Input, Requests};
use super::*;
use proptest::prelude::*;
use redis_protocol::resp2::types::Resp2Frame;

type Request = Vec<Vec<u8>>;

/// Decodes `pieces` one by one, as if each were a read of a socket. Returns the arguments of every request, and the
/// error.
fn decode(pieces: &[&[u8]], limits: Limits) -> (Vec<Request>, Option<ProtocolError>) {
    let (mut input, mut requests, mut decoder) =
        (Input::with_capacity(8), Requests::default(), Decoder::new(limits));
    let mut all = Vec::new();
    for piece in pieces {
        input.extend(piece);
        loop {
            let outcome = decoder.decode(&mut input, &mut requests);
            let decoded = requests.len();
            for index in 0..decoded {
                let args = requests.get(index, input.bytes()).unwrap();
                all.push(args.from(0).map(<[u8]>::to_vec).collect());
            }
            if let Err(error) = outcome {
                return (all, Some(error));
            }
            decoder.retire(&mut input, &mut requests);
            if decoded < limits.batch {
                break;
            }
        }
    }
    (all, None)
}

fn whole(bytes: &[u8]) -> (Vec<Request>, Option<ProtocolError>) {
    decode(&[bytes], Limits::default())
}

fn encode(requests: &[Request]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for request in requests {
        bytes.extend(format!("*{}\r\n", request.len()).bytes());
        for arg in request {
            bytes.extend(format!("${}\r\n", arg.len()).bytes());
            bytes.extend(arg);
            bytes.extend(b"\r\n");
        }
    }
    bytes
}

const MIXED: &[u8] = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$12\r\nhello\r\nworld\r\n\r\n\r\nPING\r\n*0\r\n*-1\r\n*1\r\n$0\r\n\r\nget \"a b\"\n";

#[test]
fn pipelined_and_inline_requests() {
    let (requests, error) = whole(MIXED);
    assert_eq!(error, None);
    assert_eq!(
        requests,
        [
            vec![b"SET".to_vec(), b"k".to_vec(), b"hello\r\nworld".to_vec()],
            vec![b"PING".to_vec()],
            vec![b"".to_vec()],
            vec![b"get".to_vec(), b"a b".to_vec()],
        ]
    );
}

#[test]
fn split_at_every_pair_of_bytes() {
    let expected = whole(MIXED);
    // Miri is too slow to try every position.
    let step = if cfg!(miri) { 17 } else { 1 };
    for first in (0..=MIXED.len()).step_by(step) {
        for second in (first..=MIXED.len()).step_by(step) {
            let pieces = [&MIXED[..first], &MIXED[first..second], &MIXED[second..]];
            assert_eq!(decode(&pieces, Limits::default()), expected, "at {first} and {second}");
        }
    }
    let bytes: Vec<&[u8]> = MIXED.chunks(1).collect();
    assert_eq!(decode(&bytes, Limits::default()), expected);
}

#[test]
fn a_batch_is_bounded_and_the_rest_follows() {
    let limits = Limits { batch: 2, ..Limits::default() };
    assert_eq!(decode(&[&b"PING\r\n".repeat(5)], limits).0.len(), 5);
}

#[test]
fn errors_come_after_the_requests_before_them() {
    for (bytes, expected) in [
        (&b"*x\r\n"[..], ProtocolError::Count),
        (b"*01\r\n", ProtocolError::Count),
        (b"*\r\n", ProtocolError::Count),
        (b"*1\rX", ProtocolError::Count),
        (b"*2147483648\r\n", ProtocolError::Count),
        (b"*1\r\n+PING\r\n", ProtocolError::NotBulk(b'+')),
        (b"*1\r\n$-1\r\n", ProtocolError::Length),
        (b"*1\r\n$04\r\n", ProtocolError::Length),
        (b"*1\r\n$536870913\r\n", ProtocolError::Length),
        (b"*1\r\n$4\r\nPINGxx", ProtocolError::NoCrlf),
        (b"\"abc\r\n", ProtocolError::Quotes),
    ] {
        let (requests, error) = whole(&[b"PING\r\n", bytes].concat());
        assert_eq!((requests.len(), error), (1, Some(expected)), "{:?}", bytes.escape_ascii().to_string());
    }
}

#[test]
fn lines_are_bounded() {
    let digits = [b'1'; 70_000];
    assert_eq!(whole(&[b"*", &digits[..]].concat()).1, Some(ProtocolError::CountTooLong));
    assert_eq!(whole(&[b"*1\r\n$", &digits[..]].concat()).1, Some(ProtocolError::LengthTooLong));
    assert_eq!(whole(&[b'x'; 70_000]).1, Some(ProtocolError::InlineTooLong));
    assert_eq!(whole(&[b'x'; 65_536]).1, None);
}

/// Limits that are lowered, as by RESET, hold for the request that has begun, too.
#[test]
fn lowered_limits_hold_for_the_incomplete_request() {
    use ProtocolError::{CountBeforeAuth, LengthBeforeAuth, QueryTooLong};
    let low = Limits { query_buffer: 1000, ..Limits::default().before_auth() };
    for (begun, expected) in [
        (&b"*12\r\n$4\r\nECHO\r\n"[..], Some(CountBeforeAuth)),
        (b"*2\r\n$4\r\nECHO\r\n$16385\r\nx", Some(LengthBeforeAuth)),
        (b"*2\r\n$4\r\nECHO\r\n$16384\r\nx", None),
        (&[&b"*2\r\n$4\r\nECHO\r\n$16384\r\n"[..], &[b'x'; 1000]].concat(), Some(QueryTooLong)),
    ] {
        let (mut input, mut requests) = (Input::with_capacity(8), Requests::default());
        let mut decoder = Decoder::new(Limits::default());
        input.extend(b"PING\r\n");
        input.extend(begun);
        assert_eq!(decoder.decode(&mut input, &mut requests), Ok(()));
        decoder.retire(&mut input, &mut requests);
        decoder.set_limits(low);
        assert_eq!(decoder.decode(&mut input, &mut requests).err(), expected, "{}", begun.escape_ascii());
    }
}

#[test]
fn an_incomplete_request_is_bounded() {
    let limits = Limits { query_buffer: 1000, ..Limits::default() };
    let start = b"*2\r\n$3\r\nGET\r\n$5000\r\n";
    assert_eq!(decode(&[start, &[b'x'; 900]], limits).1, None);
    assert_eq!(decode(&[start, &[b'x'; 1000]], limits).1, Some(ProtocolError::QueryTooLong));
}

fn requests() -> impl Strategy<Value = Vec<Request>> {
    let arg = prop::collection::vec(any::<u8>(), 0..40);
    prop::collection::vec(prop::collection::vec(arg, 1..6), 0..12)
}

/// Returns the number of test cases: few under Miri, proptest's default otherwise.
fn config() -> ProptestConfig {
    if cfg!(miri) { ProptestConfig::with_cases(3) } else { ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn decodes_what_was_encoded_however_it_is_cut(all in requests(), cuts in prop::collection::vec(1usize..60, 0..80)) {
        let bytes = encode(&all);
        let mut pieces = Vec::new();
        let mut rest = &bytes[..];
        for cut in cuts {
            let (piece, tail) = rest.split_at(cut.min(rest.len()));
            pieces.push(piece);
            rest = tail;
        }
        pieces.push(rest);
        prop_assert_eq!(decode(&pieces, Limits::default()), (all, None));
    }

    /// The decoder returns the same requests as `redis-protocol`, an independent parser.
    #[test]
    fn agrees_with_redis_protocol(all in requests()) {
        let bytes = encode(&all);
        let (ours, error) = whole(&bytes);
        prop_assert_eq!(error, None);
        let mut rest = &bytes[..];
        for request in ours {
            let (frame, len) = redis_protocol::resp2::decode::decode(rest).unwrap().unwrap();
            let redis_protocol::resp2::types::OwnedFrame::Array(args) = frame else { panic!("no array") };
            let args: Request = args.iter().map(|arg| arg.as_bytes().unwrap().to_vec()).collect();
            prop_assert_eq!(args, request);
            rest = &rest[len..];
        }
        prop_assert!(rest.is_empty());
    }

    #[test]
    fn garbage_never_panics(pieces in prop::collection::vec(prop::collection::vec(
        prop_oneof![any::<u8>(), prop::sample::select(&b"*$\r\n0123 \"'\\x"[..])], 0..50), 0..10)) {
        let pieces: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
        let (once, error) = decode(&pieces, Limits::default());
        let (again, error_again) = decode(&[&pieces.concat()], Limits::default());
        prop_assert_eq!((once, error), (again, error_again));
    }
}

#![allow(missing_docs, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a benchmark")]
//! The request decoder and the reply encoder beside `redis-protocol`, on the same bytes, and arguments kept as places
//! in the input beside arguments that share it.
//!
//! Every case is checked for its result before it is timed.

#[path = "support/mod.rs"]
mod support;

use bytes::{Bytes, BytesMut};
use criterion::{Criterion, Throughput};
use kvbench::resp::{Decoder, Input, Limits, Reply, Requests};
use redis_protocol::resp2::{
    decode::{decode, decode_range},
    encode::extend_encode,
    types::{BytesFrame, OwnedFrame},
};
use std::{hint::black_box, ops::Range};

/// Requests of one pipeline.
const DEPTH: usize = 256;

/// GETs whose arguments are kept.
const GETS: usize = 16;

fn pipeline(value: usize) -> Vec<u8> {
    let value = "x".repeat(value);
    (0..DEPTH)
        .flat_map(|i| {
            format!("*3\r\n$3\r\nSET\r\n$16\r\nkey:{i:012}\r\n${}\r\n{value}\r\n", value.len()).into_bytes()
        })
        .collect()
}

/// Decodes the whole pipeline as a connection does, and returns the number of arguments.
fn ours(decoder: &mut Decoder, input: &mut Input, requests: &mut Requests, bytes: &[u8]) -> usize {
    input.extend(bytes);
    decoder.decode(input, requests).expect("valid requests");
    let args =
        (0..requests.len()).filter_map(|i| requests.get(i, input.bytes())).map(|args| args.len()).sum();
    decoder.retire(input, requests);
    args
}

fn theirs<F>(
    mut bytes: &[u8],
    decode: impl Fn(&[u8]) -> Option<(F, usize)>,
    args: impl Fn(&F) -> usize,
) -> usize {
    let mut total = 0;
    while let Some((frame, len)) = decode(bytes) {
        total += args(&frame);
        bytes = bytes.get(len..).unwrap_or_default();
    }
    total
}

fn decoding(c: &mut Criterion) {
    for value in [3, 256, 4096] {
        let bytes = pipeline(value);
        let mut group = c.benchmark_group(format!("decode/{DEPTH} SETs of {value} bytes"));
        group.throughput(Throughput::Elements(DEPTH as u64));
        let (mut decoder, mut input, mut requests) =
            (Decoder::new(Limits::default()), Input::with_capacity(bytes.len()), Requests::default());
        assert_eq!(ours(&mut decoder, &mut input, &mut requests, &bytes), 3 * DEPTH);
        group.bench_function("kvbench", |b| {
            b.iter(|| ours(&mut decoder, &mut input, &mut requests, black_box(&bytes)));
        });
        let range = |bytes: &[u8]| decode_range(bytes).ok().flatten();
        let owned = |bytes: &[u8]| decode(bytes).ok().flatten();
        let owned_args = |frame: &OwnedFrame| match frame {
            OwnedFrame::Array(args) => args.len(),
            _ => 0,
        };
        assert_eq!(theirs(&bytes, owned, owned_args), 3 * DEPTH);
        group.bench_function("redis-protocol decode_range", |b| {
            b.iter(|| theirs(black_box(&bytes), range, |_| 3));
        });
        group.bench_function("redis-protocol decode", |b| {
            b.iter(|| theirs(black_box(&bytes), owned, owned_args));
        });
        group.finish();
    }
}

fn encoding(c: &mut Criterion) {
    for len in [3, 256, 4096] {
        let value = vec![b'x'; len];
        let frame = BytesFrame::BulkString(Bytes::from(value.clone()));
        let mut group = c.benchmark_group(format!("encode/{DEPTH} values of {len} bytes"));
        group.throughput(Throughput::Elements(DEPTH as u64));
        let mut reply = Reply::default();
        let mut buffer = BytesMut::new();
        reply.bulk(&value);
        extend_encode(&mut buffer, &frame, false).expect("room");
        assert_eq!(reply.bytes(), &buffer[..]);
        group.bench_function("kvbench", |b| {
            b.iter(|| {
                reply.truncate(0);
                (0..DEPTH).for_each(|_| reply.bulk(black_box(&value)));
                reply.len()
            });
        });
        group.bench_function("redis-protocol", |b| {
            b.iter(|| {
                buffer.clear();
                (0..DEPTH).for_each(|_| {
                    let _ = extend_encode(&mut buffer, black_box(&frame), false);
                });
                buffer.len()
            });
        });
        group.finish();
    }
}

/// Keeps both arguments of each GET as places in the input, reads them, and forgets them. Not inlined, so that
/// callgrind can count it.
#[inline(never)]
fn keep_places(kept: &mut Vec<Range<usize>>, input: &[u8], places: &[Range<usize>]) -> usize {
    kept.extend(places.iter().cloned());
    let read = kept.iter().filter_map(|place| input.get(place.clone())).map(|arg| black_box(arg).len()).sum();
    kept.clear();
    read
}

/// The same with arguments that share the input.
#[inline(never)]
fn keep_bytes(kept: &mut Vec<Bytes>, input: &Bytes, places: &[Range<usize>]) -> usize {
    kept.extend(places.iter().map(|place| input.slice(place.clone())));
    let read = kept.iter().map(|arg| black_box(&arg[..]).len()).sum();
    kept.clear();
    read
}

/// What it costs to keep the arguments of a pipeline until they are answered.
fn keeping(c: &mut Criterion) {
    const REQUEST: &str = "*2\r\n$3\r\nGET\r\n$16\r\nkey:000000000000\r\n";
    let input = Bytes::from(REQUEST.repeat(GETS).into_bytes());
    let starts = (0..GETS).map(|i| i * REQUEST.len());
    let places: Vec<_> = starts.flat_map(|at| [at + 8..at + 11, at + 18..at + 34]).collect();
    assert_eq!(
        (&input[places[0].clone()], &input[places[1].clone()]),
        (&b"GET"[..], &b"key:000000000000"[..])
    );

    let (mut ranges, mut shared) = (Vec::with_capacity(2 * GETS), Vec::with_capacity(2 * GETS));
    assert_eq!(keep_places(&mut ranges, &input, &places), keep_bytes(&mut shared, &input, &places));
    let mut group = c.benchmark_group(format!("keep/{GETS} GETs"));
    group.throughput(Throughput::Elements(GETS as u64));
    group.bench_function("places in the input", |b| {
        b.iter(|| keep_places(&mut ranges, black_box(&input), black_box(&places)));
    });
    group.bench_function("Bytes", |b| {
        b.iter(|| keep_bytes(&mut shared, black_box(&input), black_box(&places)));
    });
    group.finish();
}

fn main() {
    let mut criterion = support::criterion();
    decoding(&mut criterion);
    encoding(&mut criterion);
    keeping(&mut criterion);
    criterion.final_summary();
}

//! Tests of an AOF with expiration times, whose records need not be adjacent to those of the values.

use super::*;
use crate::engine::key_value_headers;

fn dated(len: usize) -> Vec<u8> {
    let mut value = key_value_headers::value_head(1_999_999_999_999).to_vec();
    value.resize(value.len() + len, b'v');
    value
}

/// Values keep their expiration times in batches of any length, though a replay passes on a limited number of writes
/// at a time, and in a rewritten AOF, which has no groups.
#[test]
fn values_with_deadlines_are_read_from_groups_and_from_a_rewritten_log() {
    let value = dated(5);
    let keys: Vec<_> = (0..200_usize).map(|n| n.to_string().into_bytes()).collect();
    for count in [1, 2, 63, 64, 65, 127, 128, 129, 200] {
        for rewritten in [false, true] {
            let (_dir, path) = scratch();
            let (log, _) = open(&path).unwrap();
            let mut left = keys.iter().take(count);
            if rewritten {
                log.rewrite(|buffer| left.next().map(|key| encode_set(key, &value, buffer)).is_some())
                    .unwrap();
            } else {
                let ops: Vec<_> = left.map(|key| put(key, &value)).collect();
                log.append(&batch(&ops), true, || ()).unwrap();
            }
            drop(log);
            let (_, state) = open(&path).unwrap();
            assert!(keys.iter().take(count).all(|key| state.get(key) == Some(&value)), "{count} {rewritten}");
        }
    }
}

/// A value gets its expiration time also from the next frame, which need not be read yet when the frame of the value
/// ends.
#[test]
fn a_deadline_may_be_in_the_frame_behind_its_value() {
    for pieces in 1..6 {
        let value = dated(pieces * PIECE + 100);
        let mut image = Image::new();
        image.append(&batch(&[put(b"key", &value)]));
        assert_eq!(headers(&image.bytes).len(), 2, "{pieces}");
        assert!(read(&image.bytes).unwrap().1.get(&b"key"[..]) == Some(&value), "{pieces}");
    }
}

/// A value gets its expiration time also if padding is between the two records: padding precedes a record that a
/// kill could tear.
#[test]
fn filler_may_be_between_a_value_and_its_deadline() {
    let pairs: Vec<_> = (0..100_000_usize)
        .map(|n| (n.to_string().into_bytes(), if n % 3 == 0 { dated(n % 97) } else { vec![b'v'; n % 89] }))
        .collect();
    let ops: Vec<_> = pairs.iter().map(|(key, value)| put(key, value)).collect();
    let (chain, begin) = (FrameChain::new(Form::Redis, ID), frame::START as u64);
    let storage = Buffer(Mutex::new(chain.start_line(0).to_vec()));
    let mut appending =
        FrameWriter { storage: &storage, end: begin, chain, synced: begin, over_padding: true };
    appending.write(&batch(&ops), &mut Vec::new(), &mut Vec::new()).unwrap();
    let bytes = storage.0.into_inner().unwrap();
    let between = b"#\n*3\r\n$9\r\nPEXPIREAT\r\n";
    assert!(bytes.windows(between.len()).filter(|window| window == between).count() > 100);
    let (_, state) = read(&bytes).unwrap();
    for (key, value) in &pairs {
        assert!(state.get(key) == Some(value), "{}", key.escape_ascii());
    }
}

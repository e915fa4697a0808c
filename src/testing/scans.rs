//! Tests of scans over key ranges.

use super::engine_case::{Open, for_each};
use crate::engine::{KeyRange, Kind, prefix_end};
use std::{
    collections::BTreeMap,
    ops::Bound::{self, Excluded, Included, Unbounded},
};

const KEYS: [&[u8]; 9] = [&[0], b"a", b"aa", b"ab", b"b", &[0xfe], &[0xff], &[0xff, 0], &[0xff, 0xff]];

fn fill(open: &Open) -> BTreeMap<Vec<u8>, Vec<u8>> {
    open.write(|batch| KEYS.iter().for_each(|key| batch.put(key, key)));
    KEYS.iter().map(|key| (key.to_vec(), key.to_vec())).collect()
}

/// Tests that a scan visits the pairs between its bounds.
pub fn a_scan_visits_the_pairs_between_its_bounds(kind: &'static Kind) {
    for_each(kind, |cell| {
        let open = cell.open();
        let model = fill(&open);
        let mut edges: Vec<&[u8]> = KEYS.to_vec();
        edges.extend([&b""[..], b"a\0", b"ac", b"zzz", &[0xff; 3]]);
        // Longer than the keys of some engines.
        edges.extend([&[b'a'; 70_000][..], &[0xff; 70_000]]);
        let bounds = |edge| [Included(edge), Excluded(edge)];
        let starts: Vec<Bound<&[u8]>> = edges.iter().copied().flat_map(bounds).chain([Unbounded]).collect();
        for &start in &starts {
            for &end in &starts {
                let range = KeyRange { start, end };
                let expected: Vec<_> =
                    model.clone().into_iter().filter(|(key, _)| range.contains(key)).collect();
                assert_eq!(open.scan(range, usize::MAX), expected, "{range:?}");
            }
        }
    });
}

/// Tests that a scan visits the keys with a prefix.
pub fn a_scan_visits_the_keys_of_a_prefix(kind: &'static Kind) {
    for_each(kind, |cell| {
        let open = cell.open();
        fill(&open);
        let prefixes: [(&[u8], &[&[u8]]); 5] = [
            (b"a", &[b"a", b"aa", b"ab"]),
            (b"ab", &[b"ab"]),
            (b"c", &[]),
            (&[0xff], &[&[0xff], &[0xff, 0], &[0xff, 0xff]]),
            (b"", &KEYS),
        ];
        for (prefix, expected) in prefixes {
            let end = prefix_end(prefix);
            let end = end.as_deref().map_or(Unbounded, Excluded);
            let found = open.scan(KeyRange { start: Included(prefix), end }, usize::MAX);
            assert!(found.iter().map(|(key, _)| &key[..]).eq(expected.iter().copied()), "{prefix:?}");
        }
    });
}

/// Tests that a scan stops when the visitor breaks.
pub fn a_scan_stops_when_told(kind: &'static Kind) {
    for_each(kind, |cell| {
        let open = cell.open();
        fill(&open);
        for limit in 1..=KEYS.len() {
            let found = open.scan(KeyRange::ALL, limit);
            assert_eq!(found.len(), limit);
            if cell.kind.info.capabilities.ordered {
                assert!(found.iter().map(|(key, _)| &key[..]).eq(KEYS.iter().copied().take(limit)));
            }
        }
    });
}

/// Tests that a scan of many keys is in order if the engine is ordered.
pub fn a_scan_of_many_keys_is_ordered_where_the_engine_is(kind: &'static Kind) {
    for_each(kind, |cell| {
        let open = cell.open();
        // Multiplication by an odd number permutes 0..2^16.
        let keys: Vec<[u8; 2]> = (0..5000_u16).map(|i| i.wrapping_mul(40_503).to_be_bytes()).collect();
        open.write(|batch| keys.iter().for_each(|key| batch.put(key, b"value")));
        let found = open.all();
        assert_eq!(found.len(), keys.len());
        assert!(found.is_sorted());
        let half = open.scan(KeyRange { start: Included(&[0x80]), end: Unbounded }, usize::MAX);
        assert_eq!(half.len(), keys.iter().filter(|key| key[0] >= 0x80).count());
    });
}

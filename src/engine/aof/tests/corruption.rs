//! Tests of any corruption of an AOF: it opens with everything that it records as durable, or is refused.

use super::*;
use crate::engine::key_value_headers;
use rand::{Rng, SeedableRng, rngs::StdRng};

const SECTOR: usize = 512;

/// Opens `damaged`, a corrupt copy of `image.bytes`, and checks the outcome. Returns `true` if it was refused.
///
/// If it opens, it holds the first batches up to some batch: at least those before the first change, and
/// everything that an unchanged header records as durable. It may be refused only if a durable byte was
/// changed.
fn judge(image: &Image, damaged: &[u8], what: &dyn Fn() -> String) -> bool {
    let changed = damaged.iter().zip(&image.bytes).position(|(one, other)| one != other);
    let changed = changed.unwrap_or(damaged.len().min(image.bytes.len()));
    let is_whole = |at: usize| damaged.get(at..at + HEADER) == Some(&image.bytes[at..at + HEADER]);
    let told = image.headers.iter().filter(|(at, _)| is_whole(*at)).map(|(_, synced)| *synced as usize);
    let told = told.max().unwrap_or_default();
    match read(damaged) {
        Ok((tail, state)) => {
            let (_, expected) = image
                .places
                .iter()
                .rfind(|(end, _)| *end as u64 <= tail.end)
                .unwrap_or_else(|| panic!("{}: cut at {}", what(), tail.end));
            assert!(*expected == state, "{}: no state that there ever was", what());
            assert!(tail.end as usize >= told, "{}: {told} bytes were synced, {} are left", what(), tail.end);
            let untouched = image.places.iter().rfind(|(end, _)| *end <= changed).map_or(0, |place| place.0);
            assert!(tail.end as usize >= untouched, "{}: cut before the damage", what());
            false
        }
        Err(Error::Corrupt { offset, .. }) => {
            assert!(changed < image.synced as usize, "{}: refused for a torn tail", what());
            assert!(offset as usize + HEADER + PIECE >= changed, "{}: named byte {offset}", what());
            true
        }
        // Without frames, one argument of a record may have become another.
        Err(Error::Foreign { .. }) => {
            assert!(changed < image.places[0].0, "{}", what());
            true
        }
        // The format number became a higher one.
        Err(Error::Newer { .. }) => {
            assert_eq!(changed, image.places[0].0 - frame::START + frame::START_TAG.len(), "{}", what());
            true
        }
        Err(error) => panic!("{}: {error}", what()),
    }
}

/// Returns AOFs of all kinds, each with a name and the content that is expected after each batch: with and without a
/// sync marker, with padding, with several frames per batch, behind an AOF of Redis.
fn images() -> Vec<(&'static str, Image)> {
    let synced = Image::synced_sample();
    let mut lacks_sync_marker = Image::new();
    for (index, batch) in sample().iter().enumerate() {
        lacks_sync_marker.append(batch);
        if index == 3 {
            lacks_sync_marker.sync();
        }
    }
    let mut spread = synced.clone();
    for size in [700, 1300, 0, 511] {
        let value = vec![b'v'; size];
        spread.append(&batch(&[put(b"spread", &value), put(b"other", &value)])).sync();
    }
    let mut filled = spread.clone();
    filled.mark();
    filled.bytes.resize(filled.bytes.len() + 600, frame::PADDING);
    let plain = b"*3\r\n$3\r\nSET\r\n$1\r\nr\r\n$5\r\nredis\r\n";
    let mut upgraded = Image::after(plain, pairs(&[("r", "redis")]));
    sample().iter().for_each(|batch| upgraded.append(batch).sync());
    vec![
        ("synced", synced),
        ("lacks_sync_marker", lacks_sync_marker),
        ("spread", spread),
        ("filled", filled),
        ("upgraded", upgraded),
    ]
}

#[test]
fn any_changed_bit_is_refused_or_costs_nothing_that_was_synced() {
    for (name, image) in images() {
        let mut refused = 0;
        for (at, bit) in (0..image.bytes.len()).flat_map(|at| (0..8).map(move |bit| (at, bit))) {
            let mut damaged = image.bytes.clone();
            damaged[at] ^= 1 << bit;
            refused += usize::from(judge(&image, &damaged, &|| format!("{name}: bit {bit} of byte {at}")));
        }
        assert!(refused > image.synced as usize * 4, "{name}: {refused} refused");
    }
}

#[test]
fn any_byte_of_another_value_is_refused_or_costs_nothing_that_was_synced() {
    for (name, image) in images() {
        for (at, value) in
            (0..image.bytes.len()).flat_map(|at| [0, b'#', b'\n', b'0', 0xff].map(|value| (at, value)))
        {
            let mut damaged = image.bytes.clone();
            damaged[at] = value;
            judge(&image, &damaged, &|| format!("{name}: {value} at byte {at}"));
        }
    }
}

/// An AOF that ends with a sync marker is refused if any byte between its first line and the marker was changed; a
/// change of the marker costs nothing.
#[test]
fn in_a_log_that_was_closed_no_changed_byte_costs_anything() {
    let image = Image::synced_sample();
    let whole = &image.places.last().unwrap().1;
    for at in frame::START..image.bytes.len() {
        let mut damaged = image.bytes.clone();
        damaged[at] ^= 4;
        let is_mark = at >= image.bytes.len() - HEADER;
        match read(&damaged) {
            Ok((_, state)) => assert!(is_mark && state == *whole, "byte {at}"),
            Err(_) => assert!(!is_mark, "byte {at}"),
        }
    }
}

#[test]
fn a_log_cut_anywhere_holds_the_batches_before() {
    for (name, image) in images() {
        for cut in 0..=image.bytes.len() {
            let (end, expected) =
                image.places.iter().rfind(|(end, _)| *end <= cut).unwrap_or(&image.places[0]);
            for (blank, length) in [(0, 0), (0, 1), (frame::PADDING, 1), (0, 5000), (frame::PADDING, 5000)] {
                let mut torn = image.bytes[..cut].to_vec();
                torn.resize(cut + length, blank);
                if cut < image.places[0].0 && (name == "upgraded" || blank == frame::PADDING) {
                    continue;
                }
                let (tail, state) = read(&torn).unwrap();
                assert_eq!(&state, expected, "{name}: cut at {cut}");
                assert!(tail.end == 0 || tail.end as usize >= *end, "{name}: cut at {cut}");
            }
        }
    }
}

/// A large value and its expiration time, whose record is on another page, are restored both or not at all after a
/// power cut.
#[test]
fn a_large_value_and_its_deadline_are_kept_or_lost_together() {
    let head = |deadline| key_value_headers::value_head(deadline).to_vec();
    let old = [head(7), b"old".to_vec()].concat();
    for (size, database) in [(4000, 0), (4097, 3), (9000, 0), (PIECE + 100, 3)] {
        let new = [head(1_999_999_999_999), vec![b'v'; size]].concat();
        let key = match database {
            0 => b"key".to_vec(),
            other => [&key_value_headers::key_head(other)[..], b"key"].concat(),
        };
        let mut image = Image::new();
        image.append(&batch(&[put(&key, &old)])).sync();
        let begin = image.bytes.len();
        let end = image.append(&batch(&[put(&key, &new)])).bytes.len();
        let is_near = |at: usize| at - begin < 200 || end - at < 200 || at.is_multiple_of(SECTOR);
        for cut in (begin..end).filter(|at| is_near(*at)) {
            for (blank, length) in [(0, 0), (0, 5000), (frame::PADDING, 5000)] {
                let mut torn = image.bytes[..cut].to_vec();
                torn.resize(cut + length, blank);
                let (_, state) = read(&torn).unwrap();
                assert_eq!(state.get(&key), Some(&old), "{size} bytes, cut {} before the end", end - cut);
            }
            // The reverse case: the end of the batch is intact, and a sector before it is lost.
            let mut torn = image.bytes.clone();
            torn[cut..end.min(cut + SECTOR)].fill(0);
            let (_, state) = read(&torn).unwrap();
            assert_eq!(
                state.get(&key),
                Some(&old),
                "{size} bytes, a sector lost {} before the end",
                end - cut
            );
        }
        assert_eq!(read(&image.bytes).unwrap().1.get(&key), Some(&new));
    }
}

#[test]
fn any_sector_lost_doubled_or_in_anothers_place_is_refused_or_costs_nothing_that_was_synced() {
    for (name, image) in images() {
        let count = image.bytes.len().div_ceil(SECTOR);
        let range = |sector: usize| sector * SECTOR..image.bytes.len().min((sector + 1) * SECTOR);
        for (one, other) in (0..count).flat_map(|one| (0..count).map(move |other| (one, other))) {
            for way in ["zeroed", "filled", "doubled", "swapped", "put in", "taken out"] {
                let mut damaged = image.bytes.clone();
                let length = range(one).len().min(range(other).len());
                let (from, to) = (one * SECTOR, other * SECTOR);
                match way {
                    "zeroed" => damaged[range(one)].fill(0),
                    "filled" => damaged[range(one)].fill(frame::PADDING),
                    "doubled" => damaged.copy_within(from..from + length, to),
                    "swapped" => (0..length).for_each(|at| damaged.swap(from + at, to + at)),
                    "put in" => drop(damaged.splice(to..to, image.bytes[range(one)].to_vec())),
                    _ => drop(damaged.drain(range(one))),
                }
                judge(&image, &damaged, &|| format!("{name}: sector {one} {way}, {other}"));
            }
        }
    }
}

/// An AOF opens with all batches that were synced if any later sectors, which a power cut may lose, are missing.
#[test]
fn unsynced_tail_without_some_sectors_is_cut_off() {
    let mut image = Image::new();
    image.append(&batch(&[put(b"first", &[b'1'; 700])])).sync();
    let synced = image.bytes.len();
    let (a, b) = ([b'a'; 1000], [b'b'; 1500]);
    image.append(&batch(&[put(b"a", &a), put(b"b", &b)])).append(&batch(&[put(b"c", &a)]));
    let sectors: Vec<_> = (synced / SECTOR..image.bytes.len().div_ceil(SECTOR)).collect();
    for lost in 0..1_usize << sectors.len() {
        for blank in [0, frame::PADDING, b'x'] {
            let mut damaged = image.bytes.clone();
            for (bit, sector) in sectors.iter().enumerate().filter(|(bit, _)| lost >> bit & 1 == 1) {
                let end = damaged.len().min((sector + 1) * SECTOR);
                damaged[(sector * SECTOR).max(synced)..end].fill(blank);
                assert!(bit < sectors.len());
            }
            assert!(!judge(&image, &damaged, &|| format!("lost {lost:b}")));
        }
    }
}

/// Returns an AOF of `batches` batches and several MiB, durable at least up to batch number `synced`: with batches
/// of one frame and of many, and records longer than a chunk.
fn large(rng: &mut StdRng, batches: usize, synced: usize) -> Image {
    let mut image = Image::new();
    for number in 0..batches {
        let keys: Vec<_> =
            (0..rng.random_range(1..40u32)).map(|_| rng.random::<u64>().to_be_bytes()).collect();
        let length = match rng.random_range(0..40) {
            0 => rng.random_range(0..3 << 20),
            1..4 => rng.random_range(0..100_000),
            _ => rng.random_range(0..600),
        };
        let value: Vec<u8> = (0..length).map(|at| (at * 31 + number) as u8).collect();
        let count = if length > 100_000 { 1 } else { keys.len() };
        image.append(&batch(&keys[..count].iter().map(|key| put(key, &value)).collect::<Vec<_>>()));
        if number < synced && rng.random_bool(0.3) || number == synced {
            image.sync();
        }
        // Only the states from the last sync on are checked, so earlier ones are not kept.
        let last = image.places.len() - 1;
        image.places.drain(1..last.saturating_sub(batches - synced).max(1));
    }
    image
}

/// An AOF opens with its first batches, at least all synced ones, after what a power cut does to unsynced pages:
/// written in any order, older versions, torn pages.
#[test]
fn a_large_log_whose_unsynced_tail_is_at_random_holds_a_first_part_of_it() {
    for seed in 0..6 {
        let mut rng = StdRng::seed_from_u64(seed);
        let image = large(&mut rng, 60, 40);
        let synced = image.synced as usize;
        for round in 0..40 {
            let mut damaged = image.bytes.clone();
            let length = rng.random_range(synced..=damaged.len());
            if rng.random_bool(0.3) {
                damaged.truncate(length);
            }
            for _ in 0..rng.random_range(1..12) {
                let page = [SECTOR, 4096][rng.random_range(0..2)];
                let begin = (rng.random_range(synced..=damaged.len()) / page * page).max(synced);
                let end = damaged.len().min(begin + page * rng.random_range(1..4));
                match rng.random_range(0..4) {
                    _ if begin >= end => {}
                    0 => damaged[begin..end].fill(0),
                    1 => damaged[begin..end].fill(frame::PADDING),
                    2 => rng.fill(&mut damaged[begin..end]),
                    _ => {
                        let from = rng.random_range(0..begin + 1 - (end - begin).min(begin));
                        damaged.copy_within(from..(from + end - begin).min(begin), begin);
                    }
                }
            }
            assert!(!judge(&image, &damaged, &|| format!("seed {seed}, round {round}")));
        }
    }
}

#[test]
fn a_large_log_with_a_changed_bit_where_it_was_synced_is_refused() {
    for seed in 0..6 {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut image = large(&mut rng, 40, 39);
        image.mark();
        for round in 0..40 {
            let mut damaged = image.bytes.clone();
            let at = rng.random_range(0..damaged.len() - HEADER);
            damaged[at] ^= 1 << rng.random_range(0..8);
            assert!(judge(&image, &damaged, &|| format!("seed {seed}, round {round}, byte {at}")));
        }
    }
}

#[test]
fn log_behind_another_log_is_refused() {
    let one = Image::synced_sample();
    let mut bytes = one.bytes.clone();
    let mut other = Image::new();
    other.chain = FrameChain::new(Form::Redis, 0x0bad_cafe);
    other.bytes = other.chain.start_line(0).to_vec();
    other.append(&batch(&[put(b"k", b"v")]));
    bytes.extend(other.bytes);
    let text = refused(&bytes);
    let expected = format!("LOG is corrupt at byte {}: another log begins here", one.bytes.len());
    assert!(text.starts_with(&expected), "{text}");
}

#[test]
fn a_log_of_a_later_version_is_refused() {
    let mut bytes = Image::synced_sample().bytes;
    bytes[frame::START_TAG.len()] = b'4';
    let text = refused(&bytes);
    assert!(text.contains("a newer version of kvbench (format 4)"), "{text}");
    // A flipped bit must not turn it into a segment.
    bytes[frame::START_TAG.len()] = b'3';
    let text = refused(&bytes);
    assert!(text.contains("the first line of a log is damaged"), "{text}");
}

/// Writes continue behind the end that an open has cut off, for each position where the AOF may be torn.
#[test]
fn a_cut_log_can_be_continued() {
    let (_directory, path) = scratch();
    let image = Image::synced_sample();
    for cut in (0..image.bytes.len()).step_by(7) {
        fs::write(&path, &image.bytes[..cut]).unwrap();
        let (log, mut model) = open(&path).unwrap();
        assert_eq!(model, image.places.iter().rfind(|(end, _)| *end <= cut).unwrap_or(&image.places[0]).1);
        let next = batch(&[put(b"next", b"1"), put(b"and", b"2")]);
        log.append(&next, true, || apply(&mut model, &next)).unwrap();
        drop(log);
        assert_eq!(open(&path).unwrap().1, model, "cut at {cut}");
    }
}

/// Frames that were cut off are not read again if their bytes reappear when the file grows, even if they fit behind
/// the new ones by length.
#[test]
fn frames_of_a_tail_that_was_cut_off_do_not_come_back() {
    let (one, two, other) = (batch(&[put(b"k", b"1")]), batch(&[put(b"k", b"2")]), batch(&[put(b"k", b"3")]));
    let mut before = Image::new();
    before.append(&one).append(&two).append(&one);
    let mut after = Image::new();
    after.append(&one).append(&other);
    let ends = [before.places[2].0, after.places[2].0];
    assert_eq!(ends[0], ends[1], "the frames fit each other's place");
    let bytes = [&after.bytes, &before.bytes[ends[0]..]].concat();
    assert!(headers(&bytes).len() == 3, "the old frame is one by itself");
    let (tail, state) = read(&bytes).unwrap();
    assert_eq!((tail.end as usize, tail.torn), (ends[1], true));
    assert_eq!(state, pairs(&[("k", "3")]));
}

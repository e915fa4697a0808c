//! Tests of the sync markers of an AOF, and of the corruption of durable data that they detect.

use super::*;

/// Changes the bytes of the AOF at `path` with `change`; the AOF must then be refused. Returns the error's text.
fn refused_after(path: &Path, change: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut bytes = fs::read(path).unwrap();
    change(&mut bytes);
    refused(&bytes)
}

fn zero_a_page_of(value: &[u8]) -> impl FnOnce(&mut Vec<u8>) {
    move |bytes| {
        let place = bytes.windows(100).position(|window| window == &value[..100]).unwrap();
        let page = (place + value.len() / 2) / 4096 * 4096;
        bytes[page..page + 4096].fill(0);
    }
}

#[test]
fn a_lost_page_of_a_large_value_is_refused() {
    for length in [2 << 20, 5_000_000, 300_000] {
        let (_directory, path) = scratch();
        let (log, _) = open(&path).unwrap();
        let value = vec![b'v'; length];
        log.append(&batch(&[put(b"large", &value)]), false, || ()).unwrap();
        log.append(&batch(&[put(b"small", b"1")]), true, || ()).unwrap();
        log.close().unwrap();
        let text = refused_after(&path, zero_a_page_of(&value));
        assert!(
            text.contains("the checksum of the records is wrong; it was on stable storage up to"),
            "{text}"
        );
        assert!(text.contains("restore a backup") && text.contains("`kvbench repair LOG`"), "{text}");
    }
}

#[test]
fn a_lost_page_of_a_large_batch_or_of_a_rewritten_log_is_refused() {
    let value = vec![b'v'; 256 << 10];
    let keys: Vec<_> = (0..20u8).map(|key| [key]).collect();
    for rewritten in [false, true] {
        let (_directory, path) = scratch();
        let (log, _) = open(&path).unwrap();
        log.append(&batch(&keys.iter().map(|key| put(key, &value)).collect::<Vec<_>>()), true, || ())
            .unwrap();
        if rewritten {
            let mut left = keys.iter();
            log.rewrite(|buffer| left.next().map(|key| encode_set(key, &value, buffer)).is_some()).unwrap();
        }
        // Neither AOF was closed, but the synced parts are recorded.
        drop(log);
        refused_after(&path, zero_a_page_of(&value));
    }
}

/// A page that was not synced may be missing though later ones were written: then everything from there is cut off.
/// If the page was synced, the AOF is refused.
#[test]
fn a_lost_page_of_what_was_not_synced_is_cut_off_with_all_behind_it() {
    let (_directory, path) = scratch();
    let (log, mut state) = open(&path).unwrap();
    let keys: Vec<_> = (0..400u32).map(u32::to_be_bytes).collect();
    let mut at = Vec::new();
    for (number, key) in keys.iter().enumerate() {
        let batch = batch(&[put(key, &[b'v'; 100])]);
        log.append(&batch, false, || {
            if number < 300 {
                apply(&mut state, &batch)
            }
        })
        .unwrap();
        at.push(log.len());
        if number == 150 {
            log.sync().unwrap();
        }
    }
    drop(log);
    let mut bytes = fs::read(&path).unwrap();
    let page = at[300] as usize / 4096 * 4096;
    bytes[page..page + 4096].fill(0);
    fs::write(&path, &bytes).unwrap();
    let (log, found) = open(&path).unwrap();
    assert!(found.len() > 250 && found.iter().all(|(key, value)| state.get(key) == Some(value)));
    assert!(log.len() as usize <= page && log.len() >= at[250]);
    // The page of the same size is now taken from the synced part.
    let page = at[100] as usize / 4096 * 4096;
    bytes[page..page + 4096].fill(0);
    refused(&bytes);
}

#[test]
fn a_changed_bit_of_any_header_cuts_off_no_batch_that_was_synced() {
    let (_directory, path) = scratch();
    let (log, _) = open(&path).unwrap();
    for number in 0..200u32 {
        log.append(&batch(&[put(&number.to_be_bytes(), b"v")]), true, || ()).unwrap();
    }
    // Reads the file as a kill would leave it, without a close.
    let bytes = fs::read(&path).unwrap();
    let headers = headers(&bytes);
    assert_eq!(headers.len(), 201, "one of each batch and the last mark");
    for (index, (at, _)) in headers[..200].iter().enumerate() {
        let every = if index % 99 < 2 { 1 } else { 97 };
        for bit in (index % every..HEADER * 8).step_by(every) {
            let mut damaged = bytes.clone();
            damaged[at + bit / 8] ^= 1 << (bit % 8);
            let Err(Error::Corrupt { offset, .. }) = read(&damaged) else {
                panic!("bit {bit} of the header at {at}")
            };
            assert_eq!(offset as usize, *at);
        }
    }
}

#[test]
fn a_value_that_holds_frames_is_not_taken_for_what_follows_a_torn_batch() {
    let mut image = Image::new();
    image.append(&batch(&[put(b"k", b"v")])).sync();
    let synced = image.bytes.len();
    // The value holds frames of this AOF, each with the offset that it would have if the torn batch were
    // shorter, and frames of other AOFs.
    let mut value = image.bytes.clone();
    value.extend(image.chain.start_line(0));
    for place in 0..2000 {
        value.extend(FrameChain::new(Form::Redis, ID + 1).sync_marker(synced as u64 + place));
        value.extend(image.chain.sync_marker(place));
    }
    image.append(&batch(&[put(b"last", &value)]));
    let end = image.bytes.len();
    for cut in [end - 1, end - 3000, synced + HEADER + 100, synced + 10] {
        let (tail, state) = read(&image.bytes[..cut]).unwrap();
        assert_eq!((tail.end as usize, state.len()), (synced, 1), "cut at {cut}");
        let mut zeroed = image.bytes.clone();
        zeroed[cut - 10..cut].fill(0);
        let (tail, state) = read(&zeroed).unwrap();
        assert_eq!((tail.end as usize, state.len()), (synced, 1), "zeros before {cut}");
    }
    assert_eq!(read(&image.bytes).unwrap().1.len(), 2);
}

#[test]
fn a_first_batch_that_is_torn_to_zeros_leaves_an_empty_log() {
    let first = Image::new().append(&batch(&[put(b"k", &[b'v'; 1000])])).clone();
    let zeros = [0; 70_000];
    for bytes in [
        // The start line is synced before a batch is written.
        &first.bytes[..frame::START],
        &[&first.bytes[..frame::START], &zeros[..]].concat(),
        // Unless the first start was interrupted before that sync.
        &first.bytes[..frame::START - 1],
        &[&first.bytes[..9], &zeros[..frame::START - 9]].concat(),
        &zeros[..frame::START],
        &zeros[..1],
        b"#",
    ] {
        let (_directory, path) = scratch();
        fs::write(&path, bytes).unwrap();
        assert!(recognise(&path), "{} bytes", bytes.len());
        let (log, mut state) = open(&path).unwrap();
        assert_eq!(state, State::new());
        let batch = batch(&[put(b"k", b"v")]);
        log.append(&batch, true, || apply(&mut state, &batch)).unwrap();
        drop(log);
        assert_eq!(open(&path).unwrap().1, state);
    }
}

#[test]
fn a_damaged_first_line_is_refused_by_its_own_name() {
    let image = Image::synced_sample();
    for at in 0..frame::START {
        let (_directory, path) = scratch();
        let mut bytes = image.bytes.clone();
        bytes[at] ^= 1;
        fs::write(&path, &bytes).unwrap();
        assert!(recognise(&path), "byte {at}");
        let text = refused(&bytes);
        assert!(text.starts_with("LOG is corrupt at byte "), "{text}");
    }
}

/// A sync leaves one sync marker behind the last batch, also if it is repeated, and the next batch overwrites the
/// marker.
#[test]
fn a_sync_leaves_a_mark_that_the_next_batch_goes_over() {
    let (_directory, path) = scratch();
    let (log, mut state) = open(&path).unwrap();
    let next = batch(&[put(b"k", b"v")]);
    log.append(&next, false, || apply(&mut state, &next)).unwrap();
    let len = log.len() as usize;
    assert_eq!(fs::read(&path).unwrap().len(), len);
    for _ in 0..3 {
        log.sync().unwrap();
        let bytes = fs::read(&path).unwrap();
        assert_eq!(bytes.len(), len + HEADER);
        assert_eq!(read(&bytes).unwrap().0.synced, len as u64);
    }
    log.append(&next, false, || ()).unwrap();
    let bytes = fs::read(&path).unwrap();
    assert_eq!(bytes.len() as u64, log.len());
    assert_eq!(headers(&bytes).last().map(|(at, header)| (*at, header.synced as usize)), Some((len, len)));
    drop(log);
    assert_eq!(open(&path).unwrap().1, state);
}

/// An AOF of Redis stays unchanged until the first write, which is appended with a start line and frames.
#[test]
fn a_log_without_frames_gets_them_with_the_first_write() {
    let (_directory, path) = scratch();
    let plain = b"*3\r\n$3\r\nSET\r\n$3\r\nold\r\n$1\r\n1\r\n".as_slice();
    fs::write(&path, plain).unwrap();
    let (log, mut state) = open(&path).unwrap();
    log.close().unwrap();
    assert_eq!(fs::read(&path).unwrap(), plain);
    let (log, _) = open(&path).unwrap();
    let next = batch(&[put(b"new", b"2")]);
    log.append(&next, true, || apply(&mut state, &next)).unwrap();
    let bytes = fs::read(&path).unwrap();
    assert!(bytes.starts_with(plain) && frame::read_start(&bytes[plain.len()..], plain.len() as u64).is_ok());
    // The part before the frames was synced, so a change of it is corruption, not an incomplete write.
    for at in 0..plain.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 2;
        match read(&damaged) {
            Err(Error::Corrupt { .. } | Error::Foreign { .. }) => {}
            Ok((tail, _)) => assert!(tail.end as usize > plain.len(), "byte {at}: cut at {}", tail.end),
            Err(error) => panic!("{error}"),
        }
    }
    drop(log);
    let (log, found) = open(&path).unwrap();
    assert_eq!(found, state);
    let mut left = state.iter();
    log.rewrite(|buffer| left.next().map(|(key, value)| encode_set(key, value, buffer)).is_some()).unwrap();
    log.close().unwrap();
    assert!(fs::read(&path).unwrap().starts_with(frame::START_TAG));
    assert_eq!(open(&path).unwrap().1, state);
}

#[test]
fn a_rewrite_takes_nothing_over_that_is_not_as_it_was_written() {
    let (_directory, path) = scratch();
    let (log, _) = open(&path).unwrap();
    log.append(&batch(&[put(b"a", b"1")]), true, || ()).unwrap();
    let mut steps = 0;
    let result = log.rewrite(|buffer| {
        steps += 1;
        if steps == 1 {
            let before = log.len();
            log.append(&batch(&[put(b"gained", b"value")]), true, || ()).unwrap();
            log.current().storage.write_all_at(b"X", before + HEADER as u64 + 30).unwrap();
        }
        encode_set(b"a", b"1", buffer);
        steps < 2
    });
    assert!(matches!(result, Err(Error::Corrupt { .. })), "{result:?}");
    assert!(!file::rewrite_path(&path).exists());
}

/// Zeros behind the last frame are cut off as an incomplete write, because a lost page may be all zeros; padding
/// alone is no incomplete write.
#[test]
fn zeros_behind_the_last_frame_are_cut_off_as_an_incomplete_write() {
    let image = Image::synced_sample();
    let filler = [frame::PADDING; 700];
    for (behind, torn) in [
        (&b""[..], false),
        (&filler, false),
        (&[0; 700], true),
        (&[&filler[..], &[0]].concat(), true),
        (&[&[0; 5000], &filler[..]].concat(), true),
    ] {
        let (tail, _) = read(&[&image.bytes, behind].concat()).unwrap();
        assert_eq!((tail.end as usize, tail.torn), (image.bytes.len(), torn), "{} bytes", behind.len());
    }
}

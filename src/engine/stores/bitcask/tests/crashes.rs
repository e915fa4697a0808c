//! Tests of kills and power cuts of `bitcask` at any time: what the next start finds.

use super::{
    super::{hint, manifest::MANIFEST, segment::path_of},
    *,
};
use crate::engine::stores::bitcask::segment_hint;

#[test]
fn torn_write_at_the_end_of_the_last_segment_is_cut_off() {
    let mut store = Store::new();
    store.fill(0, FULL + 3, 0);
    let (path, mut states) = (path_of(&store.path(), 2), Vec::new());
    for number in 0..5_u32 {
        states.push((fs::metadata(&path).unwrap().len(), store.model.clone()));
        store.put(&number.to_be_bytes(), &[1; 100]);
    }
    store.shut(false);
    let bytes = fs::read(&path).unwrap();
    for (at, end) in (0..bytes.len()).rev().step_by(11).map(|end| {
        let at = states.iter().rposition(|(len, _)| *len <= end as u64);
        (at, end)
    }) {
        let Some(at) = at else { break };
        fs::write(&path, &bytes[..end]).unwrap();
        assert_eq!(model_after_restart(&store.path()), states[at].1, "cut at {end}");
        // Bytes that never reached the disk may have any content.
        let mut torn = bytes[..end].to_vec();
        torn.resize(bytes.len() + 5000, 0);
        fs::write(&path, &torn).unwrap();
        assert_eq!(model_after_restart(&store.path()), states[at].1, "zeros from {end} on");
    }
}

#[test]
fn incomplete_batch_is_dropped_as_a_whole() {
    let mut store = Store::new();
    store.put(b"a", b"before");
    store.roll();
    store.put(b"b", b"before");
    let path = path_of(&store.path(), 2);
    let (before, len) = (store.model.clone(), fs::metadata(&path).unwrap().len());
    // The batch needs several frames, so that some of them are complete at each cut.
    let large = vec![7; 1 << 20];
    let manifest = store.path().join(MANIFEST);
    let listed = fs::read(&manifest).unwrap();
    let mut batch = Batch::default();
    batch.clear();
    (0..5_u8).for_each(|_| batch.put(b"a", &large));
    batch.delete(b"b");
    store.engine().write(&batch, false).unwrap();
    // The batch was long enough to seal the segment.
    assert_eq!(store.segments(), [1, 2, 3]);
    store.shut(false);
    fs::remove_file(path_of(&store.path(), 3)).unwrap();
    fs::write(&manifest, listed).unwrap();
    let whole = fs::read(&path).unwrap();
    for end in (len as usize..whole.len() - 200).step_by(300_000) {
        fs::write(&path, &whole[..end]).unwrap();
        assert_eq!(model_after_restart(&store.path()), before, "cut at {end}");
    }
    fs::write(&path, &whole).unwrap();
    assert_eq!(model_after_restart(&store.path()), Model::from([(b"a".to_vec(), large)]));
}

/// A start loses nothing after a kill at any step of a merge, nor if a power cut brings back a file that the merge
/// removed.
#[test]
fn kill_at_any_step_of_a_merge_loses_nothing() {
    let mut store = Store::new();
    store.fill(0, FULL * 3, 0);
    store.fill(0, FULL / 2, 1);
    (0..FULL * 3).step_by(5).for_each(|number| store.delete(&number.to_be_bytes()));
    for segment in store.engine().files.segments.sealed() {
        segment_hint::write_hint(&segment).unwrap();
    }
    while store.segments().len() > 1 {
        let path = path_of(&store.path(), store.segments()[0]);
        let files = [path.clone(), hint::path_of(&path)].map(|path| (fs::read(&path).ok(), path));
        // Called before each step of the merge.
        let stop = || {
            assert_eq!(model_after_restart(&store.path()), store.model);
            false
        };
        assert!(store.engine().files.merge_oldest(&stop).unwrap());
        for present in [[true, true], [true, false], [false, true]] {
            for ((bytes, path), _) in files.iter().zip(present).filter(|(_, present)| *present) {
                bytes.iter().for_each(|bytes| fs::write(path, bytes).unwrap());
            }
            assert_eq!(model_after_restart(&store.path()), store.model);
            files.iter().for_each(|(_, path)| drop(fs::remove_file(path)));
        }
        if store.segments().len() == 2 {
            break;
        }
    }
    store.reopen(false);
    store.check();
}

/// A start ignores segment files behind the last one that are empty or incomplete: a full disk, for example, may let a
/// new file be created but not written to.
#[test]
fn empty_segment_at_the_end_is_ignored() {
    for left in [&b""[..], b"#KVBENCH:3:", &[0; 30]] {
        let mut store = Store::new();
        store.fill(0, FULL + 5, 0);
        let last = *store.segments().last().unwrap();
        store.shut(false);
        for id in last + 1..last + 3 {
            fs::write(path_of(&store.path(), id), left).unwrap();
        }
        // Writes continued in the segment before, which is not sealed.
        assert_eq!(model_after_restart(&store.path()), store.model);
        store.open();
        assert_eq!(store.segments().last(), Some(&last));
        store.fill(0, FULL * 2, 1);
        store.reopen(false);
        store.check();
    }
}

#[test]
fn unfinished_or_stray_hint_file_is_removed() {
    let mut store = Store::new();
    store.fill(0, FULL + 5, 0);
    store.shut(true);
    for name in ["0000000001.hint-new", "0000000077.hint"] {
        fs::write(store.path().join(name), b"x").unwrap();
    }
    // Not named after a segment.
    let others = ["0000000001.old.hint", "1.hint", "letter.hint-new", "letter.txt"];
    for name in others {
        fs::write(store.path().join(name), b"Dear reader,").unwrap();
    }
    store.open();
    let mut names = names(&store.path());
    // The background thread may already have written the hint file.
    names.retain(|name| name != "0000000001.hint");
    let mut expected = ["0000000001.segment", "0000000002.segment", "bitcask.lock", MANIFEST].to_vec();
    expected.extend(others);
    expected.sort();
    assert_eq!(names, expected);
    store.check();
}

#[test]
fn writes_continue_after_a_failed_roll() {
    let mut store = Store::new();
    store.fill(0, 5, 0);
    // A directory has the name of the next segment.
    let next = path_of(&store.path(), 2);
    fs::create_dir(&next).unwrap();
    store.fill(0, FULL * 2, 1);
    assert_eq!(store.engine().files.segments.len(), 1);
    store.check();
    fs::remove_dir(&next).unwrap();
    store.fill(0, FULL, 2);
    assert!(store.engine().files.segments.len() > 1);
    store.reopen(false);
    store.check();
}

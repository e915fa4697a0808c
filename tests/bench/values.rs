//! Values are checked as a whole.

use kvbench::bench::{
    data::{Data, Values, generate, keys::Keys},
    result::Size,
};

fn data(size: Size) -> Data {
    Data::Generated(Keys::new(Size::Fixed(16), true), Values::new(size, 5, 1.0))
}

#[test]
fn every_changed_byte_is_noticed() {
    let mut value = Vec::new();
    for length in [1, 3, 7, 8, 9, 100, 5000] {
        let data = data(Size::Fixed(length));
        data.value(7, 3, &mut value);
        assert_eq!(value.len(), length as usize);
        assert!(data.check(7, &value).is_some());
        for place in 0..value.len() {
            value[place] ^= 0x10;
            assert_eq!(data.check(7, &value), None, "byte {place} of {length}");
            value[place] ^= 0x10;
        }
    }
}

#[test]
fn a_value_of_another_key_length_or_seed_is_wrong() {
    let (small, large) = (data(Size::Fixed(100)), data(Size::Fixed(101)));
    let mut value = Vec::new();
    small.value(1, 0, &mut value);
    assert_eq!(small.check(2, &value), None);
    assert_eq!(large.check(1, &value), None);
    assert_eq!(small.check(1, &value[..99]), None);
    assert_eq!(small.check(1, &[]), None);
    let other = Data::Generated(Keys::new(Size::Fixed(16), true), Values::new(Size::Fixed(100), 6, 1.0));
    assert_eq!(other.check(1, &value), None);
}

#[test]
fn versions_differ_and_are_read_back() {
    let data = data(Size::Uniform(8, 300));
    let (mut one, mut two) = (Vec::new(), Vec::new());
    for index in 0..1000 {
        data.value(index, 1, &mut one);
        data.value(index, 2, &mut two);
        assert_ne!(one, two);
        assert_eq!(one.len(), two.len());
        assert_eq!((data.check(index, &one), data.check(index, &two)), (Some(1), Some(2)));
    }
}

#[test]
fn values_hardly_compress() {
    // How many 8-byte pieces of 4 KiB of values occur in them again.
    let data = data(Size::Fixed(100));
    let (mut all, mut value) = (Vec::new(), Vec::new());
    for index in 0..40 {
        data.value(index, 0, &mut value);
        all.extend_from_slice(&value);
    }
    let mut pieces: Vec<&[u8]> = all.windows(8).collect();
    pieces.sort_unstable();
    let all = pieces.len();
    pieces.dedup();
    assert!(pieces.len() * 20 > all * 19, "{} of {all} pieces are different", pieces.len());
}

#[test]
fn short_values_have_versions_too() {
    let (mut one, mut two) = (Vec::new(), Vec::new());
    for length in 1..8 {
        let data = data(Size::Fixed(length));
        for index in 0..50 {
            let bits = data.version_bits(index);
            assert_eq!(bits, 4 * length);
            for version in 0..40 {
                data.value(index, version, &mut one);
                data.value(index, version + 1, &mut two);
                assert_eq!(one.len(), length as usize);
                assert_ne!(one, two);
                assert_eq!(data.check(index, &one), Some(version & ((1 << bits) - 1)));
            }
        }
    }
}

#[test]
fn values_of_a_file_have_versions_and_every_changed_byte_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("blocks");
    generate(&path, 10, 1, 1.0).unwrap();
    let data = Data::read(&path).unwrap();
    let original = std::fs::read(&path).unwrap();
    let mut value = Vec::new();
    for index in 0..10 {
        data.value(index, 0, &mut value);
        let start = index as usize * 544 + 32;
        assert_eq!(value, original[start..start + 512], "the first version is that of the file");
        for version in [1, 2, 77, u32::MAX] {
            data.value(index, version, &mut value);
            assert_ne!(value, original[start..start + 512]);
            assert_eq!(data.check(index, &value), Some(version));
            for place in 0..value.len() {
                value[place] ^= 0x10;
                assert_eq!(data.check(index, &value), None, "byte {place}");
                value[place] ^= 0x10;
            }
        }
    }
}

#[test]
fn of_a_value_the_part_is_random_that_was_asked_for() {
    let mut value = Vec::new();
    for entropy in [0.0, 0.25, 0.5, 1.0] {
        let keys = Keys::new(Size::Fixed(16), true);
        let data = Data::Generated(keys, Values::new(Size::Fixed(1000), 5, entropy));
        let mut zeros = 0;
        for index in 0..200 {
            data.value(index, 3, &mut value);
            assert_eq!(data.check(index, &value), Some(3));
            zeros += value.iter().filter(|byte| **byte == 0).count();
        }
        let share = zeros as f64 / 200_000.0;
        assert!((share - (1.0 - entropy)).abs() < 0.02, "{entropy}: {share} are zeros");
    }
}

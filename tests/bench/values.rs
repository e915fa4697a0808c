//! Values are checked as a whole.

use kvbench::bench::{
    data::{Data, Values, keys::Keys},
    result::Size,
};

fn data(size: Size) -> Data {
    Data::Made(Keys::new(Size::Fixed(16), true), Values::new(size, 5))
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
    let other = Data::Made(Keys::new(Size::Fixed(16), true), Values::new(Size::Fixed(100), 6));
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

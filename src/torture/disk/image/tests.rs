//! Tests of the names and files that a power cut leaves.

use super::*;
use rand::SeedableRng;

fn name(text: &str) -> &OsStr {
    OsStr::new(text)
}

fn cut(image: &mut Image) -> Image {
    image.cut(&Keep::NOTHING, &mut SmallRng::seed_from_u64(1))
}

fn listing(image: &Image, dir: Ino) -> Vec<String> {
    let names = image.dir(dir).unwrap().after(0);
    names.map(|(_, ino, name)| format!("{}={ino}", name.display())).collect()
}

#[test]
fn a_name_needs_a_sync_of_its_directory_not_of_its_file() {
    let mut image = Image::new();
    let file = image.create(ROOT, name("a"), 0o644, false).unwrap();
    image.write(file, 0, b"bytes").unwrap();
    image.sync(file).unwrap();
    assert!(listing(&cut(&mut image.clone()), ROOT).is_empty());
    image.sync_dir(ROOT).unwrap();
    let left = cut(&mut image);
    assert_eq!(left.file(file).unwrap().read(0, 9), b"bytes");
}

#[test]
fn a_rename_replaces_whole_or_not_at_all() {
    let mut image = Image::new();
    let old = image.create(ROOT, name("log"), 0o644, false).unwrap();
    let new = image.create(ROOT, name("new"), 0o644, false).unwrap();
    image.sync_dir(ROOT).unwrap();
    image.rename((ROOT, name("new")), (ROOT, name("log")), true).unwrap();
    image.release(old);
    assert_eq!(listing(&image, ROOT), [format!("log={new}")]);
    let before = cut(&mut image.clone());
    assert_eq!(listing(&before, ROOT), [format!("log={old}"), format!("new={new}")]);
    image.sync_dir(ROOT).unwrap();
    assert_eq!(listing(&cut(&mut image), ROOT), [format!("log={new}")]);
}

#[test]
fn exchange_of_two_names_is_whole_or_not_there() {
    let mut image = Image::new();
    let old = image.create(ROOT, name("log"), 0o644, false).unwrap();
    let new = image.create(ROOT, name("new"), 0o644, false).unwrap();
    image.sync_dir(ROOT).unwrap();
    image.exchange((ROOT, name("new")), (ROOT, name("log"))).unwrap();
    assert_eq!(image.exchange((ROOT, name("new")), (ROOT, name("none"))), Err(Errno::ENOENT));
    image.remove(ROOT, name("new"), false).unwrap();
    assert_eq!(listing(&image, ROOT), [format!("log={new}")]);
    let before = cut(&mut image.clone());
    assert_eq!(listing(&before, ROOT), [format!("log={old}"), format!("new={new}")]);
    image.sync_dir(ROOT).unwrap();
    assert_eq!(listing(&cut(&mut image), ROOT), [format!("log={new}")]);
}

#[test]
fn a_rename_between_directories_brings_what_was_there_before_it() {
    let mut image = Image::new();
    let dir = image.create(ROOT, name("dir"), 0o755, true).unwrap();
    image.sync_dir(ROOT).unwrap();
    image.create(dir, name("x"), 0o644, false).unwrap();
    let file = image.create(ROOT, name("y"), 0o644, false).unwrap();
    image.rename((ROOT, name("y")), (dir, name("x")), true).unwrap();
    image.sync_dir(ROOT).unwrap();
    image.sync_dir(dir).unwrap();
    let left = cut(&mut image);
    assert_eq!(
        (listing(&left, ROOT), listing(&left, dir)),
        (vec![format!("dir={dir}")], vec![format!("x={file}")])
    );
}

#[test]
fn an_unlinked_file_comes_back_until_its_directory_is_synced() {
    let mut image = Image::new();
    let file = image.create(ROOT, name("a"), 0o644, false).unwrap();
    image.write(file, 0, b"1").unwrap();
    image.sync(file).unwrap();
    image.sync_dir(ROOT).unwrap();
    image.remove(ROOT, name("a"), false).unwrap();
    assert_eq!(cut(&mut image.clone()).file(file).unwrap().read(0, 9), b"1");
    image.sync_dir(ROOT).unwrap();
    assert!(image.file(file).is_err());
}

#[test]
fn some_names_are_left_in_their_order() {
    let mut image = Image::new();
    for n in 0..20 {
        image.create(ROOT, name(&format!("{n:02}")), 0o644, false).unwrap();
    }
    let mut lengths = BTreeSet::new();
    for seed in 0..50 {
        let keep = Keep { pages: 1.0, torn: 0.0, names: true };
        let left = image.clone().cut(&keep, &mut SmallRng::seed_from_u64(seed));
        let names = listing(&left, ROOT);
        assert!(names.iter().enumerate().all(|(n, name)| name.starts_with(&format!("{n:02}"))));
        lengths.insert(names.len());
    }
    assert!(lengths.len() > 10, "{lengths:?}");
}

#[test]
fn pages_whose_sync_has_failed_are_read_until_the_page_cache_is_emptied() {
    let mut image = Image::new();
    let file = image.create(ROOT, name("a"), 0o644, false).unwrap();
    image.write(file, 0, &[1; 4096]).unwrap();
    image.sync(file).unwrap();
    image.trouble.syncs = true;
    image.write(file, 0, &[2; 8192]).unwrap();
    assert_eq!(image.sync(file), Err(Errno::EIO));
    image.trouble = InjectedFault::default();
    // The next sync succeeds without them.
    image.write(file, 8192, &[3; 10]).unwrap();
    image.sync(file).unwrap();
    image.write(file, 12288, &[4; 10]).unwrap();
    assert_eq!(image.file(file).unwrap().read(0, 8202), [&[2; 8192][..], &[3; 10]].concat());
    image.evict();
    let expected = [&[1; 4096][..], &[0; 4096], &[3; 10], &[0; 4086], &[4; 10]].concat();
    assert_eq!(image.file(file).unwrap().read(0, 20_000), expected);
}

#[test]
fn a_full_disk_takes_what_has_its_room_already() {
    let mut image = Image::new();
    let file = image.create(ROOT, name("a"), 0o644, false).unwrap();
    image.write(file, 0, &[1; 8192]).unwrap();
    image.fill();
    assert_eq!(image.write(file, 100, &[2; 100]), Ok(100));
    assert_eq!(image.write(file, 8190, &[2; 100]), Err(Errno::ENOSPC));
    assert_eq!(image.write(file, 4096, &[2; 8192]), Ok(4096));
    assert_eq!(image.create(ROOT, name("b"), 0o644, false), Err(Errno::ENOSPC));
    image.trouble = InjectedFault::default();
    assert_eq!(image.write(file, 8190, &[2; 100]), Ok(100));
}

#[test]
fn full_disk_takes_holes_and_reserves_nothing() {
    let mut image = Image::new();
    let file = image.create(ROOT, name("a"), 0o644, false).unwrap();
    image.write(file, 0, &[1; 8192]).unwrap();
    image.fill();
    let hole = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    // This hole frees no page.
    assert_eq!(image.allocate(file, 100, 200, hole), Ok(()));
    assert_eq!(image.file(file).unwrap().read(99, 202), [&[1][..], &[0; 200], &[1]].concat());
    assert_eq!(image.allocate(file, 8192, 4096, 0), Err(Errno::ENOSPC));
    assert_eq!(image.allocate(file, 0, 4096, libc::FALLOC_FL_COLLAPSE_RANGE), Err(Errno::EOPNOTSUPP));
    assert_eq!(image.allocate(file, 4096, 4096, hole), Ok(()));
    assert_eq!(image.allocate(file, 8192, 4096, libc::FALLOC_FL_KEEP_SIZE), Ok(()));
    assert_eq!(image.file(file).unwrap().len(), 8192);
    assert_eq!(image.allocate(file, 8192, 4096, 0), Ok(()));
    assert_eq!(image.file(file).unwrap().len(), 12_288);
}

#[test]
fn a_listing_goes_on_where_it_was_though_names_went_meanwhile() {
    let mut image = Image::new();
    for n in ["a", "b", "c"] {
        image.create(ROOT, name(n), 0o644, false).unwrap();
    }
    let first = image.dir(ROOT).unwrap().after(0).next().unwrap().0;
    image.remove(ROOT, name("a"), false).unwrap();
    assert_eq!(image.dir(ROOT).unwrap().after(first).count(), 2);
}

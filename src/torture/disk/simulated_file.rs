//! A simulated file with two images of its bytes: what programs read, and what the medium holds.

use super::cut::Keep;
use rand::{Rng, rngs::SmallRng};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Size of a page in bytes: the unit that a power cut keeps or drops as a whole, unless it is torn.
pub(super) const PAGE: u64 = 4096;
/// Size of a sector in bytes: the unit that a disk writes atomically.
const SECTOR: usize = 512;

type Page = Arc<[u8; PAGE as usize]>;

/// One image of the bytes of a simulated file, by page number. A page that is absent is a hole.
#[derive(Clone, Debug, Default)]
struct Version {
    pages: BTreeMap<u64, Page>,
    len: u64,
}

impl Version {
    fn page(&self, number: u64) -> Option<&Page> {
        self.pages.get(&number)
    }

    fn put(&mut self, number: u64, page: Option<Page>) {
        match page {
            Some(page) => drop(self.pages.insert(number, page)),
            None => drop(self.pages.remove(&number)),
        }
    }

    /// Sets the length of the file in bytes. Bytes behind it read as zeros when the file grows again.
    fn set_len(&mut self, len: u64) {
        self.len = len;
        drop(self.pages.split_off(&len.div_ceil(PAGE)));
        self.fill_zeros(len, len.next_multiple_of(PAGE));
    }

    /// Fills a byte range of one page with zeros, if the page is not a hole.
    fn fill_zeros(&mut self, start: u64, end: u64) {
        let within = (start % PAGE) as usize..(start % PAGE + (end - start)) as usize;
        if let Some(page) = self.pages.get_mut(&(start / PAGE))
            && let Some(bytes) = Arc::make_mut(page).get_mut(within)
        {
            bytes.fill(0);
        }
    }
}

/// Regular file of the simulated disk.
#[derive(Clone, Debug, Default)]
pub(super) struct File {
    now: Version,
    durable: Version,
    /// Numbers of the file's pages that the next sync writes to the medium.
    dirty: BTreeSet<u64>,
}

/// Returns the parts of a byte range, one for each page: page number, offset in the page, length in bytes.
fn pieces(offset: u64, len: u64) -> impl Iterator<Item = (u64, usize, usize)> {
    let end = offset.saturating_add(len);
    let pages = if len == 0 { 0..0 } else { offset / PAGE..end.div_ceil(PAGE) };
    pages.map(move |page| {
        let start = offset.max(page * PAGE);
        let stop = end.min((page + 1) * PAGE);
        (page, (start % PAGE) as usize, (stop - start) as usize)
    })
}

impl File {
    pub fn len(&self) -> u64 {
        self.now.len
    }

    /// Returns the number of pages of the disk that the file takes.
    pub fn used(&self) -> u64 {
        self.now.pages.len() as u64
    }

    pub fn read(&self, offset: u64, len: u64) -> Vec<u8> {
        let end = offset.saturating_add(len).min(self.now.len);
        let mut bytes = Vec::with_capacity(end.saturating_sub(offset) as usize);
        for (page, start, len) in pieces(offset, end.saturating_sub(offset)) {
            match self.now.page(page).and_then(|page| page.get(start..start + len)) {
                Some(part) => bytes.extend_from_slice(part),
                None => bytes.resize(bytes.len() + len, 0),
            }
        }
        bytes
    }

    /// Returns the number of pages that a write of this range would take from the free space.
    pub fn needs(&self, offset: u64, len: u64) -> u64 {
        pieces(offset, len).filter(|(page, ..)| self.now.page(*page).is_none()).count() as u64
    }

    pub fn write(&mut self, offset: u64, data: &[u8]) {
        let mut rest = data;
        for (number, start, len) in pieces(offset, data.len() as u64) {
            let (part, behind) = rest.split_at(len.min(rest.len()));
            rest = behind;
            let page = self.now.pages.entry(number).or_insert_with(|| Arc::new([0; PAGE as usize]));
            if let Some(target) = Arc::make_mut(page).get_mut(start..start + len) {
                target.copy_from_slice(part);
            }
            self.dirty.insert(number);
        }
        self.now.len = self.now.len.max(offset + data.len() as u64);
    }

    pub fn set_len(&mut self, len: u64) {
        let gone = self.now.pages.range(len / PAGE..).map(|(page, _)| *page);
        self.dirty.extend(gone);
        self.now.set_len(len);
    }

    /// Makes a byte range of the file read as zeros; pages that it covers become holes.
    pub fn zero(&mut self, offset: u64, len: u64) {
        let pages: Vec<_> = pieces(offset, len.min(self.now.len.saturating_sub(offset))).collect();
        for (number, start, len) in pages {
            if len as u64 == PAGE {
                self.now.pages.remove(&number);
            } else {
                let first = number * PAGE + start as u64;
                self.now.fill_zeros(first, first + len as u64);
            }
            self.dirty.insert(number);
        }
    }

    /// Makes all bytes and the length of the file durable.
    pub fn sync(&mut self) {
        for number in std::mem::take(&mut self.dirty) {
            self.durable.put(number, self.now.page(number).cloned());
        }
        self.durable.set_len(self.now.len);
    }

    /// Makes a byte range of the file durable, and the file's length if it is needed to read the range.
    pub fn sync_range(&mut self, offset: u64, len: u64) {
        for (number, ..) in pieces(offset, len) {
            if self.dirty.remove(&number) {
                self.durable.put(number, self.now.page(number).cloned());
            }
        }
        if offset + len > self.durable.len {
            self.durable.set_len(self.now.len);
        }
    }

    /// Simulates a failed sync: the dirty pages never reach the medium, and the next sync does not write them
    /// either. Linux file systems behave in this way.
    pub fn sync_fails(&mut self) {
        self.dirty.clear();
    }

    /// Removes all pages but the dirty ones from the simulated page cache: the next reads find what the medium has. The
    /// length is no page, and stays.
    pub fn evict(&mut self) {
        let end = self.now.len.div_ceil(PAGE);
        let numbers = self.now.pages.keys().chain(self.durable.pages.keys()).filter(|number| **number < end);
        let numbers: BTreeSet<u64> = numbers.copied().collect();
        for &number in numbers.difference(&self.dirty) {
            self.now.put(number, self.durable.page(number).cloned());
        }
    }

    /// Returns the file that is left after a power cut.
    pub fn after_cut(&self, keep: &Keep, rng: &mut SmallRng) -> Self {
        let mut left = self.durable.clone();
        let mut end = left.len;
        for &number in self.dirty.iter().filter(|_| keep.nothing().is_none()) {
            if !rng.random_bool(keep.pages) {
                continue;
            }
            let page = match rng.random_bool(keep.torn) {
                true => Some(tear(self.durable.page(number), self.now.page(number), rng)),
                false => self.now.page(number).cloned(),
            };
            left.put(number, page);
            end = end.max((number + 1) * PAGE).min(self.now.len.max(left.len));
        }
        // The length is written independently, before or after the pages.
        let len = match keep.nothing() {
            Some(()) => left.len,
            None => {
                [self.durable.len, self.now.len, end].into_iter().nth(rng.random_range(0..3)).unwrap_or(end)
            }
        };
        left.set_len(len);
        Self { now: left.clone(), durable: left, dirty: BTreeSet::new() }
    }

    /// Returns the offset and bytes of each page that is not a hole.
    pub fn parts(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.now.pages.iter().map(|(number, page)| {
            let offset = number * PAGE;
            let len = self.now.len.saturating_sub(offset).min(PAGE) as usize;
            (offset, page.get(..len).unwrap_or_default())
        })
    }
}

/// Returns a torn page in which some sectors are new: the first ones, or random ones.
fn tear(old: Option<&Page>, new: Option<&Page>, rng: &mut SmallRng) -> Page {
    let blank = Arc::new([0; PAGE as usize]);
    let (old, new) = (old.unwrap_or(&blank), new.unwrap_or(&blank));
    let sectors = PAGE as usize / SECTOR;
    let until = rng.random_range(1..sectors);
    let in_order = rng.random();
    let mut page = Arc::clone(old);
    let target = Arc::make_mut(&mut page).chunks_mut(SECTOR).zip(new.chunks(SECTOR));
    for (index, (target, source)) in target.enumerate() {
        if if in_order { index < until } else { rng.random() } {
            target.copy_from_slice(source);
        }
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    const DROP: Keep = Keep::NOTHING;

    fn rng() -> SmallRng {
        SmallRng::seed_from_u64(1)
    }

    fn synced(bytes: &[u8]) -> File {
        let mut file = File::default();
        file.write(0, bytes);
        file.sync();
        file
    }

    #[test]
    fn a_cut_drops_what_was_not_synced() {
        let mut file = synced(&[1; 10_000]);
        file.write(5000, &[2; 10_000]);
        assert_eq!(file.read(0, 99_999).len(), 15_000);
        let left = file.after_cut(&DROP, &mut rng());
        assert_eq!(left.read(0, 99_999), [1; 10_000]);
    }

    #[test]
    fn a_sync_keeps_writes_holes_and_lengths() {
        let mut file = synced(&[1; 10_000]);
        file.set_len(5000);
        file.write(20_000, &[3; 10]);
        file.zero(0, 4096);
        file.sync();
        let left = file.after_cut(&DROP, &mut rng());
        let expected = [vec![0; 4096], vec![1; 904], vec![0; 15_000], vec![3; 10]].concat();
        assert_eq!(left.read(0, 99_999), expected);
        assert_eq!(left.read(19_999, 3), [0, 3, 3]);
    }

    #[test]
    fn an_unsynced_truncation_comes_back() {
        let mut file = synced(&[1; 10_000]);
        file.set_len(0);
        file.write(0, &[2; 3]);
        assert_eq!(file.after_cut(&DROP, &mut rng()).read(0, 99_999), [1; 10_000]);
    }

    #[test]
    fn a_synced_range_is_kept_without_its_neighbours() {
        let mut file = synced(&[1; 3 * 4096]);
        file.write(0, &[2; 3 * 4096]);
        file.sync_range(4096, 10);
        let left = file.after_cut(&DROP, &mut rng()).read(0, 99_999);
        let expected = [vec![1; 4096], vec![2; 4096], vec![1; 4096]].concat();
        assert_eq!(left, expected);
    }

    #[test]
    fn pages_of_a_failed_sync_are_lost_whatever_comes_later() {
        let mut file = synced(&[1; 8192]);
        file.write(0, &[2; 4096]);
        file.sync_fails();
        file.write(4096, &[3; 4096]);
        file.sync();
        assert_eq!(file.read(0, 1), [2]);
        let left = file.after_cut(&DROP, &mut rng()).read(0, 99_999);
        assert_eq!(left, [vec![1; 4096], vec![3; 4096]].concat());
    }

    #[test]
    fn a_cut_keeps_some_pages_whole_and_tears_others_at_sectors() {
        let mut file = synced(&[1; 64 * 4096]);
        file.write(0, &[2; 64 * 4096]);
        let left =
            file.after_cut(&Keep { pages: 0.5, torn: 0.3, names: true }, &mut rng()).read(0, 64 * 4096);
        let (mut old, mut new, mut torn) = (0, 0, 0);
        for page in left.chunks(4096) {
            assert!(page.chunks(SECTOR).all(|sector| sector.iter().all(|byte| *byte == sector[0])));
            match page.iter().filter(|byte| **byte == 2).count() {
                0 => old += 1,
                4096 => new += 1,
                _ => torn += 1,
            }
        }
        assert!(old > 10 && new > 5 && torn > 3, "{old} {new} {torn}");
    }
}

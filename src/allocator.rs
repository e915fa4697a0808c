//! The system's allocator, which gives large blocks back to the system in steps.
//!
//! A block of hundreds of MiB is a request, or a batch, of millions of keys. To give it back is one system call of
//! about 0.1 ms a MiB, and a kernel without preemption (Linux with `PREEMPT_NONE`) runs nothing else on that core
//! meanwhile: the connections that it serves wait. In steps, each of them waits for one step.

use std::alloc::{GlobalAlloc, Layout, System};

/// See the [module](self).
#[derive(Debug)]
pub struct Stepwise;

/// Blocks of more bytes are given back in steps. The C library keeps smaller ones to use them again
/// (`DEFAULT_MMAP_THRESHOLD_MAX` of glibc), and the pages of these would have to be asked for anew.
const LARGE: usize = 32 << 20;

#[expect(unsafe_code, reason = "an allocator")]
// SAFETY: every call goes to the system's allocator as it is; what is given back before is used no more.
unsafe impl GlobalAlloc for Stepwise {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise is handed on.
        unsafe { System.alloc(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise is handed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        if layout.size() > LARGE && new_size < layout.size() {
            // SAFETY: it is within the block, and what is behind its new size is lost.
            unsafe { pages::give_back(block.add(new_size), layout.size() - new_size) };
        }
        // SAFETY: the caller's promise is handed on.
        unsafe { System.realloc(block, layout, new_size) }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if layout.size() > LARGE {
            // SAFETY: the block is used no more.
            unsafe { pages::give_back(block, layout.size()) };
        }
        // SAFETY: the caller's promise is handed on.
        unsafe { System.dealloc(block, layout) }
    }
}

#[cfg(target_os = "linux")]
mod pages {
    use nix::sys::mman::{MmapAdvise, madvise};
    use std::{ffi::c_void, ptr::NonNull};

    /// No page of Linux is larger, but huge ones, which the system splits.
    const PAGE: usize = 64 << 10;

    /// Bytes of a step: about 0.2 ms.
    const STEP: usize = 2 << 20;

    /// Gives the pages back that lie within a block of so many bytes, whose bytes are anything then.
    ///
    /// # Safety
    ///
    /// Nothing reads these bytes before they are written, and they are private memory of no file, as an
    /// allocator's is.
    #[cold]
    #[expect(unsafe_code, reason = "advice of the kind that changes bytes")]
    pub unsafe fn give_back(block: *mut u8, bytes: usize) {
        let skipped = block.align_offset(PAGE);
        let mut left = bytes.saturating_sub(skipped) / PAGE * PAGE;
        let mut next = block.wrapping_add(skipped);
        while left > 0 {
            let step = left.min(STEP);
            if let Some(start) = NonNull::new(next.cast::<c_void>()) {
                // SAFETY: the caller's. Where it fails nothing happens, and nothing needs to.
                let _ = unsafe { madvise(start, step, MmapAdvise::MADV_DONTNEED) };
            }
            next = next.wrapping_add(step);
            left -= step;
        }
    }
}

/// Elsewhere the allocator does what it does.
#[cfg(not(target_os = "linux"))]
mod pages {
    pub unsafe fn give_back(_: *mut u8, _: usize) {}
}

#[cfg(test)]
#[cfg(all(target_os = "linux", target_arch = "x86_64", not(miri)))]
#[expect(unsafe_code, reason = "an allocator's calls")]
mod tests {
    use super::*;

    /// How many of the pages that begin in these bytes are in memory.
    fn resident(block: *const u8, bytes: usize) -> usize {
        use std::os::unix::fs::FileExt;
        let page = 4096;
        let pages = (block as usize).div_ceil(page)..(block as usize + bytes).div_ceil(page);
        let mut entries = vec![0; pages.len() * 8];
        let map = std::fs::File::open("/proc/self/pagemap").unwrap();
        map.read_exact_at(&mut entries, pages.start as u64 * 8).unwrap();
        // The highest bit of an entry of eight bytes (Documentation/admin-guide/mm/pagemap.rst of Linux).
        entries.chunks(8).filter(|entry| entry[7] & 0x80 != 0).count()
    }

    #[test]
    fn a_block_that_shrinks_keeps_what_it_keeps_and_gives_the_rest_back() {
        let layout = Layout::from_size_align(LARGE * 3, 16).unwrap();
        let kept = LARGE * 2 + 12_345;
        // SAFETY: a block from here, of this layout, written before it is read, and freed once.
        unsafe {
            let block = Stepwise.alloc(layout);
            block.write_bytes(7, layout.size());
            let block = Stepwise.realloc(block, layout, kept);
            assert!(std::slice::from_raw_parts(block, kept).iter().all(|&byte| byte == 7));
            Stepwise.dealloc(block, Layout::from_size_align(kept, 16).unwrap());
        }
    }

    #[test]
    fn pages_within_a_block_are_given_back_and_its_neighbours_are_not() {
        let layout = Layout::from_size_align(LARGE * 2, 16).unwrap();
        // SAFETY: a block from here, of this layout, written before it is read, and freed once.
        unsafe {
            let block = System.alloc(layout);
            block.write_bytes(7, layout.size());
            let all = resident(block, layout.size());
            let (start, bytes) = (100_001, layout.size() - 300_000);
            pages::give_back(block.add(start), bytes);
            let left = resident(block, layout.size());
            assert!(left < all / 100, "{left} of {all} pages are left");
            let at = |from: usize, bytes| std::slice::from_raw_parts(block.add(from), bytes);
            assert!(at(0, start).iter().all(|&byte| byte == 7));
            assert!(at(start + bytes, layout.size() - start - bytes).iter().all(|&byte| byte == 7));
            System.dealloc(block, layout);
        }
    }
}

//! An allocator that counts while it is told to.
#![allow(unsafe_code, reason = "an allocator")]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
};

/// The system's allocator. Counting is off while time is taken: it costs every allocation two
/// atomic additions, which would show in engines that allocate a lot.
pub struct Counting;

static ON: AtomicBool = AtomicBool::new(false);
static BYTES: AtomicU64 = AtomicU64::new(0);
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

/// What was allocated, by all threads.
#[derive(Clone, Copy, Default)]
pub struct Allocated {
    pub bytes: u64,
    pub count: u64,
}

/// Counts what is allocated while `work` runs.
pub fn counted(work: impl FnOnce()) -> Allocated {
    BYTES.store(0, Relaxed);
    ALLOCATIONS.store(0, Relaxed);
    ON.store(true, Relaxed);
    work();
    ON.store(false, Relaxed);
    Allocated { bytes: BYTES.load(Relaxed), count: ALLOCATIONS.load(Relaxed) }
}

#[inline]
fn note(bytes: usize) {
    if ON.load(Relaxed) {
        BYTES.fetch_add(bytes as u64, Relaxed);
        ALLOCATIONS.fetch_add(1, Relaxed);
    }
}

// SAFETY: every call goes to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: the caller's promise is handed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: the caller's promise is handed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // Growing in place, or with a copy, takes what it adds.
        note(new_size.saturating_sub(layout.size()));
        // SAFETY: the caller's promise is handed on.
        unsafe { System.realloc(block, layout, new_size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is handed on.
        unsafe { System.dealloc(block, layout) }
    }
}

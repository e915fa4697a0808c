//! Counts of the allocations of an engine in Rust: the program's allocator counts them on request.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    hint,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
};

/// The system's allocator, which counts allocations from [`start`] to [`Counter::stop`]; dropping the [`Counter`]
/// does not end the count. Allocations of threads that called [`leave_out`] are not counted. Without a count, it
/// only checks a flag.
#[derive(Debug)]
pub struct Counting;

static ON: AtomicBool = AtomicBool::new(false);
static BYTES: AtomicU64 = AtomicU64::new(0);
static COUNT: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// `true` while allocations of this thread are not counted.
    static LEFT_OUT: Cell<bool> = const { Cell::new(false) };
}

/// Number and size of counted allocations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allocated {
    /// Bytes allocated; for a block that grows, the added bytes.
    pub bytes: u64,
    /// Number of allocations, including those that grow or shrink a block.
    pub count: u64,
}

/// Handle of a running count, which lasts until [`Counter::stop`].
#[derive(Debug)]
pub struct Counter(());

/// Starts to count allocations, in all threads but those that called [`leave_out`]. Only one count may run at
/// a time.
pub fn start() -> Counter {
    BYTES.store(0, Relaxed);
    COUNT.store(0, Relaxed);
    ON.store(true, Relaxed);
    Counter(())
}

impl Counter {
    /// Stops the count and returns the allocations since its start; `None` in a program with another
    /// allocator.
    pub fn stop(self) -> Option<Allocated> {
        let allocated = Allocated { bytes: BYTES.load(Relaxed), count: COUNT.load(Relaxed) };
        // An allocation that must be counted if [`Counting`] is the program's allocator.
        counted(|| drop(hint::black_box(Box::new(0_u8))));
        ON.store(false, Relaxed);
        (COUNT.load(Relaxed) > allocated.count).then_some(allocated)
    }
}

/// Excludes the allocations of this thread from the count (`true`), or includes them.
pub fn leave_out(left_out: bool) {
    LEFT_OUT.with(|flag| flag.set(left_out));
}

/// Runs `work` and counts the allocations of this thread during it, although the thread is excluded
/// otherwise.
#[inline]
pub fn counted<T>(work: impl FnOnce() -> T) -> T {
    let before = LEFT_OUT.with(|flag| flag.replace(false));
    let result = work();
    leave_out(before);
    result
}

#[inline]
fn note(bytes: usize) {
    if ON.load(Relaxed) {
        count(bytes);
    }
}

#[cold]
fn count(bytes: usize) {
    // The thread-local flag may already be destroyed in a thread that is ending.
    if !LEFT_OUT.try_with(Cell::get).unwrap_or(true) {
        BYTES.fetch_add(bytes as u64, Relaxed);
        COUNT.fetch_add(1, Relaxed);
    }
}

#[expect(unsafe_code, reason = "an allocator")]
// SAFETY: every call is passed to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: the caller guarantees to this function what the system's allocator requires.
        unsafe { System.alloc(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: the caller guarantees to this function what the system's allocator requires.
        unsafe { System.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        note(new_size.saturating_sub(layout.size()));
        // SAFETY: the caller guarantees to this function what the system's allocator requires.
        unsafe { System.realloc(block, layout, new_size) }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller guarantees to this function what the system's allocator requires.
        unsafe { System.dealloc(block, layout) }
    }
}

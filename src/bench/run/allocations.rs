//! What an engine allocates in Rust: the program's allocator counts while it is told to.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    hint,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
};

/// The system's allocator, which counts while a [`Counter`] is there. Else it costs one look at a flag.
#[derive(Debug)]
pub struct Counting;

static ON: AtomicBool = AtomicBool::new(false);
static BYTES: AtomicU64 = AtomicU64::new(0);
static COUNT: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// Whether what this thread allocates now is left out.
    static LEFT_OUT: Cell<bool> = const { Cell::new(false) };
}

/// What was allocated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allocated {
    /// Bytes; of a block that grows, those that it adds.
    pub bytes: u64,
    /// Calls.
    pub count: u64,
}

/// Counts until it is stopped.
#[derive(Debug)]
pub struct Counter(());

/// Begins to count, in all threads but those that are left out. One at a time counts.
pub fn start() -> Counter {
    BYTES.store(0, Relaxed);
    COUNT.store(0, Relaxed);
    ON.store(true, Relaxed);
    Counter(())
}

impl Counter {
    /// What was allocated since; `None` in a program with another allocator.
    pub fn stop(self) -> Option<Allocated> {
        let allocated = Allocated { bytes: BYTES.load(Relaxed), count: COUNT.load(Relaxed) };
        // One that must be seen.
        counted(|| drop(hint::black_box(Box::new(0_u8))));
        ON.store(false, Relaxed);
        (COUNT.load(Relaxed) > allocated.count).then_some(allocated)
    }
}

/// Leaves out what this thread allocates, or counts it.
pub fn leave_out(left_out: bool) {
    LEFT_OUT.with(|flag| flag.set(left_out));
}

/// Counts what a thread allocates in `work` that is left out otherwise.
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
    // A thread that ends may have no such flag any more.
    if !LEFT_OUT.try_with(Cell::get).unwrap_or(true) {
        BYTES.fetch_add(bytes as u64, Relaxed);
        COUNT.fetch_add(1, Relaxed);
    }
}

#[expect(unsafe_code, reason = "an allocator")]
// SAFETY: every call goes to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: the caller's promise is handed on.
        unsafe { System.alloc(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: the caller's promise is handed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        note(new_size.saturating_sub(layout.size()));
        // SAFETY: the caller's promise is handed on.
        unsafe { System.realloc(block, layout, new_size) }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is handed on.
        unsafe { System.dealloc(block, layout) }
    }
}

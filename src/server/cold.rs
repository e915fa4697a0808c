//! Tells reads that waited for a device from reads that were long, or whose thread was kept waiting by
//! another one.

use std::time::{Duration, Instant};

/// A read of one request that takes no longer than this has not waited for a device.
const SUSPECT: Duration = Duration::from_micros(100);

/// So many read runs in a row must be warm before a client that met a cold one reads on its worker again.
const DISTRUST: u8 = 64;

/// What is known of one client's reads.
#[derive(Default)]
pub(super) struct Temperature(u8);

impl Temperature {
    /// Whether its next read is expected to wait for a device.
    pub fn is_cold(&self) -> bool {
        self.0 > 0
    }

    /// Learns from a read run.
    pub fn note(&mut self, cold: bool) {
        self.0 = if cold { DISTRUST } else { self.0.saturating_sub(1) };
    }
}

/// Runs `read`, which answers some number of requests, and tells whether it waited for a device.
pub(super) fn is_cold(read: impl FnOnce() -> usize) -> bool {
    let begin = Instant::now();
    let requests = read();
    let each = begin.elapsed() / u32::try_from(requests).unwrap_or(u32::MAX).max(1);
    each > SUSPECT && device_reads_have_grown()
}

/// Whether this thread has caused device reads (of files, or of pages of a memory map) since the last
/// call on it. Asked only after a long read, so that a warm one pays for two looks at the clock.
#[cfg(target_os = "linux")]
fn device_reads_have_grown() -> bool {
    use nix::sys::resource::{UsageWho, getrusage};
    use std::cell::Cell;
    thread_local! {
        static SEEN: Cell<i64> = const { Cell::new(0) };
    }
    let Ok(usage) = getrusage(UsageWho::RUSAGE_THREAD) else { return true };
    let reads = usage.block_reads() + usage.major_page_faults();
    SEEN.replace(reads) != reads
}

/// Elsewhere a long read counts as a cold one: at worst some warm reads pay a thread hop.
#[cfg(not(target_os = "linux"))]
fn device_reads_have_grown() -> bool {
    true
}

//! Time and instructions that operations of the calibration engine are configured to take, and the time that they really
//! took.

use super::config::{Call, CallKind, Cost, ProcessMemory, Span, Truth};
use nix::time::{ClockId, clock_gettime};
use std::{
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::Duration,
};

/// Stride, without a common factor with usual numbers of reads, that spreads the parts (reads of one cost) evenly over
/// the reads.
const STRIDE: u64 = 7919;

/// Maximum number of operations of a span (between two quiesces) that are recorded without an allocation.
const EXPECTED: usize = 4096;

/// Returns the number of the calling thread, from 0 in the order of the first calls.
fn thread_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    thread_local!(static NUMBER: u64 = NEXT.fetch_add(1, Ordering::Relaxed));
    NUMBER.with(|number| *number)
}

fn clock(id: ClockId) -> u64 {
    let time = clock_gettime(id).map(Duration::from).unwrap_or_default();
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Returns the resident memory of this process.
pub(super) fn memory() -> ProcessMemory {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let bytes = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) << 10
    };
    ProcessMemory { resident: bytes("VmRSS:"), anonymous: bytes("RssAnon:") }
}

/// Returns the time in nanoseconds of the monotonic clock, which all processes of the machine share.
pub(super) fn now() -> u64 {
    clock(ClockId::CLOCK_MONOTONIC)
}

/// Determines the time that each operation of the calibration engine must take, and records the time that it took.
pub(super) struct Meter {
    truth: Truth,
    reads: u64,
    writes: u64,
    commits: u64,
    span: Span,
}

/// Time that one operation must take: its cost, after the end of a stall that it has to wait for.
pub(super) struct Turn {
    cost: Cost,
    /// End of the stall for which the operation waits, in nanoseconds of the monotonic clock; 0 if there is none.
    until: u64,
    begin: u64,
}

/// Start and end of an operation in nanoseconds of the monotonic clock, and the CPU time that it used.
pub(super) struct Taken {
    begin: u64,
    end: u64,
    cpu_ns: u64,
}

impl Meter {
    pub fn new(truth: &Truth) -> Self {
        let truth = truth.clone();
        let mut meter = Self { truth, reads: 0, writes: 0, commits: 0, span: Span::default() };
        meter.begin();
        meter
    }

    /// Begins to record a span: the engine's operations up to the next quiesce. Up to [`EXPECTED`] operations are
    /// recorded without an allocation.
    pub fn begin(&mut self) {
        (self.reads, self.writes, self.commits) = (0, 0, 0);
        self.span.calls.reserve(EXPECTED);
        self.span.process_cpu_ns.0 = clock(ClockId::CLOCK_PROCESS_CPUTIME_ID);
    }

    /// Ends the current span and returns it: the record of the engine's operations since the last quiesce.
    pub fn take(&mut self) -> Span {
        let mut span = std::mem::take(&mut self.span);
        span.process_cpu_ns.1 = clock(ClockId::CLOCK_PROCESS_CPUTIME_ID);
        span
    }

    /// Returns the time that the calibration engine must take for its next read, according to its configuration.
    pub fn read(&mut self) -> Turn {
        let all: u64 = self.truth.reads.iter().map(|part| part.count).sum();
        let mut place = (self.reads * STRIDE).checked_rem(all).unwrap_or(0);
        let cost = self.truth.reads.iter().find_map(|part| {
            let found = place < part.count;
            place = place.saturating_sub(part.count);
            found.then_some(part.cost)
        });
        self.reads += 1;
        self.turn(cost.unwrap_or_default())
    }

    /// Returns `true` if the next write is the first one of the span, and the time that the engine must take for it.
    pub fn write(&mut self) -> (bool, Turn) {
        self.writes += 1;
        (self.writes == 1, self.turn(self.truth.write))
    }

    /// Returns the time that the calibration engine must take for its next scan, according to its configuration.
    pub fn scan(&self) -> Turn {
        self.turn(self.truth.scan)
    }

    /// Returns the number of operations of the current span that have ended.
    pub fn operations(&self) -> u64 {
        self.span.calls.len() as u64
    }

    /// Returns the number of the next commit in the span, from 1.
    pub fn commit(&mut self) -> u64 {
        self.commits += 1;
        self.commits
    }

    fn turn(&self, cost: Cost) -> Turn {
        let begin = now();
        let first = self.span.calls.first().map_or(begin, |call| call.begin);
        let until = self.truth.stall.map_or(0, |stall| {
            let (every, length) = (stall.every_ms * 1_000_000, stall.length_ms * 1_000_000);
            let into = (begin - first) % every.max(1);
            if into + length >= every { begin + every - into } else { 0 }
        });
        Turn { cost, until, begin }
    }

    /// Records the present time as the end of a sync that was not part of a write.
    pub fn add_sync(&mut self) {
        self.span.syncs.push(now());
    }

    /// Records the present time as the end of a delete.
    pub fn add_delete(&mut self) {
        self.span.deletes.push(now());
    }

    /// Counts a read: `found` is `true` if it found a value that had not expired.
    pub fn add_read(&mut self, found: bool) {
        *(if found { &mut self.span.found } else { &mut self.span.absent }) += 1;
    }

    /// Records an operation in the current span, a write with the number of its commit. Returns the span.
    pub fn add(&mut self, taken: Taken, kind: CallKind, commit: Option<u64>) -> &mut Span {
        let thread = thread_number();
        self.span.calls.push(Call { begin: taken.begin, end: taken.end, commit, kind, thread });
        self.span.cpu_ns += taken.cpu_ns;
        &mut self.span
    }
}

impl Turn {
    /// Waits for the end of the stall, sleeps and uses CPU time as the operation's cost says. Returns the time that
    /// this took.
    pub fn take(self) -> Taken {
        let cpu = clock(ClockId::CLOCK_THREAD_CPUTIME_ID);
        let wait = self.until.saturating_sub(now()) + self.cost.sleep_ns;
        if wait > 0 {
            thread::sleep(Duration::from_nanos(wait));
        }
        let mut spent = 0;
        while spent < self.cost.cpu_ns {
            spent = clock(ClockId::CLOCK_THREAD_CPUTIME_ID) - cpu;
        }
        let cpu_ns = clock(ClockId::CLOCK_THREAD_CPUTIME_ID) - cpu;
        Taken { begin: self.begin, end: now(), cpu_ns }
    }
}

/// Returns the reason why this kind of processor has no loop of a known number of instructions, or `None` if it has one.
pub fn no_known_loop() -> Option<String> {
    let is_known = cfg!(any(target_arch = "x86_64", target_arch = "aarch64"));
    (!is_known).then(|| format!("{} has no loop of a known number of instructions", std::env::consts::ARCH))
}

/// Executes `count` instructions, an even number, and a few more before and after them: a loop of two instructions in
/// assembly, because a compiler may choose any number for other code.
#[expect(unsafe_code, reason = "only assembly has a known number of instructions")]
pub(super) fn execute_instructions(count: u64) {
    let passes = count / 2;
    if passes == 0 {
        return;
    }
    // SAFETY: the loop changes one register, which it names, and the flags, and uses no memory.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!("2:", "dec {left}", "jnz 2b", left = inout(reg) passes => _, options(nomem, nostack));
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        std::arch::asm!("2:", "subs {left}, {left}, #1", "b.ne 2b", left = inout(reg) passes => _, options(nomem, nostack));
    }
}

//! What the operating system knows about this process. Where it does not tell, a figure is absent rather than guessed.

use std::{env, fs, time::Duration};

/// Bytes of memory.
pub struct Memory {
    /// In use: the heap and stacks, without mapped files.
    pub used: Option<u64>,
    /// In physical memory, mapped files included.
    pub resident: Option<u64>,
    /// The most that ever was.
    pub peak: Option<u64>,
    /// Of the machine.
    pub total: Option<u64>,
}

/// Linux tells.
pub fn memory() -> Memory {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let machine = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    Memory {
        used: bytes(&status, "RssAnon:"),
        resident: bytes(&status, "VmRSS:"),
        peak: bytes(&status, "VmHWM:"),
        total: bytes(&machine, "MemTotal:"),
    }
}

fn bytes(text: &str, field: &str) -> Option<u64> {
    let kib = text.lines().find_map(|line| line.strip_prefix(field)?.trim().strip_suffix(" kB"))?;
    kib.parse::<u64>().ok().map(|kib| kib * 1024)
}

/// Processor time in the kernel and outside.
#[cfg(target_os = "linux")]
pub fn processor() -> Option<(Duration, Duration)> {
    times(nix::sys::resource::UsageWho::RUSAGE_SELF)
}

/// The same of processes that this one has started, and that have ended.
#[cfg(target_os = "linux")]
pub fn processor_of_children() -> Option<(Duration, Duration)> {
    times(nix::sys::resource::UsageWho::RUSAGE_CHILDREN)
}

#[cfg(target_os = "linux")]
fn times(who: nix::sys::resource::UsageWho) -> Option<(Duration, Duration)> {
    let usage = nix::sys::resource::getrusage(who).ok()?;
    let time = |time: nix::sys::time::TimeVal| {
        Duration::from_micros((time.tv_sec() * 1_000_000 + time.tv_usec()).unsigned_abs())
    };
    Some((time(usage.system_time()), time(usage.user_time())))
}

/// Processor time in the kernel and outside.
#[cfg(not(target_os = "linux"))]
pub fn processor() -> Option<(Duration, Duration)> {
    None
}

/// The same of processes that this one has started, and that have ended.
#[cfg(not(target_os = "linux"))]
pub fn processor_of_children() -> Option<(Duration, Duration)> {
    None
}

/// The operating system with its release, where that is known, and the processor: `Linux 6.1.0 x86_64`.
pub fn system() -> String {
    let known = |name: &str| fs::read_to_string(format!("/proc/sys/kernel/{name}")).unwrap_or_default();
    let (name, release) = (known("ostype"), known("osrelease"));
    match name.trim() {
        "" => format!("{} {}", env::consts::OS, env::consts::ARCH),
        name => format!("{name} {} {}", release.trim(), env::consts::ARCH),
    }
}

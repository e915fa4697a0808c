//! Resource use of this process as the operating system reports it. A value that it does not report is absent,
//! not estimated.

use crate::engine::machine_memory::{field_bytes, machine_bytes};
use std::{env, fs, time::Duration};

/// Sizes of the memory of this process and of the machine, in bytes; `None` if not reported.
pub struct Memory {
    /// Memory that the process uses for heap and stacks, without mapped files.
    pub used: Option<u64>,
    /// Physical memory that the process uses, including mapped files.
    pub resident: Option<u64>,
    /// Maximum physical memory that the process has used since its start.
    pub peak: Option<u64>,
    /// Physical memory of the machine.
    pub total: Option<u64>,
}

/// Returns the memory use of this process; only Linux reports it.
pub fn memory() -> Memory {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let bytes = |name| field_bytes(&status, name);
    Memory {
        used: bytes("RssAnon:"),
        resident: bytes("VmRSS:"),
        peak: bytes("VmHWM:"),
        total: machine_bytes(),
    }
}

/// Returns the CPU time that this process has used, in the kernel and in user mode.
#[cfg(target_os = "linux")]
pub fn processor() -> Option<(Duration, Duration)> {
    times(nix::sys::resource::UsageWho::RUSAGE_SELF)
}

/// Returns the CPU time, in the kernel and in user mode, of child processes that have ended.
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

/// Returns `None`: on this platform the CPU time of the process is not read.
#[cfg(not(target_os = "linux"))]
pub fn processor() -> Option<(Duration, Duration)> {
    None
}

/// Returns `None`: on this platform the CPU time of child processes is not read.
#[cfg(not(target_os = "linux"))]
pub fn processor_of_children() -> Option<(Duration, Duration)> {
    None
}

/// Returns the operating system with its release, if known, and the processor: `Linux 6.1.0 x86_64`.
pub fn system() -> String {
    let known = |name: &str| fs::read_to_string(format!("/proc/sys/kernel/{name}")).unwrap_or_default();
    let (name, release) = (known("ostype"), known("osrelease"));
    match name.trim() {
        "" => format!("{} {}", env::consts::OS, env::consts::ARCH),
        name => format!("{name} {} {}", release.trim(), env::consts::ARCH),
    }
}

//! Detection of other work on the machine: on the disk before a job, on the CPUs during the job.

use super::{disk_usage::Files, interrupt};
use crate::bench::result::Disturbance;
use std::{
    fs::File,
    path::Path,
    thread,
    time::{Duration, Instant},
};

/// Ticks of `/proc/stat` per second: the kernel reports 100 to programs, whatever its own tick rate is.
#[cfg(any(target_os = "linux", test))]
const TICKS: f64 = 100.0;
/// Time without requests after which the disk counts as idle before a job or block is measured.
const IDLE: Duration = Duration::from_millis(100);
/// Time without requests after which the disk counts as idle after a store's own sync.
const IDLE_AFTER_SYNC: Duration = Duration::from_millis(20);

/// Maximum number of measurements of a job, or of a block of a comparison: a machine that is always busy would never
/// reach the limit.
pub const ATTEMPTS: usize = 3;

/// Repeats `measure`, at most `attempts` times, until other processes use at most `limit` of the CPUs. `measure`
/// returns its outcome with their share, from 0 to 1. Returns the outcome with the smallest share; `None` if `attempts`
/// is 0.
pub fn least_disturbed<T>(limit: f64, attempts: usize, mut measure: impl FnMut() -> (T, f64)) -> Option<T> {
    let mut best: Option<(T, f64)> = None;
    for _ in 0..attempts {
        let (outcome, part) = measure();
        if best.as_ref().is_none_or(|(_, least)| part < *least) {
            best = Some((outcome, part));
        }
        if part <= limit {
            break;
        }
    }
    best.map(|(outcome, _)| outcome)
}

/// Writes back the dirty pages of the file system of `directory`, then waits until its device is idle, but at most
/// `seconds` seconds or until a signal to stop. Does nothing if `seconds` is not above 0.
pub fn wait_for_disk(directory: &Path, seconds: f64) {
    if seconds <= 0.0 {
        return;
    }
    let Ok(opened) = File::open(directory) else { return };
    // An error of the write-back concerns the program that wrote the data, not this run.
    let _ = Files::of(directory).write_back();
    becomes_idle(|| requests(&opened), IDLE, seconds);
}

/// Waits until the device of `directory` is idle, but at most `seconds` seconds; without a limit above 0, it does not
/// wait. Returns `false` if the device was never idle. Writes nothing back.
pub fn wait_for_device(directory: &Path, seconds: f64) -> bool {
    let Ok(opened) = File::open(directory) else { return true };
    seconds <= 0.0 || becomes_idle(|| requests(&opened), IDLE_AFTER_SYNC, seconds)
}

/// Waits until no request was made for the time `still` and none is under way, but at most `seconds` seconds. Returns
/// `false` if there always were some, or if a signal has stopped the run. A device whose requests are not known counts
/// as idle.
fn becomes_idle(mut requests: impl FnMut() -> Option<Requests>, still: Duration, seconds: f64) -> bool {
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    let Some(mut before) = requests() else { return true };
    while Instant::now() < end && interrupt::received().is_none() {
        thread::sleep(still);
        match requests() {
            Some(now) if now != before || now.under_way > 0 => before = now,
            _ => return true,
        }
    }
    false
}

/// Number of I/O requests of a block device, done and in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Requests {
    done: u64,
    under_way: u64,
}

/// Returns the request counts of the device of an open directory; `None` if its file system has no device of
/// its own.
#[cfg(target_os = "linux")]
fn requests(opened: &File) -> Option<Requests> {
    use std::os::linux::fs::MetadataExt;
    let device = opened.metadata().ok()?.st_dev();
    let (major, minor) = (libc::major(device), libc::minor(device));
    parse_requests(&std::fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/stat")).ok()?)
}

#[cfg(not(target_os = "linux"))]
fn requests(_opened: &File) -> Option<Requests> {
    None
}

/// Parses `/sys/dev/block/DEVICE/stat`: the number of completed reads and writes, and the number of requests in flight.
#[cfg(any(target_os = "linux", test))]
fn parse_requests(text: &str) -> Option<Requests> {
    let mut fields = text.split_whitespace().map(|field| field.parse::<u64>().ok());
    let (reads, writes) = (fields.next()??, fields.nth(3)??);
    Some(Requests { done: reads + writes, under_way: fields.nth(3)?? })
}

/// CPU times of the machine, in seconds since it was started, and those of this process.
#[derive(Clone, Copy, Debug, Default)]
struct Processors {
    /// CPU time of all programs of the machine, in seconds.
    busy: f64,
    /// Time in seconds that the hypervisor gave to other machines while this one had work (steal).
    stolen: f64,
    /// CPU time in seconds of this process and of its children that have ended.
    own: f64,
    /// Number of CPUs of the machine, over which the times are summed.
    count: u32,
}

/// Measures the CPU time of other processes from a start to an end.
pub struct CpuWatch {
    start: Instant,
    before: Option<Processors>,
}

impl CpuWatch {
    /// Starts to measure the CPU time of other processes.
    pub fn start() -> Self {
        Self { before: processors(), start: Instant::now() }
    }

    /// Returns the shares of all CPU time, from 0 to 1, that other processes and that the hypervisor have taken since
    /// the start; `None` if they cannot be known. Measured child processes must have ended.
    pub fn end(&self) -> Option<Disturbance> {
        let (before, after) = (self.before?, processors()?);
        Some(after.disturbance(&before, self.start.elapsed().as_secs_f64()))
    }
}

impl Processors {
    /// Returns the shares of CPU time, from 0 to 1, that other processes and that the hypervisor have taken since
    /// `before`, `seconds` ago. The whole is the time of all CPUs, not only of those that this process may use.
    fn disturbance(&self, before: &Self, seconds: f64) -> Disturbance {
        let all = seconds * f64::from(self.count.max(1));
        let part = |taken: f64| (taken / all).clamp(0.0, 1.0);
        Disturbance {
            foreign: part((self.busy - before.busy) - (self.own - before.own)),
            stolen: part(self.stolen - before.stolen),
        }
    }
}

#[cfg(target_os = "linux")]
fn processors() -> Option<Processors> {
    use nix::sys::{
        resource::{UsageWho, getrusage},
        time::TimeValLike,
    };
    #[expect(clippy::cast_precision_loss, reason = "seconds")]
    let used = |who| {
        let usage = getrusage(who).ok()?;
        Some((usage.user_time() + usage.system_time()).num_microseconds() as f64 / 1e6)
    };
    let own = used(UsageWho::RUSAGE_SELF)? + used(UsageWho::RUSAGE_CHILDREN)?;
    Some(Processors { own, ..parse_processors(&std::fs::read_to_string("/proc/stat").ok()?)? })
}

#[cfg(not(target_os = "linux"))]
fn processors() -> Option<Processors> {
    None
}

/// Parses `/proc/stat`: the CPU times of its first line, `cpu user nice system idle iowait irq softirq steal ...`, and
/// the number of lines of single CPUs. The time of this process is left 0.
#[cfg(any(target_os = "linux", test))]
fn parse_processors(text: &str) -> Option<Processors> {
    let line = text.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<f64> = line.split_whitespace().map_while(|field| field.parse().ok()).collect();
    let [user, nice, system, _idle, _waiting, interrupts, soft, stolen, ..] = ticks.as_slice() else {
        return None;
    };
    Some(Processors {
        busy: (user + nice + system + interrupts + soft) / TICKS,
        stolen: stolen / TICKS,
        own: 0.0,
        count: text.lines().filter(|line| is_single_cpu(line)).map(|_| 1).sum(),
    })
}

/// Returns `true` if the line is of a single CPU: `cpu12 ...`.
#[cfg(any(target_os = "linux", test))]
fn is_single_cpu(line: &str) -> bool {
    line.strip_prefix("cpu").is_some_and(|rest| rest.starts_with(|letter: char| letter.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_disturbed_is_measured_again_and_the_calmest_counts() {
        for (parts, kept, times) in [
            (&[0.05, 0.0][..], 0.05, 1),
            (&[0.5, 0.1, 0.0], 0.1, 2),
            (&[0.5, 0.3, 0.4, 0.0], 0.3, 3),
            (&[0.5, 0.6, 0.7], 0.5, 3),
        ] {
            let mut left = parts.iter().copied();
            let found = least_disturbed(0.1, ATTEMPTS, || left.next().map(|part| (part, part)).unwrap());
            assert_eq!((found, parts.len() - left.len()), (Some(kept), times), "{parts:?}");
        }
    }

    #[test]
    fn idle_and_waiting_are_no_work() {
        let found = parse_processors("cpu  100 20 30 9000 500 1 2 40 0 0\ncpu0 1 1 1 1\n").unwrap();
        assert_eq!((found.busy, found.stolen, found.count), (1.53, 0.4, 1));
        assert!(parse_processors("intr 1 2 3").is_none());
    }

    /// The share of other processes is a fraction of the time of all four CPUs, whichever of them this process may use.
    #[test]
    fn what_others_took_is_a_part_of_all_processors() {
        let at = |user: u32| {
            parse_processors(&format!("cpu  {user} 0 0 0 0 0 0 0\ncpu0 1\ncpu1 1\ncpu2 1\ncpu3 1\nctxt 7\n"))
        };
        let (before, after) = (at(0).unwrap(), at(200).unwrap());
        assert_eq!(after.disturbance(&before, 1.0).foreign, 0.5);
    }

    #[test]
    fn requests_are_those_done_and_those_under_way() {
        let text = "  11 2 3 4  20 6 7 8  5 10 11 0 0 0 0 0 0\n";
        assert_eq!(parse_requests(text), Some(Requests { done: 31, under_way: 5 }));
        assert_eq!(parse_requests("1 2"), None);
    }

    #[test]
    fn a_device_is_idle_without_new_requests_and_without_one_under_way() {
        let seen = |states: &[(u64, u64)], seconds| {
            let mut states =
                states.iter().map(|(done, under_way)| Requests { done: *done, under_way: *under_way });
            (becomes_idle(|| states.next(), Duration::ZERO, seconds), states.len())
        };
        assert_eq!(seen(&[(1, 0), (2, 0), (2, 1), (2, 1), (3, 0), (3, 0), (4, 0)], 1e3), (true, 1));
        assert_eq!(seen(&[], 1e3), (true, 0));
        let mut done = 0;
        let busy = || {
            done += 1;
            Some(Requests { done, under_way: 0 })
        };
        assert!(!becomes_idle(busy, Duration::ZERO, 0.01));
    }

    /// While this process computes, its own CPU time, which does not count as interference, grows, and that of the
    /// whole machine does not decrease.
    #[test]
    #[cfg(target_os = "linux")]
    fn own_work_is_own() {
        let before = processors().unwrap();
        let mut sum = 0u64;
        while processors().unwrap().own < before.own + 0.05 {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        assert!(processors().unwrap().busy >= before.busy);
    }
}

//! Time in which this process ran, without the time in which it was stopped (SIGSTOP, a frozen control group).
//! Under `everysec` it determines when to sync and when to delay writes: a comparison stops stores in turn, and no
//! store may sync more often, or delay writes, because it was stopped.

use std::{
    fs::File,
    os::unix::fs::FileExt,
    sync::{LazyLock, Mutex, MutexGuard, Once, PoisonError},
    thread,
    time::{Duration, Instant},
};

/// Interval at which the heartbeat, a thread, wakes up to detect that this process was stopped. Shorter stops are not
/// noticed.
const TICK: Duration = Duration::from_millis(50);

static CLOCK: LazyLock<Clock> = LazyLock::new(|| Clock { start: Instant::now(), beats: Mutex::default() });

struct Clock {
    start: Instant,
    /// State of the heartbeat; `None` if no heartbeat runs, so that stops are not detected.
    beats: Mutex<Option<Heartbeat>>,
}

impl Clock {
    fn lock(&self) -> MutexGuard<'_, Option<Heartbeat>> {
        self.beats.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the time for which this process has run since a fixed start. Until [`watch`] is called, and on systems other
/// than Linux, stops are included.
pub fn now() -> Duration {
    let beats = CLOCK.lock();
    let elapsed = CLOCK.start.elapsed();
    beats.as_ref().map_or(elapsed, |beats| beats.running_at(elapsed))
}

/// Starts the thread (heartbeat) that notices when this process was stopped, unless it runs already.
pub fn watch() {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| {
        // The first beat is this one, so that a stop before the thread runs is noticed.
        let (last, delayed, stopped) = (CLOCK.start.elapsed(), Duration::ZERO, Duration::ZERO);
        *CLOCK.lock() = Some(Heartbeat { last, delayed, stopped });
        if thread::Builder::new().name("heartbeat".into()).spawn(beat).is_err() {
            *CLOCK.lock() = None;
        }
    });
}

fn beat() {
    let Some(file) = open_schedstat() else { return *CLOCK.lock() = None };
    loop {
        let delayed = time_without_cpu(&file);
        let mut beats = CLOCK.lock();
        let elapsed = CLOCK.start.elapsed();
        if let Some(beats) = &mut *beats {
            beats.beat(elapsed, delayed);
        }
        drop(beats);
        thread::sleep(TICK);
    }
}

/// Opens the kernel's statistics of this thread once, so that a process without free file descriptors can still read
/// them. Returns `None` on systems other than Linux.
fn open_schedstat() -> Option<File> {
    if cfg!(target_os = "linux") { File::open("/proc/thread-self/schedstat").ok() } else { None }
}

/// Returns how long the thread that opened `file` was ready to run and had no CPU, since it started; `None` if the file
/// cannot be read. Does not allocate, because a benchmark may count allocations.
fn time_without_cpu(file: &File) -> Option<Duration> {
    let mut text = [0; 64];
    let length = file.read_at(&mut text, 0).ok()?;
    let text = str::from_utf8(text.get(..length)?).ok()?;
    text.split_whitespace().nth(1)?.parse().ok().map(Duration::from_nanos)
}

/// State of the heartbeat, a thread that wakes up every [`TICK`]: if it wakes up late, and not because it waited for a
/// CPU, the process was stopped.
struct Heartbeat {
    /// Time of the last beat of the heartbeat, since the start of the clock.
    last: Duration,
    /// Total time, up to the last beat, for which the heartbeat's thread was ready to run but had no CPU.
    delayed: Duration,
    /// Total time for which the process was stopped, as known at the last beat of the heartbeat.
    stopped: Duration,
}

impl Heartbeat {
    /// Records a beat of the heartbeat at `elapsed` after the start of the clock, and adds a stop since the last beat
    /// to the stopped time. `delayed` is the time that the thread has waited for a CPU so far, or `None` if that is not
    /// known; the next beat with a time then makes up for it.
    fn beat(&mut self, elapsed: Duration, delayed: Option<Duration>) {
        let delayed = delayed.unwrap_or(self.delayed);
        let waited = delayed.saturating_sub(self.delayed);
        let interval = elapsed.saturating_sub(self.last).saturating_sub(waited);
        if interval > 2 * TICK {
            // The process was stopped at an unknown moment between two beats, on average half-way.
            self.stopped += interval - TICK / 2;
        }
        (self.last, self.delayed) = (elapsed, delayed);
    }

    /// Returns for how long this process has run, without its stops, at `elapsed` after the start of the clock. At most
    /// two [`TICK`]s since the last beat count: after a longer time, the process was stopped and the heartbeat has not
    /// noticed it yet.
    fn running_at(&self, elapsed: Duration) -> Duration {
        elapsed.min(self.last + 2 * TICK).saturating_sub(self.stopped)
    }
}

/// Schedule of the syncs of `everysec`: a second of running time from the end of a sync to the start of the next.
#[derive(Debug)]
pub struct EverySecond {
    next: Duration,
}

impl EverySecond {
    const INTERVAL: Duration = Duration::from_secs(1);

    /// Creates a schedule whose first sync is due when this process has run for another second.
    pub fn start() -> Self {
        Self { next: now() + Self::INTERVAL }
    }

    /// Returns the time for which this process still has to run until the next sync of `everysec` is due; zero if it is
    /// due.
    pub fn remaining(&self) -> Duration {
        self.next.saturating_sub(now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    fn heartbeat() -> Heartbeat {
        Heartbeat { last: ms(1000), delayed: ms(7), stopped: Duration::ZERO }
    }

    #[test]
    fn stop_is_left_out_and_regular_beats_are_not() {
        let mut beats = heartbeat();
        beats.beat(ms(1050), Some(ms(7)));
        assert_eq!(beats.running_at(ms(1060)), ms(1060));
        // Stopped for ten seconds.
        beats.beat(ms(11_100), Some(ms(7)));
        assert_eq!(beats.running_at(ms(11_100)), ms(1075));
        beats.beat(ms(11_150), Some(ms(7)));
        assert_eq!(beats.running_at(ms(11_160)), ms(1135));
    }

    #[test]
    fn waiting_for_a_cpu_is_running_time() {
        let mut beats = heartbeat();
        beats.beat(ms(3050), Some(ms(2007)));
        assert_eq!(beats.running_at(ms(3050)), ms(3050));
    }

    #[test]
    fn clock_goes_on_if_the_time_without_a_cpu_cannot_be_read() {
        let mut beats = heartbeat();
        beats.beat(ms(1050), None);
        assert_eq!(beats.running_at(ms(1060)), ms(1060));
        beats.beat(ms(3100), Some(ms(2007)));
        assert_eq!(beats.running_at(ms(3100)), ms(3100));
    }

    #[test]
    fn stop_does_not_count_before_the_next_beat_either() {
        let beats = heartbeat();
        assert_eq!(beats.running_at(ms(60_000)), ms(1100));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn kernel_tells_the_time_without_a_cpu() {
        let file = open_schedstat().unwrap();
        let first = time_without_cpu(&file).unwrap();
        assert!(time_without_cpu(&file).unwrap() >= first, "read again from the start");
    }
}

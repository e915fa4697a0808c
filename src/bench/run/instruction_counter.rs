//! Number of instructions that this process has executed in user space, as the processor counts them, with
//! perf_event_open(2). Many virtual machines hide these counters of the processor, and other systems than Linux have other
//! calls.

#[cfg(target_os = "linux")]
use perf_event::{Builder, Counter, events::Event};
#[cfg(target_os = "linux")]
use std::{
    io,
    sync::{Mutex, OnceLock, PoisonError},
};

/// Counter of this process since [`start`]; `None` if it could not be made.
#[cfg(target_os = "linux")]
static COUNTER: OnceLock<Option<Mutex<Counter>>> = OnceLock::new();

/// Begins to count the instructions of the calling thread, and of the threads that it and its descendants start from now on.
/// Each switch between threads then takes a little longer. Does nothing where [`unavailable`] has a reason.
#[cfg(target_os = "linux")]
pub fn start() {
    COUNTER.get_or_init(|| open(instructions()).ok().map(Mutex::new));
}

/// Does nothing: instructions are counted on Linux only.
#[cfg(not(target_os = "linux"))]
pub fn start() {}

/// Returns the number of instructions since [`start`]; `None` without it, or if the processor was so busy with other
/// counters that it left a part of the time out.
#[cfg(target_os = "linux")]
pub fn read() -> Option<u64> {
    count(&mut COUNTER.get()?.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Returns `None`: instructions are counted on Linux only.
#[cfg(not(target_os = "linux"))]
pub fn read() -> Option<u64> {
    None
}

/// Returns the reason why this process cannot count instructions, or `None` if it can.
#[cfg(target_os = "linux")]
pub fn unavailable() -> Option<String> {
    let error = open(instructions()).err()?;
    Some(match error.raw_os_error() {
        Some(libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP) => {
            format!("the processor, or its virtual machine, has no counter of instructions ({error})")
        }
        Some(libc::EACCES | libc::EPERM) => {
            format!("this user may not count instructions ({error}); set kernel.perf_event_paranoid to 2")
        }
        _ => format!("the system cannot count instructions ({error})"),
    })
}

/// Returns the reason: instructions are counted on Linux only.
#[cfg(not(target_os = "linux"))]
pub fn unavailable() -> Option<String> {
    Some("instructions are counted on Linux only".into())
}

#[cfg(target_os = "linux")]
fn instructions() -> Event {
    perf_event::events::Hardware::INSTRUCTIONS.into()
}

/// Opens a counter of events in user space, of the calling thread and of the threads that it starts later.
#[cfg(target_os = "linux")]
fn open(event: Event) -> io::Result<Counter> {
    let mut builder = Builder::new().kind(event);
    builder.inherit(true).enabled(true);
    builder.build()
}

/// Returns the number of events; `None` if the processor did not count for the whole time.
#[cfg(target_os = "linux")]
fn count(counter: &mut Counter) -> Option<u64> {
    let counted = counter.read_count_and_time().ok()?;
    (counted.time_running == counted.time_enabled).then_some(counted.count)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::testing::skip_test::skip;
    use perf_event::events::Software;
    use std::{num::NonZeroUsize, sync::Barrier, thread};

    /// Size of a page in bytes.
    fn page() -> Option<NonZeroUsize> {
        use nix::unistd::{SysconfVar, sysconf};
        NonZeroUsize::new(usize::try_from(sysconf(SysconfVar::PAGE_SIZE).ok()??).ok()?)
    }

    /// Writes to each page of new memory for the first time.
    fn touch(pages: NonZeroUsize, page: NonZeroUsize) -> nix::Result<()> {
        use nix::sys::mman::{MapFlags, MmapAdvise, ProtFlags, madvise, mmap_anonymous, munmap};
        let length = pages.saturating_mul(page);
        let (access, flags) = (ProtFlags::PROT_READ | ProtFlags::PROT_WRITE, MapFlags::MAP_PRIVATE);
        #[expect(unsafe_code, reason = "memory whose pages nothing else touches")]
        // SAFETY: the mapping is new, each write is within it, and it is removed after the last one.
        unsafe {
            let memory = mmap_anonymous(None, length, access, flags)?;
            // Fails without huge pages in the kernel.
            let _ = madvise(memory, length.get(), MmapAdvise::MADV_NOHUGEPAGE);
            for place in (0..length.get()).step_by(page.get()) {
                memory.cast::<u8>().add(place).write_volatile(1);
            }
            munmap(memory, length.get())
        }
    }

    /// Where this user may count, every system counts page faults. The kernel adds them up as it does the processor's events:
    /// also those of threads that have ended, and of threads that go on.
    #[test]
    fn events_of_all_threads_are_counted() {
        let mut counter = match open(Software::PAGE_FAULTS.into()) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                return skip("events_of_all_threads_are_counted", &error.to_string());
            }
            counter => counter.unwrap(),
        };
        let mut faults = || count(&mut counter).unwrap();
        // A new thread has a few page faults besides.
        let begin = faults();
        let (pages, page) = (NonZeroUsize::new(1000).unwrap(), page().unwrap());
        touch(pages, page).unwrap();
        let own = faults();
        assert!((1000..1100).contains(&(own - begin)), "{begin} to {own}");
        thread::scope(|scope| drop(scope.spawn(|| touch(pages, page).unwrap()).join()));
        let ended = faults();
        assert!((1000..1100).contains(&(ended - own)), "{own} to {ended}");
        let (touched, end) = (Barrier::new(2), Barrier::new(2));
        thread::scope(|scope| {
            scope.spawn(|| {
                touch(pages, page).unwrap();
                touched.wait();
                end.wait();
            });
            touched.wait();
            let alive = faults();
            end.wait();
            assert!((1000..1100).contains(&(alive - ended)), "{ended} to {alive}");
        });
    }

    /// Where the processor counts instructions, ten million passes of a loop are at least as many; elsewhere the reason
    /// names what is missing.
    #[test]
    fn instructions_are_counted_or_it_is_said_why_not() {
        if let Some(reason) = unavailable() {
            assert!(reason.contains("count") && reason.contains('('), "{reason}");
            assert!(open(instructions()).is_err());
            return;
        }
        let mut counter = open(instructions()).unwrap();
        let before = count(&mut counter).unwrap();
        for pass in 0..10_000_000_u64 {
            std::hint::black_box(pass);
        }
        assert!(count(&mut counter).unwrap() - before >= 10_000_000);
    }
}

//! Timer that wakes a client of an open loop on time: the timer of the Tokio runtime has a resolution of a millisecond.

use std::{io, time::Duration};

#[cfg(target_os = "linux")]
pub(super) use precise::Timer;
#[cfg(not(target_os = "linux"))]
pub(super) use rough::Timer;

#[cfg(target_os = "linux")]
mod precise {
    use super::{Duration, io};
    use nix::sys::{
        time::TimeSpec,
        timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags},
    };
    use std::os::fd::{AsFd, AsRawFd, RawFd};
    use tokio::io::{Interest, unix::AsyncFd};

    struct Descriptor(TimerFd);

    impl AsRawFd for Descriptor {
        fn as_raw_fd(&self) -> RawFd {
            self.0.as_fd().as_raw_fd()
        }
    }

    /// Timer of the kernel with a resolution of nanoseconds; uses one file descriptor.
    pub struct Timer(AsyncFd<Descriptor>);

    impl Timer {
        pub fn new() -> io::Result<Self> {
            let flags = TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC;
            let descriptor = Descriptor(TimerFd::new(ClockId::CLOCK_MONOTONIC, flags)?);
            #[expect(unsafe_code, reason = "tokio cannot see that the descriptor stays the same and open")]
            // SAFETY: the timer owns its descriptor, gives out no other, and closes it when it is dropped.
            let registered = unsafe { AsyncFd::register_with_interest(descriptor, Interest::READABLE) };
            Ok(Self(registered?))
        }

        /// Sleeps for `time`, without rounding it up to milliseconds.
        pub async fn sleep(&self, time: Duration) -> io::Result<()> {
            let timer = &self.0.get_ref().0;
            timer.set(Expiration::OneShot(TimeSpec::from_duration(time)), TimerSetTimeFlags::empty())?;
            let mut ready = self.0.readable().await?;
            // Reads the expiration from the descriptor.
            let _ = timer.wait();
            ready.clear_ready();
            Ok(())
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod rough {
    use super::{Duration, io};

    /// Timer of the Tokio runtime, with a resolution of a millisecond.
    pub struct Timer;

    impl Timer {
        pub fn new() -> io::Result<Self> {
            Ok(Self)
        }

        pub async fn sleep(&self, time: Duration) -> io::Result<()> {
            tokio::time::sleep(time).await;
            Ok(())
        }
    }
}

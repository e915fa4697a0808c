//! Restriction of the server and of the driver's threads to CPUs (`--cpus`).

use crate::bench::plan::options::Cpus;

/// Guard that keeps this thread, and the processes that it starts, on a set of CPUs until it is dropped.
pub struct Pinned {
    #[cfg(target_os = "linux")]
    before: nix::sched::CpuSet,
}

#[cfg(target_os = "linux")]
impl Pinned {
    /// Pins the calling thread to the CPUs with the numbers `cpus` until the returned guard is dropped. The error names
    /// the flag `--cpus`.
    ///
    /// # Errors
    ///
    /// Fails if this process may not use one of the CPUs.
    pub fn to(cpus: &[usize]) -> Result<Self, String> {
        use nix::{
            errno::Errno,
            sched::{CpuSet, sched_getaffinity, sched_setaffinity},
            unistd::Pid,
        };
        let this = Pid::from_raw(0);
        let failed =
            |cpus: &[usize], error| format!("--cpus: cannot run on processors {}: {error}", cpu_ranges(cpus));
        let error = |error: Errno| failed(cpus, error);
        let before = sched_getaffinity(this).map_err(error)?;
        let mut wanted = CpuSet::new();
        cpus.iter().try_for_each(|cpu| wanted.set(*cpu)).map_err(error)?;
        sched_setaffinity(this, &wanted).map_err(error)?;
        let pinned = Self { before };
        // The kernel leaves out CPUs that this process may not use, and fails only if none is left.
        let actual = sched_getaffinity(this).map_err(error)?;
        let absent = |cpu: &usize| !actual.is_set(*cpu).unwrap_or(false);
        match cpus.iter().copied().filter(absent).collect::<Vec<_>>() {
            absent if absent.is_empty() => Ok(pinned),
            absent => Err(failed(&absent, Errno::EINVAL)),
        }
    }
}

#[cfg(target_os = "linux")]
impl Drop for Pinned {
    fn drop(&mut self) {
        let _ = nix::sched::sched_setaffinity(nix::unistd::Pid::from_raw(0), &self.before);
    }
}

#[cfg(not(target_os = "linux"))]
impl Pinned {
    /// Returns an error: only Linux can pin threads.
    ///
    /// # Errors
    ///
    /// Always fails.
    pub fn to(_cpus: &[usize]) -> Result<Self, String> {
        Err("--cpus works only on Linux".into())
    }
}

/// Checks that this process may use the CPUs of `--cpus`, so that a run can fail before it measures anything.
///
/// # Errors
///
/// Fails with a sentence that names the flag and the CPUs that this process may not use.
pub fn check(cpus: &Cpus) -> Result<(), String> {
    [&cpus.server, &cpus.driver].into_iter().flatten().try_for_each(|set| Pinned::to(set).map(drop))
}

/// Returns the CPUs of the server and of the driver (`--cpus`) as text for the result; `None` if the user gave neither.
pub fn describe(cpus: &Cpus) -> Option<String> {
    let sets = [("server", &cpus.server), ("driver", &cpus.driver)];
    let named =
        sets.into_iter().filter_map(|(name, set)| Some(format!("{name} on {}", cpu_ranges(set.as_deref()?))));
    Some(named.collect::<Vec<_>>().join(", ")).filter(|text| !text.is_empty())
}

fn cpu_ranges(cpus: &[usize]) -> String {
    cpus.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn a_thread_is_pinned_until_the_guard_is_dropped() {
        let now = || nix::sched::sched_getaffinity(nix::unistd::Pid::from_raw(0)).unwrap();
        let before = now();
        let first = (0..1024).find(|cpu| before.is_set(*cpu).unwrap()).unwrap();
        let guard = Pinned::to(&[first]).unwrap();
        assert_eq!((0..1024).filter(|cpu| now().is_set(*cpu).unwrap()).collect::<Vec<_>>(), [first]);
        drop(guard);
        assert!(now() == before);
        for cpus in [&[1000][..], &[first, 1000]] {
            assert!(Pinned::to(cpus).err().unwrap().starts_with("--cpus: cannot run on processors 1000"));
            assert!(now() == before);
        }
    }
}

//! Limit of memory and page cache (`--memory-limit`): a control group for the measured processes. It makes it
//! possible to measure data larger than memory on any machine and in minutes.

use super::job_messages::leftovers;
use crate::engine::machine_memory::field_bytes;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use std::{
    fs, io,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

/// Name of the control group into which this process moves if its own must contain the groups of measured processes.
const DRIVER: &str = "kvbench-driver";

/// Prefix of the names of control groups for stores; the id of the process that created the group follows.
const NAME: &str = "kvbench-";

/// A memory control group for the processes that measure one job. Dropping it kills the processes that are left in the
/// group, and removes the group. A page in memory belongs to the group that touched it first, so the store must be
/// loaded inside the group.
#[derive(Debug)]
pub struct MemoryGroup {
    path: PathBuf,
    version: Version,
    /// Name of the file and error if swap could not be limited; otherwise `None`.
    swap_failure: Option<String>,
}

/// Version of control groups, which decides how memory is limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    /// Version 1 of control groups: one hierarchy for each resource.
    One,
    /// Version 2 of control groups: one hierarchy for all resources.
    Two,
}

impl Version {
    fn files(self, bytes: u64) -> Vec<(&'static str, String, bool)> {
        match self {
            // The limit of memory with swap cannot be below the memory limit, so it is set second; a kernel
            // may not count swap at all.
            Self::One => vec![
                ("memory.limit_in_bytes", bytes.to_string(), true),
                ("memory.memsw.limit_in_bytes", bytes.to_string(), false),
            ],
            Self::Two => {
                vec![("memory.max", bytes.to_string(), true), ("memory.swap.max", "0".into(), false)]
            }
        }
    }
}

impl MemoryGroup {
    /// Creates a control group with a limit of `bytes` of memory, below the group of this process or at the top. The
    /// error names the flag and a remedy.
    ///
    /// # Errors
    ///
    /// Fails if this process may not create a control group, or the system has none for memory.
    pub fn new(bytes: u64) -> Result<Self, String> {
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let mut faults = Vec::new();
        for (version, parent) in places(&own, &mounts) {
            match Self::below(&parent, version, bytes) {
                Ok(group) => return Ok(group),
                Err(error) => faults.push(format!("{}: {error}", parent.display())),
            }
        }
        if faults.is_empty() {
            faults.push("this system has no control groups for memory".into());
        }
        Err(format!(
            "--memory-limit: no control group can be made ({}); run as root, or with a delegated group: \
             systemd-run --user --scope -p Delegate=yes kvbench bench ...",
            faults.join("; ")
        ))
    }

    fn below(parent: &Path, version: Version, bytes: u64) -> io::Result<Self> {
        if version == Version::Two {
            delegate(parent)?;
        }
        remove_leftovers(parent);
        let path = parent.join(format!("{NAME}{}", std::process::id()));
        fs::create_dir(&path)?;
        let mut group = Self { path, version, swap_failure: None };
        group.limit(bytes)?;
        Ok(group)
    }

    /// Limits the memory of the control group to `bytes`, and its swap to none. A limit of swap that cannot be set is no
    /// error.
    fn limit(&mut self, bytes: u64) -> io::Result<()> {
        for (name, text, needed) in self.version.files(bytes) {
            // Opened without `create`: otherwise, outside a control group file system, a plain file would be
            // written that limits nothing.
            let path = self.path.join(name);
            let written = fs::OpenOptions::new()
                .write(true)
                .open(path)
                .and_then(|mut file| io::Write::write_all(&mut file, text.as_bytes()));
            match written {
                Err(error) if needed => return Err(error),
                Err(error) => self.swap_failure = Some(format!("{name}: {error}")),
                Ok(()) => {}
            }
        }
        Ok(())
    }

    /// Returns a warning if swap could not be limited, so that measured processes may use it beyond the limit; `None`
    /// if `swap_bytes`, the size of the machine's swap in bytes, is 0.
    pub(super) fn swap_warning(&self, swap_bytes: u64) -> Option<String> {
        let failure = self.swap_failure.as_ref().filter(|_| swap_bytes > 0)?;
        Some(format!(
            "--memory-limit does not limit swap ({failure}): stores may use more memory; turn swap off (swapoff -a)"
        ))
    }

    /// Returns the number of processes of the group that the kernel has killed because they needed more memory.
    pub fn killed(&self) -> u64 {
        let file = match self.version {
            Version::One => "memory.oom_control",
            Version::Two => "memory.events",
        };
        killed_of(&fs::read_to_string(self.path.join(file)).unwrap_or_default())
    }

    /// Returns the largest amount of memory and page cache that the control group has used, in bytes; `None` if the
    /// kernel does not report it, as before Linux 5.19 with version 2 of control groups.
    pub(super) fn peak(&self) -> Option<u64> {
        let file = match self.version {
            Version::One => "memory.max_usage_in_bytes",
            Version::Two => "memory.peak",
        };
        fs::read_to_string(self.path.join(file)).ok()?.trim().parse().ok()
    }

    /// Puts a process, and the processes that it starts from now on, into the memory control group.
    ///
    /// # Errors
    ///
    /// Fails if the process has ended, or may not be moved into the group.
    pub fn add(&self, pid: u32) -> io::Result<()> {
        fs::write(self.path.join("cgroup.procs"), pid.to_string())
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        // If the kernel has killed the measuring process, its server may still run. Memory that the kernel still
        // accounts to the group does not prevent removal.
        for _ in 0..100 {
            let left = fs::read_to_string(self.path.join("cgroup.procs")).unwrap_or_default();
            for id in left.lines().filter_map(|line| line.parse().ok()) {
                let _ = kill(Pid::from_raw(id), Signal::SIGKILL);
            }
            if fs::remove_dir(&self.path).is_ok() {
                return;
            }
            thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Returns the size of the machine's swap in bytes; 0 if it is not known.
pub(super) fn swap_bytes() -> u64 {
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    field_bytes(&meminfo, "SwapTotal:").unwrap_or(0)
}

/// Returns the number of killed processes in the text of a control group's file of memory events.
fn killed_of(events: &str) -> u64 {
    let number = events.lines().find_map(|line| line.strip_prefix("oom_kill "));
    number.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
}

/// Removes control groups below `parent` whose creator was killed before it could remove them.
fn remove_leftovers(parent: &Path) {
    for path in leftovers(parent, NAME, "") {
        // Fails while a process is in the group.
        let _ = fs::remove_dir(path);
    }
}

/// Enables memory limits for control groups below `parent` (version 2). The kernel forbids this for a group that
/// contains processes, so if necessary this process first moves into a group below it.
fn delegate(parent: &Path) -> io::Result<()> {
    let control = parent.join("cgroup.subtree_control");
    if fs::read_to_string(&control)?.split_whitespace().any(|word| word == "memory") {
        return Ok(());
    }
    if fs::write(&control, "+memory").is_ok() {
        return Ok(());
    }
    let leaf = parent.join(DRIVER);
    fs::create_dir_all(&leaf)?;
    let enter = |group: &Path| fs::write(group.join("cgroup.procs"), std::process::id().to_string());
    let enabled = enter(&leaf).and_then(|()| fs::write(&control, "+memory"));
    if enabled.is_err() {
        // Another process is in `parent` as well. An error leaves nothing behind; the first one counts.
        let _ = enter(parent);
        let _ = fs::remove_dir(&leaf);
    }
    enabled
}

/// Returns the control groups below which a group may be created, best first: that of this process, which may have been
/// delegated to it, then the top. `own` and `mounts` are `cgroup` and `mountinfo` of `/proc/self`.
fn places(own: &str, mounts: &str) -> Vec<(Version, PathBuf)> {
    let mount = |kind: &str, option: Option<&str>| {
        // "36 35 98:0 /root /mount/point options optional... - type device options"
        let found = mounts.lines().find_map(|line| {
            let (mount, rest) = line.split_once(" - ")?;
            let mut rest = rest.split(' ');
            let fits = rest.next()? == kind
                && option.is_none_or(|wanted| {
                    rest.nth(1).is_some_and(|all| all.split(',').any(|one| one == wanted))
                });
            fits.then(|| mount.split(' ').nth(4)).flatten()
        });
        found.map(PathBuf::from)
    };
    let path = |controllers: &str| {
        own.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':').skip(1);
            let found = parts.next()?.split(',').any(|name| name == controllers);
            found.then(|| parts.next()).flatten().map(|path| path.trim_start_matches('/').to_owned())
        })
    };
    let mut places = Vec::new();
    for (version, top, own) in [
        (Version::One, mount("cgroup", Some("memory")), path("memory")),
        (Version::Two, mount("cgroup2", None), path("")),
    ] {
        let Some(top) = top else { continue };
        if version == Version::Two && places.iter().any(|(other, _)| *other == Version::One) {
            // Memory is controlled by the older hierarchy here.
            continue;
        }
        // After `delegate`, this process is in the group below.
        let own = own.as_deref().map(|own| own.strip_suffix(DRIVER).unwrap_or(own).trim_end_matches('/'));
        places.extend(own.filter(|own| !own.is_empty()).map(|own| (version, top.join(own))));
        places.push((version, top));
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::{result::Environment, run::warn};

    const UNIFIED: &str = "30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n";
    const OLD: &str = "33 24 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
        34 24 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
        35 24 0:31 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";

    #[test]
    fn a_group_is_made_where_memory_is_limited() {
        // A later job finds this process in the group that an earlier one made.
        for own in ["0::/user.slice/run-1.scope\n", "0::/user.slice/run-1.scope/kvbench-driver\n"] {
            assert_eq!(
                places(own, UNIFIED),
                [
                    (Version::Two, "/sys/fs/cgroup/user.slice/run-1.scope".into()),
                    (Version::Two, "/sys/fs/cgroup".into())
                ]
            );
        }
        assert_eq!(
            places("9:cpu:/\n4:memory:/a/b\n0::/\n", OLD),
            [
                (Version::One, "/sys/fs/cgroup/memory/a/b".into()),
                (Version::One, "/sys/fs/cgroup/memory".into())
            ]
        );
        assert_eq!(places("", ""), []);
    }

    #[test]
    fn groups_of_processes_that_are_gone_are_removed_and_others_are_not() {
        let dir = tempfile::tempdir().unwrap();
        // Linux gives no process a larger id than 4,194,304.
        let own = format!("kvbench-{}", std::process::id());
        for name in ["kvbench-4194305", "kvbench-driver", "other-4194305", &own] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        remove_leftovers(dir.path());
        let left = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name());
        let mut left: Vec<_> = left.map(|name| name.into_string().unwrap()).collect();
        left.sort();
        let mut kept = [&own, "kvbench-driver", "other-4194305"];
        kept.sort();
        assert_eq!(left, kept);
    }

    #[test]
    fn kills_are_counted_in_both_versions_of_control_groups() {
        assert_eq!(killed_of("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"), 3);
        assert_eq!(killed_of("low 0\nmax 12\noom 2\noom_kill 1\noom_group_kill 0\n"), 1);
        assert_eq!(killed_of(""), 0);
    }

    /// Swap is not limited by a kernel that does not count it: the control group has no file for that limit.
    #[test]
    fn a_limit_that_swap_evades_is_warned_of() {
        for (version, limit, swap) in [
            (Version::One, "memory.limit_in_bytes", "memory.memsw.limit_in_bytes"),
            (Version::Two, "memory.max", "memory.swap.max"),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let group = |files: &[&str]| {
                let path = dir.path().join("group");
                fs::create_dir(&path).unwrap();
                let mut group = MemoryGroup { path, version, swap_failure: None };
                files.iter().for_each(|file| fs::write(group.path.join(file), "").unwrap());
                group.limit(1 << 20).unwrap();
                files.iter().for_each(|file| fs::remove_file(group.path.join(file)).unwrap());
                group
            };
            assert_eq!(group(&[limit, swap]).swap_warning(1024), None);
            let failed = group(&[limit]);
            assert_eq!(failed.swap_warning(0), None, "a machine without swap");
            // Each start of the run warns, and the result has the warning once.
            let mut environment = Environment::default();
            (0..2).for_each(|_| warn(&mut environment, failed.swap_warning(1024).unwrap()));
            let [warning] = &environment.warnings[..] else { panic!("{:?}", environment.warnings) };
            assert!(warning.contains(&format!("does not limit swap ({swap}: No such file")), "{warning}");
        }
    }

    /// In a directory that is no control group, a limit is an error, and no plain file is left: the kernel would not
    /// enforce it.
    #[test]
    fn a_limit_that_cannot_be_set_is_an_error_and_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        assert!(MemoryGroup::below(dir.path(), Version::One, 1 << 20).is_err());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}

//! Resources used by a process, from `/proc`; unknown on systems other than Linux.

use super::{allocations::Allocated, instruction_counter};
use crate::engine::{kinds, machine_memory::field_bytes};
use std::{
    collections::BTreeMap,
    ffi::CStr,
    fs,
    path::{Path, PathBuf},
};

/// Resources that a process has used since its start, or since an earlier reading: CPU time, written bytes, memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessUsage {
    /// CPU time of all threads of the process, in nanoseconds; `None` if it is not known.
    pub cpu_ns: Option<u64>,
    /// Bytes that the process has passed to write calls on files, pipes, sockets and event counters (`wchar` in
    /// proc_pid_io(5)).
    pub written_bytes: Option<u64>,
    /// Number of write calls of the process on files, pipes, sockets and event counters (`syscw` in proc_pid_io(5)).
    pub write_calls: Option<u64>,
    /// Memory of the process.
    pub memory: Memory,
    /// Number of syncs that the one-second timer of the driver (in process) or of the kvbench server made under the
    /// fsync policy `everysec`; `None` under other policies, and for other servers.
    pub timer_syncs: Option<u64>,
    /// Number of expired keys that the store removed; `None` if values do not expire, or if the number is not known.
    pub expired_keys: Option<u64>,
    /// Memory allocations of the engine (number and bytes); `None` if they were not counted.
    pub allocated: Option<Allocated>,
    /// Instructions that the process has executed in user space; `None` if they were not counted.
    pub instructions: Option<u64>,
}

/// Memory of a process, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Resident memory of the process in bytes; `None` if it is not known.
    pub resident: Option<u64>,
    /// Resident memory of the process that is not mapped from a file, in bytes; `None` if it is not known.
    pub anonymous: Option<u64>,
    /// Maximum resident memory of the process since [`reset_peak`], in bytes; `None` if it is not known.
    pub peak: Option<u64>,
}

/// Returns free memory of the allocator to the system, so that it is not charged to the following cells.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(super) fn give_back_memory() {
    #[expect(unsafe_code, reason = "a function that no crate in use wraps")]
    // SAFETY: malloc_trim only releases free memory, under the allocator's own locks.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Does nothing: other C libraries have no known equivalent.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(super) fn give_back_memory() {}

impl ProcessUsage {
    /// Returns the CPU time, memory, written bytes and instructions of this process, as far as the system reports them.
    pub fn of_self() -> Self {
        Self::of(std::process::id())
    }

    /// Returns the CPU time, memory and written bytes of the process `pid`, as far as this user may read them.
    pub fn of(pid: u32) -> Self {
        let io = read(pid, "io");
        let of_io = |name| io.as_deref().and_then(|io| field(io, name));
        Self {
            cpu_ns: cpu_ns(pid),
            written_bytes: of_io("wchar:"),
            write_calls: of_io("syscw:"),
            memory: read(pid, "status").as_deref().map(memory).unwrap_or_default(),
            timer_syncs: None,
            expired_keys: None,
            allocated: None,
            instructions: (pid == std::process::id()).then(instruction_counter::read).flatten(),
        }
    }

    /// Returns the resources that the process has used since the earlier reading `before`; a value is `None` if it is
    /// unknown in one of the readings. Memory and allocations are those of this reading, not differences.
    pub fn since(&self, before: &Self) -> Self {
        let less = |after: Option<u64>, before: Option<u64>| Some(after?.saturating_sub(before?));
        Self {
            cpu_ns: less(self.cpu_ns, before.cpu_ns),
            written_bytes: less(self.written_bytes, before.written_bytes),
            write_calls: less(self.write_calls, before.write_calls),
            memory: self.memory,
            timer_syncs: less(self.timer_syncs, before.timer_syncs),
            expired_keys: less(self.expired_keys, before.expired_keys),
            allocated: self.allocated,
            instructions: less(self.instructions, before.instructions),
        }
    }
}

impl Memory {
    /// Returns the memory in excess of `base`; the peak in excess of the resident memory of `base`.
    pub fn beyond(&self, base: &Self) -> Self {
        let less = |now: Option<u64>, base: Option<u64>| Some(now?.saturating_sub(base.unwrap_or(0)));
        Self {
            resident: less(self.resident, base.resident),
            anonymous: less(self.anonymous, base.anonymous),
            peak: less(self.peak, base.resident),
        }
    }
}

/// Gives the calling thread a name, by which a soak tells its CPU time from that of others.
pub fn name_thread(name: &CStr) {
    #[cfg(target_os = "linux")]
    // If this fails, its CPU time is that of threads with the old name.
    let _ = nix::sys::prctl::set_name(name);
    #[cfg(not(target_os = "linux"))]
    let _ = name;
}

/// CPU time of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadCpu {
    /// Name of the thread, without the numbers at its end.
    pub name: String,
    /// CPU time of the thread in milliseconds, in steps of ten.
    pub ms: u64,
}

/// Returns the CPU time of the living threads of this process by their id; empty if it is not known.
pub fn cpu_by_thread() -> BTreeMap<u32, ThreadCpu> {
    let threads = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    // A thread that ends meanwhile has no file.
    let cpu = |thread: fs::DirEntry| {
        let id = thread.file_name().to_str()?.parse().ok()?;
        Some((id, thread_cpu(&fs::read_to_string(thread.path().join("stat")).ok()?)?))
    };
    threads.filter_map(cpu).collect()
}

/// Returns the CPU time of a thread with this `stat` file (proc_pid_stat(5)), or `None` if it has another form.
fn thread_cpu(stat: &str) -> Option<ThreadCpu> {
    // Linux counts in hundredths of a second for all programs (USER_HZ).
    const TICK_MS: u64 = 10;
    let (name, rest) = stat.split_once('(')?.1.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<u32>().ok();
    let ms = (u64::from(ticks()?) + u64::from(ticks()?)) * TICK_MS;
    let name = name.trim_end_matches(|letter: char| letter.is_ascii_digit() || "-_:#".contains(letter));
    Some(ThreadCpu { name: name.into(), ms })
}

/// Resets the peak memory of a process to its current memory.
pub fn reset_peak(pid: u32) {
    // If this is not permitted, the peak is that of the whole life of the process, which is at least as
    // large.
    let _ = fs::write(Path::new("/proc").join(pid.to_string()).join("clear_refs"), "5");
}

/// Returns the bytes of the files in `directory` that a process has in memory by mapping them, or `None` if this user
/// may not read them.
pub fn mapped_bytes(pid: u32, directory: &Path) -> Option<u64> {
    Some(mapped(&read(pid, "smaps")?, directory))
}

/// Returns the path of a data file in `directory` that a process can change through its memory map, without write
/// calls; `None` if there is none.
pub(super) fn writable_map(pid: u32, directory: &Path) -> Option<PathBuf> {
    let coordination: Vec<_> = kinds().flat_map(|kind| kind.coordination_files).copied().collect();
    writable(&read(pid, "maps")?, directory, &coordination)
}

fn read(pid: u32, file: &str) -> Option<String> {
    fs::read_to_string(Path::new("/proc").join(pid.to_string()).join(file)).ok()
}

/// Returns `true` if the system reports the resources that the process `pid` uses, or if it reports those of no process
/// (systems other than Linux).
pub(super) fn can_read(pid: u32) -> bool {
    cfg!(not(target_os = "linux")) || read(pid, "stat").is_some()
}

/// Returns the CPU time of a process in nanoseconds, or `None` if it is not known; `/proc/PID/stat` has hundredths of a second
/// only.
#[cfg(target_os = "linux")]
pub(super) fn cpu_ns(pid: u32) -> Option<u64> {
    use nix::{
        time::{clock_getcpuclockid, clock_gettime},
        unistd::Pid,
    };
    let clock = clock_getcpuclockid(Pid::from_raw(i32::try_from(pid).ok()?)).ok()?;
    let time = std::time::Duration::from(clock_gettime(clock).ok()?);
    u64::try_from(time.as_nanos()).ok()
}

/// Returns `None`: it is not known on other systems.
#[cfg(not(target_os = "linux"))]
pub(super) fn cpu_ns(_: u32) -> Option<u64> {
    None
}

fn memory(status: &str) -> Memory {
    let bytes = |name| field_bytes(status, name);
    Memory { resident: bytes("VmRSS:"), anonymous: bytes("RssAnon:"), peak: bytes("VmHWM:") }
}

fn mapped(smaps: &str, directory: &Path) -> u64 {
    let (mut inside, mut bytes) = (false, 0);
    for line in smaps.lines() {
        // "7f00-7f10 r--s 00000000 08:01 17   /path", then lines such as "Rss:   12 kB".
        let is_head = line.split_whitespace().next().is_some_and(|word| !word.ends_with(':'));
        if is_head {
            let path = line.find('/').and_then(|start| line.get(start..));
            inside = path.is_some_and(|path| Path::new(path).starts_with(directory));
        } else if inside {
            bytes += field_bytes(line, "Rss:").unwrap_or(0);
        }
    }
    bytes
}

fn writable(maps: &str, directory: &Path, coordination: &[&str]) -> Option<PathBuf> {
    // "7f00-7f10 rw-s 00000000 08:01 17   /path"
    let shared = maps.lines().filter(|line| {
        let permissions = line.split_whitespace().nth(1).unwrap_or_default();
        permissions.contains('w') && permissions.ends_with('s')
    });
    let paths = shared.filter_map(|line| Some(Path::new(line.get(line.find('/')?..)?)));
    let holds_data = |path: &&Path| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        path.starts_with(directory) && !coordination.iter().any(|end| name.ends_with(end))
    };
    paths.into_iter().find(holds_data).map(Into::into)
}

/// Returns the number that follows `name` at the start of a line of `text`, as in `/proc/self/io`; `None` if there is
/// none.
pub(super) fn field(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes of all write calls count, also those of pages that are overwritten in place, or deleted before they
    /// reach the device.
    #[test]
    #[cfg(target_os = "linux")]
    fn bytes_of_write_calls_are_counted_each_time() {
        use std::os::unix::fs::FileExt;
        let dir = tempfile::tempdir().unwrap();
        let (file, before) = (fs::File::create(dir.path().join("page")).unwrap(), ProcessUsage::of_self());
        (0..64).for_each(|_| file.write_all_at(&[1; 4096], 0).unwrap());
        assert!(ProcessUsage::of_self().since(&before).written_bytes.unwrap() >= 64 * 4096);
    }

    #[test]
    fn a_data_file_that_is_written_through_its_map_is_found() {
        let maps = "7f0000-7f1000 r--s 00000000 08:01 17    /data/store/data.mdb\n\
                    7f1000-7f2000 rw-s 00000000 08:01 18    /data/store/lock.mdb\n\
                    7f2000-7f3000 rw-s 00000000 08:01 19    /data/store/db-shm\n\
                    7f3000-7f4000 rw-p 00000000 08:01 20    /data/store/private\n\
                    7f4000-7f5000 rw-s 00000000 08:01 21    /other/file\n";
        let (directory, coordination) = (Path::new("/data/store"), ["lock.mdb", "-shm"]);
        assert_eq!(writable(maps, directory, &coordination), None);
        let maps = format!("{maps}7f5000-7f6000 rw-s 00000000 08:01 22    /data/store/tree data\n");
        assert_eq!(writable(&maps, directory, &coordination), Some("/data/store/tree data".into()));
    }

    #[test]
    fn name_and_cpu_time_of_a_thread_are_read() {
        let cpu = |name: &str, ms| Some(ThreadCpu { name: name.into(), ms });
        let stat = "17 (rocksdb:low12) S 1 17 17 0 -1 4194304 10 0 0 0 150 30 0 0 20 0 4 0 100 1000 20";
        assert_eq!(thread_cpu(stat), cpu("rocksdb:low", 1800));
        assert_eq!(thread_cpu("17 (a (b) c) R 1 1 1 0 -1 0 1 0 0 0 1 2"), cpu("a (b) c", 30));
        assert_eq!(thread_cpu("17 (x) S 1"), None);
    }

    #[test]
    fn mapped_files_are_told_by_their_directory() {
        let smaps = "7f0000-7f1000 r--s 00000000 08:01 17    /data/store/data.mdb\nSize: 4000 kB\nRss: 12 kB\n\
                     7f1000-7f2000 r-xp 00000000 08:01 18    /usr/bin/kvbench\nRss: 100 kB\n\
                     7f2000-7f3000 rw-p 00000000 00:00 0\nRss: 200 kB\n\
                     7f3000-7f4000 r--s 00000000 08:01 19    /data/store/b\nRss: 4 kB\n";
        assert_eq!(mapped(smaps, Path::new("/data/store")), 16 << 10);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_process_knows_its_own_time_and_memory() {
        let before = ProcessUsage::of_self();
        let begin = nix::time::clock_gettime(nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap();
        let spent = || {
            let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap();
            std::time::Duration::from(now - begin).as_nanos() as u64
        };
        while spent() < 3_000_000 {}
        let used = ProcessUsage::of_self().since(&before);
        assert!(used.cpu_ns.unwrap() >= 3_000_000, "{used:?}");
        assert!(used.memory.anonymous.unwrap() > 0 && used.memory.peak >= used.memory.resident, "{used:?}");
    }
}

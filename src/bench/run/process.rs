//! What a process has used, from `/proc`; all of it unknown on other systems than Linux.

use std::{fs, path::Path};

/// Ticks of `/proc/PID/stat` in a second: the kernel shows 100 to programs whatever its own clock is.
const TICKS: u64 = 100;

/// What a process has used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Processor time in microseconds.
    pub cpu_us: Option<u64>,
    /// Bytes it caused to be written to storage.
    pub written_bytes: Option<u64>,
    /// Largest resident memory, in bytes.
    pub peak_memory_bytes: Option<u64>,
}

impl Usage {
    /// Of this process.
    pub fn of_self() -> Self {
        Self::of(std::process::id())
    }

    /// Of the process `pid`, as far as this user may know.
    pub fn of(pid: u32) -> Self {
        let read = |file: &str| fs::read_to_string(Path::new("/proc").join(pid.to_string()).join(file)).ok();
        Self {
            cpu_us: read("stat").as_deref().and_then(cpu_us),
            written_bytes: read("io").as_deref().and_then(|text| field(text, "write_bytes:")),
            peak_memory_bytes: read("status")
                .as_deref()
                .and_then(|text| field(text, "VmHWM:"))
                .map(|kib| kib << 10),
        }
    }

    /// What came since `before`; the peak is that of the whole life.
    pub fn since(&self, before: &Self) -> Self {
        let less = |after: Option<u64>, before: Option<u64>| Some(after?.saturating_sub(before?));
        Self {
            cpu_us: less(self.cpu_us, before.cpu_us),
            written_bytes: less(self.written_bytes, before.written_bytes),
            peak_memory_bytes: self.peak_memory_bytes,
        }
    }
}

/// User and system time: fields 14 and 15. The second one, the program's name, may hold anything but is
/// in brackets.
fn cpu_us(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(11);
    let (user, system): (u64, u64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some((user + system) * (1_000_000 / TICKS))
}

/// The number behind a name at the start of a line.
pub(super) fn field(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_whitespace().next()?.parse().ok()
}

/// Bytes that a file or directory takes on disk.
pub fn disk_bytes(path: &Path) -> u64 {
    let Ok(metadata) = fs::symlink_metadata(path) else { return 0 };
    let inside = match metadata.is_dir() {
        true => {
            fs::read_dir(path).into_iter().flatten().flatten().map(|entry| disk_bytes(&entry.path())).sum()
        }
        false => 0,
    };
    inside + allocated(&metadata)
}

#[cfg(unix)]
fn allocated(metadata: &fs::Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::blocks(metadata) * 512
}

#[cfg(not(unix))]
fn allocated(metadata: &fs::Metadata) -> u64 {
    metadata.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_program_does_not_shift_the_fields() {
        let stat = "17 (a ) b) S 1 2 3 4 5 6 7 8 9 10 250 50 0 0";
        assert_eq!(cpu_us(stat), Some(3_000_000));
    }
}

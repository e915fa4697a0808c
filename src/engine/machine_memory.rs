//! Memory limit of this process, from the machine or its container, and the sizes in files of `/proc`.

use std::{fs, path::Path};

/// Returns the memory that this process may use, in bytes: the machine's, or the smallest limit of a control group
/// above the process (see cgroups(7)). `None` if it cannot be determined.
pub fn memory_bytes() -> Option<u64> {
    let machine = machine_bytes();
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let limits = groups.lines().filter_map(limit_file).flat_map(|(root, group, file)| {
        let inside = |path: &Path| path.ancestors().map(|group| group.join(file)).collect::<Vec<_>>();
        let path = Path::new(root).join(group.trim_start_matches('/'));
        inside(&path).into_iter().filter(move |path| path.starts_with(root))
    });
    limits.filter_map(|path| fs::read_to_string(path).ok()?.trim().parse().ok()).chain(machine).min()
}

/// Returns the machine's memory in bytes, or `None` if it cannot be determined.
pub fn machine_bytes() -> Option<u64> {
    field_bytes(&fs::read_to_string("/proc/meminfo").ok()?, "MemTotal:")
}

/// Returns the size, in bytes, of the first line of `text` that begins with `name`, such as `MemTotal: 16 kB` in
/// `/proc/meminfo`. `None` if there is no such line, or if its unit is not kB.
pub fn field_bytes(text: &str, name: &str) -> Option<u64> {
    let size = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = size.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// Returns the location of the limit of one line of `/proc/self/cgroup`: the hierarchy, the group in it, the file.
fn limit_file(line: &str) -> Option<(&'static str, &str, &'static str)> {
    let mut parts = line.splitn(3, ':');
    let (_, controllers, group) = (parts.next()?, parts.next()?, parts.next()?);
    match controllers {
        "" => Some(("/sys/fs/cgroup", group, "memory.max")),
        _ if controllers.split(',').any(|name| name == "memory") => {
            Some(("/sys/fs/cgroup/memory", group, "memory.limit_in_bytes"))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_of_control_groups_are_found() {
        assert_eq!(limit_file("0::/user.slice"), Some(("/sys/fs/cgroup", "/user.slice", "memory.max")));
        let version_1 = ("/sys/fs/cgroup/memory", "/docker/a:b", "memory.limit_in_bytes");
        assert_eq!(limit_file("4:cpu,memory:/docker/a:b"), Some(version_1));
        assert_eq!(limit_file("3:cpuset:/"), None);
        assert_eq!(limit_file(""), None);
    }

    #[test]
    fn the_machines_memory_is_read_in_bytes() {
        let total = |text| field_bytes(text, "MemTotal:");
        assert_eq!(total("MemFree: 1 kB\nMemTotal:       16 kB\n"), Some(16 << 10));
        assert_eq!(total("MemTotal: 16 pages\n"), None);
        assert_eq!(total(""), None);
    }
}

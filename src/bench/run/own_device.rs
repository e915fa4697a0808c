//! A block device of a cell's own: a loop device with a new file system, so that the kernel counts what one store
//! reads and writes, and nothing else. A sync takes longer there than on the machine's device.

use crate::bench::result::{Cell, Measurement};
#[cfg(target_os = "linux")]
use nix::{
    mount::{MsFlags, mount},
    sched::{CloneFlags, unshare},
};
use std::path::Path;
#[cfg(target_os = "linux")]
use std::{
    fs::{self, File},
    os::unix::fs::MetadataExt,
    path::PathBuf,
    process::Command,
};

/// Size in bytes of the file system in addition to [`PER_BYTE`]: for its journal, and for log files that engines keep.
const EXTRA_BYTES: u64 = 4 << 30;
/// Size in bytes of the file system for each byte of keys and values that it must hold. Its image file is sparse.
const PER_BYTE: u64 = 12;

/// Returns the size in bytes of a block device that suffices for the store of `cells`.
pub fn size_for(cells: &[Cell]) -> u64 {
    let data = cells.iter().map(|cell| cell.workload.most_keys() as f64 * cell.workload.pair_bytes());
    EXTRA_BYTES + PER_BYTE * data.fold(0.0, f64::max) as u64
}

/// Mounts a new file system of `bytes` at `directory`, which must exist. Only this thread, those that it starts, and
/// their child processes see it; it vanishes with them. `read_ahead_kib` is the device's read-ahead; `None` for that
/// of the device below `directory`.
///
/// # Errors
///
/// Returns the reason if this process may not mount, or if a program or a loop device is missing.
#[cfg(target_os = "linux")]
pub fn mount_at(directory: &Path, bytes: u64, read_ahead_kib: Option<u64>) -> Result<(), String> {
    mount_like(queue_of(directory).as_deref(), directory, bytes, read_ahead_kib)
}

/// Does what [`mount_at`] does. `real` is the directory in `/sys` from which the new device takes its write cache
/// setting and, without `read_ahead_kib`, its read-ahead: see [`queue_of`]. `None`: the kernel's defaults.
#[cfg(target_os = "linux")]
fn mount_like(
    real: Option<&Path>,
    directory: &Path,
    bytes: u64,
    read_ahead_kib: Option<u64>,
) -> Result<(), String> {
    let image = directory.with_extension("image");
    let file = File::create(&image).and_then(|file| file.set_len(bytes));
    file.map_err(|error| format!("{}: {error}", image.display()))?;
    let device = attach(&image);
    // The device keeps the file.
    let _ = fs::remove_file(&image);
    let device = device?;
    // A device in use is only marked: it goes with its last user, even if this process is killed.
    let user = File::open(&device);
    let detached = run("losetup", &["--detach", &device]);
    let _user = user.map_err(|error| format!("{device}: {error}"))?;
    detached?;
    mount_device(&device, directory, real, read_ahead_kib)
}

#[cfg(not(target_os = "linux"))]
#[expect(missing_docs, reason = "documented for Linux")]
pub fn mount_at(_: &Path, _: u64, _: Option<u64>) -> Result<(), String> {
    Err("only Linux has loop devices".into())
}

#[cfg(target_os = "linux")]
fn attach(image: &Path) -> Result<String, String> {
    unshare(CloneFlags::CLONE_NEWNS).map_err(|error| format!("no mount namespace of its own: {error}"))?;
    let (none, flags) = (None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE);
    mount(none, "/", none, flags, none).map_err(|error| format!("private mounts: {error}"))?;
    let image = image.display().to_string();
    run("losetup", &["--find", "--show", "--direct-io=on", &image])
}

#[cfg(target_os = "linux")]
fn mount_device(
    device: &str,
    directory: &Path,
    real: Option<&Path>,
    read_ahead_kib: Option<u64>,
) -> Result<(), String> {
    // Without these options the kernel would go on to write tables of the file system for minutes.
    let whole = "lazy_itable_init=0,lazy_journal_init=0";
    run("mkfs.ext4", &["-q", "-F", "-i", "262144", "-J", "size=64", "-E", whole, device])?;
    let queue = Path::new("/sys/block").join(device.trim_start_matches("/dev/")).join("queue");
    let setting = |name: &str| fs::read_to_string(real?.join(name)).ok();
    for (name, value) in [
        ("write_cache", setting("write_cache")),
        ("read_ahead_kb", read_ahead_kib.map(|kib| kib.to_string()).or_else(|| setting("read_ahead_kb"))),
    ] {
        let Some(value) = value else { continue };
        fs::write(queue.join(name), value.trim()).map_err(|error| format!("{name} of {device}: {error}"))?;
    }
    let none = None::<&str>;
    mount(Some(device), directory, Some("ext4"), MsFlags::empty(), none)
        .map_err(|error| format!("mount of {device}: {error}"))
}

/// Runs a program and returns the first line that it writes. The error is the first line of its standard error.
#[cfg(target_os = "linux")]
fn run(program: &str, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(program).args(arguments).output();
    let output = output.map_err(|error| format!("{program}: {error}"))?;
    let line = |bytes: &[u8]| String::from_utf8_lossy(bytes).lines().next().unwrap_or_default().to_owned();
    match output.status.success() {
        true => Ok(line(&output.stdout)),
        false => Err(format!("{program}: {}", line(&output.stderr))),
    }
}

/// Returns the path in `/sys` of the queue settings of the block device that holds `directory`, or `None` if there is
/// none.
#[cfg(target_os = "linux")]
fn queue_of(directory: &Path) -> Option<PathBuf> {
    use nix::sys::stat::{major, minor};
    let number = fs::metadata(directory).ok()?.dev();
    let device = Path::new("/sys/dev/block").join(format!("{}:{}", major(number), minor(number)));
    // A partition has the queue of its disk.
    [device.join("queue"), device.join("../queue")].into_iter().find(|queue| queue.exists())
}

/// Returns the read-ahead in KiB of the block device that holds `directory`, or `None` if there is none.
#[cfg(target_os = "linux")]
pub fn read_ahead_kib(directory: &Path) -> Option<u64> {
    fs::read_to_string(queue_of(directory)?.join("read_ahead_kb")).ok()?.trim().parse().ok()
}

#[cfg(not(target_os = "linux"))]
#[expect(missing_docs, reason = "documented for Linux")]
pub fn read_ahead_kib(_: &Path) -> Option<u64> {
    None
}

/// Keeps of a measurement only numbers of operations, keys, faults and bytes, memory and sizes. The caller uses it for
/// cells on a loop device, whose rates, latencies and times are not those of the machine's device.
pub fn leave_out_times(measurement: &mut Measurement) {
    let kept = measurement.clone();
    *measurement = Measurement {
        operations: kept.operations,
        keys_before: kept.keys_before,
        keys_after: kept.keys_after,
        verified_values: kept.verified_values,
        errors: kept.errors,
        misses: kept.misses,
        wrong_values: kept.wrong_values,
        first_fault: kept.first_fault,
        peak_memory_bytes: kept.peak_memory_bytes,
        anonymous_bytes: kept.anonymous_bytes,
        mapped_bytes: kept.mapped_bytes,
        user_bytes: kept.user_bytes,
        written_bytes: kept.written_bytes,
        write_calls: kept.write_calls,
        device_bytes: kept.device_bytes,
        write_amplification: kept.write_amplification,
        device_write_amplification: kept.device_write_amplification,
        device_read_bytes_per_get: kept.device_read_bytes_per_get,
        device_reads_per_get: kept.device_reads_per_get,
        disk_bytes: kept.disk_bytes,
        space_amplification: kept.space_amplification,
        live_size: kept.live_size,
        settled_size: kept.settled_size,
        closed_size: kept.closed_size,
        unmeasured: kept.unmeasured,
        ..Measurement::default()
    };
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;
    use crate::{bench::run::disk_usage::Files, testing::skip_test::skip};
    use std::{io::Write, thread};

    /// Returns the setting `write_cache` of the block device that holds `directory`, if there is one.
    fn write_cache(directory: &Path) -> Option<String> {
        fs::read_to_string(queue_of(directory)?.join("write_cache")).ok()
    }

    /// A sync of a device with a volatile write cache ("write back") flushes it, one of a device without does not.
    #[test]
    fn own_device_has_the_settings_of_the_machines_device() {
        let scratch = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let [directory, real] = ["store", "queue"].map(|name| scratch.path().join(name));
        [&directory, &real].into_iter().for_each(|path| fs::create_dir(path).unwrap());
        fs::write(real.join("read_ahead_kb"), "32\n").unwrap();
        let found = ["write through\n", "write back\n"].map(|setting| {
            fs::write(real.join("write_cache"), setting).unwrap();
            let (directory, real) = (directory.clone(), real.clone());
            let mounted = thread::spawn(move || {
                mount_like(Some(&real), &directory, 1 << 30, None)?;
                let found = (write_cache(&directory).unwrap(), read_ahead_kib(&directory));
                // The setting outlives the mount.
                fs::write(queue_of(&directory).unwrap().join("write_cache"), "write back").unwrap();
                Ok::<_, String>(found)
            });
            (setting, mounted.join().unwrap())
        });
        for (setting, found) in found {
            match found {
                Ok(found) => assert_eq!(found, (setting.to_owned(), Some(32))),
                Err(reason) => return skip("own_device_has_the_settings_of_the_machines_device", &reason),
            }
        }
    }

    /// The counted bytes of a store's own device include the writes to its files, and not another program's writes to
    /// the machine's device.
    #[test]
    fn own_device_counts_the_bytes_of_its_files_only() {
        let scratch = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let directory = scratch.path().join("store");
        fs::create_dir(&directory).unwrap();
        let real = write_cache(&directory);
        // The mount is in the namespace of this thread alone.
        let mounted = thread::spawn(move || {
            mount_at(&directory, 1 << 30, Some(64))?;
            assert_eq!(read_ahead_kib(&directory), Some(64));
            // A sync flushes the loop device if it would flush the machine's device.
            assert!(real.is_none() || write_cache(&directory) == real, "{real:?}");
            let files = Files::of(&directory);
            files.write_back().unwrap();
            let before = files.device_traffic().expect("a loop device has its own counters");
            fs::write(directory.parent().unwrap().join("other"), vec![1; 64 << 20]).unwrap();
            Files::of(directory.parent().unwrap()).write_back().unwrap();
            let mut file = File::create(directory.join("file")).unwrap();
            file.write_all(&vec![1; 8 << 20]).unwrap();
            files.write_back().unwrap();
            let written = files.device_traffic().unwrap().since(&before).written_bytes;
            // The journal and the tables of the file system take some.
            assert!((8 << 20..10 << 20).contains(&written), "{written}");
            Ok::<_, String>(())
        });
        if let Err(reason) = mounted.join().unwrap() {
            return skip("own_device_counts_the_bytes_of_its_files_only", &reason);
        }
        assert!(
            !fs::exists(scratch.path().join("store/file")).unwrap(),
            "mounted in the namespace of others"
        );
        assert!(!fs::exists(scratch.path().join("store.image")).unwrap());
    }
}

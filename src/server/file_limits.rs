//! Limits of the operating system on this process: the number of open files and the size of a file.

use crate::{config::Config, engine::OpenFiles};

/// Number of file descriptors that the server keeps for itself, without those of workers, engine and clients: 14 are
/// always open; the others allow for short-lived ones, such as a client that is refused or a directory that is listed.
const PROCESS: u64 = 48;

/// Number of file descriptors of a worker's event loop.
const WORKER: u64 = 4;

/// Maximum number of blocking threads per worker, for reads that may be slow. Two workers keep 64 reads in flight:
/// measurements with a local disk showed more throughput up to that number. With 64 threads each, CPU time grew
/// without more throughput.
const BLOCKING_THREADS: usize = 32;

/// Maximum number of blocking threads of all workers. LMDB and MDBX have 4,096 reader slots, for all threads that read.
const ALL_BLOCKING_THREADS: usize = 2048;

/// Returns the number of blocking threads of each of `workers` workers.
pub fn blocking_threads(workers: usize) -> usize {
    BLOCKING_THREADS.min(ALL_BLOCKING_THREADS / workers.max(1)).max(1)
}

/// Error of the start of a server: the limit on open files is too low even for one client.
#[derive(Debug, thiserror::Error)]
#[error(
    "--store {store} with --threads {threads} needs {least} open files, and the limit is {limit}; raise it (ulimit -n) \
     or choose fewer --threads"
)]
#[expect(missing_docs, reason = "the message says what the fields are")]
pub struct Error {
    pub store: &'static str,
    pub threads: usize,
    pub least: u64,
    pub limit: u64,
}

/// Shares of the process' limit on open files. Clients beyond their share are refused, so that the engine never
/// runs out of descriptors, which would fail a write or a sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileLimits {
    /// Maximum number of clients: `--maxclients`, or less if the limit on open files does not allow that many.
    pub clients: usize,
    /// Maximum number of files of the engine, without the files that a read opens while it runs.
    pub engine: u64,
}

impl FileLimits {
    /// Divides the limit on open files among the clients and the engine, and raises the soft limit as far as
    /// needed and permitted.
    pub fn reserve(config: &Config) -> Result<Self, Error> {
        let need = FileNeeds::new(config.threads, config.kind.info.open_files);
        let wanted = need.wanted(config.network.max_clients as u64);
        let limit = rlimit::increase_nofile_limit(wanted).unwrap_or_else(|error| {
            log::warn!("cannot raise the limit of open files: {error}");
            rlimit::Resource::NOFILE.get_soft().unwrap_or(wanted)
        });
        let (store, threads, least) = (config.kind.info.name, config.threads, need.wanted_by_clients(1));
        let files = need.share(limit, config.network.max_clients as u64);
        let files = files.ok_or(Error { store, threads, least, limit })?;
        if files.clients < config.network.max_clients {
            log::warn!(
                "--maxclients is reduced to {}, from {}, because of the limit of open files, {limit}; raise it \
                (ulimit -n)",
                files.clients,
                config.network.max_clients
            );
        }
        Ok(files)
    }
}

struct FileNeeds {
    /// Number of file descriptors that the server needs without clients, with the minimum for the engine.
    fixed: u64,
    engine: OpenFiles,
    /// Maximum number of reads of the engine that run at the same time: one for each worker and each blocking thread.
    readers: u64,
}

impl FileNeeds {
    fn new(threads: usize, engine: OpenFiles) -> Self {
        let readers = (threads * (1 + blocking_threads(threads))) as u64;
        let threads = threads as u64;
        Self { fixed: PROCESS + WORKER * threads + engine.least, engine, readers }
    }

    /// Returns the number of descriptors that the process needs in total with `clients` clients and the minimum for the
    /// engine. Concurrent reads are limited by the number of threads and by the number of clients.
    fn wanted_by_clients(&self, clients: u64) -> u64 {
        self.fixed + clients + self.engine.per_read * clients.min(self.readers)
    }

    fn wanted(&self, clients: u64) -> u64 {
        self.wanted_by_clients(clients) + self.engine.most - self.engine.least
    }

    /// Divides `limit`: clients take precedence over the optional files of the engine. Returns `None` if the
    /// limit is too low for one client.
    fn share(&self, limit: u64, wanted: u64) -> Option<FileLimits> {
        let left = limit.checked_sub(self.fixed)?;
        let per_read = self.engine.per_read;
        let few = left / (1 + per_read);
        let clients = few.max(left.saturating_sub(per_read * self.readers)).min(wanted);
        let engine = self.engine.least + limit.checked_sub(self.wanted_by_clients(clients))?;
        let clients = usize::try_from(clients).ok().filter(|clients| *clients > 0)?;
        Some(FileLimits { clients, engine: engine.min(self.engine.most) })
    }
}

/// Ignores SIGXFSZ, so that a write beyond the file size limit (`ulimit -f`) fails like one on a full disk,
/// instead of killing the process.
pub fn ignore_sigxfsz() {
    #[expect(unsafe_code, reason = "a system call that no crate in use wraps")]
    // SAFETY: the signal is ignored and no handler is installed, so no code runs in a signal handler.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
    }
}

/// Makes the allocator merge freed memory with adjacent free memory at once. By default, glibc keeps small
/// chunks separate until an allocation or a `free` of a large chunk merges all of them, while it holds the lock
/// of every allocating thread: after millions of deletes that takes hundreds of milliseconds. Must be called
/// before any thread is started.
pub fn disable_malloc_fastbins() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        #[expect(unsafe_code, reason = "a library call that no crate in use wraps")]
        // SAFETY: the call changes a number that the allocator reads, and there is no other thread.
        let done = unsafe { libc::mallopt(libc::M_MXFAST, 0) };
        debug_assert_eq!(done, 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: OpenFiles = OpenFiles { least: 8, most: 8, per_read: 0 };

    #[test]
    fn everybody_gets_what_they_want_where_there_is_enough() {
        for per_read in [0, 1, 3] {
            let need = FileNeeds::new(4, OpenFiles { least: 100, most: 5000, per_read });
            let wanted = need.wanted(10_000);
            assert_eq!(need.share(wanted, 10_000), Some(FileLimits { clients: 10_000, engine: 5000 }));
            assert_eq!(need.share(wanted - 1, 10_000), Some(FileLimits { clients: 10_000, engine: 4999 }));
            assert_eq!(need.share(wanted - 4900, 10_000), Some(FileLimits { clients: 10_000, engine: 100 }));
            let files = need.share(wanted - 4901, 10_000).unwrap();
            assert!(files.clients < 10_000 && files.engine >= 100, "{files:?}");
        }
    }

    #[test]
    fn no_share_is_more_than_there_is() {
        for per_read in [0, 1, 2] {
            let need = FileNeeds::new(32, OpenFiles { least: 20, most: 70, per_read });
            for limit in 0..3000 {
                let Some(files) = need.share(limit, 1000) else {
                    assert!(limit < need.wanted_by_clients(1), "{limit}");
                    continue;
                };
                let clients = files.clients as u64;
                assert!(need.wanted_by_clients(clients) + files.engine - 20 <= limit, "{limit}: {files:?}");
                // One client more would exceed the limit: no descriptor is left that a client could use.
                assert!(clients == 1000 || need.wanted_by_clients(clients + 1) > limit, "{limit}: {files:?}");
            }
        }
    }

    #[test]
    fn lmdb_and_mdbx_have_a_slot_for_each_thread_that_reads() {
        for workers in 1..=1024 {
            let threads = workers * (1 + blocking_threads(workers));
            assert!(threads <= 3072, "{threads} threads of {workers} workers");
        }
        assert_eq!([2, 64, 128, 1024].map(blocking_threads), [32, 32, 16, 2]);
    }

    #[test]
    fn a_limit_that_is_too_low_is_refused() {
        let need = FileNeeds::new(1, PLAIN);
        assert_eq!(need.share(PROCESS + WORKER + 8, 5), None);
        assert_eq!(need.share(PROCESS + WORKER + 9, 5), Some(FileLimits { clients: 1, engine: 8 }));
    }
}

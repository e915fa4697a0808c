//! What the operating system allows this process: how many files it may have open, and how large one may be.

use crate::{config::Config, engine::OpenFiles};

/// Descriptors of the process beside its workers, its engine and its clients: 14 that are always open, the
/// others for what is open only for a moment, such as a client that is refused or a directory that is listed.
const PROCESS: u64 = 48;

/// Descriptors of one worker's event loop.
const WORKER: u64 = 4;

/// Threads of one worker for reads that may be slow. Two workers keep 64 reads in flight: a local disk was measured to
/// become faster up to there. With 64 threads each, CPU time grew and nothing became faster.
pub const BLOCKING_THREADS: usize = 32;

/// The limit on open files is too low even for one client.
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

/// Who may have how many files open. Clients that come in addition are refused, so that the engine never
/// finds none: to an engine, that is a failed write or sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileLimits {
    /// Most clients at once.
    pub clients: usize,
    /// Most files of the engine, those not counted that a read has open while it runs.
    pub engine: u64,
}

impl FileLimits {
    /// Shares out the open files, and raises the process' limit as far as they are wanted and it can be.
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
    /// Of the process without clients, with an engine that has no more than it must.
    fixed: u64,
    engine: OpenFiles,
    /// Most reads at once.
    readers: u64,
}

impl FileNeeds {
    fn new(threads: usize, engine: OpenFiles) -> Self {
        let threads = threads as u64;
        let readers = threads * (1 + BLOCKING_THREADS as u64);
        Self { fixed: PROCESS + WORKER * threads + engine.least, engine, readers }
    }

    /// No more reads run than there are threads for them, nor than clients that wait for one.
    fn wanted_by_clients(&self, clients: u64) -> u64 {
        self.fixed + clients + self.engine.per_read * clients.min(self.readers)
    }

    fn wanted(&self, clients: u64) -> u64 {
        self.wanted_by_clients(clients) + self.engine.most - self.engine.least
    }

    /// Clients come before what the engine can do without; `None` when there is not room for one.
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

/// Lets a write beyond the largest size of a file (`ulimit -f`) fail as on a full disk. Unless it is
/// ignored, the signal that comes with it ends the process.
pub fn ignore_sigxfsz() {
    #[expect(unsafe_code, reason = "a system call that no crate in use wraps")]
    // SAFETY: no handler is installed that could run at a wrong moment.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
    }
}

/// Has freed memory joined with what is free beside it at once. glibc would keep small pieces apart, until an
/// allocation or a `free` of something large joins all of them, with the lock held that every thread allocates
/// under: after millions of deletes that takes hundreds of milliseconds. To be called before there are threads.
pub fn disable_malloc_fastbins() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        #[expect(unsafe_code, reason = "a library call that no crate in use wraps")]
        // SAFETY: it changes a number that the allocator reads, and there is no other thread.
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
                // Nor is anything left over while a client could have it.
                assert!(clients == 1000 || need.wanted_by_clients(clients + 1) > limit, "{limit}: {files:?}");
            }
        }
    }

    #[test]
    fn a_limit_that_is_too_low_is_refused() {
        let need = FileNeeds::new(1, PLAIN);
        assert_eq!(need.share(PROCESS + WORKER + 8, 5), None);
        assert_eq!(need.share(PROCESS + WORKER + 9, 5), Some(FileLimits { clients: 1, engine: 8 }));
    }
}

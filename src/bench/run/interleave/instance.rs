//! Instance of a store in a comparison: a process of its own, which is paused (SIGSTOP) during the turns of other stores,
//! over the wire with the server that it has started.

use super::{
    block::Sliced,
    pause_process,
    slice::{self, Reply, Request, Slice, SliceReport},
};
use crate::bench::{
    plan::options::RunConditions,
    run::{
        disk_usage::Files,
        interference, interrupt,
        job_messages::{Job, Report},
        process_usage,
    },
};
use std::{
    io::{self, BufRead, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, ExitStatus},
    time::{Duration, Instant},
};

/// Store of a comparison, loaded in a process of its own. When dropped, the process is killed and its files are
/// removed.
pub struct Instance {
    /// Index of the store's cell in the comparison's list of cells.
    number: usize,
    job: Job,
    child: Child,
    /// Ids of the processes that the child has started: over the wire the server, otherwise none.
    servers: Vec<u32>,
    stdin: ChildStdin,
    stdout: Lines<BufReader<ChildStdout>>,
    /// Reports of cells that the process has written so far.
    reports: Vec<Report>,
    /// `true` if the store has failed or its process has ended.
    is_excluded: bool,
    /// Error of a sync of the store's files; `None` if there was none.
    sync_error: Option<String>,
    /// Maximum time to wait for an idle device after write-back, in seconds.
    quiet_wait: f64,
    /// `true` if the child has exited with success, so that no process of it is left.
    exited_cleanly: bool,
}

impl Instance {
    /// Starts the process of a job, waits until the store is loaded, and stops the process (SIGSTOP). `number` is the index
    /// of the store's cell in the comparison's list of cells.
    ///
    /// # Errors
    ///
    /// Fails if the process cannot be started. A load that fails is no error: the reports contain it.
    pub fn load(number: usize, job: Job, conditions: &RunConditions) -> io::Result<Self> {
        let mut child = job.start(&conditions.cpus, None)?;
        interrupt::kill_on_signal(child.id());
        let no_pipe = || io::Error::other("no pipe");
        let stdin = child.stdin.take().ok_or_else(no_pipe)?;
        let stdout = BufReader::new(child.stdout.take().ok_or_else(no_pipe)?).lines();
        let quiet_wait = conditions.quiet_wait;
        let (reports, is_excluded, sync_error) = Default::default();
        let mut instance = Self {
            number,
            job,
            child,
            servers: Vec::new(),
            stdin,
            stdout,
            reports,
            is_excluded,
            sync_error,
            quiet_wait,
            exited_cleanly: false,
        };
        slice::send(&instance.stdin, &instance.job)?;
        instance.is_excluded = instance.reply() != Some(Reply::Ready);
        instance.servers = pause_process::others_of_group(instance.child.id());
        pause_process::stop(instance.child.id(), &instance.servers)?;
        Ok(instance)
    }

    /// Returns the next reply of the process to a request, or `None` if it has written the report of a cell or ended.
    fn reply(&mut self) -> Option<Reply> {
        loop {
            let line = self.stdout.next()?.ok()?;
            if let Some(reply) = slice::parse(&line) {
                return Some(reply);
            }
            // An engine may print lines too.
            if let Some(report) = slice::parse(&line) {
                self.reports.push(report);
                return None;
            }
        }
    }

    /// Returns `true` if the store has failed or its process has ended.
    pub fn is_excluded(&self) -> bool {
        self.is_excluded
    }

    /// Lets the process end: it verifies the store's data and closes the store. Returns the reports of its cells.
    pub fn finish(mut self) -> Vec<Report> {
        let resumed = pause_process::resume(self.child.id())
            .and_then(|()| slice::send(&self.stdin, &Request::Finish).map(drop));
        while self.reply().is_some() {}
        while let Some(Ok(line)) = self.stdout.next() {
            self.reports.extend(slice::parse::<Report>(&line));
        }
        interrupt::keep_on_signal(self.child.id());
        let status = self.child.wait();
        self.exited_cleanly = status.as_ref().is_ok_and(ExitStatus::success);
        let status = status.map(|status| status.to_string());
        let status = status.or_else(|_| resumed.map(|()| String::new()).map_err(|error| error.to_string()));
        let ended = format!("the measuring process ended early: {}", status.unwrap_or_else(|error| error));
        let reports = match &self.sync_error {
            Some(error) => self.job.of_each_cell(Vec::new(), error),
            None => self.job.of_each_cell(std::mem::take(&mut self.reports), &ended),
        };
        self.job.concluded(reports)
    }

    /// Returns the CPU time in nanoseconds that the processes of the store have used so far; `None` if it is not known.
    fn cpu_ns(&self) -> Option<u64> {
        std::iter::once(self.child.id()).chain(self.servers.iter().copied()).map(process_usage::cpu_ns).sum()
    }

    /// Syncs the files of the store, if it has any, after its deferred work. Adds the time to the report of its slice;
    /// an error of the sync is a failure of the store.
    fn write_back(&mut self, report: &mut SliceReport) {
        let begin = Instant::now();
        let is_persistent = self.job.cells.iter().any(|cell| cell.target.persistent);
        if let Some(Err(error)) = is_persistent.then(|| Files::of(&self.job.directory).sync()) {
            report.has_failed = true;
            self.sync_error = Some(format!("cannot sync {}: {error}", self.job.directory.display()));
        }
        let time = u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX);
        report.write_back = report.write_back.map(|before| before.saturating_add(time));
    }
}

impl Sliced for Instance {
    fn number(&self) -> usize {
        self.number
    }

    fn run(&mut self, slice: Slice) -> Option<SliceReport> {
        if self.is_excluded {
            return None;
        }
        let id = self.child.id();
        let (begin, before) = (Instant::now(), self.cpu_ns());
        let sent = slice::send(&self.stdin, &Request::Slice(slice)).and_then(|_| pause_process::resume(id));
        let mut reply = sent.ok().and_then(|()| self.reply());
        if let Some(Reply::Slice(report)) = &mut reply {
            let busy = |(after, before): (u64, u64)| {
                Duration::from_nanos(after.saturating_sub(before)).as_secs_f64()
                    / begin.elapsed().as_secs_f64()
            };
            report.busy_cpus = self.cpu_ns().zip(before).map(busy);
        }
        if let Some(Reply::Slice(report)) = reply.as_mut().filter(|_| slice.writes_back) {
            self.write_back(report);
        }
        let stopped = pause_process::stop(id, &self.servers);
        let waits = slice.writes_back || slice.awaits_device;
        if let Some(Reply::Slice(report)) = reply.as_mut().filter(|_| waits) {
            report.left_device_busy = !interference::wait_for_device(&self.job.directory, self.quiet_wait);
        }
        match reply {
            Some(Reply::Slice(report)) if stopped.is_ok() && !report.has_failed => Some(report),
            _ => {
                self.is_excluded = true;
                None
            }
        }
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        interrupt::keep_on_signal(self.child.id());
        if !self.exited_cleanly {
            pause_process::kill_group(self.child.id());
            // Fails for a process that was waited for.
            let _ = self.child.wait();
            // A server that still ends may write files.
            pause_process::wait_for_end(&self.servers, pause_process::MAX_END_TIME);
        }
        let _ = std::fs::remove_dir_all(&self.job.directory);
    }
}

//! Measurement of a job, the cells of one group, in a process of its own, so that memory or global state left
//! by one engine does not affect another.
//!
//! The parent writes the job as one line of JSON to the child's standard input, and reads one line of JSON
//! for each cell. The child exits when its standard input is closed, so that no child outlives a killed
//! parent.

use super::{
    affinity::Pinned,
    allocations, free_space, in_process, instruction_counter,
    interleave::{pause_process, slice},
    interrupt,
    job_messages::{Job, NO_OWN_DEVICE, Report},
    memory_limit::MemoryGroup,
    over_wire, own_device, panics,
};
use crate::bench::{
    plan::{options::Cpus, unsupported},
    result::{Access, Cell, Outcome, number_format},
};
use nix::sys::signal::{SigSet, Signal};
use std::{
    env, fs,
    io::{self, BufRead, BufReader, Write},
    os::unix::process::CommandExt,
    process::{Child, Command, Stdio},
    thread,
    time::Instant,
};

pub use super::job_messages::SUBCOMMAND;

impl Job {
    /// Measures the cells of the job in this process, and returns a report for each. Cells that the store cannot run
    /// are reported as unsupported, and not tried.
    fn measure(&self) -> Vec<Report> {
        // Unsupported cells are not tried: not even their keys are loaded.
        let able = self
            .cells
            .iter()
            .filter(|cell| unsupported::unsupported_reason(cell).is_none())
            .cloned()
            .collect();
        let measured = Self { cells: able, ..self.clone() }.reports();
        let unsupported = self.cells.iter().filter_map(|cell| {
            Some(Report::of(cell, Outcome::Unsupported(unsupported::unsupported_reason(cell)?)))
        });
        self.of_each_cell(measured.into_iter().chain(unsupported).collect(), "not measured")
    }

    /// Returns a report for each cell of the job, in order. A cell without one in `reports` gets one that it failed
    /// with the error text `absent`.
    pub(super) fn of_each_cell(&self, mut reports: Vec<Report>, absent: &str) -> Vec<Report> {
        let report = |cell: &Cell| match reports.iter().position(|report| report.cell == cell.id) {
            Some(place) => reports.swap_remove(place),
            None => Report::of(cell, Outcome::Failed(absent.into())),
        };
        self.cells.iter().map(report).collect()
    }

    fn reports(&self) -> Vec<Report> {
        let Some(first) = self.cells.first() else { return Vec::new() };
        let measure = match first.target.access {
            Access::Wire => over_wire::measure,
            Access::InProcess => in_process::measure,
        };
        let reports = match fs::create_dir_all(&self.directory) {
            Err(error) => Err(format!("cannot create {}: {error}", self.directory.display())),
            Ok(()) => panics::caught(|| measure(self)).unwrap_or_else(Err),
        };
        reports.unwrap_or_else(|error| self.of_each_cell(Vec::new(), &error))
    }

    /// Measures the job in a child process, on the driver's CPUs of `cpus`, removes the job's files, and returns a
    /// report for each cell. With a `memory_limit`, load and measurement are in a control group of their own, whose
    /// memory and page cache are limited to that number of bytes; the reports are failures if no group can be made.
    pub fn run(&self, cpus: &Cpus, memory_limit: Option<u64>) -> Vec<Report> {
        let group = match memory_limit.map(MemoryGroup::new).transpose() {
            Ok(group) => group,
            Err(reason) => return self.of_each_cell(Vec::new(), &reason),
        };
        let reports = self.reports_of_child(cpus, group.as_ref());
        drop(group);
        self.concluded(reports)
    }

    /// Measures the job in a child process, in the control group `group` if there is one. If the kernel has killed a
    /// process of the group, failed reports become "unsupported". The files of the job remain.
    pub(super) fn reports_of_child(&self, cpus: &Cpus, group: Option<&MemoryGroup>) -> Vec<Report> {
        let reports = self.spawn(cpus, group).unwrap_or_else(|error| {
            self.of_each_cell(Vec::new(), &format!("cannot measure in a process of its own: {error}"))
        });
        match group.is_some_and(|group| group.killed() > 0) {
            true => reports.into_iter().map(Report::after_kill).collect(),
            false => reports,
        }
    }

    /// Removes the job's files after its child process has ended. Returns `reports`; if the disk is full, the texts of
    /// their failures say so.
    pub(super) fn concluded(&self, reports: Vec<Report>) -> Vec<Report> {
        let reports = match free_space::is_full(&self.directory) {
            true => reports.into_iter().map(Report::on_full_disk).collect(),
            false => reports,
        };
        // Not by the child: the files must still be there when the free space is read.
        let _ = fs::remove_dir_all(&self.directory);
        reports
    }

    /// Starts the process that measures the job, on the driver's CPUs, and in the memory cgroup `group` if there is
    /// one.
    pub(super) fn start(&self, cpus: &Cpus, group: Option<&MemoryGroup>) -> io::Result<Child> {
        let pinned = cpus.driver.as_deref().map(Pinned::to).transpose().map_err(io::Error::other)?;
        let program = self.program.clone().map_or_else(env::current_exe, Ok)?;
        let mut child = Command::new(program)
            .arg(SUBCOMMAND)
            // A terminal sends SIGINT to the foreground group only: this process ends the child.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        drop(pinned);
        // The child waits for its job, so it enters the group before it allocates memory that counts.
        if let Err(error) = group.map_or(Ok(()), |group| group.add(child.id())) {
            let _ = child.kill();
            let _ = child.wait();
            return Err(error);
        }
        Ok(child)
    }

    fn spawn(&self, cpus: &Cpus, group: Option<&MemoryGroup>) -> io::Result<Vec<Report>> {
        let began = Instant::now();
        let mut child = self.start(cpus, group)?;
        // A child that does not read its job has ended: its exit status says why.
        let stdin = child.stdin.take().filter(|stdin| slice::send(stdin, self).is_ok());
        // Kept open: the child exits when its standard input is closed.
        interrupt::watch(stdin);
        let lines = child.stdout.take().into_iter().flat_map(|stdout| BufReader::new(stdout).lines());
        let reports: Vec<Report> =
            lines.map_while(Result::ok).filter_map(|line| serde_json::from_str(&line).ok()).collect();
        let status = child.wait()?;
        interrupt::finish();
        if !status.success() {
            self.clean_up_after(child.id());
        }
        let limited = if group.is_some() { "; perhaps it needs more than --memory-limit" } else { "" };
        let ran = number_format::duration(began.elapsed().as_secs_f64());
        let is_soak = self.cells.iter().any(|cell| cell.workload.soak);
        let ran = if is_soak { format!("; it ran for {ran}, with the load") } else { String::new() };
        Ok(self.of_each_cell(reports, &format!("the measuring process ended early: {status}{limited}{ran}")))
    }

    /// Kills the server that the job's child process `id`, which has failed, has left, and removes the job's keys from an
    /// external server.
    fn clean_up_after(&self, id: u32) {
        // The process group exists as long as the server runs, and until then no other process gets its id.
        let servers = pause_process::others_of_group(id);
        pause_process::kill_group(id);
        pause_process::wait_for_end(&servers, pause_process::MAX_END_TIME);
        let target = self.cells.first().and_then(|cell| cell.target.address.as_deref());
        if let Some(target) = target
            && let Err(error) = over_wire::empty_target(target)
        {
            eprintln!(
                "kvbench: --target {target}: {error}; remove the keys of this run before you continue it"
            );
        }
    }
}

/// Runs in the child process: measures the job that is read from standard input, and writes the reports of its cells to
/// standard output. With [`Job::loads_until_killed`], it instead loads and updates the store until it is killed.
///
/// # Errors
///
/// Fails if standard input holds no job, or standard output is closed.
pub fn serve() -> io::Result<()> {
    interrupt::release()?;
    // Each client of a server is an open file, and many systems set the soft limit to 1,024 and the hard one far higher.
    // If the limit cannot be raised, cells that need more open files fail.
    let _ = rlimit::increase_nofile_limit(u64::MAX);
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    let job: Job = serde_json::from_str(&line)?;
    if let Some(own) = job.cells.first().and_then(|cell| cell.own_device) {
        // Before any other thread starts, so that all of them see the mount.
        if let Err(reason) =
            fs::create_dir_all(&job.directory).map_err(|error| error.to_string()).and_then(|()| {
                own_device::mount_at(&job.directory, own_device::size_for(&job.cells), own.read_ahead_kib)
            })
        {
            let reason = format!("{NO_OWN_DEVICE}: {reason}");
            return answer(job.cells.iter().map(|cell| Report {
                cell: cell.id.clone(),
                outcome: Outcome::Unsupported(reason.clone()),
            }));
        }
    }
    // Only threads that start later are counted.
    if job.cells.iter().any(|cell| cell.workload.counts_instructions) {
        instruction_counter::start();
    }
    let directory = job.directory.clone();
    if job.in_slices {
        #[cfg(target_os = "linux")]
        pause_process::resume_without_parent()?;
        // If the parent is killed while the server of this job is stopped, the kernel ends the process group with SIGHUP.
        // This process goes on: it finds the end of its standard input, and cleans up.
        SigSet::from_iter([Signal::SIGHUP]).thread_block()?;
    }
    let end_without_parent = thread::spawn(move || {
        allocations::leave_out(true);
        // Only the requests of a comparison follow the job on standard input. It ends when the parent exits.
        slice::listen(io::stdin().lock());
        let _none_starts = over_wire::kill_server();
        let _ = fs::remove_dir_all(&directory);
        std::process::exit(1);
    });
    if job.loads_until_killed {
        let error = in_process::recovery::load_until_killed(&job);
        println!("{}", error.err().unwrap_or_default());
        return Ok(());
    }
    let mut reports = job.measure();
    if job.cells.iter().any(|cell| cell.own_device.is_some()) {
        for report in &mut reports {
            if let Outcome::Measured(measurement) = &mut report.outcome {
                own_device::leave_out_times(measurement);
            }
        }
    }
    drop(over_wire::kill_server());
    answer(reports).inspect_err(|_| {
        // The parent has ended. This process ends when the job's files are removed.
        let _ = end_without_parent.join();
    })
}

/// Writes the reports of measured cells to standard output, each as a line of JSON.
fn answer(reports: impl IntoIterator<Item = Report>) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    for report in reports {
        serde_json::to_writer(&mut stdout, &report)?;
        writeln!(stdout)?;
    }
    stdout.flush()
}

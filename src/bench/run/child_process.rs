//! Measurement of a job, the cells of one group, in a process of its own, so that memory or global state left
//! by one engine does not affect another.
//!
//! The parent writes the job as one line of JSON to the child's standard input, and reads one line of JSON
//! for each cell. The child exits when its standard input is closed, so that no child outlives a killed
//! parent.

use super::{
    affinity::Pinned,
    in_process,
    job::{Job, Report},
    memory::MemoryGroup,
    over_wire,
};
use crate::bench::{
    plan::{ability, options::Cpus},
    result::{Access, Cell, Outcome},
};
use std::{
    collections::VecDeque,
    env, fs,
    io::{self, BufRead, BufReader, Write},
    process::{Command, Stdio},
    thread,
};

/// Name of the hidden subcommand that measures a job.
pub const SUBCOMMAND: &str = "measure-job";

impl Job {
    /// Measures the job in this process.
    fn measure(&self) -> Vec<Report> {
        // Unsupported cells are not tried: not even their keys are loaded.
        let able =
            self.cells.iter().filter(|cell| ability::unsupported_reason(cell).is_none()).cloned().collect();
        let mut outcomes = Self { cells: able, ..self.clone() }.outcomes();
        let mut report = |cell: &Cell| Report {
            cell: cell.id.clone(),
            outcome: match ability::unsupported_reason(cell) {
                Some(reason) => Outcome::Unsupported(reason),
                None => outcomes.pop_front().unwrap_or_else(|| Outcome::Failed("not measured".into())),
            },
        };
        self.cells.iter().map(&mut report).collect()
    }

    fn outcomes(&self) -> VecDeque<Outcome> {
        let outcomes = match fs::create_dir_all(&self.directory) {
            Err(error) => Err(format!("cannot create {}: {error}", self.directory.display())),
            Ok(()) => match self.cells.first().map(|cell| cell.target.access) {
                Some(Access::Wire) => over_wire::measure(self),
                Some(Access::InProcess) => in_process::measure(self),
                None => Ok(Vec::new()),
            },
        };
        match outcomes {
            Ok(outcomes) => outcomes.into(),
            Err(text) => self.cells.iter().map(|_| Outcome::Failed(text.clone())).collect(),
        }
    }

    /// Measures the job in a child process, with the driver on `cpus` and its memory limited by `group`.
    pub fn run(&self, cpus: &Cpus, group: Option<&MemoryGroup>) -> Vec<Report> {
        let reports = self.spawn(cpus, group).unwrap_or_else(|error| {
            let text = format!("cannot measure in a process of its own: {error}");
            self.cells
                .iter()
                .map(|cell| Report { cell: cell.id.clone(), outcome: Outcome::Failed(text.clone()) })
                .collect()
        });
        // A killed child does not remove its directory.
        let _ = fs::remove_dir_all(&self.directory);
        reports
    }

    fn spawn(&self, cpus: &Cpus, group: Option<&MemoryGroup>) -> io::Result<Vec<Report>> {
        let pinned = cpus.driver.as_deref().map(Pinned::to).transpose().map_err(io::Error::other)?;
        let mut child = Command::new(env::current_exe()?)
            .arg(SUBCOMMAND)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        drop(pinned);
        // The child waits for its job, so it enters the group before it allocates memory that counts.
        group.map_or(Ok(()), |group| group.add(child.id()))?;
        // Kept open: the child exits when its standard input is closed.
        let mut stdin = child.stdin.take();
        if let Some(stdin) = &mut stdin {
            serde_json::to_writer(&mut *stdin, self)?;
            writeln!(stdin)?;
        }
        let lines = child.stdout.take().into_iter().flat_map(|stdout| BufReader::new(stdout).lines());
        let mut reports: Vec<Report> =
            lines.map_while(Result::ok).filter_map(|line| serde_json::from_str(&line).ok()).collect();
        let status = child.wait()?;
        for cell in self.cells.iter().skip(reports.len()) {
            let limited = if group.is_some() { "; perhaps it needs more than --memory-limit" } else { "" };
            let outcome = Outcome::Failed(format!("the measuring process ended early: {status}{limited}"));
            reports.push(Report { cell: cell.id.clone(), outcome });
        }
        Ok(reports)
    }
}

/// Runs in the child process: measures the job that is read from standard input.
///
/// # Errors
///
/// Standard input holds no job, or standard output is closed.
pub fn serve() -> io::Result<()> {
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    let job: Job = serde_json::from_str(&line)?;
    let directory = job.directory.clone();
    thread::spawn(move || {
        // Nothing follows the job on standard input, so this waits until the parent exits.
        let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
        over_wire::stop_server();
        let _ = fs::remove_dir_all(&directory);
        std::process::exit(1);
    });
    let reports = job.measure();
    over_wire::stop_server();
    let _ = fs::remove_dir_all(&job.directory);
    let mut stdout = io::stdout().lock();
    for report in reports {
        serde_json::to_writer(&mut stdout, &report)?;
        writeln!(stdout)?;
    }
    stdout.flush()
}

//! A job: the cells of one group, measured in a process of their own, so that no engine meets the memory
//! or the global state that another one left.
//!
//! The parent writes the job as one line of JSON to the child's standard input and reads one line of JSON
//! for each cell. The child ends when that input does, so that no child outlives a killed parent.

use super::{
    ability, local,
    result::{Access, Cell, Outcome, Step},
    wire,
};
use serde::{Deserialize, Serialize};
use std::{
    collections::VecDeque,
    env, fs,
    io::{self, BufRead, BufReader, Write},
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::{Mutex, PoisonError},
    thread,
};

/// Name of the hidden subcommand that measures a job.
pub const SUBCOMMAND: &str = "measure-job";

/// What a child process measures.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job {
    /// The cells, in order.
    pub cells: Vec<Cell>,
    /// A directory of its own, which it makes and removes.
    pub directory: PathBuf,
    /// Largest size of LMDB's data file, in bytes.
    pub map_size: u64,
    /// Arguments that make this program serve the store that is measured over the wire.
    pub server_arguments: Vec<String>,
    /// Whether a foreign server that holds keys is emptied first.
    pub flush_target: bool,
    /// Process of a foreign server of this machine.
    pub target_pid: Option<u32>,
}

/// What came of one cell.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// [`Cell::id`].
    pub cell: String,
    /// What came of it.
    pub outcome: Outcome,
}

impl Job {
    /// Measures in this process.
    fn measure(&self) -> Vec<Report> {
        // What cannot be done is not tried: not even the keys are loaded for it.
        let able = self.cells.iter().filter(|cell| ability::obstacle(cell).is_none()).cloned().collect();
        let mut outcomes = Self { cells: able, ..self.clone() }.outcomes();
        let mut report = |cell: &Cell| Report {
            cell: cell.id.clone(),
            outcome: match ability::obstacle(cell) {
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
                Some(Access::Wire) => wire::measure(self),
                Some(Access::InProcess) => local::measure(self),
                None => Ok(Vec::new()),
            },
        };
        match outcomes {
            Ok(outcomes) => outcomes.into(),
            Err(text) => self.cells.iter().map(|_| Outcome::Failed(text.clone())).collect(),
        }
    }

    /// The cells by what runs at the same time.
    pub fn steps(&self) -> impl Iterator<Item = &[Cell]> {
        self.cells.chunk_by(|_, next| next.together)
    }

    /// Measures in a child process.
    pub fn run(&self) -> Vec<Report> {
        let reports = self.spawn().unwrap_or_else(|error| {
            let text = format!("cannot measure in a process of its own: {error}");
            self.cells
                .iter()
                .map(|cell| Report { cell: cell.id.clone(), outcome: Outcome::Failed(text.clone()) })
                .collect()
        });
        // A child that was killed leaves it.
        let _ = fs::remove_dir_all(&self.directory);
        reports
    }

    fn spawn(&self) -> io::Result<Vec<Report>> {
        let mut child = Command::new(env::current_exe()?)
            .arg(SUBCOMMAND)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        // Kept open: its end is the child's.
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
            let outcome = Outcome::Failed(format!("the measuring process ended early: {status}"));
            reports.push(Report { cell: cell.id.clone(), outcome });
        }
        Ok(reports)
    }

    /// The other cells of the step `cells` that have operations.
    pub fn operations(cells: &[Cell]) -> impl Iterator<Item = &Cell> {
        cells.iter().filter(|cell| cell.workload.step == Step::Operations)
    }
}

/// The child's side: measures the job that standard input tells.
pub fn child() -> io::Result<()> {
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    let job: Job = serde_json::from_str(&line)?;
    let directory = job.directory.clone();
    thread::spawn(move || {
        // Nothing follows the job, so this waits for the parent's end.
        let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
        stop_server();
        let _ = fs::remove_dir_all(&directory);
        std::process::exit(1);
    });
    let reports = job.measure();
    stop_server();
    let _ = fs::remove_dir_all(&job.directory);
    let mut stdout = io::stdout().lock();
    for report in reports {
        serde_json::to_writer(&mut stdout, &report)?;
        writeln!(stdout)?;
    }
    stdout.flush()
}

/// The server that this process has started, if any.
static SERVER: Mutex<Option<Child>> = Mutex::new(None);

/// Keeps a server, to end it when this process ends before its time.
pub(super) fn keep_server(server: Child) {
    *SERVER.lock().unwrap_or_else(PoisonError::into_inner) = Some(server);
}

/// Takes back the server that was kept.
pub(super) fn take_server() -> Option<Child> {
    SERVER.lock().unwrap_or_else(PoisonError::into_inner).take()
}

fn stop_server() {
    if let Some(mut server) = take_server() {
        let _ = server.kill();
        let _ = server.wait();
    }
}

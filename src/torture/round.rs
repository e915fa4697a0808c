//! One round of a crash test: a store from its first start through its injected faults.

use super::{
    allowed_loss::AllowedLoss,
    disk::Cut,
    history::{History, ObservedValue, SubjectCapabilities},
    load_client::{self, ClientOutcome, Load},
    options::{Mode, Options, Subject},
    server::Server,
    test_directory::{FAILURE_FILE, TestDirectory},
};
use crate::interrupt;
use rand::{Rng, SeedableRng, rngs::SmallRng, seq::IndexedRandom};
use std::{
    any::Any,
    io,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

/// Maximum number of kills or power cuts of a round under load. There may be one more before each, while the store
/// opens.
const MAX_CRASHES: u32 = 3;

/// Name of the file with the output of the server in the directory of a round.
pub(super) const LOG: &str = "server.log";

/// Result of one round of a crash test.
#[derive(Default)]
pub(super) struct Outcome {
    pub faults_injected: u64,
    pub acknowledged: u64,
    pub refused: u64,
    pub lost: u64,
    /// Longest time from the acknowledgement of a lost write to the kill or power cut.
    pub oldest: Option<Duration>,
    /// Recovery time of each start after a kill or power cut.
    pub reopen: Vec<Duration>,
    /// `true` if the server answered its first requests, or if a fault was injected before that.
    pub has_started: bool,
    /// Description of the failure that ended the round; `None` if it passed.
    pub fault: Option<String>,
}

/// Data that the server holds after a start, as read by a client.
struct Found {
    /// Values of each client's keys, `None` for absent keys.
    clients: Vec<Vec<Option<ObservedValue>>>,
    keys: Option<u64>,
}

pub(super) struct Round<'a> {
    options: &'a Options,
    subject: &'a Subject,
    mode: Mode,
    rng: SmallRng,
    place: TestDirectory,
    log: PathBuf,
    histories: Vec<History>,
    /// Acknowledged writes that the kills and power cuts since the last successful check may have lost.
    promise: AllowedLoss,
    /// Time from the start of the load to the last kill or power cut under load.
    fault_at: Duration,
    /// Description of the last kill or power cut, for messages.
    last: String,
    outcome: Outcome,
}

/// Executes a round of a crash test, and returns its result. Removes its directory if the round passed, keeps it if the
/// round failed.
pub(super) fn play(
    options: &Options,
    subject: &Subject,
    mode: Mode,
    seed: u64,
    directory: &Path,
) -> io::Result<Outcome> {
    let mut round = Round::new(options, subject, mode, seed, directory)?;
    let ended = round.run();
    let Round { mut place, mut outcome, last, .. } = round;
    match ended {
        Ok(()) => place.remove()?,
        Err(fault) => {
            let mut fault = format!("{last}: {fault}");
            // The failure must be reported also if its files cannot be written.
            let written = std::fs::write(directory.join(FAILURE_FILE), format!("{fault}\n"));
            if let Err(error) = place.keep().and(written) {
                fault.push_str(&format!("\nthe files of the round are incomplete: {error}"));
            }
            outcome.fault = Some(fault);
        }
    }
    Ok(outcome)
}

impl<'a> Round<'a> {
    fn new(
        options: &'a Options,
        subject: &'a Subject,
        mode: Mode,
        seed: u64,
        directory: &Path,
    ) -> io::Result<Self> {
        let mut rng = SmallRng::seed_from_u64(seed);
        let histories = (0..options.clients).map(|client| History::new(client, rng.random())).collect();
        Ok(Self {
            options,
            subject,
            mode,
            place: TestDirectory::new(mode, directory)?,
            log: directory.join(LOG),
            histories,
            promise: AllowedLoss::Nothing,
            fault_at: Duration::ZERO,
            last: "before the first fault".into(),
            outcome: Outcome::default(),
            rng,
        })
    }

    /// Executes the round. After SIGINT or SIGTERM it ends without an error, and injects no other fault.
    fn run(&mut self) -> Result<(), String> {
        for number in 0..self.rng.random_range(1..=MAX_CRASHES) {
            if interrupt::received().is_some() {
                return Ok(());
            }
            if self.interrupts_next_start() {
                self.inject_fault_during_start()?;
            }
            let server = self.start_and_look()?;
            if number == 0 && !self.subject.is_ours {
                self.place.settle();
            }
            self.load_and_inject_fault(server)?;
        }
        self.start_and_look().map(drop)
    }

    /// Returns `true` if the round also injects a fault into the next start: a first start, or the recovery from the
    /// previous fault. A third of the starts of kvbench are interrupted, and no start of another program.
    fn interrupts_next_start(&mut self) -> bool {
        self.subject.is_ours && self.rng.random_range(0..3) == 0
    }

    fn spawn(&self) -> Result<Server, String> {
        Server::spawn(self.subject, &self.place.data(), &self.log)
    }

    /// Starts the server and checks its data. A store whose loss bound is everything may fail to open or to read
    /// its data; it then starts again with an empty directory.
    fn start_and_look(&mut self) -> Result<Server, String> {
        let first = self.start().and_then(|server| Ok((self.find(&server)?, server)));
        let (found, server) = match first {
            Err(_) if self.promise == AllowedLoss::Anything => {
                self.place.wipe().map_err(|error| error.to_string())?;
                let server = self.start()?;
                (self.find(&server)?, server)
            }
            first => first?,
        };
        self.judge(&found)?;
        Ok(server)
    }

    /// Starts the server, waits until it is ready, and records the recovery time.
    fn start(&mut self) -> Result<Server, String> {
        /// Number of ports to try: another process can take one before the server does.
        const PORTS: usize = 5;
        let mut tried = 0;
        let (begin, server) = loop {
            let begin = Instant::now();
            let mut server = self.spawn()?;
            tried += 1;
            match server.wait_until_ready() {
                Ok(()) => break (begin, server),
                Err(_) if tried < PORTS && server.found_port_taken() => {}
                Err(error) => return Err(error),
            }
        };
        if self.outcome.faults_injected > 0 {
            self.outcome.reopen.push(begin.elapsed());
        } else if !self.subject.is_ours {
            self.learn_skills(&server).map_err(|error| format!("the first requests: {error}"))?;
        }
        self.outcome.has_started = true;
        Ok(server)
    }

    /// Restricts the requests to those that the program under test supports.
    fn learn_skills(&mut self, server: &Server) -> io::Result<()> {
        let capabilities = load_client::capabilities(&mut load_client::connect(server.port)?)?;
        self.histories.iter_mut().for_each(|history| history.capabilities = capabilities);
        Ok(())
    }

    /// Reads the values of all keys of all clients from the restarted server, and asks it for its number of keys. The
    /// error is a text.
    fn find(&self, server: &Server) -> Result<Found, String> {
        let mut connection = load_client::connect(server.port).map_err(|error| error.to_string())?;
        let look =
            |history: &History| load_client::look(&mut connection, history.client, history.capabilities);
        let clients = self.histories.iter().map(look).collect::<Result<_, _>>()?;
        let capabilities =
            self.histories.first().map_or(SubjectCapabilities::ALL, |history| history.capabilities);
        Ok(Found { clients, keys: load_client::count(&mut connection, capabilities) })
    }

    /// Compares all keys with the histories of their clients, and adds the lost writes to the result of the round.
    /// Fails with the differences that are not allowed. Otherwise, nothing may be lost until the next fault.
    fn judge(&mut self, found: &Found) -> Result<(), String> {
        let (mut keys, mut faults) = (0, Vec::new());
        for (history, found) in self.histories.iter_mut().zip(&found.clients) {
            keys += found.iter().flatten().count() as u64;
            let verdict = history.settle(found, self.promise, self.fault_at);
            self.outcome.acknowledged += verdict.acknowledged;
            self.outcome.lost += verdict.lost;
            self.outcome.oldest = self.outcome.oldest.max(verdict.oldest);
            faults.extend(verdict.faults);
        }
        if let Some(all) = found.keys
            && all != keys
            && self.promise != AllowedLoss::Anything
        {
            faults.push(format!("DBSIZE says {all} keys, of which the clients know {keys}"));
        }
        if !faults.is_empty() {
            return Err(faults.join("\n"));
        }
        self.promise = AllowedLoss::Nothing;
        Ok(())
    }

    fn inject_fault_during_start(&mut self) -> Result<(), String> {
        let server = self.spawn()?;
        let time = Duration::from_micros(self.rng.random_range(500..25_000));
        thread::sleep(time);
        self.inject_fault(server, &format!("{} us after a start", time.as_micros()))
    }

    fn load_and_inject_fault(&mut self, mut server: Server) -> Result<(), String> {
        let troubled = matches!(self.mode, Mode::Full | Mode::Eio);
        let load = Load {
            begin: Instant::now(),
            fault_injected: AtomicBool::new(false),
            may_refuse: troubled,
            may_end: troubled && !self.subject.is_ours,
        };
        let rngs: Vec<_> = self.histories.iter().map(|_| SmallRng::from_rng(&mut self.rng)).collect();
        let mut side = SmallRng::from_rng(&mut self.rng);
        let mut histories = std::mem::take(&mut self.histories);
        let port = server.port;
        let (outcomes, injected) = thread::scope(|scope| {
            let load = &load;
            let clients: Vec<_> = histories
                .iter_mut()
                .zip(rngs)
                .map(|(history, mut rng)| {
                    scope.spawn(move || load_client::write(port, history, load, &mut rng))
                })
                .collect();
            scope.spawn(move || load_client::rewrite(port, load, &mut side));
            self.let_it_run();
            let ended = server.ended().filter(|_| !load.may_end);
            let ended = ended.map(|status| format!("the server ended ({status}): {}", server.last_words()));
            load.fault_injected.store(true, Ordering::SeqCst);
            self.fault_at = load.begin.elapsed();
            let when = format!("{} ms into the load", self.fault_at.as_millis());
            let injected = self.inject_fault(server, &when).and(ended.map_or(Ok(()), Err));
            let outcomes: Vec<_> = clients.into_iter().map(|client| joined(client.join())).collect();
            (outcomes, injected)
        });
        self.histories = histories;
        injected?;
        self.outcome.refused += outcomes.iter().map(|client| client.refused).sum::<u64>();
        outcomes.into_iter().find_map(|ClientOutcome { fault, .. }| fault).map_or(Ok(()), Err)
    }

    /// Lets the load run for a random time, then injects the disk errors of the fault, if it has any, for a while: a
    /// full disk, or failing writes, syncs or both. If the store may lose the last seconds, the load runs longer than
    /// that, since otherwise a larger loss could not be detected.
    fn let_it_run(&mut self) {
        let long = matches!(self.allowed_loss_of(self.mode == Mode::Kill), AllowedLoss::Within(_));
        let range = if long { 3000..5000 } else { 20..500 };
        sleep_until_signal(Duration::from_millis(self.rng.random_range(range)));
        if matches!(self.mode, Mode::Kill | Mode::Power) {
            return;
        }
        match self.mode {
            Mode::Full => self.place.fill(),
            _ => self.place.fail(&mut self.rng),
        }
        thread::sleep(Duration::from_millis(self.rng.random_range(20..300)));
        self.place.stop_errors();
        thread::sleep(Duration::from_millis(self.rng.random_range(0..200)));
    }

    fn allowed_loss_of(&self, is_kill: bool) -> AllowedLoss {
        if is_kill { self.subject.kill } else { self.subject.power_cut }
    }

    /// Allows the loss of a kill or power cut, in addition to that of the faults since the last successful check.
    fn allow_loss(&mut self, is_kill: bool) {
        self.promise = self.promise.max(self.allowed_loss_of(is_kill));
    }

    /// Kills the server, or cuts the power of its disk, kills the server and mounts the disk again with what is left on
    /// it. `when` describes the time, for messages.
    fn inject_fault(&mut self, server: Server, when: &str) -> Result<(), String> {
        self.outcome.faults_injected += 1;
        self.outcome.has_started = true;
        let number = self.outcome.faults_injected;
        let is_kill = match self.mode {
            Mode::Kill => true,
            Mode::Power | Mode::Eio => false,
            Mode::Full => self.rng.random(),
        };
        self.allow_loss(is_kill);
        if is_kill {
            self.last = format!("after fault {number}, a kill {when}");
            drop(server);
            self.place.record_contents();
            return Ok(());
        }
        let cut = self.options.cuts.choose(&mut self.rng).copied().unwrap_or(Cut::Drop);
        self.last = format!("after fault {number}, a power cut ({cut:?}) {when}");
        self.place.cut(cut, &mut self.rng);
        drop(server);
        self.place.power_on().map_err(|error| format!("cannot mount the disk again: {error}"))
    }
}

/// Waits for `time`, or until SIGINT or SIGTERM is received.
fn sleep_until_signal(time: Duration) {
    const STEP: Duration = Duration::from_millis(20);
    let end = Instant::now() + time;
    while interrupt::received().is_none() && Instant::now() < end {
        thread::sleep(STEP.min(end.saturating_duration_since(Instant::now())));
    }
}

/// Returns the result of a load client whose thread has ended. A client that panicked has checked nothing since, so its
/// panic is a failure.
fn joined(outcome: thread::Result<ClientOutcome>) -> ClientOutcome {
    let text = |payload: Box<dyn Any + Send>| {
        let text = payload.downcast_ref::<&str>().map(ToString::to_string);
        let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
        format!("a load client panicked: {}", text.unwrap_or_default())
    };
    outcome.unwrap_or_else(|payload| ClientOutcome { refused: 0, fault: Some(text(payload)) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic;

    #[test]
    fn load_client_that_panics_fails_its_round() {
        let ended = |client: fn() -> ClientOutcome| joined(thread::spawn(client).join());
        assert_eq!(ended(ClientOutcome::default).fault, None);
        let refused = || ClientOutcome { refused: 3, fault: None };
        assert_eq!(ended(refused).refused, 3);
        let expected = Some("a load client panicked: no history of key 7".to_owned());
        assert_eq!(ended(|| panic!("no history of key 7")).fault, expected);
        assert_eq!(ended(|| panic::panic_any("no history of key 7".to_owned())).fault, expected);
    }

    #[test]
    fn failure_of_a_round_is_reported_if_its_files_cannot_be_kept() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join(FAILURE_FILE)).unwrap();
        let options = Options { clients: 0, ..Options::for_tests(dir.path()) };
        let subject = Subject { program: "/nosuch".into(), is_ours: false, ..Subject::for_tests() };
        let outcome = play(&options, &subject, Mode::Kill, 1, dir.path()).unwrap();
        let fault = outcome.fault.unwrap();
        assert!(fault.contains("cannot start /nosuch") && fault.contains("are incomplete: "), "{fault}");
    }

    /// Returns the number of interrupted starts of 20 rounds, one with each of the seeds 0 to 19.
    fn interrupted_starts(subject: &Subject) -> usize {
        let dir = tempfile::tempdir().unwrap();
        let options = Options { clients: 0, ..Options::for_tests(dir.path()) };
        let round = |seed| Round::new(&options, subject, Mode::Kill, seed, dir.path()).unwrap();
        (0..20).filter(|seed| round(*seed).interrupts_next_start()).count()
    }

    #[test]
    fn only_some_starts_and_only_of_kvbench_are_interrupted() {
        let interrupted = interrupted_starts(&Subject::for_tests());
        assert!((1..20).contains(&interrupted), "{interrupted}");
        assert_eq!(interrupted_starts(&Subject { is_ours: false, ..Subject::for_tests() }), 0);
    }

    #[test]
    fn number_of_keys_that_the_clients_do_not_know_is_a_failure() {
        let dir = tempfile::tempdir().unwrap();
        let options = Options { clients: 0, ..Options::for_tests(dir.path()) };
        let subject = Subject::for_tests();
        let mut round = Round::new(&options, &subject, Mode::Kill, 1, dir.path()).unwrap();
        let found = |keys| Found { clients: Vec::new(), keys };
        let fault = round.judge(&found(Some(1))).unwrap_err();
        assert!(fault.contains("DBSIZE says 1 keys"), "{fault}");
        // The server does not count its keys.
        round.judge(&found(None)).unwrap();
    }

    #[test]
    fn a_kill_after_a_power_cut_does_not_reduce_the_allowed_loss_before_a_check() {
        let dir = tempfile::tempdir().unwrap();
        let options = Options { clients: 0, ..Options::for_tests(dir.path()) };
        let subject = Subject { power_cut: AllowedLoss::Tail, ..Subject::for_tests() };
        let mut round = Round::new(&options, &subject, Mode::Kill, 1, dir.path()).unwrap();
        for faults in [[false, true], [true, false]] {
            faults.into_iter().for_each(|is_kill| round.allow_loss(is_kill));
            assert_eq!(round.promise, AllowedLoss::Tail);
            round.judge(&Found { clients: Vec::new(), keys: Some(0) }).unwrap();
            assert_eq!(round.promise, AllowedLoss::Nothing);
        }
    }
}

//! Requests to the node that has a slot, wherever that is by then.
//!
//! The client of the cluster that the library has is not used, only its connections: it sends requests again whose
//! answer is missing, and splits those about several slots. Here a write is sent once.

use super::{
    info::NAME,
    key_encoding::Keys,
    login::Login,
    node::{NoReply, Node, Refusal, Sent, text},
    scripts::COMMIT,
    slots::Slots,
};
use crate::engine::{Error, Result};
use redis::{Value, cmd};
use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock},
    thread,
    time::{Duration, Instant},
};

/// From the first request on that a node does not answer, others wait for so long for it or its replica.
pub(super) const OUTAGE_LIMIT: Duration = Duration::from_secs(10);

/// Between two attempts.
const PAUSE: Duration = Duration::from_millis(50);

/// The nodes are not asked again for so long where slots are.
const FRESH: Duration = Duration::from_millis(200);

/// Redirections that are followed at once.
pub(super) const REDIRECTIONS: usize = 5;

/// What a request does.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    /// Nothing: it may be sent again.
    None,
    /// It writes: whether it was carried out is unknown when there is no answer.
    Writes,
}

/// An answer that is no redirection, and who has sent the last ASK before.
pub(super) struct Answer {
    pub value: std::result::Result<Value, Refusal>,
    pub moving: Option<Arc<str>>,
}

/// Where a request has been.
struct Path {
    slot: u16,
    /// Who has told by ASK to have the key.
    asking: Option<Arc<str>>,
    /// Who has sent the last ASK.
    moving: Option<Arc<str>>,
    redirections: usize,
}

pub(super) struct Cluster {
    pub keys: Keys,
    /// By what name the nodes know the script that commits.
    pub commit: String,
    login: Arc<Login>,
    slots: RwLock<Slots>,
    nodes: Mutex<HashMap<Arc<str>, Arc<Node>>>,
    /// Since when nodes have not answered.
    silent: Mutex<HashMap<Arc<str>, Instant>>,
    /// When it was last asked where slots are.
    asked: Mutex<Option<Instant>>,
}

/// Nothing can panic half-way while one of these is held.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn unavailable(detail: impl ToString) -> Error {
    Error::Unavailable { engine: NAME, detail: detail.to_string() }
}

impl Cluster {
    /// Asks these nodes for the others.
    pub fn open(seeds: &[String], keys: Keys, login: Login) -> Result<Self> {
        let mut cluster = Self {
            keys,
            commit: String::new(),
            login: Arc::new(login),
            slots: RwLock::default(),
            nodes: Mutex::default(),
            silent: Mutex::default(),
            asked: Mutex::default(),
        };
        for seed in seeds {
            cluster.node(&seed.as_str().into());
        }
        cluster.refresh().map_err(|cause| {
            let (place, running) =
                (seeds.join(","), if cause.contains("--cluster-") { "" } else { "; is it running?" });
            Error::library(NAME, format!("no cluster answers at --nodes {place}: {cause}{running}"))
        })?;
        cluster.commit = cluster.load_script()?;
        Ok(cluster)
    }

    /// Has a node keep the script that commits; others get it when they do not know it.
    fn load_script(&self) -> Result<String> {
        let request = cmd("SCRIPT").arg("LOAD").arg(COMMIT).get_packed_command();
        let answer = self.call(self.keys.slots().start, &request, Effect::None)?;
        text(&answer).ok_or_else(|| unavailable(format!("a node answered {answer:?} to SCRIPT LOAD")))
    }

    pub fn node(&self, address: &Arc<str>) -> Arc<Node> {
        let mut nodes = lock(&self.nodes);
        nodes
            .entry(address.clone())
            .or_insert_with(|| Arc::new(Node::new(address.clone(), self.login.clone())))
            .clone()
    }

    /// The masters.
    pub fn masters(&self) -> Vec<Arc<Node>> {
        let masters = self.slots.read().unwrap_or_else(PoisonError::into_inner).masters();
        masters.iter().map(|address| self.node(address)).collect()
    }

    pub fn owner(&self, slot: u16) -> Option<Arc<str>> {
        self.slots.read().unwrap_or_else(PoisonError::into_inner).owner(slot)
    }

    /// Asks where slots are, unless it was just done. On an error nothing is changed.
    fn refresh(&self) -> std::result::Result<(), String> {
        let mut asked = lock(&self.asked);
        if asked.is_some_and(|asked| asked.elapsed() < FRESH) {
            return Ok(());
        }
        let mut nodes: Vec<_> = lock(&self.nodes).values().cloned().collect();
        let silent: Vec<_> = lock(&self.silent).keys().cloned().collect();
        nodes.sort_by_key(|node| silent.contains(node.address()));
        let mut cause = String::from("there is none");
        for node in nodes {
            match fetch_slots(&node) {
                Ok(slots) => {
                    for other in &slots.nodes {
                        self.node(other);
                    }
                    *self.slots.write().unwrap_or_else(PoisonError::into_inner) = slots;
                    *asked = Some(Instant::now());
                    return Ok(());
                }
                Err(words) => cause = words,
            }
        }
        *asked = Some(Instant::now());
        Err(cause)
    }

    /// Waits before another attempt, after one that `at` did not answer or refused for now.
    pub fn pause(&self, at: &Arc<str>, cause: String) -> Result<()> {
        let since = *lock(&self.silent).entry(at.clone()).or_insert_with(Instant::now);
        if since.elapsed() > OUTAGE_LIMIT {
            // Those that follow find out whether something has changed.
            let _old_ones = self.refresh();
            return Err(unavailable(cause));
        }
        thread::sleep(PAUSE);
        if let Err(error) = self.refresh() {
            log::debug!("{NAME}: nobody tells where slots are: {error}");
        }
        Ok(())
    }

    /// Sends a request to the master of a slot, and follows it.
    pub fn follow(&self, slot: u16, request: &[u8], effect: Effect) -> Result<Answer> {
        let mut path = Path { slot, asking: None, moving: None, redirections: 0 };
        loop {
            let Some(at) = path.asking.clone().or_else(|| self.owner(slot)) else {
                self.pause(&"".into(), format!("no node has slot {slot}"))?;
                continue;
            };
            let outcome = match path.asking.take() {
                Some(_) => self.node(&at).call(&[ASKING, request].concat(), 2),
                None => self.node(&at).call(request, 1),
            };
            let value = match outcome {
                Ok(mut values) => values.pop().unwrap_or(Value::Nil),
                Err(NoReply::NotAnswered(detail)) if effect == Effect::Writes => {
                    self.note_silence(&at);
                    return Err(Error::Unknown { engine: NAME, detail });
                }
                Err(silence) => {
                    self.pause(&at, silence.message())?;
                    continue;
                }
            };
            let value = match value {
                Value::ServerError(error) => match self.redirect(&mut path, &at, Refusal::of(&error, &at))? {
                    Some(refusal) => Err(refusal),
                    None => continue,
                },
                value => Ok(value),
            };
            self.note_answer(&at);
            return Ok(Answer { value, moving: path.moving });
        }
    }

    /// Goes where a refusal points, or waits until what it says may have passed. Returns one that is final.
    fn redirect(&self, path: &mut Path, at: &Arc<str>, refusal: Refusal) -> Result<Option<Refusal>> {
        path.redirections += 1;
        match refusal {
            Refusal::Moved(to) if path.redirections <= REDIRECTIONS => {
                log::debug!("{NAME}: slot {} is at {to}", path.slot);
                self.move_slot(path.slot, to);
            }
            Refusal::Ask(to) if path.redirections <= REDIRECTIONS => {
                path.moving = Some(at.clone());
                path.asking = Some(to);
            }
            Refusal::Moved(to) | Refusal::Ask(to) => {
                path.redirections = 0;
                self.pause(at, format!("{at} and others send slot {} to {to} and back", path.slot))?;
            }
            Refusal::Later(words) => self.pause(at, words)?,
            refusal => return Ok(Some(refusal)),
        }
        Ok(None)
    }

    pub fn move_slot(&self, slot: u16, to: Arc<str>) {
        self.slots.write().unwrap_or_else(PoisonError::into_inner).set(slot, to);
    }

    /// Notes that a node has not answered a request.
    pub fn note_silence(&self, at: &Arc<str>) {
        lock(&self.silent).entry(at.clone()).or_insert_with(Instant::now);
    }

    /// Returns `true` if a node has not answered the last request.
    fn is_silent(&self, at: &Arc<str>) -> bool {
        lock(&self.silent).contains_key(at)
    }

    pub fn note_answer(&self, at: &Arc<str>) {
        let mut silent = lock(&self.silent);
        if !silent.is_empty() {
            silent.remove(at);
            silent.remove("");
        }
    }

    /// The same for a request that no node refuses in the end.
    pub fn call(&self, slot: u16, request: &[u8], effect: Effect) -> Result<Value> {
        self.follow(slot, request, effect)?.value.map_err(refused)
    }

    /// Requests that change nothing, each about one slot, together: those for one node in one go, unless it did not answer
    /// the last one. Each answer is `None` that needs another attempt.
    pub fn together(&self, requests: &[(u16, Vec<u8>)]) -> Vec<Option<Value>> {
        let mut of_node: BTreeMap<Arc<str>, Vec<usize>> = BTreeMap::new();
        for (index, (slot, _)) in requests.iter().enumerate() {
            if let Some(owner) = self.owner(*slot).filter(|owner| !self.is_silent(owner)) {
                of_node.entry(owner).or_default().push(index);
            }
        }
        let mut answers: Vec<Option<Value>> = requests.iter().map(|_| None).collect();
        let nodes: Vec<_> =
            of_node.into_iter().map(|(owner, indices)| (self.node(&owner), indices)).collect();
        // Each node has its requests before the answers of the first are awaited.
        let sent = nodes.iter().map(|(node, indices)| {
            let mut packed = Vec::new();
            for (_, request) in indices.iter().filter_map(|index| requests.get(*index)) {
                packed.extend_from_slice(request);
            }
            node.send(&packed, indices.len()).ok()
        });
        let sent: Vec<_> = sent.collect();
        for ((node, indices), sent) in nodes.iter().zip(sent) {
            let Some((values, None)) = sent.map(Sent::receive) else {
                self.note_silence(node.address());
                continue;
            };
            self.note_answer(node.address());
            for (index, value) in indices.iter().copied().zip(values) {
                if let Some(answer) = answers.get_mut(index)
                    && !matches!(value, Value::ServerError(_))
                {
                    *answer = Some(value);
                }
            }
        }
        answers
    }
}

/// Where slots are, as a node knows it.
fn fetch_slots(node: &Node) -> std::result::Result<Slots, String> {
    let request = cmd("CLUSTER").arg("SLOTS").get_packed_command();
    let values = node.call(&request, 1).map_err(NoReply::message)?;
    let value = values.first().unwrap_or(&Value::Nil);
    if let Value::ServerError(error) = value {
        let flag = if error.code() == "NOAUTH" { "; give --cluster-password-file" } else { "" };
        let words = error.details().unwrap_or(error.code());
        return Err(format!("{}: {words}{flag}", node.address()));
    }
    Slots::of(value, node.address()).ok_or_else(|| format!("{} knows no slot", node.address()))
}

pub(super) const ASKING: &[u8] = b"*1\r\n$6\r\nASKING\r\n";

/// The error of a refusal that does not pass.
pub(super) fn refused(refusal: Refusal) -> Error {
    match refusal {
        Refusal::Full(detail) => Error::Full { engine: NAME, detail },
        Refusal::NoScript => unavailable("a script is not kept"),
        Refusal::Other(words) if words.contains("WRONGTYPE") => {
            let message = "there is a value under this prefix that kvbench did not write; nothing was written; choose \
                another --prefix";
            Error::Unsupported { engine: NAME, what: message.into() }
        }
        Refusal::Moved(words) | Refusal::Ask(words) => unavailable(words),
        Refusal::Later(words) | Refusal::Other(words) => unavailable(words),
    }
}

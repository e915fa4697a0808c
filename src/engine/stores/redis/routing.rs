//! Routing of requests to the node that has a hash slot, with redirections and retries.
//!
//! The cluster client of the `redis` crate is not used, only its connections: it repeats requests whose reply is
//! missing, and splits requests for several slots. Here a write is executed at most once.

use super::{
    description::NAME,
    key_encoding::Keys,
    login::Login,
    node::{NoReply, Node, Refusal, Sent, text},
    scripts::COMMIT,
    slot_map::Slots,
};
use crate::engine::{Error, Result, mutex::lock};
use redis::{Value, cmd};
use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, PoisonError, RwLock},
    thread,
    time::{Duration, Instant},
};

/// Time limit of retries of a request while nodes do not reply, or reply with temporary errors. It counts from the
/// first such failure of the request, or of any request to the node since its last final reply, if that was earlier.
const OUTAGE_LIMIT: Duration = Duration::from_secs(10);

/// Pause between two attempts to send a request to the cluster.
const RETRY_PAUSE: Duration = Duration::from_millis(50);

/// Minimum time between two refreshes of the slot map from the cluster.
const MIN_REFRESH_INTERVAL: Duration = Duration::from_millis(200);

/// Maximum number of redirections (MOVED, ASK) that a request follows in a row; after one more it pauses before it is
/// sent again.
pub(super) const MAX_REDIRECTIONS: usize = 5;

/// Effect of a request, which decides whether it may be sent twice.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    /// The request changes nothing, and may be sent again.
    None,
    /// The request writes: without a reply, its outcome is unknown.
    Writes,
}

/// Final reply to a request, after redirections and retries.
pub(super) struct Reply {
    pub value: std::result::Result<Value, Refusal>,
    /// Address of the node that has sent the last ASK redirection of the request: the slot migrates from there. `None`
    /// if there was no ASK.
    pub moving: Option<Arc<str>>,
}

/// Destination of a request: its hash slot, and the redirections (MOVED and ASK) that the request has followed.
#[derive(Clone)]
pub(super) struct Route {
    pub slot: u16,
    /// Address of the node to which the last redirection points if that was an ASK; `None` to send to the master of the
    /// slot.
    pub asking: Option<Arc<str>>,
    /// Number of redirections since the start of the request or its last pause.
    redirections: usize,
}

impl Route {
    pub fn new(slot: u16) -> Self {
        Self { slot, asking: None, redirections: 0 }
    }
}

/// Next action for a request that a node has refused.
pub(super) enum Redirected {
    /// Send it again, to the node that its [`Route`] now names.
    SendAgain,
    /// Send it again after a pause, for the reason in this text: a temporary error, or too many redirections.
    Pause(String),
    /// Give up: the refusal is final.
    End(Refusal),
}

/// Connection to a Redis Cluster, with the slot map and the nodes. No code panics while it holds one of the locks.
pub(super) struct Cluster {
    pub keys: Keys,
    /// SHA-1 digest of the script [`COMMIT`], for EVALSHA.
    pub commit: String,
    login: Arc<Login>,
    slots: RwLock<Slots>,
    nodes: Mutex<HashMap<Arc<str>, Arc<Node>>>,
    /// Time of a node's first failure (no reply, or a temporary refusal) since [`Self::note_answer`] was last called
    /// for the node, by the node's address. The empty address stands for slots that no node has.
    silent_since: Mutex<HashMap<Arc<str>, Instant>>,
    /// Time of the last attempt to refresh the slot map.
    last_refresh: Mutex<Option<Instant>>,
}

pub(super) fn unavailable(detail: impl ToString) -> Error {
    Error::Unavailable { engine: NAME, detail: detail.to_string() }
}

impl Cluster {
    /// Connects to a Redis Cluster, and reads the slot map from one of the nodes `seeds`.
    ///
    /// # Errors
    ///
    /// Fails if none of the nodes replies with a slot map, or if the script cannot be loaded.
    pub fn open(seeds: &[String], keys: Keys, login: Login) -> Result<Self> {
        let mut cluster = Self {
            keys,
            commit: String::new(),
            login: Arc::new(login),
            slots: RwLock::default(),
            nodes: Mutex::default(),
            silent_since: Mutex::default(),
            last_refresh: Mutex::default(),
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

    /// Loads the script [`COMMIT`] into one node, and returns its digest. A node that does not know the script gets it
    /// with the first commit.
    fn load_script(&self) -> Result<String> {
        let request = cmd("SCRIPT").arg("LOAD").arg(COMMIT).get_packed_command();
        let answer = self.call(self.keys.slots().start, &request, Effect::None)?;
        text(&answer).ok_or_else(|| unavailable(format!("a node answered {answer:?} to SCRIPT LOAD")))
    }

    /// Returns the node at `address`, without connecting to it. Adds it if it is unknown.
    pub fn node(&self, address: &Arc<str>) -> Arc<Node> {
        let mut nodes = lock(&self.nodes);
        nodes
            .entry(address.clone())
            .or_insert_with(|| Arc::new(Node::new(address.clone(), self.login.clone())))
            .clone()
    }

    /// Returns all masters in the slot map.
    pub fn masters(&self) -> Vec<Arc<Node>> {
        let masters = self.slots.read().unwrap_or_else(PoisonError::into_inner).masters();
        masters.iter().map(|address| self.node(address)).collect()
    }

    /// Returns the address of the master of a slot, or `None` if the slot map has none.
    pub fn owner(&self, slot: u16) -> Option<Arc<str>> {
        self.slots.read().unwrap_or_else(PoisonError::into_inner).owner(slot)
    }

    /// Reads the slot map again from the first node that replies with one; silent nodes are tried last. Does nothing if
    /// that was tried less than [`MIN_REFRESH_INTERVAL`] ago. On an error, whose text is returned, the slot map stays
    /// as it was.
    fn refresh(&self) -> std::result::Result<(), String> {
        let mut last_refresh = lock(&self.last_refresh);
        if last_refresh.is_some_and(|last_refresh| last_refresh.elapsed() < MIN_REFRESH_INTERVAL) {
            return Ok(());
        }
        let mut nodes: Vec<_> = lock(&self.nodes).values().cloned().collect();
        let silent: Vec<_> = lock(&self.silent_since).keys().cloned().collect();
        nodes.sort_by_key(|node| silent.contains(node.address()));
        let mut cause = String::from("there is none");
        for node in nodes {
            match fetch_slots(&node) {
                Ok(slots) => {
                    for other in &slots.nodes {
                        self.node(other);
                    }
                    *self.slots.write().unwrap_or_else(PoisonError::into_inner) = slots;
                    *last_refresh = Some(Instant::now());
                    return Ok(());
                }
                Err(words) => cause = words,
            }
        }
        *last_refresh = Some(Instant::now());
        Err(cause)
    }

    /// Pauses for [`RETRY_PAUSE`] and refreshes the slot map, before a request is sent again that the node `at` did not
    /// answer, refused temporarily, or redirected too often. `cause` is the text of the error that is returned after
    /// the time limit. `since` is the time from which the retries of the request count.
    ///
    /// # Errors
    ///
    /// Fails with [`Error::Unavailable`] [`OUTAGE_LIMIT`] after `since`, or if requests to `at` have failed for that
    /// long without a final reply in between. Without the first limit, a request that a busy node refuses would be
    /// repeated as long as the node answers others.
    pub fn pause(&self, at: &Arc<str>, since: Instant, cause: String) -> Result<()> {
        let silent_since = *lock(&self.silent_since).entry(at.clone()).or_insert_with(Instant::now);
        if since.min(silent_since).elapsed() > OUTAGE_LIMIT {
            // Later requests use the new slot map; this one fails in any case.
            let _best_effort = self.refresh();
            return Err(unavailable(cause));
        }
        thread::sleep(RETRY_PAUSE);
        if let Err(error) = self.refresh() {
            log::debug!("{NAME}: cannot refresh the slot map: {error}");
        }
        Ok(())
    }

    /// Sends a request to the master of `slot`, follows redirections, and returns the final reply.
    ///
    /// # Errors
    ///
    /// Fails with [`Error::Unavailable`] if [`Self::pause`] fails before a node executes the request, and with
    /// [`Error::Unknown`] if a write was sent and got no reply.
    pub fn follow(&self, slot: u16, request: &[u8], effect: Effect) -> Result<Reply> {
        self.follow_since(None, slot, request, effect)
    }

    /// Sends a request like [`Self::follow`]. `failing_since` is the time of its first failure (no reply, a temporary
    /// error, or too many redirections), from which its time limit counts; `None` if there was none yet.
    fn follow_since(
        &self,
        mut failing_since: Option<Instant>,
        slot: u16,
        request: &[u8],
        effect: Effect,
    ) -> Result<Reply> {
        let (mut route, mut moving) = (Route::new(slot), None);
        let mut pause = |at: &Arc<str>, cause: String| {
            self.pause(at, *failing_since.get_or_insert_with(Instant::now), cause)
        };
        loop {
            let Some(at) = route.asking.clone().or_else(|| self.owner(slot)) else {
                route = Route::new(slot);
                pause(&"".into(), format!("no node has slot {slot}"))?;
                continue;
            };
            let outcome = match route.asking.take() {
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
                    route = Route::new(slot);
                    pause(&at, silence.message())?;
                    continue;
                }
            };
            let value = match value {
                Value::ServerError(error) => {
                    let refusal = Refusal::of(&error, &at);
                    if matches!(refusal, Refusal::Ask(_)) {
                        moving = Some(at.clone());
                    }
                    match self.redirect(&mut route, &at, refusal) {
                        Redirected::SendAgain => continue,
                        Redirected::Pause(cause) => {
                            pause(&at, cause)?;
                            continue;
                        }
                        Redirected::End(refusal) => Err(refusal),
                    }
                }
                value => Ok(value),
            };
            self.note_answer(&at);
            return Ok(Reply { value, moving });
        }
    }

    /// Returns the next action for the request of `route` that the node `at` has refused. Records a MOVED in the slot
    /// map, and an ASK in `route`. After a temporary error, and after more than [`MAX_REDIRECTIONS`] redirections, the
    /// request must pause; it then goes to the master of its slot, and its redirections count from 0 again.
    pub fn redirect(&self, route: &mut Route, at: &Arc<str>, refusal: Refusal) -> Redirected {
        let (to, asking) = match refusal {
            Refusal::Moved(to) => {
                log::debug!("{NAME}: slot {} is at {to}", route.slot);
                self.move_slot(route.slot, to.clone());
                (to, None)
            }
            Refusal::Ask(to) => (to.clone(), Some(to)),
            Refusal::Later(words) => {
                *route = Route::new(route.slot);
                return Redirected::Pause(words);
            }
            refusal => return Redirected::End(refusal),
        };
        if route.redirections < MAX_REDIRECTIONS {
            (route.asking, route.redirections) = (asking, route.redirections + 1);
            return Redirected::SendAgain;
        }
        *route = Route::new(route.slot);
        Redirected::Pause(format!("{at} and others send slot {} to {to} and back", route.slot))
    }

    /// Sets the master of `slot` in the slot map to the node at `to`.
    pub fn move_slot(&self, slot: u16, to: Arc<str>) {
        self.slots.write().unwrap_or_else(PoisonError::into_inner).set(slot, to);
    }

    /// Records that the node `at` has not replied to a request. The time of the first one since its last reply is kept.
    pub fn note_silence(&self, at: &Arc<str>) {
        lock(&self.silent_since).entry(at.clone()).or_insert_with(Instant::now);
    }

    /// Returns `true` if a request to the node `at` got no reply, or a temporary refusal, and no request to it has got
    /// a final reply since.
    fn is_silent(&self, at: &Arc<str>) -> bool {
        lock(&self.silent_since).contains_key(at)
    }

    /// Records that the node `at` has replied: earlier failures of its requests no longer count.
    pub fn note_answer(&self, at: &Arc<str>) {
        let mut silent_since = lock(&self.silent_since);
        if !silent_since.is_empty() {
            silent_since.remove(at);
            silent_since.remove("");
        }
    }

    /// Sends a request to the master of `slot`, and follows redirections.
    ///
    /// # Errors
    ///
    /// Fails like [`Self::follow`], and if the final reply is an error.
    pub fn call(&self, slot: u16, request: &[u8], effect: Effect) -> Result<Value> {
        self.follow(slot, request, effect)?.value.map_err(refused)
    }

    /// Sends `requests`, each with its slot, to all nodes at the same time, one pipeline per node. They must not write.
    /// Returns the replies, in the order of the requests; `None` for a request that must be sent again, because its
    /// node is silent or has replied with an error (a redirection, for example).
    pub fn call_each(&self, requests: &[(u16, Vec<u8>)]) -> Vec<Option<Value>> {
        let mut of_node: BTreeMap<Arc<str>, Vec<usize>> = BTreeMap::new();
        for (index, (slot, _)) in requests.iter().enumerate() {
            if let Some(owner) = self.owner(*slot).filter(|owner| !self.is_silent(owner)) {
                of_node.entry(owner).or_default().push(index);
            }
        }
        let mut answers: Vec<Option<Value>> = requests.iter().map(|_| None).collect();
        let nodes: Vec<_> =
            of_node.into_iter().map(|(owner, indices)| (self.node(&owner), indices)).collect();
        // All nodes get their requests before the first reply is awaited.
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

/// Returns the slot map of `node`, or the text of an error.
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

/// Converts a node's error reply, after which the request is not repeated, to an error of the engine.
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

#[cfg(test)]
mod tests {
    use super::{
        super::fake::{FakeNode, Reply as Answer},
        *,
    };

    /// Any hash slot: each fake node has all.
    const SLOT: u16 = 1;

    fn get() -> Vec<u8> {
        cmd("GET").arg("{p}a").get_packed_command()
    }

    /// Replies to other requests, which the node may get at any time, must not extend the time of this one.
    #[test]
    fn request_is_not_repeated_after_its_own_time_limit() {
        let node = FakeNode::start();
        let cluster = node.cluster(b"{p}");
        for (passed, requests) in [(OUTAGE_LIMIT / 2, 2), (OUTAGE_LIMIT * 2, 1)] {
            node.answer([Answer::line("-TRYAGAIN a test")]);
            let before = node.seen().len();
            let since = Instant::now().checked_sub(passed);
            let outcome = cluster.follow_since(since, SLOT, &get(), Effect::None);
            assert_eq!((outcome.is_ok(), node.seen().len() - before), (requests == 2, requests));
            assert!(matches!(outcome, Ok(_) | Err(Error::Unavailable { .. })));
        }
    }

    #[test]
    fn redirection_is_followed_after_many_temporary_errors() {
        for (refusal, seen) in [("MOVED", &["GET {p}a"][..]), ("ASK", &["ASKING", "GET {p}a"])] {
            let (node, other) = (FakeNode::start(), FakeNode::start());
            let cluster = node.cluster(b"{p}");
            node.answer((0..MAX_REDIRECTIONS).map(|_| Answer::line("-TRYAGAIN a test")));
            node.answer([Answer::line(&format!("-{refusal} {SLOT} {}", other.address))]);
            cluster.call(SLOT, &get(), Effect::None).unwrap();
            assert_eq!(
                (node.seen().len(), other.seen()),
                (MAX_REDIRECTIONS + 1, seen.iter().map(ToString::to_string).collect())
            );
        }
    }

    /// After too many redirections the request pauses, and then goes where the last of them pointed.
    #[test]
    fn last_redirection_before_a_pause_changes_the_slot_map() {
        let (node, other) = (FakeNode::start(), FakeNode::start());
        let cluster = node.cluster(b"{p}");
        for (from, to) in [(&node, &other), (&other, &node)] {
            let moved = format!("-MOVED {SLOT} {}", to.address);
            from.answer((0..3).map(|_| Answer::line(&moved)));
        }
        cluster.call(SLOT, &get(), Effect::None).unwrap();
        assert_eq!((node.seen().len(), other.seen().len()), (4, 3));
        assert_eq!(cluster.owner(SLOT).as_deref(), Some(node.address.as_str()));
    }
}

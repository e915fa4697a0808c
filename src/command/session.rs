//! State of one connection that commands can read and change.

use super::{
    server_state::ServerState,
    state::{
        client_registry::{Client, ClientRegistration},
        monitor_hub::MonitorFeed,
    },
};
use crate::{resp::Reply, store::Database};
use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

/// Action of the connection after the reply to a request was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AfterReply {
    /// The connection reads the next request.
    #[default]
    Continue,
    /// The connection is closed (QUIT).
    Close,
    /// The server stops, without a reply to this request (SHUTDOWN).
    Shutdown,
}

/// Mode that selects the requests that get a reply (CLIENT REPLY).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReplyMode {
    /// All requests of the connection get a reply (CLIENT REPLY ON).
    #[default]
    On,
    /// No request of the connection gets a reply (CLIENT REPLY OFF).
    Off,
    /// The current request is CLIENT REPLY SKIP: the next one gets no reply, the later ones do.
    SkipNext,
    /// The current request follows CLIENT REPLY SKIP: it gets no reply, the later ones do.
    Skip,
}

/// Wait that WAIT or WAITAOF has requested: its condition and its time limit.
#[derive(Clone, Copy, Debug)]
pub struct WaitRequest {
    /// Maximum time to wait. Zero: WAITAOF waits for the sync without a limit, and WAIT does not wait at all,
    /// because there are no replicas and the wait would never end.
    pub time: Duration,
    /// `true` if the writes so far must be synced (WAITAOF).
    pub sync: bool,
    /// `true` if the client waits for replicas; there are none, so the whole time passes.
    pub for_replicas: bool,
}

impl WaitRequest {
    /// Writes the reply to WAITAOF: the number of servers that have synced, this one (1 if `is_synced`) and replicas
    /// (0).
    pub fn answer(is_synced: bool, reply: &mut Reply) {
        reply.array(2);
        reply.integer(is_synced.into());
        // There are no replicas.
        reply.integer(0);
    }
}

/// State of one connection that its commands can read and change.
#[derive(Debug)]
pub struct Session {
    member: ClientRegistration,
    /// `true` if the client may use all commands, also after a new password is set: it has authenticated, or the server
    /// had no password when the client connected or sent RESET.
    pub authenticated: bool,
    /// Database selected by the client.
    pub space: Database,
    /// Action of the connection after the current reply.
    pub after: AfterReply,
    /// Mode that selects the requests of the connection that get a reply (CLIENT REPLY).
    pub replies: ReplyMode,
    /// `true` if the connection must discard its transaction and unwatch its keys (RESET).
    pub discard_transaction: bool,
    /// Wait before the next request, set by WAIT and WAITAOF.
    pub wait: Option<WaitRequest>,
    /// Delay of the reply to the current request, and of the requests that follow (DEBUG SLEEP).
    pub sleep: Option<Duration>,
    /// Requests of other clients, if this client has sent MONITOR.
    pub feed: Option<MonitorFeed>,
}

pub(super) const BAD_NAME: &str = "ERR Client names cannot contain spaces, newlines or special characters.";

/// Returns `name` if it is printable ASCII without spaces, otherwise `None`; the empty name is valid and removes the
/// name.
pub(super) fn client_name(name: &[u8]) -> Option<Box<str>> {
    let name = str::from_utf8(name).ok()?;
    name.bytes().all(|byte| byte.is_ascii_graphic()).then(|| name.into())
}

impl Session {
    /// Registers a new connection from the address `peer` to the address `local`, and creates its state.
    pub fn new(id: u64, peer: Box<str>, local: Box<str>, context: &ServerState) -> Self {
        Self {
            member: context.clients.enter(id, peer, local),
            authenticated: context.live.password().is_none(),
            space: Database::default(),
            after: AfterReply::Continue,
            replies: ReplyMode::On,
            discard_transaction: false,
            wait: None,
            sleep: None,
            feed: None,
        }
    }

    /// Returns the part of the connection's state that other connections can see.
    pub fn client(&self) -> &Arc<Client> {
        &self.member.client
    }

    pub(super) fn set_name(&self, name: &[u8]) -> Result<(), Vec<u8>> {
        self.client().labels().name = client_name(name).ok_or(BAD_NAME)?;
        Ok(())
    }

    pub(super) fn set_info(&self, attribute: &[u8], value: &[u8]) -> Result<(), Vec<u8>> {
        let mut labels = self.client().labels();
        let (field, name) = if attribute.eq_ignore_ascii_case(b"lib-name") {
            (&mut labels.lib_name, "lib-name")
        } else if attribute.eq_ignore_ascii_case(b"lib-ver") {
            (&mut labels.lib_version, "lib-ver")
        } else {
            return Err([b"ERR Unrecognized option '", attribute, b"'"].concat());
        };
        let refusal = || format!("ERR {name} cannot contain spaces, newlines or special characters.");
        *field = client_name(value).ok_or_else(refusal)?;
        Ok(())
    }

    pub(super) fn stop_monitor(&mut self) {
        self.feed = None;
        self.client().monitors.store(false, Ordering::Relaxed);
    }
}

//! State shared by the threads of a server, and the channels between the threads.

use super::{access_control::Access, commit_request::CommitRequest};
use crate::{
    command::{CommandTable, ServerState},
    store::CommitQueue,
};
use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::sync::{Notify, mpsc};

/// State shared by all threads of a server.
pub(super) struct Shared {
    pub context: Arc<ServerState>,
    /// Commands that are enabled on this server.
    pub commands: CommandTable,
    pub access: Access,
    pub keepalive: Option<Duration>,
    pub queue: CommitQueue<CommitRequest>,
    /// Queue of read requests for the threads that read for all connections, if reads wait for the network; otherwise
    /// unused.
    pub reads: CommitQueue<CommitRequest>,
    pub inboxes: Vec<Mailbox>,
    /// Held by the one WAITAOF whose sync runs on a blocking thread, until that sync ends.
    pub waitaof_sync: Arc<tokio::sync::Mutex<()>>,
    /// Notified when a client has requested SHUTDOWN.
    pub shutdown: Notify,
}

impl Shared {
    /// Hands commit requests that were executed back to the workers of their connections, waking each worker once.
    pub fn deliver(&self, group: &mut Vec<CommitRequest>) {
        let mut woken = vec![false; self.inboxes.len()];
        for request in group.drain(..) {
            let Some(worker) = request.reply_to.as_ref().map(|reply_to| reply_to.worker) else { continue };
            if let (Some(inbox), Some(is_woken)) = (self.inboxes.get(worker), woken.get_mut(worker)) {
                inbox.add(request);
                *is_woken = true;
            }
        }
        self.inboxes
            .iter()
            .zip(woken)
            .filter(|(_, is_woken)| *is_woken)
            .for_each(|(inbox, _)| inbox.notify());
    }
}

/// Accepted connection that is sent to its worker.
pub(super) enum AcceptedStream {
    /// Connection accepted over TCP without TLS, with the address of the client.
    Tcp(std::net::TcpStream, SocketAddr),
    /// Connection accepted on the TLS port, before its handshake, with the address of the client.
    Tls(std::net::TcpStream, SocketAddr),
    /// Connection accepted on the Unix socket, with the path of that socket.
    Unix(std::os::unix::net::UnixStream, Box<str>),
}

/// Channels to the workers, one for each, through which accepted connections are sent with their numbers.
pub(super) type ConnectionSenders = Vec<mpsc::UnboundedSender<(u64, AcceptedStream)>>;

/// Queue of commit requests that other threads have executed for the connections of one worker.
#[derive(Default)]
pub(super) struct Mailbox {
    done: Mutex<Vec<CommitRequest>>,
    ready: Notify,
}

impl Mailbox {
    /// Adds a commit request that was executed. [`Mailbox::notify`] then wakes the worker once for all added ones.
    pub fn add(&self, request: CommitRequest) {
        self.done.lock().unwrap_or_else(PoisonError::into_inner).push(request);
    }

    /// Wakes the worker, which then takes the added commit requests.
    pub fn notify(&self) {
        self.ready.notify_one();
    }

    /// Waits for [`Mailbox::notify`], and moves the added commit requests to `done`.
    pub async fn take(&self, done: &mut Vec<CommitRequest>) {
        self.ready.notified().await;
        done.append(&mut self.done.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

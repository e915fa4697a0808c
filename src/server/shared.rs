//! What the threads of a server share, and how they hand things to each other.

use super::{access_control::Access, request_batch::RequestBatch};
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

/// What all threads of a server see.
pub(super) struct Shared {
    pub context: Arc<ServerState>,
    /// Those that are not disabled.
    pub commands: CommandTable,
    pub access: Access,
    pub keepalive: Option<Duration>,
    pub queue: CommitQueue<Box<RequestBatch>>,
    /// Reads that are carried out together, where there are slots.
    pub reads: CommitQueue<Box<RequestBatch>>,
    pub inboxes: Vec<Mailbox>,
    pub shutdown: Notify,
}

impl Shared {
    pub fn request_shutdown(&self) {
        self.shutdown.notify_one();
    }

    /// Returns a committed group to the workers of its connections, waking each worker once.
    pub fn deliver(&self, group: &mut Vec<Box<RequestBatch>>) {
        let mut ring = vec![false; self.inboxes.len()];
        for exchange in group.drain(..) {
            let Some(worker) = exchange.home.as_ref().map(|home| home.worker) else { continue };
            if let (Some(inbox), Some(ring)) = (self.inboxes.get(worker), ring.get_mut(worker)) {
                inbox.add(exchange);
                *ring = true;
            }
        }
        self.inboxes.iter().zip(ring).filter(|(_, ring)| *ring).for_each(|(inbox, _)| inbox.notify());
    }
}

/// A connection on its way to its worker.
pub(super) enum AcceptedStream {
    /// Accepted over TCP.
    Tcp(std::net::TcpStream, SocketAddr),
    /// Accepted on the port for TLS.
    Tls(std::net::TcpStream, SocketAddr),
    /// Accepted on the Unix socket, whose path it is.
    Unix(std::os::unix::net::UnixStream, Box<str>),
}

/// Where connections go to their workers, with their numbers.
pub(super) type ConnectionSenders = Vec<mpsc::UnboundedSender<(u64, AcceptedStream)>>;

/// Where other threads leave what they have done for a worker's connections.
#[derive(Default)]
pub(super) struct Mailbox {
    done: Mutex<Vec<Box<RequestBatch>>>,
    ready: Notify,
}

impl Mailbox {
    /// Adds committed work; `ring` wakes the worker once for all of it.
    pub fn add(&self, exchange: Box<RequestBatch>) {
        self.done.lock().unwrap_or_else(PoisonError::into_inner).push(exchange);
    }

    /// Wakes the worker.
    pub fn notify(&self) {
        self.ready.notify_one();
    }

    /// Waits for the ring, and moves what was added to `done`.
    pub async fn take(&self, done: &mut Vec<Box<RequestBatch>>) {
        self.ready.notified().await;
        done.append(&mut self.done.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

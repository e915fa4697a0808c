//! State shared by the threads of a server, and the channels between the threads.

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

/// State shared by all threads of a server.
pub(super) struct Shared {
    pub context: Arc<ServerState>,
    /// Commands that are enabled.
    pub commands: CommandTable,
    pub access: Access,
    pub keepalive: Option<Duration>,
    pub queue: CommitQueue<Box<RequestBatch>>,
    /// Requests for the threads that read for all connections, if reads wait for the network.
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

/// Accepted connection that is sent to its worker.
pub(super) enum AcceptedStream {
    /// Connection accepted over TCP.
    Tcp(std::net::TcpStream, SocketAddr),
    /// Connection accepted on the TLS port.
    Tls(std::net::TcpStream, SocketAddr),
    /// Connection accepted on the Unix socket, with the path of that socket.
    Unix(std::os::unix::net::UnixStream, Box<str>),
}

/// Channels to the workers, for accepted connections and their numbers.
pub(super) type ConnectionSenders = Vec<mpsc::UnboundedSender<(u64, AcceptedStream)>>;

/// Queue of request batches that other threads have executed for the connections of one worker.
#[derive(Default)]
pub(super) struct Mailbox {
    done: Mutex<Vec<Box<RequestBatch>>>,
    ready: Notify,
}

impl Mailbox {
    /// Adds an executed request batch. [`Mailbox::notify`] then wakes the worker once for all added batches.
    pub fn add(&self, exchange: Box<RequestBatch>) {
        self.done.lock().unwrap_or_else(PoisonError::into_inner).push(exchange);
    }

    /// Wakes the worker.
    pub fn notify(&self) {
        self.ready.notify_one();
    }

    /// Waits for [`Mailbox::notify`], and moves the added batches to `done`.
    pub async fn take(&self, done: &mut Vec<Box<RequestBatch>>) {
        self.ready.notified().await;
        done.append(&mut self.done.lock().unwrap_or_else(PoisonError::into_inner));
    }
}
